"""What becomes of the sums of a workgroup: the sinks, by name.

A sink is given the accumulators and what writes the block of C that accumulators come to; where workgroups share the
sums of a block, it says who adds what.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from ckmlir.lang import Scalar, Tile, Window, load, signal, store, view, wait_until, when, while_loop
from ckmlir.ops.contraction.rows_kernel import Put, added, stored
from ckmlir.ops.contraction.work_kernel import Share, Work

Write = Callable[[Sequence[Tile], Put], None]
"""Writes the block that accumulators come to, as it is told to put tiles into memory."""
Distance = Scalar | int
"""From a workgroup to one behind it."""


class Sink(Protocol):
    """What becomes of the sums of a workgroup."""

    def take(self, work: Work, totals: Sequence[Tile], write: Write) -> None:
        """Trace what becomes of the accumulators of a piece of work."""


class Whole:
    """The sums are a block's, or a part's that has a place of its own."""

    def take(self, work: Work, totals: Sequence[Tile], write: Write) -> None:
        """See `Sink`."""
        write(totals, stored)


class Added:
    """Memory adds the sums of all parts, in no fixed order."""

    def take(self, work: Work, totals: Sequence[Tile], write: Write) -> None:
        """See `Sink`."""
        write(totals, added)


class AddedUnlessWhole:
    """Memory adds the sums of blocks that several workgroups share; the others are stored."""

    def take(self, work: Work, totals: Sequence[Tile], write: Write) -> None:
        """See `Sink`."""
        assert work.share is not None
        with when(work.share.is_whole) as whole:
            write(totals, stored)
        with whole.otherwise():
            write(totals, added)


class Gathered:
    """Whoever has a block's first step puts its sums together; the others leave theirs in memory and set a flag.

    A workgroup leaves the sums of one block at most, in a place of its own: all its blocks but the first begin with it.
    """

    def __init__(self, goes_on: Callable[[Share, Distance], Scalar], following: Callable[[Scalar], Scalar]) -> None:
        """A workgroup adds the sums of the one `distance` behind it, which begins at 1, as long as it `goes_on`; then
        comes the `following` distance.
        """
        self._goes_on, self._following = goes_on, following

    def take(self, work: Work, totals: Sequence[Tile], write: Write) -> None:
        """See `Sink`."""
        share = work.share
        assert share is not None
        first = self._goes_on(share, 1)
        with when(first):
            wait_until(work.distances.flags, share.workgroup + 1, 1)
        with while_loop(lambda goes_on, *_: goes_on, carry=[first, 1, *totals]) as gathering:
            _, distance, *sums = gathering.carried
            behind, following = share.workgroup + distance, self._following(distance)
            loaded = [
                load(window, own.type.distribution)
                for own, window in zip(sums, _places(work, behind, sums), strict=True)
            ]
            # While these are on their way the next are waited for, or, where none follow, what is there already.
            goes_on = self._goes_on(share, following)
            wait_until(work.distances.flags, goes_on.select(share.workgroup + following, behind), 1)
            gathering.carry(goes_on, following, *(own + one for own, one in zip(sums, loaded, strict=True)))
        sums = gathering.results[2:]
        with when(share.has_first) as owner:
            write(sums, stored)
        with owner.otherwise():
            for one, window in zip(sums, _places(work, share.workgroup, sums), strict=True):
                store(one, window)
            signal(work.distances.flags, share.workgroup, 1)


def _places(work: Work, workgroup: Scalar, sums: Sequence[Tile]) -> list[Window]:
    """Where a workgroup leaves sums."""
    found = []
    for number, one in enumerate(sums):
        rows, columns = one.lengths
        place = (workgroup.to("i64") * len(sums) + number) * (rows * columns)
        found.append(view(work.distances.sums.offset(place), (rows, columns), (columns, 1)).window(one.lengths, (0, 0)))
    return found


def _in_order(share: Share, distance: Distance) -> Scalar:
    """The one with the first step adds the others' sums one after the other."""
    there: Scalar = share.first_of(share.workgroup + distance) < share.behind
    goes_on: Scalar = share.has_first & there
    return goes_on


def _by_pairs(share: Share, distance: Distance) -> Scalar:
    """Of every two neighbours the first adds, of these again, and so on: who stands at a multiple of twice the distance
    from the first goes on.
    """
    there: Scalar = share.first_of(share.workgroup + distance) < share.behind
    place = share.workgroup - share.first_workgroup()
    is_first: Scalar = (share.has_first.select(0, place) % (distance * 2)).equals(0)
    goes_on: Scalar = is_first & there
    return goes_on


SINKS: dict[str, Sink] = {
    "store": Whole(),
    "partial": Whole(),
    "atomic": Added(),
    "atomic_shares": AddedUnlessWhole(),
    "linear": Gathered(_in_order, lambda distance: distance + 1),
    "tree": Gathered(_by_pairs, lambda distance: distance * 2),
}
"""By the names of `ContractionSpec.sink`."""
