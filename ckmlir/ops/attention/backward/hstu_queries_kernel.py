"""The queries that attend to the keys of HSTU attention, in the loop over queries: `parts.hstu_keys` by keys.

A lane has one key and several queries, so that what is known of its key is found once, in front of the loop. With u
places of history of n, a context of c places, a window of w and free places from f on (those that no window limits),
key j < u is attended to by the queries

| | causal | otherwise |
|---|---|---|
| of its run: from | j | j - w, 0 without a window |
| to before | e = max(j, c - 1) + w + 1, n where e > u or without a window | the same |
| and | i < c, and i >= max(f, j) | i < c, and i >= f |

and key j >= u, a candidate, by itself and, unless causal, by queries from s to before u, where s is 0 without a window
or where that reaches u from the context's last place, else min(u - w, f).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from ckmlir.lang import Scalar, Tile, coordinates, maximum, where, zeros
from ckmlir.lang.views import Amount
from ckmlir.ops.attention.backward.loop_kernel import Form, MaskPart, Span
from ckmlir.ops.attention.backward.parts_kernel import distance
from ckmlir.ops.attention.loop.hstu_keys_kernel import FAR, Places, Windowed, places_of
from ckmlir.ops.attention.loop.work_kernel import Work

Run = tuple[Scalar, Scalar]
"""Queries: the first, and the end."""


class HstuQueries(Struct, frozen=True):
    """Those of the work's block of keys, where no window limits places; see `parts_kernel.Attending`.

    Attributes:
        first: the block's first key.
        candidates: whether there may be any.
    """

    form: Form
    places: Places
    first: Scalar
    candidates: bool

    @property
    def masks(self) -> list[MaskPart]:
        """See `Attending`."""
        if self.candidates:
            return [Keyed(self, self.first)]
        return [Behind(self, self.first)] if self.places.causal else []

    @property
    def spans(self) -> list[Span]:
        """See `Attending`; those that attend to all keys of the block apart."""
        places, masks, last = self.places, self.masks, self._last
        if not masks:
            return [Span(0, places.length, [])]
        past, nothing = self.first < places.history, self.first * 0
        whole = last < places.history + 1
        begin, end = self.first if places.causal else nothing, places.length
        every = whole.select(self._up(last - 1) if places.causal else nothing, end)
        early = past.select(places.context, nothing if places.causal else places.history)
        if not places.causal:
            begin, early = past.select(begin, self.first), past.select(nothing, early)
        if self.candidates:
            end, every = past.select(end, last), past.select(every, last)
        middle = every.maximum(self._down(begin)).maximum(self._up(early)).minimum(end)
        return [self._joined([(nothing, early), (begin, middle)], masks), Span(middle, end, [])]

    def attended(self, low: Scalar, high: Scalar) -> tuple[Scalar, Scalar]:
        """See `Attending`: to every key there is its own place, at least."""
        return low, high

    def run(self, key: Tile, past: Tile) -> tuple[Tile, Tile]:
        """Where the runs of keys (tiles) begin and end; `past`: whether keys are of the history, not candidates."""
        end = key * 0 + self.places.length
        if self.places.causal:
            return key, where(past, end, key + 1)
        return key * 0, where(past, end, self.places.history)

    def late(self, key: Tile, past: Tile) -> Tile | None:
        """From which on queries attend to keys, too, None for none."""
        return None

    @property
    def _last(self) -> Scalar:
        """The end of the block's keys."""
        last: Scalar = (self.first + self.form.keys).minimum(self.places.length)
        return last

    def _down(self, query: Scalar) -> Scalar:
        """The first query of a query's block; it is not negative."""
        found: Scalar = query // self.form.queries * self.form.queries
        return found

    def _up(self, end: Scalar) -> Scalar:
        """The end of the blocks that end with a query."""
        return self._down(end + (self.form.queries - 1))

    def _joined(self, runs: Sequence[Run], masks: Sequence[MaskPart]) -> Span:
        """The blocks of runs, each once: from one to the next there is a gap. A run begins where the one before it
        does, or behind that, and may be empty."""
        first, end = runs[0]
        total, reached, gaps = self._up(end), self._up(end), []
        for begin, end in runs[1:]:
            low = self._down(begin).maximum(reached)
            gaps.append((total, low - reached))
            reached = self._up(end).maximum(low)
            total = total + (reached - low)
        return Span(first, total, masks, gaps)


