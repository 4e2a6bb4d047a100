"""Distributions: coordinates, notation, canonical form, algebra, and maps between registers, by brute force."""

from itertools import permutations
from itertools import product as every
from math import prod

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ckmlir.dialect.distribution import (
    LANE,
    REGISTER,
    WAVE,
    Distribution,
    Encoding,
    Factor,
    verify_encoding,
)
from ckmlir.dialect.distribution_maps import broadcast_map, register_map

parse = Distribution.parse
WORKED = parse("m: 4@y0 4@wave 16@lane, k: 4@lane 8@y1")
ACCUMULATORS = parse("m: 4@y0 2@lane 4@y1, n: 32@lane")


@st.composite
def distributions(draw, rank=None, replicate=True):
    """Any distribution of a small tile: the factors of waves, lanes and registers dealt to dimensions."""
    rank = draw(st.integers(1, 3)) if rank is None else rank
    rows = [[] for _ in range(rank + 1)]
    for owner, most in ((WAVE, 2), (LANE, 4), (REGISTER, 3)):
        for place in range(draw(st.integers(0, most))):
            row = draw(st.integers(0 if replicate and owner != REGISTER else 1, rank))
            factor = Factor(draw(st.sampled_from([1, 2, 2, 3, 4])), owner, place)
            rows[row].insert(draw(st.integers(0, len(rows[row]))), factor)
    return Distribution(tuple(rows[0]), tuple(map(tuple, rows[1:])))


# -- CK's worked example


def test_worked_example():
    """A 256x32 f16 tile over 4 waves: M0=4 M1=4 M2=16, K0=4 K1=8 (CK Tile's GEMM policy for A)."""
    encoding = Encoding((), ((4, 4, 16), (4, 8)), (((1, 1),), ((1, 2), (2, 0))), ((1, 0), (2, 1)))
    assert Distribution.from_encoding(encoding) == WORKED and WORKED.encoding == encoding
    assert WORKED.lengths == (256, 32)
    assert (WORKED.waves, WORKED.lanes, WORKED.registers, WORKED.register_lengths) == (4, 64, 32, (4, 8))
    m, k = WORKED.coordinates()
    for wave, lane, register in every(range(4), range(64), range(32)):
        y0, y1 = divmod(register, 8)
        assert m[wave, lane, register] == y0 * 64 + wave * 16 + lane // 4
        assert k[wave, lane, register] == lane % 4 * 8 + y1
    assert WORKED.is_bijective() and WORKED.replication == 1


def test_worked_example_with_trivial_replication():
    """CK writes Rs = [1]; a factor of length 1 says nothing."""
    encoding = Encoding((1,), ((4, 4, 16), (4, 8)), (((1, 1), (0, 0)), ((1, 2), (2, 0))), ((1, 0), (2, 1)))
    assert Distribution.from_encoding(encoding) == WORKED


# -- laws


@given(distributions())
@settings(max_examples=100)
def test_every_element_is_held_equally_often(distribution):
    elements = distribution.elements()
    counts = np.bincount(elements.ravel(), minlength=prod(distribution.lengths))
    assert (counts == distribution.replication).all() and distribution.is_bijective()
    threads = distribution.waves * distribution.lanes
    assert threads * distribution.registers == prod(distribution.lengths) * distribution.replication


@given(distributions())
@settings(max_examples=100)
def test_digits_make_coordinates(distribution):
    coordinates = distribution.coordinates()
    for wave, lane, register in ((0, 0, 0), (-1, -1, -1), (0, -1, 0), (-1, 0, -1)):
        wave, lane = wave % distribution.waves, lane % distribution.lanes
        register %= distribution.registers
        index = {WAVE: wave, LANE: lane, REGISTER: register}
        for dim in range(distribution.rank):
            value = sum(
                index[digit.source] // digit.source_weight % digit.length * digit.weight
                for digit in distribution.digits(dim)
            )
            assert value == coordinates[dim, wave, lane, register]


@given(distributions())
@settings(max_examples=100)
def test_notation_round_trips(distribution):
    text = str(distribution)
    assert parse(text) == distribution and str(parse(text)) == text
    assert text.isascii() and "\n" not in text
    names = ["m", "n", "k"][: distribution.rank]
    assert parse(distribution.text(names)) == distribution


