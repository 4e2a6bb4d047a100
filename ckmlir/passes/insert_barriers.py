"""Insert barriers and waits where waves meet in LDS, and waits for copies from memory to LDS.

Between a write to LDS and a read or write of the same bytes by another wave, and between a read and a later write,
a barrier must lie, and before it a wait for the wave's own LDS accesses. A barrier is inserted before the first
operation that would otherwise conflict with an access since the last barrier on any path; so one barrier serves as many
conflicts as it can. Then those that later ones made needless are left out. In a workgroup of one wave without copies
accesses complete in the order in which they are issued, and nothing waits for them. A barrier stands there all the
same, as an order and not as an instruction (LLVM makes it none): a compiler that looks at one lane sees no conflict
with the bytes of another.

A copy from memory to LDS is a write that ends some time later. What conflicts with it waits, before its barrier, until
at most as many copies are outstanding as were issued behind it on the path where these are fewest. Later copies stay in
flight, through the barrier too. Readers of one stage wait together. Where barriers that are there already suffice, the
wait stands before the last of them that does, and none is added. At the end of a kernel s_endpgm waits for copies
itself (CDNA3 ISA, SOPP S_ENDPGM). A schedule with `waits drain` waits for all accesses to memory instead, so that the
order in which copies land does not matter.

What may be under way at a point, also where groups of waves are out of phase, is in `pending_accesses`.
"""

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from ckmlir.dialect import synchronization
from ckmlir.mlir import ir
from ckmlir.passes.framework import Pass
from ckmlir.passes.loop_body import stage_of
from ckmlir.passes.pending_accesses import BARRIER, GROUP_BARRIER, Event, Pending, events_of, in_conflict
from ckmlir.passes.pipeline_loops import DRAINS
from ckmlir.passes.slots import visits_of
from ckmlir.passes.walk import Blocks, expanded_functions, waves_of

MOST_GROUPS = 16
"""Waves of a workgroup: there are no more groups of them."""


@dataclass(frozen=True)
class InsertBarriers(Pass):
    """Insert the waits and barriers that accesses to LDS need between waves, and behind copies from memory."""

    name: ClassVar[str] = "ck-insert-barriers"
    keeps_lists: ClassVar[bool] = True

    def apply(self, module: ir.Module) -> None:
        for function, blocks in expanded_functions(module, self.name):
            _protect(function, blocks)


def _protect(function: ir.Operation, blocks: Blocks) -> None:
    flow = _Flow(function, blocks)
    places = flow.places()
    for spot in list(places):  # one that a later one made needless
        others = {other: place for other, place in places.items() if other != spot}
        if not flow.conflict(others):
            places = others
    places = flow.joined(flow.relaxed(places))
    unfinished = flow.barriers_without_wait(places) if flow.waits else []
    drains = DRAINS in function.attributes
    for spot in dict.fromkeys((*places, *unfinished)):
        place, op, made = places.get(spot, _Place(None, 0)), flow.event(spot).op, []
        with ir.InsertionPoint(op), op.location:
            if flow.waits:
                lds = 0 if spot in unfinished or place.barriers else None
                if drains and place.copies is not None:  # LLVM's wait for copies alone leaves younger loads in flight
                    made.append(synchronization.wait(lds=lds, copies=0, vector_memory=0))
                else:
                    made.append(synchronization.wait(lds=lds, copies=place.copies))
            made += [synchronization.barrier() for _ in range(place.barriers)]
        order = blocks[spot[0]]
        at = order.index(op)
        order[at:at] = made


class _Place(NamedTuple):
    """What stands before an operation: a wait for all but so many copies (None: not for copies), and barriers, before
    the first of them a wait for LDS. No barriers where the operation is one itself.
    """

    copies: int | None
    barriers: int = 1


Spot = tuple[int, int]
"""An event: the block's number, and its own in the block. What a place stands before is an event of the program; where
an event is met is one of a visit (`slots.Visit`), of which blocks that are handed slots have several."""
Places = dict[Spot, _Place]


class _Conflict(NamedTuple):
    """An event that meets accesses (bits) which may be under way; `copies`: least number behind one of these, None if
    none is a copy in flight.

    Attributes:
        spot: of the program; met: of a visit.
    """

    spot: Spot
    met: Spot
    bits: int
    copies: int | None


