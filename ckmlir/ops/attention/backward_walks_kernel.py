"""Which block of keys a workgroup of attention backward keeps, and where its part of dQ goes: the walks, by name.

A walk says what a kernel's arguments are besides those of arrays, masks and parts, and calls the body, which computes
and stores one block, where a workgroup has one to do: once, or in turns.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol

from ckmlir.lang import (
    Pointer,
    Scalar,
    Tile,
    Window,
    atomic_add,
    exit_unless,
    i32,
    i64,
    loop,
    ptr,
    store,
    when,
    while_loop,
    workgroup_id,
    zeros,
)
from ckmlir.ops.attention.backward_loop_kernel import Form, Sink, Span
from ckmlir.ops.attention.backward_parts_kernel import Atomic, Slot
from ckmlir.ops.attention.block_rows_kernel import OneHead
from ckmlir.ops.attention.fmha_bwd_spec import FmhaBwdSpec
from ckmlir.ops.attention.orders import ORDERS
from ckmlir.ops.attention.slot_table import BESIDE, Blocks
from ckmlir.ops.attention.work_kernel import Side, Work, side_of

SLOTS = {"sequences": i32, "by_block": i32, "first_own": i64, "own_stride": i64}
"""Arguments that say where slots lie, see `Shares.arguments`."""


@dataclass(frozen=True)
class Turn:
    """A block of keys.

    Attributes:
        work: `first` is a key.
        sink: takes its parts of dQ.
    """

    work: Work
    sink: Sink

    def narrowed(self, span: Span) -> Span:
        """The turn's part of a span of queries."""
        return span

    def at(self, first: Scalar) -> Turn:
        """The same with the block of keys that begins at `first`."""
        return replace(self, work=replace(self.work, first=first))

    def keep(self, tile: Tile, window: Window) -> None:
        """Leave dK or dV in memory."""
        store(tile, window)


@dataclass(frozen=True)
class Keeping(Turn):
    """All queries of a head, for the keys from `low`, a whole number of blocks of them, to before `high`."""

    low: Scalar
    high: Scalar


@dataclass(frozen=True)
class Piece(Turn):
    """The part of a block that has queries from `low`, a whole number of blocks of them, to before `high`. At most two
    pieces of a block add their dK and dV, to zeros."""

    low: Scalar
    high: Scalar

    def narrowed(self, span: Span) -> Span:
        """See `Turn`."""
        return replace(span, low=self.low.maximum(span.low), high=self.high.minimum(span.high))

    def keep(self, tile: Tile, window: Window) -> None:
        """See `Turn`."""
        atomic_add(tile, window)


Body = Callable[[Any], None]
"""Computes the gradients of a turn."""


class Walk(Protocol):
    """See the module's text."""

    def arguments(self) -> dict[str, Any]:
        """Kernel arguments that only this walk has."""

    def walk(self, spec: FmhaBwdSpec, given: Any, form: Form, body: Body) -> None:
        """Call the body for the workgroup's blocks."""


