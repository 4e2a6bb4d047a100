"""gemm: the reference against sums written out, the tolerance, specifications and what is refused."""

from __future__ import annotations

import itertools
import re

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ckmlir.ops import find_operator
from ckmlir.ops.comparison import compare
from ckmlir.ops.contraction.contraction_spec import LAYOUTS, OUTPUTS, ContractionSpec
from ckmlir.ops.request import RequestError
from ckmlir.records import replace
from ckmlir.targets import all_targets, get_target

GEMM = find_operator("gemm")
GFX942 = get_target("gfx942")


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", ["f16", "bf16", "fp8", "bf8"])
def test_reference_is_the_sum_of_products(layout: str, dtype: str) -> None:
    m, n, k = 5, 4, 7
    problem = GEMM.problem(m=m, n=n, k=k, dtype=dtype, layout=layout)
    arrays = GEMM.inputs(problem, GFX942, seed=3)
    c = GEMM.reference(problem, arrays)["c"]
    for i, j in itertools.product(range(m), range(n)):
        total = 0.0
        for s in range(k):
            a = arrays["a"][i, s] if layout[0] == "R" else arrays["a"][s, i]
            b = arrays["b"][s, j] if layout[1] == "R" else arrays["b"][j, s]
            total += float(a) * float(b)
        assert c[i, j] == pytest.approx(total, rel=1e-12, abs=1e-12)


def test_integers_wrap_like_the_matrix_instruction() -> None:
    k = 2**17 + 3  # 127 * 127 * k exceeds 2^31
    problem = GEMM.problem(m=1, n=1, k=k, dtype="i8")
    arrays = {"a": np.full((1, k), 127, np.int8), "b": np.full((1, k), 127, np.int8)}
    c = GEMM.reference(problem, arrays)["c"]
    assert c.dtype == np.int32
    assert int(c[0, 0]) == (127 * 127 * k + 2**31) % 2**32 - 2**31


def test_reference_is_blocked_without_seams() -> None:
    problem = GEMM.problem(m=1030, n=1027, k=3)
    arrays = GEMM.inputs(problem, GFX942, seed=0)
    whole = arrays["a"].astype(np.float64) @ arrays["b"].astype(np.float64).T
    np.testing.assert_allclose(GEMM.reference(problem, arrays)["c"], whole, rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize(("m", "n", "k"), [(0, 5, 3), (5, 0, 3), (0, 0, 0), (5, 4, 0)])
def test_empty_problems(m: int, n: int, k: int) -> None:
    problem = GEMM.problem(m=m, n=n, k=k)
    arrays = GEMM.inputs(problem, GFX942)
    reference = GEMM.reference(problem, arrays)
    assert reference["c"].shape == (m, n)
    assert not reference["c"].any()
    assert GEMM.launch(problem, GEMM.spec(problem, GFX942), GFX942).is_empty == (m * n == 0)
    tolerance = GEMM.tolerances(problem, arrays, reference, GFX942)["c"]
    assert tolerance.largest_atol < 1e-6


def _accumulated_in_f32(a: np.ndarray, b: np.ndarray, out: type) -> np.ndarray:
    total = np.zeros((a.shape[0], b.shape[1]), np.float32)
    for s in range(a.shape[1]):
        total += a[:, s : s + 1].astype(np.float32) * b[s : s + 1].astype(np.float32)
    return total.astype(out)


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("out", "numpy_out"), [("f16", np.float16), ("f32", np.float32)])
@pytest.mark.parametrize("shape", [(1, 1, 1), (1, 1, 97), (37, 41, 300), (64, 64, 1024)])
def test_tolerance_admits_f32_sums_and_nothing_coarser(shape: tuple[int, int, int], out: str, numpy_out: type) -> None:
    m, n, k = shape
    problem = GEMM.problem(m=m, n=n, k=k, out=out, layout="RRR")
    for seed in range(8):
        arrays = GEMM.inputs(problem, GFX942, seed=seed)
        reference = GEMM.reference(problem, arrays)
        tolerance = GEMM.tolerances(problem, arrays, reference, GFX942)["c"]
        c = _accumulated_in_f32(arrays["a"], arrays["b"], numpy_out)
        assert compare("c", c, reference["c"], tolerance).ok
        if m * n > 1000:  # of so many, some miss more than a rounding when a product is left out
            short = _accumulated_in_f32(arrays["a"][:, 1:], arrays["b"][1:], numpy_out)
            assert not compare("c", short, reference["c"], tolerance).ok


