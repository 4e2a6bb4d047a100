"""Insert barriers and waits where waves meet in LDS, and waits for copies from memory to LDS.

Between a write to LDS and a read or write of the same bytes by another wave, and between a read and a later write,
a barrier must lie, and before it a wait for the wave's own LDS accesses. A barrier is inserted before the first
operation that would otherwise conflict with an access since the last barrier on any path; so one barrier serves as many
conflicts as it can. Then those that later ones made needless are left out. In a workgroup of one wave accesses complete
in order, and need none.

A copy from memory to LDS is a write that ends some time later. What conflicts with it waits, before its barrier, until
at most as many copies are outstanding as were issued behind it on the path where these are fewest. Later copies stay in
flight, through the barrier too. Readers of one stage wait together. Where barriers that are there already suffice, the
wait stands before the last of them that does, and none is added. At the end of a kernel s_endpgm waits for copies
itself (CDNA3 ISA, SOPP S_ENDPGM).

What may be under way at a point, also where groups of waves are out of phase, is in `pending_accesses`.
"""

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from ckmlir.dialect import synchronization
from ckmlir.mlir import ir
from ckmlir.passes.framework import Pass
from ckmlir.passes.loop_body import stage_of
from ckmlir.passes.pending_accesses import BARRIER, GROUP_BARRIER, Event, Pending, events_of, in_conflict
from ckmlir.passes.walk import expanded_functions, waves_of

MOST_GROUPS = 16
"""Waves of a workgroup: there are no more groups of them."""


@dataclass(frozen=True)
class InsertBarriers(Pass):
    """Insert the waits and barriers that accesses to LDS need between waves, and behind copies from memory."""

    name: ClassVar[str] = "ck-insert-barriers"

    def apply(self, module: ir.Module) -> None:
        for function in expanded_functions(module, self.name):
            _protect(function)


def _protect(function: ir.Operation) -> None:
    flow = _Flow(function)
    places = flow.places()
    for op in list(places):  # one that a later one made needless
        others = {other: place for other, place in places.items() if other != op}
        if not flow.conflict(others):
            places = others
    places = flow.joined(flow.relaxed(places))
    unfinished = flow.barriers_without_wait(places) if flow.several_waves else []
    for op in dict.fromkeys((*places, *unfinished)):
        place = places.get(op, _Place(None, 0))
        with ir.InsertionPoint(op), op.location:
            synchronization.wait(lds=0 if op in unfinished or place.barriers else None, copies=place.copies)
            if flow.several_waves:
                for _ in range(place.barriers):
                    synchronization.barrier()


class _Place(NamedTuple):
    """What stands before an operation: a wait for all but so many copies (None: not for copies), and barriers, before
    the first of them a wait for LDS. No barriers where the operation is one itself.
    """

    copies: int | None
    barriers: int = 1


Places = dict[ir.Operation, _Place]


class _Conflict(NamedTuple):
    """An operation that meets accesses (bits) which may be under way; `copies`: least number behind one of these, None
    if none is a copy in flight.
    """

    op: ir.Operation
    bits: int
    copies: int | None


