"""Python's operators of traced values, computed by kernels on every chip and compared with NumPy."""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from kernel_runner import CHIPS, compile_traced

from ckmlir.dialect.distribution import Distribution
from ckmlir.lang import cast, f32, i32, kernel, load, maximum, minimum, ptr, splat_like, store, view, where
from ckmlir.targets import get_target

LANES = Distribution.parse("d0: 64@lane")
INTEGERS = np.concatenate([np.arange(-20, 28), [2**31 - 1, -(2**31), 2**30, -(2**30)] * 4]).astype(np.int32)
OTHERS = np.tile([1, -1, 2, 3, 7, -5, 13, 31], 8).astype(np.int32)
FLOATS = np.concatenate([
    np.linspace(-6, 6, 49), [0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 0.5, 1e-30, 1e30, 1e-40, 3e38, 2, 4, 100],
]).astype(np.float32)  # fmt: skip
FACTORS = np.tile([1.0, -1.0, 0.5, 2.0, -3.5, 0.0, np.inf, np.nan], 8).astype(np.float32)

Function = Callable[[Any, Any], Any]
WHOLE: dict[str, tuple[Function, Function]] = {
    "==": (lambda a, b: a == b, lambda a, b: a == b), "!=": (lambda a, b: a != b, lambda a, b: a != b),
    "a == 7": (lambda a, b: a == 7, lambda a, b: a == 7), "7 != a": (lambda a, b: 7 != a, lambda a, b: a != 7),  # noqa: SIM300
    "~(a < b)": (lambda a, b: ~(a < b), lambda a, b: ~(a < b)),
    "(a < b) == (b < 3)": (lambda a, b: (a < b) == (b < 3), lambda a, b: (a < b) == (b < 3)),
    "(a < b) ^ True": (lambda a, b: (a < b) ^ True, lambda a, b: ~(a < b)),
    "abs": (lambda a, b: abs(a), lambda a, b: abs(a)), "~": (lambda a, b: ~a, lambda a, b: ~a),
    "&": (lambda a, b: a & b, lambda a, b: a & b), "12 & a": (lambda a, b: 12 & a, lambda a, b: 12 & a),
    "12 | a": (lambda a, b: 12 | a, lambda a, b: 12 | a), "12 ^ a": (lambda a, b: 12 ^ a, lambda a, b: 12 ^ a),
    "a & 0xFFFF0000": (lambda a, b: a & 0xFFFF0000, lambda a, b: a & np.int32(-65536)),
    "a << 3": (lambda a, b: a << 3, lambda a, b: a << 3), "a >> 3": (lambda a, b: a >> 3, lambda a, b: a >> 3),
    "1 << (b & 7)": (lambda a, b: 1 << (b & 7), lambda a, b: np.int32(1) << (b & 7)),
    "-100 >> (b & 7)": (lambda a, b: -100 >> (b & 7), lambda a, b: np.int32(-100) >> (b & 7)),
    "a // b": (lambda a, b: a // b, lambda a, b: np.trunc(a / b.astype(np.float64))),
    "a % b": (lambda a, b: a % b, lambda a, b: np.fmod(a, b)),
    "100 // b": (lambda a, b: 100 // b, lambda a, b: np.trunc(100 / b.astype(np.float64))),
    "100 % b": (lambda a, b: 100 % b, lambda a, b: np.fmod(100, b)),
    "a ** 0": (lambda a, b: a**0, lambda a, b: a**0), "b ** 3": (lambda a, b: b**3, lambda a, b: b**3),
    "b ** 5": (lambda a, b: b**5, lambda a, b: b**5), "+a": (lambda a, b: +a, lambda a, b: a),
    "maximum(3, a)": (lambda a, b: maximum(3, a), lambda a, b: np.maximum(3, a)),
    "minimum(a, b)": (lambda a, b: minimum(a, b), np.minimum),
    "where": (lambda a, b: where(a == b, a, -1), lambda a, b: np.where(a == b, a, -1)),
}  # fmt: skip


def computed(chip: str, function: Function, a: npt.NDArray[Any], b: npt.NDArray[Any], dtype: str) -> npt.NDArray[Any]:
    """What a kernel of one wave makes of two rows of 64 numbers; conditions as 1 and 0."""

    @kernel("both", target=get_target(chip), waves=1)
    def both(pa: ptr(dtype), pb: ptr(dtype), pc: ptr(dtype)) -> None:
        left, right = (load(view(p, (64,), (1,)).window((64,), (0,)), LANES) for p in (pa, pb))
        store(cast(function(left, right), dtype), view(pc, (64,), (1,)).window((64,), (0,)))

    return compile_traced(both).run(a, b, np.zeros_like(a))[2]


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", WHOLE)
@pytest.mark.parametrize("chip", ["gfx942"])
def test_integers(chip: str, name: str) -> None:
    function, reference = WHOLE[name]
    with np.errstate(over="ignore"):
        expected = np.asarray(reference(INTEGERS, OTHERS))
    defined = ~((INTEGERS == -(2**31)) & (OTHERS == -1) & (("/" in name) | ("%" in name)))  # else it overflows
    found = computed(chip, function, INTEGERS, OTHERS, "i32")
    np.testing.assert_array_equal(found[defined], expected[defined].astype(np.int32))


FLOATING: dict[str, tuple[Function, Function, float]] = {
    "==": (lambda a, b: a == b, lambda a, b: a == b, 0), "!=": (lambda a, b: a != b, lambda a, b: a != b, 0),
    "a == a": (lambda a, b: a == a, lambda a, b: a == a, 0),
    "abs": (lambda a, b: abs(a), lambda a, b: abs(a), 0),
    "a ** 2": (lambda a, b: a**2, lambda a, b: a**2, 0), "a ** 2.0": (lambda a, b: a**2.0, lambda a, b: a**2, 0),
    "a ** 0": (lambda a, b: a**0, lambda a, b: np.ones(64), 0), "a ** 1": (lambda a, b: a**1, lambda a, b: a, 0),
    "a ** 7": (lambda a, b: a**7, lambda a, b: a**7.0, 6), "a ** -2": (lambda a, b: a**-2, lambda a, b: a**-2.0, 4),
    "a ** -3": (lambda a, b: a**-3, lambda a, b: a**-3.0, 5),
    "a ** 0.5": (lambda a, b: a**0.5, lambda a, b: np.sqrt(a), 3),
    "a ** -0.5": (lambda a, b: a**-0.5, lambda a, b: 1 / np.sqrt(a), 3),
    "a ** 1.5": (lambda a, b: a**1.5, lambda a, b: np.where(a < 0, np.nan, a**1.5), 200),
    "abs(a) ** b": (lambda a, b: abs(a) ** b, lambda a, b: np.float_power(abs(a), b), 400),
    "2 ** b": (lambda a, b: 2**b, lambda a, b: np.exp2(b), 4),
    "10.0 ** b": (lambda a, b: 10.0**b, lambda a, b: np.float_power(10.0, b), 40),
    "1 ** a": (lambda a, b: splat_like(a, 1, "f32") ** a, lambda a, b: np.ones(64), 0),
}  # fmt: skip


@pytest.mark.one_in(8)
@pytest.mark.parametrize("name", FLOATING)
@pytest.mark.parametrize("chip", CHIPS)
def test_floating_point(chip: str, name: str) -> None:
    """The tolerance is in units of 2^-24 of the result: roundings of products, or what 1 ulp of log2(base) times the
    exponent (100 at most for these numbers) makes of exp2. What is denormal counts as zero, in and out.
    """
    function, reference, roundings = FLOATING[name]
    normal = np.where(abs(FLOATS) < 2.0**-126, np.copysign(0, FLOATS), FLOATS) if roundings else FLOATS
    with np.errstate(all="ignore"):
        expected = np.asarray(reference(normal.astype(np.float64), FACTORS.astype(np.float64)), np.float64)
        expected = np.where(abs(expected) > np.finfo(np.float32).max, np.copysign(np.inf, expected), expected)
        if roundings:
            expected = np.where(abs(expected) < 2.0**-126, 0, expected)
    found = computed(chip, function, FLOATS, FACTORS, "f32").astype(np.float64)
    if roundings:
        found = np.where(abs(found) < 2.0**-126, 0, found)
    else:
        expected = expected.astype(np.float32)
    np.testing.assert_allclose(found, expected, rtol=roundings * 2.0**-24, atol=0)


@pytest.mark.parametrize("chip", CHIPS)
def test_scalars(chip: str) -> None:
    """The same operators on arguments of the kernel."""

    @kernel("scalars", target=get_target(chip), waves=1)
    def scalars(n: i32, m: i32, x: f32, whole: ptr("i32"), real: ptr("f32")) -> None:
        values = (
            abs(n), ~n, n**3, 5 & n, 1 << (n & 7), (n == m).to("i32"), (n != m).to("i32"), (~(n == m)).to("i32"),
            maximum(n, 4), (n < m).select(n, 7), (n == -7).select(1, m), n // 3, n % 3, 100 // m,
        )  # fmt: skip
        for place, value in enumerate(values):
            like = load(view(whole, (1,), (1,)).window((1,), (0,)), Distribution.parse("r: 64@lane, d0: 1@y0"))
            store(splat_like(like, 0, "i32") + value, view(whole, (99,), (1,)).window((1,), (place,)))
        for place, number in enumerate((abs(x), x**2, x**-1, 2**x, (x == x).to("f32"))):
            row = load(view(real, (1,), (1,)).window((1,), (0,)), Distribution.parse("r: 64@lane, d0: 1@y0"))
            store(splat_like(row, 0, "f32") + number, view(real, (99,), (1,)).window((1,), (place,)))

    n, m, x = -7, 6, -2.5
    whole, real = compile_traced(scalars).run(
        np.int32(n), np.int32(m), np.float32(x), np.zeros(99, np.int32), np.zeros(99, np.float32)
    )
    expected = [abs(n), ~n, n**3, 5 & n, 1 << (n & 7), 0, 1, 1, 4, n, 1, int(n / 3), int(np.fmod(n, 3)), 100 // m]
    assert whole[: len(expected)].tolist() == expected
    np.testing.assert_allclose(real[:5], [abs(x), x**2, 1 / x, 2**x, 1], rtol=4 * 2.0**-24)


def test_traced_values_are_keys_by_identity() -> None:
    seen: dict[Any, str] = {}

    @kernel("keys", target=get_target("gfx942"), waves=1)
    def keys(n: i32, m: i32) -> None:
        seen.update({n: "n", m: "m", n + 1: "sum"})
        assert seen[n] == "n" and seen[m] == "m" and len(seen) == 3
