"""Insert barriers and waits where waves meet in LDS, and waits for copies from memory to LDS.

Between a write to LDS and a read or write of the same bytes by another wave, and between a read and a later write,
a barrier must lie, and before it a wait for the wave's own LDS accesses. A barrier is inserted before the first
operation that would otherwise conflict with an access since the last barrier on any path; so one barrier serves as many
conflicts as it can. Then those that later ones made needless are left out. In a workgroup of one wave accesses complete
in order, and need none.

A copy from memory to LDS is a write that ends some time later. What conflicts with it waits, before its barrier, until
at most as many copies are outstanding as were issued behind it on the path where these are fewest. Later copies stay in
flight, through the barrier too. Readers of one stage wait together. Before a kernel ends all its copies have ended.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from ckmlir.dialect import synchronization
from ckmlir.dialect.build import integer_of, producer, text_of
from ckmlir.dialect.lds_layout import LdsLayout
from ckmlir.dialect.scalars import bits
from ckmlir.dialect.types import LdsType, describe
from ckmlir.mlir import ir
from ckmlir.passes.framework import Pass, fail
from ckmlir.passes.lds_traffic import traffic_of
from ckmlir.passes.loop_body import stage_of
from ckmlir.passes.walk import expanded_functions, waves_of

MOST_COPIES = synchronization.COUNTERS["copies"]


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
        others = {other: copies for other, copies in places.items() if other != op}
        if not flow.conflict(others):
            places = others
    places = flow.joined(places)
    unfinished = flow.barriers_without_wait(places) if flow.several_waves else []
    for op, copies in places.items():
        last = op.name == END
        with ir.InsertionPoint(op), op.location:
            synchronization.wait(lds=None if last else 0, copies=copies)
            if flow.several_waves and not last:
                synchronization.barrier()
    for op in unfinished:
        with ir.InsertionPoint(op), op.location:
            synchronization.wait(lds=0)


END = "func.return"


class _Access(NamedTuple):
    """The bytes of the tensor that an operation reads, writes, or copies into ("read", "write", "copy")."""

    kind: str
    tensor: ir.Value
    start: int
    end: int


@dataclass(frozen=True)
class _Event:
    """An LDS access (`bit` stands for its bytes, `conflicts` for those it conflicts with); else a barrier, a wait for
    all but `copies` copies, or the end of the kernel.
    """

    op: ir.Operation
    bit: int = 0
    conflicts: int = 0
    is_copy: bool = False
    waited: bool = False
    """For a barrier: whether the wave has waited for all accesses of the block before it."""
    copies: int | None = None


@dataclass(frozen=True)
class _Pending:
    """What is under way at a point of the program, on any path to it."""

    open: int = 0
    """Accesses that no barrier has ended."""
    copies: tuple[tuple[int, int], ...] = ()
    """Copies not waited for: (bit, least number of copies issued behind it), sorted."""

    @property
    def flying(self) -> int:
        """The bits of those copies."""
        return sum(bit for bit, _ in self.copies)

    def join(self, other: "_Pending") -> "_Pending":
        """What is under way where two paths meet."""
        if self == other:
            return self
        fewest = dict(self.copies)
        for bit, behind in other.copies:
            fewest[bit] = min(behind, fewest.get(bit, behind))
        return _Pending(self.open | other.open, tuple(sorted(fewest.items())))

    def waited(self, copies: int | None) -> "_Pending":
        """After a wait that leaves so many copies outstanding (None: it is not for copies)."""
        if copies is None:
            return self
        return _Pending(self.open, tuple((bit, behind) for bit, behind in self.copies if behind < copies))

    def after_barrier(self) -> "_Pending":
        """After a barrier, with a wait for LDS before it: copies may be under way still."""
        return _Pending(self.open & self.flying, self.copies)

    def after(self, event: _Event) -> "_Pending":
        """After an event."""
        if not event.bit:
            if event.copies is not None:
                return self.waited(event.copies)
            return self.after_barrier() if event.op.name == "ck.barrier" else self
        if not event.is_copy:
            return _Pending(self.open | event.bit, self.copies)
        behind = {bit: min(count + 1, MOST_COPIES) for bit, count in self.copies} | {event.bit: 0}
        return _Pending(self.open | event.bit, tuple(sorted(behind.items())))


Places = dict[ir.Operation, int | None]
"""Operations before which a wait and a barrier stand, with the copies that may stay in flight (None: as many as do)."""


class _Flow:
    """The accesses of every block in order, those that repeat the one before left out."""

    def __init__(self, function: ir.Operation) -> None:
        self.several_waves = waves_of(function) > 1
        blocks = list(function.regions[0])
        number = {block: index for index, block in enumerate(blocks)}
        self.successors = [[number[to] for op in block for to in op.operation.successors] for block in blocks]
        found = [list(_events(block)) for block in blocks]
        accesses = list(dict.fromkeys(access for events in found for _, access in events if access is not None))
        bit = {access: 1 << index for index, access in enumerate(accesses)}
        conflicts = {
            access: sum(bit[other] for other in accesses if _conflict(access, other, self.several_waves))
            for access in accesses
        }
        self.blocks = [
            [
                event if at is None else _Event(event.op, bit[at], conflicts[at], is_copy=at.kind == "copy")
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
            op, copies = found
            places[op] = copies
        return {event.op: places[event.op] for events in self.blocks for event in events if event.op in places}

    def joined(self, places: Places) -> Places:
        """Fewer places where readers of one stage wait for several copies: the first waits for those of the others."""
        for events in self.blocks:
            first: dict[str | None, ir.Operation] = {}
            for op in [event.op for event in events if event.op in places]:
                stage = stage_of(op)
                fewer = {other: copies for other, copies in places.items() if other != op}
                hit = self.conflict(fewer)
                if stage is None or stage not in first or hit is None or hit[0] != op or hit[1] is None:
                    first[stage] = op
                    continue
                before = fewer[first[stage]]
                fewer[first[stage]] = hit[1] if before is None else min(before, hit[1])
                if self.conflict(fewer) is None:
                    places = fewer
                else:
                    first[stage] = op
        return places

    def conflict(self, places: Places) -> tuple[ir.Operation, int | None] | None:
        """An operation that the places leave in a conflict, with the copies that it may leave in flight; None: none."""
        entering: list[_Pending | None] = [_Pending(), *[None] * (len(self.blocks) - 1)]
        pending = [0]
        while pending:
            index = pending.pop(0)
            state = entering[index]
            assert state is not None
            for event in self.blocks[index]:
                state = self._passed(event, state, places)
                hit = state.flying if event.op.name == END else state.open & event.conflicts
                if hit:
                    return event.op, min((behind for bit, behind in state.copies if bit & hit), default=None)
                state = state.after(event)
            for successor in self.successors[index]:
                before = entering[successor]
                joined = state if before is None else before.join(state)
                if joined != before:
                    entering[successor] = joined
                    pending.append(successor)
        return None

    def barriers_without_wait(self, places: Places) -> list[ir.Operation]:
        """The barriers that are there already, at which an access of the wave itself may still be under way."""
        found: dict[ir.Operation, None] = {}
        entering = [_Pending() for _ in self.blocks]
        pending = list(range(len(self.blocks)))
        while pending:
            index = pending.pop(0)
            state = entering[index]
            for event in self.blocks[index]:
                state = self._passed(event, state, places)
                if event.op.name == "ck.barrier" and state.open & ~state.flying and not event.waited:
                    found[event.op] = None
                state = state.after(event)
            for successor in self.successors[index]:
                joined = entering[successor].join(state)
                if joined != entering[successor]:
                    entering[successor] = joined
                    pending.append(successor)
        return list(found)

    @staticmethod
    def _passed(event: _Event, state: _Pending, places: Places) -> _Pending:
        """What is under way behind the wait and barrier before an event, if it has any."""
        return state.waited(places[event.op]).after_barrier() if event.op in places else state


def _events(block: ir.Block) -> Iterator[tuple[_Event, _Access | None]]:
    """LDS accesses, waits for copies, the end, and barriers (with whether a wait for LDS is the last thing before)."""
    last: _Access | None = None
    waited = False
    for op in (op.operation for op in block):
        if op.name == "ck.barrier":
            yield _Event(op, waited=waited), None
            last, waited = None, False
        elif op.name == "ck.wait":
            waited = waited or ("lds" in op.attributes and integer_of(op, "lds") == 0)
            if "copies" in op.attributes:
                yield _Event(op, copies=integer_of(op, "copies")), None
                last = None
        elif op.name == END:
            yield _Event(op), None
        elif (access := _access_of(op)) is not None:
            if access != last or access.kind == "copy":
                yield _Event(op), access
            last, waited = access, False


def _conflict(left: _Access, right: _Access, several_waves: bool) -> bool:
    """Whether one of two accesses to shared bytes must have ended before the other.

    Two writes to one tensor need not: fragments of one tile are disjoint, and between the tiles of two iterations lies
    a read, with its barriers. One wave's own accesses complete in order, but for copies.
    """
    reads = (left.kind, right.kind).count("read")
    if reads == 2 or (reads == 0 and left.tensor == right.tensor):
        return False
    if not several_waves and "copy" not in (left.kind, right.kind):
        return False
    return left.start < right.end and right.start < left.end


def _access_of(op: ir.Operation) -> _Access | None:
    """The bytes of the tensor that an LDS access touches."""
    traffic = traffic_of(op)
    return None if traffic is None else _Access(*traffic, *_bytes_of(producer(traffic.tensor)))


def _bytes_of(alloc: ir.Operation | None) -> tuple[int, int]:
    assert alloc is not None, "an LDS tensor is the result of an operation"
    if "offset" not in alloc.attributes:
        fail(alloc, "has no offset; run ck-allocate-lds before ck-insert-barriers")
    lds = describe(alloc.results[0].type)
    assert isinstance(lds, LdsType)
    start = integer_of(alloc, "offset")
    return start, start + LdsLayout.parse(text_of(alloc, "layout")).elements * bits(lds.element) // 8
