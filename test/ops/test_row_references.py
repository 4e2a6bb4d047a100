"""Row operators: references against rows computed by hand, tolerances that reject what is wrong, refused requests."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ckmlir.ops import find_operator
from ckmlir.ops.comparison import compare
from ckmlir.ops.dtypes import numpy_dtype
from ckmlir.ops.precision import through_jumps
from ckmlir.ops.request import RequestError
from ckmlir.targets import all_targets, get_target

GFX942, GFX950 = get_target("gfx942"), get_target("gfx950")
ROW_OPERATORS = (
    "layernorm2d", "rmsnorm2d", "add_rmsnorm2d_rdquant", "smoothquant", "moe_smoothquant", "softmax", "topk_softmax",
)  # fmt: skip


def made(name: str, **keys: Any) -> tuple[Any, Any, dict[str, np.ndarray]]:
    """An operator, a problem and its inputs."""
    operator = find_operator(name)
    problem = operator.problem(**keys)
    return operator, problem, operator.inputs(problem, GFX942, seed=3)


def quantised_by_hand(row: list[float], largest: float, nearest: bool) -> tuple[list[int], float]:
    """i8 of one row, element by element."""
    scale = max(max(abs(value) for value in row) / largest, 2.0**-126)
    values = [value / scale for value in row]
    return [round(value) if nearest else math.trunc(value) for value in values], scale


# -- references


def test_rmsnorm2d_by_rational_arithmetic() -> None:
    operator, problem, arrays = made("rmsnorm2d", m=3, n=11, dtype="f16", add="store", save_stats=1, eps=1e-3)
    outputs = operator.reference(problem, arrays)
    for i in range(3):
        row = [Fraction(float(x)) + Fraction(float(r)) for x, r in zip(arrays["x"][i], arrays["residual"][i])]
        inv_rms = 1 / math.sqrt(sum(value * value for value in row) / 11 + Fraction(1e-3))
        assert outputs["inv_rms"][i] == pytest.approx(inv_rms, rel=1e-12)
        expected = [float(value) * inv_rms * float(gamma) for value, gamma in zip(row, arrays["gamma"])]
        np.testing.assert_allclose(outputs["y"][i], expected, rtol=1e-12)
        np.testing.assert_allclose(outputs["sum"][i], [float(value) for value in row], rtol=1e-15)


@pytest.mark.parametrize("dtype", ["f16", "bf16"])
def test_t5_rounds_between_the_steps(dtype: str) -> None:
    """The sum, the normalised row, and for bf16 the product are numbers of the dtype."""
    operator, problem, arrays = made("rmsnorm2d", m=4, n=64, dtype=dtype, add="store", t5=1, save_stats=1)
    outputs = operator.reference(problem, arrays)
    numbers = numpy_dtype(dtype, GFX942)
    for i in range(4):
        x = (arrays["x"][i].astype(np.float64) + arrays["residual"][i].astype(np.float64)).astype(numbers)
        inv_rms = 1 / math.sqrt(np.mean(x.astype(np.float64) ** 2) + 1e-5)
        y = (x.astype(np.float64) * inv_rms).astype(numbers).astype(np.float64) * arrays["gamma"].astype(np.float64)
        if dtype == "bf16":
            y = y.astype(numbers).astype(np.float64)
        np.testing.assert_array_equal(outputs["y"][i], y)
        assert outputs["inv_rms"][i] == pytest.approx(inv_rms, rel=1e-12)


@pytest.mark.parametrize("rounding", ["zero", "nearest"])
def test_smoothquant_by_hand(rounding: str) -> None:
    operator, problem, arrays = made("smoothquant", m=5, n=37, rounding=rounding)
    outputs = operator.reference(problem, arrays)
    for i in range(5):
        row = [float(x) * float(s) for x, s in zip(arrays["x"][i], arrays["smooth"])]
        q, scale = quantised_by_hand(row, 127.0, rounding == "nearest")
        assert outputs["yscale"][i] == pytest.approx(scale, rel=1e-14)
        off = np.abs(outputs["q"][i] - q)
        assert off.max() <= 1 and off.sum() <= 1  # the largest element itself may stand on either side of a step


def test_truncation_of_i8() -> None:
    """CK Tile's examples: -3.99 at scale 1 becomes -3, 127.9 becomes 127."""
    operator, problem, arrays = made("smoothquant", m=1, n=4, dtype="f32")
    arrays = {"x": np.array([[-3.99, 127.0, 126.9, 0.99]], np.float32), "smooth": np.ones(4, np.float32)}
    assert operator.reference(problem, arrays)["q"].tolist() == [[-3, 127, 126, 0]]


