"""NaN, infinities, powers and long expressions: kernel and reference follow one written rule, whatever the length."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from operator_runner import CHIPS

from ckmlir.ops import find_operator
from ckmlir.ops.comparison import Array
from ckmlir.ops.tensors.expression import evaluate_exactly, parse, read_expression
from ckmlir.runtime import open_device
from ckmlir.runtime.run import check_outputs, run_operator
from ckmlir.targets import get_target

NAN, INFINITY = np.nan, np.inf


def outputs_for(name: str, chip: str, changes: dict[str, Any], **keys: Any) -> dict[str, Array]:
    """The outputs where each change has been made to its input array, after they agreed with the reference."""
    operator, target = find_operator(name), get_target(chip)
    problem = operator.problem(**keys)
    arrays = operator.inputs(problem, target, seed=1)
    for key, change in changes.items():
        change(arrays[key])
    result = run_operator(operator, problem, arrays, target, open_device("sim", target, seed=2))
    comparisons = check_outputs(operator, problem, arrays, result.outputs, target)
    assert all(one.ok for one in comparisons), "; ".join(map(str, comparisons))
    return result.outputs


# -- reduce


@pytest.mark.one_in(4)
@pytest.mark.parametrize("split", [{}, {"split": 3}])
@pytest.mark.parametrize("n", [1, 3, 64, 100, 4096, 9000])
def test_extrema_of_nan_alone_are_those_of_nothing(n: int, split: dict[str, int]) -> None:
    """NaN is left out, whether a row fills a tile, a part of one, or several."""

    def nan(x: Array) -> None:
        x[0] = NAN
        x[1, ::2] = NAN

    found = outputs_for("reduce", CHIPS[n % 3], {"x": nan}, shape=(3, n), dtype="f32", ops="max,min,amax", **split)
    assert [found[name][0] for name in ("y_max", "y_min", "y_amax")] == [-INFINITY, INFINITY, 0]
    assert n == 1 or np.isfinite(found["y_max"][1])


# -- attention


@pytest.mark.one_in(4)
@pytest.mark.parametrize("keys", [32, 70])
@pytest.mark.parametrize(("chip", "dtype"), [("gfx90a", "f16"), ("gfx942", "fp8"), ("gfx950", "bf16")])
def test_a_score_that_is_no_number_shows_in_output_and_logarithm(chip: str, dtype: str, keys: int) -> None:
    """NaN in a query, an infinite query, and a key that only later queries attend to."""

    def queries(q: Array) -> None:
        q[0, 0, 1, 0] = NAN
        if dtype != "fp8":
            q[0, 0, 2] = INFINITY

    def last_key(k: Array) -> None:
        k[0, 1, 31] = NAN

    found = outputs_for(
        "fmha_fwd", chip, {"q": queries, "k": last_key}, sq=70, sk=keys, d=64, dtype=dtype, lse=1, mask="top_left"
    )
    no_number = np.isnan(found["lse"])
    np.testing.assert_array_equal(np.isnan(found["o"].astype(np.float32)).all(axis=-1), no_number)
    assert no_number[0, 0, 1] and not no_number[0, 1, :31].any() and no_number[0, 1, 31:].all()


# -- normalisations


def rows_of_every_kind(x: Array) -> None:
    """Rows near f32's largest number and below its smallest normal one, equal ones, and such that are no numbers."""
    with np.errstate(over="ignore"):
        x[0] *= x.dtype.type(1e20)
        x[1] = np.where(x[1] < 0, -3e38, 3e38)
        x[2] *= x.dtype.type(1e-30)
        x[3, 0], x[4, 0], x[5, :2], x[6] = NAN, INFINITY, (INFINITY, -INFINITY), 0
        x[7] = 1e25
        x[8] *= x.dtype.type(2.0**-130)


NORMALISATIONS: list[tuple[str, dict[str, Any]]] = [
    ("rmsnorm2d", {"save_stats": 1}),
    ("rmsnorm2d", {"save_stats": 1, "eps": 0, "t5": 1}),
    ("rmsnorm2d", {"save_stats": 1, "eps": 1e30, "add": "store"}),
    ("rmsnorm2d", {"quant": "smooth", "out": "i8", "bias": 1}),
    *[("layernorm2d", {"save_stats": 1, "variance": one}) for one in ("centred", "welford", "squares")],
    ("layernorm2d", {"save_stats": 1, "add": "store", "quant": "dynamic", "out": "fp8"}),
    ("add_rmsnorm2d_rdquant", {}),
]


