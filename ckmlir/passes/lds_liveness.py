"""Which LDS tensors are live together, over the control-flow graph that ck-pipeline-loops leaves.

A tensor is live where some path from a write to it has led and some path to a read of it goes on, on which no new value
of it begins (`begins` of what fills it). Where nothing says that a value begins, a write may add to what is there; an
update reads what is there, whether anything reads the tensor behind it or not.

Sets of tensors are the bits of integers: unrolled loops have thousands of accesses.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from ckmlir.dialect.fragment_lds import BEGINS
from ckmlir.mlir import ir
from ckmlir.passes.flow import Flow
from ckmlir.passes.lds_traffic import touches_lds, traffic_of
from ckmlir.passes.slots import Visit, visits_of
from ckmlir.passes.walk import Blocks

Together = dict[ir.Value, set[ir.Value]]
"""For every tensor others that it must not, or had better not, share bytes with."""


class _Event(NamedTuple):
    """What an operation does to a tensor: it writes or reads; `begins`: what was there before is needed no more."""

    tensor: int
    writes: bool
    begins: bool


@dataclass
class _Flow:
    """What a block does to each tensor, and what holds at its borders.

    Attributes:
        written_in: tensors that have been written on some way to the block's start.
        read_out: tensors whose contents at its end are read later.
    """

    events: list[_Event]
    successors: list[int]
    written_in: int = 0
    read_out: int = 0
    _written: int = field(init=False, default=0)
    _read: int = field(init=False, default=0)
    _ended: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        for event in reversed(self.events):
            if event.writes:
                self._written |= event.tensor
            else:
                self._read |= event.tensor
            if event.begins:
                self._read &= ~event.tensor
                self._ended |= event.tensor

    @property
    def written_out(self) -> int:
        """Tensors that have been written on some way to the block's end."""
        return self.written_in | self._written

    @property
    def read_in(self) -> int:
        """Tensors whose contents at the block's start are read later."""
        return self._read | self.read_out & ~self._ended

    def lasting(self) -> "_Flow":
        """The same, as if no value ended here."""
        return replace(self, events=[event._replace(begins=False) for event in self.events])

    def live_sets(self) -> Iterator[int]:
        """The tensors live at the block's start and at each event: written on the way here, and read from here on."""
        needed = [self.read_out]
        for event in reversed(self.events):
            kept = needed[-1] & ~event.tensor if event.begins else needed[-1]
            needed.append(kept if event.writes else kept | event.tensor)
        written = self.written_in
        yield written & needed[-1]
        for event, later in zip(self.events, needed[-2::-1], strict=True):
            written |= event.tensor
            yield written & later | event.tensor


def interferences(
    function: ir.Operation, blocks: Blocks, tensors: Iterable[ir.Value]
) -> tuple[Together, Together]:
    """For every tensor those that are live somewhere where it is; and these with what it had better not share bytes
    with.

    These are the tensors that are in use in the same innermost loop: where one takes the place of another there, waves
    have to meet in every step.
    """
    bits = {tensor: 1 << number for number, tensor in enumerate(tensors)}
    visits = visits_of(function, blocks)
    flows = [_flow(visit, blocks[visit.block], bits) for visit in visits]
    _solve(flows, range(len(flows)))
    live = {one for flow in flows for one in flow.live_sets()}
    together = _pairs(bits, live)
    for places in (one.places for one in Flow(list(function.regions[0])).innermost):
        loop = [number for number, visit in enumerate(visits) if visit.block in places]
        lasting = [flow.lasting() if visit.block in places else flow for visit, flow in zip(visits, flows, strict=True)]
        _solve(lasting, loop)
        live |= {one for number in loop for one in lasting[number].live_sets()}
    return together, _pairs(bits, live)


def _solve(flows: Sequence[_Flow], among: Iterable[int]) -> None:
    """Find what holds at the borders of some blocks, between which everything goes on until nothing changes."""
    blocks = set(among)
    edges = [(flows[one], flows[to]) for one in sorted(blocks) for to in flows[one].successors if to in blocks]
    changed = True
    while changed:
        changed = False
        for flow, target in edges:
            if flow.written_out & ~target.written_in or target.read_in & ~flow.read_out:
                target.written_in |= flow.written_out
                flow.read_out |= target.read_in
                changed = True


def _pairs(bits: dict[ir.Value, int], live_sets: set[int]) -> Together:
    others = dict.fromkeys(bits.values(), 0)
    for live in live_sets:
        for bit in others:
            if live & bit:
                others[bit] |= live & ~bit
    return {tensor: {other for other, one in bits.items() if others[bit] & one} for tensor, bit in bits.items()}


def _flow(visit: Visit, block: Sequence[ir.Operation], bits: dict[ir.Value, int]) -> _Flow:
    """What a visit of a block does."""
    events = []
    for op in block:
        traffic = traffic_of(op) if touches_lds(op.name) else None
        if traffic is not None:
            tensor = bits[visit.slots.get(traffic.tensor, traffic.tensor)]
            if traffic.reads:
                events.append(_Event(tensor, writes=False, begins=False))
            if traffic.writes:
                events.append(_Event(tensor, writes=True, begins=BEGINS in op.attributes))
    return _Flow(events, visit.following)
