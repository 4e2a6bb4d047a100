"""What is under way in LDS at a point of the program, on any path to it: the state that barriers are found by.

Groups of waves that are out of phase (`ck.group_barrier`) meet at barriers that are not the same one of the program: an
access has ended for all of them only as many barriers later as lie between the first group and the last.
"""

from collections.abc import Iterable, Iterator
from functools import reduce
from itertools import zip_longest
from operator import or_
from typing import NamedTuple

from ckmlir.dialect import synchronization
from ckmlir.dialect.build import integer_of, producer, text_of
from ckmlir.dialect.fragment_lds import BEGINS, tensor_bytes
from ckmlir.dialect.lds_indexed import ATOMIC, FOLLOWS
from ckmlir.mlir import ir
from ckmlir.passes.framework import fail
from ckmlir.passes.lds_traffic import touches_lds, traffic_of
from ckmlir.passes.slots import Slots

MOST_COPIES = synchronization.COUNTERS["copies"]
BARRIER, GROUP_BARRIER = "ck.barrier", "ck.group_barrier"


class Access(NamedTuple):
    """The bytes of the tensor that an operation reads, writes, copies into or updates ("read", "write", "copy",
    "update"); whether a copy is the first of a value (`begins`); of an update what it does, and whether it is one of
    several of a tile (`follows`).
    """

    kind: str
    tensor: ir.Value
    start: int
    end: int
    begins: bool = False
    does: str = ""
    follows: bool = False

    def may_mix_with(self, earlier: "Access") -> bool:
        """Whether two updates may happen in either order: those of one tile may, and such that commute."""
        return self.does == earlier.does and (self.follows or self.does in ATOMIC)


class Event(NamedTuple):
    """An LDS access (`bit` stands for its bytes, `conflicts` for those it conflicts with); else a barrier (`waited`:
    whether the wave has waited for all accesses of the block before it) or a wait for all but `copies` copies. `name`
    is that of the operation.
    """

    op: ir.Operation
    name: str
    bit: int = 0
    conflicts: int = 0
    is_copy: bool = False
    waited: bool = False
    copies: int | None = None


class Pending(NamedTuple):
    """What is under way at a point of the program, on any path to it.

    Attributes:
        open: accesses that no barrier has ended.
        copies: those not waited for: (bit, least number of copies issued behind it), sorted.
        closing: accesses that a barrier has ended in their own wave, by how many more have to follow for the group of
            waves that is furthest behind: one for those of the first entry. Empty where all waves are in phase.
        arrivals: for every group of waves the barriers at which it arrived more often than the group furthest behind.
    """

    open: int = 0
    copies: tuple[tuple[int, int], ...] = ()
    closing: tuple[int, ...] = ()
    arrivals: tuple[int, ...] = ()

    @property
    def unsafe(self) -> int:
        """The bits of all accesses that some wave may still be at."""
        return reduce(or_, self.closing, self.open) if self.closing else self.open

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
        flying = tuple([one for one in self.copies if one[1] < copies])
        return self if len(flying) == len(self.copies) else self._replace(copies=flying)

    def after_barrier(self, times: int = 1) -> "Pending":
        """After so many barriers, with a wait for LDS before the first: copies may be under way still."""
        if not times:
            return self
        closing = [*self.closing, *[0] * (self.spread + 1)]
        closing[self.spread] |= self.open & ~self.flying  # the barrier itself is the first that follows
        once = self._replace(open=self.open & self.flying, closing=_shorter(closing[1:]))
        return once.after_barrier(times - 1)

    def after_group_barrier(self, op: ir.Operation) -> "Pending":
        """After a barrier at which only some groups of waves arrive."""
        first, last = integer_of(op, "first"), integer_of(op, "last")
        before = self.arrivals or (0,) * integer_of(op, "groups")
        arrivals = [count + (first <= group <= last) for group, count in enumerate(before)]
        arrivals = [count - min(arrivals) for count in arrivals]
        nearer = max(0, self.spread - max(arrivals))
        return self._replace(closing=self.closing[nearer:], arrivals=tuple(arrivals) if any(arrivals) else ())

    def after(self, event: Event) -> "Pending":
        """After an event."""
        if not event.bit:
            if event.copies is not None:
                return self.waited(event.copies)
            if event.name == GROUP_BARRIER:
                return self.after_group_barrier(event.op)
            return self.after_barrier() if event.name == BARRIER else self
        now = self.open | event.bit
        if not event.is_copy:
            return self if now == self.open else Pending(now, self.copies, self.closing, self.arrivals)
        behind = [(bit, count + (count < MOST_COPIES)) for bit, count in self.copies if bit != event.bit]
        return Pending(now, tuple(sorted([*behind, (event.bit, 0)])), self.closing, self.arrivals)


