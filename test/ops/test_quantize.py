"""Rows and tensors in 8 bits and back: scales found and given, of every kind, with special values; what is refused."""

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from operator_runner import agree

from ckmlir.compiler import compile_kernel
from ckmlir.ops import find_operator
from ckmlir.ops.dtypes import PACKED_FLOATS, find_dtype
from ckmlir.ops.packing import pack_codes, unpack_values
from ckmlir.ops.request import RequestError
from ckmlir.runtime import open_device
from ckmlir.runtime.run import check_outputs, run_operator
from ckmlir.targets import get_target

MX = {"block": "1x32", "scales": "e8m0"}
GFX942, GFX950 = get_target("gfx942"), get_target("gfx950")
SPECIAL = (0.0, -0.0, np.nan, np.inf, -np.inf, 1e-40, -1e-45, 2.0**-126, 2.0**-100, 1.0, -3e-39, 2.0**100, 3e38, -3e38)


def run(name: str, arrays: dict[str, Any] | None = None, target: Any = GFX950, **keys: Any) -> dict[str, Any]:
    """The outputs for some of the inputs, which agree with the reference under all checkers."""
    operator = find_operator(name)
    problem = operator.problem(**keys)
    inputs = operator.inputs(problem, target, seed=1)
    for array, values in (arrays or {}).items():
        inputs[array] = np.asarray(values).astype(inputs[array].dtype)
    result = run_operator(operator, problem, inputs, target, open_device("sim", target, checks="all"))
    for comparison in check_outputs(operator, problem, inputs, result.outputs, target):
        assert comparison.ok, str(comparison)
    return dict(result.outputs)


@pytest.mark.parametrize(("chip", "keys"), [
    ("gfx942", {"out": "bf8", "scales": "given", "stride": 304}),
    ("gfx950", {"scales": "given", "dtype": "bf16", "q_stride": 301}),
    ("gfx90a", {"out": "i8", "scales": "given", "rounding": "zero", "dtype": "f32"}),
    ("gfx942", {"out": "bf8", "n": 9001, "dtype": "f32"}),
    ("gfx942", {"out": "i8", "scales": "given", "n": 9001}),
    ("gfx950", {"m": 0, "scales": "given"}),
    ("gfx950", {"n": 0, "scales": "given"}),
    ("gfx950", {"n": 0}),
])  # fmt: skip
def test_rows(chip: str, keys: dict[str, Any]) -> None:
    agree("quantize_rows", chip, **{"m": 7, "n": 300, **keys})


@pytest.mark.one_in(3)
@pytest.mark.parametrize(("chip", "keys"), [
    ("gfx942", {}),
    ("gfx950", {"out": "bf8", "scales": "given", "dtype": "bf16"}),
    ("gfx90a", {"out": "i8", "shape": (3, 5, 7), "strides": (80, 11, 1), "qstrides": (1, 3, 15), "dtype": "f32"}),
    ("gfx942", {"shape": (70000,), "out": "bf8"}),
    ("gfx942", {"shape": (300, 513), "strides": (1, 300)}),
    ("gfx950", {"shape": (1,), "align": 2}),
    ("gfx950", {"shape": (3, 0, 70000)}),
    ("gfx950", {"shape": (0,), "scales": "given"}),
])  # fmt: skip
def test_tensors(chip: str, keys: dict[str, Any]) -> None:
    agree("quantize_tensor", chip, **{"shape": (37, 129), **keys})


@pytest.mark.one_in(4)
@pytest.mark.parametrize(("chip", "keys"), [
    ("gfx942", {}),
    ("gfx942", {"block": "row", "dtype": "bf8", "out": "f32", "stride": 301}),
    ("gfx90a", {"block": "1x32", "dtype": "i8", "out": "bf16"}),
    ("gfx950", {"block": "128x128", "m": 140, "major": "rows", "out": "bf16"}),
    ("gfx950", {"block": "128x128", "m": 300, "scales": "e8m0", "stride": 304, "ystride": 307}),
    ("gfx950", {"block": "1x64", "major": "rows", "scales": "e8m0", "align": 2}),
    ("gfx950", {"block": "1x128", "m": 1, "n": 1}),
    ("gfx950", {"m": 0}),
    ("gfx950", {"n": 0, "block": "1x32"}),
    ("gfx950", {**MX, "dtype": "fp4"}),
    ("gfx942", {**MX, "dtype": "fp6", "major": "tiles", "out": "f32", "stride": 304, "ystride": 301}),
    *(pytest.param(chip, {**MX, **keys}, marks=pytest.mark.full) for chip, keys in (
        ("gfx90a", {"dtype": "bf6", "major": "rows", "m": 70}), ("gfx942", {"major": "tiles"}),
        ("gfx950", {"major": "tiles2x2", "m": 70}),
        ("gfx950", {"dtype": "fp4", "major": "tiles", "n": 2, "m": 1, "align": 2}),
        ("gfx950", {"dtype": "fp6", "block": "128x128", "m": 140}), ("gfx950", {"dtype": "fp4", "n": 0}),
        ("gfx942", {"dtype": "fp4", "block": "row"}), ("gfx90a", {"dtype": "fp4", "n": 4096, "out": "bf16"}),
    )),
])  # fmt: skip
def test_back(chip: str, keys: dict[str, Any]) -> None:
    agree("dequantize", chip, **{"m": 33, "n": 300, **keys})


