"""The functions that an element-wise expression may name.

A function is either a primitive, with tile code and an error of its own, or a text over other functions, in the
variables x, y and z. A text that is only an approximation also has the function that it approximates.

The chip's transcendental functions (sqrt, rsqrt, exp2, log2 and what is made of them) take denormals of f32 for zeros.
`pow` is that of C: negative numbers have powers where the exponent is whole, anything to the power of 0 is 1, and so is
1 to any power, NaN included; -0 counts as 0, and a negative denormal as a negative number next to it. Whole exponents
up to 64 that are written as numbers are multiplications.
`maximum` and `minimum` give the number where one of both is NaN; so relu, clamp and hard_sigmoid of NaN are their lower
bounds. The sign of NaN is 0. All others are NaN of it.

Sources: the error function is formula 7.1.26 of Abramowitz and Stegun, "Handbook of Mathematical Functions" (absolute
error below 1.5e-7); GELU by the hyperbolic tangent is that of Hendrycks and Gimpel, arXiv 1606.08415.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec import Struct

from ckmlir.ops.precision import LN_2, LOG2_E
from ckmlir.ops.request import LEAST_NORMAL_F32

if TYPE_CHECKING:
    from random import Random

_erf = np.vectorize(math.erf, otypes=[np.float64])


class Function(Struct, frozen=True):
    """A function by name.

    Attributes:
        arity: how many arguments it takes.
        exact: the function on float64 arrays, or on int64 arrays where `integer`.
        text: what it is computed as; None for a primitive.
        error: largest absolute distance of the text from `exact`, roundings apart.
        ulps: error of a primitive, in units in the last place of f32; 0: none.
        integer: it also takes and gives integers.
    """

    arity: int
    exact: Callable[..., Any]
    text: str | None = None
    error: float = 0.0
    ulps: float = 0.0
    integer: bool = False


def _flushing(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A function of the chip's transcendental unit, which takes denormals for zeros (CDNA3 ISA, 7.4)."""
    return lambda x: function(np.where(np.abs(x) < LEAST_NORMAL_F32, np.copysign(0.0, x), x))


def _sign_below_zero(x: Any, y: Any) -> Any:
    whole = np.where(y % 2 == 1, -1.0, 1.0)
    return np.where(np.trunc(y) == y, whole, np.where(np.isinf(x), 1.0, np.nan))


def _sign(x: Any) -> Any:
    return np.where(np.isnan(x), 0, np.sign(x))


def _where(condition: Any, yes: Any, no: Any) -> Any:
    return np.where(condition, yes, no)


