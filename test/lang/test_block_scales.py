"""Tiles multiplied with block scales, against products of scaled numbers in exact arithmetic.

Elements are multiples of 1/2 and scales small powers of two, so that every product and sum is exact in f32 too.
"""

from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest
from kernel_runner import compile_traced
from msgspec.structs import replace

from ckmlir.dialect.mma import Mma
from ckmlir.dialect.mma_scales import scale_registers, scales_over
from ckmlir.dialect.packing import PACKED
from ckmlir.lang import Kernel, TracingError, kernel, load, mma, ptr, store, view, zeros
from ckmlir.ops.packing import pack_values
from ckmlir.targets import get_target

GFX950 = get_target("gfx950")
TYPES = {"fp8": ml_dtypes.float8_e4m3fn, "bf8": ml_dtypes.float8_e5m2}
CASES = [
    (shape, a, b, transposed)
    for shape in ("16x16x128", "32x32x64")
    for a, b, transposed in (
        ("fp8", "fp8", False), ("bf8", "fp8", True), ("fp8", "bf8", False), ("fp4", "fp4", True), ("fp8", "fp4", False),
        ("fp4", "bf8", True), ("fp6", "fp6", False), ("fp6", "fp4", True), ("fp8", "bf6", False), ("bf6", "fp8", True),
    )
]
WAVES = (2, 1)