def test_small_products_are_rounded_one_by_one() -> None:
    """Each to a multiple of the least denormal, so that a sum of many may be off by many of these."""
    problem = GEMM.problem(m=1, n=1, k=32, dtype="f32")
    least = np.finfo(np.float32).smallest_subnormal
    a, b = np.full((1, 32), 2.0**-74, np.float32), np.full((1, 32), 2.5 * 2.0**-75, np.float32)
    reference = (a.astype(np.float64) @ b.T.astype(np.float64)).astype(np.float32)
    kernel = np.full((1, 1), 32 * np.float64(a[0, 0] * b[0, 0]), np.float32)
    tolerance = GEMM.tolerances(problem, {"a": a, "b": b}, {"c": reference}, GFX942)["c"]
    assert (reference - kernel) / least == 16
    assert compare("c", kernel, reference, tolerance).ok
    assert not compare("c", kernel + 40 * least, reference, tolerance).ok


def test_tolerance_is_ck_tiles_rule() -> None:
    problem = GEMM.problem(m=2, n=2, k=8192)
    arrays = {"a": np.ones((2, 8192), np.float16), "b": np.ones((2, 8192), np.float16)}
    tolerance = GEMM.tolerances(problem, arrays, GEMM.reference(problem, arrays), GFX942)["c"]
    assert tolerance.rtol == 2.0**-11  # max(2^-10, 2^-23 K) / 2
    assert tolerance.atol == 2.0**13 * 2.0**-11  # the largest result is 8192


@pytest.mark.one_in(2)
@pytest.mark.parametrize("target", all_targets(), ids=str)
def test_default_kernels(target) -> None:
    specs = GEMM.kernels(target)
    assert len({spec.name for spec in specs}) == len(specs)
    assert all(re.fullmatch(r"[a-z0-9_]+", spec.name) for spec in specs)
    lacking = {"gfx90a": {"fp8", "bf8", "xf32"}, "gfx950": {"xf32"}}.get(target.name, set())
    assert {spec.dtype for spec in specs} == set(OUTPUTS) - lacking
    assert {spec.layout for spec in specs} == set(LAYOUTS)
    for spec in specs:
        assert GEMM.validate(spec, target) == []
        assert ContractionSpec.from_json(spec.to_json()) == spec
        small = spec.dtype == "f64" or spec.block[0] < 64 or 224 in spec.block or spec.schedule == "straight"
        assert spec.mfma[0] == (16 if small else 32)
        assert spec.out in OUTPUTS[spec.dtype]


