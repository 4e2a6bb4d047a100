"""Conversions and transcendental functions against ml_dtypes and f64, through the compiled handlers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from single_wave import SingleWave, make, v

from ckmlir.sim.decode import Operand

Array = np.ndarray[Any, Any]
FP8 = {
    ("fp8", "gfx942"): ml_dtypes.float8_e4m3fnuz, ("bf8", "gfx942"): ml_dtypes.float8_e5m2fnuz,
    ("fp8", "gfx950"): ml_dtypes.float8_e4m3fn, ("bf8", "gfx950"): ml_dtypes.float8_e5m2,
}  # fmt: skip


def apply(mnemonic: str, inputs: list[Array], registers: int = 1, target: str = "gfx942", **modifiers: int) -> Array:
    """Run an instruction on arrays of 32-bit patterns, 64 at a time; returns (registers, n) dwords."""
    wave = SingleWave()
    columns = [np.ascontiguousarray(data).view(np.uint32) for data in inputs]
    count = len(columns[0])
    padded = [np.resize(column, -(-count // 64) * 64) for column in columns]
    sources = [v(10 + k) for k in range(len(inputs))]
    results = []
    for start in range(0, len(padded[0]), 64):
        for k, column in enumerate(padded):
            wave.vgpr[10 + k] = column[start : start + 64]
        wave.vgpr[0:registers] = 0
        wave.run([make(mnemonic, [v(0, registers)], sources, **modifiers)], target)
        results.append(wave.vgpr[0:registers].copy())
    return np.concatenate(results, axis=1)[:, :count]


def floats_near(values: Array) -> Array:
    """Each value with its neighbours, halfway points between successive values, both signs, and what lies outside."""
    finite = np.unique(np.abs(values[np.isfinite(values)].astype(np.float32)))
    middles = (finite[1:] + finite[:-1]) / 2
    points = np.concatenate(
        [finite, middles, [finite[-1] * 1.03, finite[-1] * 1.1, finite[-1] * 4, np.inf, np.nan, 1e-38, 1e-42]]
    ).astype(np.float32)
    points = np.concatenate([points, np.nextafter(points, np.float32(0)), np.nextafter(points, np.float32(np.inf))])
    return np.concatenate([points, -points])


@pytest.mark.parametrize("name,target", FP8)
def test_fp8_decoding_of_every_code(name: str, target: str) -> None:
    codes = np.arange(256, dtype=np.uint32)
    expected = codes.astype(np.uint8).view(FP8[name, target]).astype(np.float32)
    np.testing.assert_array_equal(
        apply(f"v_cvt_f32_{name}", [codes | 0xABCD00], target=target)[0].view(np.float32), expected
    )
    pairs = apply(f"v_cvt_pk_f32_{name}", [codes | (255 - codes) << 8], 2, target).view(np.float32)
    np.testing.assert_array_equal(pairs, [expected, expected[::-1]])


@pytest.mark.parametrize("name,target", FP8)
def test_fp8_encoding_rounds_to_nearest_even(name: str, target: str) -> None:
    """ml_dtypes turns what is beyond the range into NaN or infinity, as the hardware does without FP16_OVFL."""
    dtype = FP8[name, target]
    x = floats_near(np.arange(256, dtype=np.uint8).view(dtype).astype(np.float32))
    got = apply(f"v_cvt_pk_{name}_f32", [x, -x], target=target)[0]
    for half, numbers in ((got & 0xFF, x), (got >> 8 & 0xFF, -x)):
        with np.errstate(all="ignore"):
            expected = numbers.astype(dtype)
        decoded = half.astype(np.uint8).view(dtype)
        same = (decoded.view(np.uint8) == expected.view(np.uint8)) | (
            np.isnan(decoded.astype(np.float32)) & np.isnan(expected.astype(np.float32))
        )
        assert same.all(), [
            (float(numbers[k]), int(half[k]), int(expected.view(np.uint8)[k])) for k in np.flatnonzero(~same)[:5]
        ]


def test_fp8_pack_writes_one_half_of_the_register() -> None:
    wave = SingleWave()
    wave.vgpr[0], wave.vgpr[1] = 0x11223344, np.float32(1.0).view(np.uint32)
    wave.run([make("v_cvt_pk_fp8_f32", [v(0)], [v(1), v(1)], op_sel=8)])
    assert (wave.vgpr[0] == 0x4040_3344).all()


@pytest.mark.parametrize("name,target", FP8)
def test_stochastic_fp8_rounding_brackets_the_value_and_is_unbiased(name: str, target: str) -> None:
    dtype = FP8[name, target]
    codes = np.arange(256, dtype=np.uint8).view(dtype).astype(np.float32)
    finite = np.unique(codes[np.isfinite(codes)])
    rng = np.random.default_rng(5)
    for x in (1.3, 0.07, -3.3, float(finite[finite > 0][0]) * 2.4):
        random = rng.integers(0, 1 << 32, 4096, np.uint32)
        got = apply(f"v_cvt_sr_{name}_f32", [np.full(4096, x, np.float32), random], target=target)[0] & 0xFF
        numbers = got.astype(np.uint8).view(dtype).astype(np.float64)
        below, above = finite[finite <= np.float32(x)].max(), finite[finite >= np.float32(x)].min()
        assert set(np.unique(numbers)) == {float(below), float(above)}
        assert abs(numbers.mean() - x) < 0.06 * (above - below)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(0, (1 << 32) - 1), min_size=64, max_size=64))
def test_bf16_packing(patterns: list[int]) -> None:
    x = np.array(patterns, np.uint32).view(np.float32)
    got = apply("v_cvt_pk_bf16_f32", [x, x[::-1].copy()], target="gfx950")[0]
    with np.errstate(all="ignore"):
        expected = x.astype(ml_dtypes.bfloat16)
    for half, numbers in ((got & 0xFFFF, expected), (got >> 16, expected[::-1])):
        decoded = half.astype(np.uint16).view(ml_dtypes.bfloat16)
        assert ((decoded.view(np.uint16) == numbers.view(np.uint16)) | (np.isnan(decoded) & np.isnan(numbers))).all()


def test_f16_packing_toward_zero() -> None:
    x = floats_near(np.arange(0x7C01, dtype=np.uint16).view(np.float16)[::37])
    got = apply("v_cvt_pkrtz_f16_f32", [x, -x])[0]
    low = (got & 0xFFFF).astype(np.uint16).view(np.float16)
    finite = np.isfinite(x)
    assert (np.abs(low[finite].astype(np.float64)) <= np.abs(x[finite])).all()
    with np.errstate(over="ignore"):
        further = np.nextafter(low[finite], np.copysign(np.float16(np.inf), low[finite])).astype(np.float64)
    assert (np.abs(further) > np.abs(x[finite])).all()
    assert np.isinf(low[np.isinf(x)]).all() and np.isnan(low[np.isnan(x)]).all()


def test_float_to_integer_saturates() -> None:
    x = np.array([np.nan, np.inf, -np.inf, 3e9, -3e9, 1.99, -1.99, 5e9, -0.5], np.float32)
    assert apply("v_cvt_i32_f32", [x])[0].view(np.int32).tolist() == [
        0,
        2147483647,
        -2147483648,
        2147483647,
        -2147483648,
        1,
        -1,
        2147483647,
        0,
    ]
    assert apply("v_cvt_u32_f32", [x])[0].tolist() == [0, 0xFFFFFFFF, 0, 3000000000, 0, 1, 0, 0xFFFFFFFF, 0]


# -- transcendental functions ----------------------------------------------------------------------------------------


def ulps(got: Array, exact: Array) -> Array:
    """The distance in units of the last place of the exact result's f32 neighbourhood."""
    unit = np.spacing(np.abs(exact).astype(np.float32)).astype(np.float64)
    return np.abs(got.astype(np.float64) - exact) / unit