@pytest.mark.parametrize(("chip", "largest"), [("gfx942", 240.0), ("gfx950", 448.0)])
def test_fp8_takes_the_format_of_the_chip(chip: str, largest: float) -> None:
    operator, problem, arrays = made("smoothquant", m=6, n=50, out="fp8")
    outputs = operator.expected(problem, arrays, get_target(chip))
    y = arrays["x"].astype(np.float64) * arrays["smooth"].astype(np.float64)
    np.testing.assert_allclose(outputs["yscale"], np.abs(y).max(axis=1) / largest, rtol=1e-14)
    format_ = ml_dtypes.float8_e4m3fnuz if chip == "gfx942" else ml_dtypes.float8_e4m3fn
    np.testing.assert_array_equal(outputs["q"], (y / outputs["yscale"][:, None]).astype(format_).astype(np.float64))
    assert np.abs(outputs["q"]).max() == largest


def test_rows_of_zeros_quantise_to_zeros() -> None:
    """The scale is the smallest normal f32."""
    operator, problem, arrays = made("smoothquant", m=2, n=8)
    arrays["x"][:] = 0
    outputs = operator.reference(problem, arrays)
    assert not outputs["q"].any() and (outputs["yscale"] == 2.0**-126).all()


def test_a_scale_is_open_where_an_element_may_overflow_or_not() -> None:
    """Of equal elements of 1e20 f32 may have deviations of a step, which count for one beside eps: y is 0 or 2e20."""
    operator, problem, arrays = made("layernorm2d", m=2, n=3, dtype="f32", quant="smooth")
    for name in ("gamma", "beta", "smooth"):
        arrays[name][:] = 1e20
    arrays["x"][:] = [[1e20, 1e20, 1e20], [1, 2, 3]]
    reference = operator.expected(problem, arrays, GFX942)
    assert np.isinf(reference["yscale"]).all()
    tolerances = operator.tolerances(problem, arrays, reference, GFX942)
    for name in ("q", "yscale"):
        assert np.asarray(tolerances[name].unspecified).ravel().tolist() == [True, False]


def test_a_sum_with_a_factor_at_the_end_of_f32_is_open_too() -> None:
    """Of equal elements y is gamma, the largest number of f32, or by a rounding an infinity; of zeros it is 0."""
    operator, problem, arrays = made("add_rmsnorm2d_rdquant", m=2, n=4, dtype="f32", eps=0.0)
    arrays["gamma"][:] = np.finfo(np.float32).max
    arrays["a"][:], arrays["b"][:] = [[1] * 4, [0] * 4], 0
    reference = operator.expected(problem, arrays, GFX942)
    tolerances = operator.tolerances(problem, arrays, reference, GFX942)
    for name in ("q", "yscale"):
        assert np.asarray(tolerances[name].unspecified).ravel().tolist() == [True, False]


def test_moe_smoothquant_takes_the_scales_of_the_expert() -> None:
    operator, problem, arrays = made("moe_smoothquant", m=4, n=16, experts=3, k=2)
    arrays["topk_ids"][1, 0], arrays["topk_ids"][2, 1] = -1, 3
    outputs = operator.reference(problem, arrays)
    for token in range(4):
        for slot in range(2):
            expert = int(arrays["topk_ids"][token, slot])
            scales = arrays["smooth"][expert] if 0 <= expert < 3 else np.zeros(16)
            row = [float(x) * float(s) for x, s in zip(arrays["x"][token], scales)]
            q, scale = quantised_by_hand(row, 127.0, False)
            assert np.abs(outputs["q"][slot, token] - q).sum() <= 1
            assert outputs["yscale"][slot, token] == pytest.approx(scale, rel=1e-14)


