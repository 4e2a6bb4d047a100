"""Runs hand-made instructions on one simulated wave: what the tests of single instructions share."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from instruction_registry import EXECUTED

from ckmlir.sim import semantics, state
from ckmlir.sim.decode import Instruction, Operand
from ckmlir.sim.launch import WaveBlocks
from ckmlir.sim.library import HandlerLibrary, library
from ckmlir.sim.memory import MemoryTable, aligned_bytes
from ckmlir.sim.selected import Environment, Selected
from ckmlir.sim.selection import select, why_not

assert semantics
_HANDLER = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p)
CODE = 0x10_0000
_END = Instruction(0, 4, "s_endpgm", "SOPP", (), (), {}, (0xBF810000,))


def v(index: int, count: int = 1, **flags: bool) -> Operand:
    return Operand("v", index, count, f"v{index}", **flags)


def s(index: int, count: int = 1) -> Operand:
    return Operand("s", index, count, f"s{index}")


def imm(pattern: int, count: int = 1) -> Operand:
    return Operand("imm", pattern, count, hex(pattern))


def make(
    mnemonic: str, destinations: Sequence[Operand], sources: Sequence[Operand], encoding: str = "VOP3", **modifiers: int
) -> Instruction:
    """An instruction as the decoder would deliver it."""
    return Instruction(0, 8, mnemonic, encoding, tuple(destinations), tuple(sources), modifiers, (0, 0))


def selection_in(instruction: Instruction, environment: Environment) -> Selected:
    selected = select(instruction, environment)
    assert selected is not None, f"no semantics for {instruction.mnemonic}: {why_not(instruction, environment)}"
    return selected


def selection_of(instruction: Instruction, target: str = "gfx942", dynamic_mode: bool = False) -> Selected:
    return selection_in(instruction, Environment(target, dynamic_mode))


class SingleWave:
    """A wave with its registers as arrays, LDS, and a table of allocations."""

    def __init__(self, lds_bytes: int = 4096, handlers: HandlerLibrary | None = None) -> None:
        self.handlers = handlers or library()
        self.blocks = WaveBlocks(1)
        self.blocks.bytes[:] = 0
        self.table = MemoryTable()
        self.lds = aligned_bytes(max(lds_bytes, 1))[:lds_bytes]
        self.lds[:] = 0
        self.context = aligned_bytes(state.CONTEXT_BYTES).view(np.uint64)
        self.context[:] = 0
        self.exec = (1 << 64) - 1
        self.blocks.words(state.CONTEXT, 1, np.uint64)[:] = self.context.ctypes.data
        self.blocks.words(state.MODE, 1)[:] = 0x3F0
        self.context[state.LDS_BASE // 8] = self.lds.ctypes.data
        self.context[state.LDS_SIZE // 8] = lds_bytes
        self.context[state.BRANCH_BUDGET // 8] = 1000
        self.context[state.USED_VGPR_BYTES // 8] = self.context[state.USED_AGPR_BYTES // 8] = 256 * state.VGPR_BYTES

    @property
    def vgpr(self) -> npt.NDArray[np.uint32]:
        """512 rows of 64 lanes; AccVGPRs from row 256."""
        return self.blocks.words(state.VGPR, 512 * 64).reshape(512, 64)

    @property
    def sgpr(self) -> npt.NDArray[np.uint32]:
        return self.blocks.words(state.SGPR, 128)[0]

    @property
    def exec(self) -> int:
        return int(self.blocks.words(state.EXEC, 1, np.uint64)[0, 0])

    @exec.setter
    def exec(self, mask: int) -> None:
        self.blocks.words(state.EXEC, 1, np.uint64)[:] = np.uint64(mask)

    @property
    def scc(self) -> int:
        return int(self.blocks.words(state.SCC, 1)[0, 0])

    @scc.setter
    def scc(self, bit: int) -> None:
        self.blocks.words(state.SCC, 1)[:] = bit

    @property
    def mode(self) -> int:
        return int(self.blocks.words(state.MODE, 1)[0, 0])

    @mode.setter
    def mode(self, bits: int) -> None:
        self.blocks.words(state.MODE, 1)[:] = bits

    def mask(self, register: int) -> int:
        """A 64-bit scalar register pair."""
        return int(self.sgpr[register]) | int(self.sgpr[register + 1]) << 32

    def set_pair(self, register: int, value: int) -> None:
        self.sgpr[register : register + 2] = value & 0xFFFFFFFF, value >> 32

    def run(
        self,
        instructions: Iterable[Instruction],
        target: str = "gfx942",
        dynamic_mode: bool = False,
        indexed: bool = False,
        skips: bool = False,
    ) -> int:
        """Execute from the first; returns the status with which the wave stopped. Code addresses are `CODE` plus eight
        bytes an instruction; a branch target of a hand-made instruction is the number of an instruction."""
        program = [*instructions, _END]
        EXECUTED.update(item.mnemonic for item in program)
        environment = Environment(target, dynamic_mode, indexed, skips)
        chosen = [selection_in(item, environment) for item in program]
        addresses = self.handlers.addresses({item.key for item in chosen})
        table = self.table.update()
        self.context[state.ALLOCATIONS // 8] = table.ctypes.data
        self.context[state.ALLOCATION_COUNT // 8] = len(table)
        records = np.zeros((len(chosen), 8), np.uint64)
        used: list[Selected] = []
        index = np.full(2 * len(chosen), -1, np.int32)
        index[::2] = np.arange(len(chosen))
        fields = {state.CODE_BASE: CODE, state.CODE_SIZE: 8 * len(chosen), state.CODE_INDEX: int(index.ctypes.data)}
        fields[state.RECORDS] = int(records.ctypes.data)
        for field, value in fields.items():
            self.context[field // 8] = value
        for row, item in zip(records, chosen):
            slots = list(item.slots)
            if item.remembered >= 0:
                slots[item.remembered] = int(table.ctypes.data)
            number = len(used)
            if item.branch >= 0:
                slots[item.branch] = (int(program[number].branch_target or 0) - number) * 64
            if item.after >= 0:
                slots[item.after] = CODE + 8 * (number + 1)
            used.append(item)
            words = [addresses[item.key], 0, *slots]
            row[: len(words)] = [word & 0xFFFF_FFFF_FFFF_FFFF for word in words]
        self.records = records
        return int(_HANDLER(int(records[0, 0]))(self.blocks.address, int(records.ctypes.data)))

    def allocate(self, data: npt.NDArray[np.uint8]) -> int:
        """Enter an array as an allocation; returns its address. The caller keeps the array alive."""
        self.table.add(int(data.ctypes.data), data.size, "a test array")
        return int(data.ctypes.data)

    def error(self) -> tuple[int, int, int]:
        """(kind, lane, bytes) of the error noted in the context."""
        fields = (state.ERROR_KIND, state.ERROR_LANE, state.ERROR_SIZE)
        return tuple(int(self.context[field // 8]) for field in fields)  # type: ignore[return-value]


def wave_with(**rows: npt.NDArray[Any]) -> SingleWave:
    """A wave with random registers, and v<n> set to the given bit patterns."""
    wave = SingleWave()
    wave.vgpr[:] = np.random.default_rng(5).integers(0, 1 << 32, (512, 64), np.uint32)
    for name, data in rows.items():
        wave.vgpr[int(name[1:])] = np.asarray(data).view(np.uint32) if np.asarray(data).dtype.itemsize == 4 else data
    return wave
