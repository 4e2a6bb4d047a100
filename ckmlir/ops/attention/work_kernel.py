"""Work of attention: which queries a workgroup takes, of which head and sequence, and which keys they attend to."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace

from ckmlir.lang import Pointer, Scalar, workgroup_id
from ckmlir.ops.attention.fmha_fwd_spec import FmhaFwdSpec, channel_multiple
from ckmlir.ops.attention.loop_kernel import Form, Span
from ckmlir.ops.attention.masks_kernel import Below, Causal, Window


@dataclass(frozen=True)
class Work:
    """A block of queries.

    Attributes:
        first: its first query; head: of Q and O; shared: of K and V; batch.
        sq, sk: the number of queries and keys.
    """

    first: Scalar
    head: Scalar
    shared: Scalar
    batch: Scalar
    sq: Scalar
    sk: Scalar


def block_of_grid(spec: FmhaFwdSpec, given: SimpleNamespace) -> Work:
    """The work of a workgroup in a grid (blocks of queries, heads, batches)."""
    queries, keys = spec.block
    head = workgroup_id(1)
    return Work(
        first=workgroup_id(0) * queries,
        head=head,
        shared=head // given.ratio,
        batch=workgroup_id(2),
        sq=given.sq if spec.pad_sq else given.sq.multiple_of(queries),
        sk=given.sk if spec.pad_sk else given.sk.multiple_of(keys),
    )


def rows_of_head(spec: FmhaFwdSpec, given: SimpleNamespace, work: Work, name: str) -> Pointer:
    """The rows of the work's head of an array, at any distance from the array's start."""
    head = work.head if name in "qo" else work.shared
    by_head, by_batch = getattr(given, f"{name}_head"), getattr(given, f"{name}_batch")
    distance = head.to("i64") * by_head + work.batch.to("i64") * by_batch
    pointer: Pointer = getattr(given, name).offset(
        distance.multiple_of(channel_multiple(spec.out if name == "o" else spec.dtype))
    )
    return pointer


def span_of(spec: FmhaFwdSpec, given: SimpleNamespace, work: Work, form: Form) -> Span:
    """The keys, in whole blocks, that some query of the block attends to, and the mask."""
    end = work.sk if spec.pad_sk else None
    if spec.mask == "none":
        return Span(0, work.sk, [Below(end)] if end is not None else [])
    high = work.sk.minimum(work.first + (form.queries - 1) + given.mask_x)
    if spec.mask == "causal":
        return Span(0, high, [Causal(form, work.first, given.mask_x, end)])
    low = (work.first - given.mask_y + 1).maximum(0) // form.keys * form.keys
    return Span(low, high, [Window(form, work.first, given.mask_x, end, given.mask_y)])
