"""Code objects that clang makes of OpenCL C run right at every level of optimisation: kernels of another compiler.

Without optimisation they are full of scratch memory, calls and flat accesses. The checks of memory, waits and races
watch: clang waits for all it uses, and kernels that work do not race. Needs clang 22 and its linker.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from opencl_kernels import compiled, needs_clang

from ckmlir.sim import CheckFailure, DeviceMemory, Finding, Simulator

pytestmark = needs_clang

Array = np.ndarray[Any, Any]


class Runner:
    """Runs kernels of one source for one chip and level of optimisation."""

    def __init__(self, target: str, level: int) -> None:
        self.target, self.level = target, level
        self.simulator = Simulator(target, seed=level, branch_budget=1 << 22, checks=["memory", "wait", "race"])

    def __call__(self, source: str, kernel: str, groups: int, size: int, *arguments: Array | int) -> list[Array]:
        """Launch; returns the arrays as the kernel left them."""
        code_object = compiled(source, self.target, self.level)
        passed = [self.simulator.upload(each) if isinstance(each, np.ndarray) else each for each in arguments]
        try:
            self.simulator.launch(code_object, kernel, (groups, 1, 1), (size, 1, 1), passed)
        except CheckFailure as failure:
            assert all(self.is_expected(one) for one in failure.findings), failure
        return [
            memory.read(array.dtype).reshape(array.shape)
            for memory, array in zip(passed, arguments)
            if isinstance(memory, DeviceMemory) and isinstance(array, np.ndarray)
        ]

    def is_expected(self, finding: Finding) -> bool:
        """The static check ends at calls through pointers."""
        return finding.message.startswith("not proven")


@pytest.fixture(params=[(target, level) for target in ("gfx90a", "gfx942", "gfx950") for level in (0, 1, 3)],
                ids=lambda given: f"{given[0]}-O{given[1]}")  # fmt: skip
def run(request: pytest.FixtureRequest) -> Runner:
    return Runner(*request.param)


def rng() -> np.random.Generator:
    return np.random.default_rng(7)


@pytest.mark.one_in(2)
def test_gemm(run: Runner) -> None:
    m, n, k = 64, 96, 72
    a, b = (rng().integers(-8, 8, (rows, k)).astype(np.float16) for rows in (m, n))
    _, _, c = run("gemm", "gemm", m * n // 1024, 64, a, b, np.zeros((m, n), np.float32), n, k)
    np.testing.assert_array_equal(c, a.astype(np.float32) @ b.T.astype(np.float32))


@pytest.mark.one_in(2)
@pytest.mark.parametrize("columns", [1, 255, 1000])
def test_softmax(run: Runner, columns: int) -> None:
    x = rng().standard_normal((5, columns), np.float32) * 4
    _, y = run("rows", "softmax", 5, 256, x, np.zeros_like(x), columns)
    exact = np.exp(x.astype(np.float64) - x.max(1, keepdims=True))
    np.testing.assert_allclose(y, exact / exact.sum(1, keepdims=True), rtol=1e-5, atol=1e-9)


def test_reduction(run: Runner) -> None:
    x = rng().integers(-100, 100, (7, 777)).astype(np.float32)
    _, y = run("rows", "row_sum", 7, 256, x, np.zeros(7, np.float32), 777)
    np.testing.assert_array_equal(y, x.sum(1))


@pytest.mark.one_in(2)
def test_transpose(run: Runner) -> None:
    x = rng().integers(0, 1 << 32, (37, 53), np.uint32)
    _, y = run("layout", "transpose", 3 * 4, 256, x, np.zeros((53, 37), np.uint32), 37, 53)
    np.testing.assert_array_equal(y, x.T)


def test_private_array_and_call(run: Runner) -> None:
    """Scratch memory with addresses known at run time only, and a function called through it."""
    x, shift = rng().integers(0, 1 << 32, (128, 16), np.uint32), 3
    _, y = run("layout", "private_array", 2, 64, x, np.zeros_like(x), shift)
    values, at = x.copy(), np.arange(128) % 64 + shift
    rows = np.arange(128)
    values[rows, at % 16] ^= at.astype(np.uint32)
    extra = values[rows, (at + 5) % 16]
    order = (15 - np.arange(16) + shift) % 16
    np.testing.assert_array_equal(y, values[:, order] + extra[:, None])


def test_bytes_and_shorts(run: Runner) -> None:
    x, s = rng().integers(0, 256, 256).astype(np.uint8), rng().integers(-(2**15), 2**15, 256).astype(np.int16)
    _, y, _, t = run("layout", "bytes", 4, 64, x, np.zeros_like(x), s, np.zeros_like(s))
    np.testing.assert_array_equal(y, (x.astype(int) * 3 + 1).astype(np.uint8))
    np.testing.assert_array_equal(t, s >> 3)


@pytest.mark.one_in(2)
def test_histogram(run: Runner) -> None:
    """Each workgroup counts in LDS and adds to global memory; the old values are the sums of the groups before."""
    x = rng().integers(0, 1 << 20, (3, 1000), np.uint32)
    _, counts, old = run("atomics", "histogram", 3, 256, x, np.zeros(64, np.uint32), np.zeros((3, 64), np.uint32), 1000)
    each = np.stack([np.bincount(row % 64, minlength=64) for row in x])
    np.testing.assert_array_equal(counts, each.sum(0))
    np.testing.assert_array_equal(np.sort(old, 0)[0], 0)  # whoever was first


def test_atomic_updates(run: Runner) -> None:
    x = rng().integers(0, 1 << 16, 256).astype(np.uint32)
    start = np.array([0, 0xFFFFFFFF, 0, 0, 5], np.uint32)
    zero = np.zeros(1, np.uint64), np.zeros(1, np.float32)
    _, results, wide, total = run("atomics", "updates", 4, 64, x, start, *zero)
    squares = (5 + int((x.astype(np.uint64) ** 2).sum())) % 1000003
    expected = [x.max(), x.min(), np.bitwise_xor.reduce(x), np.bitwise_or.reduce(x) & 0xF0F0, squares]
    np.testing.assert_array_equal(results, expected)
    assert wide[0] == int(x.astype(np.uint64).sum()) << 20
    assert total[0] == (x % 8).sum()


@pytest.mark.one_in(4)
@pytest.mark.parametrize(("kernel", "dtype"), [("floats", np.float32), ("doubles", np.float64)])
def test_division_and_root(run: Runner, kernel: str, dtype: Any) -> None:
    """Correctly rounded in double precision; in single precision to what OpenCL C asks for without options."""
    x, y = (np.exp(rng().normal(0, 12, 256)).astype(dtype) * sign for sign in (1, -1))
    y = np.roll(y, 11)
    _, _, q, r = run("arithmetic", kernel, 4, 64, x, y, np.zeros_like(x), np.zeros_like(x))
    with np.errstate(over="ignore"):
        wide = np.longdouble
        quotient = (x.astype(wide) / y.astype(wide)).astype(dtype)
        other = np.floor(y) * dtype(0.5) if dtype == np.float32 else np.trunc(y)
    tolerance = 3e-7 if dtype == np.float32 else 0
    np.testing.assert_allclose(q, quotient, rtol=tolerance)
    np.testing.assert_allclose(r, np.sqrt(np.abs(x)) + other, rtol=4e-7 if dtype == np.float32 else 3e-16)


@pytest.mark.one_in(2)
def test_integers_of_64_bits(run: Runner) -> None:
    x, y = (rng().integers(-(2**62), 2**62, 256) >> rng().integers(0, 62, 256) for _ in range(2))
    y = np.roll(np.where(y == 0, 1, y), 5)
    _, _, q, r = run("arithmetic", "integers", 4, 64, x, y, np.zeros_like(x), np.zeros_like(x))
    for i in range(256):
        np.testing.assert_array_equal((q[i], r[i]), integers_of(int(x[i]), int(y[i])))


def integers_of(x: int, y: int) -> tuple[int, int]:
    """The kernel's arithmetic on Python's integers."""
    wrap = (1 << 64) - 1
    ux, uy = x & wrap, y & wrap
    divisor = signed(y, 32) | 1
    quotient = truncating(x, y) + ux % uy
    mixed = (x * y) ^ (x >> (y & 63)) ^ (uy << (x & 63)) ^ ux.bit_count() ^ truncating(signed(x, 32), divisor)
    mixed ^= (x & 0xFFFFFFFF) % ((y & 0xFFFFFFFF) | 1)
    mixed ^= 64 - ((ux | 1).bit_length())
    return signed(quotient, 64), signed(mixed, 64)


def truncating(x: int, y: int) -> int:
    """C's division, towards zero."""
    return abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)


