"""The walk of workgroups that stay (`slot_table`), and how kernels of attention backward find shares and slots."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from msgspec.structs import replace

from ckmlir.dialect.distribution import Distribution
from ckmlir.lang import (
    Pointer,
    Scalar,
    Tile,
    View,
    Window,
    atomic_add,
    cast,
    exit_unless,
    full,
    i32,
    i64,
    loop,
    ptr,
    store,
    together,
    view,
    when,
    while_loop,
    workgroup_id,
)
from ckmlir.lang.views import Amount
from ckmlir.ops.attention.backward.fmha_bwd_spec import FmhaBwdSpec
from ckmlir.ops.attention.backward.key_blocks import Bounds, KeyBlocks, boundary
from ckmlir.ops.attention.backward.loop_kernel import Form, Span
from ckmlir.ops.attention.backward.parts_kernel import Atomic
from ckmlir.ops.attention.backward.slot_table import Written
from ckmlir.ops.attention.backward.walks_kernel import Body, Turn, in_dq, sides
from ckmlir.ops.attention.loop.block_rows_kernel import OneHead
from ckmlir.ops.attention.loop.work_kernel import Side, Work, first_lengths
from ckmlir.ops.listed_search import Listed
from ckmlir.targets.cdna import WAVE_SIZE

NUMBERS = {"sequences": i32, "beside": i32, "uncut": i32}
SLOTS = {"written": ptr("i32"), **NUMBERS, "first_own": i64, "own_stride": i64}
"""Arguments that say where slots lie and what they have, see `Shares.arguments`."""
WAVES = 4
ONE = Distribution.parse(f"d0: {WAVES}@wave {WAVE_SIZE}@lane").expand(0, 1).reduce(1)
"""One element that every lane of a workgroup has."""


class Gathered(Atomic, frozen=True):
    """The parts of several blocks, of which each lane has its own elements. To rows from `low` to before `high`, which
    have been stored before, parts are added; others are stored."""

    low: Scalar
    high: Scalar

    def put(self, tile: Tile, query: Amount) -> None:
        """See `loop_kernel.Sink`."""
        place = self.block(query).window(tile.lengths, (0, 0))
        with when((query - self.low).below(self.high - self.low)) as again:
            atomic_add(tile, place)
        with again.otherwise():
            store(tile, place)


class Piece(Turn, frozen=True):
    """The part of a block that has queries from `low`, a whole number of blocks of them, to before `high`. The piece
    that is a whole block stores its dK and dV; others leave them in f32, to be added.

    Attributes:
        place: of the slots where others leave them, see `slot_of_piece`; less than 0 for a whole block: one number
            is kept until then.
        apart: where others leave them, by what they are; asked where they do, so that nothing of it is kept until then.
    """

    low: Scalar
    high: Scalar
    place: Scalar
    apart: Mapping[str, Callable[[], View]]

    def narrowed(self, span: Span) -> Span:
        """See `Turn`."""
        return replace(span, low=self.low.maximum(span.low), high=self.high.minimum(span.high))

    def keep(self, name: str, tile: Tile, window: Window, dtype: str) -> None:
        """See `Turn`."""
        with when(self.place < 0) as alone:
            store(cast(tile, dtype), window)
        with alone.otherwise():
            store(tile, self.apart[name]().pad(*tile.lengths).window(tile.lengths, (0, 0)))


class Shared:
    """Workgroups that stay take the steps in a range of their own. Their parts of dQ gather in a slot of their own in
    each head: the first piece that reaches a row stores it. Elements of a slot are always the same lane's, so that
    their sums have an order."""

    def arguments(self) -> dict[str, Any]:
        """See `Walk`."""
        return {"costs": ptr("i32"), "dk_slots": ptr("f32"), "dv_slots": ptr("f32"), **SLOTS}

    def begin(self, spec: FmhaBwdSpec, workgroup: Scalar, share: Scalar) -> Scalar:
        """The cost at which a workgroup's range would begin."""
        found: Scalar = workgroup * share
        return found

    def before_all(self, given: Any, own: Scalar) -> None:
        """What a workgroup does first: its slot has no rows, in case that it needs none."""
        note(given.written, given.sequences * given.h + own, Written(0, 0))

    def handed(self, spec: FmhaBwdSpec, share: Scalar, own: Scalar, low: Scalar, in_front: Found) -> list[Scalar]:
        """What turns hand on of slots. The workgroup begins at `low`, at an end of the block that is `in_front`, or
        within that."""
        return []

    def slot(
        self, spec: FmhaBwdSpec, given: Any, q: Side, batch: Scalar, at: Found, own: Scalar, low: Scalar,
        handed: Sequence[Scalar],
    ) -> FoundSlot:  # fmt: skip
        """That of a block's head; `handed` on is 0 from the head's first block on."""
        return slot_of_head(spec, given, q, batch, at.head, own, low > at.first)

    def blocks(self, spec: FmhaBwdSpec, given: Any, batch: Scalar) -> KeyBlocks:
        """Those of a sequence as they are counted."""
        return key_blocks(spec, given, batch, varied=spec.varied)

    def part(
        self, spec: FmhaBwdSpec, given: Any, q: Side, k: Side, at: Found, ends: Sequence[Scalar]
    ) -> tuple[Scalar, list[Scalar]]:
        """Which block of keys it is that has a place among those of a head, and its steps between two costs."""
        return at.place, [(one - at.begin - given.beside).maximum(0) + at.low for one in ends]

    def turn(
        self, spec: FmhaBwdSpec, given: Any, form: Form, own: Scalar, at: Found, ends: Sequence[Scalar],
        queries: Sequence[Scalar],
    ) -> Callable[[Work, Gathered], Turn]:  # fmt: skip
        """What is done with the part of a block between two costs, which has these queries."""
        begins = ends[0].equals(at.begin)
        place = (begins & ends[1].equals(at.end)).select(-1, begins.select(own * 2 + 1, own * 2))
        apart = {
            name: partial(slot_of_piece, pointer, place, form.keys, channels)
            for name, pointer, channels in (("dk", given.dk_slots, spec.d), ("dv", given.dv_slots, spec.dv))
        }
        return lambda work, sink: Piece(work, sink, queries[0], queries[1], place, apart)

    def walk(self, spec: FmhaBwdSpec, given: Any, form: Form, body: Body) -> None:
        """See `Walk`. What a workgroup knows where it begins, and memory that is asked for ahead, take scalar
        registers; beside parts none are left for them."""
        costs, own = given.costs, workgroup_id(0)
        ahead = [] if spec.parts else first_lengths(spec, given)
        total, share = costs.scalar(given.sequences), costs.scalar(given.sequences + 1)
        listed = costs_of(given).first_asked()
        if not spec.parts:
            together(*ahead, total, share, listed)
        begin = self.begin(spec, own, share)
        exit_unless(begin < total)
        begun = sequence_before(given, begin, listed)
        in_front = block_at(self.blocks(spec, given, begun), (begin - 1).maximum(0))
        low = boundary(begin, in_front.begin, in_front.end, given.beside, given.uncut)
        within = (low > in_front.begin) & (low < in_front.end)
        until = self.begin(spec, own + 1, share)
        until = (until < total).select(until, total + given.beside)  # no block of the last workgroup is another's
        self.before_all(given, own)
        left = within.select(1, until - low - given.beside)
        handed = self.handed(spec, share, own, low, in_front)
        behind = 5 + len(handed)
        known = [begun, low, left, 0, 0, *handed, *(() if spec.parts else in_front)]
        with while_loop(lambda sequence, cost, left, *_: left > 0, carry=known) as turn:
            sequence, cost, _, *rows = turn.carried[:5]
            own = workgroup_id(0).anew()
            batch, at = self._block_of(spec, given, sequence, turn.carried[behind:], cost)
            q, k = sides(spec, given, batch)
            end = (until < at.end).select(boundary(until, at.begin, at.end, given.beside, given.uncut), at.end)
            place, steps = self.part(spec, given, q, k, at, (cost, end))
            queries = [one * form.queries for one in steps]
            handed = [cost.equals(at.first).select(0, one) for one in turn.carried[5:behind]]
            slot = self.slot(spec, given, q, batch, at, own, low, handed)
            before = Written(*(cost.equals(at.first).select(0, one) for one in rows)).beginning(queries[0])
            sink = Gathered(form, slot.begin, q.length, spec.d, *before)
            after = joined(form, sink, queries[0], queries[1])
            turn_of = self.turn(spec, given, form, own, at, (cost, end), queries)
            note(given.written, slot.place, after)
            work = Work(place * form.keys, OneHead(at.head), at.head // given.ratio, batch, q, k, given.sk)
            body(turn_of(work, sink))
            turn.carry(batch, end, until - end - given.beside, *after, *handed, *(0 for _ in known[behind:]))

    def _block_of(
        self, spec: FmhaBwdSpec, given: Any, sequence: Scalar, known: Sequence[Scalar], cost: Scalar
    ) -> tuple[Scalar, Found]:
        """The block that a cost lies in, and its sequence: the one that is known, of a sequence, or one behind it."""

        def following(sequence: Scalar) -> tuple[Scalar, Found]:
            batch = _following(given, sequence, cost)
            return batch, block_at(self.blocks(spec, given, batch), cost)

        if not known:
            return following(sequence)
        with while_loop(lambda _, *at: Found(*at).end <= cost, carry=[sequence, *known]) as step:
            batch, at = following(step.carried[0])
            step.carry(batch, *at)
        batch, *found = step.results
        return batch, Found(*found)


class Found(NamedTuple):
    """A block of keys: its head and where that begins, its place in it, its ends, and its first step."""

    head: Scalar
    first: Scalar
    place: Scalar
    begin: Scalar
    end: Scalar
    low: Scalar | int


def _following(given: Any, sequence: Scalar, cost: Scalar) -> Scalar:
    """The sequence that a cost lies in, from one at or in front of it on."""
    with while_loop(lambda one: given.costs.scalar(one + 1) <= cost, carry=[sequence]) as following:
        following.carry(following.carried[0] + 1)
    found: Scalar = following.results[0]
    return found


def joined(form: Form, sink: Gathered, low: Amount, high: Scalar) -> Written:
    """The rows of a slot when a piece's are in it, too. Rows between both become zeros."""
    empty = high.equals(low)
    begin: Scalar = empty.select(sink.low, low)
    end: Scalar = empty.select(sink.low, high)
    clear(form, sink, end.minimum(sink.high), begin.maximum(sink.low))
    return Written(begin.minimum(sink.low), end.maximum(sink.high))


def clear(form: Form, sink: Gathered, low: Amount, high: Amount) -> None:
    """Let rows be zeros, by the lanes that add to them later."""
    nothing = form.nothing_queried()
    with loop(low, high, form.queries) as step:
        store(nothing, sink.block(step.index).window(nothing.lengths, (0, 0)))


def note(pointer: Pointer, index: Scalar, rows: Written) -> None:
    """Leave in memory which rows a slot has."""
    for place, row in enumerate(rows):
        there = view(pointer.offset(index * 2 + place), (1,), (1,)).window((1,), (0,))
        store(full((1,), row, "i32", ONE), there)


# -- what other kernels of attention backward find the same way --------------------------------------------------------


def sequence_before(given: Any, cost: Scalar, first: Tile | None = None) -> Scalar:
    """The sequence with the step in front of a cost; `first` is `first_asked` of its costs, if it was loaded before."""
    return costs_of(given).last((cost - 1).maximum(0), first)


def costs_of(given: Any) -> Listed:
    """What the sequences in front of each cost."""
    return Listed(given.costs, given.sequences, WAVES)


def block_at(blocks: KeyBlocks, cost: Scalar) -> Found:
    """The block that a cost within a sequence lies in."""
    head = blocks.head_at(cost)
    first = blocks.first(head)
    place = _last(lambda one: blocks.before(one) <= cost - first, blocks.count)
    begin, end = (first + blocks.before(one) for one in (place, place + 1))
    return Found(head, first, place, begin, end, blocks.low(place))


def _last(holds: Callable[[Scalar], Scalar], count: Scalar) -> Scalar:
    """The last number below a count, or 0, for which something holds that holds for 0 and up to some number."""
    with while_loop(lambda low, high: low + 1 < high, carry=[count * 0, count]) as search:
        low, high = search.carried
        middle = (low + high) // 2
        below = holds(middle)
        search.carry(below.select(middle, low), below.select(high, middle))
    found: Scalar = search.results[0]
    return found


def slot_of_piece(slots: Pointer, place: Scalar, keys: int, channels: int) -> View:
    """What a piece of a block has (keys, channels): a workgroup's first, of the block that it begins within, at twice
    its number, and its last, of that which it ends within, behind that."""
    begin = slots.offset(place.to("i64") * (keys * channels))
    return view(begin, (keys, channels), (channels, 1))


class FoundSlot(NamedTuple):
    """A slot: where it begins, and its place among all."""

    begin: Pointer
    place: Scalar


def slot_of_head(
    spec: Any, given: Any, q: Side, batch: Scalar, head: Scalar, workgroup: Scalar, behind: Scalar
) -> FoundSlot:
    """The slot of a workgroup in a head: the head's, unless its range begins behind the first step there."""
    elements = given.first_own + workgroup.to("i64") * given.own_stride
    distance = behind.select(elements, in_dq(spec, given, q, head))
    index = behind.select(given.sequences * given.h + workgroup, batch * given.h + head)
    return FoundSlot(given.dq_parts.offset(distance.multiple_of(spec.row_multiple)), index)


def bounds_of(mask: str, given: Any, queries: Any, keys: Any, *, varied: bool = True) -> Bounds | None:
    """Which queries attend to a key, by a kernel's arguments; unless `varied`, their coordinate is
    that of all sequences."""
    if mask == "none":
        return None
    corner = given.mask_corner if varied else 0
    sinks = given.mask_sink if mask == "sinks" else None
    return Bounds.of(mask, given.mask_y, given.mask_x, corner, sinks, queries, keys)


def bounding(mask: str) -> dict[str, Any]:
    """Kernel arguments with which `bounds_of` finds them."""
    names = () if mask == "none" else ("mask_y", "mask_x", *["mask_sink"] * (mask == "sinks"), "mask_corner")
    return dict.fromkeys(names, i32)


class HeadSlots(NamedTuple):
    """The slots of a head that are added, in their order: how many, and the one with a number."""

    total: Scalar
    at: Callable[[Scalar], FoundSlot]


def slots_by_workgroups(spec: Any, given: Any, q: Side, batch: Scalar, head: Scalar) -> HeadSlots:
    """The head's slot, and those of workgroups that begin behind its first step."""
    share = given.costs.scalar(given.sequences + 1).maximum(1)
    blocks = key_blocks(spec, given, batch)
    begin, end = (blocks.first(head + one) for one in (0, 1))
    begun = begin // share  # by whom the first step is taken

    def at(number: Scalar) -> FoundSlot:
        workgroup = begun + number
        return slot_of_head(spec, given, q, batch, head, workgroup, workgroup * share > begin)

    return HeadSlots((blocks.count > 0).select((end - 1) // share - begun + 1, 0), at)


def key_blocks(spec: Any, given: Any, batch: Scalar, *, varied: bool = True) -> KeyBlocks:
    """Those of a sequence, of `spec.block` queries and keys; see `bounds_of`."""
    q, k = sides(spec, given, batch)
    bounds = bounds_of(spec.mask, given, q.length, k.length, varied=varied)
    return KeyBlocks.of(given.beside, given.costs.scalar(batch), q.length, k.length, spec.block, bounds)
