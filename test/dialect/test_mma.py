"""Matrix instruction tiles: products computed from the distributions alone, checks that refuse, text."""

import numpy as np
import pytest

from ckmlir.dialect.distribution import Distribution
from ckmlir.dialect.distribution_maps import register_map
from ckmlir.dialect.mma import ELEMENT_BITS, Mma
from ckmlir.dialect.mma_index import index_over, index_registers
from ckmlir.dialect.operand_vectors import of_elements
from ckmlir.dialect.packing import PACKED
from ckmlir.targets import TargetError, all_targets, get_target
from ckmlir.targets.mfma import INSTRUCTIONS

SINGLE_BLOCK = [name for name, one in INSTRUCTIONS.items() if one.blocks == 1 and not one.sparse]
SPARSE = [name for name, one in INSTRUCTIONS.items() if one.sparse]


# (row of A, k of A, row of C, column of C) by lane and register, as AMD's matrix instruction calculator prints them
AMD_FORMULAS = {
    "f32.32x32x8f16": (
        lambda lane, r: (lane % 32, 4 * (lane // 32) + r),
        lambda lane, r: (8 * (r // 4) + 4 * (lane // 32) + r % 4, lane % 32),
    ),
    "f32.16x16x16f16": (
        lambda lane, r: (lane % 16, 4 * (lane // 16) + r),
        lambda lane, r: (4 * (lane // 16) + r, lane % 16),
    ),
    "f32.16x16x32.fp8.bf8": (
        lambda lane, r: (lane % 16, 8 * (lane // 16) + r),
        lambda lane, r: (4 * (lane // 16) + r, lane % 16),
    ),
    "f32.16x16x4f32": (lambda lane, r: (lane % 16, lane // 16), lambda lane, r: (4 * (lane // 16) + r, lane % 16)),
    "f64.16x16x4f64": (lambda lane, r: (lane % 16, lane // 16), lambda lane, r: (4 * r + lane // 16, lane % 16)),
    "f64.4x4x4f64": (
        lambda lane, r: (lane // 4 % 4, lane % 4, lane // 16),
        lambda lane, r: (lane // 4 % 4, lane // 16, lane % 4),
    ),
    "f32.4x4x4f16": (lambda lane, r: (lane // 4, lane % 4, r), lambda lane, r: (lane // 4, r, lane % 4)),
    "f32.32x32x4f16": (
        lambda lane, r: (lane // 32, lane % 32, r),
        lambda lane, r: (r // 16, 8 * (r // 4 % 4) + 4 * (lane // 32) + r % 4, lane % 32),
    ),
    "f32.16x16x4f16": (
        lambda lane, r: (lane // 16, lane % 16, r),
        lambda lane, r: (r // 4, 4 * (lane // 16) + r % 4, lane % 16),
    ),
    "f32.16x16x128.f8f6f4.fp8.fp8": (
        lambda lane, r: (lane % 16, 64 * (r // 16) + 16 * (lane // 16) + r % 16),
        lambda lane, r: (4 * (lane // 16) + r, lane % 16),
    ),
    "f32.32x32x64.f8f6f4.fp4.fp4": (
        lambda lane, r: (lane % 32, 32 * (lane // 32) + r),
        lambda lane, r: (8 * (r // 4) + 4 * (lane // 32) + r % 4, lane % 32),
    ),
}


@pytest.mark.parametrize("name", AMD_FORMULAS)
def test_native_layouts_follow_the_published_formulas(name):
    instruction, (a, c) = INSTRUCTIONS[name], AMD_FORMULAS[name]
    for layout, formula in ((instruction.a_layout, a), (instruction.b_layout, a), (instruction.c_layout, c)):
        coordinates = Distribution.parse(layout).coordinates()[:, 0]
        for lane in range(64):
            for register in range(coordinates.shape[-1]):
                assert tuple(coordinates[:, lane, register]) == formula(lane, register)


def instruction_product(instruction, a, b, c):
    """What one instruction does to per-lane operands [lane, register]: the definition, from the native layouts."""
    a_at, b_at, c_at = (
        Distribution.parse(layout).coordinates()[:, 0]
        for layout in (instruction.a_layout, instruction.b_layout, instruction.c_layout)
    )
    left = np.zeros((instruction.m, instruction.k), np.int64)
    right = np.zeros((instruction.n, instruction.k), np.int64)
    left[tuple(a_at)] = a
    right[tuple(b_at)] = b
    return c + (left @ right.T)[tuple(c_at)]


def tile_product(mma, a, b, c, left, right):
    """left @ right.T by the instructions that `fragments` lists, each wave from its own registers."""
    types = mma.a_dtype, mma.b_dtype
    lies = [of_elements(tile, dtype) for tile, dtype in zip((a, b), types, strict=True)]
    held = [matrix[tuple(tile.coordinates())] for tile, matrix in zip(lies, (left, right), strict=True)]
    accumulators = np.zeros((c.waves, c.lanes, c.registers), np.int64)
    for fragment in mma.fragments(a, b, c):
        registers = [_elements(*pair) for pair in zip((fragment.a, fragment.b), types, strict=True)]
        operands = held[0][:, :, registers[0]], held[1][:, :, registers[1]]
        first, second = operands[::-1] if mma.transposed else operands
        registers = list(fragment.c)
        for wave in range(c.waves):
            accumulators[wave][:, registers] = instruction_product(
                mma.instruction, first[wave], second[wave], accumulators[wave][:, registers]
            )
    result = np.full(c.lengths, -1, np.int64)
    result[tuple(c.coordinates())] = accumulators
    return result


def _elements(registers, dtype):
    """Of an operand vector, which is one of bytes where elements share them."""
    if dtype not in PACKED:
        return list(registers)
    count = PACKED[dtype].count
    return list(range(count(registers[0]), count(registers[-1] + 1)))


def check_product(mma, a, b, c):
    assert mma.check(a, b, c) == []
    rng = np.random.default_rng(0)
    lengths = of_elements(a, mma.a_dtype).lengths, of_elements(b, mma.b_dtype).lengths
    left, right = (rng.integers(-8, 8, length) for length in lengths)
    assert (tile_product(mma, a, b, c, left, right) == left @ right.T).all()


@pytest.mark.parametrize("name", SINGLE_BLOCK)
@pytest.mark.parametrize("transposed", [False, True])
def test_every_instruction_multiplies(name, transposed):
    mma = Mma(INSTRUCTIONS[name], transposed=transposed)
    waves, m, n, k = (1, 2), mma.m, 4 * mma.n, 2 * mma.k
    check_product(mma, mma.a_over(waves, m, k), mma.b_over(waves, n, k), mma.c_over(waves, m, n))


@pytest.mark.one_in(4)
@pytest.mark.parametrize("name", SPARSE)
@pytest.mark.parametrize("pack", [1, 2, 4])
def test_a_sparse_operand_meets_its_fours(name, pack):
    """Every instruction's vectors of A are of the same elements along K as those of B that it takes, and the bytes of
    the index lie beside A's elements."""
    mma = Mma(INSTRUCTIONS[name], pack)
    waves, m, n, k = (1, 2), 2 * mma.m, 4 * mma.n, 2 * mma.k
    a, b, c = mma.a_over(waves, m, k), mma.b_over(waves, n, k), mma.c_over(waves, m, n)
    index = index_over(mma, waves, m, k)
    assert (a.lengths, b.lengths, index.lengths) == ((m, k // 2), (n, k), (m, k // 8))
    assert mma.check(a, b, c) == [] and Mma.parse(str(mma)) == mma
    of_lanes = [one.coordinates()[:, 0] for one in (a, b, index)]
    bytes_of = index_registers(mma, a, index)
    layouts = mma.instruction.a_layout, mma.instruction.b_layout
    native_a, native_b = (Distribution.parse(layout).coordinates()[1, 0] for layout in layouts)
    for step in mma.fragments(a, b, c):
        kept, dense = of_lanes[0][1][:, step.a], of_lanes[1][1][:, step.b]
        at = {int(place): int(of) for place, of in zip(native_b.ravel(), dense.ravel(), strict=True)}
        for place, of in zip(native_a.ravel(), kept.ravel(), strict=True):
            assert [at[place // 2 * 4 + one] for one in range(4)] == [of // 2 * 4 + one for one in range(4)]
        own = bytes_of[step.a[0] // mma.instruction.a_per_lane]
        assert (of_lanes[2][1][:, own] * 4 == kept[:, ::4]).all()
        assert (of_lanes[2][0][:, own] == of_lanes[0][0][:, step.a[::4]]).all()


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("pack, chunk", [(1, 0), (2, 0), (2, 4), (4, 4), (4, 2), (1, 1)])
@pytest.mark.parametrize("waves", [(1, 1), (2, 2), (4, 1)])
def test_numberings_of_k_multiply(transposed, pack, chunk, waves):
    mma = Mma(INSTRUCTIONS["f32.16x16x16f16"], pack, chunk, transposed)
    m, n, k = waves[0] * 32, waves[1] * 32, 2 * mma.k
    check_product(mma, mma.a_over(waves, m, k), mma.b_over(waves, n, k), mma.c_over(waves, m, n))


@pytest.mark.parametrize("target", all_targets(), ids=str)
@pytest.mark.parametrize("dtype", ["f16", "bf16", "f32", "fp8", "bf8", "i8", "f64"])
def test_selection_fills_16_bytes(target, dtype):
    for instruction in target.mfmas(dtype):
        mma = Mma.select(target, instruction.shape, dtype, block_k=8 * instruction.k)
        held = mma.k_pack * instruction.k_per_lane * ELEMENT_BITS[dtype]
        assert held == 128 or (held == 256 and mma.k_pack == 1)
        along = mma.a_over((2, 2), 4 * mma.m, mma.k).coordinates()[1].reshape(4, 64, -1, 128 // ELEMENT_BITS[dtype])
        assert (np.diff(along, axis=-1) == 1).all()


def test_selection_fits_the_tile():
    target = get_target("gfx942")
    assert Mma.select(target, "32x32x8", "f16", block_k=64).k_pack == 2
    assert Mma.select(target, "32x32x8", "f16", block_k=8).k_pack == 1
    mixed = Mma.select(target, "16x16x32", "fp8", "bf8", block_k=64, transposed=True)
    assert (mixed.instruction.name, mixed.a_dtype, mixed.b_dtype) == ("f32.16x16x32.bf8.fp8", "fp8", "bf8")


def test_documented_layouts():
    """The order of registers that kernels rely on: rows, then K, then the operand vector."""
    mma = Mma(INSTRUCTIONS["f32.32x32x8f16"], 2)
    assert str(mma.a_over((2, 2), 128, 64)) == "r: 2@wave.1, d0: 2@y0 2@wave.0 32@lane.1, d1: 4@y1 2@lane.0 8@y2"
    assert str(mma.b_over((2, 2), 128, 64)) == "r: 2@wave, d0: 2@y0 2@wave 32@lane.1, d1: 4@y1 2@lane.0 8@y2"
    assert str(mma.c_over((2, 2), 128, 128)) == "d0: 2@y0 2@wave 4@y2 2@lane 4@y3, d1: 2@y1 2@wave 32@lane"
    fragments = mma.fragments(mma.a_over((2, 2), 128, 64), mma.b_over((2, 2), 128, 64), mma.c_over((2, 2), 128, 128))
    assert len(fragments) == 2 * 2 * 8
    assert fragments[0][3:] == (tuple(range(4)), tuple(range(4)), tuple(range(16)))
    assert fragments[1][:4] == (0, 0, 1, (4, 5, 6, 7))
    last = fragments[-1]
    assert (last.m, last.n, last.k, last.a[0], last.b[0], last.c[0]) == (1, 1, 7, 60, 60, 48)


def test_transposed_accumulators_are_neighbouring_columns():
    mma = Mma(INSTRUCTIONS["f32.32x32x8f16"], transposed=True)
    m, n = mma.c_over((1, 1), 32, 32).coordinates()[:, 0].reshape(2, 64, 4, 4)
    assert (np.diff(n, axis=-1) == 1).all() and (np.diff(m, axis=-1) == 0).all()


@pytest.mark.parametrize("shape, chip", [("32x32x8", "gfx942"), ("16x16x16", "gfx90a"), ("32x32x16", "gfx950")])
def test_scores_become_probabilities_in_place(shape, chip):
    """Attention: S^T accumulators are the A operand of P V in the same lanes, with K numbered in chunks of 4."""
    target = get_target(chip)
    scores = Mma.select(target, shape, "f16", block_k=128, transposed=True)
    values = Mma(scores.instruction, 1, 4, transposed=True)
    probabilities = values.a_over((4, 1), 128, 64)
    assert register_map(scores.c_over((4, 1), 128, 64), probabilities) == tuple(range(probabilities.registers))
    check_product(values, probabilities, values.b_over((4, 1), 64, 64), values.c_over((4, 1), 128, 64))


RUNS = [("32x32x8", "f16", "gfx942", 8), ("32x32x16", "fp8", "gfx942", 16), ("32x32x16", "bf16", "gfx950", 8),
        ("32x32x64", "fp8", "gfx950", 16), ("32x32x2", "f32", "gfx90a", 4)]  # fmt: skip


@pytest.mark.parametrize("shape, dtype, chip, run", RUNS)
def test_scores_in_runs_are_operand_vectors_in_place(shape, dtype, chip, run):
    """With as many neighbouring keys in a lane as a vector of V holds, V is read in whole vectors."""
    target = get_target(chip)
    scores = Mma.select(target, shape, dtype, block_k=128, transposed=True).with_run(run)
    values = Mma.select(target, shape, dtype, block_k=64, transposed=True)
    probabilities = values.a_over((4, 1), 128, 64)
    assert register_map(scores.c_over((4, 1), 128, 64), probabilities) == tuple(range(probabilities.registers))


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("shape, dtype, chip, run", [*RUNS, ("32x32x8", "f16", "gfx90a", 16)])
@pytest.mark.parametrize("waves", [(1, 1), (2, 2)])
def test_rows_in_runs_multiply(shape, dtype, chip, run, transposed, waves):
    mma = Mma.select(get_target(chip), shape, dtype, block_k=64, transposed=transposed).with_run(run)
    assert Mma.parse(str(mma)) == mma and ("run" in str(mma)) == (run > 4)
    check_product(mma, mma.a_over(waves, 64, 64), mma.b_over(waves, 128, 64), mma.c_over(waves, 64, 128))
    lane = mma.c_over((1, 1), 32, 32).coordinates()[int(transposed), 0].reshape(64, -1, run)
    assert (np.diff(lane, axis=-1) == 1).all()


@pytest.mark.parametrize(
    "name, run", [("f32.16x16x16f16", 8), ("f32.32x32x8f16", 6), ("f32.32x32x8f16", 32), (SPARSE[0], 8)]
)
def test_runs_that_no_lane_has_are_refused(name, run):
    with pytest.raises(ValueError, match=f"run {run} of "):
        Mma(INSTRUCTIONS[name]).with_run(run)


@pytest.mark.parametrize("name, pack", [("f32.16x16x16f16", 2), ("f32.16x16x128.f8f6f4.fp4.fp4", 1)])
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("waves, parts", [((1, 1), 4), ((1, 2), 2)])
def test_parts_of_k_have_rows_of_their_own(name, pack, transposed, waves, parts):
    """Each wave sums its part of K; those of all parts lie one below the other."""
    mma = Mma(INSTRUCTIONS[name], pack, transposed=transposed, parts=parts)
    assert Mma.parse(str(mma)) == mma and f"parts={parts}" in str(mma)
    m, n, k = 32 * waves[0], 32 * waves[1], 2 * parts * mma.k
    a, b, c = mma.a_over(waves, m, k), mma.b_over(waves, n, k), mma.c_over(waves, m, n)
    assert c.lengths == (parts * m, n) and c.waves == parts * waves[0] * waves[1]
    assert mma.check(a, b, c) == []
    rng = np.random.default_rng(0)
    lengths = of_elements(a, mma.a_dtype).lengths, of_elements(b, mma.b_dtype).lengths
    left, right = (rng.integers(-8, 8, length) for length in lengths)
    pairs = zip(*(np.split(one, parts, axis=1) for one in (left, right)), strict=True)
    assert (tile_product(mma, a, b, c, left, right) == np.concatenate([one @ other.T for one, other in pairs])).all()


def test_other_orders_of_registers_are_found_by_evaluation():
    """Iterations may come in any order, as long as operand vectors stay whole."""
    mma = Mma(INSTRUCTIONS["f32.16x16x16f16"], 2)
    a, b, c = mma.a_over((2, 1), 64, 64), mma.b_over((2, 1), 32, 64), mma.c_over((2, 1), 64, 32)
    check_product(mma, a.with_register_order((1, 0, 2)), b, c.with_register_order((1, 0, 2)))


def test_any_common_permutation_of_k_is_legal():
    mma = Mma(INSTRUCTIONS["f32.16x16x16f16"])
    operand = Distribution.parse("d0: 16@lane.1, k: 2@y1 4@lane.0 2@y0 2@y2")
    check_product(mma, operand, operand, mma.c_over((1, 1), 16, 16))


MMA = Mma(INSTRUCTIONS["f32.32x32x8f16"], 2)
A, B, C = MMA.a_over((2, 2), 64, 32), MMA.b_over((2, 2), 64, 32), MMA.c_over((2, 2), 64, 64)

SPLIT_K = Distribution.parse("m: 32@lane.1, k: 4@wave 2@lane.0 8@y0")  # each wave has a quarter of K


@pytest.mark.parametrize(
    "a, b, c, words",
    [
        (A, MMA.b_over((2, 2), 64, 64), C, "differ in k"),
        (A, B, MMA.c_over((2, 2), 64, 128), "A and B make"),
        (A, B, C.permute((1, 0)), "does not lie as the instruction writes it"),
        (Mma(MMA.instruction).a_over((2, 2), 64, 32), B, C, "number K differently"),
        (A, MMA.b_over((1, 4), 128, 32), MMA.c_over((2, 2), 64, 128), "has no columns"),
        (MMA.a_over((4, 1), 128, 32), B, MMA.c_over((2, 2), 128, 64), "has no rows"),
        (MMA.a_over((1, 2), 64, 32), B, C, "waves x lanes"),
        (
            Distribution.parse("r: 2@wave, m: 2@wave 32@lane.0, k: 2@lane.1 16@y0").permute((0, 1)),
            B,
            C,
            "gives lanes other",
        ),
        (Distribution.parse("m: 64@lane"), B, C, "two dimensions each"),
        (Distribution.parse("r: 4@wave 32@lane.1, m: 64@y1, k: 16@y0 2@lane.0"), B, C, "gives lanes other rows"),
        (A, B, Distribution.parse("r: 4@wave, m: 64@lane, n: 64@y0"), "does not lie"),
        (SPLIT_K, SPLIT_K, Distribution.parse("r: 4@wave, m: 4@y0 2@lane 4@y1, n: 32@lane"), "not summed exactly once"),
    ],
)
def test_check_says_what_is_wrong(a, b, c, words):
    problems = MMA.check(a, b, c)
    assert any(words in problem for problem in problems), problems
    with pytest.raises(ValueError, match=words):
        MMA.fragments(a, b, c)


def test_parts_need_rows_for_each():
    parts = Mma(MMA.instruction, 2, parts=2)
    a, b, c = parts.a_over((1, 1), 32, 64), parts.b_over((1, 1), 32, 64), parts.c_over((1, 1), 32, 32)
    whole = Mma(MMA.instruction, 2)
    assert "A and B make [64, 32]" in parts.check(a, b, whole.c_over((1, 2), 32, 64))[0]
    assert parts.check(whole.a_over((1, 2), 32, 64), whole.b_over((1, 2), 64, 64), c)  # a wave has all of K


def test_mixed_widths_keep_their_own_order_of_k():
    mixed = Mma(INSTRUCTIONS["f32.16x16x128.f8f6f4.fp8.fp4"])
    assert str(mixed.a) == "d0: 16@lane.1, d1: 2@y0 4@lane.0 16@y1"
    assert str(mixed.b) == "d0: 16@lane.1, d1: 4@lane.0 16@y0"  # bytes, of two elements each
    swapped = Distribution.parse("d0: 16@lane.1, d1: 4@lane.0 32@y0")
    own = mixed.b_over((1, 1), 16, 128)
    assert "number K differently" in mixed.check(swapped, own, mixed.c_over((1, 1), 16, 16))[0]
    assert "they differ in k" in mixed.check(own, own, mixed.c_over((1, 1), 16, 16))[0]


@pytest.mark.parametrize("name", ["f32.32x32x8f16", "f32.16x16x128.f8f6f4.fp8.fp8", "f64.16x16x4f64"])
@pytest.mark.parametrize("pack, chunk, transposed", [(1, 0, False), (1, 1, True), (2, 0, True), (2, 2, False)])
def test_text_round_trips(name, pack, chunk, transposed):
    if INSTRUCTIONS[name].scaled and pack > 1:
        return
    if pack * INSTRUCTIONS[name].k_per_lane % max(chunk, 1):
        return
    mma = Mma(INSTRUCTIONS[name], pack, chunk, transposed)
    assert Mma.parse(str(mma)) == mma and str(Mma.parse(str(mma))) == str(mma)


def test_native_chunk_is_the_default():
    assert Mma(INSTRUCTIONS["f32.32x32x8f16"], 2, 8) == Mma(INSTRUCTIONS["f32.32x32x8f16"], 2)
    assert str(Mma(INSTRUCTIONS["f32.32x32x8f16"], 2, 4, True)) == "f32.32x32x8f16 k_pack=2 k_chunk=4 transposed"


@pytest.mark.parametrize(
    "act, error, words",
    [
        (lambda: Mma(INSTRUCTIONS["f32.4x4x4f16"]), ValueError, "16 blocks"),
        (lambda: Mma(MMA.instruction, 0), ValueError, "k_pack 0"),
        (lambda: Mma(MMA.instruction, 2, 3), ValueError, "k_chunk 3 does not divide the 8"),
        (lambda: Mma(INSTRUCTIONS["f32.16x16x128.f8f6f4.fp8.fp8"], 2), ValueError, "k_pack must be 1"),
        (lambda: Mma(INSTRUCTIONS["f32.16x16x128.f8f6f4.fp8.fp4"], 1, 8), ValueError, "k_chunk cannot be chosen"),
        (lambda: MMA.a_over((2, 2), 96, 32), ValueError, r"m = 96 is not a multiple of 64 \(2 waves of 32\)"),
        (lambda: MMA.b_over((2, 2), 64, 24), ValueError, r"k = 24 is not a multiple of 16"),
        (lambda: MMA.c_over((2, 2), 64, 0), ValueError, "n = 0"),
        (lambda: Mma(MMA.instruction, parts=4).a_over((1, 1), 32, 48), ValueError, r"k = 48 .* 32 \(4 waves of 8\)"),
        (lambda: Mma(INSTRUCTIONS[SPARSE[0]], parts=2), ValueError, "2 parts of K"),
        (lambda: Mma(MMA.instruction, parts=0), ValueError, "0 parts of K"),
        (lambda: Mma.select(get_target("gfx90a"), "32x32x16", "fp8"), TargetError, "gfx90a has no fp8 MFMA"),
        (lambda: Mma.select(get_target("gfx942"), "32x32x8", "f16", block_k=20), ValueError, "20 deep"),
        (lambda: Mma.parse("f32.32x32x9f16"), ValueError, "no matrix instruction"),
        (lambda: Mma.parse("f32.32x32x8f16 pack=2"), ValueError, "is not 'instruction"),
    ],
)
def test_refusals(act, error, words):
    with pytest.raises(error, match=words):
        act()