def _shorter(closing: list[int]) -> tuple[int, ...]:
    """Without zeros at the end."""
    while closing and not closing[-1]:
        closing = closing[:-1]
    return tuple(closing)


def events_of(
    block: Iterable[ir.Operation], slots: Slots, lies: dict[ir.Value, tuple[int, int]]
) -> Iterator[tuple[Event, Access | None]]:
    """LDS accesses, waits for copies, and barriers (with whether a wait for LDS is the last thing before) of a block
    that is reached with these slots.

    `lies`: the bytes of the tensors that were met, to be remembered from block to block.
    """
    last: Access | None = None
    waited = False
    for op in block:
        name = op.name
        if name in (BARRIER, GROUP_BARRIER):
            yield Event(op, name, waited=waited), None
            last, waited = None, False
        elif name == "ck.wait":
            waited = waited or ("lds" in op.attributes and integer_of(op, "lds") == 0)
            counts = [integer_of(op, one) for one in ("copies", "vector_memory") if one in op.attributes]
            if counts:  # copies are accesses to memory too
                yield Event(op, name, copies=min(counts)), None
                last = None
        elif touches_lds(name) and (access := _access_of(op, slots, lies)) is not None:
            if access != last or access.kind in ("copy", "update"):
                yield Event(op, name), access
            last, waited = access, False


def in_conflict(later: Access, earlier: Access) -> bool:
    """Whether an access to shared bytes must wait until another has ended.

    Of two writes to one tensor that is so only where a value of it begins, and the copies of another that nobody has
    read may still be under way: behind a loop that has run ahead. Fragments of one value are disjoint, and every byte
    is written by the same wave each time, whose own accesses complete in order, but for copies.
    """
    kinds = (later.kind, earlier.kind)
    if "update" in kinds and later.tensor == earlier.tensor:
        mixing = kinds == ("update", "update") and later.may_mix_with(earlier)
        return not mixing
    reads = kinds.count("read")
    if reads == 2 or (reads == 0 and later.tensor == earlier.tensor and not (later.begins and earlier.kind == "copy")):
        return False
    return later.start < earlier.end and earlier.start < later.end


def _access_of(op: ir.Operation, slots: Slots, lies: dict[ir.Value, tuple[int, int]]) -> Access | None:
    """The bytes of the tensor that an LDS access touches."""
    traffic = traffic_of(op)
    if traffic is None:
        return None
    traffic = traffic._replace(tensor=slots.get(traffic.tensor, traffic.tensor))
    begins = traffic.kind == "copy" and BEGINS in op.attributes
    does = text_of(op, "kind") if traffic.kind == "update" else ""
    if len(op.results) and does:
        does = f"fetch {does}"  # others of its kind do not commute with what learns how many came before
    if traffic.tensor not in lies:
        lies[traffic.tensor] = _bytes_of(producer(traffic.tensor))
    return Access(*traffic, *lies[traffic.tensor], begins, does, FOLLOWS in op.attributes)


def _bytes_of(alloc: ir.Operation | None) -> tuple[int, int]:
    assert alloc is not None, "an LDS tensor is the result of an operation"
    if "offset" not in alloc.attributes:
        fail(alloc, "has no offset; run ck-allocate-lds before ck-insert-barriers")
    start = integer_of(alloc, "offset")
    return start, start + tensor_bytes(alloc)