@pytest.mark.one_in(24)
@pytest.mark.parametrize("n", [2, 100, 2048, 9000])
@pytest.mark.parametrize("dtype", ["f16", "bf16", "f32"])
@pytest.mark.parametrize(("name", "keys"), NORMALISATIONS)
def test_rows_of_any_magnitude_are_normalised(name: str, keys: dict[str, Any], dtype: str, n: int) -> None:
    """Nothing overflows or vanishes on the way; a row with NaN or an infinity is NaN in all that is f32."""
    x = "a" if name == "add_rmsnorm2d_rdquant" else "x"
    chip = CHIPS[(n + len(keys)) % 3] if keys.get("out") != "fp8" else "gfx942"
    found = outputs_for(name, chip, {x: rows_of_every_kind}, m=9, n=n, dtype=dtype, **keys)
    rows = found.get("y")
    if rows is not None:
        no_number = np.isnan(rows.astype(np.float32))
        np.testing.assert_array_equal(no_number.all(axis=1), no_number.any(axis=1))
        assert no_number[3:6].all()
        assert dtype == "f16" or n < 100 or np.abs(rows[0].astype(np.float32)).max() > 0.5
    for statistic in ("mean", "inv_std", "inv_rms"):
        assert statistic not in found or np.isnan(found[statistic][3:6]).all()


@pytest.mark.parametrize("variance", ["centred", "welford", "squares"])
def test_without_eps_rounding_decides_on_rows_of_equal_numbers(variance: str) -> None:
    """Of them nothing is promised but the mean; of zeros that they are divided by 0, and so NaN."""

    def equal(x: Array) -> None:
        x[0], x[1], x[2] = 65504, 0, 0.1

    found = outputs_for("layernorm2d", "gfx942", {"x": equal}, m=4, n=3, eps=0, save_stats=1, variance=variance)
    assert found["mean"][0] == 65504 and found["inv_std"][1] == INFINITY and np.isnan(found["y"][1]).all()


# -- expressions

BASES = [-INFINITY, -1e30, -3.5, -2.0, -1.0, -0.5, -0.0, 0.0, 0.5, 1.0, 2.0, 3.5, 1e30, INFINITY, NAN]


@pytest.mark.parametrize("dtype", ["f32", "bf16"])
def test_power_is_that_of_c(dtype: str) -> None:
    """Every pair of special numbers as NumPy has it, but that -0 counts as 0."""
    exponents = [-INFINITY, -3.0, -2.5, -2.0, -1.0, 0.0, 0.5, 1.0, 2.0, 3.0, 7.0, 2.0**25, INFINITY, NAN]
    a, b = np.meshgrid(BASES, exponents)

    def given(values: Array) -> Any:
        return lambda array: array.__setitem__(..., values)

    found = outputs_for(
        "elementwise", "gfx942", {"a": given(a), "b": given(b)}, op="pow(a, b)", shape=a.shape, dtype=dtype
    )["y"].astype(np.float64)
    with np.errstate(all="ignore"):
        wanted = np.power(a + 0.0, b).astype(np.float32)
    np.testing.assert_array_equal(np.isnan(found), np.isnan(wanted))
    np.testing.assert_array_equal(np.sign(found), np.sign(wanted))
    np.testing.assert_array_equal(np.isinf(found), np.isinf(wanted))


def test_powers_of_negative_denormals_are_those_of_negative_numbers() -> None:
    """NaN where the exponent is a fraction, the sign of odd ones; their magnitude counts as 0."""

    def given(values: list[float]) -> Any:
        return lambda array: array.__setitem__(..., np.float32(values))

    bases, exponents = [-1e-40] * 6, [0.5, -2.5, -1e-40, 3.0, -3.0, -2.0]
    changes = {"a": given(bases), "b": given(exponents)}
    found = outputs_for("elementwise", "gfx942", changes, op="pow(a, b)", shape=(6,), dtype="f32")["y"]
    np.testing.assert_array_equal(found, [NAN, NAN, NAN, 0, -INFINITY, INFINITY])


@pytest.mark.parametrize("exponent", [-3, -1, 0, 1, 2, 5, 64, 0.5, 65])
def test_powers_that_are_written(exponent: float) -> None:
    """Also of negative numbers; whole ones up to 64 are products, so they err by a few roundings."""

    def given(array: Array) -> None:
        array[:] = np.resize([*BASES, 1.5, -1.25], array.shape)

    found = outputs_for("elementwise", "gfx950", {"a": given}, op=f"pow(a, {exponent})", shape=(3, 17), dtype="f32")
    if exponent in (2, 5):
        with np.errstate(over="ignore"):
            wanted = np.power(np.float64([-3.5, 1.5, -1.25]), exponent)
        np.testing.assert_allclose(found["y"][0, [2, 15, 16]], wanted, rtol=3e-7)


