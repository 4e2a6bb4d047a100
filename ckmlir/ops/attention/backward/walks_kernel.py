"""Which block of keys a workgroup of attention backward keeps, and where its part of dQ goes: the walks, by name.

A walk says what a kernel's arguments are besides those of arrays, masks and parts, and calls the body, which computes
and stores one block, where a workgroup has one to do: once, or in turns.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from msgspec import Struct
from msgspec.structs import replace

from ckmlir.lang import Pointer, Scalar, Tile, Window, cast, exit_unless, i32, i64, store
from ckmlir.ops.attention.backward.fmha_bwd_spec import FmhaBwdSpec
from ckmlir.ops.attention.backward.loop_kernel import Form, Sink, Span
from ckmlir.ops.attention.backward.parts_kernel import Atomic, Slot
from ckmlir.ops.attention.loop.block_rows_kernel import OneHead
from ckmlir.ops.attention.loop.work_kernel import Side, Work, sides_of
from ckmlir.ops.attention.orders import ORDERS


class Turn(Struct, frozen=True):
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

    def keep(self, name: str, tile: Tile, window: Window, dtype: str) -> None:
        """Leave dK or dV, which `name` says, in memory, as elements of a type."""
        store(cast(tile, dtype), window)


class Keeping(Turn, frozen=True):
    """All queries of a head, for the keys from `low`, a whole number of blocks of them, to before `high`."""

    low: Scalar
    high: Scalar


Body = Callable[[Any], None]
"""Computes the gradients of a turn."""


class Walk(Protocol):
    """Which blocks of keys a workgroup takes, and the kernel arguments that say so."""

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
        work = Work(order.first(place, form.keys, k.length), OneHead(head), head // given.ratio, batch, q, k, given.sk)
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
        work = Work(low, OneHead(head), head // given.ratio, batch, q, k, given.sk)
        slot = dq_of_head(spec, given, q, head).offset(place.to("i64") * given.slot_stride)
        body(Keeping(work, Slot(form, slot, q.length, spec.d), low, (low + given.taken).minimum(k.length)))


WALKS: Mapping[str, Walk] = {"atomic": Added(), "slots": Stored(), "kept": Held()}
"""By `FmhaBwdSpec.sink`; `shares_kernel` and `heads_kernel` have one more each."""


# -- what other kernels of attention backward find the same way --------------------------------------------------------


def sides(spec: Any, given: Any, batch: Scalar) -> tuple[Side, Side]:
    """Queries and keys of a sequence; `spec.sequences` has a word for each."""
    return sides_of(spec.sequences, given, batch)


def dq_of_head(spec: Any, given: Any, q: Side, head: Scalar) -> Pointer:
    """Where dQ of a sequence's head begins in packed arrays (batches, heads, rows, d) of f32."""
    begin: Pointer = given.dq_parts.offset(in_dq(spec, given, q, head))
    return begin


def in_dq(spec: Any, given: Any, q: Side, head: Scalar) -> Scalar:
    """Elements (i64) in front of that."""
    rows = given.rows.to("i64") * spec.d
    found: Scalar = head.to("i64") * rows + q.origin(spec.d, given.h.to("i64") * rows)
    return found