@pytest.mark.parametrize("out", ["fp8", "bf8", "i8"])
@pytest.mark.parametrize("rounding", ["nearest", "zero"])
def test_any_number_is_divided_by_any_given_scale(out: str, rounding: str) -> None:
    """As IEEE does: 0 / 0 is NaN, what is infinite saturates; also where a scale's inverse is no normal number."""
    if out != "i8" and rounding == "zero":
        return
    x, scale = np.array([SPECIAL] * len(SPECIAL)), np.array(SPECIAL)
    keys = {"m": len(SPECIAL), "n": len(SPECIAL), "dtype": "f32", "out": out, "scales": "given", "rounding": rounding}
    found = run("quantize_rows", {"x": x, "yscale": scale}, **keys)["q"].astype(np.float64)
    most = {"fp8": 448.0, "bf8": 57344.0, "i8": 127.0}[out]
    assert found[9, 9] == 1 and found[5, 5] == 1 and found[12, 12] == 1 and found[7, 3] == most
    assert found[0, 0] == 0 if out == "i8" else np.isnan(found[0, 0])


@pytest.mark.one_in(6)
@pytest.mark.parametrize("out", ["fp8", "i8"])
@pytest.mark.parametrize("scale", SPECIAL)
def test_a_tensor_is_divided_by_any_given_scale(out: str, scale: float) -> None:
    run("quantize_tensor", {"x": [SPECIAL], "scale": [scale]}, shape=(1, len(SPECIAL)), dtype="f32", out=out,
        scales="given")  # fmt: skip


@pytest.mark.one_in(6)
@pytest.mark.parametrize("row", [
    [0.0, -0.0], [np.nan, np.nan], [np.nan, 7.0], [np.inf, 1.0], [-np.inf, np.nan], [1e-40, -1e-45], [3e38, 1.0],
])  # fmt: skip
def test_scales_that_are_found_among_special_values(row: list[float]) -> None:
    for keys in ({"out": "bf8"}, {"out": "i8"}):
        by_row = run("quantize_rows", {"x": [row]}, m=1, n=2, dtype="f32", **keys)
        whole = run("quantize_tensor", {"x": [row]}, shape=(1, 2), dtype="f32", **keys)
        np.testing.assert_allclose(by_row["yscale"], whole["scale"], rtol=3e-7)
        np.testing.assert_array_equal(by_row["q"].astype(np.float32), whole["q"].astype(np.float32))
    if not np.nan_to_num(row).any() or max(np.abs(np.nan_to_num(row))) < 1e-38:
        assert by_row["yscale"][0] == 2.0**-126 == whole["scale"][0]


def test_all_codes_come_back() -> None:
    """Every number of every 8-bit type times 1 is that number; e8m0's ends are 2^-127, 2^127 and NaN."""
    codes = np.arange(256, dtype=np.uint8).reshape(2, 128)
    for target in (GFX942, GFX950):
        for dtype in ("fp8", "bf8", "i8"):
            operator = find_operator("dequantize")
            q = operator.inputs(operator.problem(m=2, n=128, dtype=dtype), target)["q"]
            found = run("dequantize", {"q": codes.view(q.dtype), "scale": [1]}, target, m=2, n=128, dtype=dtype,
                        out="f32")["y"]  # fmt: skip
            np.testing.assert_array_equal(found, codes.view(q.dtype).astype(np.float32))
    scales = np.array([[0, 254], [255, 127]], np.uint8).view(ml_dtypes.float8_e8m0fnu)
    found = run("dequantize", {"q": np.ones((2, 64)), "scale": scales}, m=2, n=64, block="1x32", scales="e8m0",
                out="f32")["y"]  # fmt: skip
    np.testing.assert_array_equal(found[:, ::32], [[2.0**-127, 2.0**127], [np.nan, 1]])


@pytest.mark.one_in(2)
@pytest.mark.parametrize("block", ["row", "1x32", "128x128"])
def test_quantised_and_back(block: str) -> None:
    """What one operator wrote the other takes as it is, and gives back within half a step."""
    m, n = 131, 200
    name, keys = ("quantize_rows", {}) if block == "row" else ("quantize_blocks", {"block": block})
    x = np.random.default_rng(2).standard_normal((m, n)).astype(np.float32)
    made = run(name, {"x": x}, m=m, n=n, dtype="f32", out="i8", **keys)
    scale = made.get("yscale", made.get("scale"))
    back = run("dequantize", {"q": made["q"], "scale": scale}, m=m, n=n, dtype="i8", out="f32", block=block)["y"]
    assert np.abs(back - x).max() <= 0.501 * scale.max()


