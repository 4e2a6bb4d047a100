"""What LDS allocation made of a kernel: bytes, place, layout and neighbours of every buffer, and what accesses cost."""

from collections import Counter
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from ckmlir.diagnostics import position_of
from ckmlir.dialect.build import integer_of, registers_of, text_of
from ckmlir.dialect.fragment_lds import tensor_bytes
from ckmlir.dialect.lds_layout import LdsLayout
from ckmlir.dialect.scalars import bits
from ckmlir.dialect.types import LdsType, describe
from ckmlir.mlir import ir
from ckmlir.passes.allocate_lds import LDS_BYTES
from ckmlir.passes.bank_conflicts import access_cycles
from ckmlir.passes.framework import fail
from ckmlir.passes.lds_layouts import access_of, is_known
from ckmlir.passes.lds_traffic import traffic_of
from ckmlir.passes.loop_body import stage_of
from ckmlir.passes.slots import users_of, visits_of
from ckmlir.passes.walk import blocks_of, functions, operations, target_of
from ckmlir.records import plain
from ckmlir.targets import Target


class AccessCost(Struct, frozen=True):
    """Accesses of a buffer that are alike.

    Attributes:
        kind: read, write, or copy (from memory straight to LDS, lane after lane, so without conflicts).
        stage, line: where they come from; empty where not known.
        count: different ones; prologue and remainder repeat those of the steady loop.
        lane_bytes: bytes of a lane.
        cycles, ideal: that one takes at the banks, as the chip's rules predict, and without conflicts; 0 for copies.
    """

    kind: str
    stage: str
    line: str
    count: int
    lane_bytes: int
    cycles: int
    ideal: int

    @property
    def conflict_cycles(self) -> int:
        """Lost to bank conflicts by one of them."""
        return self.cycles - self.ideal


class BufferReport(Struct, frozen=True):
    """One buffer.

    Attributes:
        tensor: its name; `number` of `of` rotating buffers.
        contents: lengths and element type.
        shares_with: buffers that are never live together with it and lie in the same bytes.
    """

    tensor: str
    number: int
    of: int
    contents: str
    offset: int
    bytes: int
    layout: str
    shares_with: tuple[str, ...]
    accesses: tuple[AccessCost, ...]

    @property
    def name(self) -> str:
        """The tensor, with the buffer's number where there are several."""
        return f"{self.tensor} {self.number + 1}/{self.of}" if self.of > 1 else self.tensor

    @property
    def conflict_cycles(self) -> int:
        """Predicted to be lost when each access is made once."""
        return sum(one.count * one.conflict_cycles for one in self.accesses)


class LdsReport(Struct, frozen=True):
    """The LDS of a workgroup: what it takes, and of how many bytes of a compute unit."""

    kernel: str
    target: str
    bytes: int
    limit: int
    buffers: tuple[BufferReport, ...]

    @property
    def conflict_cycles(self) -> int:
        """Predicted to be lost when each access of each buffer is made once."""
        return sum(one.conflict_cycles for one in self.buffers)

    def to_dict(self) -> dict[str, Any]:
        """Everything in JSON's types."""
        return {**plain(self), "conflict_cycles": self.conflict_cycles}

    def __str__(self) -> str:
        lines = [
            f"{self.kernel} for {self.target}: {self.bytes} of {self.limit} bytes of LDS "
            f"({100 * self.bytes / self.limit:.0f} %), {self.conflict_cycles} conflict cycles predicted"
        ]
        for one in self.buffers:
            lines.append(f"  {one.name:<10}{one.bytes:>7} bytes at {one.offset:<7}{one.contents}")
            lines.append(f"    layout   {one.layout}")
            if one.shares_with:
                lines.append(f"    shares bytes with {', '.join(one.shares_with)}")
            lines += [f"    {_words(access)}" for access in one.accesses]
        return "\n".join(lines)


def _words(one: AccessCost) -> str:
    place = ", ".join(part for part in (one.stage and f"stage {one.stage}", one.line.rpartition("/")[2]) if part)
    cost = f"{one.cycles} cycles each, {one.conflict_cycles} of them conflicts" if one.cycles else "in lane order"
    return f"{one.count:>4} {one.kind:<6}{one.lane_bytes:>3} bytes a lane: {cost}" + (f"  ({place})" if place else "")


def reports_of(module: ir.Module) -> list[LdsReport]:
    """A report for each kernel of a module behind ck-allocate-lds.

    Raises:
        PassFailure: LDS is not allocated yet, or no chip is named.
    """
    return [_report(function) for function in functions(module)]


def _report(function: ir.Operation) -> LdsReport:
    if LDS_BYTES not in function.attributes:
        fail(function, "has no LDS allocated; run ck-allocate-lds before asking for a report")
    target = target_of(function)
    visits, every = visits_of(function, blocks_of(function)), list(operations(function))
    place = {op: number for number, op in enumerate(every)}
    users = {
        op.results[0]: sorted(users_of(op.results[0], visits), key=lambda user: place[user])
        for op in every
        if op.name == "ck.lds_alloc"
    }
    names = {tensor: _tensor_name(tensor) for tensor in users}
    counts, seen = Counter(names.values()), Counter[str]()
    alone: list[BufferReport] = []
    for tensor, accesses in users.items():
        name = names[tensor]
        alone.append(_buffer(tensor, accesses, name, seen[name], counts[name], target))
        seen[name] += 1
    buffers = tuple(replace(one, shares_with=tuple(o.name for o in alone if _overlap(one, o))) for one in alone)
    kernel = str(function.attributes["sym_name"].value)
    return LdsReport(kernel, target.name, integer_of(function, LDS_BYTES), target.lds_bytes, buffers)


def _tensor_name(tensor: ir.Value) -> str:
    op = tensor.owner.operation
    return text_of(op, "name") if "name" in op.attributes else "unnamed"


def _overlap(one: BufferReport, other: BufferReport) -> bool:
    apart = one.offset + one.bytes <= other.offset or other.offset + other.bytes <= one.offset
    return one is not other and not apart


def _buffer(
    tensor: ir.Value, users: list[ir.Operation], name: str, number: int, of: int, target: Target
) -> BufferReport:
    op, lds = tensor.owner.operation, describe(tensor.type)
    assert isinstance(lds, LdsType)
    layout = LdsLayout.parse(text_of(op, "layout"))
    element_bytes = bits(lds.element) // 8
    contents = f"{'x'.join(map(str, layout.lengths))} {lds.element}"
    costs = _costs(users, layout, element_bytes, target)
    return BufferReport(name, number, of, contents, integer_of(op, "offset"), tensor_bytes(op), str(layout), (), costs)


def _costs(users: list[ir.Operation], layout: LdsLayout, element_bytes: int, target: Target) -> tuple[AccessCost, ...]:
    """Accesses by what is alike in them, in program order; each access counts once however often code repeats it."""
    different: dict[AccessCost, set[tuple[str, tuple[int, ...]]]] = {}
    for op in users:
        traffic, place = traffic_of(op), position_of(op.location)
        assert traffic is not None
        registers, cycles, ideal = tuple(registers_of(op)), 0, 0
        if is_known(op):
            distribution = access_of(op).distribution
            cycles, ideal = access_cycles(layout, distribution, registers, element_bytes, traffic.kind, target)
        line = f"{place.file}:{place.line}" if place else ""
        alike = AccessCost(traffic.kind, stage_of(op) or "", line, 0, len(registers) * element_bytes, cycles, ideal)
        different.setdefault(alike, set()).add((text_of(op, "distribution"), registers))
    return tuple(replace(alike, count=len(accesses)) for alike, accesses in different.items())