def samples(low: float, high: float) -> Array:
    rng = np.random.default_rng(9)
    return np.concatenate([np.linspace(low, high, 8192), rng.uniform(low, high, 8192)]).astype(np.float32)


@pytest.mark.parametrize(
    "name,reference,points",
    [
        ("v_exp_f32", np.exp2, samples(-125.9, 127.9)),
        ("v_exp_f32", np.exp2, samples(-1, 1)),
        ("v_log_f32", np.log2, samples(1e-30, 4)),
        ("v_log_f32", np.log2, samples(1, 1e30)),
        ("v_rcp_f32", lambda x: 1 / x, samples(1e-30, 100)),
        ("v_rsq_f32", lambda x: 1 / np.sqrt(x), samples(1e-30, 100)),
        ("v_sqrt_f32", np.sqrt, samples(1e-30, 1e6)),
    ],
)
def test_f32_functions_are_within_one_ulp(name: str, reference: Callable[[Array], Array], points: Array) -> None:
    got = apply(name, [points])[0].view(np.float32)
    exact = reference(points.astype(np.float64))
    assert ulps(got, exact).max() <= 1.0


@pytest.mark.parametrize("name,reference", [("v_sin_f32", np.sin), ("v_cos_f32", np.cos)])
def test_circular_functions_take_turns(name: str, reference: Callable[[Array], Array]) -> None:
    points = samples(-256, 256)
    got = apply(name, [points])[0].view(np.float32)
    turns = np.remainder(points.astype(np.float64), 1.0)
    np.testing.assert_allclose(got, reference(2 * np.pi * turns), rtol=2e-7, atol=1e-9)


