"""Which keys the queries of a block attend to: spans of the loop, with the mask as their last score."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace

from ckmlir.lang import Scalar
from ckmlir.ops.attention.fmha_fwd_spec import FmhaFwdSpec
from ckmlir.ops.attention.loop_kernel import Form, Parted, Score, Span
from ckmlir.ops.attention.masks_kernel import Below, Causal, Sinks, Window
from ckmlir.ops.attention.work_kernel import Work


def span_of(spec: FmhaFwdSpec, given: SimpleNamespace, work: Work, form: Form, scores: Sequence[Score]) -> Span:
    """The keys, in whole blocks, that some query of the block attends to; `scores` come before the mask."""
    sk = work.sk
    end = sk if spec.pad_sk else None
    if spec.mask == "none":
        return Span(0, sk, [*scores, Below(sk)] if spec.pad_sk else scores)
    y, x = coordinate(spec.varied, given, work)
    high = sk.minimum(work.first + (form.queries - 1) + x)
    if spec.mask == "causal":
        return Span(0, high, [*scores, Causal(form, work.first, x, end)])
    low = (work.first - y + 1).maximum(0) // form.keys * form.keys
    if spec.mask == "window":
        return Span(low, high, [*scores, Window(form, work.first, x, end, y)])
    cut = _blocks(high.minimum(given.mask_sink).maximum(0), form.keys)
    gap = low.maximum(cut) - cut
    mask = Sinks(form, work.first, x, end, y, given.mask_sink)
    return Parted(0, cut + (high - cut - gap).maximum(0), [*scores, mask], cut, gap)


def coordinate(varied: bool, given: SimpleNamespace, work: Work) -> tuple[Scalar, Scalar]:
    """The mask's coordinate (y, x) for the work's sequence; `varied`: sequences differ in their lengths."""
    if not varied:
        return given.mask_y, given.mask_x
    shift = (work.sk - work.sq) * given.mask_corner
    return given.mask_y - shift, given.mask_x + shift


def _blocks(length: Scalar, block: int) -> Scalar:
    """A length rounded up to whole blocks."""
    rounded: Scalar = (length + (block - 1)) // block * block
    return rounded
