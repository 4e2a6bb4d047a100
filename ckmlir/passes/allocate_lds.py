"""Give every LDS tensor a layout and a byte offset.

Tensors that are never live together share bytes. A tensor is live where some path from a write to it has led and some
path to a read of it goes on; liveness is computed over the control-flow graph that ck-pipeline-loops leaves. Layouts
come first, by the accesses that the tensor sees (`lds_layouts`).
"""

from dataclasses import dataclass, field
from typing import ClassVar

from ckmlir.dialect.build import integer, registers_of, string, text_of
from ckmlir.dialect.distribution import Distribution
from ckmlir.dialect.lds_layout import LdsLayout
from ckmlir.dialect.loop import LOOP
from ckmlir.dialect.scalars import bits
from ckmlir.dialect.types import LdsType, describe
from ckmlir.mlir import ir
from ckmlir.passes.framework import Pass, fail
from ckmlir.passes.lds_layouts import Access, choose_layout
from ckmlir.passes.lds_traffic import traffic_of
from ckmlir.passes.walk import functions, operations, target_of
from ckmlir.targets import Target

ALIGNMENT = 16
LDS_BYTES = "ck.lds_bytes"
"""Attribute of a kernel: bytes of LDS that its workgroup needs."""
CONFLICTS = "conflict_cycles"
"""Attribute of an lds_alloc: predicted cycles lost to bank conflicts, all its accesses once."""


@dataclass(frozen=True)
class AllocateLds(Pass):
    """Give every LDS tensor a conflict-free layout and a byte offset; tensors never live together share bytes."""

    name: ClassVar[str] = "ck-allocate-lds"
    padding: bool = True

    def apply(self, module: ir.Module) -> None:
        for function in functions(module):
            allocations = [op for op in operations(function) if op.name == "ck.lds_alloc"]
            if any(op.name == LOOP for op in operations(function)):
                fail(function, "holds loops of stages; run ck-pipeline-loops before ck-allocate-lds")
            target = target_of(function)
            for op in allocations:
                self._choose_layout(op, target)
            self._place(function, allocations, target)

    def _choose_layout(self, op: ir.Operation, target: Target) -> None:
        lds = describe(op.results[0].type)
        assert isinstance(lds, LdsType)
        users = [use.owner.operation for use in op.results[0].uses]
        copies = [user for user in users if user.name == "ck.copy_fragment"]
        accesses = tuple(dict.fromkeys(_access(user) for user in users if user not in copies))
        cell = max((len(registers_of(user)) for user in copies), default=0)
        choice = choose_layout(
            LdsLayout.parse(text_of(op, "layout")), accesses, bits(lds.element) // 8, target, self.padding, cell
        )
        op.attributes["layout"] = string(str(choice.layout))
        op.attributes[CONFLICTS] = integer(choice.conflicts)

    def _place(self, function: ir.Operation, allocations: list[ir.Operation], target: Target) -> None:
        sizes = {op.results[0]: _bytes(op) for op in allocations}
        together = _interferences(function, list(sizes))
        placed: dict[ir.Value, int] = {}
        for tensor in sorted(sizes, key=lambda item: -sizes[item]):
            taken = sorted(
                (placed[other], placed[other] + sizes[other]) for other in together[tensor] if other in placed
            )
            placed[tensor] = _first_gap(taken, sizes[tensor])
        for op in allocations:
            op.attributes["offset"] = integer(placed[op.results[0]])
        total = max((start + sizes[tensor] for tensor, start in placed.items()), default=0)
        function.attributes[LDS_BYTES] = integer(total)
        if total > target.lds_bytes:
            notes = [
                (f"'{_name(op)}' takes {sizes[op.results[0]]} bytes at {placed[op.results[0]]}", op)
                for op in allocations
            ]
            fail(
                function,
                f"needs {total} bytes of LDS, {target.name} has "
                f"{target.lds_bytes}; use a smaller block, or fewer LDS buffers",
                notes,
            )


def _access(op: ir.Operation) -> Access:
    kind = "read" if op.name == "ck.lds_read" else "write"
    distribution = Distribution.parse(text_of(op, "distribution"))
    return Access(kind, distribution, registers_of(op), "transposed" in op.attributes)


def _name(op: ir.Operation) -> str:
    return text_of(op, "name") if "name" in op.attributes else "a tensor without a name"


def _bytes(op: ir.Operation) -> int:
    lds = describe(op.results[0].type)
    assert isinstance(lds, LdsType)
    size = LdsLayout.parse(text_of(op, "layout")).elements * bits(lds.element) // 8
    return -(-size // ALIGNMENT) * ALIGNMENT


def _first_gap(taken: list[tuple[int, int]], size: int) -> int:
    start = 0
    for low, high in taken:
        if start + size <= low:
            break
        start = max(start, high)
    return start


# -- liveness


@dataclass
class _Flow:
    """What a block does to each tensor, and what holds at its borders."""

    events: list[tuple[str, ir.Value]] = field(default_factory=list)
    successors: list[int] = field(default_factory=list)
    written_in: set[ir.Value] = field(default_factory=set)
    read_out: set[ir.Value] = field(default_factory=set)

    def written_out(self) -> set[ir.Value]:
        return self.written_in | {tensor for kind, tensor in self.events if kind == "write"}

    def read_in(self) -> set[ir.Value]:
        """Tensors whose contents at the block's start are read later: a first write to all of it is not assumed."""
        return self.read_out | {tensor for kind, tensor in self.events if kind == "read"}


def _interferences(function: ir.Operation, tensors: list[ir.Value]) -> dict[ir.Value, set[ir.Value]]:
    """For every tensor those that are live somewhere where it is."""
    flows = _flows(function)
    changed = True
    while changed:
        changed = False
        for flow in flows:
            for successor in flow.successors:
                target = flows[successor]
                if not flow.written_out() <= target.written_in:
                    target.written_in |= flow.written_out()
                    changed = True
                if not target.read_in() <= flow.read_out:
                    flow.read_out |= target.read_in()
                    changed = True
    together: dict[ir.Value, set[ir.Value]] = {tensor: set() for tensor in tensors}
    for flow in flows:
        for live in _live_sets(flow):
            for tensor in live:
                together[tensor] |= live - {tensor}
    return together


def _live_sets(flow: _Flow) -> list[set[ir.Value]]:
    """The tensors live at each event of a block: written on the way here, and read from here on."""
    later: list[set[ir.Value]] = [set(flow.read_out)]
    for kind, tensor in reversed(flow.events):
        later.append(later[-1] | {tensor} if kind == "read" else set(later[-1]))
    later.reverse()
    written = set(flow.written_in)
    sets = [written & later[0]]
    for number, (_, tensor) in enumerate(flow.events):
        written = written | {tensor}
        sets.append((written & later[number + 1]) | {tensor})
    return sets


def _flows(function: ir.Operation) -> list[_Flow]:
    blocks = list(function.regions[0])
    number = {block: index for index, block in enumerate(blocks)}
    flows = []
    for block in blocks:
        flow = _Flow()
        for op_view in block:
            op = op_view.operation
            traffic = traffic_of(op)
            if traffic is not None:
                flow.events.append(("write" if traffic.writes else "read", traffic.tensor))
            flow.successors.extend(number[successor] for successor in op.successors)
        flows.append(flow)
    return flows
