"""Products of f32, xf32 and f64: through their real code objects, against references of more digits.

A case names the chip first, so that `-k gfx950` selects.
"""

from __future__ import annotations

import itertools
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from operator_runner import CHIPS, agree

from ckmlir.compiler import compile_kernel
from ckmlir.ops import find_operator
from ckmlir.ops.comparison import compare
from ckmlir.ops.contraction.contraction_spec import LAYOUTS, OUTPUTS
from ckmlir.ops.request import RequestError
from ckmlir.runtime import open_device
from ckmlir.runtime.run import check_outputs, run_operator
from ckmlir.targets import get_target

GEMM = find_operator("gemm")
WIDE = ("f32", "xf32", "f64")
HAVE = [(chip, dtype) for chip, dtype in itertools.product(CHIPS, WIDE) if dtype != "xf32" or chip == "gfx942"]
SIZES = {"fits": (128, 128, 64), "one": (1, 1, 1), "primes": (131, 67, 71), "below": (63, 257, 33)}


def cases() -> list[Any]:
    """Every type on every chip, sizes, layouts and outputs in turn; all of them by `-m full`."""
    found: list[Any] = []
    every = [
        (chip, dtype, out, layout, size)
        for chip, dtype in HAVE
        for out, layout, size in itertools.product(OUTPUTS[dtype], LAYOUTS, SIZES)
    ]
    for number, case in enumerate(every):
        found.append(pytest.param(*case, marks=[] if number % 29 == 0 else [pytest.mark.full]))
    return found


@pytest.mark.one_in(6)
@pytest.mark.parametrize(("chip", "dtype", "out", "layout", "size"), cases())
def test_products(chip: str, dtype: str, out: str, layout: str, size: str) -> None:
    """C = A·B."""
    m, n, k = SIZES[size]
    agree("gemm", chip, m=m, n=n, k=k, dtype=dtype, out=out, layout=layout)


PARTS: tuple[tuple[str, str, str, dict[str, Any]], ...] = (
    ("gfx90a", "gemm", "f64", {"split_k": 3, "k": 200}),
    ("gfx942", "gemm", "f64", {"split_k": 3, "k": 200, "reduction": "atomic", "op": "acc * alpha"}),
    ("gfx950", "gemm", "f32", {"split_k": 3, "k": 200, "reduction": "atomic"}),
    ("gfx942", "gemm", "f64", {"op": "clamp(acc * d0, -3, 3) / alpha + d1", "d": "f64,i32", "alpha": 0.1}),
    ("gfx942", "gemm", "xf32", {"op": "gelu(acc + d0)", "d_kind": "row", "out": "f16"}),
    ("gfx942", "gemm", "f32", {"schedule": "preshuffle"}),
    ("gfx950", "gemm", "f64", {"schedule": "preshuffle", "mfma": "16x16x4"}),
    ("gfx950", "gemm_multi_d", "f64", {"d_kind": "column,scalar"}),
    ("gfx942", "gated_gemm", "f64", {"op": "relu(gate) * up", "split_k": 2}),
    ("gfx90a", "gated_gemm", "f32", {}),
    ("gfx950", "batched_gemm", "f64", {"batch": "2x3", "b_batch": 3, "op": "acc + d0", "d0_batch": 1}),
    ("gfx942", "batched_gemm", "xf32", {"batch": 2}),
)


@pytest.mark.one_in(12)
@pytest.mark.parametrize(
    ("chip", "name", "dtype", "keys", "checks"),
    [(*one, "all" if number % 6 == 0 else "") for number, one in enumerate(PARTS)],
)
def test_parts_of_the_family(chip: str, name: str, dtype: str, keys: dict[str, Any], checks: str) -> None:
    """Epilogues, parts of the sums, two accumulators, batches, B in fragment order; some under all checkers."""
    operator, target = find_operator(name), get_target(chip)
    problem = operator.problem(**{"m": 67, "n": 71, "k": 40, "dtype": dtype, **keys})
    arrays = operator.inputs(problem, target)
    result = run_operator(operator, problem, arrays, target, open_device("sim", target, checks=checks))
    comparisons = check_outputs(operator, problem, arrays, result.outputs, target)
    assert all(one.ok for one in comparisons), "; ".join(map(str, comparisons))