@given(distributions())
@settings(max_examples=60)
def test_encoding_round_trips(distribution):
    assert verify_encoding(distribution.encoding) == []
    assert Distribution.from_encoding(distribution.encoding) == distribution


@given(distributions(rank=2), distributions(rank=2))
@settings(max_examples=150)
def test_equal_means_same_places(left, right):
    """The canonical form is the only form: equal exactly when every element lies in the same places."""
    a, b = left.coordinates(), right.coordinates()
    same = a.shape == b.shape and bool((a == b).all()) and left.lengths == right.lengths
    assert same == (left == right) == (str(left) == str(right))
    assert left != right or hash(left) == hash(right)


def test_one_form_for_each_placement():
    """All ways to deal three lane bits and two register bits to replication and two dimensions, in any order."""
    seen: dict[bytes, set[str]] = {}
    bits = [Factor(2, LANE, 0), Factor(2, LANE, 1), Factor(2, LANE, 2), Factor(2, REGISTER, 0), Factor(2, REGISTER, 1)]
    for order in permutations(bits):
        for first, second in every(range(3), range(6)):
            if first > second or any(factor.owner == REGISTER for factor in order[:first]):
                continue
            made = Distribution(order[:first], (order[first:second], order[second:]))
            seen.setdefault(made.coordinates().tobytes() + bytes(made.lengths), set()).add(str(made))
    assert len(seen) > 100 and all(len(texts) == 1 for texts in seen.values())


@pytest.mark.parametrize(
    "one, other",
    [
        ("m: 2@lane 8@lane, k: 4@y0", "m: 16@lane, k: 4@y0"),
        ("m: 2@y0 1@wave 4@y1, k: 8@lane", "m: 8@y0, k: 8@lane"),
        ("m: 1@y0 4@y1, k: 8@lane", "m: 4@y0, k: 8@lane"),
        ("r: 2@lane 2@wave, m: 4@lane", "r: 2@wave 2@lane, m: 4@lane"),
        ("m: 4@y0 × 4@wave × 16@lane, k: 4@lane * 8@y1", "d0: 4@y0 4@wave 16@lane, d1: 4@lane 8@y1"),
        ("m: 16@lane.1, k: 4@lane.0 1@y0", "m:16 @ lane.1,k:4@lane.0"),
    ],
)
def test_canonical(one, other):
    assert parse(one) == parse(other) and str(parse(one)) == str(parse(other))


def test_ranks_are_written_only_where_needed():
    assert str(ACCUMULATORS) == "d0: 4@y0 2@lane 4@y1, d1: 32@lane"
    assert str(ACCUMULATORS.permute((1, 0))) == "d0: 32@lane.1, d1: 4@y0 2@lane.0 4@y1"
    assert str(parse("m: 1, k: 4@y0")) == "d0: 1, d1: 4@y0"


@pytest.mark.parametrize(
    "text, words",
    [
        ("m 4@lane", "is not 'name: factors'"),
        ("m: 4@warp", "'4@warp' is not a factor"),
        ("m: 4", "'4' is not a factor"),
        ("m: 4@lane 2@lane.1", "all parts of @lane carry a rank"),
        ("m: 4@lane.0 2@lane.2", r"numbered \[0, 2\]"),
        ("m: 4@y0, k: 4@y0", r"numbered \[0, 0\]"),
        ("m: 4@y1", r"parts of register are numbered \[1\]"),
        ("r: 4@y0, m: 4@lane", "only waves and lanes can hold copies"),
        ("m: 0@lane", "length 0"),
        ("", "is not 'name: factors'"),
    ],
)
def test_malformed_notation(text, words):
    with pytest.raises(ValueError, match=words):
        parse(text)


@pytest.mark.parametrize(
    "encoding, words",
    [
        (Encoding((), ((4, 8),), (((1, 0),), ()), ()), "factor 1 of dimension 0 belongs to no partition"),
        (Encoding((), ((4,),), (((1, 0),), ((1, 0),)), ()), "belongs to partition 0 and partition 1"),
        (Encoding((), ((4,),), ((), ()), ((1, 0), (1, 0))), "belongs to y0 and y1"),
        (Encoding((), ((4,),), (((1, 1),), ()), ((1, 0),)), "factor 1 of dimension 0, which does not exist"),
        (Encoding((2,), ((4,),), ((), ()), ((1, 0), (0, 0))), "only waves and lanes"),
        (Encoding((), ((0,),), ((), ()), ((1, 0),)), "has length 0"),
        (Encoding((), ((4,),), (((1, 0),),), ()), "1 partitions are given"),
    ],
)
def test_wrong_encodings(encoding, words):
    assert any(words in problem for problem in verify_encoding(encoding))
    with pytest.raises(ValueError, match=words):
        Distribution.from_encoding(encoding)