class _Flow:
    """The accesses of every block in order, those that repeat the one before left out."""

    def __init__(self, function: ir.Operation) -> None:
        self.several_waves = waves_of(function) > 1
        blocks = list(function.regions[0])
        number = {block: index for index, block in enumerate(blocks)}
        self.successors = [[number[to] for op in block for to in op.operation.successors] for block in blocks]
        found = [list(events_of(block)) for block in blocks]
        accesses = list(dict.fromkeys(access for events in found for _, access in events if access is not None))
        bit = {access: 1 << index for index, access in enumerate(accesses)}
        conflicts = {
            access: sum(bit[other] for other in accesses if in_conflict(access, other, self.several_waves))
            for access in accesses
        }
        self.blocks = [
            [
                event if at is None else Event(event.op, bit[at], conflicts[at], is_copy=at.kind == "copy")
                for event, at in events
            ]
            for events in found
        ]

    def places(self) -> Places:
        """Operations that need a wait and a barrier before them, in the program's order.

        Found one by one, each time from the beginning: what a place ends must not be reported again by what was known
        before the place was.
        """
        places: Places = {}
        while (found := self.conflict(places)) is not None:
            if found.copies is None or not self._wait_at_barriers(found, places):
                before = places.get(found.op, _Place(None, 0))
                more = found.copies is None or not before.barriers
                places[found.op] = _Place(
                    before.copies if found.copies is None else found.copies, before.barriers + more
                )
        return {event.op: places[event.op] for events in self.blocks for event in events if event.op in places}

    def _wait_at_barriers(self, found: _Conflict, places: Places) -> bool:
        """Have the barriers wait that are there already, and as many before the operation as end copies for all waves.

        False if there are none, or all do what they can.
        """
        changed = False
        entering = self._entering(places)
        for block, number in self._barriers_before(found.op, entering):
            state = entering[block]
            for event in self.blocks[block][:number]:
                state = self._passed(event, state, places).after(event)
            behind = [count for bit, count in state.copies if bit & found.bits]
            barrier = self.blocks[block][number].op
            if behind and (barrier not in places or min(behind) < (places[barrier].copies or 0)):
                places[barrier] = _Place(min(behind), 0)
                changed = True
        return changed

    def _barriers_before(self, op: ir.Operation, entering: list[Pending]) -> list[tuple[int, int]]:
        """On every way to an operation the last barrier (block, number) after whose own wait enough others follow."""
        home = next(
            (block, number)
            for block, events in enumerate(self.blocks)
            for number, event in enumerate(events)
            if event.op == op
        )
        found: dict[tuple[int, int], None] = {}
        pending, seen = [(*home, 0, MOST_GROUPS)], set()
        while pending:
            block, end, count, spread = pending.pop()
            spreads = self._spreads(block, entering[block])
            for number in range(end - 1, -1, -1):
                spread = min(spread, spreads[number])
                count += self.blocks[block][number].op.name == BARRIER
                if count > spread and self.blocks[block][number].op.name == BARRIER:
                    found[block, number] = None
                    break
            else:
                for before, successors in enumerate(self.successors):
                    way = before, len(self.blocks[before]), count, spread
                    if block in successors and way not in seen:
                        seen.add(way)
                        pending.append(way)
        return list(found)

    def _spreads(self, block: int, state: Pending) -> list[int]:
        """The barriers between the first group and the last before every event of a block."""
        found = []
        for event in self.blocks[block]:
            found.append(state.spread)
            if event.op.name == GROUP_BARRIER:
                state = state.after_group_barrier(event.op)
        return found

    def relaxed(self, places: Places) -> Places:
        """Places that wait for fewer copies, where another wait that was found later ends some of them before."""
        for op, place in list(places.items()):
            if place.copies is not None and place.barriers:
                hit = self.conflict({**places, op: _Place(None, place.barriers)})
                if hit is None or hit.op == op:
                    weaker = {**places, op: _Place(hit.copies if hit else None, place.barriers)}
                    places = weaker if self.conflict(weaker) is None else places
        return places

    def joined(self, places: Places) -> Places:
        """Fewer places where readers of one stage wait for several copies: the first waits for those of the others."""
        for events in self.blocks:
            first: dict[str | None, ir.Operation] = {}
            for op in [event.op for event in events if event.op in places and places[event.op].barriers]:
                stage = stage_of(op)
                fewer = {other: place for other, place in places.items() if other != op}
                hit = self.conflict(fewer)
                if stage is None or stage not in first or hit is None or hit.op != op or hit.copies is None:
                    first[stage] = op
                    continue
                copies, barriers = fewer[first[stage]]
                fewer[first[stage]] = _Place(hit.copies if copies is None else min(copies, hit.copies), barriers)
                if self.conflict(fewer) is None:
                    places = fewer
                else:
                    first[stage] = op
        return places

    def conflict(self, places: Places) -> _Conflict | None:
        """An operation that the places leave in a conflict; None: none."""
        entering: list[Pending | None] = [Pending(), *[None] * (len(self.blocks) - 1)]
        pending = [0]
        while pending:
            index = pending.pop(0)
            state = entering[index]
            assert state is not None
            for event in self.blocks[index]:
                state = self._passed(event, state, places)
                hit = state.unsafe & event.conflicts
                if hit:
                    return _Conflict(
                        event.op, hit, min((behind for bit, behind in state.copies if bit & hit), default=None)
                    )
                state = state.after(event)
            pending += self._hand_on(state, index, entering)
        return None

    def barriers_without_wait(self, places: Places) -> list[ir.Operation]:
        """The barriers that are there already, at which an access of the wave itself may still be under way."""
        found: dict[ir.Operation, None] = {}
        for index, state in enumerate(self._entering(places)):
            for event in self.blocks[index]:
                state = self._passed(event, state, places)
                if event.op.name == BARRIER and state.open & ~state.flying and not event.waited:
                    found[event.op] = None
                state = state.after(event)
        return list(found)

    def _entering(self, places: Places) -> list[Pending]:
        """What may be under way at the beginning of every block."""
        entering: list[Pending | None] = [Pending(), *[None] * (len(self.blocks) - 1)]
        pending = [0]
        while pending:
            index = pending.pop(0)
            state = entering[index]
            assert state is not None
            for event in self.blocks[index]:
                state = self._passed(event, state, places).after(event)
            pending += self._hand_on(state, index, entering)
        return [state or Pending() for state in entering]

    def _hand_on(self, state: Pending, index: int, entering: list[Pending | None]) -> list[int]:
        """Join the state at the end of a block to those at the beginning of its successors; those that this changes."""
        changed = []
        for successor in self.successors[index]:
            before = entering[successor]
            joined = state if before is None else before.join(state)
            if joined != before:
                entering[successor] = joined
                changed.append(successor)
        return changed

    @staticmethod
    def _passed(event: Event, state: Pending, places: Places) -> Pending:
        """What is under way behind the wait and barriers before an event, if it has any."""
        place = places.get(event.op)
        return state if place is None else state.waited(place.copies).after_barrier(place.barriers)