@pytest.mark.one_in(4)
@pytest.mark.parametrize(("chip", "dtype"), HAVE[::2])
def test_contractions(chip: str, dtype: str) -> None:
    """Tensors of several dimensions."""
    agree("batched_contraction", chip, g=2, m=(3, 5), n=7, k=(4, 6), dtype=dtype)


@pytest.mark.full
@pytest.mark.parametrize(("chip", "dtype"), HAVE)
def test_default_blocks_do_not_spill(chip: str, dtype: str) -> None:
    """The largest default block of each type, with and without an epilogue."""
    target = get_target(chip)
    for op in (None, "relu(acc + d0) * d1"):
        spec = GEMM.spec(GEMM.problem(m=4096, n=4096, k=512, dtype=dtype, op=op), target)
        kernel = compile_kernel(GEMM, spec, target)
        metadata = kernel.code_object.kernel(kernel.kernel_name).metadata
        assert (metadata.vgpr_spill_count, metadata.sgpr_spill_count, metadata.private_segment_size) == (0, 0, 0)


def test_the_reference_of_f64_has_more_digits() -> None:
    """Against fractions: nearly every element is the sum rounded once, which float64 alone does not give."""
    target = get_target("gfx942")
    problem = GEMM.problem(m=5, n=6, k=300, dtype="f64")
    arrays = GEMM.inputs(problem, target)
    a, b = arrays["a"].astype(np.float64), arrays["b"].astype(np.float64)
    a, b = a * (1 + 2.0**-40), b * (1 + 2.0**-41)
    found = GEMM.reference(problem, {"a": a, "b": b})["c"]
    exact = np.array([
        [float(sum(Fraction(x) * Fraction(y) for x, y in zip(row, column, strict=True))) for column in b] for row in a
    ])  # fmt: skip
    plain = a @ b.T
    assert np.count_nonzero(found != exact) < np.count_nonzero(plain != exact) / 4
    np.testing.assert_array_max_ulp(found, exact, 1)


@pytest.mark.parametrize(("dtype", "worse", "better"), [
    ("f64", np.float32, None), ("f32", np.float16, None), ("xf32", "bf16", "xf32"),
])  # fmt: skip
def test_tolerances_do_not_pass_narrower_products(dtype: str, worse: Any, better: Any) -> None:
    """What narrower inputs give is out of tolerance; inputs rounded to 10 bits are within that of xf32, not of f32."""
    target = get_target("gfx942")
    k = 4 if dtype == "xf32" else 64  # its bound takes all inputs to be rounded the same way, and far
    problem = GEMM.problem(m=64, n=64, k=k, dtype=dtype)
    values = np.random.default_rng(3)
    wide = np.float64 if dtype == "f64" else np.float32
    arrays = {name: values.standard_normal((64, k)).astype(wide) for name in ("a", "b")}
    reference = GEMM.reference(problem, arrays)
    tolerance = GEMM.tolerances(problem, arrays, reference, target)["c"]

    def rounded(kind: Any) -> Any:
        bits = {"bf16": 7, "xf32": 10}.get(kind)
        if bits is None:
            narrow = [arrays[name].astype(kind).astype(np.float64) for name in "ab"]
        else:
            parts = [np.frexp(arrays[name].astype(np.float64)) for name in "ab"]
            narrow = [np.ldexp(np.rint(part * 2 ** (bits + 1)), power - bits - 1) for part, power in parts]
        return (narrow[0] @ narrow[1].T).astype(wide)

    assert compare("c", reference["c"].astype(wide), reference["c"], tolerance).ok
    assert not compare("c", rounded(worse), reference["c"], tolerance).ok
    if better is not None:
        assert compare("c", rounded(better), reference["c"], tolerance).ok
        plain = GEMM.tolerances(GEMM.problem(m=64, n=64, k=k, dtype="f32"), arrays, reference, target)["c"]
        assert not compare("c", rounded(better), reference["c"], plain).ok


