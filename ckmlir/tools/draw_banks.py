"""Which banks of LDS an access touches in which cycle, drawn from the layout and distribution that are lowered."""

from __future__ import annotations

from collections import defaultdict
from typing import NamedTuple

import numpy as np
from msgspec import Struct

from ckmlir.dialect.build import text_of
from ckmlir.dialect.lds_layout import LdsLayout
from ckmlir.dialect.scalars import bits
from ckmlir.dialect.types import LdsType, describe
from ckmlir.mlir import ir
from ckmlir.passes.bank_conflicts import BANK_BYTES, access_cycles
from ckmlir.passes.lds_layouts import Access, access_of
from ckmlir.passes.lds_traffic import tensor_name, traffic_of
from ckmlir.passes.loop_body import stage_of
from ckmlir.passes.walk import functions, operations, target_of
from ckmlir.targets import Target
from ckmlir.tools.grid_drawing import Cell, Grid


class Use(NamedTuple):
    """A bank gives or takes a dword (its number in the tensor) in a cycle, for these lanes."""

    cycle: int
    bank: int
    dword: int
    lanes: tuple[int, ...]


class LdsAccess(Struct, frozen=True):
    """An access to LDS as it is lowered.

    Attributes:
        tensor, stage: names; `access`: what it asks of the banks.
        count: how many of the kernel's accesses differ from it in nothing but registers.
    """

    tensor: str
    stage: str
    access: Access
    layout: LdsLayout
    element: str
    element_bytes: int
    target: Target
    count: int = 1

    def __str__(self) -> str:
        size = len(self.access.registers) * self.element_bytes
        stage = f" of stage {self.stage}" if self.stage else ""
        return f"{self.access.kind} of {self.tensor}{stage}, {size} bytes a lane, {self.target.name}"

    @property
    def cycles(self) -> tuple[int, int]:
        """Cycles, and cycles without conflicts."""
        one = self.access
        return access_cycles(
            self.layout, one.distribution, one.registers, self.element_bytes, one.kind, self.target
        )


def lds_accesses(module: ir.Module) -> list[LdsAccess]:
    """The reads and writes of LDS of a module behind ck-allocate-lds, those that are alike once, in program order.

    Copies from memory, which go lane after lane, and accesses at places that are known at run time are left out.
    """
    found: dict[tuple[object, ...], LdsAccess] = {}
    for function in functions(module):
        target = target_of(function)
        for op in operations(function):
            if op.name not in ("ck.lds_read", "ck.lds_write"):
                continue
            traffic = traffic_of(op)
            assert traffic is not None
            lds = describe(traffic.tensor.type)
            assert isinstance(lds, LdsType)
            layout = LdsLayout.parse(text_of(traffic.tensor.owner, "layout"))
            access, stage = access_of(op), stage_of(op) or ""
            one = LdsAccess(
                tensor_name(op) or "unnamed", stage, access, layout, str(lds.element), bits(lds.element) // 8, target
            )
            alike = (one.tensor, stage, access.kind, access.distribution, len(access.registers), str(layout))
            before = found.get(alike)
            found[alike] = one if before is None else LdsAccess(
                before.tensor, stage, before.access, layout, one.element, one.element_bytes, target, before.count + 1
            )  # fmt: skip
    return list(found.values())


def bank_uses(one: LdsAccess, wave: int) -> list[Use]:
    """What the banks do for a wave, cycle by cycle: the lanes of a phase are served together, and different dwords of a
    bank one after the other."""
    registers, kind = one.access.registers, one.access.kind
    coordinates = one.access.distribution.coordinates()[:, wave, :, registers[0]]
    offsets = np.asarray(one.layout.offset(list(coordinates))) * one.element_bytes
    width = max(len(registers) * one.element_bytes, BANK_BYTES)
    rule = one.target.lds_access(kind, width)
    uses, begin = [], 0
    for phase in rule.phases:
        by_bank: dict[int, dict[int, list[int]]] = defaultdict(lambda: defaultdict(list))
        for lane in phase:
            for place in range(width // BANK_BYTES):
                dword = int(offsets[lane]) // BANK_BYTES + place
                by_bank[dword % rule.banks][dword].append(lane)
        for bank, dwords in by_bank.items():
            uses += [Use(begin + late, bank, dword, tuple(dwords[dword])) for late, dword in enumerate(sorted(dwords))]
        begin += max(map(len, by_bank.values()))
    return uses


def worst_wave(one: LdsAccess) -> int:
    """The wave whose access takes longest, the first of several."""
    waves = range(one.access.distribution.waves)
    return max(waves, key=lambda wave: (max(use.cycle for use in bank_uses(one, wave)), -wave))


def draw_banks(one: LdsAccess) -> Grid:
    """Cycles downwards, banks to the right; a cell names the lanes that its dword is for."""
    wave = worst_wave(one)
    uses = bank_uses(one, wave)
    cycles, ideal = one.cycles
    banks = one.target.lds_access(one.access.kind, max(len(one.access.registers) * one.element_bytes, 4)).banks
    cells = {}
    for use in uses:
        about = f"bank {use.bank}, dword {use.dword}: lanes {', '.join(map(str, use.lanes))}"
        cells[use.cycle, use.bank] = Cell(_lanes(use.lanes), use.lanes[0], about)
    notes = (
        f"layout {one.layout}",
        f"{cycles} cycles, {ideal} without conflicts; wave {wave}; cells name the lanes whose dword it is",
    )
    rows = tuple(str(cycle) for cycle in range(max(use.cycle for use in uses) + 1))
    return Grid(str(one), "cycle", rows, tuple(map(str, range(banks))), cells, notes)


def _lanes(lanes: tuple[int, ...]) -> str:
    return str(lanes[0]) + "+" * (len(lanes) > 1)