class Added:
    """A workgroup for each block of keys of each head; all add to dQ of the head (rows, d), in f32."""

    def arguments(self) -> dict[str, Any]:
        """See `Walk`."""
        return {}

    def walk(self, spec: FmhaBwdSpec, given: Any, form: Form, body: Body) -> None:
        """See `Walk`. A workgroup ends here where its sequence has fewer blocks of keys."""
        order = ORDERS[spec.order]
        place, head, batch = order.turn()
        q, k = sides(spec, given, batch)
        if spec.sequences[1]:
            exit_unless(place * form.keys < k.length)
        work = Work(order.first(place, form.keys, k.length), OneHead(head), head // given.ratio, batch, q, k)
        body(Turn(work, self.sink(spec, given, form, work)))

    def sink(self, spec: FmhaBwdSpec, given: Any, form: Form, work: Work) -> Sink:
        """What takes the parts of dQ."""
        return Atomic(form, dq_of_head(spec, given, work.q, work.head), work.sq, spec.d)


class Stored(Added):
    """The same, each block in a slot of its own; slots lie as dQ does, one array for each block of a head."""

    def arguments(self) -> dict[str, Any]:
        """See `Walk`."""
        return {"slot_stride": i64}

    def sink(self, spec: FmhaBwdSpec, given: Any, form: Form, work: Work) -> Sink:
        """See `Added`."""
        place = (work.first // form.keys).to("i64") * given.slot_stride
        return Slot(form, dq_of_head(spec, given, work.q, work.head).offset(place), work.sq, spec.d)


class Held(Added):
    """Workgroups keep all queries of a head and share its keys. Each has a slot, also where no keys are left for it."""

    def arguments(self) -> dict[str, Any]:
        """See `Walk`."""
        return {"slot_stride": i64, "taken": i32}

    def walk(self, spec: FmhaBwdSpec, given: Any, form: Form, body: Body) -> None:
        """See `Walk`."""
        place, head, batch = ORDERS[spec.order].turn()
        q, k = sides(spec, given, batch)
        low = place * given.taken.multiple_of(form.keys)
        work = Work(low, OneHead(head), head // given.ratio, batch, q, k)
        slot = dq_of_head(spec, given, q, head).offset(place.to("i64") * given.slot_stride)
        body(Keeping(work, Slot(form, slot, q.length, spec.d), low, (low + given.taken).minimum(k.length)))


class Shared:
    """Workgroups that stay take the steps in a range of their own (`slot_table`), and add their parts of dQ to a slot
    of their own in each head, which they set to zero first. Elements of a slot are always the same lane's, so that
    their sums have an order."""

    def arguments(self) -> dict[str, Any]:
        """See `Walk`."""
        return {"costs": ptr("i32"), **SLOTS}

    def walk(self, spec: FmhaBwdSpec, given: Any, form: Form, body: Body) -> None:
        """See `Walk`."""
        costs, own = given.costs, workgroup_id(0)
        total, share = costs.scalar(given.sequences), costs.scalar(given.sequences + 1)
        low = own * share
        exit_unless(low < total)
        high = (low + share).minimum(total)
        begun = _sequence(costs, given.sequences, low)
        with while_loop(lambda sequence, cost: cost < high, carry=[begun, low]) as turn:
            sequence, cost = turn.carried
            with while_loop(lambda one: costs.scalar(one + 1) <= cost, carry=[sequence]) as following:
                following.carry(following.carried[0] + 1)
            (batch,) = following.results
            q, k = sides(spec, given, batch)
            blocks = blocks_at(spec, given, batch)
            number = blocks.at(cost)
            head, place = number // blocks.count, number % blocks.count
            key = ORDERS[spec.order].first(place, form.keys, k.length)
            begin, first = blocks.place(number), blocks.place(head * blocks.count)
            slot = slot_of_head(spec, given, q, batch, head, own, low - first, blocks)
            sink = Atomic(form, slot, q.length, spec.d)
            with when(cost.equals(low) | cost.equals(first)):
                _clear(form, sink)
            until = (begin + blocks.width).minimum(high)
            queries = [(one - begin - BESIDE).maximum(0) * form.queries for one in (cost, until)]
            body(Piece(Work(key, OneHead(head), head // given.ratio, batch, q, k), sink, *queries))
            turn.carry(batch, until)


def _clear(form: Form, sink: Atomic) -> None:
    """Set a slot to zero, each element by the lane that adds to it later."""
    lies = form.queried.c_over(form.queried_waves, form.queries, form.d)
    with loop(0, sink.rows, form.queries) as step:
        nothing = zeros((form.queries, form.d), "f32", lies)
        store(nothing, sink.block(step.index).window(nothing.lengths, (0, 0)))


WALKS: Mapping[str, Walk] = {"atomic": Added(), "slots": Stored(), "shares": Shared(), "kept": Held()}
"""By `FmhaBwdSpec.sink`."""


# -- what other kernels of attention backward find the same way --------------------------------------------------------


def sides(spec: Any, given: Any, batch: Scalar) -> tuple[Side, Side]:
    """Queries and keys of a sequence; `spec.sequences` has a word for each."""
    q, k = (
        side_of(word, given, name, batch, length)
        for word, name, length in zip(spec.sequences, "qk", (given.sq, given.sk), strict=True)
    )
    return q, k


def blocks_at(spec: Any, given: Any, batch: Scalar) -> Blocks:
    """The blocks of keys of a sequence, of `spec.block` queries and keys."""
    q, k = sides(spec, given, batch)
    return Blocks.of(given.costs.scalar(batch), q.length, k.length, spec.block)


def _sequence(costs: Pointer, count: Scalar, cost: Scalar) -> Scalar:
    """The sequence in whose range a cost lies."""
    with while_loop(lambda found, behind: found + 1 < behind, carry=[0, count]) as search:
        found, behind = search.carried
        middle = (found + behind) // 2
        is_behind = cost < costs.scalar(middle)
        search.carry(is_behind.select(found, middle), is_behind.select(middle, behind))
    first: Scalar = search.results[0]
    return first


def dq_of_head(spec: Any, given: Any, q: Side, head: Scalar) -> Pointer:
    """Where dQ of a sequence's head begins in packed arrays (batches, heads, rows, d) of f32."""
    begin: Pointer = given.dq_parts.offset(_in_dq(spec, given, q, head))
    return begin


def _in_dq(spec: Any, given: Any, q: Side, head: Scalar) -> Scalar:
    rows = given.rows.to("i64") * spec.d
    found: Scalar = head.to("i64") * rows + q.origin(spec.d, given.h.to("i64") * rows)
    return found


def slot_of_head(
    spec: Any, given: Any, q: Side, batch: Scalar, head: Scalar, workgroup: Scalar, behind: Scalar, blocks: Blocks
) -> Pointer:
    """The slot of a workgroup whose range begins so far behind the first step of a head: the head's, unless it does."""
    numbered = (batch * given.h + head) * given.by_block + behind // blocks.width
    own = given.by_block.equals(0).select(workgroup, numbered)
    elements = given.first_own + own.to("i64") * given.own_stride
    distance = (behind > 0).select(elements, _in_dq(spec, given, q, head))
    begin: Pointer = given.dq_parts.offset(distance.multiple_of(spec.row_multiple))
    return begin