class WindowedQueries(HstuQueries, frozen=True):
    """The same where a window limits places."""

    places: Windowed

    @property
    def masks(self) -> list[MaskPart]:
        """See `Attending`."""
        return [Keyed(self, self.first)]

    @property
    def spans(self) -> list[Span]:
        """See `Attending`; those that attend to keys by their runs alone apart, which take one comparison: none of the
        context, of those that no window limits, or that is its own key outside of a run."""
        places, first, last, nothing = self.places, self.first, self._last, self.first * 0
        limited = (last.minimum(places.history) - 1).maximum(places.context - 1) + (places.window + 1)
        begin = first if places.causal else (first - places.window).maximum(0)
        end = (limited < places.history + 1).select(limited, places.length)
        early, late, until = places.context, places.free, places.length
        if self.candidates:
            past = first < places.history
            early = past.select(early, nothing)
            if places.causal:
                end, late = past.select(end, last), past.select(late, FAR)
            else:
                begin, end = past.select(begin, self._reaching.maximum(0)), past.select(end, places.history)
                mixed = (places.history < last).select(late.minimum(places.history), late)
                late, until = past.select(mixed, first), past.select(until, last)
        low = self._down(begin).maximum(self._up(early))
        high = self._up(end).minimum(self._down(late)).maximum(low)
        others = self._joined([(nothing, early), (late, until)], self.masks)
        return [others, Span(low, high, [InRuns(self, first)])]

    def run(self, key: Tile, past: Tile) -> tuple[Tile, Tile]:
        """See `HstuQueries`."""
        places = self.places
        limited = maximum(key, places.context - 1) + (places.window + 1)
        end = where(limited <= places.history, limited, key * 0 + places.length)
        if places.causal:
            return key, where(past, end, key + 1)
        return where(past, key - places.window, self._reaching), where(past, end, places.history)

    def late(self, key: Tile, past: Tile) -> Tile | None:
        """See `HstuQueries`."""
        first = key if self.places.causal else key * 0
        return where(past, maximum(first, self.places.free), FAR)

    @property
    def _reaching(self) -> Scalar:
        """The first place of the history that attends to candidates where places are not causal."""
        places = self.places
        limited = (places.history - places.window).minimum(places.free)
        first: Scalar = places.first_end.equals(places.length).select(0, limited)
        return first


class Behind(Struct, frozen=True):
    """Places attend to no key behind them, but for the context. Elements are compared with numbers of a lane that
    change with a step.

    Attributes:
        first: the block's first key.
    """

    queries: HstuQueries
    first: Scalar

    def at(self, first: Scalar) -> MaskPart:
        """See `loop_kernel.MaskPart`."""
        return Behind(self.queries, first)

    def apply(self, tile: Tile, query: Amount, other: float) -> Tile:
        """See `loop_kernel.MaskPart`."""
        early = coordinates(tile, 1) < self.queries.places.context - query
        return where((distance(tile) >= self.first - query) | early, tile, other)


class InRuns:
    """What the keys' runs leave.

    Attributes:
        key: by key its number; past: whether it is of the history, not a candidate.
        begin, length: of the runs, by key.
    """

    def __init__(self, queries: HstuQueries, first: Scalar) -> None:
        self.queries = queries
        form, places = queries.form, queries.places
        self.key = coordinates(zeros((form.keys,), "i32", form.score_layout.reduce(1)), 0) + first
        self.past = self.key < places.history
        self.begin, end = queries.run(self.key, self.past)
        self.length = end - self.begin

    def at(self, first: Scalar) -> MaskPart:
        """See `loop_kernel.MaskPart`."""
        return type(self)(self.queries, first)

    def apply(self, tile: Tile, query: Amount, other: float) -> Tile:
        """See `loop_kernel.MaskPart`."""
        return where(self.attends(tile, query), tile, other)

    def attends(self, tile: Tile, query: Amount) -> Tile:
        """Whether each query attends to each key."""
        found: Tile = (coordinates(tile, 1) + (query - self.begin)[:, None]).below(self.length[:, None])
        return found


class Keyed(InRuns):
    """That, and what is outside of runs.

    Attributes:
        early: by key, queries before this attend, too; late: and those from this on, None for none.
        own: the keys, where a key may be outside of its run; else None.
    """

    def __init__(self, queries: HstuQueries, first: Scalar) -> None:
        super().__init__(queries, first)
        self.early = where(self.past, self.key * 0 + queries.places.context, 0)
        self.late = queries.late(self.key, self.past)
        self.own = self.key if queries.candidates and not queries.places.causal else None

    def attends(self, tile: Tile, query: Amount) -> Tile:
        """See `InRuns`."""
        row = coordinates(tile, 1)
        attends: Tile = super().attends(tile, query) | (row < (self.early - query)[:, None])
        if self.late is not None:
            attends = attends | (row >= (self.late - query)[:, None])
        if self.own is not None:
            attends = attends | row.equals((self.own - query)[:, None])
        return attends


def hstu_queries(word: str, given: Any, work: Work, form: Form) -> HstuQueries:
    """See `parts/hstu_keys.py` for the word and the arguments. Where memory has fewer queries than keys, which nobody
    can mean, there are no other queries."""
    words = word.split("_")[1:]
    places, candidates = places_of(words, given, work.batch, work.sq), "targets" in words
    if isinstance(places, Windowed):
        return WindowedQueries(form, places, work.first, candidates)
    return HstuQueries(form, places, work.first, candidates)
