"""Choosing how a tensor lies in LDS: the cheapest of plain, swizzled, skewed and padded rows for the accesses
it sees.
"""

from collections.abc import Iterator, Sequence
from functools import lru_cache

from msgspec import Struct
from msgspec.structs import replace

from ckmlir.dialect.build import integer_of, registers_of, text_of
from ckmlir.dialect.distribution import Distribution
from ckmlir.dialect.lds_layout import LdsLayout
from ckmlir.mlir import ir
from ckmlir.passes.bank_conflicts import access_cycles
from ckmlir.targets import Target

HALF_BANKS = 64
"""Bytes of half the banks (32 banks of 4 bytes)."""
SMALLEST_ALIGNMENT = 8
"""Bytes to which skewed accesses of 16 bytes stay aligned; LLVM keeps them in one instruction down to this."""


class Access(Struct, frozen=True):
    """One LDS access: "read" or "write" of these registers; `transposed`: lanes exchange what they read."""

    kind: str
    distribution: Distribution
    registers: tuple[int, ...]
    transposed: bool = False


def is_known(op: ir.Operation) -> bool:
    """Whether it is known which banks an operation on LDS meets: a read or write, also a read at an index that all
    lanes have in common. Copies have no choice, and other indices are not known.
    """
    if op.name == "ck.lds_gather_fragment":
        return Distribution.parse(text_of(op, "distribution")).lengths[integer_of(op, "axis")] == 1
    return op.name in ("ck.lds_read", "ck.lds_write")


def is_indexed(op: ir.Operation) -> bool:
    """Whether an operation reaches places of LDS that each lane knows for itself."""
    return op.name in ("ck.lds_gather_fragment", "ck.lds_update_fragment")


def access_of(op: ir.Operation) -> Access:
    """What an operation of which `is_known` asks of the banks."""
    kind = "write" if op.name == "ck.lds_write" else "read"
    distribution = Distribution.parse(text_of(op, "distribution"))
    return Access(kind, distribution, registers_of(op), "transposed" in op.attributes)


class Choice(Struct, frozen=True):
    """A layout, and the cycles that its accesses take with and without bank conflicts."""

    layout: LdsLayout
    cycles: int
    ideal: int

    @property
    def conflicts(self) -> int:
        """Cycles lost to bank conflicts."""
        return self.cycles - self.ideal


@lru_cache(maxsize=1024)
def choose_layout(
    plain: LdsLayout,
    accesses: tuple[Access, ...],
    element_bytes: int,
    target: Target,
    padding: bool,
    cell: int = 0,
    widest: int = 1,
) -> Choice:
    """The layout with the fewest cycles; among equals the first, and the search ends at the first without conflicts.

    Accesses of which it is not known what banks they meet count by what they take at once, up to `widest` elements.
    With copies straight to LDS, of cells of `cell` elements, only layouts that they can write; what they take there is
    the same in all of them.

    One access of every kind and distribution tells a bad layout from a good one; only where those improve are all
    accesses evaluated.
    """
    representatives = tuple({(access.kind, access.distribution): access for access in accesses}.values())
    best: Choice | None = None
    hopeful: int | None = None  # the fewest cycles that representatives took so far
    for layout in candidates(plain, accesses, element_bytes, padding, cell, widest):
        first = _cost(layout, representatives, element_bytes, target, hopeful)
        if first is None:
            continue
        hopeful = first.cycles
        best = _cost(layout, accesses, element_bytes, target, best.cycles if best else None) or best
        if best is not None and best.conflicts == 0:
            break
    assert best is not None
    return best


def _cost(
    layout: LdsLayout, accesses: Sequence[Access], element_bytes: int, target: Target, below: int | None
) -> Choice | None:
    """What accesses cost together; None for as many cycles as `below`, or more."""
    total = least = 0
    for one in accesses:
        cycles, ideal = access_cycles(layout, one.distribution, one.registers, element_bytes, one.kind, target)
        total, least = total + cycles, least + ideal
        if below is not None and total >= below:
            return None
    return Choice(layout, total, least)


