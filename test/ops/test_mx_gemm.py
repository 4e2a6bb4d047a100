"""Products with powers of two as scales: by the matrix instruction where the chip has it, by scaled sums elsewhere."""

from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest
from checked_runs import compiled
from operator_runner import agree

from ckmlir.ops import find_operator
from ckmlir.ops.request import RequestError
from ckmlir.runtime import open_device
from ckmlir.runtime.run import check_outputs, run_operator
from ckmlir.targets import get_target

MX = find_operator("mx_gemm")
RAGGED = {"m": 70, "n": 130, "k": 300}
CASES: list[tuple[str, dict[str, Any]]] = [
    ("gfx950", {"out": "f32"}),
    ("gfx950", {"dtype": "bf8", "a_major": "rows", "b_major": "rows", "mfma": "16x16x128", "ld_scale_a": 80}),
    ("gfx950", {"mfma": "16x16x32", "out": "f16"}),
    ("gfx942", {"schedule": "compv4", "op": "relu(acc) + d0", "d_kind": "row"}),
    ("gfx950", {"shuffled": 32, "schedule": "preshuffle", "k": 70}),
    ("gfx950", {"k": 0}),
    ("gfx942", {"m": 1, "n": 1, "k": 1}),
]


@pytest.mark.parametrize(("chip", "keys"), CASES)
def test_products(chip: str, keys: dict[str, Any]) -> None:
    agree("mx_gemm", chip, **{**RAGGED, **keys})


def run(chip: str, arrays: dict[str, npt.NDArray[Any]], **keys: Any) -> npt.NDArray[Any]:
    """What a product comes to, compared with the reference."""
    target = get_target(chip)
    problem = MX.problem(**keys)
    whole = {**MX.inputs(problem, target, seed=3), **arrays}
    result = run_operator(MX, problem, whole, target, open_device("sim", target))
    assert all(one.ok for one in check_outputs(MX, problem, whole, result.outputs, target))
    found: npt.NDArray[Any] = result.outputs["c"].astype(np.float64)
    return found


@pytest.mark.parametrize("chip", ["gfx950", "gfx942"])
def test_every_code_of_a_scale(chip: str) -> None:
    """2^-127, a denormal, to 2^127, and NaN: a row each, against numbers that bring them back into range."""
    target = get_target(chip)
    codes = np.arange(256, dtype=np.uint8)
    other = np.full((16, 1), 127, np.uint8)
    keys = {"m": 256, "n": 16, "k": 1, "out": "f32"}
    ones = {name: np.ones((rows, 1), MX.inputs(MX.problem(**keys), target)[name].dtype) for name, rows in
            (("a", 256), ("b", 16))}  # fmt: skip
    scales = {"scale_a": codes.reshape(256, 1), "scale_b": other}
    found = run(chip, {**ones, **{name: one.view(ml_dtypes.float8_e8m0fnu) for name, one in scales.items()}}, **keys)
    normal = slice(1, 255)
    np.testing.assert_array_equal(found[normal, 0], np.ldexp(1.0, np.arange(1, 255) - 127))
    assert found[0, 0] in (0.0, 2.0**-127) and np.isnan(found[255]).all()


def test_the_instruction_scales() -> None:
    """On gfx950 no other arithmetic does; elsewhere, and where it is asked for, sums are scaled."""
    keys = (("m", 256), ("n", 256), ("k", 512))
    scaled = {one.mnemonic for one in compiled("mx_gemm", keys, "gfx950").instructions}
    assert "v_mfma_scale_f32_32x32x64_f8f6f4" in scaled and "v_pk_fma_f32" not in scaled
    asked = {one.mnemonic for one in compiled("mx_gemm", (*keys, ("mfma", (16, 16, 32))), "gfx950").instructions}
    sums = {one.mnemonic for one in compiled("mx_gemm", keys, "gfx942").instructions}
    assert "v_pk_fma_f32" in asked & sums
    metadata = compiled("mx_gemm", keys, "gfx950").kernel.code_object.kernel().metadata
    assert (metadata.vgpr_spill_count, metadata.sgpr_spill_count) == (0, 0)


def test_what_is_refused() -> None:
    with pytest.raises(RequestError, match=r"dtype=i8: expected fp8\|bf8"):
        MX.problem(dtype="i8")
    reasons = MX.validate(MX.spec(MX.problem(), get_target("gfx90a")), get_target("gfx90a"))
    assert "gfx90a has no fp8 MFMA" in str(reasons[0])
