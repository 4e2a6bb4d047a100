"""Tensor operators without a device: references against loops and NumPy's own functions, folding, tiles, expressions,
tolerances, and what is refused."""

from __future__ import annotations

import itertools
import math
import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ckmlir.ops import find_operator
from ckmlir.ops.comparison import compare
from ckmlir.ops.precision import in_f32
from ckmlir.ops.request import RequestError
from ckmlir.ops.spec import Spec
from ckmlir.ops.tensors.arrays import packed
from ckmlir.ops.tensors.expression import evaluate_exactly, parse, read_expression
from ckmlir.ops.tensors.folding import fold
from ckmlir.ops.tensors.functions import FUNCTIONS
from ckmlir.ops.tensors.rounding import expression_error
from ckmlir.ops.tensors.tiling import MAXIMUM_REACH, choose_tile, tile_counts
from ckmlir.targets import all_targets, get_target

GFX942 = get_target("gfx942")
NAMES = (
    "reduce", "elementwise", "cast", "unpack_int4", "permute", "transpose2d", "batched_transpose", "copy", "img2col",
    "pooling",
)  # fmt: skip


def outputs_of(name: str, **keys: object) -> tuple[dict[str, Any], dict[str, Any]]:
    """Inputs and reference of a request."""
    operator = find_operator(name)
    problem = operator.problem(**keys)
    arrays = operator.inputs(problem, GFX942, seed=4)
    return arrays, operator.reference(problem, arrays)


# -- references


@pytest.mark.parametrize("order", list(itertools.permutations(range(4))))
def test_permute_is_transpose(order: tuple[int, ...]) -> None:
    arrays, found = outputs_of("permute", shape=(2, 3, 4, 5), perm=order)
    np.testing.assert_array_equal(found["y"], np.transpose(arrays["x"], order).astype(np.float64))


def test_transposes_and_copies() -> None:
    arrays, found = outputs_of("transpose2d", m=5, n=7, stride=9)
    np.testing.assert_array_equal(found["y"], arrays["x"].T.astype(np.float64))
    for layout, order in (("NCHW", (0, 2, 3, 1)), ("NHWC", (0, 3, 1, 2))):
        arrays, found = outputs_of("batched_transpose", n=2, c=3, h=4, w=5, layout=layout)
        np.testing.assert_array_equal(found["y"], np.transpose(arrays["x"], order).astype(np.float64))
    arrays, found = outputs_of("copy", m=3, n=4)
    np.testing.assert_array_equal(found["y"], arrays["x"].astype(np.float64))


