"""The builder that emits what an instruction does to definedness: registers and memory are replaced by their shadows.

Run under this builder, the emitter of a memory or lane-exchange instruction moves shadows as it would move data.
Operands that say where (addresses, offsets, lane numbers) keep their values; constants are defined.
"""

from __future__ import annotations

import re

from ckmlir.sim import state
from ckmlir.sim.checks import layout
from ckmlir.sim.element import U32
from ckmlir.sim.handler import HandlerBuilder, HandlerKey
from ckmlir.sim.llvm_builder import FunctionText
from ckmlir.sim.state import LANES

# What is not data, or counts as always defined: EXEC (undefined bits in it are reported when they are written), M0, and
# everything behind SCC.
_REAL = {state.EXEC, state.M0, *range(state.HARDWARE_REGISTERS, state.VGPR)}

# Instructions whose emitters run on shadows, and their slots that hold data; the other slots say where.
DATA_SLOTS: tuple[tuple[str, frozenset[int]], ...] = (
    (r"ds_write2(st64)?_b\d", frozenset({0, 1})),
    (r"ds_(read2?|write)(st64)?_[bui]\d|ds_(read|write)_addtid|ds_(append|consume)", frozenset({0})),
    (r"s_(buffer_|scratch_)?(load|store)_dword|s_(buffer_)?atomic_", frozenset({0})),
    (r"ds_swizzle|v_readlane|v_readfirstlane|v_writelane|v_permlane\d+_swap", frozenset({0, 1})),
    (r"ds_b?permute_b32", frozenset({0, 2})),
    (r"ds_(add|sub|rsub|inc|dec|min|max|and|or|xor|mskor|cmpst|pk_add|wrap|wrxchg2?(st64)?|condxchg32)_(rtn_)?[bfiu]",
     frozenset({0, 2, 3})),
    (r"(global|flat)_atomic_", frozenset({0, 5})),
    (r"buffer_atomic_", frozenset({0})),
    (r"(global|flat|scratch|buffer)_(load|store)_(lds_)?([us]?byte|[us]?short|dword)", frozenset({0})),
    (r"t?buffer_(load|store)_format_", frozenset({0})),
)  # fmt: skip


def data_slots(mnemonic: str) -> frozenset[int]:
    """The slots that hold data."""
    return next(slots for pattern, slots in DATA_SLOTS if re.match(pattern, mnemonic))


class ShadowBuilder(HandlerBuilder):
    """Runs an emitter on shadows. `where` are the slots that keep their values."""

    def __init__(
        self,
        key: HandlerKey,
        lanes: int = LANES,
        text: FunctionText | None = None,
        where: frozenset[int] = frozenset(),
    ) -> None:
        super().__init__(key, lanes, text)
        self.shadow = True
        self.where = where

    def scalars(self) -> ShadowBuilder:
        return ShadowBuilder(self.key, 0, self.text, self.where)

    def vectors(self) -> ShadowBuilder:
        return ShadowBuilder(self.key, LANES, self.text, self.where)

    def pointer(self, base: str, offset: int | str) -> str:
        if base == "%wave" and offset not in _REAL:
            return super().pointer(self.shadow_of_wave(), offset)
        return super().pointer(base, offset)

    def shadow_of_wave(self) -> str:
        """A pointer to the shadow of the wave block; first asked for in the entry block."""
        return self._once("shadow", 0, f"getelementptr i8, ptr %wave, i64 {layout.SHADOW}")

    def slot(self, index: int) -> str:
        real = super().slot(index)
        code = self.key.operands[index].removesuffix("x") if index < len(self.key.operands) else ""
        constant = code not in ("v", "s")
        if index not in self.where:
            return "0" if constant else real
        return real if constant else self._once("where", index, f"add i64 {real}, {-layout.SHADOW}")

    def add_to_context_field(self, offset: int, amount: str) -> str:
        """Counters count the instruction, not its shadow."""
        return "0"

    def host_pointer(self, address: str) -> str:
        """The shadow of what a scalar load reads; zeros where it is defined."""
        place = self.work(state.WORK_ADDRESSES)
        self.emit(f"store i64 {address}, ptr {place}, align 8")
        found = self.assign(f"call i64 @shadow_places(i64 1, ptr {place}, ptr {self.context()})")
        moved = self.assign(f"inttoptr i64 {self.assign(f'load i64, ptr {place}, align 8')} to ptr")
        has = self.assign(f"icmp ne i64 {found}, 0")
        return self.assign(f"select i1 {has}, ptr {moved}, ptr {self.work(state.WORK_ZEROS)}")

    def next(self) -> None:
        """Shadow handlers end in a common way (checks/shadow.py)."""

    # -- which registers have undefined bits -------------------------------------------------------------------------

    def real_slot(self, index: int) -> str:
        return super().slot(index)

    def _mixed_place(self, slot: str) -> str:
        number = self.assign(f"lshr i64 {self.assign(f'sub i64 {slot}, {state.VGPR}')}, 8")
        start = self.assign(f"getelementptr i8, ptr %wave, i64 {layout.MIXED}")
        return self.assign(f"getelementptr i8, ptr {start}, i64 {number}")

    def undefined_registers(self, index: int, kind: str, count: int) -> str:
        """Whether `count` registers from a slot's on have an undefined bit in any lane, as an i64 that is 0 if not."""
        slot = self.real_slot(index)
        if kind == "s":
            place, bytes = self.assign(f"getelementptr i8, ptr {self.shadow_of_wave()}, i64 {slot}"), 4 * count
        else:
            place, bytes = self._mixed_place(slot), count
        total, first = "0", 0
        while first < bytes:
            width = next(width for width in (8, 4, 2, 1) if width <= bytes - first)
            type = f"i{8 * width}"
            word = self.assign(f"load {type}, ptr {HandlerBuilder.pointer(self, place, first)}, align 1")
            wide = word if width == 8 else self.assign(f"zext {type} {word} to i64")
            total = self.assign(f"or i64 {total}, {wide}")
            first += width
        return total

    def note_mixed(self, index: int, count: int) -> None:
        """Bring up to date which of these vector registers have undefined bits."""
        slot = self.real_slot(index)
        place, vectors = self._mixed_place(slot), self.vectors()
        for k in range(count):
            offset = self.assign(f"add i64 {slot}, {k * state.VGPR_BYTES}")
            lanes = vectors.bits_of_mask(vectors.load_register(offset, U32).ne(0))
            byte = self.assign(f"zext i1 {self.assign(f'icmp ne i64 {lanes}, 0')} to i8")
            self.emit(f"store i8 {byte}, ptr {HandlerBuilder.pointer(self, place, k)}, align 1")
