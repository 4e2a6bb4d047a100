"""What is under way in LDS at a point of the program, on any path to it: the state that barriers are found by.

Groups of waves that are out of phase (`ck.group_barrier`) meet at barriers that are not the same one of the program: an
access has ended for all of them only as many barriers later as lie between the first group and the last.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import reduce
from itertools import zip_longest
from operator import or_
from typing import NamedTuple

from ckmlir.dialect import synchronization
from ckmlir.dialect.build import integer_of, producer, text_of
from ckmlir.dialect.lds_layout import LdsLayout
from ckmlir.dialect.scalars import bits
from ckmlir.dialect.types import LdsType, describe
from ckmlir.mlir import ir
from ckmlir.passes.framework import fail
from ckmlir.passes.lds_traffic import traffic_of

MOST_COPIES = synchronization.COUNTERS["copies"]
BARRIER, GROUP_BARRIER = "ck.barrier", "ck.group_barrier"


class Access(NamedTuple):
    """The bytes of the tensor that an operation reads, writes, or copies into ("read", "write", "copy")."""

    kind: str
    tensor: ir.Value
    start: int
    end: int


@dataclass(frozen=True)
class Event:
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
class Pending:
    """What is under way at a point of the program, on any path to it."""

    open: int = 0
    """Accesses that no barrier has ended."""
    copies: tuple[tuple[int, int], ...] = ()
    """Copies not waited for: (bit, least number of copies issued behind it), sorted."""
    closing: tuple[int, ...] = ()
    """Accesses that a barrier has ended in their own wave, by how many more have to follow for the group of waves that
    is furthest behind: one for those of the first entry. Empty where all waves are in phase."""
    arrivals: tuple[int, ...] = ()
    """For every group of waves the barriers at which it arrived more often than the group furthest behind."""

    @property
    def unsafe(self) -> int:
        """The bits of all accesses that some wave may still be at."""
        return reduce(or_, self.closing, self.open)

    @property
    def spread(self) -> int:
        """The barriers between the first group and the last."""
        return max(self.arrivals, default=0)

    @property
    def flying(self) -> int:
        """The bits of those copies."""
        return sum(bit for bit, _ in self.copies)

    def join(self, other: "Pending") -> "Pending":
        """What is under way where two paths meet."""
        if self == other:
            return self
        fewest = dict(self.copies)
        for bit, behind in other.copies:
            fewest[bit] = min(behind, fewest.get(bit, behind))
        closing = tuple(one | two for one, two in zip_longest(self.closing, other.closing, fillvalue=0))
        arrivals = max(self.arrivals, other.arrivals, key=lambda one: (max(one, default=0), one))
        return Pending(self.open | other.open, tuple(sorted(fewest.items())), closing, arrivals)

    def waited(self, copies: int | None) -> "Pending":
        """After a wait that leaves so many copies outstanding (None: it is not for copies)."""
        if copies is None:
            return self
        return replace(self, copies=tuple((bit, behind) for bit, behind in self.copies if behind < copies))

    def after_barrier(self, times: int = 1) -> "Pending":
        """After so many barriers, with a wait for LDS before the first: copies may be under way still."""
        if not times:
            return self
        closing = [*self.closing, *[0] * (self.spread + 1)]
        closing[self.spread] |= self.open & ~self.flying  # the barrier itself is the first that follows
        once = replace(self, open=self.open & self.flying, closing=_shorter(closing[1:]))
        return once.after_barrier(times - 1)

    def after_group_barrier(self, op: ir.Operation) -> "Pending":
        """After a barrier at which only some groups of waves arrive."""
        first, last = integer_of(op, "first"), integer_of(op, "last")
        before = self.arrivals or (0,) * integer_of(op, "groups")
        arrivals = [count + (first <= group <= last) for group, count in enumerate(before)]
        arrivals = [count - min(arrivals) for count in arrivals]
        nearer = max(0, self.spread - max(arrivals))
        return replace(self, closing=self.closing[nearer:], arrivals=tuple(arrivals) if any(arrivals) else ())

    def after(self, event: Event) -> "Pending":
        """After an event."""
        if not event.bit:
            if event.copies is not None:
                return self.waited(event.copies)
            if event.op.name == GROUP_BARRIER:
                return self.after_group_barrier(event.op)
            return self.after_barrier() if event.op.name == BARRIER else self
        if not event.is_copy:
            return replace(self, open=self.open | event.bit)
        behind = {bit: min(count + 1, MOST_COPIES) for bit, count in self.copies} | {event.bit: 0}
        return replace(self, open=self.open | event.bit, copies=tuple(sorted(behind.items())))


def _shorter(closing: list[int]) -> tuple[int, ...]:
    """Without zeros at the end."""
    while closing and not closing[-1]:
        closing = closing[:-1]
    return tuple(closing)


def events_of(block: ir.Block) -> Iterator[tuple[Event, Access | None]]:
    """LDS accesses, waits for copies, and barriers (with whether a wait for LDS is the last thing before)."""
    last: Access | None = None
    waited = False
    for op in (op.operation for op in block):
        if op.name in (BARRIER, GROUP_BARRIER):
            yield Event(op, waited=waited), None
            last, waited = None, False
        elif op.name == "ck.wait":
            waited = waited or ("lds" in op.attributes and integer_of(op, "lds") == 0)
            if "copies" in op.attributes:
                yield Event(op, copies=integer_of(op, "copies")), None
                last = None
        elif (access := _access_of(op)) is not None:
            if access != last or access.kind == "copy":
                yield Event(op), access
            last, waited = access, False


def in_conflict(left: Access, right: Access, several_waves: bool) -> bool:
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


def _access_of(op: ir.Operation) -> Access | None:
    """The bytes of the tensor that an LDS access touches."""
    traffic = traffic_of(op)
    return None if traffic is None else Access(*traffic, *_bytes_of(producer(traffic.tensor)))


def _bytes_of(alloc: ir.Operation | None) -> tuple[int, int]:
    assert alloc is not None, "an LDS tensor is the result of an operation"
    if "offset" not in alloc.attributes:
        fail(alloc, "has no offset; run ck-allocate-lds before ck-insert-barriers")
    lds = describe(alloc.results[0].type)
    assert isinstance(lds, LdsType)
    start = integer_of(alloc, "offset")
    return start, start + LdsLayout.parse(text_of(alloc, "layout")).elements * bits(lds.element) // 8
