"""The keys of HSTU attention in the loop over keys: a run for each query, and the query's own place."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from typing import Any

from msgspec import Struct

from ckmlir.lang import Scalar, Tile, coordinates, maximum, minimum, where
from ckmlir.ops.attention.loop.loop_kernel import Form, Score
from ckmlir.ops.attention.loop.spans_kernel import Reach, rounded_up, whole
from ckmlir.ops.attention.loop.work_kernel import Work

FAR = 2**31 - 1


class Places(Struct, frozen=True):
    """The places of a sequence; see `parts.hstu_keys`.

    Attributes:
        length: of the sequence; history: places without candidates; context: first ones, at most as many.
        causal: no place attends to those behind it.
    """

    length: Scalar
    history: Scalar
    context: Scalar
    causal: bool

    def runs(self, row: Tile) -> tuple[Tile | int, Tile]:
        """Where the keys of places begin and end, but for themselves."""
        if not self.causal:
            return 0, where(row < self.history, row * 0 + self.length, self.history)
        return 0, where(row < self.context, self.history, minimum(row + 1, self.history))

    def reach(self, first: Scalar, form: Form, mask: Score) -> Reach:
        """The keys of a block of queries."""
        seen = self.history
        if self.causal:
            seen = seen.minimum(first.maximum(self.context) + 1)
        return Reach((0, self.high(first, form)), (0, whole(seen, form)), mask)

    def high(self, first: Scalar, form: Form) -> Scalar:
        """The end of the keys of a block of queries."""
        behind: Scalar = (first + form.queries).minimum(self.length)
        if not self.causal:
            behind = (first < self.history).select(self.length, behind)
            return behind
        seen: Scalar = behind.maximum((first < self.context).select(self.history, 0))
        return seen


class Windowed(Places, frozen=True):
    """Places that see so many neighbours, but for the last ones of the history from `free` on, and candidates if there
    are any such."""

    window: Scalar
    free: Scalar

    def runs(self, row: Tile) -> tuple[Tile, Tile]:
        """See `Places`."""
        at = minimum(row, self.history)
        begin = at - self.window
        begin = where(at >= self.free, 0, where(begin < self.context, 0, begin))
        if self.causal:
            return begin, super().runs(row)[1]
        behind = at + self.window
        near = where(at >= self.free, self.length, where(behind >= self.history, self.length, behind + 1))
        return begin, where(row < self.history, where(row < self.context, self.first_end, near), self.history)

    @property
    def first_end(self) -> Scalar:
        """The end of the keys of the context, which is one place to the window."""
        behind = self.history - (self.context - 1).maximum(0)
        end: Scalar = (behind < self.window + 1).select(self.length, self.history)
        return end

    def begin(self, place: Scalar) -> Scalar:
        """Where the keys of a place begin that the window limits."""
        begin = place.minimum(self.history) - self.window
        found: Scalar = (begin < self.context).select(0, begin)
        return found

    def reach(self, first: Scalar, form: Form, mask: Score) -> Reach:
        """See `Places`."""
        last = first + (form.queries - 1)
        none = last.minimum(self.history) < self.free
        low = whole(none.select(self.begin(first), 0), form)
        inner = first.maximum(self.context) if self.causal else first + self.window
        end = whole(self.history.minimum(inner + 1), form).maximum(low)
        begin = rounded_up(self.begin(last), form).maximum(low).minimum(end)
        return Reach((low, self.high(first, form)), (begin, end), mask)

    def high(self, first: Scalar, form: Form) -> Scalar:
        """See `Places`."""
        found = super().high(first, form)
        if self.causal:
            return found
        last = (first + (form.queries - 1)).minimum(self.history)
        limited = (last + self.window + 1).maximum((first < self.context).select(self.first_end, 0))
        inside = (last < self.free).select(limited, self.length)
        inside = (last + self.window < self.history).select(inside, self.length)
        end: Scalar = (first < self.history).select(inside.minimum(self.length), found)
        return end


@dataclass(frozen=True)
class Run(Score):
    """Minus infinity outside of the run of keys that each query has.

    Attributes:
        first: the block's first query.
    """

    form: Form
    first: Scalar
    places: Places

    def apply(self, scores: Tile, key: Scalar) -> Tile:
        """See `loop_kernel.Score`."""
        return self.apart(scores, key, self.form.rows() + self.first, -inf)

    def apart(self, scores: Tile, key: Scalar, row: Tile, others: Tile | float) -> Tile:
        """The scores inside the runs of queries, `others` outside."""
        begin, end = self.places.runs(row)
        length = maximum(end - begin, 0)
        column = coordinates(scores, 1) + (key if isinstance(begin, int) else (key - begin)[:, None])
        return where(column.below(length[:, None]), scores, others)


@dataclass(frozen=True)
class RunAndSelf(Run):
    """The run, and the query's own place."""

    def apply(self, scores: Tile, key: Scalar) -> Tile:
        """See `loop_kernel.Score`. One choice in another: joined conditions would take scalar registers."""
        row = self.form.rows() + self.first
        own = where(coordinates(scores, 1).equals((row - key)[:, None]), scores, -inf)
        return self.apart(scores, key, row, own)


def places_of(words: Sequence[str], given: Any, batch: Scalar, length: Scalar) -> Places:
    """The places of a sequence of some length; `words` are those of `parts.hstu_keys`, which has the arguments."""
    history = length
    if "targets" in words:
        history = (length - given.num_targets.scalar(batch)).minimum(length).maximum(0)
    causal = "causal" in words
    if "window" not in words:
        return Places(length, history, given.hstu_context.minimum(history), causal)
    full = given.hstu_full.minimum(history)
    free = (full < 1).select(FAR, history - full)
    context = given.hstu_context.minimum(history - full)
    return Windowed(length, history, context, causal, given.hstu_window, free)


def reached(words: Sequence[str], given: Any, work: Work, form: Form) -> Reach:
    """The keys of the work's queries; see `places_of`."""
    places = places_of(words, given, work.batch, work.sk)
    kind = RunAndSelf if "targets" in words else Run
    return places.reach(work.first, form, kind(form, work.first, places))