@given(
    m=st.integers(0, 300), n=st.integers(0, 300), k=st.integers(0, 300),
    extra=st.tuples(*[st.integers(0, 9)] * 3), layout=st.sampled_from(LAYOUTS), dtype=st.sampled_from(sorted(OUTPUTS)),
)  # fmt: skip
@settings(max_examples=150)
def test_what_a_specification_promises(
    m: int, n: int, k: int, extra: tuple[int, int, int], layout: str, dtype: str
) -> None:
    rows = (k if layout[0] == "R" else m, n if layout[1] == "R" else k, n)
    strides = dict(zip(("lda", "ldb", "ldc"), (max(row, 1) + more for row, more in zip(rows, extra)), strict=True))
    problem = GEMM.problem(m=m, n=n, k=k, layout=layout, dtype=dtype, split_k=1, **strides)
    spec = GEMM.spec(problem, GFX942)
    assert GEMM.validate(spec, GFX942) == []
    for size, length, letter in zip((m, n, k), spec.block, "mnk", strict=True):
        assert (letter in spec.pad) == (size % length != 0)
    for array, align, row in zip(GEMM.arrays(problem), spec.align, rows, strict=True):
        size = {"f16": 2, "bf16": 2, "f32": 4, "i32": 4, "f64": 8}.get(array.dtype, 1)
        assert align & (align - 1) == 0
        assert align * size <= 16
        assert array.strides[0] % align == 0
        assert row % align == 0
        assert align * size == 16 or array.strides[0] % (2 * align) or row % (2 * align), "not the widest"
    launch = GEMM.launch(problem, spec, GFX942)
    assert launch.is_empty == (m == 0 or n == 0)
    if launch.is_empty:
        return
    covered = [-(-size // length) for size, length in zip((m, n), spec.block[:2], strict=True)]
    assert launch.grid == (covered[0] * covered[1], 1, 1)
    first, (*integers, last) = launch.arguments[:2], launch.arguments[2:]
    assert [int(argument) for argument in integers] == [m, n, k, *strides.values()]
    assert (*first, last) == ("a", "b", "c")


@pytest.mark.parametrize(
    ("changes", "field", "words"),
    [
        ({"dtype": "f128"}, "dtype", "f16|bf16"),
        ({"dtype": "i8"}, "out", "i32"),
        ({"layout": "RRC"}, "layout", "RCR"),
        ({"schedule": "compv9"}, "schedule", "compv4"),
        ({"block": (128, 96, 64)}, "block", "multiple of 64 along n"),
        ({"block": (128, 96, 64), "waves": (4, 1)}, None, ""),
        ({"block": (0, 128, 64)}, "block", "1 or more"),
        ({"block": (32, 128, 64)}, "block", "multiple of 64 along m"),
        ({"block": (128, 32, 64)}, "block", "multiple of 64 along n"),
        ({"block": (128, 128, 4)}, "block", "multiple of 8 along k"),
        ({"block": (256, 128, 64), "schedule": "compv4"}, "block", "bytes of LDS"),
        ({"block": (256, 256, 16), "waves": (1, 1), "epilogue": "direct"}, "block", "accumulators"),
        ({"block": (256, 256, 8), "waves": (4, 2), "epilogue": "direct"}, None, ""),
        ({"block": (256, 256, 8), "waves": (2, 2), "epilogue": "direct"}, None, ""),
        ({"block": (512, 256, 8), "waves": (4, 2), "epilogue": "direct"}, "block", "registers"),
        ({"block": (1024, 64, 8), "waves": (32, 1), "epilogue": "direct"}, "waves", "work-items"),
        ({"mfma": (32, 32, 16)}, "mfma", "32x32x8"),
        ({"mfma": (17, 17, 1)}, "mfma", "16x16x16"),
        ({"align": (16, 8, 8)}, "align", "16 bytes"),
        ({"align": (3, 8, 8)}, "align", "power of two"),
        ({"pad": "km"}, "pad", "order"),
    ],
)
def test_reasons(changes: dict[str, object], field: str | None, words: str) -> None:
    spec = replace(GEMM.spec(GEMM.problem(m=1024, n=1024, k=1024), GFX942), **changes)
    reasons = GEMM.validate(spec, GFX942)
    if field is None:
        assert reasons == []
    else:
        assert [reason.field for reason in reasons] == [field]
        assert words in str(reasons[0])


def test_a_chip_without_the_dtype_says_so() -> None:
    spec = GEMM.spec(GEMM.problem(dtype="fp8"), get_target("gfx90a"))
    (reason,) = GEMM.validate(spec, get_target("gfx90a"))
    assert str(reason).startswith("dtype=fp8: gfx90a has no fp8 MFMA")


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"m": -1}, "m=-1: expected a whole number"),
        ({"m": "1e3"}, "m=1e3: expected a whole number"),
        ({"m": float("inf")}, "m=inf: expected a whole number"),
        ({"m": 2**31}, "m=2147483648: expected"),
        ({"m": True}, "m=True: expected a whole number"),
        ({"m": 10**6, "k": 10**6}, "array a of shape 1000000x1000000 takes"),
        ({"M": 3}, "M=3: unknown key"),
        ({"dtype": "fp16"}, "dtype=fp16: expected f16|bf16"),
        ({"dtype": "i8", "out": "f16"}, "out=f16: dtype=i8 gives i32"),
        ({"lda": 4, "k": 8}, "lda=4: rows of array a have 8"),
        ({"lda": 4, "m": 8, "layout": "CRR"}, "lda=4: rows of array a have 8"),
        ({"block": "128x128"}, "block=128x128: expected 3 positive whole numbers"),
        ({"block": "128x128x0"}, "block=128x128x0"),
        ({"block": (1, 2, "three")}, "block=1x2xthree"),
        ({"block": 128}, "block=128"),
    ],
)
def test_requests_that_are_refused(keys: dict[str, object], words: str) -> None:
    with pytest.raises(RequestError) as error:
        GEMM.problem(**keys)
    assert str(error.value).startswith("gemm: ")
    assert words in str(error.value)
    assert "\n" not in str(error.value)


def test_text_and_python_values_mean_the_same() -> None:
    as_text = GEMM.problem(m="100", block="64x64x64", lda="auto", wave="1x2")
    assert as_text == GEMM.problem(m=np.int64(100), block=[64, 64, 64], lda=None, wave=(1, 2))


def test_inputs_depend_on_the_seed_and_the_flavour() -> None:
    problem = GEMM.problem(m=8, n=8, k=8, dtype="bf8")
    same, other = (GEMM.inputs(problem, GFX942, seed=seed)["a"] for seed in (1, 2))
    np.testing.assert_array_equal(same, GEMM.inputs(problem, GFX942, seed=1)["a"])
    assert (same != other).any()
    assert same.dtype == ml_dtypes.float8_e5m2fnuz
    assert GEMM.inputs(problem, get_target("gfx950"))["a"].dtype == ml_dtypes.float8_e5m2
    with pytest.raises(RequestError, match="gfx90a has no 8-bit floating point"):
        GEMM.inputs(problem, get_target("gfx90a"))
