"""Tensor descriptors: offsets, validity, composition, inverse, text, and vector widths checked by brute force."""

from itertools import product as every
from math import prod

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ckmlir.dialect.adaptor import identity
from ckmlir.dialect.descriptor import Descriptor
from ckmlir.dialect.padding import RightPad
from ckmlir.dialect.symbols import Symbol, resolve
from ckmlir.dialect.transform_base import NotInvertible
from ckmlir.dialect.transforms import Embed, Merge, PassThrough, Unmerge


def indices(descriptor, symbols=()):
    return every(*(range(resolve(length, symbols)) for length in descriptor.lengths))


# -- constructors


def test_naive_packed_aligned():
    assert Descriptor.naive((3, 4), (10, 2)).offset((2, 3)) == 26
    assert Descriptor.naive((3, 4), (10, 2)).element_space() == 27
    assert Descriptor.naive((3, 4), (10, 2), offset=5).offset((0, 1)) == 7
    assert Descriptor.naive((3, 4), (10, 2), offset=5).element_space() == 32
    assert Descriptor.packed((2, 3, 4)).offset((1, 2, 3)) == 23
    assert Descriptor.packed((2, 3, 4)).element_space() == 24
    aligned = Descriptor.aligned((2, 3, 5), 8)
    assert (aligned.offset((0, 1, 0)), aligned.offset((1, 0, 0))) == (8, 24)
    assert (aligned.vector_length(2, 8), Descriptor.aligned((2, 3, 8), 8).vector_length(2, 8)) == (1, 8)


def test_runtime_values():
    m, k, pitch = Symbol(0), Symbol(1), Symbol(2)
    view = Descriptor.naive((m, k), (pitch, 1)).right_pad_to_multiple((16, 8))
    values = (20, 11, 32)
    assert view.symbol_count == 3
    assert [resolve(length, values) for length in view.lengths] == [32, 16]
    assert view.offset((19, 10), values) == 19 * 32 + 10
    assert view.element_space(values) == 19 * 32 + 11
    assert view.element_space((0, 11, 32)) == 0
    assert [view.valid(index, values) for index in ((19, 10), (20, 10), (19, 11))] == [True, False, False]


def test_symbol_multiples_are_collected():
    view = Descriptor.naive((Symbol(0, 4), 8), (Symbol(2, 6), 1))
    assert view.symbol_multiples == {0: 4, 2: 6} and view.symbol_count == 3 and not view.tables
    twice = Descriptor.naive((Symbol(0, 4), 8), (Symbol(0, 6), 1))
    assert twice.symbol_multiples == {0: 12}


def test_lengths_are_carried_from_transform_to_transform():
    """What one transform adds to the lengths of the others is what all transforms say together."""
    rows, columns = Symbol(0, 4), Symbol(1)
    view = Descriptor.naive((rows, columns, 6), (Symbol(2), 6, 1)).merge((1, 2)).right_pad(1, 3)
    for one in (view, view.right_pad_to_multiple((16, 8)), view.insert(1, 5).unmerge(0, (4, rows)), view.freeze(0, 2)):
        assert one.lengths == Descriptor.parse(str(one)).lengths


def test_gather_through_a_table():
    view = Descriptor.packed((10, 8)).gather(0, 3, Symbol(0))
    assert view.tables == {0}
    assert [view.offset((row, 1), ([7, 2, 5],)) for row in range(3)] == [57, 17, 41]


# -- views of views