@pytest.mark.parametrize(("chip", "keys", "words"), [
    ("gfx90a", {"dtype": "xf32"}, "gfx90a has no xf32 MFMA"),
    ("gfx950", {"dtype": "xf32"}, "gfx950 has no xf32 MFMA"),
    ("gfx942", {"dtype": "f64", "out": "f16"}, "out=f16: dtype=f64 gives f64 or f32"),
    ("gfx942", {"dtype": "f64", "out": "f16", "op": "acc"}, "of dtype=f64 an expression is computed in f64"),
    ("gfx942", {"dtype": "f64", "op": "gelu(acc)"}, "gelu is computed in f32 only"),
    ("gfx942", {"dtype": "f64", "op": "sqrt(acc)"}, "sqrt is computed in f32 only"),
    ("gfx942", {"dtype": "f32", "op": "acc + d0", "d": "f64"}, "d0 is f64, and op of dtype=f32 is computed in f32"),
    ("gfx950", {"schedule": "ping_pong", "block": "64x128x16", "wave": "2x4"}, "a step has 1 matrix instruction"),
    ("gfx90a", {"dtype": "f64", "schedule": "async"}, "LDS take whole elements in 4; expected another"),
    ("gfx950", {"dtype": "f64", "schedule": "async", "k": 7, "n": 1}, "expected rows of a multiple of 16 bytes"),
    ("gfx942", {"dtype": "f64", "mfma": "32x32x8"}, "gfx942 has no 32x32x8 MFMA for f64 x f64; it has 16x16x4"),
    ("gfx90a", {"schedule": "async_late", "layout": "RRR", "block": "128x192x16", "wave": "1x2"},
     "rows of B have 384 bytes in the block, which a wave's copies to LDS do not fill; expected a schedule that loads"),
    ("gfx942", {"dtype": "fp8", "schedule": "async", "layout": "CRR", "block": "96x128x64", "wave": "1x4"},
     "rows of A have 96 bytes in the block, which a wave's copies to LDS do not fill"),
])  # fmt: skip
def test_requests_that_are_refused(chip: str, keys: dict[str, Any], words: str) -> None:
    """Each is one line that says what is wrong."""
    target = get_target(chip)
    with pytest.raises(RequestError, match=words):
        problem = GEMM.problem(**keys)
        reasons = GEMM.validate(GEMM.spec(problem, target), target)
        if reasons:
            raise RequestError(str(reasons[0]))


def test_infinities_times_what_xf32_rounds_to_zero() -> None:
    """Nothing is promised of them: NaN where a denormal vanishes. Larger denormals keep the infinity, and NaN whose
    mantissa would be rounded up stays one.
    """
    operator, target = find_operator("gemm"), get_target("gfx942")
    problem = operator.problem(m=8, n=4, k=1, dtype="xf32")
    arrays = operator.inputs(problem, target)
    arrays["a"][:, 0] = (np.inf, -np.inf, 1, 1, 1, 1, np.nan, 0)
    arrays["a"].view(np.uint32)[4:6, 0] = (0x7FFFFFFF, 0xFFFFFFFF)
    arrays["b"][:, 0] = (2.0**-149, 2.0**-138, 2.0**-130, 1)
    reference = operator.expected(problem, arrays, target)
    free = np.asarray(operator.tolerances(problem, arrays, reference, target)["c"].unspecified)
    wanted = np.zeros((8, 4), np.bool_)
    wanted[:2, :2] = True
    np.testing.assert_array_equal(free, wanted)
    found = run_operator(operator, problem, arrays, target, open_device("sim", target)).outputs["c"]
    assert np.isnan(found[:2, :2]).all() and np.isinf(found[:2, 2:]).all() and np.isnan(found[4:7]).all()
    assert all(one.ok for one in check_outputs(operator, problem, arrays, {"c": found}, target))