@given(
    scores=st.lists(st.sampled_from([-math.inf, -2.0, 0.0, 0.5, 1.0, math.nan]), min_size=3, max_size=9),
    k=st.integers(1, 3), renormalize=st.booleans(), activation=st.sampled_from(["softmax", "sigmoid"]),
)  # fmt: skip
@settings(max_examples=150)
def test_topk_softmax_by_hand(scores: list[float], k: int, renormalize: bool, activation: str) -> None:
    """The k best, the lower index first among equals; weights over all experts."""
    operator, problem, _ = made(
        "topk_softmax", m=1, n=len(scores), k=k, dtype="f32", activation=activation, renormalize=renormalize
    )
    outputs = operator.reference(problem, {"x": np.array([scores], np.float32)})
    known = [-math.inf if math.isnan(score) else score for score in scores]
    chosen = sorted(range(len(known)), key=lambda place: (-known[place], place))[:k]
    assert outputs["indices"][0].tolist() == chosen
    if activation == "softmax":
        powers = [math.exp(score) for score in known]
        weights = [powers[place] / (sum(powers) or 1.0) for place in chosen]
    else:
        weights = [1 / (1 + math.exp(-known[place])) if known[place] > -math.inf else 0.0 for place in chosen]
    if renormalize:
        weights = [weight / (sum(weights) or 1.0) for weight in weights]
    np.testing.assert_allclose(outputs["weights"][0], weights, rtol=1e-12)


@given(values=st.lists(st.floats(-30, 30, width=16), min_size=1, max_size=12), data=st.data())
@settings(max_examples=100)
def test_softmax_by_hand(values: list[float], data: st.DataObject) -> None:
    """Elements that the mask leaves out are 0; nothing left gives zeros."""
    mask = data.draw(st.lists(st.sampled_from([0, 1, -1]), min_size=len(values), max_size=len(values)))
    operator, problem, _ = made("softmax", m=1, n=len(values), mask=1, scale=0.5)
    arrays = {"x": np.array([values], np.float16), "mask": np.array([mask], np.int8)}
    powers = [math.exp(0.5 * value) if kept else 0.0 for value, kept in zip(values, mask)]
    expected = [power / (sum(powers) or 1.0) for power in powers]
    np.testing.assert_allclose(operator.reference(problem, arrays)["y"][0], expected, rtol=1e-9)


# -- tolerances


@given(
    values=st.lists(st.floats(-100, 100), min_size=1, max_size=20), error=st.floats(0, 0.4),
    shifts=st.lists(st.floats(-1, 1), min_size=20, max_size=20),
)  # fmt: skip
def test_jumps_cover_every_argument_within_the_error(values: list[float], error: float, shifts: list[float]) -> None:
    x = np.array(values)
    moved = x + error * np.array(shifts[: len(values)])
    allowed = through_jumps(x, np.full(len(values), error), np.trunc)
    assert (np.abs(np.trunc(moved) - np.trunc(x)) <= allowed).all()


def output_of_another(name: str, output: str, wrong: dict[str, Any], **keys: Any) -> bool:
    """Whether the tolerance of `output` accepts what the operator gives with other keys for the same inputs."""
    operator, problem, arrays = made(name, **keys)
    other = operator.problem(**{**keys, **wrong})
    reference = operator.reference(problem, arrays)
    tolerance = operator.tolerances(problem, arrays, reference, GFX950)[output]
    dtypes = {array.name: array.dtype for array in operator.arrays(problem)}
    actual = operator.reference(other, arrays)[output].astype(numpy_dtype(dtypes[output], GFX950))
    return compare(output, actual, reference[output], tolerance).ok