def scaled_product(one: Mma, m: int, n: int, k: int) -> Kernel:
    """C = (A * scales) · (B * scales)ᵀ, one tile."""
    bytes_ = {"fp4": "i8", "fp6": "i8", "bf6": "i8"}
    types = [bytes_.get(name, name) for name in (one.a_dtype, one.b_dtype)]
    names = {"a": ptr(types[0]), "b": ptr(types[1]), "sa": ptr("e8m0"), "sb": ptr("e8m0"), "c": ptr("f32")}

    @kernel("scaled", target=GFX950, waves=2, arguments=names)
    def scaled(given: Any) -> None:
        def tile(pointer: Any, rows: int, depth: int, lies: Any) -> Any:
            return load(view(pointer, (rows, depth), (depth, 1)).window((rows, depth), (0, 0)), lies)

        depths = [PACKED[name].size(k) if name in PACKED else k for name in (one.a_dtype, one.b_dtype)]
        a = tile(given.a, m, depths[0], one.a_over(WAVES, m, k))
        b = tile(given.b, n, depths[1], one.b_over(WAVES, n, k))
        scales = (
            tile(given.sa, m, k // 32, scales_over(one, WAVES, m, k)),
            tile(given.sb, n, k // 32, scales_over(one, WAVES, n, k, of_b=True)),
        )
        product = mma(one, a, b, zeros((m, n), "f32", one.c_over(WAVES, m, n)), scales)
        store(product, view(given.c, (m, n), (n, 1)).window((m, n), (0, 0)))

    return scaled


def exact(values: npt.NDArray[Any], scales: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    """Every 32 elements of a row times 2^(scale - 127); NaN where the scale is 255."""
    factors = np.where(scales == 255, np.nan, np.ldexp(1.0, scales.astype(np.int64) - 127))
    return values.astype(np.float64) * np.repeat(factors, 32, axis=1)


@pytest.mark.one_in(16)
@pytest.mark.parametrize(("shape", "a", "b", "transposed"), CASES)
def test_products(shape: str, a: str, b: str, transposed: bool) -> None:
    one = Mma.select(GFX950, shape, a, b, transposed=transposed)
    assert (one.a_dtype, one.b_dtype) == (a, b)
    one = replace(one, spread=2 if a == b else 1)
    m, n, k = 4 * one.m, 2 * one.n, 2 * one.k  # several scales in a register, of both dimensions
    random = np.random.default_rng(11)
    left, right = ((random.integers(-4, 5, (rows, k)) / 2).astype(np.float32) for rows in (m, n))
    sa, sb = (random.integers(124, 131, (rows, k // 32)).astype(np.uint8) for rows in (m, n))
    sa[1, 0] = 255
    compiled = compile_traced(scaled_product(one, m, n, k))
    assert "v_mfma_scale" in compiled.assembly
    stored = [pack_values(x, t) if t in PACKED else x.astype(TYPES[t]) for x, t in ((left, a), (right, b))]
    found = compiled.run(*stored, sa, sb, np.zeros((m, n), np.float32), checks="all")[-1]
    expected = exact(left, sa) @ exact(right, sb).T
    assert np.isnan(expected[1]).all() and not np.isnan(np.delete(expected, 1, axis=0)).any()
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("code", [0, 1, 254])
def test_the_ends_of_the_range(code: int) -> None:
    """2^-127 is a denormal, which scales all the same; 2^127 of a small number stays finite."""
    one = Mma.select(GFX950, "16x16x128", "fp8")
    left, right = np.zeros((32, 128), TYPES["fp8"]), np.zeros((16, 128), TYPES["fp8"])
    left[:, 0], right[:, 0] = 2.0 ** -6, 2.0**-6
    sa = np.full((32, 4), code, np.uint8)
    sb = np.full((16, 4), 127 + (-8 if code == 254 else 100), np.uint8)
    found = compile_traced(scaled_product(one, 32, 16, 128)).run(left, right, sa, sb, np.zeros((32, 16), np.float32))
    np.testing.assert_array_equal(found[-1], exact(left, sa) @ exact(right, sb).T)


def test_registers_of_scales_are_found_by_what_lanes_hold() -> None:
    """By rows, then K, or the other way round; not with lanes in another order."""
    one = Mma.select(GFX950, "16x16x128", "fp8")
    operand, scales = one.a_over((1, 1), 32, 256), scales_over(one, (1, 1), 32, 256)
    assert scale_registers(one, operand, scales, of_b=False) == (0, 1, 2, 3)
    text = str(scales)
    assert text == "d0: 2@y0 16@lane.1, d1: 2@y1 4@lane.0"
    other = type(scales).parse("d0: 2@y1 16@lane.1, d1: 2@y0 4@lane.0")
    assert scale_registers(one, operand, other, of_b=False) == (0, 2, 1, 3)
    wrong = type(scales).parse("d0: 16@lane.1 2@y0, d1: 2@y1 4@lane.0")
    assert "lanes do not hold the scales of A" in str(scale_registers(one, operand, wrong, of_b=False))
    plain = Mma.select(GFX950, "16x16x32", "fp8")
    assert "has no block scales" in str(scale_registers(plain, operand, scales, of_b=False))
    with pytest.raises(ValueError, match="has no block scales"):
        scales_over(plain, (1, 1), 32, 256)
    with pytest.raises(ValueError, match="48 x 256 is not a multiple of 32 x 128"):
        scales_over(one, (2, 1), 48, 256)


def test_elements_of_a_block_may_change_places() -> None:
    """In a block of 32 K may have any order, such as that of accumulators with 32 rows; over blocks it may not."""
    for shape, right in (("32x32x64", True), ("16x16x128", False)):
        one = Mma.select(GFX950, shape, "fp8").with_k_chunk(4)
        operand, scales = one.a_over((1, 1), one.m, one.k), scales_over(one, (1, 1), one.m, one.k)
        found = scale_registers(one, operand, scales, of_b=False)
        assert (found == (0,)) if right else ("numbers K otherwise than its instruction" in str(found))


def test_scales_of_an_instruction_without_are_refused() -> None:
    one = Mma.select(GFX950, "16x16x32", "fp8")
    with pytest.raises(TracingError, match=r"f32\.16x16x32\.fp8\.fp8 has no block scales"):

        @kernel("plain", target=GFX950, waves=1)
        def plain(a: ptr("fp8"), s: ptr("e8m0"), c: ptr("f32")) -> None:
            rows = load(view(a, (16, 64), (64, 1)).window((16, 64), (0, 0)), one.a_over((1, 1), 16, 64))
            scales = load(view(s, (16, 2), (2, 1)).window((16, 2), (0, 0)))
            total = mma(one, rows, rows, zeros((16, 16), "f32", one.c_over((1, 1), 16, 16)), (scales, scales))
            store(total, view(c, (16, 16), (16, 1)).window((16, 16), (0, 0)))