def test_unpacked_integers_one_by_one() -> None:
    arrays, found = outputs_of("unpack_int4", shape=(3, 8))
    for i, j in np.ndindex(3, 8):
        half = int(arrays["x"][i, j // 2]) >> (4 * (j % 2)) & 15
        assert found["y"][i, j] == (half - 16 if half > 7 else half)


def test_img2col_by_loops() -> None:
    """Two groups, different strides, dilations and paddings in both dimensions."""
    arrays, found = outputs_of(
        "img2col", n=2, g=2, c=3, image=(6, 5), window=(3, 2), strides=(2, 1), dilations=(1, 2), pads=(1, 0),
        right_pads=(0, 3), dtype="f32",
    )  # fmt: skip
    x = arrays["x"]
    rows, columns = (6 + 1 - 3) // 2 + 1, (5 + 3 - 3) // 1 + 1
    assert found["y"].shape == (2, 2 * rows * columns, 3 * 2 * 3)
    for g, n, ho, wo, y, w, c in np.ndindex(2, 2, rows, columns, 3, 2, 3):
        h, v = ho * 2 + y - 1, wo + 2 * w
        expected = x[n, h, v, g, c] if 0 <= h < 6 and 0 <= v < 5 else 0.0
        assert found["y"][g, (n * rows + ho) * columns + wo, (y * 2 + w) * 3 + c] == expected


@pytest.mark.parametrize("op", ["max", "padding", "elements", "some"])
def test_pooling_by_loops(op: str) -> None:
    """`some`: an average counts no padding behind the image."""
    keys: dict[str, object] = {"op": "max", "index": 1} if op == "max" else {"op": "average", "count": op}
    if op == "some":
        keys.update(count="padding", counted_pads=0)
    keys.update(n=1, c=2, image=(5, 4), window=(3, 2), strides=(2, 1), pads=(1, 1), dtype="f32")
    arrays, found = outputs_of("pooling", **keys)
    x = arrays["x"].astype(np.float64)
    for ho, wo, c in np.ndindex(*found["y"].shape[1:]):
        inside = [
            (x[0, h, w, c], (h * 4 + w) * 2 + c)
            for y, v in np.ndindex(3, 2)
            for h, w in [(ho * 2 + y - 1, wo + v - 1)]
            if 0 <= h < 5 and 0 <= w < 4
        ]
        if op == "max":
            best = max(inside, key=lambda pair: pair[0])
            assert (found["y"][0, ho, wo, c], found["index"][0, ho, wo, c]) == best
        else:
            near = min(3, 5 + 1 - ho * 2) * min(2, 4 + 1 - wo)
            divisor = {"padding": 6, "elements": len(inside), "some": near}[op]
            assert found["y"][0, ho, wo, c] == pytest.approx(math.fsum(value for value, _ in inside) / divisor)


def test_reductions_by_numpy() -> None:
    arrays, found = outputs_of("reduce", shape=(3, 4, 5), dims=(0, 2), ops="sum,mean,max,min,amax,sumsq", dtype="f32")
    x = arrays["x"].astype(np.float64)
    wanted = {
        "y_sum": x.sum((0, 2)), "y_mean": x.mean((0, 2)), "y_max": x.max((0, 2)), "y_min": x.min((0, 2)),
        "y_amax": np.abs(x).max((0, 2)), "y_sumsq": (x * x).sum((0, 2)),
    }  # fmt: skip
    assert found.keys() == wanted.keys()
    for name, value in wanted.items():
        np.testing.assert_allclose(found[name], value, rtol=1e-12)


def test_sums_of_integers_wrap() -> None:
    operator = find_operator("reduce")
    problem = operator.problem(shape=(1, 3), dtype="i32")
    found = operator.reference(problem, {"x": np.array([[2**31 - 1, 1, 5]], np.int32)})
    assert found["y"].tolist() == [5 - 2**31]


# -- tolerances


def test_tolerances_tell_a_neighbouring_function_apart() -> None:
    """What the bounds admit is f32 arithmetic, not another function."""
    operator = find_operator("elementwise")
    for op, other in (("gelu(a)", "gelu_tanh(a)"), ("a + b", "a - b"), ("exp(a)", "exp(a) + 0.0001")):
        problem = operator.problem(op=op, shape=(64, 64), dtype="f32")
        arrays = operator.inputs(problem, GFX942)
        reference = operator.reference(problem, arrays)
        tolerance = operator.tolerances(problem, arrays, reference, GFX942)["y"]
        wrong = operator.reference(operator.problem(op=other, shape=(64, 64), dtype="f32"), {**arrays})["y"]
        assert compare("y", reference["y"].astype(np.float32), reference["y"], tolerance).ok
        assert not compare("y", wrong.astype(np.float32), reference["y"], tolerance).ok


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=30)
def test_error_bounds_hold_in_f32(seed: int) -> None:
    """A chain of f32 operations stays within the propagated bound."""
    x, y = np.random.default_rng(seed).standard_normal((2, 200)).astype(np.float32)
    expression = parse("(a * b + 1.5) / (abs(b) + 0.5) - sqrt(abs(a))", ("a", "b"))
    error = expression_error(expression, {"a": x.astype(np.float64), "b": y.astype(np.float64)})
    exact = evaluate_exactly(expression, {"a": x.astype(np.float64), "b": y.astype(np.float64)})
    found = (x * y + np.float32(1.5)) / (np.abs(y) + np.float32(0.5)) - np.sqrt(np.abs(x))
    assert (np.abs(found - exact) <= error).all()


TEXTS = [name for name, function in FUNCTIONS.items() if function.text and function.arity == 1]


@pytest.mark.parametrize("name", TEXTS)
def test_texts_of_functions_mean_what_they_approximate(name: str) -> None:
    """The text that kernels compute is the function, but for the error that the table admits."""
    function = FUNCTIONS[name]
    assert function.text is not None
    x = np.linspace(0.05, 3, 101) if name in ("log", "log1p", "reciprocal", "_erf_tail") else np.linspace(-6, 6, 201)
    expression = parse(function.text, ("x",))
    np.testing.assert_allclose(
        evaluate_exactly(expression, {"x": x}), function.exact(x), rtol=1e-9, atol=1e-9 + function.error
    )


@pytest.mark.parametrize("name", [name for name, one in FUNCTIONS.items() if one.text and name[0] != "_"])
def test_texts_of_functions_agree_on_what_is_no_usual_number(name: str) -> None:
    """NaN, infinities, zeros and numbers whose squares overflow, in every place."""
    function = FUNCTIONS[name]
    assert function.text is not None
    special = [math.nan, math.inf, -math.inf, 0.0, -0.0, 1e30, -1e30, 1e20, 1.0, -2.5, 3.0]
    arguments = np.array(list(itertools.product(special, repeat=function.arity))).T
    variables = dict(zip("xyz", arguments, strict=False))
    found = evaluate_exactly(parse(function.text, tuple(variables)), variables)
    with np.errstate(all="ignore"):
        wanted = in_f32(function.exact(*arguments))
    np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-9 + function.error)