def test_denormals_are_zero_to_transcendental_functions() -> None:
    def tiny(array: Array) -> None:
        array[:] = np.float32([1e-40, -1e-40, 1e-45, 0, 2**-126, 1, 4, -1])[: array.shape[-1]]

    for op in ("sqrt(a)", "rsqrt(a)", "log2(a)", "exp2(a)", "log(abs(a))", "a * 0.5"):
        outputs_for("elementwise", "gfx942", {"a": tiny}, op=op, shape=(8,), dtype="f32")


@pytest.mark.parametrize("op", ["silu(a)", "swiglu(a, b)", "sigmoid(a)", "tanh(a)", "expm1(-a)", "a / (1 + exp(-a))"])
def test_where_the_exponential_overflows(op: str) -> None:
    """Before, around and behind e^88.7, which is more than f32 holds, though the function is not."""

    def given(array: Array) -> None:
        array[:] = np.linspace(-92, -85, array.size, dtype=np.float32).reshape(array.shape)

    found = outputs_for("elementwise", "gfx942", {"a": given}, op=op, shape=(16, 64), dtype="f32")["y"]
    assert not np.isnan(found).any()


def test_expressions_of_hundreds_of_terms() -> None:
    """Sums, nests and functions as deep as the length of a text allows."""
    for text in ("+".join("a" * 340), "-".join("ab" * 250), "-" * 900 + "a", "abs(" * 60 + "a" + ")" * 60):
        expression = read_expression(text, ("a", "b"))
        assert read_expression(expression.text, ("a", "b")).text == expression.text
        evaluate_exactly(expression, {"a": np.ones(3), "b": np.ones(3)})
    outputs_for("elementwise", "gfx90a", {}, op="+".join("a" * 340), shape=(5, 7), dtype="f32")
    long = read_expression(lambda a: sum((a for _ in range(300)), a), ("a",))
    assert long.text.count("+") == 300


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("a-(b-a)", "a - (b - a)"),
        ("(a-b)-a", "a - b - a"),
        ("a*(b+a)/(b*a)", "a * (b + a) / (b * a)"),
        ("-(a+b)*--a", "-(a + b) * --a"),
        ("-(a*b)", "-(a * b)"),
        ("where(a+1<=b,-a,2.50)", "where(a + 1 <= b, -a, 2.5)"),
        ("1e-7*pi+inf", "1e-07 * pi + inf"),
    ],
)
def test_canonical_text_reads_as_the_same_tree(written: str, read: str) -> None:
    expression = parse(written, ("a", "b"))
    assert expression.text == read
    values = {"a": np.float64([1.5, -2.0]), "b": np.float64([0.25, 7.0])}
    np.testing.assert_array_equal(
        evaluate_exactly(expression, values), evaluate_exactly(parse(read, ("a", "b")), values)
    )


@pytest.mark.parametrize("op", ["a + 1 / 0", "where(1 > 0, a, b)", "a * (1e38 * 1e38)", "a + log2(0)"])
def test_arithmetic_of_numbers_alone(op: str) -> None:
    outputs_for("elementwise", "gfx942", {}, op=op, shape=(33,), dtype="f32")


def test_numbers_of_integer_expressions_wrap() -> None:
    outputs_for(
        "elementwise", "gfx942", {}, op="a + 2147483647 + 5 - (2147483647 + 2147483647)", shape=(5, 7), dtype="i32"
    )


@pytest.mark.parametrize("op", ["a + b", "a * b", "a - b"])
@pytest.mark.parametrize("chip", CHIPS)
def test_bf16_beside_f16_is_not_computed_in_f16(op: str, chip: str) -> None:
    """A bf16 beyond the range of f16 next to an infinite f16, converted to f16: f32 in between, whose range LLVM gives
    away where it sees the extension of a bf16."""

    def large(a: Array) -> None:
        a[:] = [1e20, -1e20, 1e20, -1e20, 1e-30, 70000, -70000, 3e38]

    def infinite(b: Array) -> None:
        b[:] = [INFINITY, INFINITY, -INFINITY, -INFINITY, 65504, -65504, 6e-8, 0]

    keys = {"op": op, "shape": (8,), "a_dtype": "bf16", "b_dtype": "f16", "out": "f16"}
    y = outputs_for("elementwise", chip, {"a": large, "b": infinite}, **keys)["y"]
    assert not np.isnan(y[:4]).any()


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("n", [64, 20000], ids=["whole", "streamed"])
def test_the_largest_of_huge_values_keeps_its_weight(chip: str, n: int) -> None:
    """The difference of an exponent and the largest is exact where both are the same: no rest of a fused product."""
    operator, target = find_operator("softmax"), get_target(chip)
    problem = operator.problem(m=3, n=n, dtype="f32")
    x = (np.random.default_rng(1).standard_normal((3, n)) * 2.0**66).astype(np.float32)
    y = run_operator(operator, problem, {"x": x}, target, open_device("sim", target)).outputs["y"]
    assert np.array_equal(y, x == x.max(axis=1, keepdims=True))
