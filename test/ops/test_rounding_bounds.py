"""Bounds of expressions of values that are uncertain: what is known of nothing stays so, next to NaN as well."""

from __future__ import annotations

import numpy as np
import pytest
from msgspec.structs import replace

from ckmlir.ops.tensors.expression import parse
from ckmlir.ops.tensors.functions import FUNCTIONS
from ckmlir.ops.tensors.rounding import Bounded, bounded, bounded_error, bounded_sum, expression_error

NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize(("text", "value", "error", "certain"), [
    ("a * b", NAN, INF, False),  # it may be any number
    ("b * a", NAN, INF, False),
    ("a + b", NAN, 0.0, True),  # NaN as it is
    ("elu(b, b) * (a + b)", NAN, INF, False),  # a factor with an error of its own
    ("elu(b, b) * (a + b)", 3.0, 0.0, True),
    ("a + b", INF, 0.0, True),
    ("a * b", INF, 1.0, False),
    ("round(a)", NAN, INF, False),
    ("maximum(b, log2(a))", -INF, INF, False),  # NaN, which is passed over, unless it is infinity of the other sign
    ("floor(a) + b", NAN, 0.0, True),
    ("a - elu(b, b)", NAN, 0.0, True),  # what is added is uncertain, but finite or not it leaves NaN
    ("elu(b, b) / a", NAN, 0.0, True),
    ("a - elu(b, b)", NAN, 1.0, False),
])  # fmt: skip
def test_what_is_certain(text: str, value: float, error: float, certain: bool) -> None:
    given = {"a": Bounded(np.array([value]), np.array([error])), "b": Bounded(np.array([-1.0]), np.array([0.0]))}
    found = bounded_error(parse(text, ("a", "b")), given)
    assert np.isfinite(found).all() == certain


SPECIAL = (NAN, INF, -INF, -3.0, -0.5, 0.0, 2.0, 1e20)


@pytest.mark.parametrize(("text", "unknown"), [
    ("pow(a, 2)", set()),  # a product that overflows is infinite
    ("pow(a, b)", set()),
    ("sqrt(a)", set()),
    ("log(a)", set()),
    ("exp(a)", set()),
    ("tanh(a)", set()),
    ("a * 3 + b", set()),
    ("a / b", set()),
    ("a * a", set()),
    ("a * a - a", set()),  # an addition may take the product as it is: too large all the same
    ("a * a * 2 - 1e30 * a", {1e20}),  # of two products at most one is taken so
    ("a * 5e18 - 3e38", {1e20}),  # so it may be finite
    ("a * a * 0.03 - a * 3e18", set()),
    ("-(a * a) + a * 1e20", {1e20}),
    ("maximum(a * a, 0) - a * 1e20", {1e20}),  # behind a maximum it is infinite; what is taken off may be finite
    ("maximum(a * a, 0) - a", set()),
    ("1 / a", set()),
    ("a / 0", set()),
    ("b / (a - a)", {1e20}),  # which f32 has not
    ("b / (a * 0)", set()),
    ("b / (0 * a / b)", set()),
    ("b / maximum(a * 0, 0)", {-3.0, -0.5}),  # of zeros of either sign
    ("b / (a * 1e-30 * 1e-30)", {-3.0, -0.5, 2.0, 1e20}),  # of what may be zero
    ("(a - a) / (b - b)", {1e20}),
    ("1 / a * 0", set()),
    ("a / a", set()),
])  # fmt: skip
def test_what_is_promised_of_special_values(text: str, unknown: set[float]) -> None:
    """NaN and infinities that come from operands or from the function itself, whatever rounding does."""
    values = {"a": np.array(SPECIAL), "b": np.full(len(SPECIAL), -2.0)}
    free = np.isinf(expression_error(parse(text, ("a", "b")), values))
    assert {value for value, one in zip(SPECIAL, free, strict=True) if one} == unknown


def test_a_function_is_promised_where_its_text_has_no_value(monkeypatch: pytest.MonkeyPatch) -> None:
    """Then the text is wrong, which no rounding is."""
    wrong = replace(FUNCTIONS["pow"], text="exp2(y * log2(x))")
    monkeypatch.setitem(FUNCTIONS, "pow", wrong)
    error = expression_error(parse("pow(a, b)", ("a", "b")), {"a": np.array([-3.0]), "b": np.array([2.0])})
    assert error == 0


@pytest.mark.parametrize(("error", "expected"), [(0.0, 0.0), (1.0, 8.0)])
def test_comparisons_with_nan_are_decided_where_it_is_certain(error: float, expected: float) -> None:
    given = {"a": Bounded(np.array([NAN]), np.array([error])), "b": Bounded(np.array([-1.0]), np.array([0.0]))}
    assert bounded_error(parse("where(a < elu(b, b), b, 7)", ("a", "b")), given) == expected


@pytest.mark.parametrize("text", ["minimum(a, b)", "clamp(b, a, a)", "where(a < b, a, b)", "a / b", "pow(b, a)"])
def test_arguments_broadcast(text: str) -> None:
    """A column, whose errors are a column too, meets a matrix that is exact."""
    given = {"a": Bounded(np.ones((3, 1)), np.full((3, 1), 0.25)), "b": Bounded(np.full((3, 4), 2.0), np.zeros(()))}
    assert np.broadcast_shapes(bounded_error(parse(text, ("a", "b")), given).shape, (3, 4)) == (3, 4)
    swapped = {"a": given["b"], "b": given["a"]}
    assert np.broadcast_shapes(bounded_error(parse(text, ("a", "b")), swapped).shape, (3, 4)) == (3, 4)


def test_a_sum_that_takes_a_product_unrounded_finds_no_infinity() -> None:
    """-inf + 1e30 · 1e30 is -inf in one rounding, NaN in two; with 1e30 · inf it is NaN in any, and known."""
    left = np.array([[-INF, -INF, INF], [1e30, 1e30, 1e30]])
    right = np.array([[1, 1, 1], [1e30, INF, 1e30]])
    terms = bounded("a * b", {"a": Bounded(left, 0.0), "b": Bounded(right, 0.0)})
    found = bounded_sum(terms, 0, 2)
    assert np.isnan(found.value[:2]).all() and found.value[2] == INF
    assert found.error.tolist() == [INF, 0, 0]