# -- folding and tiles

shapes = st.lists(st.integers(1, 7), min_size=1, max_size=5)


@given(shapes, st.data())
@settings(max_examples=100)
def test_folding_keeps_every_element_in_its_place(shape: list[int], data: st.DataObject) -> None:
    """The folded index space visits the same pairs of offsets as the whole one."""
    order = data.draw(st.permutations(range(len(shape))))
    lengths = [shape[dim] for dim in order]
    x = [packed(shape)[dim] for dim in order]
    y = packed(lengths)
    folded = fold(lengths, [y, x])

    def offsets(sizes: Any, rows: Any) -> set[tuple[int, ...]]:
        return {tuple(int(np.dot(index, row)) for row in rows) for index in np.ndindex(*sizes)}

    assert offsets(folded.lengths, folded.strides) == offsets(lengths, [y, x])
    assert len(folded.lengths) <= len(lengths)


@given(st.lists(st.integers(1, 5000), min_size=1, max_size=4), st.data())
@settings(max_examples=100)
def test_tiles_are_powers_of_two_within_reach(lengths: list[int], data: st.DataObject) -> None:
    strides = [[data.draw(st.integers(1, 2**31 - 1)) for _ in lengths] for _ in range(2)]
    tile = choose_tile(fold(lengths, strides), ["f16", "f32"])
    folded = fold(lengths, strides)
    assert all(extent & (extent - 1) == 0 for extent in tile)
    assert all(
        count * extent >= length
        for count, extent, length in zip(tile_counts(folded.lengths, tile), tile, folded.lengths, strict=True)
    )
    for row, size in zip(folded.strides, (2, 4), strict=True):
        assert sum((extent - 1) * stride for extent, stride in zip(tile, row, strict=True)) * size < MAXIMUM_REACH


# -- specifications and refusals


@pytest.mark.parametrize("target", all_targets(), ids=str)
@pytest.mark.parametrize("name", NAMES)
def test_default_kernels(name: str, target: Any) -> None:
    """Distinct names, valid, and the same after a round trip through JSON; no 8-bit floats on gfx90a."""
    operator = find_operator(name)
    specs: list[Spec] = operator.kernels(target)
    assert specs and len({spec.name for spec in specs}) == len(specs)
    for spec in specs:
        assert re.fullmatch(r"[a-z0-9_]+", spec.name)
        assert operator.validate(spec, target) == []
        assert type(spec).from_json(spec.to_json()) == spec
        assert target.name != "gfx90a" or not {"fp8", "bf8"} & set(getattr(spec, "dtypes", ()))