@pytest.mark.one_in(2)
@pytest.mark.parametrize("dtype", PACKED_FLOATS)
def test_all_packed_codes_come_back(dtype: str) -> None:
    """Every number of every packed type times 1, by gfx950's instructions and by arithmetic elsewhere."""
    count = 1 << find_dtype(dtype).bits
    codes = np.arange(64, dtype=np.uint8).reshape(2, 32) % count
    ones = np.full((2, 1), 127, np.uint8).view(ml_dtypes.float8_e8m0fnu)
    q = pack_codes(codes, dtype)
    for target in (GFX950, GFX942):
        found = run("dequantize", {"q": q, "scale": ones}, target, m=2, n=32, dtype=dtype, block="1x32", scales="e8m0",
                    out="f32")["y"]  # fmt: skip
        np.testing.assert_array_equal(found, unpack_values(q, dtype))
        assert len(np.unique(found)) == count - 1  # zero has two codes


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("dtype", "major"), [("fp4", "tiles"), ("fp6", "k")])
def test_mx_and_back(dtype: str, major: str) -> None:
    """Numbers of the format times powers of two come back as they were, from q and scales in the order they are in."""
    m, n = 40, 200
    random = np.random.default_rng(3)
    values = random.choice(unpack_values(pack_codes(np.arange(16, dtype=np.uint8), dtype), dtype), (m, n))
    values[:, ::32] = 6.0  # what scales are found by
    x = values * np.exp2(random.integers(-9, 9, (m, n // 32 + 1))).repeat(32, axis=1)[:, :n]
    keys = {"m": m, "n": n, "block": "1x32", "scales": "e8m0", "major": major}
    made = run("quantize_blocks", {"x": x.astype(np.float32)}, dtype="f32", out=dtype, **keys)
    back = run("dequantize", {"q": made["q"], "scale": made["scale"]}, dtype=dtype, out="f32", **keys)["y"]
    np.testing.assert_array_equal(back, x)


def test_one_division_a_lane() -> None:
    """A tensor's scale is inverted once, not for every element; all accesses of large arrays are 16 bytes wide."""
    for name, keys in (("quantize_tensor", {"scales": "given"}), ("quantize_rows", {"scales": "given", "n": 4096})):
        operator = find_operator(name)
        kernel = compile_kernel(operator, operator.spec(operator.problem(**keys), GFX942), GFX942, keep=("asm",))
        assert str(kernel.artifacts["asm"]).count("v_div_fixup_f32") == 1
        assert kernel.code_object.kernel().metadata.vgpr_spill_count == 0


def test_tolerances_reject_another_rounding() -> None:
    operator = find_operator("quantize_rows")
    problem = operator.problem(m=8, n=256, out="i8", scales="given")
    other = operator.problem(m=8, n=256, out="i8", scales="given", rounding="zero")
    arrays = operator.inputs(problem, GFX942, seed=3)
    for one, right in ((problem, True), (other, False)):
        outputs = {"q": operator.expected(one, arrays, GFX942)["q"].astype(np.int8)}
        assert check_outputs(operator, problem, arrays, outputs, GFX942)[0].ok == right


@pytest.mark.parametrize(("name", "keys", "words"), [
    ("quantize_rows", {"rounding": "zero"}, "8-bit floats are rounded to the nearest"),
    ("quantize_rows", {"n": 10, "q_stride": 9}, "q_stride=9: rows have n=10 elements; expected at least that"),
    ("quantize_tensor", {"shape": (2, 2), "strides": (1, 1)}, "elements of shape 2x2 would share a place"),
    ("quantize_tensor", {"shape": (4, 2**30)}, "reduce some of the dimensions first"),
    ("dequantize", {"n": 10, "ystride": 9}, "ystride=9: a row has 10 elements; expected at least that"),
    ("dequantize", {"major": "rows"}, "block=tensor has no rows of scales; expected k"),
    ("dequantize", {"dtype": "fp4", "block": "1x32", "scales": "f32"}, "scales=f32: fp4 has powers of two as scales"),
    ("dequantize", {**MX, "dtype": "fp6", "n": 30}, "n=30: rows of q are whole bytes, which 4 elements of fp6 share"),
    ("dequantize", {**MX, "dtype": "fp4", "stride": 1027}, "stride=1027: rows of q are whole bytes, which 2 elements"),
    ("dequantize", {"major": "tiles", "block": "1x32"}, "powers of two of 1x32 lie in tiles; expected scales=e8m0"),
    ("dequantize", {"align": 3}, "align=3: elements of y have 2 bytes; expected a power of two from that on"),
    ("dequantize", {"m": 2**31 - 1}, "m=2147483647: expected at most 2147482623"),
    ("dequantize", {"m": 2**17, "n": 2**15}, "kernels address at most"),
])  # fmt: skip
def test_what_is_refused(name: str, keys: dict[str, Any], words: str) -> None:
    with pytest.raises(RequestError, match=words):
        find_operator(name).problem(**keys)


@pytest.mark.parametrize("name", ["quantize_rows", "quantize_tensor", "dequantize"])
def test_chips_without_eight_bit_floats(name: str) -> None:
    operator, target = find_operator(name), get_target("gfx90a")
    reasons = operator.validate(operator.spec(operator.problem(), target), target)
    assert "gfx90a has no 8-bit floating point" in str(reasons[0])
