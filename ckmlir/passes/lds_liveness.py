"""Which LDS tensors are live together, over the control-flow graph that ck-pipeline-loops leaves.

A tensor is live where some path from a write to it has led and some path to a read of it goes on.
"""

from dataclasses import dataclass, field

from ckmlir.mlir import ir
from ckmlir.passes.lds_traffic import traffic_of


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


def interferences(function: ir.Operation, tensors: list[ir.Value]) -> dict[ir.Value, set[ir.Value]]:
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
