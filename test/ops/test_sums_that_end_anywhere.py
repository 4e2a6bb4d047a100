"""Products whose K is not a multiple of a step, and lies across the rows of memory: a buffer that moves with the loop
ends with the matrix, so that no lane compares rows with its end.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from operator_runner import outcome

from ckmlir.compiler import compile_kernel
from ckmlir.ops import find_operator
from ckmlir.scheduling.machine_loop import steady_loop
from ckmlir.targets import get_target

BLOCK = (128, 128, 64)


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("chip", "name", "keys", "vector", "scalar"), [
    ("gfx942", "gemm", {"m": 4096, "n": 4096, "k": 1001, "layout": "CRR"}, 32, 15),
    pytest.param("gfx950", "gemm", {"m": 4096, "n": 4096, "k": 1001, "layout": "CRR"}, 0, 30, marks=pytest.mark.full),
    ("gfx942", "conv_bwd_weight", {"n": 21, "c": 128, "k": 128, "block": BLOCK}, 58, 14),
    pytest.param("gfx942", "conv_bwd_weight", {"n": 21, "c": 64, "k": 128, "block": BLOCK}, 56, 14,
                 marks=pytest.mark.full),
])  # fmt: skip
def test_rows_behind_the_end_are_not_compared(
    chip: str, name: str, keys: dict[str, Any], vector: int, scalar: int
) -> None:
    """For 32 matrix instructions so many of the vector unit, with those that transpose (gfx950 needs none), and no more
    of the scalar unit, in a kernel that keeps its registers.
    """
    operator, target = find_operator(name), get_target(chip)
    spec = operator.spec(operator.problem(**keys), target)
    assert "k" in spec.pad
    kernel = compile_kernel(operator, spec, target)
    found = kernel.code_object.kernel(kernel.kernel_name).metadata
    assert (found.vgpr_spill_count, found.sgpr_spill_count, found.private_segment_size) == (0, 0, 0)
    mix = steady_loop(kernel.code_object, kernel.kernel_name).mix
    assert 32 * mix["valu"] <= vector * mix["mfma"]
    assert 32 * mix["salu"] <= scalar * mix["mfma"]


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("chip", "keys"), [
    ("gfx942", {"m": 136, "n": 72, "k": 67, "layout": "CRR", "block": BLOCK}),
    ("gfx950", {"m": 33, "n": 35, "k": 130, "layout": "CRR"}),
    pytest.param("gfx90a", {"m": 40, "n": 64, "k": 1, "layout": "RRR"}, marks=pytest.mark.full),
    pytest.param("gfx90a", {"m": 1, "n": 1, "k": 9, "layout": "CRR", "dtype": "f32"}, marks=pytest.mark.full),
    pytest.param("gfx942", {"m": 64, "n": 48, "k": 200, "layout": "CCR", "dtype": "i8"}, marks=pytest.mark.full),
])  # fmt: skip
def test_what_lies_behind_the_last_row_is_not_met(chip: str, keys: dict[str, Any]) -> None:
    """The matrices of the next product of a batch lie there, under all checkers: with floats NaN."""
    operator = find_operator("batched_gemm")

    def spoiled(problem: Any, arrays: dict[str, Any]) -> dict[str, Any]:
        others = {name: np.array(arrays[name]) for name in ("a", "b")}
        for one in others.values():
            one[1] = 100 if one.dtype.kind == "i" else np.nan
        return {**arrays, **others}

    found = outcome(operator, chip, {**keys, "batch": 2}, prepared=spoiled)
    assert np.isfinite(found.outputs["c"][0].astype(np.float64)).all()
