"""Work of attention: which queries a workgroup takes, of which head and sequence."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from msgspec import Struct
from msgspec.structs import replace

from ckmlir.lang import Scalar, Tile, exit_unless
from ckmlir.ops.attention.fmha_fwd_spec import FmhaFwdSpec
from ckmlir.ops.attention.loop.block_rows_kernel import BlockRows, HeadsTogether, OneHead
from ckmlir.ops.attention.loop.loop_kernel import Form
from ckmlir.ops.attention.loop.shares_kernel import ALL, Part, Share
from ckmlir.ops.attention.orders import DEALT, FORWARD_ORDERS, JOINED, JOINED_FALLING, Turn
from ckmlir.ops.listed_search import Listed

if TYPE_CHECKING:
    from ckmlir.ops.attention.loop.page_table_kernel import Pages

SMALLEST_ROW = 8
"""Channels of O come in multiples of as many f32 at least."""


class Side(Protocol):
    """The queries, or the keys, of a sequence."""

    @property
    def length(self) -> Scalar:
        """How many there are."""

    def origin(self, row: Scalar | int, by_batch: Scalar) -> Scalar:
        """Elements (i64) from an array's start to the sequence's first row; rows are `row` (i32) apart and batches
        `by_batch` (i64)."""

    def divided(self, divisor: int) -> Scalar:
        """The length, with a promise of what divides it if all sequences have the same."""


class Alike(Struct, frozen=True):
    """Every sequence is a batch of the arrays, and all are as long."""

    length: Scalar
    batch: Scalar

    def origin(self, row: Scalar | int, by_batch: Scalar) -> Scalar:
        """See `Side`."""
        distance: Scalar = self.batch.to("i64") * by_batch
        return distance

    def divided(self, divisor: int) -> Scalar:
        """See `Side`."""
        return self.length.multiple_of(divisor)


class Lengths(Alike, frozen=True):
    """Every sequence is a batch of the arrays; memory holds how many rows of it there are."""

    def divided(self, divisor: int) -> Scalar:
        """See `Side`."""
        return self.length


def slot_of(side: Side, slot: Scalar, slots: Scalar) -> Side:
    """The same rows in another batch of the arrays, of so many; none where there is no such batch."""
    assert isinstance(side, Alike)
    exists = slot.below(slots)
    return replace(side, length=exists.select(side.length, 0), batch=exists.select(slot, 0))


class Packed(Struct, frozen=True):
    """Sequences follow each other along the arrays' rows; memory holds where each begins."""

    length: Scalar
    start: Scalar

    def origin(self, row: Scalar | int, by_batch: Scalar) -> Scalar:
        """See `Side`."""
        distance: Scalar = self.start.to("i64") * (row if isinstance(row, int) else row.to("i64"))
        return distance

    def divided(self, divisor: int) -> Scalar:
        """See `Side`."""
        return self.length


class Work(Struct, frozen=True):
    """A block of queries.

    Attributes:
        first: its first row in the sequence.
        rows: what these are; shared: the head of K and V; batch: the sequence's number.
        longest: as many keys as the longest sequence may have, by which arrays of scores are laid out.
        share: of the keys that the queries attend to.
        pages: that the keys lie in, if any.
    """

    first: Scalar
    rows: BlockRows
    shared: Scalar
    batch: Scalar
    q: Side
    k: Side
    longest: Scalar
    share: Share = ALL
    pages: Pages | None = None

    @property
    def head(self) -> Scalar:
        """The head of Q and O; of several, the first."""
        return self.rows.head

    @property
    def sq(self) -> Scalar:
        """The sequence's queries."""
        return self.q.length

    @property
    def sk(self) -> Scalar:
        """The sequence's keys."""
        return self.k.length


def block_of_grid(spec: FmhaFwdSpec, given: SimpleNamespace, form: Form) -> Work:
    """The work of a workgroup in a grid as the specification's order has it; where workgroups share the keys of a
    block, they follow each other. It ends here where its sequence has fewer blocks of queries."""
    queries, keys = spec.block
    order, share = FORWARD_ORDERS[spec.order], ALL
    turn = order.turn()
    if spec.split:
        turn, number, among = SHARERS.get(spec.order, even)(turn, spec, given)
        share = Part(number, among, {"o": given.o_part.multiple_of(SMALLEST_ROW), "lse": given.lse_part})
    place, head, batch = FINDERS.get(spec.order, as_dealt)(turn, spec, given)
    sq = given.sq if spec.pad_sq else given.sq.multiple_of(queries)
    sk = given.sk if spec.pad_sk else given.sk.multiple_of(keys)
    q, k = (
        side_of(word, given, name, batch, length)
        for word, name, length in zip(spec.sequences, "qk", (sq, sk), strict=True)
    )
    shared = head if spec.packed else head // given.ratio
    rows: BlockRows = HeadsTogether(shared, given.ratio) if spec.packed else OneHead(head)
    length = rows.count(q.length)
    if spec.sequences[0]:
        exit_unless(place * queries < length)
    first = order.first(place, queries, length)
    return Work(first, rows.placed(first, form), shared, batch, q, k, sk, share)


class Shared(NamedTuple):
    """The turn of a block, and which share of it is a workgroup's, of how many."""

    turn: Turn
    number: Scalar
    among: Scalar