def test_helpers_against_numpy():
    data = np.arange(4 * 6 * 8).reshape(4, 6, 8)
    view = Descriptor.packed(data.shape)
    cases = {
        "slice": (view.slice(1, 2, 5), data[:, 2:5]),
        "permute": (view.permute((2, 0, 1)), data.transpose(2, 0, 1)),
        "merge": (view.merge((0, 1)), data.reshape(24, 8)),
        "merge others": (view.merge((2, 0)), data.transpose(1, 2, 0).reshape(6, 32)),
        "unmerge": (view.unmerge(2, (2, 4)), data.reshape(4, 6, 2, 4)),
        "freeze": (view.freeze(1, 3), data[:, 3]),
        "insert": (view.insert(1, 2), np.repeat(data[:, None], 2, 1)),
        "replicate": (view.replicate(0, (2, 3)), np.broadcast_to(data, (2, 3, 4, 6, 8))),
        "reverse": (view.reverse(1), data[:, ::-1]),
        "modulo": (view.modulo(0, 10), data[np.arange(10) % 4]),
        "offset": (view.offset_by(0, 1, 3), data[1:4]),
        "xor": (view.xor(2, 1), np.stack([data[:, i, np.arange(8) ^ i] for i in range(6)], 1)),
    }
    for name, (made, expected) in cases.items():
        assert made.lengths == expected.shape, name
        for index in indices(made):
            assert made.offset(index) == expected[index], (name, index)


def test_padding_against_numpy():
    data = np.arange(24).reshape(4, 6)
    view = Descriptor.packed((4, 6)).pad(0, 1, 2).right_pad(1, 2)
    padded = np.pad(data, ((1, 2), (0, 2)), constant_values=-1)
    for index in indices(view):
        assert (view.offset(index) if view.valid(index) else -1) == padded[index]


def test_convolution_windows():
    """CK's image-to-column: pad, embed the window, merge to a matrix."""
    image = np.arange(7 * 9).reshape(7, 9)
    view = Descriptor.packed((7, 9)).pad(0, 1, 1).pad(1, 1, 1)
    view = view.apply(Embed((3, 7), (1, 1)), (0,)).apply(Embed((3, 9), (1, 1)), (2,)).permute((1, 3, 0, 2))
    matrix = view.merge((0, 1)).merge((1, 2))
    padded = np.pad(image, 1, constant_values=-1)
    expected = np.lib.stride_tricks.sliding_window_view(padded, (3, 3)).reshape(63, 9)
    assert matrix.lengths == expected.shape
    for index in indices(matrix):
        assert (matrix.offset(index) if matrix.valid(index) else -1) == expected[index]


def test_right_pad_bounds_known_multiples_too():
    """They keep their lengths; an index behind them has no element."""
    view = Descriptor.naive((Symbol(0, 64), 100), (100, 1))
    padded = view.right_pad_to_multiple((64, 50))
    assert padded.lengths == view.lengths
    assert padded.valid((63, 99), [64]) and not padded.valid((63, 100), [64]) and not padded.valid((64, 0), [64])
    assert view.right_pad_to_multiple((128, 64)).lengths[1] == 128


def test_pass_through_leaves_no_step():
    view = Descriptor.packed((4, 8))
    same = view.transform([PassThrough(4), PassThrough(8)], [[0], [1]], [[1], [0]])
    assert same == view.permute((1, 0)) and len(same.steps) == 1


def test_dependents_and_predicates():
    view = Descriptor.packed((4, 6)).right_pad_to_multiple((8, 8)).unmerge(1, (2, 4))
    assert [view.dependents(step.uppers) for step in view.predicates()] == [(0,), (1, 2)]
    values = view.evaluate((5, 1, 3))
    assert [step.transform.valid(tuple(values[u] for u in step.uppers)) for step in view.predicates()] == [False, False]


# -- composition and inverse