# -- algebra


def test_block_tile_of_matrix_instructions():
    """CK's block GEMM: iteration i of wave w covers rows (i * waves + w) * 32."""
    outer = parse("m: 2@y0 2@wave, n: 2@y1 2@wave")
    block = outer.embed(ACCUMULATORS)
    assert block.lengths == (128, 128) and block.register_lengths == (2, 2, 4, 4)
    m, n = block.coordinates()
    for wave, lane, register in every(range(4), (0, 31, 32, 63), range(64)):
        i, j, group, row = np.unravel_index(register, (2, 2, 4, 4))
        assert m[wave, lane, register] == (i * 2 + wave // 2) * 32 + group * 8 + lane // 32 * 4 + row
        assert n[wave, lane, register] == (j * 2 + wave % 2) * 32 + lane % 32


@given(distributions(rank=2), distributions(rank=2))
@settings(max_examples=60)
def test_embed(outer, inner):
    both = outer.embed(inner)
    assert both.lengths == tuple(a * b for a, b in zip(outer.lengths, inner.lengths, strict=True))
    a, b, c = outer.coordinates(), inner.coordinates(), both.coordinates()
    for dim in range(2):
        expected = a[dim][:, None, :, None, :, None] * inner.lengths[dim] + b[dim][None, :, None, :, None, :]
        assert (c[dim] == expected.reshape(c[dim].shape)).all()


@given(distributions(), st.data())
@settings(max_examples=60)
def test_reduce_and_broadcast(distribution, data):
    dim = data.draw(st.integers(0, distribution.rank - 1))
    reduced = distribution.reduce(dim)
    assert reduced.lengths == distribution.lengths[:dim] + distribution.lengths[dim + 1 :]
    assert (reduced.waves, reduced.lanes) == (distribution.waves, distribution.lanes)
    homes = broadcast_map(reduced, distribution, dim)
    assert homes is not None
    left = np.delete(distribution.coordinates(), dim, axis=0)
    assert (reduced.coordinates()[:, :, :, list(homes)] == left).all()


@given(distributions(), st.integers(0, 3), st.integers(1, 4))
@settings(max_examples=40)
def test_expand_undoes_reduce(distribution, dim, length):
    dim = min(dim, distribution.rank)
    expanded = distribution.expand(dim, length)
    assert expanded.lengths == (*distribution.lengths[:dim], length, *distribution.lengths[dim:])
    assert expanded.reduce(dim) == distribution


@given(distributions(), st.data())
@settings(max_examples=60)
def test_slice(distribution, data):
    """A slice either is refused or gives the elements of the part, renumbered from its start."""
    dim = data.draw(st.integers(0, distribution.rank - 1))
    start = data.draw(st.integers(0, distribution.lengths[dim] - 1))
    length = data.draw(st.integers(1, distribution.lengths[dim] - start))
    along = distribution.coordinates()[dim]
    inside = (along >= start) & (along < start + length)
    try:
        part, registers = distribution.slice(dim, start, length)
    except ValueError:
        assert length != distribution.lengths[dim]
        return
    assert (inside == np.isin(np.arange(distribution.registers), registers)).all()
    moved = distribution.coordinates()[..., list(registers)].copy()
    moved[dim] -= start
    assert (part.coordinates() == moved).all()


@given(distributions(), st.data())
@settings(max_examples=60)
def test_slices_that_are_whole_parts_of_registers_succeed(distribution, data):
    dim = data.draw(st.integers(0, distribution.rank - 1))
    factors = distribution.dims[dim]
    if not factors or factors[0].owner != REGISTER:
        return
    weight = distribution.lengths[dim] // factors[0].length
    first = data.draw(st.integers(0, factors[0].length - 1))
    count = data.draw(st.integers(1, factors[0].length - first))
    part, registers = distribution.slice(dim, first * weight, count * weight)
    assert part.lengths[dim] == count * weight and len(registers) == part.registers


@given(distributions(), st.data())
@settings(max_examples=60)
def test_register_order_and_map(distribution, data):
    order = data.draw(st.permutations(range(len(distribution.register_lengths))))
    moved = distribution.with_register_order(order)
    mapping = register_map(distribution, moved)
    assert mapping is not None and sorted(mapping) == list(range(distribution.registers))
    assert (distribution.elements()[:, :, list(mapping)] == moved.elements()).all()


@given(distributions(), st.data())
def test_split(distribution, data):
    """The two dimensions count as one did, and joined they are it again; some lengths cut no factor evenly."""
    dim = data.draw(st.integers(0, distribution.rank - 1))
    length = data.draw(st.sampled_from([one for one in range(1, 65) if distribution.lengths[dim] % one == 0]))
    try:
        parts = distribution.split(dim, length)
    except ValueError as error:
        assert f"no whole part of {length} " in str(error)
        assert length & (length - 1) or distribution.lengths[dim] & (distribution.lengths[dim] - 1)
        return
    assert parts.lengths[dim : dim + 2] == (distribution.lengths[dim] // length, length)
    found, whole = parts.coordinates(), distribution.coordinates()
    if found.shape[1:] == whole.shape[1:]:
        assert (found[dim] * length + found[dim + 1] == whole[dim]).all()
    assert parts.join(dim) == distribution


@given(distributions(rank=2, replicate=False), st.data())
@settings(max_examples=60)
def test_permute(distribution, data):
    order = data.draw(st.permutations(range(2)))
    assert (distribution.permute(order).coordinates() == distribution.coordinates()[list(order)]).all()


def test_register_map_is_none_where_data_must_cross_lanes():
    rows, columns = parse("m: 16@lane, k: 4@y0"), parse("m: 4@y0 4@lane, k: 4@lane")
    assert register_map(rows, columns) is None
    # thread 0 has all its elements, another thread does not
    assert register_map(parse("m: 2@lane, k: 2@lane 2@y0"), parse("m: 2@lane.1, k: 2@lane.0 2@y0")) is None


def test_accumulators_are_operands_of_the_next_product():
    """S^T of 32x32x8 instructions is the A operand of P V without crossing lanes."""
    scores = ACCUMULATORS.permute((1, 0))
    operand = parse("m: 32@lane.1, k: 4@y0 2@lane.0 4@y1")
    assert register_map(scores, operand) == tuple(range(16))


def test_wave_partials():
    distribution = parse("m: 4@y0 8@lane, n: 2@y1 4@wave 8@lane")
    partials = distribution.wave_partials(1)
    assert str(partials) == "r: 8@lane.1, d0: 4@wave, d1: 4@y0 8@lane.0"


@pytest.mark.parametrize(
    "act, words",
    [
        (lambda: WORKED.reduce(2), "no dimension 2"),
        (lambda: WORKED.permute((0, 0)), "not an order of 2 dimensions"),
        (lambda: WORKED.with_register_order((0,)), "not an order of 2 register dimensions"),
        (lambda: WORKED.split(0, 32768), "no whole part of 32768"),
        (lambda: WORKED.split(0, 3), "no whole part of 3"),
        (lambda: WORKED.split(1, 0), "no whole part of 0"),
        (lambda: WORKED.slice(0, 0, 16), "not a whole part"),
        (lambda: WORKED.slice(0, 32, 64), "not a whole part"),
        (lambda: WORKED.slice(0, 200, 64), "outside a dimension of 256"),
        (lambda: WORKED.embed(parse("m: 4@y0")), "cannot be embedded"),
        (lambda: WORKED.expand(3, 2), "cannot insert"),
        (lambda: register_map(WORKED, ACCUMULATORS), "cannot be compared"),
        (lambda: register_map(parse("m: 4@lane"), parse("m: 4@y0")), "no common threads"),
        (lambda: broadcast_map(WORKED, WORKED, 0), "without dimension 0"),
        (lambda: WORKED.text(["m"]), "1 names for 2 dimensions"),
    ],
)
def test_refusals(act, words):
    with pytest.raises(ValueError, match=words):
        act()


def test_coordinates_cannot_be_changed():
    with pytest.raises(ValueError, match="read-only"):
        WORKED.coordinates()[0, 0, 0, 0] = 7