def even(turn: Turn, spec: FmhaFwdSpec, given: SimpleNamespace) -> Shared:
    """What is at a place where all blocks have as many shares."""
    return Shared(turn._replace(place=turn.place // given.splits), turn.place % given.splits, given.splits)


def dealt(turn: Turn, spec: FmhaFwdSpec, given: SimpleNamespace) -> Shared:
    """What is at a place where memory holds how many shares the blocks of each sequence have, and where those of the
    sequence begin. The kernel ends here for places behind the last one."""
    begins, sequences = given.begins.scalar, Listed(given.begins, given.count, spec.waves)
    asked = sequences.first_asked()
    exit_unless(turn.place < begins(given.count))
    sequence = sequences.last(turn.place, asked)
    place, among = turn.place - begins(sequence), given.counts.scalar(sequence)
    return Shared(Turn(place // among, turn.head, sequence), place % among, among)


SHARERS: Mapping[str, Callable[[Turn, FmhaFwdSpec, SimpleNamespace], Shared]] = {DEALT: dealt}
"""By orders in which blocks do not have as many shares each."""


def as_dealt(turn: Turn, spec: FmhaFwdSpec, given: SimpleNamespace) -> Turn:
    """A workgroup's turn as the grid has it."""
    return turn


def found(turn: Turn, spec: FmhaFwdSpec, given: SimpleNamespace, asked: Tile | None = None) -> Turn:
    """Whose block is at a place of the row of all sequences' blocks, and which of its own: the last sequence that
    begins there or before. Sequence n begins at as many blocks as the rows before it fill, plus n; so a
    sequence may have a block more than it takes. The kernel ends here for places before the first one."""
    sequence = _sequences(spec, given).last(turn.place, asked)
    place = turn.place - first_block(sequence, spec, given)
    exit_unless(place >= 0)
    return Turn(place, turn.head, sequence)


def found_from_the_end(turn: Turn, spec: FmhaFwdSpec, given: SimpleNamespace) -> Turn:
    """The same, where places are counted from the end of the row."""
    asked = _sequences(spec, given).first_asked()
    place = first_block(given.count, spec, given) - 1 - turn.place
    exit_unless(place >= 0)
    return found(turn._replace(place=place), spec, given, asked)


def first_block(sequence: Scalar, spec: FmhaFwdSpec, given: SimpleNamespace) -> Scalar:
    """Where a sequence's blocks begin in the row of those of all; behind the last sequence, the end of the row."""
    before: Scalar = _blocks_before(given.seqstart_q.scalar(sequence), sequence, spec, given)
    return before


def _sequences(spec: FmhaFwdSpec, given: SimpleNamespace) -> Listed:
    """Where the blocks of sequences begin."""
    blocks = partial(_blocks_before, spec=spec, given=given)
    return Listed(given.seqstart_q, given.count, spec.waves, of=blocks)


def _blocks_before(rows: Any, sequence: Any, spec: FmhaFwdSpec, given: SimpleNamespace) -> Any:
    """The blocks in front of a sequence, or of each of some, of whose rows so many are in front of it."""
    return rows * (given.ratio if spec.packed else 1) // spec.block[0] + sequence


FINDERS: Mapping[str, Callable[[Turn, FmhaFwdSpec, SimpleNamespace], Turn]] = {
    JOINED: found,
    JOINED_FALLING: found_from_the_end,
}
"""By orders whose grid does not say it: which block of which sequence a workgroup takes."""


def side_of(word: str, given: SimpleNamespace, name: str, batch: Scalar, length: Scalar) -> Side:
    """Queries or keys as a word of the specification has them; `length` is the arrays'."""
    return _side(word, given, _listed(word, given, name, batch), batch, length)


def sides_of(words: Sequence[str], given: SimpleNamespace, batch: Scalar) -> tuple[Side, Side]:
    """Queries and keys of a sequence. What memory has of either is asked for before the other is waited for: LLVM keeps
    this order. `together` would keep neighbours apart, which one load reads."""
    found = [_listed(word, given, name, batch) for word, name in zip(words, "qk", strict=True)]
    lengths = given.sq, given.sk
    q, k = (_side(word, given, own, batch, one) for word, own, one in zip(words, found, lengths, strict=True))
    return q, k


def first_lengths(spec: Any, given: SimpleNamespace) -> list[Scalar]:
    """What memory has of the queries and keys of the first sequence. Who asks for it while it does not know which
    sequence is its own has the same line of memory for up to 16."""
    return [one for word, name in zip(spec.sequences, "qk", strict=True) for one in _listed(word, given, name, 0)]


def _listed(word: str, given: SimpleNamespace, name: str, batch: Scalar | int) -> Sequence[Scalar]:
    """What memory has of a sequence's queries or keys."""
    if "start" in word:
        starts = getattr(given, f"seqstart_{name}").offset(batch)  # neighbours at one address, which one load reads
        return starts.scalar(0), _length(given, name, batch) if "length" in word else starts.scalar(1)
    if "pages" in word:
        indptr = given.kv_indptr.offset(batch)
        return indptr.scalar(0), indptr.scalar(1), given.kv_last_page_lens.scalar(batch)
    return [_length(given, name, batch)] if "length" in word else []


def _length(given: SimpleNamespace, name: str, batch: Scalar | int) -> Scalar:
    found: Scalar = getattr(given, f"seqlen_{name}").scalar(batch)
    return found


def _side(word: str, given: SimpleNamespace, listed: Sequence[Scalar], batch: Scalar, length: Scalar) -> Side:
    if "start" in word:
        start, other = listed
        return Packed(other if "length" in word else other - start, start)
    if "pages" in word:
        begin, end, last = listed
        count = end - begin
        return Lengths((count > 0).select((count - 1) * given.page_keys + last, 0), batch)
    return Lengths(listed[0], batch) if "length" in word else Alike(length, batch)