@pytest.mark.parametrize(
    ("name", "keys", "words"),
    [
        ("permute", {"shape": (2, 3), "perm": (0, 0)}, "perm=0x0: expected every number from 0 to 1 once"),
        ("permute", {"shape": (2,) * 9}, "1 to 8 whole numbers"),
        ("cast", {"shape": (4, 4), "ystrides": (3, 1)}, "would share a place; expected a stride above 3"),
        ("reduce", {"shape": (4, 4), "strides": (0, 1)}, "would share a place; expected a stride above 0"),
        ("permute", {"shape": (4, 4), "strides": (4,)}, "expected one for each of 2 dimensions"),
        ("copy", {"m": 4, "n": 8, "stride": 7}, "stride=7: rows have 8 elements"),
        ("copy", {"align": 3}, "align=3: expected a power of two"),
        ("copy", {"dtype": "f32", "align": 2}, "elements of x have 4 bytes"),
        ("elementwise", {"op": "a + z"}, "there is no array 'z'"),
        ("elementwise", {"op": "__import__('os')"}, "unknown function"),
        ("elementwise", {"op": "a.real"}, "expected arrays, numbers, + - * /"),
        ("elementwise", {"op": "a + "}, "not an expression"),
        ("elementwise", {"op": "(" * 300 + "a" + ")" * 300}, "nested too deeply"),
        ("elementwise", {"op": "relu(a, b)"}, "relu takes 1 argument"),
        ("elementwise", {"op": "a > b"}, "a comparison may only be the first argument of where"),
        ("elementwise", {"op": "gelo(a)"}, "gelu"),
        ("elementwise", {"op": "a / b", "dtype": "i32"}, "integers are not divided"),
        ("elementwise", {"op": "exp(a)", "dtype": "i32"}, "exp has no meaning for integers"),
        ("elementwise", {"op": "a", "b": (4,)}, "op=a has no array b"),
        ("elementwise", {"op": "a + b", "shape": (4, 5), "b": (4,)}, "does not broadcast to 4x5"),
        ("reduce", {"shape": (2, 3), "dims": (2,)}, "expected different numbers below 2"),
        ("reduce", {"ops": "sum,median"}, "1 to 6 of sum, mean"),
        ("reduce", {"ops": "sum,max", "before": "a;a;a"}, "3 expressions; expected one, or one for each of 2"),
        ("reduce", {"ops": "mean", "dtype": "i8"}, "a mean of integers needs a floating-point output"),
        ("reduce", {"ops": "min", "atomic": 1, "out": "f32"}, "memory does not combine min"),
        ("reduce", {"atomic": 1}, "memory does not combine f16"),
        ("reduce", {"dtype": "i32", "atomic": 1, "align": 2}, "multiples of their 4 bytes, not of align=2"),
        ("img2col", {"image": (4, 4), "window": (2, 2, 2)}, "expected one number, or one for each of 2"),
        ("pooling", {"op": "average", "index": 1}, "index=1: op=average has no maximum"),
        ("pooling", {"count": "elements"}, "op=max counts nothing"),
        ("pooling", {"counted_pads": 0}, "counted_pads=0: expected op=average with count=padding"),
        ("pooling", {"op": "average", "counted_pads": (0, 2)}, "counted_pads=0x2: expected at most right_pads=1x1"),
        ("unpack_int4", {"shape": (4, 5)}, "expected an even number"),
    ],
)  # fmt: skip
def test_requests_that_are_refused(name: str, keys: dict[str, object], words: str) -> None:
    with pytest.raises(RequestError) as error:
        find_operator(name).problem(**keys)
    assert words in str(error.value)


@pytest.mark.parametrize("name", [name for name in NAMES if name != "unpack_int4"])
def test_eight_bit_floats_are_refused_on_gfx90a(name: str) -> None:
    operator, target = find_operator(name), get_target("gfx90a")
    reasons = operator.validate(operator.spec(operator.problem(dtype="fp8"), target), target)
    assert any("gfx90a has no 8-bit floating point; it starts with gfx942" in str(reason) for reason in reasons)


@pytest.mark.parametrize("number", ["3.4028234663852886e38", "1.4012985e-45", "0", "2e-38"])
def test_numbers_of_expressions_are_those_of_f32(number: str) -> None:
    """From its smallest to its largest: what f32 rounds to 0 or infinity is refused."""
    assert read_expression(f"a * {number}", ("a",)).variables == ("a",)
    for other in ("3.4028236e38", "1e-46", "1e999", "True"):
        with pytest.raises(RequestError, match="expected a number"):
            read_expression(f"a * {number} + {other}", ("a",))


def test_direct_copies_need_pieces_of_four_bytes() -> None:
    operator = find_operator("copy")
    spec = operator.spec(operator.problem(m=4, n=7, stride=9, through="direct"), GFX942)
    assert "aligned pieces of 4 bytes" in str(operator.validate(spec, GFX942)[0])


def test_expressions_are_never_run() -> None:
    """Text that Python would act on is refused by its form."""
    for text in ("open('x')", "(lambda: 1)()", "[a]", "a if b else a", "a @ b", "a ** b", "'x'", "a := b", "f(*a)"):
        with pytest.raises(RequestError):
            read_expression(text, ("a", "b"))
    with pytest.raises(RequestError, match="characters"):
        read_expression("-" * 3000 + "a", ("a",))
    assert read_expression("a+(b*2)", ("a", "b")).text == "a + b * 2"