def signed(value: int, bits: int) -> int:
    """The low bits as a two's complement number."""
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


def test_conversions(run: Runner) -> None:
    x = rng().normal(0, 1, 256) * np.exp2(rng().integers(-10, 30, 256))
    outputs = [np.zeros(256, dtype) for dtype in (np.int64, np.float32, np.float16)]
    _, whole, single, narrow = run("arithmetic", "conversions", 4, 64, x, *outputs)
    np.testing.assert_array_equal(whole, x.astype(np.int64))
    parts = x.astype(np.float32), x.astype(np.int32).astype(np.float32), np.abs(x).astype(np.uint64).astype(np.float32)
    np.testing.assert_array_equal(single, parts[0] + parts[1] + parts[2])
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(narrow, x.astype(np.float32).astype(np.float16))


@pytest.mark.one_in(2)
def test_loops_of_different_lengths(run: Runner) -> None:
    x = rng().integers(1, 5000, 256).astype(np.uint32)
    _, steps = run("control", "collatz", 4, 64, x, np.zeros(256, np.uint32))
    np.testing.assert_array_equal(steps, [collatz(int(each)) for each in x])


def collatz(n: int) -> int:
    count = 0
    while n != 1 and count < 500:
        n, count = (3 * n + 1 if n & 1 else n // 2), count + 1
    return count


@pytest.mark.one_in(2)
def test_switch_and_early_return(run: Runner) -> None:
    x = rng().integers(0, 1 << 32, 256, np.uint32)
    _, y = run("control", "choices", 4, 64, x, np.full(256, 12345, np.uint32))
    np.testing.assert_array_equal(y, [choice(int(value), i) for i, value in enumerate(x)])


def choice(value: int, i: int) -> int:
    results = {
        0: value + 1, 1: value * 3, 2: value ^ 0x55, 3: value ^ 0x55, 4: 12345,
        5: value.bit_count(), 6: value >> (value & 7), 7: value - 1000 if value > 1000 else value // 3, 8: i,
    }  # fmt: skip
    return results.get(value % 11, value // (i + 1) + value % (i + 3)) & 0xFFFFFFFF