@pytest.mark.parametrize(("name", "output", "wrong"), [
    ("smoothquant", "q", {"rounding": "nearest"}),
    ("rmsnorm2d", "y", {"t5": 1}),
    ("rmsnorm2d", "y", {"eps": 1e-2}),
    ("layernorm2d", "y", {"eps": 1e-2}),
    ("softmax", "y", {"scale": 1.01}),
    ("topk_softmax", "weights", {"renormalize": 1}),
    ("topk_softmax", "weights", {"activation": "sigmoid"}),
    ("add_rmsnorm2d_rdquant", "yscale", {"eps": 1e-2}),
])  # fmt: skip
def test_tolerances_reject_another_result(name: str, output: str, wrong: dict[str, Any]) -> None:
    """What another rounding, another mode or another constant gives is outside; the reference itself is inside."""
    keys = {"m": 8, "n": 256, "dtype": "bf16"}
    assert output_of_another(name, output, {}, **keys)
    assert not output_of_another(name, output, wrong, **keys)


# -- requests and specifications


@pytest.mark.parametrize("name", ROW_OPERATORS)
@pytest.mark.parametrize("target", all_targets(), ids=str)
def test_default_kernels(name: str, target: Any) -> None:
    operator = find_operator(name)
    specs = operator.kernels(target)
    assert specs and len({spec.name for spec in specs}) == len(specs)
    for spec in specs:
        assert operator.validate(spec, target) == []
        assert operator.spec_type.from_json(spec.to_json()) == spec


@pytest.mark.parametrize("name", [name for name in ROW_OPERATORS if "softmax" not in name])
def test_eight_bit_floats_are_absent_from_gfx90a(name: str) -> None:
    operator = find_operator(name)
    keys = {"quant": "dynamic"} if name in ("layernorm2d", "rmsnorm2d") else {}
    spec = operator.spec(operator.problem(out="fp8", **keys), get_target("gfx90a"))
    (reason,) = operator.validate(spec, get_target("gfx90a"))
    assert "out=fp8: gfx90a has no 8-bit floating point; expected i8, or a chip from gfx942 on" in str(reason)
    assert not any(getattr(one, "out", "") == "fp8" for one in operator.kernels(get_target("gfx90a")))


@pytest.mark.parametrize(("name", "keys", "words"), [
    ("topk_softmax", {"k": 65}, "k=65: there are n=64 experts"),
    ("topk_softmax", {"k": 0}, "k=0: expected a whole number from 1"),
    ("topk_softmax", {"n": 0}, "n=0: expected a whole number from 1"),
    ("softmax", {"mask_stride": 9}, "mask_stride=9: there is no array mask; expected mask=1 with it, or nothing"),
    ("softmax", {"scale": "inf"}, "scale=inf"),
    ("softmax", {"n": 2**29, "dtype": "f32"}, "n=536870912: a row of x takes 2 GiB or more"),
    ("smoothquant", {"out": "bf8"}, "out=bf8: expected i8|fp8"),
    ("smoothquant", {"q_stride": 10}, "q_stride=10: rows have n=1024"),
    ("rmsnorm2d", {"quant": "static"}, "quant=static: expected none|dynamic|smooth"),
    ("add_rmsnorm2d_rdquant", {"out": "fp8", "rounding": "zero"}, "8-bit floats are rounded to the nearest"),
    ("moe_smoothquant", {"experts": 10**6, "n": 4096}, "array smooth of shape 1000000x4096 takes"),
])  # fmt: skip
def test_requests_that_are_refused(name: str, keys: dict[str, Any], words: str) -> None:
    with pytest.raises(RequestError) as error:
        find_operator(name).problem(**keys)
    assert words in str(error.value)


def test_experts_have_to_fit_into_registers() -> None:
    operator = find_operator("topk_softmax")
    assert operator.validate(operator.spec(operator.problem(n=8192), GFX942), GFX942) == []
    reasons = operator.validate(operator.spec(operator.problem(n=8193), GFX942), GFX942)
    assert any("a work-item would hold 64 elements" in str(reason) for reason in reasons)
