"""Layouts in LDS: no two elements share a place, contiguous chunks stay contiguous, text round-trips."""

from __future__ import annotations

import re
from math import prod

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from ckmlir.dialect.lds_layout import LdsLayout

POWERS = st.sampled_from([1, 2, 4, 8, 16, 32])


@st.composite
def layouts(draw: st.DrawFn) -> LdsLayout:
    lengths = tuple(draw(st.lists(POWERS, min_size=1, max_size=3)))
    order = tuple(draw(st.permutations(range(len(lengths)))))
    row = lengths[order[-1]]
    pitch = row + draw(st.sampled_from([0, 0, 1, 4, 8]))
    chunk = draw(st.sampled_from([size for size in (1, 2, 4, 8) if size <= row]))
    masks = [mask for mask in (1, 3, 7, 15) if (mask + 1) * chunk <= row]
    term = st.tuples(st.integers(-3, 4), st.sampled_from(masks or [0]))
    terms = tuple(draw(st.lists(term, max_size=2 if masks else 0)))
    skew = draw(st.sampled_from([0, 0, 2, 4]))
    period = draw(st.sampled_from([1, 2, 8])) if skew else 1
    rows = prod(lengths) // lengths[order[-1]]
    hands = draw(st.sampled_from([1, 1, 2])) if rows % 2 == 0 else 1
    return LdsLayout(lengths, order, pitch, chunk if terms else 1, terms, skew, period, hands)


@given(layouts())
def test_every_element_has_a_place_of_its_own(layout: LdsLayout) -> None:
    offsets = layout.offset(list(np.indices(layout.lengths)))
    assert len(np.unique(offsets)) == prod(layout.lengths)
    assert offsets.min() == 0 and offsets.max() < layout.elements
    if not layout.terms:
        assert offsets.max() == layout.elements - 1


@given(layouts())
def test_integers_and_arrays_agree(layout: LdsLayout) -> None:
    offsets = layout.offset(list(np.indices(layout.lengths)))
    corner = tuple(length - 1 for length in layout.lengths)
    assert layout.offset(corner) == offsets[corner]


@given(layouts())
def test_a_swizzle_moves_whole_chunks_within_their_row(layout: LdsLayout) -> None:
    plain = replace(layout, chunk=1, terms=())
    coordinates = list(np.indices(layout.lengths))
    moved, still, column = layout.offset(coordinates), plain.offset(coordinates), coordinates[layout.contiguous]
    start = still - column
    assert ((moved >= start) & (moved < start + layout.row_length)).all(), "elements stay in their rows"
    assert ((moved - start) % layout.chunk == column % layout.chunk).all(), "chunks stay together"


@given(layouts(), st.sampled_from([1, 2, 4, 8]))
def test_accesses_start_as_aligned_as_promised(layout: LdsLayout, length: int) -> None:
    coordinates = list(np.indices(layout.lengths))
    starts = layout.offset(coordinates)[coordinates[layout.contiguous] % length == 0]
    assert (starts % layout.alignment(length) == 0).all()


@given(layouts())
def test_text_round_trips(layout: LdsLayout) -> None:
    assert LdsLayout.parse(str(layout)) == layout


def test_the_order_says_which_dimension_is_contiguous() -> None:
    layout = LdsLayout.plain((4, 8), (1, 0))
    assert (layout.contiguous, layout.row_length, layout.rows, layout.pitch) == (0, 4, 8, 4)
    assert [layout.offset((1, 0)), layout.offset((0, 1))] == [1, 4]


def test_a_swizzle_as_documented() -> None:
    """Chunk c of row r lies where chunk c ^ ((r >> shift) & mask) would; a skew adds elements every so many rows."""
    layout = LdsLayout((8, 16), (0, 1), 16, 4, ((1, 3),))
    assert layout.offset((0, 5)) == 5
    assert layout.offset((2, 5)) == 2 * 16 + (1 ^ 1) * 4 + 1
    assert layout.offset((7, 5)) == 7 * 16 + (1 ^ 3) * 4 + 1
    both = replace(layout, terms=((1, 3), (0, 1)), skew=2, period=4)
    assert both.offset((7, 5)) == 7 * 16 + (1 ^ 3 ^ 1) * 4 + 1 + 2


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("128x64", "cannot read LDS layout '128x64'; write lengths 128x64 order 0,1 pitch 64"),
        ("lengths 8x8 order 0,0 pitch 8", "order [0, 0] is not a permutation of 2 dimensions"),
        ("lengths 8x8 order 0 pitch 8", "order [0] is not a permutation of 2 dimensions"),
        ("lengths 8x8 order 0,1 pitch 7", "pitch 7 is shorter than a row of 8"),
        (
            "lengths 8x8 order 0,1 pitch 8 swizzle chunk 2 shift 0 mask 2",
            "swizzle mask 2 with chunks of 2 does not fit a row of 8",
        ),
        (
            "lengths 8x8 order 0,1 pitch 8 swizzle chunk 4 shift 0 mask 3",
            "swizzle mask 3 with chunks of 4 does not fit a row of 8",
        ),
        (
            "lengths 8x12 order 0,1 pitch 12 swizzle chunk 4 shift 0 mask 1",
            "swizzle mask 1 with chunks of 4 does not fit a row of 12",
        ),
        ("lengths 8x8 order 0,1 pitch 8 swizzle chunk 0 shift 0 mask 1", "chunks of 0"),
        ("lengths 8x8 order 0,1 pitch 8 skew 4 every 0", "a skew every 0 rows"),
        ("lengths 9x8 order 0,1 pitch 8 dealt 2", "9 rows cannot be dealt out to 2 hands"),
        ("lengths 0x8 order 0,1 pitch 8", "lengths must be positive"),
        ("lengths 8x0 order 0,1 pitch 8", "lengths must be positive"),
    ],
)
def test_mistakes_are_named(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        LdsLayout.parse(text)