def candidates(
    plain: LdsLayout, accesses: tuple[Access, ...], element_bytes: int, padding: bool, cell: int = 0, widest: int = 1
) -> Iterator[LdsLayout]:
    """Layouts that leave every access contiguous, from the simplest to the most elaborate.

    Plain rows; swizzles of one term; of two terms, for writers and readers that walk along different bits of the row;
    turned ones, for readers of rows and of columns; the first three with a skew of half a chunk; padded rows, which
    cost bytes; dealt rows. Copies (`cell` > 0) can write all without a skew or padding.
    """
    yield plain
    chunk = max(cell, widest, *(len(access.registers) for access in accesses))
    swizzled = [replace(plain, chunk=chunk, terms=terms) for terms in _swizzles(plain, chunk)]
    yield from swizzled
    if any(access.transposed for access in accesses):  # their lanes read longer pieces of a row together
        for longer in (2 * chunk, 4 * chunk):
            yield from (replace(plain, chunk=longer, terms=terms) for terms in _swizzles(plain, longer))
        yield from (replace(plain, chunk=chunk, terms=terms) for terms in _turned(plain, chunk))
    if not padding or cell:
        return
    half = chunk // 2
    if half * element_bytes >= SMALLEST_ALIGNMENT and plain.rows > 8:
        for period in (8, 4, 16):
            yield from (replace(layout, skew=half, period=period) for layout in swizzled)
    for amount in (chunk, 2 * chunk):
        yield replace(plain, pitch=plain.pitch + amount)
    yield from _shifted_rows(plain, chunk, element_bytes)
    if plain.rows % 2 == 0:  # writers of every other row, such as of what they transposed two by two
        for longer in (chunk, 2 * chunk):
            yield from (replace(plain, chunk=longer, terms=terms, hands=2) for terms in _swizzles(plain, longer))


def _shifted_rows(plain: LdsLayout, chunk: int, element_bytes: int) -> Iterator[LdsLayout]:
    """For rows of half the banks: every other group of rows one row further on.

    Rows at an even distance would all start at the same bank; the shift lets groups of them take turns, while the
    swizzle, which leaves out the lowest bit of the row, spreads those of one group.
    """
    if plain.row_length * element_bytes != HALF_BANKS or plain.rows < 32:
        return
    mask = plain.row_length // chunk - 1
    for period in (8, 4, 16):
        for shift in range(2, (plain.rows - 1).bit_length()):
            yield replace(plain, chunk=chunk, terms=((1, mask), (shift, mask)), skew=plain.row_length, period=period)


def _swizzles(plain: LdsLayout, chunk: int) -> Iterator[tuple[tuple[int, int], ...]]:
    """Terms of swizzles: one over all of the row's chunks (at most 16), then two."""
    masks = [mask for mask in (15, 7, 3, 1) if plain.row_length % (chunk * (mask + 1)) == 0]
    bits = (plain.rows - 1).bit_length()
    for mask in masks:
        yield from (((shift, mask),) for shift in range(bits))
    for mask in masks[:2]:
        width = mask.bit_length()
        for low in range(1, width + 1):
            yield from (((0, (1 << low) - 1), (shift, mask)) for shift in range(1, bits))


def _turned(plain: LdsLayout, chunk: int) -> Iterator[tuple[tuple[int, int], ...]]:
    """Swizzles by the row's bits in turned order: neighbouring rows, of which a transposing read takes a longer piece
    each, lie far apart, and rows further on fill what is between, for reads of one chunk of many rows.
    """
    masks = [mask for mask in (15, 7, 3) if plain.row_length % (chunk * (mask + 1)) == 0]
    for mask in masks:
        width = mask.bit_length()
        for first in range(3):  # the first row's bit that counts
            for left in range(1, width):
                yield (first - left, mask), (first + width - left, (1 << left) - 1)
