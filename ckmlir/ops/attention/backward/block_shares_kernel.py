"""The walk of workgroups that stay and take whole blocks of keys (`block_table`), and how kernels find their slots."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ckmlir.lang import Scalar, ptr
from ckmlir.ops.attention.backward.block_table import alike, from_both_ends
from ckmlir.ops.attention.backward.fmha_bwd_spec import FmhaBwdSpec
from ckmlir.ops.attention.backward.key_blocks import KeyBlocks
from ckmlir.ops.attention.backward.loop_kernel import Form
from ckmlir.ops.attention.backward.shares_kernel import (
    NUMBERS,
    Found,
    FoundSlot,
    Gathered,
    HeadSlots,
    Shared,
    bounds_of,
)
from ckmlir.ops.attention.backward.walks_kernel import Turn, sides
from ckmlir.ops.attention.loop.work_kernel import Side, Work

BLOCK_SLOTS = {"written": ptr("i32"), **NUMBERS}
"""Arguments that say what slots have, see `BlockShares.arguments`; where they lie is behind the costs."""


class SharedBlocks(Shared):
    """Workgroups that stay take the blocks of keys that begin in a range of their own. Turns hand on the slot's place
    among those of the head."""

    def arguments(self) -> dict[str, Any]:
        """See `Walk`."""
        return {"costs": ptr("i32"), **BLOCK_SLOTS}

    def begin(self, spec: FmhaBwdSpec, workgroup: Scalar, share: Scalar) -> Scalar:
        """See `Shared`."""
        unit = spec.block[0]
        found: Scalar = (workgroup * share + (unit - 1)) // unit
        return found

    def before_all(self, given: Any, own: Scalar) -> None:
        """See `Shared`: slots have no rows before the launch."""

    def handed(self, spec: FmhaBwdSpec, share: Scalar, own: Scalar, low: Scalar, in_front: Found) -> list[Scalar]:
        """See `Shared`. The first block is the one behind that in front, unless a head begins there."""
        away = own - in_front.first * spec.block[0] // share
        return [away.minimum(in_front.place + 1)]

    def slot(
        self, spec: FmhaBwdSpec, given: Any, q: Side, batch: Scalar, at: Found, own: Scalar, low: Scalar,
        handed: Sequence[Scalar],
    ) -> FoundSlot:  # fmt: skip
        """See `Shared`."""
        return slots_by_places(spec, given, q, batch, at.head).at(handed[0])

    def blocks(self, spec: FmhaBwdSpec, given: Any, batch: Scalar) -> KeyBlocks:
        """See `Shared`."""
        q, k = sides(spec, given, batch)
        return alike(given.costs.scalar(batch), q.length, k.length, spec.block)

    def part(
        self, spec: FmhaBwdSpec, given: Any, q: Side, k: Side, at: Found, ends: Sequence[Scalar]
    ) -> tuple[Scalar, list[Scalar]]:
        """See `Shared`: all steps of the block that comes there."""
        bounds = bounds_of(spec.mask, given, q.length, k.length, varied=spec.varied)
        blocks = KeyBlocks.of(0, 0, q.length, k.length, spec.block, bounds)
        place = at.place if bounds is None else from_both_ends(at.place, blocks.count)
        return place, [blocks.low(place), blocks.high(place)]

    def turn(
        self, spec: FmhaBwdSpec, given: Any, form: Form, own: Scalar, at: Found, ends: Sequence[Scalar],
        queries: Sequence[Scalar],
    ) -> Callable[[Work, Gathered], Turn]:  # fmt: skip
        """See `Shared`: dK and dV leave as they are."""
        return Turn


def slots_by_places(spec: Any, given: Any, q: Side, batch: Scalar, head: Scalar) -> HeadSlots:
    """As many as the sequence has for each head, one behind the other."""
    count = given.sequences
    splits = given.costs.scalar(count + 2 + batch)
    in_front = [given.costs.scalar(count * times + (times + batch)) for times in (2, 3)]
    rows, slots = in_front[0], in_front[1]

    def at(number: Scalar) -> FoundSlot:
        place = head * splits + number
        elements = (rows + place * q.length).to("i64") * spec.d
        return FoundSlot(given.dq_parts.offset(elements.multiple_of(spec.row_multiple)), slots + place)

    return HeadSlots(splits, at)
