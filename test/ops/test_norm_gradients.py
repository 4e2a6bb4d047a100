"""Gradients of normalisations of rows and of softmax: references against differences, kernels against references, what
they read, refusals."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from operator_runner import CHIPS, agree, outcome

from ckmlir.compiled_kernel import CompiledKernel
from ckmlir.compiler import compile_kernel
from ckmlir.ops import find_operator
from ckmlir.ops.comparison import Array
from ckmlir.ops.operator import Run
from ckmlir.ops.request import RequestError
from ckmlir.runtime.run import check_outputs
from ckmlir.scheduling.machine_loop import steady_loop
from ckmlir.targets import get_target

GFX942 = get_target("gfx942")
DTYPES = ("f16", "bf16", "f32")
NORMS = {"layernorm2d_bwd": "layernorm2d", "rmsnorm2d_bwd": "rmsnorm2d"}
FORWARD = {**NORMS, "softmax_bwd": "softmax"}
LENGTHS = (0, 1, 7, 64, 100, 512, 1000, 1024, 1025, 4096, 4099, 8191, 8192, 8193, 12289)


@pytest.mark.parametrize("name", FORWARD)
def test_gradients_are_differences_of_the_reference(name: str) -> None:
    """Of the sum of y times fixed weights, by each element of each input."""
    forward, backward, step = find_operator(FORWARD[name]), find_operator(name), 1e-6
    keys: dict[str, Any] = {"m": 3, "n": 5, "dtype": "f32"}
    problem = forward.problem(**keys, **({"save_stats": 1} if name in NORMS else {"scale": 0.5}))
    arrays = {one: array.astype(np.float64) for one, array in forward.inputs(problem, GFX942, seed=2).items()}
    found = forward.reference(problem, arrays)
    dy = np.random.default_rng(3).standard_normal(found["y"].shape)

    def loss(changed: dict[str, Array]) -> float:
        total: float = (forward.reference(problem, changed)["y"] * dy).sum()
        return total

    given = {**arrays, **found, "dy": dy}
    own = backward.problem(**keys, **({} if name in NORMS else {"scale": 0.5}))
    gradients = backward.reference(own, {one.name: given[one.name] for one in backward.arrays(own) if one.role == "in"})
    for one, array in arrays.items():
        for place in np.ndindex(array.shape):
            ends = []
            for sign in (1, -1):
                moved = array.copy()
                moved[place] += sign * step
                ends.append(loss({**arrays, one: moved}))
            assert gradients[f"d{one}"][place] == pytest.approx((ends[0] - ends[1]) / (2 * step), rel=1e-4, abs=1e-6)


CASES = list(itertools.product(FORWARD, LENGTHS, CHIPS))


@pytest.mark.one_in(24)
@pytest.mark.parametrize(("name", "n", "chip"), CASES)
def test_lengths(name: str, n: int, chip: str) -> None:
    place = CASES.index((name, n, chip))
    keys = {"m": (5, 33)[place % 2] if n < 4000 else 7, "n": n, "dtype": DTYPES[(place + LENGTHS.index(n)) % 3]}
    agree(name, chip, **keys, **({"add": place % 2} if name in NORMS else {"scale": -0.75}))


@pytest.mark.full
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("name", "n", "chip"), CASES)
def test_all_lengths(name: str, n: int, chip: str, dtype: str) -> None:
    for more in ({"add": 0}, {"add": 1}) if name in NORMS else ({"scale": -0.75},):
        agree(name, chip, m=9, n=n, dtype=dtype, **more)


@pytest.mark.parametrize("n", [7, 9001])
@pytest.mark.parametrize("name", FORWARD)
def test_no_rows(name: str, n: int) -> None:
    """Gradients of columns are sums of nothing."""
    agree(name, "gfx942", m=0, n=n)


@pytest.mark.one_in(6)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [200, 199])
@pytest.mark.parametrize("name", FORWARD)
def test_choices_under_all_checkers(name: str, n: int, dtype: str) -> None:
    """Rows with gaps between them, arrays at odd addresses."""
    strides = {"dy_stride": 203, "dx_stride": 207, **({"ystride": 201} if name not in NORMS else {"stride": 201})}
    base = 2 if dtype != "f32" else 4
    more = {"add": 1, "dsum_stride": 205} if name in NORMS else {"scale": 2.0}
    keys = {"m": 70, "n": n, "dtype": dtype, "base": base, **strides, **more}
    outcome(find_operator(name), CHIPS[DTYPES.index(dtype)], keys, specified=True)


@pytest.mark.parametrize("name", NORMS)
def test_sums_over_rows_have_one_order(name: str) -> None:
    """Several parts, the same bits each time."""
    keys = {"m": 150, "n": 72, "dtype": "f32"}
    one, again = (outcome(find_operator(name), "gfx90a", keys, specified=True).outputs for _ in range(2))
    assert all(np.array_equal(array, again[what]) for what, array in one.items())


@pytest.mark.parametrize("name", FORWARD)
def test_what_is_not_finite(name: str) -> None:
    """NaN and infinities make NaN of their rows, and of no others; of columns, those that the sums go through."""

    def spoilt(problem: Any, arrays: dict[str, Array]) -> dict[str, Array]:
        x, dy = (arrays[one].copy() for one in ("x" if name in NORMS else "y", "dy"))
        dy[1, 3], x[3, 5], dy[4, 0], dy[5] = np.nan, np.nan, np.inf, 0.0
        return {**arrays, "x" if name in NORMS else "y": x, "dy": dy}

    for dtype in ("bf16", "f32"):
        found = outcome(find_operator(name), "gfx942", {"m": 6, "n": 100, "dtype": dtype}, prepared=spoilt).outputs
        rows = np.isnan(found["dx"].astype(np.float32))
        assert rows[[1, 3]].all() and not rows[[0, 2, 5]].any() and rows[4].any()
        if name in NORMS:
            assert np.flatnonzero(np.isnan(found["dgamma"].astype(np.float32))).tolist() == [3, 5]


@pytest.mark.parametrize("name", FORWARD)
@pytest.mark.parametrize("scale", [1e19, 1e-30])
def test_other_magnitudes(name: str, scale: float) -> None:
    """Where f32 overflows on the way nothing is promised; of the rest all is."""

    def scaled(problem: Any, arrays: dict[str, Array]) -> dict[str, Array]:
        return {what: (one * np.float32(scale)).astype(one.dtype) for what, one in arrays.items()}

    outcome(find_operator(name), "gfx950", {"m": 6, "n": 100, "dtype": "f32"}, prepared=scaled)


@pytest.mark.parametrize("name", FORWARD)
def test_wrong_gradients_do_not_pass(name: str) -> None:
    """Without the means of rows, and of sums a row short."""
    found = outcome(find_operator(name), "gfx942", {"m": 40, "n": 64, "dtype": "f32"}, specified=True)
    a = {what: one.astype(np.float64) for what, one in found.arrays.items()}
    if name in NORMS:
        wrong = {"dx": a["dy"] * a["gamma"] * a["inv_std" if name == "layernorm2d_bwd" else "inv_rms"][:, None]}
        wrong |= {what: one - a["dy"][-1] for what, one in found.outputs.items() if what != "dx"}
    else:
        wrong = {"dx": a["y"] * a["dy"]}
    for what, one in wrong.items():
        changed = {**found.outputs, what: one.astype(np.float32)}
        comparisons = check_outputs(find_operator(name), found.problem, found.arrays, changed, GFX942)
        assert [one.name for one in comparisons if not one.ok] == [what]


def compiled(name: str, chip: str, **keys: Any) -> list[CompiledKernel]:
    """The kernel of a request, and of rows that stream that of the sums over rows."""
    operator, target = find_operator(name), get_target(chip)
    problem = operator.problem(m=64, **keys)
    steps = operator.steps(problem, operator.spec(problem, target), target)
    problems = [problem, *(one.problem for one in steps if isinstance(one, Run) and one.operator is operator)]
    return [compile_kernel(operator, operator.spec(one, target), target) for one in problems]


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("name", NORMS)
def test_rows_pass_once(name: str, chip: str) -> None:
    """Through one loop with 16 bytes a lane of x, dy and dx, and the sums stay in registers."""
    (kernel,) = compiled(name, chip, n=4096)
    loop = [one.mnemonic for one in steady_loop(kernel.code_object, kernel.kernel_name).instructions]
    assert loop.count("buffer_load_dwordx4") == 2 * loop.count("buffer_store_dwordx4") > 0


SPILLS = list(itertools.product(FORWARD, DTYPES, (1022, 1023, 4096, 8188, 8190, 8191, 8192, 20000, 20001), CHIPS))


@pytest.mark.one_in(32)
@pytest.mark.parametrize(("name", "dtype", "n", "chip"), SPILLS)
def test_no_spills(name: str, dtype: str, n: int, chip: str) -> None:
    """The most registers are taken where another gradient is added, and where rows are read in narrow vectors."""
    for kernel in compiled(name, chip, n=n, dtype=dtype, **({"add": 1} if name in NORMS else {})):
        metadata = kernel.code_object.kernel(kernel.kernel_name).metadata
        assert (metadata.vgpr_spill_count, metadata.sgpr_spill_count) == (0, 0)


def test_rows_far_apart_have_as_many_waves() -> None:
    """Where a workgroup takes a single row, since others would be out of reach."""
    operator = find_operator("layernorm2d_bwd")
    near, far = (operator.spec(operator.problem(m=1, n=8192, dtype="f32", **more), GFX942)
                 for more in ({}, {"stride": 1 << 30}))  # fmt: skip
    assert (near.rows, near.row_waves) == (far.rows, far.row_waves) == (1, 8)


@pytest.mark.parametrize(
    ("name", "keys", "words"),
    [
        ("layernorm2d_bwd", {"dsum_stride": 2000}, "dsum_stride=2000: there is no array dsum; expected add=1"),
        ("layernorm2d_bwd", {"stride": 1000}, "stride=1000: rows have n=1024 elements; expected at least that"),
        ("rmsnorm2d_bwd", {"dx_stride": 7, "n": 8}, "dx_stride=7: rows have n=8 elements"),
        ("rmsnorm2d_bwd", {"dtype": "fp8"}, "dtype=fp8: expected f16|bf16|f32"),
        ("rmsnorm2d_bwd", {"base": 3}, "base=3"),
        ("softmax_bwd", {"ystride": 7, "n": 8}, "ystride=7: rows have n=8 elements"),
        ("softmax_bwd", {"scale": 1e39}, "scale=1e+39"),
        ("softmax_bwd", {"m": 2**31}, "m=2147483648"),
    ],
)
def test_refusals(name: str, keys: dict[str, Any], words: str) -> None:
    with pytest.raises(RequestError, match=f"^{name}: ") as refused:
        find_operator(name).problem(**keys)
    assert words in str(refused.value)