class _Flow:
    """The accesses of every block in order, those that repeat the one before left out.

    Attributes:
        waits: whether accesses are waited for; else their order is enough.
    """

    def __init__(self, function: ir.Operation, blocks: Blocks) -> None:
        visits = visits_of(function, blocks)
        self.successors = [visit.following for visit in visits]
        self.home = [visit.block for visit in visits]
        lies: dict[ir.Value, tuple[int, int]] = {}
        found = [list(events_of(blocks[visit.block], visit.slots, lies)) for visit in visits]
        accesses = list(dict.fromkeys(access for events in found for _, access in events if access is not None))
        self.waits = waves_of(function) > 1 or any(access.kind == "copy" for access in accesses)
        bit = {access: 1 << index for index, access in enumerate(accesses)}
        conflicts = {
            access: sum(bit[other] for other in accesses if in_conflict(access, other)) for access in accesses
        }
        self.blocks = [
            [
                event if at is None else Event(event.op, event.name, bit[at], conflicts[at], at.kind == "copy")
                for event, at in events
            ]
            for events in found
        ]
        self._known: dict[tuple[int, Pending, tuple[tuple[int, _Place], ...]], tuple[Pending, _Conflict | None]] = {}

    def event(self, spot: Spot) -> Event:
        """The event at a spot of the program."""
        return self.blocks[self.home.index(spot[0])][spot[1]]

    def _at(self, visit: int, number: int) -> Spot:
        """Where in the program an event of a visit is."""
        return self.home[visit], number

    def places(self) -> Places:
        """Events that need a wait and a barrier before them, in the program's order.

        Found one by one, each time from the beginning: what a place ends must not be reported again by what was known
        before the place was.
        """
        places: Places = {}
        while (found := self.conflict(places)) is not None:
            if found.copies is None or not self._wait_at_barriers(found, places):
                before = places.get(found.spot, _Place(None, 0))
                more = found.copies is None or not before.barriers
                copies = before.copies if found.copies is None else found.copies
                places[found.spot] = _Place(copies, before.barriers + more)
        return dict(sorted(places.items()))

    def _wait_at_barriers(self, found: _Conflict, places: Places) -> bool:
        """Have the barriers wait that are there already, and as many before the event as end copies for all waves.

        False if there are none, all do what they can, or one is in a loop that was left: it would wait in every step.
        """
        changed = False
        entering = self._entering(places)
        barriers = self._barriers_before(found.met, entering)
        if any(self._left(visit, found.met[0]) for visit, _ in barriers):
            return False
        for visit, number in barriers:
            *_, state = self._states(visit, entering[visit], places, number)
            behind = [count for bit, count in state.copies if bit & found.bits]
            spot = self._at(visit, number)
            if behind and (spot not in places or min(behind) < (places[spot].copies or 0)):
                places[spot] = _Place(min(behind), 0)
                changed = True
        return changed

    def _left(self, block: int, later: int) -> bool:
        """Whether a block is in a loop that another one is not in."""
        return block in self._reached(block) and block not in self._reached(later)

    def _reached(self, block: int) -> set[int]:
        """The blocks behind one."""
        found: set[int] = set()
        pending = list(self.successors[block])
        while pending:
            if (one := pending.pop()) not in found:
                found.add(one)
                pending += self.successors[one]
        return found

    def _barriers_before(self, spot: Spot, entering: list[Pending]) -> list[Spot]:
        """On every way to an event the last barrier after whose own wait enough others follow."""
        found: dict[Spot, None] = {}
        pending, seen = [(*spot, 0, MOST_GROUPS)], set()
        while pending:
            block, end, count, spread = pending.pop()
            spreads = self._spreads(block, entering[block])
            for number in range(end - 1, -1, -1):
                spread = min(spread, spreads[number])
                count += self.blocks[block][number].name == BARRIER
                if count > spread and self.blocks[block][number].name == BARRIER:
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
            if event.name == GROUP_BARRIER:
                state = state.after_group_barrier(event.op)
        return found

    def relaxed(self, places: Places) -> Places:
        """Places that wait for fewer copies, where another wait that was found later ends some of them before."""
        for spot, place in list(places.items()):
            if place.copies is not None and place.barriers:
                hit = self.conflict({**places, spot: _Place(None, place.barriers)})
                if hit is None or hit.spot == spot:
                    weaker = {**places, spot: _Place(hit.copies if hit else None, place.barriers)}
                    places = weaker if self.conflict(weaker) is None else places
        return places

    def joined(self, places: Places) -> Places:
        """Fewer places where readers of one stage wait for several copies: the first waits for those of the others."""
        for block in dict.fromkeys(self.home):
            first: dict[str | None, Spot] = {}
            for spot in [one for one, place in places.items() if one[0] == block and place.barriers]:
                stage = stage_of(self.event(spot).op)
                fewer = {other: place for other, place in places.items() if other != spot}
                hit = self.conflict(fewer)
                if stage is None or stage not in first or hit is None or hit.spot != spot or hit.copies is None:
                    first[stage] = spot
                    continue
                copies, barriers = fewer[first[stage]]
                fewer[first[stage]] = _Place(hit.copies if copies is None else min(copies, hit.copies), barriers)
                if self.conflict(fewer) is None:
                    places = fewer
                else:
                    first[stage] = spot
        return places

    def conflict(self, places: Places) -> _Conflict | None:
        """An event that the places leave in a conflict; None: none."""
        return self._run(places)[1]

    def barriers_without_wait(self, places: Places) -> list[Spot]:
        """The barriers that are there already, at which an access of the wave itself may still be under way."""
        found: list[Spot] = []
        for block, entering in enumerate(self._entering(places)):
            states = self._states(block, entering, places, len(self.blocks[block]))
            for number, (event, state) in enumerate(zip(self.blocks[block], states, strict=False)):
                state = _passed(state, places.get(self._at(block, number)))
                if event.name == BARRIER and state.open & ~state.flying and not event.waited:
                    found.append(self._at(block, number))
        return found

    def _entering(self, places: Places) -> list[Pending]:
        """What may be under way at the beginning of every block."""
        return [state or Pending() for state in self._run(places, stop=False)[0]]

    def _run(self, places: Places, *, stop: bool = True) -> tuple[list[Pending | None], _Conflict | None]:
        """What may be under way at the beginning of every block that is reached, up to the first conflict if there is
        one and that is where to `stop`.
        """
        entering: list[Pending | None] = [Pending(), *[None] * (len(self.blocks) - 1)]
        pending = [0]
        while pending:
            index = pending.pop(0)
            state = entering[index]
            assert state is not None
            state, hit = self._through(index, state, places)
            if hit is not None and stop:
                return entering, hit
            for successor in self.successors[index]:
                before = entering[successor]
                joined = state if before is None else before.join(state)
                if joined != before:
                    entering[successor] = joined
                    pending.append(successor)
        return entering, None

    def _through(self, block: int, state: Pending, places: Places) -> tuple[Pending, _Conflict | None]:
        """What is under way behind a block, and its first conflict. Remembered, because most of the program is the same
        for one set of places as for the next.
        """
        own = tuple([(number, place) for (home, number), place in places.items() if home == self.home[block]])
        key = block, state, own
        if key not in self._known:
            here = dict(own)
            first: _Conflict | None = None
            for number, event in enumerate(self.blocks[block]):
                state = _passed(state, here.get(number))
                hit = state.unsafe & event.conflicts
                if hit and first is None:
                    fewest = min((behind for bit, behind in state.copies if bit & hit), default=None)
                    first = _Conflict(self._at(block, number), (block, number), hit, fewest)
                state = state.after(event)
            self._known[key] = state, first
        return self._known[key]

    def _states(self, block: int, state: Pending, places: Places, end: int) -> list[Pending]:
        """What is under way before each of the first `end` events of a block, and before the next one."""
        found = [state]
        for number, event in enumerate(self.blocks[block][:end]):
            found.append(_passed(found[-1], places.get(self._at(block, number))).after(event))
        return found


def _passed(state: Pending, place: _Place | None) -> Pending:
    """What is under way behind a wait and barriers."""
    return state if place is None else state.waited(place.copies).after_barrier(place.barriers)