def test_edge_cases_of_the_f32_functions() -> None:
    denormal, inf, nan = np.float32(1e-40), np.inf, np.nan
    x = np.array([0.0, -0.0, inf, -inf, nan, denormal, -1.0, 128.0, -126.5], np.float32)
    expected = {
        "v_exp_f32": [1, 1, inf, 0, nan, 1, 0.5, inf, 0],
        "v_log_f32": [-inf, -inf, inf, nan, nan, -inf, nan, 7, nan],
        "v_rcp_f32": [inf, -inf, 0, -0.0, nan, inf, -1, 1 / 128, np.float32(-1 / 126.5)],
        "v_rsq_f32": [inf, -inf, 0, nan, nan, inf, nan, np.float32(128**-0.5), nan],
        "v_sqrt_f32": [0, -0.0, inf, nan, nan, 0, nan, np.float32(128**0.5), nan],
        "v_sin_f32": [0, -0.0, nan, nan, nan, None, 0, 0, None],
        "v_cos_f32": [1, 1, nan, nan, nan, 1, 1, 1, None],
    }
    for name, values in expected.items():
        got = apply(name, [x])[0].view(np.float32)
        for k, value in enumerate(values):
            if value is not None:
                np.testing.assert_array_equal(got[k], np.float32(value), err_msg=f"{name}({x[k]})")
                assert (
                    np.isnan(got[k]) or np.signbit(got[k]) == np.signbit(np.float32(value)) or name.startswith("v_sin")
                ), f"{name}({x[k]})"


@pytest.mark.parametrize(
    "name,reference",
    [
        ("v_exp_f16", np.exp2),
        ("v_log_f16", np.log2),
        ("v_rcp_f16", lambda x: 1 / x),
        ("v_rsq_f16", lambda x: 1 / np.sqrt(x)),
        ("v_sqrt_f16", np.sqrt),
    ],
)
def test_f16_functions_on_every_positive_number(name: str, reference: Callable[[Array], Array]) -> None:
    patterns = np.arange(1, 0x7C00, dtype=np.uint32)
    got = apply(name, [patterns])[0].astype(np.uint16).view(np.float16)
    with np.errstate(all="ignore"):
        exact = reference(patterns.astype(np.uint16).view(np.float16).astype(np.float64))
        expected = exact.astype(np.float16)
    difference = np.abs(got.view(np.int16).astype(np.int32) - expected.view(np.int16).astype(np.int32))
    assert difference.max() <= 1 and (difference > 0).mean() < 0.01


def test_frexp_and_ldexp_undo_each_other() -> None:
    x = np.random.default_rng(2).integers(0, 1 << 32, 4096, np.uint32).view(np.float32)
    x = x[np.isfinite(x)]
    mantissa, exponent = apply("v_frexp_mant_f32", [x])[0], apply("v_frexp_exp_i32_f32", [x])[0]
    expected = np.frexp(x)
    np.testing.assert_array_equal(mantissa.view(np.float32), expected[0])
    np.testing.assert_array_equal(exponent.view(np.int32), expected[1])
    np.testing.assert_array_equal(apply("v_ldexp_f32", [mantissa, exponent])[0], x.view(np.uint32))


def test_class_masks_partition_all_floats() -> None:
    numbers = np.array([np.inf, -np.inf, 1, -1, 1e-40, -1e-40, 0.0, -0.0], np.float32)
    x = [*numbers.view(np.uint32).tolist(), 0x7F800001, 0x7FC00000]
    expected_bits = [9, 2, 8, 3, 7, 4, 6, 5, 0, 1]
    wave = SingleWave()
    wave.vgpr[1, : len(x)] = x
    for bit in range(10):
        wave.run([make("v_cmp_class_f32", [Operand("s", 10, 2)], [v(1), Operand("imm", 1 << bit)], "VOPC")])
        assert [wave.mask(10) >> lane & 1 for lane in range(len(x))] == [int(bit == own) for own in expected_bits]
