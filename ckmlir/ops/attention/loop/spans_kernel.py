"""Which keys the queries of a block attend to: spans of the loop, with the mask where it cuts.

Blocks of keys that every query attends to need no mask. Where a specification has a schedule for the others, its
`edge`, these are a second span: what lies on both sides, with the mask as its last score.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import SimpleNamespace

from msgspec import Struct

from ckmlir.lang import Scalar
from ckmlir.lang.views import Amount
from ckmlir.ops.attention.fmha_fwd_spec import FmhaFwdSpec
from ckmlir.ops.attention.loop.loop_kernel import Form, Parted, Score, Span
from ckmlir.ops.attention.loop.masks_kernel import Below, Causal, Sinks, Window
from ckmlir.ops.attention.loop.work_kernel import Work

Run = tuple[Amount, Scalar]
"""Keys: the first, that of a block, and the end."""


class Reach(Struct, frozen=True):
    """The keys that queries of a block attend to.

    Attributes:
        some: from the first block that some query attends to, to the end of what some query attends to.
        every: whole blocks within, which every query attends to; begins as `some` does where no mask cuts there.
        mask: for all blocks but those.
        sinks: whole blocks in front of `some`, if any.
    """

    some: Run
    every: Run
    mask: Score
    sinks: Sequence[Run] = ()

    @property
    def edges(self) -> list[Run]:
        """All but the blocks that every query attends to."""
        (low, high), (first, end) = self.some, self.every
        left: list[Run] = [] if isinstance(first, int) else [(low, first)]
        return [*self.sinks, *left, (end, high)]

    def over(self, runs: Sequence[Run], scores: Sequence[Score]) -> Span:
        """A span of runs that follow each other; all but the last are whole blocks."""
        (low, high), *rest = runs
        index, gaps = high, []
        for first, end in rest:
            gaps.append((index, first - high))
            index, high = index + (end - first).maximum(0), end
        return Parted(low, index, scores, gaps) if gaps else Span(low, index, scores)


def spans_of(
    spec: FmhaFwdSpec, given: SimpleNamespace, work: Work, form: Form, scores: Sequence[Score],
    chosen: Callable[[Reach], Reach],
) -> list[tuple[Span, str]]:  # fmt: skip
    """All spans, each with the text of its schedule; `scores` come before the mask, and `chosen` are the keys that
    count of those that it leaves."""
    if not spec.cuts:
        return [(Span(0, work.sk, scores), spec.loops["schedule"])]
    reach = chosen(REACHES[spec.mask](spec, given, work, form))
    masked = [*scores, reach.mask]
    if "edge" not in spec.loops:
        return [(reach.over([*reach.sinks, reach.some], masked), spec.loops["schedule"])]
    every, edges = reach.over([reach.every], scores), reach.over(reach.edges, masked)
    return [(every, spec.loops["schedule"]), (edges, spec.loops["edge"])]


def coordinate(varied: bool, given: SimpleNamespace, work: Work) -> tuple[Scalar, Scalar]:
    """The mask's coordinate (y, x) for the work's sequence; `varied`: sequences differ in their lengths."""
    if not varied:
        return given.mask_y, given.mask_x
    shift = (work.sk - work.sq) * given.mask_corner
    return given.mask_y - shift, given.mask_x + shift


def _all(spec: FmhaFwdSpec, given: SimpleNamespace, work: Work, form: Form) -> Reach:
    """Every query attends to every key, but the last block may have keys that do not exist."""
    return Reach((0, work.sk), (0, whole(work.sk, form)), Below(work.sk, spec.branches))


def _causal(spec: FmhaFwdSpec, given: SimpleNamespace, work: Work, form: Form) -> Reach:
    _, x = coordinate(spec.varied, given, work)
    end = work.sk if spec.pad_sk else None
    return Reach((0, _high(work, form, x)), (0, _seen(work, form, x)), Causal(form, work, x, end, spec.branches))


def _window(spec: FmhaFwdSpec, given: SimpleNamespace, work: Work, form: Form) -> Reach:
    y, x = coordinate(spec.varied, given, work)
    end = work.sk if spec.pad_sk else None
    low = whole((_first(work) - y + 1).maximum(0), form)
    return _between(low, _high(work, form, x), work, form, (y, x), Window(form, work, x, end, spec.branches, y))


def _sinks(spec: FmhaFwdSpec, given: SimpleNamespace, work: Work, form: Form) -> Reach:
    y, x = coordinate(spec.varied, given, work)
    high, end = _high(work, form, x), work.sk if spec.pad_sk else None
    behind = rounded_up(high.minimum(given.mask_sink).maximum(0), form)
    low = whole((_first(work) - y + 1).maximum(0), form).maximum(behind)
    mask = Sinks(form, work, x, end, spec.branches, y, given.mask_sink)
    return _between(low, high, work, form, (y, x), mask, [(0, behind)])


REACHES: Mapping[str, Callable[[FmhaFwdSpec, SimpleNamespace, Work, Form], Reach]] = {
    "none": _all,
    "causal": _causal,
    "window": _window,
    "sinks": _sinks,
}


def _between(
    low: Scalar, high: Scalar, work: Work, form: Form, at: tuple[Scalar, Scalar], mask: Score, sinks: Sequence[Run] = ()
) -> Reach:
    """The keys of a window with the coordinate `at`, which attended keys reach from `low` to `high`."""
    y, x = at
    end = _seen(work, form, x).maximum(low)
    first = rounded_up((_last(work, form) + 1 - y).maximum(0), form).maximum(low).minimum(end)
    return Reach((low, high), (first, end), mask, sinks)


def _first(work: Work) -> Scalar:
    """The block's first query."""
    return work.rows.query(work.first)


def _last(work: Work, form: Form) -> Scalar:
    """The block's last query."""
    return work.rows.query(work.first + (form.queries - 1))


def _high(work: Work, form: Form, x: Scalar) -> Scalar:
    """The end of the keys that the last query attends to."""
    found: Scalar = work.sk.minimum(_last(work, form) + x)
    return found


def _seen(work: Work, form: Form, x: Scalar) -> Scalar:
    """The end of the blocks whose keys the first query has in front of its end."""
    return whole(work.sk.minimum(_first(work) + x).maximum(0), form)


def whole(length: Scalar, form: Form) -> Scalar:
    """A length that is not negative, rounded down to whole blocks of keys."""
    found: Scalar = length // form.keys * form.keys
    return found


def rounded_up(length: Scalar, form: Form) -> Scalar:
    """A length that is not negative, rounded up to whole blocks of keys."""
    found: Scalar = whole(length + (form.keys - 1), form)
    return found
