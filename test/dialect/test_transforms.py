"""Coordinate transforms against their definitions, evaluated on ints, arrays and progressions."""

from itertools import product as every

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ckmlir.dialect.progression import Progression
from ckmlir.dialect.symbols import Symbol, combine, divisor, parse_size, resolve, round_up
from ckmlir.dialect.transform_base import NotInvertible
from ckmlir.dialect.transforms import (
    TRANSFORMS,
    Embed,
    Freeze,
    Indexing,
    Insert,
    LeftPad,
    Merge,
    Modulo,
    Offset,
    Pad,
    PassThrough,
    Replicate,
    Reverse,
    RightPad,
    Slice,
    Unmerge,
    Xor,
)

N, S = 12, (5, 3)  # a length, and run-time values for symbols
CASES = {  # transform: what it must map an upper index to, and whether that index is valid
    PassThrough(N): lambda u: ((u[0],), True),
    Pad(N, 2, 3): lambda u: ((u[0] - 2,), 2 <= u[0] < 2 + N),
    Pad(Symbol(0), Symbol(1), 4): lambda u: ((u[0] - 3,), 3 <= u[0] < 8),
    LeftPad(N, 4): lambda u: ((u[0] - 4,), u[0] >= 4),
    RightPad(N, 3): lambda u: ((u[0],), u[0] < N),
    RightPad(Symbol(0), multiple=8): lambda u: ((u[0],), u[0] < 5),
    Slice(N, 3, 9): lambda u: ((u[0] + 3,), True),
    Freeze(7): lambda u: ((7,), True),
    Freeze(Symbol(1)): lambda u: ((3,), True),
    Insert(N): lambda u: ((), True),
    Replicate((2, 3)): lambda u: ((), True),
    Embed((4, 3), (7, 1)): lambda u: ((u[0] * 7 + u[1],), True),
    Embed((4, 3), (1, 1)): lambda u: ((u[0] + u[1],), True),
    Embed((4, Symbol(1)), (Symbol(0), 1)): lambda u: ((u[0] * 5 + u[1],), True),
    Merge((2, 3, 4)): lambda u: ((u[0] // 12, u[0] // 4 % 3, u[0] % 4), True),
    Merge((4, Symbol(1))): lambda u: ((u[0] // 3, u[0] % 3), True),
    Unmerge((2, 3, 4)): lambda u: ((u[0] * 12 + u[1] * 4 + u[2],), True),
    Unmerge((Symbol(0), Symbol(1))): lambda u: ((u[0] * 3 + u[1],), True),
    Xor((6, 8)): lambda u: ((u[0], u[1] ^ (u[0] % 8)), True),
    Xor((16, 4)): lambda u: ((u[0], u[1] ^ (u[0] % 4)), True),
    Reverse(N): lambda u: ((11 - u[0],), True),
    Modulo(5, N): lambda u: ((u[0] % 5,), True),
    Offset(N, 9): lambda u: ((u[0] + 9,), True),
}


def upper_indices(transform):
    return list(every(*(range(resolve(length, S)) for length in transform.upper_lengths)))


def test_every_transform_has_a_case():
    assert {type(transform) for transform in CASES} | {Indexing} == set(TRANSFORMS.values())


@pytest.mark.parametrize("transform", CASES, ids=lambda transform: repr(transform))
def test_mapping_and_validity(transform):
    for upper in upper_indices(transform):
        lower, valid = CASES[transform](upper)
        assert transform.lower(upper, S) == lower
        assert transform.valid(upper, S) in ((None, True) if transform.always_valid else (valid,))
        assert valid or not transform.always_valid
        assert len(lower) == transform.lower_count and len(upper) == transform.upper_count


@pytest.mark.parametrize("transform", CASES, ids=lambda transform: repr(transform))
def test_arrays_map_like_ints(transform):
    uppers = upper_indices(transform)
    arrays = tuple(np.array(column) for column in zip(*uppers, strict=True))
    lower, valid = transform.lower(arrays, S), transform.valid(arrays, S)
    for i, upper in enumerate(uppers):
        assert tuple(int(np.broadcast_to(value, len(uppers))[i]) for value in lower) == transform.lower(upper, S)
        if not transform.always_valid:
            assert bool(valid[i]) == transform.valid(upper, S)


@pytest.mark.parametrize("transform", CASES, ids=lambda transform: repr(transform))
def test_inverse_of_valid_indices_or_a_reason(transform):
    overlapping = isinstance(transform, Embed) and transform.strides == (1, 1)
    runtime_embed = isinstance(transform, Embed) and Symbol(0) in transform.strides
    if isinstance(transform, (Insert, Replicate, Modulo)) or overlapping:
        with pytest.raises(NotInvertible):
            transform.upper(transform.lower(upper_indices(transform)[0], S), S)
        return
    for upper in upper_indices(transform):
        if CASES[transform](upper)[1]:
            assert transform.upper(transform.lower(upper, S), S) == upper or runtime_embed


def test_indexing_reads_lists_and_arrays():
    transform = Indexing(4, Symbol(0))
    table = [30, 10, 0, 20]
    assert [transform.lower((i,), (table,))[0] for i in range(4)] == table
    assert transform.lower((np.arange(4),), (np.array(table),))[0].tolist() == table
    with pytest.raises(NotInvertible):
        transform.upper((10,), (table,))


def test_lengths():
    assert Pad(N, 2, 3).upper_lengths == (17,)
    assert RightPad(13, multiple=8).upper_lengths == (16,)
    assert resolve(RightPad(Symbol(0), 2, 16).upper_lengths[0], (15,)) == 32
    assert Slice(N, 3, 9).upper_lengths == (6,)
    assert Merge((2, 3)).upper_lengths == (6,) and Unmerge((2, 3)).lower_lengths == (6,)


@pytest.mark.parametrize(
    "make, words",
    [
        (lambda: Symbol(-1), "negative"),
        (lambda: Symbol(0, 0), "at least 1"),
        (lambda: Slice(8, 5, 3), r"slice \[5, 3\)"),
        (lambda: Slice(8, 5, 9), "does not lie within"),
        (lambda: Embed((1, 2), (1,)), "one stride a length"),
        (lambda: Xor((8, 6)), "power of two"),
        (lambda: Xor((8, Symbol(0))), "power of two"),
        (lambda: Xor((8,)), "two lengths"),  # type: ignore[arg-type]  # what a reader of text may pass
        (lambda: RightPad(8, multiple=0), "at least 1"),
        (lambda: resolve(Symbol(2), (1, 2)), r"\?2 is needed"),
    ],
)
def test_refusals_say_why(make, words):
    with pytest.raises(ValueError, match=words):
        make()


# -- sizes

sizes = st.recursive(
    st.integers(0, 40) | st.builds(Symbol, st.integers(0, 1), st.sampled_from([1, 2, 8])),
    lambda inner: (
        st.builds(combine, inner, st.sampled_from(["+", "-", "*"]), inner)
        | st.builds(combine, inner, st.sampled_from(["//", "%"]), st.integers(1, 9))
    ),
    max_leaves=5,
)


@given(sizes)
@settings(max_examples=80)
def test_sizes_round_trip_as_text(size):
    assert parse_size(str(size)) == size


@given(sizes, st.integers(0, 9), st.integers(0, 9))
@settings(max_examples=80)
def test_divisor_divides(size, x, y):
    value = resolve(size, (8 * x, 8 * y))  # 8 is a multiple of every symbol's multiple
    assert value == 0 if divisor(size) == 0 else value % divisor(size) == 0


@given(sizes, st.integers(1, 64), st.integers(0, 9))
@settings(max_examples=60)
def test_round_up(size, multiple, x):
    values = (8 * x, 16)
    plain, rounded = resolve(size, values), resolve(round_up(size, multiple), values)
    assert rounded % multiple == 0 and 0 <= rounded - plain < multiple


@pytest.mark.parametrize("text", ["", "x", "1 2", "(1 + )", "(1 ? 2)", "?", "(?0 + 1", "1)"])
def test_malformed_sizes(text):
    with pytest.raises(ValueError, match="'"):
        parse_size(text)


# -- progressions: what they claim is true of every sequence that they stand for


def members(progression, rng):
    """A sequence that the progression stands for."""
    base = progression.multiple * rng.integers(0, 6)
    if progression.step is None:
        return np.concatenate(([base], rng.integers(0, 99, progression.count - 1)))
    return base + progression.step * np.arange(progression.count)


def belongs(values, progression):
    base_fits = values[0] == 0 if progression.multiple == 0 else values[0] % progression.multiple == 0
    return base_fits and (progression.step is None or (np.diff(values) == progression.step).all())


progressions = st.builds(Progression, st.integers(0, 32), st.sampled_from([0, 0, 1, 1, 2, 4, None]), st.just(4))


@given(progressions, progressions | st.integers(1, 32), st.sampled_from("+-*/%^"), st.integers(0, 2**32))
@settings(max_examples=400)
def test_arithmetic_of_progressions(x, y, operation, seed):
    rng = np.random.default_rng(seed)
    a = members(x, rng)
    b = np.full(4, y) if isinstance(y, int) else members(y, rng)
    if operation in "/%" and (b == 0).any():
        return
    apply = {
        "+": lambda p, q: p + q, "-": lambda p, q: p - q, "*": lambda p, q: p * q,
        "/": lambda p, q: p // q, "%": lambda p, q: p % q, "^": lambda p, q: p ^ q,
    }[operation]  # fmt: skip
    assert belongs(apply(a, b), apply(x, y))


@given(progressions, st.integers(0, 64) | progressions, st.integers(0, 2**32))
@settings(max_examples=200)
def test_comparisons_of_progressions(x, y, seed):
    rng = np.random.default_rng(seed)
    a = members(x, rng)
    b = np.full(4, y) if isinstance(y, int) else members(y, rng)
    if x >= y:
        assert len(set((a >= b).tolist())) == 1
    if x < y:
        assert len(set((a < b).tolist())) == 1