@st.composite
def static_descriptors(draw, invertible=False):
    """A descriptor with known lengths, and the alignment of its pointer, through a few random transforms."""
    rank = draw(st.integers(1, 3))
    lengths = [draw(st.sampled_from([1, 2, 3, 4, 6, 8, 16])) for _ in range(rank)]
    gap = draw(st.sampled_from([0, 0, 1, 4]))
    strides = [1] * rank
    for i in reversed(range(rank - 1)):
        strides[i] = strides[i + 1] * lengths[i + 1] + gap
    view = Descriptor.naive(lengths, strides, draw(st.sampled_from([1, 4, 8])), draw(st.sampled_from([0, 0, 4])))
    moves = ["slice", "permute", "merge", "unmerge", "xor", "pad", "right", "offset", "reverse"]
    moves += [] if invertible else ["insert", "modulo", "freeze"]
    for move in draw(st.lists(st.sampled_from(moves), max_size=4)):
        dim = draw(st.integers(0, view.rank - 1))
        length = view.lengths[dim]
        if move == "slice":
            begin = draw(st.integers(0, length - 1))
            view = view.slice(dim, begin, draw(st.integers(begin + 1, length)))
        elif move == "permute":
            view = view.permute(draw(st.permutations(range(view.rank))))
        elif move == "merge" and view.rank > 1 and prod(view.lengths) < 4000:
            view = view.merge(draw(st.permutations(range(view.rank)))[:2])
        elif move == "unmerge" and view.rank < 4:
            first = draw(st.sampled_from([d for d in range(1, length + 1) if length % d == 0]))
            view = view.unmerge(dim, (first, length // first))
        elif move == "xor" and view.rank > 1 and length & (length - 1) == 0:
            view = view.xor(dim, (dim + 1) % view.rank)
        elif move == "pad":
            view = view.pad(dim, draw(st.integers(0, 4)), draw(st.integers(0, 4)))
        elif move == "right":
            view = view.apply(RightPad(length, multiple=draw(st.sampled_from([1, 4, 8]))), (dim,))
        elif move == "offset" and not view.predicates():
            view = view.offset_by(dim, 0, length)
        elif move == "reverse":
            view = view.reverse(dim)
        elif move == "insert" and view.rank < 4:
            view = view.insert(dim, draw(st.sampled_from([2, 4])))
        elif move == "modulo":
            view = view.modulo(dim, draw(st.sampled_from([length, 2 * length, length + 3])))
        elif move == "freeze" and view.rank > 1:
            view = view.freeze(dim, draw(st.integers(0, length - 1)))
    return view


@given(static_descriptors())
@settings(max_examples=120)
def test_text_round_trips(view):
    assert Descriptor.parse(str(view)) == view
    assert str(Descriptor.parse(str(view))) == str(view)
    assert "\n" not in str(view) and str(view).isascii()


@given(static_descriptors())
@settings(max_examples=100)
def test_vector_lengths_are_true(view):
    """No vector of a promised length is scattered, misaligned, or half outside."""
    if prod(view.lengths) > 3000:
        return
    for dim in range(view.rank):
        for maximum in (4, 16):
            count = view.vector_length(dim, maximum)
            assert 1 <= count <= maximum and count & (count - 1) == 0
            assert view.lengths[dim] % count == 0 and view.alignment % count == 0
            if count == 1:
                continue
            for index in indices(view):
                if index[dim] % count == 0:
                    vector = [(*index[:dim], index[dim] + i, *index[dim + 1 :]) for i in range(count)]
                    assert len({view.valid(element) for element in vector}) == 1
                    if view.valid(index):
                        first = view.offset(index)
                        assert first % count == 0
                        assert [view.offset(element) for element in vector] == list(range(first, first + count))


@given(static_descriptors(invertible=True))
@settings(max_examples=100)
def test_inverse(view):
    if prod(view.lengths) > 3000:
        return
    for index in indices(view):
        if view.valid(index):
            assert view.upper((view.offset(index),)) == index


@given(static_descriptors(), st.data())
@settings(max_examples=60)
def test_chain_is_composition(view, data):
    lengths = view.lengths
    dim = data.draw(st.integers(0, view.rank - 1))
    above = identity(lengths).pad(dim, 1, 2)
    if view.rank > 1:
        above = above.merge((0, 1))
    both = view.chain(above)
    assert both.lengths == above.lengths and Descriptor.parse(str(both)) == both
    for index in list(indices(both))[:300]:
        below = above.lower(index)
        assert both.offset(index) == view.offset(below)
        assert bool(both.valid(index)) == bool(above.valid(index) and view.valid(below))


def test_arrays_evaluate_like_ints():
    view = Descriptor.packed((8, 64), 8).unmerge(1, (8, 8)).xor(1, 0).merge((1, 2)).right_pad(0, 3)
    rows, columns = np.meshgrid(np.arange(11), np.arange(64), indexing="ij")
    offsets, valid = view.offset((rows, columns)), view.valid((rows, columns))
    for row, column in ((0, 0), (3, 17), (7, 63), (9, 5)):
        assert offsets[row, column] == view.offset((row, column)) and valid[row, column] == view.valid((row, column))


# -- guaranteed vectors with run-time lengths


@pytest.mark.parametrize(
    "view, dim, expected",
    [
        (Descriptor.naive((Symbol(0), Symbol(1, 8)), (Symbol(2, 8), 1), 8), 1, 8),
        (Descriptor.naive((Symbol(0), Symbol(1, 8)), (Symbol(2, 8), 1), 8), 0, 1),
        (Descriptor.naive((Symbol(0), Symbol(1, 8)), (Symbol(2, 8), 1), 4), 1, 4),
        (Descriptor.naive((Symbol(0), Symbol(1, 8)), (Symbol(2, 2), 1), 8), 1, 2),
        (Descriptor.naive((Symbol(0), Symbol(1)), (Symbol(2, 8), 1), 8).right_pad_to_multiple((8, 64)), 1, 1),
        (Descriptor.naive((Symbol(0), Symbol(1, 4)), (Symbol(2, 8), 1), 8).right_pad_to_multiple((8, 64)), 1, 4),
        (Descriptor.naive((Symbol(0), Symbol(1, 8)), (Symbol(1, 8), 1), 8).right_pad_to_multiple((8, 64)), 1, 8),
        (Descriptor.naive((Symbol(0, 8), 64), (1, Symbol(1, 8)), 8), 0, 8),
        (Descriptor.packed((Symbol(0), 64), 8).merge((0, 1)), 0, 8),
        (Descriptor.packed((64, Symbol(0, 4)), 8).merge((0, 1)), 0, 4),
        (Descriptor.packed((Symbol(0), 64), 8).gather(0, 16, Symbol(1)), 1, 8),
        (Descriptor.packed((64, 64), 8).unmerge(1, (8, 8)).xor(1, 0).merge((1, 2)), 1, 8),
        (Descriptor.packed((64, 64), 8).xor(1, 0), 1, 1),
        (Descriptor.packed((64, 64), 8).pad(1, 4, 4), 1, 4),
        (Descriptor.packed((64, 64), 8).slice(1, 2, 34), 1, 2),
    ],
)
def test_vector_length(view, dim, expected):
    assert view.vector_length(dim, 8) == expected


@given(st.integers(1, 40), st.sampled_from([1, 2, 4, 8]), st.sampled_from([1, 2, 8]))
@settings(max_examples=60)
def test_runtime_vectors_are_true(k, multiple, pitch_multiple):
    """What a symbol's multiple promises holds for every value that keeps it."""
    length, pitch = k * multiple, k * multiple * pitch_multiple
    view = Descriptor.naive((3, Symbol(0, multiple)), (Symbol(1, pitch_multiple), 1), 8).right_pad_to_multiple((4, 16))
    count = view.vector_length(1, 8)
    for row, start in every(range(4), range(0, resolve(view.lengths[1], (length, pitch)), count)):
        vector = [(row, start + i) for i in range(count)]
        assert len({view.valid(element, (length, pitch)) for element in vector}) == 1
        assert not view.valid(vector[0], (length, pitch)) or view.offset(vector[0], (length, pitch)) % count == 0


# -- refusals


def test_text_with_any_names():
    text = (
        "m k = embed(offset, lengths=[?0, ?1%8], strides=[?2%8, 1]); "
        "p = right_pad(m, length=?0, multiple=128); view(p, k) align 8"
    )
    view = Descriptor.parse(text)
    plain = Descriptor.naive((Symbol(0), Symbol(1, 8)), (Symbol(2, 8), 1), 8)
    assert view == plain.apply(RightPad(Symbol(0), multiple=128), (0,))


@pytest.mark.parametrize(
    "text, words",
    [
        ("", "last statement"),
        ("view(d0)", "no dimension 'd0'"),
        ("d0 = embed(offset, lengths=[4], strides=[1])", "last statement"),
        ("d0 = embed(offset, lengths=[4], strides=[1]); view()", "must name each of d0"),
        ("d0 = embod(offset); view(d0)", "no transform 'embod'"),
        ("d0 = embed(offset, lengths=4, strides=[1]); view(d0)", "is a list"),
        ("d0 = embed(offset, lengths=[4]); view(d0)", "needs strides"),
        ("d0 = embed(offset, lengths=[4], strides=[1], x=1); view(d0)", "no field 'x'"),
        ("d0 d1 = embed(offset, lengths=[4], strides=[1]); view(d0, d1)", "makes 1 dimensions of 1"),
        ("d0 = embed(offset, lengths=[4], strides=[a]); view(d0)", "not a size"),
        (
            "d0 = embed(offset, lengths=[4], strides=[1]); d1 = slice(offset, length=4, begin=0, end=2); view(d0, d1)",
            "once",
        ),
        ("d0 = right_pad(offset, length=4, multiple=?0); view(d0)", "is a number"),
        ("d0 = indexing(offset, length=4, table=3); view(d0)", "run-time value"),
        ("d0 = unmerge(offset, lengths=[4]); d0 = insert(length=4); view(d0)", "exists already"),
    ],
)
def test_malformed_text(text, words):
    with pytest.raises(ValueError, match=words):
        Descriptor.parse(text)


VIEW = Descriptor.packed((4, 8))


@pytest.mark.parametrize(
    "act, words",
    [
        (lambda: VIEW.offset((1,)), "1 dimensions into a view of 2"),
        (lambda: VIEW.merge((0, 2)), "no dimension 2"),
        (lambda: VIEW.unmerge(1, (3, 3)), "length of 9, the dimension has 8"),
        (lambda: VIEW.permute((0, 0)), "exactly once"),
        (lambda: VIEW.merge((1, 1)), "exactly once"),
        (lambda: VIEW.transform([Merge((4, 8))], [[0]], [[0]]), "exactly once"),
        (lambda: VIEW.transform([Merge((4, 8)), PassThrough(8)], [[0], [1]], [[0], [1]]), "makes 1 dimensions of 2"),
        (lambda: VIEW.transform([Unmerge((2, 2))], [[0], [1]], [[0, 1]]), "lower and 1 upper"),
        (lambda: VIEW.right_pad_to_multiple((8,)), "1 multiples"),
        (lambda: VIEW.right_pad_to_multiple((8, 0)), "multiple of 0"),
        (lambda: VIEW.vector_length(2, 8), "dimension 2 of 2"),
        (lambda: VIEW.vector_length(0, 0), "at most 0"),
        (lambda: VIEW.chain(identity((4,))), "1 bottom dimensions"),
        (lambda: VIEW.chain(identity((4, 9))), "length 8"),
        (lambda: Descriptor.naive((4,), (1,), 0), "aligned to 0"),
        (lambda: VIEW.insert(0, 2).upper((3,)), "insert has no inverse"),
        (lambda: Descriptor.naive((Symbol(0),), (1,)).offset((1,)), None),
    ],
)
def test_refusals(act, words):
    if words is None:
        assert act() == 1  # a length is not needed for an offset
        return
    with pytest.raises(ValueError, match=words):
        act()


def test_not_invertible_is_a_value_error():
    assert issubclass(NotInvertible, ValueError)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("d0 d1 = embed(offset, lengths=[?0, 32], strides=[?1, 1]); view(d0, d1)", (False, True)),
        ("d0 d1 = embed(offset, lengths=[?0, ?1], strides=[1, ?2%8]); view(d0, d1)", (True, False)),
        ("d0 d1 = embed(offset, lengths=[8, 32], strides=[64, 2]); view(d0, d1)", (False, False)),
        ("d0 d1 = embed(offset, lengths=[?0, 32], strides=[1, ?1]); d2 = right_pad(d0, length=?0, multiple=64); "
         "view(d2, d1)", (True, False)),
        ("d0 d1 d2 = embed(offset, lengths=[9, 5, 32], strides=[320, 1, 5]); d3 = merge(d0, d1, lengths=[9, 5]); "
         "view(d3, d2)", (True, False)),
    ],
)  # fmt: skip
def test_where_neighbours_lie(text, expected):
    view = Descriptor.parse(text)
    assert tuple(view.begins_contiguous(dim) for dim in range(view.rank)) == expected