FUNCTIONS: dict[str, Function] = {
    # primitives
    "maximum": Function(2, np.fmax, integer=True),
    "minimum": Function(2, np.fmin, integer=True),
    "where": Function(3, _where, integer=True),
    "sqrt": Function(1, _flushing(np.sqrt), ulps=1),
    "rsqrt": Function(1, _flushing(lambda x: 1 / np.sqrt(x)), ulps=1),
    "exp2": Function(1, _flushing(np.exp2), ulps=1),
    "log2": Function(1, _flushing(np.log2), ulps=1),
    "floor": Function(1, np.floor),
    "ceil": Function(1, np.ceil),
    "trunc": Function(1, np.trunc),
    "round": Function(1, np.rint),
    # the others
    "abs": Function(1, np.abs, "maximum(x, -x)", integer=True),
    "neg": Function(1, np.negative, "-x", integer=True),
    "square": Function(1, np.square, "x * x", integer=True),
    "reciprocal": Function(1, lambda x: 1 / x, "1 / x"),
    "clamp": Function(3, lambda x, y, z: np.fmin(np.fmax(x, y), z), "minimum(maximum(x, y), z)", integer=True),
    "relu": Function(1, lambda x: np.fmax(x, 0), "maximum(x, 0)", integer=True),
    "leaky_relu": Function(2, lambda x, y: np.where(x > 0, x, x * y), "where(x > 0, x, x * y)"),
    "sign": Function(1, _sign, "where(x > 0, 1, where(x < 0, -1, 0))", integer=True),
    "exp": Function(1, np.exp, f"exp2(x * {LOG2_E!r})"),
    "expm1": Function(1, np.expm1, "exp(x) - 1"),
    "log": Function(1, _flushing(np.log), f"log2(x) * {LN_2!r}"),
    "log1p": Function(1, np.log1p, "log(1 + x)"),
    "pow": Function(
        2,
        lambda x, y: np.where(x < 0, _sign_below_zero(x, y), 1.0) * np.float_power(_flushing(np.abs)(x), y),
        "_sign_of_power(x, y) * exp2(_exponent(x, y))",
    ),
    "_exponent": Function(  # 1 to any power and any number to the power of 0 are 1, NaN included
        2,
        lambda x, y: np.where((np.abs(x) == 1) | (y == 0), 0.0, y * np.log2(np.abs(x))),
        "where(abs(x) == 1, 0, where(y == 0, 0, y * log2(abs(x))))",
    ),
    "_sign_of_power": Function(  # of a negative number: that of an odd exponent, NaN for a fraction
        2,
        lambda x, y: np.where(x < 0, _sign_below_zero(x, y), 1.0),
        "where(x < 0, where(trunc(y) == y, where(trunc(y * 0.5) * 2 == y, 1, -1), where(x == -inf, 1, inf - inf)), 1)",
    ),
    "sigmoid": Function(1, lambda x: 1 / (1 + np.exp(-x)), "1 / (1 + exp(-x))"),
    "tanh": Function(1, np.tanh, "1 - 2 / (1 + exp(2 * x))"),
    "silu": Function(  # 0 where the exponential overflows
        1, lambda x: x / (1 + np.exp(-x)), "x / (1 + exp(-x))", error=89 * 2.0**-128
    ),
    "softplus": Function(1, lambda x: np.logaddexp(x, 0), "maximum(x, 0) + log(1 + exp(-abs(x)))"),
    "elu": Function(2, lambda x, y: np.where(x > 0, x, y * np.expm1(x)), "where(x > 0, x, y * (exp(x) - 1))"),
    "hard_sigmoid": Function(1, lambda x: np.fmin(np.fmax(x / 6 + 0.5, 0), 1), f"clamp(x * {1 / 6!r} + 0.5, 0, 1)"),
    "erf": Function(
        1,
        _erf,
        "where(x < 0, -1, 1) * _erf_size(x)",
    ),
    "_erf_size": Function(
        1,
        lambda x: np.abs(_erf(x)),
        "1 - exp(-x * x) * _erf_tail(1 / (1 + 0.3275911 * abs(x)))",
        error=1.5e-7,
    ),
    "_erf_tail": Function(
        1,
        lambda x: _horner(x, 0.254829592, -0.284496736, 1.421413741, -1.453152027, 1.061405429),
        "x * (0.254829592 + x * (-0.284496736 + x * (1.421413741 + x * (-1.453152027 + x * 1.061405429))))",
    ),
    "gelu": Function(  # half of x and of its size, so that no lane chooses a sign
        1,
        lambda x: 0.5 * x * (1 + _erf(x / math.sqrt(2))),
        f"0.5 * x + abs(0.5 * x) * _erf_size(x * {math.sqrt(0.5)!r})",
    ),
    "gelu_tanh": Function(
        1,
        lambda x: 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
        f"0.5 * x * (1 + tanh({math.sqrt(2 / math.pi)!r} * (x + 0.044715 * x * x * x)))",
    ),
    "swiglu": Function(2, lambda x, y: x / (1 + np.exp(-x)) * y, "silu(x) * y"),
}  # fmt: skip
"""Name -> function. Names that begin with an underscore are for the texts of others."""


def _horner(x: Any, *coefficients: float) -> Any:
    """x * (c0 + x * (c1 + …))."""
    total: Any = 0.0
    for coefficient in reversed(coefficients):
        total = x * (coefficient + total)
    return total


def function_names() -> list[str]:
    """The functions that users may name, sorted."""
    return sorted(name for name in FUNCTIONS if not name.startswith("_"))


def sample_expression(random: Random, variables: Sequence[str]) -> str:
    """An expression of some of the variables, for tests: mostly a small tree; sometimes one function and nothing else,
    or one of hundreds of parts."""
    way = random.random()
    if way < 0.25:
        return sample_call(random, random.choice(function_names()), variables)
    if way < 0.29:
        most = 1900 // (max(map(len, variables)) + 3)  # with spaces no longer than an expression may be
        count = random.randint(most // 2, most)
        return "".join(random.choice(variables) + random.choice("+-") for _ in range(count)) + "1"
    if way < 0.31:
        deep = random.randint(30, 150)
        return "abs(" * deep + random.choice(variables) + ")" * deep
    return _sample_tree(random, variables, 2)


def _sample_tree(random: Random, variables: Sequence[str], depth: int) -> str:
    if depth == 0 or random.random() < 0.15:
        return random.choice((*variables, *variables, _sample_number(random)))

    def part() -> str:
        return _sample_tree(random, variables, depth - 1)

    if random.random() < 0.5:
        return f"({part()} {random.choice('+-*/')} {part()})"
    return _call(random, random.choice(function_names()), part)


def sample_call(random: Random, name: str, variables: Sequence[str]) -> str:
    """A function of variables and numbers."""
    return _call(random, name, lambda: _sample_tree(random, variables, 0))


def _call(random: Random, name: str, part: Callable[[], str]) -> str:
    parts = [part() for _ in range(FUNCTIONS[name].arity)]
    if name == "where":
        parts[0] = f"{parts[0]} {random.choice(('<', '<=', '>', '>=', '==', '!='))} {part()}"
    return f"{name}({', '.join(parts)})"


def _sample_number(random: Random) -> str:
    return str(random.choice((0, 1, 2, -1, 3, 0.5, -2.5, 3.25, 1e-3)))
