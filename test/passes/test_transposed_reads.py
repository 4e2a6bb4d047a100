"""Transposing LDS reads deliver every element where the distribution wants it, by a model of the instruction."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from ckmlir.dialect.distribution import Distribution
from ckmlir.dialect.mma import Mma
from ckmlir.dialect.packed_tiles import bytes_along, elements_along
from ckmlir.dialect.packing import PACKED
from ckmlir.passes.accesses import plan_accesses
from ckmlir.passes.transposed_reads import packed_reading, transposed_dimension, transposed_reading
from ckmlir.targets import get_target
from ckmlir.targets.features import TRANSPOSED


def delivered(reading: Distribution, contiguous: int, count: int = 4) -> np.ndarray:
    """[wave, lane, register]: the element that each register holds after all transposing reads, lane by lane."""
    elements = reading.elements()
    found = np.full(elements.shape, -1)
    for registers in plan_accesses(reading, contiguous, count):
        assert len(registers) == count
        for wave in range(reading.waves):
            for lane in range(64):
                group, i = lane // 16 * 16, lane % 16
                for j in range(count):
                    # row j comes from 16 / count lanes of the group, `count` columns from each
                    source = group + 16 // count * j + i // count
                    found[wave, lane, registers[j]] = elements[wave, source, registers[i % count]]
    return found


def check_reading(wanted: Distribution, contiguous: int, count: int = 4) -> None:
    reading = transposed_reading(wanted, contiguous, count)
    assert reading is not None
    assert reading.lengths == wanted.lengths
    np.testing.assert_array_equal(delivered(reading, contiguous, count), wanted.elements())


@pytest.mark.parametrize("shape", ["32x32x16", "16x16x32", "32x32x8", "16x16x16"])
@pytest.mark.parametrize("chunk", [0, 4])
@pytest.mark.parametrize("transposed", [False, True])
def test_operands_of_matrix_instructions(shape: str, chunk: int, transposed: bool) -> None:
    """Every operand tile of f16 can be read from rows along M or N, over several waves too."""
    mma = Mma.select(get_target("gfx950"), shape, "f16", block_k=64, transposed=transposed).with_k_chunk(chunk)
    for wanted in (mma.a, mma.b, mma.a_over((2, 2), 128, 64), mma.b_over((1, 4), 128, 64)):
        check_reading(wanted, 0)
        assert transposed_dimension(wanted, 0, 4) == 1


@pytest.mark.parametrize("shape", ["32x32x16", "32x32x8"])
@pytest.mark.parametrize("run", [8, 16])
def test_rows_in_runs(shape: str, run: int) -> None:
    """So can those whose rows are numbered in runs, where 16 lanes have neither neighbours nor one digit."""
    mma = Mma.select(get_target("gfx950"), shape, "f16", block_k=64, transposed=True).with_run(run)
    for wanted in (mma.b, mma.b_over((1, 4), 128, 64)):
        check_reading(wanted, 0)
        assert transposed_dimension(wanted, 0, 4) == 1


@pytest.mark.parametrize("shape", ["32x32x64", "16x16x128", "32x32x16", "16x16x32"])
@pytest.mark.parametrize("chunk", [0, 4])
@pytest.mark.parametrize("dtype", ["fp8", "i8"])
def test_operands_of_bytes(shape: str, chunk: int, dtype: str) -> None:
    """Lanes get eight, of which four may lie apart from four others along K."""
    if dtype == "i8":
        shape = {"32x32x64": "32x32x32", "16x16x128": "16x16x64"}.get(shape, shape)
    mma = Mma.select(get_target("gfx950"), shape, dtype, block_k=256).with_k_chunk(chunk)
    for wanted in (mma.a_over((2, 2), 128, 256), mma.b_over((1, 4), 128, 256)):
        check_reading(wanted, 0, 8)
        assert transposed_dimension(wanted, 0, 8) == 1


def test_bytes_of_rows_in_runs_are_not_read_so() -> None:
    """Eight neighbouring lanes have to have neighbouring rows, since a lane reads eight."""
    mma = Mma.select(get_target("gfx950"), "32x32x64", "fp8", block_k=64, transposed=True).with_run(8)
    assert transposed_reading(mma.b, 0, 8) is None


@pytest.mark.parametrize("text", [
    "d0: 16@lane.1, d1: 4@y0 4@lane.0", "d0: 16@lane.1, d1: 2@y0 4@lane.0 2@y1",
    "d0: 32@lane.1, d1: 2@y0 2@lane.0 4@y1",
])  # fmt: skip
def test_registers_may_lie_apart(text: str) -> None:
    """Of the dimension that is not contiguous a lane may read any index."""
    wanted = Distribution.parse(text)
    check_reading(wanted, 0, wanted.registers)


@pytest.mark.parametrize("shape", ["32x32x64", "16x16x128"])
@pytest.mark.parametrize("spread", [1, 2])
def test_operands_of_four_bits(shape: str, spread: int) -> None:
    """Lanes read bytes that elements share along M or N, and get bytes that they share along K."""
    packing = PACKED["fp4"]
    mma = replace(Mma.select(get_target("gfx950"), shape, "fp4", "fp4", block_k=256), spread=spread)
    for bytes_ in (mma.a_over((2, 2), 128, 256), mma.b_over((1, 4), 128, 256)):
        reading = packed_reading(bytes_, packing, 0, 1)
        assert reading is not None and reading.lengths == (64, 256)
        elements, wanted = elements_along(reading, packing, 0), elements_along(bytes_, packing, 1)
        assert bytes_along(elements, packing, 0) == reading
        np.testing.assert_array_equal(delivered(elements, 0, 16), wanted.elements())
    assert packed_reading(bytes_, packing, 1, 0) is None


def test_vectors_along_the_rows_need_none() -> None:
    """What lanes hold along the contiguous dimension is not read transposed."""
    assert transposed_reading(Mma.select(get_target("gfx950"), "32x32x16", "f16").a, 1, 4) is None


@pytest.mark.parametrize("text", [
    "d0: 8@lane.1, d1: 8@lane.0 4@y0",  # 8 neighbouring lanes
    "d0: 16@lane.0, d1: 4@lane.1 4@y0",  # lanes 4 apart
    "d0: 16@lane.1, d1: 4@lane.0 2@y0",  # 2 registers
    "d0: 16@lane.1 2@y1, d1: 4@lane.0 4@y0",  # neighbours in registers, not lanes
])  # fmt: skip
def test_what_does_not_fit(text: str) -> None:
    assert transposed_reading(Distribution.parse(text), 0, 4) is None


@st.composite
def distributions(draw: st.DrawFn) -> tuple[Distribution, int]:
    """Tiles of two or three dimensions with 64 lanes; some fit."""
    rank = draw(st.integers(2, 3))
    dims: list[list[str]] = [[] for _ in range(rank)]
    lanes = st.permutations([16, 4]) | st.just([4, 16]) | st.just([2, 32]) | st.permutations([4, 2, 2, 4])
    for rank_of_lane, length in enumerate(draw(lanes)):
        row = dims[draw(st.integers(0, rank - 1))]
        row.insert(draw(st.integers(0, len(row))), f"{length}@lane.{rank_of_lane}")
    for register in range(draw(st.integers(1, 3))):
        row = dims[draw(st.integers(0, rank - 1))]
        row.insert(draw(st.integers(0, len(row))), f"{draw(st.sampled_from([2, 4, 8]))}@y{register}")
    text = ", ".join(f"d{i}: {' '.join(row) or '1'}" for i, row in enumerate(dims))
    return Distribution.parse(text), draw(st.integers(0, rank - 1))


@settings(max_examples=150)
@given(distributions())
def test_any_reading_found_is_right(case: tuple[Distribution, int]) -> None:
    wanted, contiguous = case
    for count in TRANSPOSED.values():
        if transposed_reading(wanted, contiguous, count) is not None:
            check_reading(wanted, contiguous, count)
