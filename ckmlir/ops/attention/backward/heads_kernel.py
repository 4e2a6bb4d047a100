"""The walk of workgroups that take a head each, all of its blocks of keys: of many short sequences."""

from __future__ import annotations

from typing import Any, NamedTuple

from ckmlir.lang import Pointer, Scalar, i32, ptr, while_loop, workgroup_id
from ckmlir.lang.views import Amount
from ckmlir.ops.attention.backward.fmha_bwd_spec import FmhaBwdSpec
from ckmlir.ops.attention.backward.key_blocks import KeyBlocks
from ckmlir.ops.attention.backward.loop_kernel import Form
from ckmlir.ops.attention.backward.shares_kernel import Gathered, bounds_of, clear, joined
from ckmlir.ops.attention.backward.slot_table import Written
from ckmlir.ops.attention.backward.walks_kernel import Body, Turn, dq_of_head, sides
from ckmlir.ops.attention.loop.block_rows_kernel import OneHead
from ckmlir.ops.attention.loop.work_kernel import Packed, Side, Work

MOST_AGAIN = 96
"""Channels up to which a head is found again in each turn."""


class Whole:
    """A workgroup takes the blocks of keys of a head, one after the other, and their parts of dQ gather where dQ lies,
    in this order. Sequences with most work have their turn first: a chip starts a workgroup where one has ended, so
    that those with which compute units end are short."""

    def arguments(self) -> dict[str, Any]:
        """See `Walk`."""
        return {"turns": ptr("i32"), "sequences": i32}

    def walk(self, spec: FmhaBwdSpec, given: Any, form: Form, body: Body) -> None:
        """See `Walk`. What is known of the head is found once, or again in each turn and behind the last: kept, it
        takes scalar registers through the loop over queries."""
        turn = workgroup_id(0) // given.h
        head, batch = workgroup_id(0) - turn * given.h, given.turns.scalar(turn)
        once = _found(spec, given, head, batch)

        def found() -> Head:
            return once if _is_kept(spec) else _found(spec, given, head.anew(), batch.anew())

        count = once.blocks.count
        with while_loop(lambda place, *_: place < count, carry=[0, 0, 0]) as step:
            place, *rows = step.carried
            at = found()
            low = at.blocks.low(place)
            high = low + (at.blocks.before(place + 1) - at.blocks.before(place))
            low, high = (one * form.queries for one in (low, high))
            sink = Gathered(form, at.dq, at.q.length, spec.d, *Written(*rows).beginning(low))
            after = joined(form, sink, low, high)
            work = Work(place * form.keys, OneHead(at.head), at.head // given.ratio, at.batch, at.q, at.k, given.sk)
            body(Turn(work, sink))
            step.carry(place + 1, *after)
        _, low, high = step.results
        at = found()
        until = _rows_from(at.q, given, at.batch)
        _clear(form, spec, at.dq, until, 0, low)
        _clear(form, spec, at.dq, until, high.minimum(at.q.length), until)
        if isinstance(at.q, Packed):
            in_front = at.batch.equals(0).select(at.q.start, 0)
            _clear(form, spec, at.dq.offset(in_front.to("i64") * -spec.d), in_front, 0, in_front)


def _is_kept(spec: FmhaBwdSpec) -> bool:
    """Whether a workgroup keeps what it knows of its head from turn to turn: many short sequences take .97 of the
    cycles so. Beside parts 3 to 11 scalar registers would be in lanes, with up to `MOST_AGAIN` channels 1 to 7 of some
    kernels under masks."""
    return not spec.parts and max(spec.d_tile, spec.dv_tile) > MOST_AGAIN


class Head(NamedTuple):
    """A head of a sequence: its queries and keys, its blocks of keys, and where its dQ begins."""

    head: Scalar
    batch: Scalar
    q: Side
    k: Side
    blocks: KeyBlocks
    dq: Pointer


def _found(spec: FmhaBwdSpec, given: Any, head: Scalar, batch: Scalar) -> Head:
    """That of a sequence."""
    q, k = sides(spec, given, batch)
    bounds = bounds_of(spec.mask, given, q.length, k.length, varied=spec.varied)
    blocks = KeyBlocks.of(0, 0, q.length, k.length, spec.block, bounds)
    return Head(head, batch, q, k, blocks, dq_of_head(spec, given, q, head))


def _rows_from(q: Side, given: Any, batch: Scalar) -> Scalar:
    """Rows of dQ from a sequence's first to that of the next sequence, or to the last."""
    if not isinstance(q, Packed):
        rows: Scalar = given.rows
        return rows
    end: Scalar = (batch + 1).equals(given.sequences).select(given.rows, given.seqstart_q.scalar(batch + 1))
    distance: Scalar = end - q.start
    return distance


def _clear(form: Form, spec: FmhaBwdSpec, begin: Pointer, rows: Scalar, low: Amount, high: Scalar) -> None:
    """Let some of the rows that begin at a pointer be zeros, from `low` to before `high`."""
    clear(form, Gathered(form, begin, rows, spec.d, rows, rows), low, high)
