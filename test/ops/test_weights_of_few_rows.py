"""Products of few rows with weights of 4 bits: blocks of few rows by the estimate, parts of K, and what it counts."""

from __future__ import annotations

from typing import Any

import pytest
from operator_runner import CHIPS, agree

from ckmlir.compiler import compile_kernel
from ckmlir.ops import find_operator
from ckmlir.ops.contraction.few_rows import ALONE
from ckmlir.ops.contraction.low_blocks import low_blocks, weight_bits
from ckmlir.ops.contraction.wishes import MOST_ROWS_OF_WEIGHTS
from ckmlir.targets import get_target

INT4 = find_operator("gemm_int4")


def _rows_of_block(chip: str, **keys: Any) -> int:
    found: int = INT4.spec(INT4.problem(**{"n": 4096, "k": 4096, **keys}), get_target(chip)).block[0]
    return found


@pytest.mark.parametrize("chip", CHIPS)
def test_few_rows_have_blocks_of_few_rows(chip: str) -> None:
    """But for more rows than are faster so, and elements that share bytes across K."""
    assert [_rows_of_block(chip, m=m) for m in (1, 16, MOST_ROWS_OF_WEIGHTS)] == [16, 16, 16]
    assert _rows_of_block(chip, m=MOST_ROWS_OF_WEIGHTS + 1) == _rows_of_block(chip, m=16, layout="RRR") == 64


def test_the_estimate_knows_what_weights_are_in_memory() -> None:
    """A quarter of the bytes, and what they become another type for."""
    target, lengths, block = get_target("gfx942"), (16, 4096, 4096), (16, 64, 128)
    sources = INT4.problem(m=16).sources
    plain, weights = (
        low_blocks(lengths, 1, block, ("f16", 16, 16), target, merged=False, weight_bits=bits)
        for bits in (0, weight_bits(sources))
    )
    assert (plain.row_bytes, plain.column_bytes, weights.row_bytes, weights.column_bytes) == (8192, 8192, 8192, 2048)
    assert (plain.converted, weights.converted) == (0, 64 * 128)
    assert weights.cycles("v4", 1, target) > plain.cycles("v4", 1, target)  # steps, not memory, decide
    assert weight_bits(find_operator("gemm_multi_abd").problem().sources) == 0


@pytest.mark.one_in(12)
@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("keys", [{}, {"dtype": "bf16", "zeros": 1, "scale": "f32", "b_scale": "1x32"}])
def test_nothing_is_spilled(chip: str, keys: dict[str, Any]) -> None:
    target = get_target(chip)
    for k in (4096, 4100):
        spec = INT4.spec(INT4.problem(m=16, n=4096, k=k, **keys), target)
        kernel = compile_kernel(INT4, spec, target)
        found = kernel.code_object.kernel(kernel.kernel_name).metadata
        assert (found.vgpr_spill_count, found.sgpr_spill_count, found.private_segment_size) == (0, 0, 0)


@pytest.mark.parametrize(("m", "n"), [(16, 2880), pytest.param(1, 64, marks=pytest.mark.full)])
def test_scales_of_steps_in_which_k_ends_are_not_kept_in_lanes(m: int, n: int) -> None:
    target, operator = get_target("gfx950"), find_operator("gemm_fp4")
    spec = operator.spec(operator.problem(m=m, n=n, k=2880, dtype="bf16"), target)
    kernel = compile_kernel(operator, spec, target)
    found = kernel.code_object.kernel(kernel.kernel_name).metadata
    assert (found.vgpr_spill_count, found.sgpr_spill_count, found.private_segment_size) == (0, 0, 0)
    whole = operator.spec(operator.problem(m=m, n=n, k=2816, dtype="bf16"), target)
    assert (spec.schedule != ALONE, whole.schedule) == (True, ALONE)


@pytest.mark.one_in(4)
@pytest.mark.parametrize(("name", "chip", "keys"), [
    ("gemm_int4", "gfx942", {"m": 16, "zeros": 1}),
    ("gemm_fp4", "gfx950", {"m": 1, "dtype": "bf16"}),
    ("gemm_int4", "gfx90a", {"m": 17, "k": 1030, "dtype": "bf16", "b_scale": "1x32"}),
])  # fmt: skip
def test_numbers(name: str, chip: str, keys: dict[str, Any]) -> None:
    agree(name, chip, **{"n": 200, "k": 1024, **keys})
