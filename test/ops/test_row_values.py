"""Row operators on values and at places that random inputs do not reach: zeros, ties, infinities, NaN, rows that lie
gigabytes apart, arrays at odd addresses."""

from __future__ import annotations

import mmap
from typing import Any

import numpy as np
import pytest
from operator_runner import CHIPS

from ckmlir.compiler import compile_kernel
from ckmlir.ops import find_operator
from ckmlir.ops.dtypes import numpy_dtype
from ckmlir.runtime import open_device
from ckmlir.runtime.run import check_outputs, run_operator
from ckmlir.sim.simulator import Simulator
from ckmlir.targets import get_target

GFX942 = get_target("gfx942")


def outputs_for(name: str, chip: str, changes: dict[str, Any], **keys: Any) -> dict[str, np.ndarray]:
    """The outputs for given input arrays, after they agreed with the reference."""
    operator, target = find_operator(name), get_target(chip)
    problem = operator.problem(**keys)
    arrays = operator.inputs(problem, target, seed=1)
    for key, values in changes.items():
        arrays[key] = np.asarray(values).astype(arrays[key].dtype)
    result = run_operator(operator, problem, arrays, target, open_device("sim", target, seed=2))
    comparisons = check_outputs(operator, problem, arrays, result.outputs, target)
    assert all(one.ok for one in comparisons), "; ".join(map(str, comparisons))
    return result.outputs


# -- values


@pytest.mark.one_in(3)
@pytest.mark.parametrize("n", [64, 9000])
@pytest.mark.parametrize(("chip", "out"), [("gfx90a", "i8"), ("gfx942", "fp8"), ("gfx950", "i8"), ("gfx950", "fp8")])
def test_rows_of_zeros_quantise_to_zeros(chip: str, out: str, n: int) -> None:
    """q is 0 and the scale the smallest normal f32, next to rows of denormal and of ordinary numbers."""
    x = np.random.default_rng(3).standard_normal((3, n))
    x[0], x[1] = 0.0, x[1] * 2.0**-140
    found = outputs_for("smoothquant", chip, {"x": x}, m=3, n=n, dtype="f32", out=out)
    assert not found["q"][0].astype(np.float32).any()
    assert (found["yscale"][:2] == 2.0**-126).all() and found["yscale"][2] > 1e-3


@pytest.mark.parametrize("chip", CHIPS)
def test_no_scale_is_nan_in_normalised_rows_of_zeros(chip: str) -> None:
    found = outputs_for(
        "add_rmsnorm2d_rdquant", chip, {"a": np.zeros((4, 256)), "b": np.zeros((4, 256))}, m=4, n=256, dtype="bf16"
    )
    assert not found["q"].any() and np.isfinite(found["yscale"]).all()


@pytest.mark.one_in(3)
@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("activation", ["softmax", "sigmoid"])
def test_equal_scores_and_none(chip: str, activation: str) -> None:
    """Ties go to the lower index; minus infinities and NaN come last, each only once; all chosen are different."""
    x = np.random.default_rng(5).integers(-2, 3, (6, 40)).astype(np.float64)
    x[1] = 1.0
    x[2] = -np.inf
    x[3, :38] = -np.inf
    x[4, ::2] = np.nan
    x[5] = np.nan
    keys = {"m": 6, "n": 40, "k": 30, "dtype": "f16", "activation": activation, "renormalize": 1}
    found = outputs_for("topk_softmax", chip, {"x": x}, **keys)
    assert found["indices"][1].tolist() == found["indices"][2].tolist() == list(range(30))
    assert found["indices"][3].tolist() == ([38, 39] if x[3, 38] >= x[3, 39] else [39, 38]) + list(range(28))
    assert all(len(set(row.tolist())) == 30 for row in found["indices"])
    assert np.isfinite(found["weights"]).all()


@pytest.mark.one_in(3)
@pytest.mark.parametrize("chip", CHIPS)
def test_renormalised_sigmoids_of_very_negative_scores(chip: str) -> None:
    """Weights add up to 1 where f32 would hold none of the sigmoids, which then are to each other as exponentials are.
    Beside a score that is not negative they are zero."""
    x = np.random.default_rng(5).standard_normal((4, 40))
    x[0] -= 95
    x[1] = 8 * x[1] - 60000
    x[2, 1:] -= 200
    x[2, 0] = 1
    keys = {"m": 4, "n": 40, "k": 5, "dtype": "f32", "activation": "sigmoid", "renormalize": 1}
    weights = outputs_for("topk_softmax", chip, {"x": x}, **keys)["weights"]
    np.testing.assert_allclose(weights.sum(1), 1.0, rtol=1e-6)
    largest = -np.sort(-x[:2].astype(np.float32).astype(np.float64))[:, :5]
    powers = np.exp(largest - largest[:, :1])
    np.testing.assert_allclose(weights[:2], powers / powers.sum(1, keepdims=True), rtol=0.05)
    np.testing.assert_allclose(weights[2], [1, 0, 0, 0, 0], atol=1e-6)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("n", [100, 9000])
@pytest.mark.parametrize("chip", CHIPS)
def test_softmax_of_nothing_and_of_much(chip: str, n: int) -> None:
    """Rows that the mask leaves empty, or of minus infinities, are zeros; large numbers do not overflow."""
    x = np.random.default_rng(6).standard_normal((4, n)) * 300
    x[2] = -np.inf
    x[3, 1:] = -np.inf
    mask = np.ones((4, n))
    mask[1] = 0
    found = outputs_for("softmax", chip, {"x": x, "mask": mask}, m=4, n=n, dtype="f16", mask=1)
    assert not found["y"][1:3].any() and found["y"][3, 0] == 1


@pytest.mark.parametrize("variance", ["centred", "welford", "squares"])
def test_variance_of_numbers_far_from_zero(variance: str) -> None:
    """A mean a thousand times the deviation costs the mean of squares its accuracy, the other ways nothing."""
    x = 1000 + np.random.default_rng(8).standard_normal((3, 2000))
    outputs_for("layernorm2d", "gfx950", {"x": x}, m=3, n=2000, dtype="f32", variance=variance, save_stats=1)


def test_experts_that_do_not_exist_give_zeros() -> None:
    ids = np.array([[0, -1], [2, 1], [3, 2**31 - 1], [-(2**31), 1]])
    found = outputs_for("moe_smoothquant", "gfx942", {"topk_ids": ids}, m=4, n=100, experts=3, k=2)
    existing = (ids >= 0) & (ids < 3)
    np.testing.assert_array_equal(found["q"].any(axis=2).T, existing)


def test_tokens_that_are_not_there_give_zeros() -> None:
    """Of a negative number, whatever x holds; rows of other numbers are taken where they lie."""
    numbers = np.array([0, -1, 7, -(2**31), 2**31 - 1])
    x = np.ones((5, 100))
    x[numbers < 0] = np.nan
    given = {"x": x, "row_ids": numbers, "topk_ids": np.ones((5, 2))}
    found = outputs_for("moe_smoothquant", "gfx90a", given, m=5, n=100, experts=3, k=2, row_ids=1)
    np.testing.assert_array_equal(found["q"].any(axis=2), [numbers >= 0] * 2)


# -- places


class Reserved:
    """Address space that only takes memory where it is touched, known to a simulator as one allocation."""

    def __init__(self, simulator: Simulator, size: int) -> None:
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | getattr(mmap, "MAP_NORESERVE", 0x4000)
        self.bytes = np.frombuffer(mmap.mmap(-1, size, flags=flags), np.uint8)
        self.address = self.bytes.ctypes.data
        simulator.share(self.bytes, "reserved address space")

    def rows(self, dtype: Any, count: int, length: int, stride: int) -> np.ndarray:
        """The rows of an array that begins here."""
        data = self.bytes[: (((count - 1) * stride + length) * np.dtype(dtype).itemsize)].view(dtype)
        return np.lib.stride_tricks.as_strided(data, (count, length), (stride * data.itemsize, data.itemsize))


FAR = {
    "layernorm2d": ({"add": "store"}, ("stride", "residual_stride", "ystride", "sum_stride")),
    "rmsnorm2d": ({"quant": "dynamic", "keep_y": 1}, ("stride", "ystride", "q_stride")),
    "softmax": ({"mask": 1}, ("stride", "mask_stride", "ystride")),
    "add_rmsnorm2d_rdquant": ({}, ("a_stride", "b_stride", "stride", "q_stride")),
    "topk_softmax": ({"k": 3}, ("stride", "weights_stride", "indices_stride")),
}


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", FAR)
@pytest.mark.parametrize("stride", [2**28 + 8, 2**30 + 8])
def test_rows_beyond_two_to_the_31_elements(name: str, stride: int) -> None:
    """The third row begins gigabytes behind the first, also beyond 2^31 elements, and nothing wraps around.

    The simulator sees real addresses; what is not touched of the address space takes no memory.
    """
    options, keys = FAR[name]
    operator = find_operator(name)
    problem = operator.problem(m=3, n=64, **options, **dict.fromkeys(keys, stride))
    near = operator.problem(m=3, n=64, **options)
    arrays = operator.inputs(near, GFX942, seed=4)
    spec = operator.spec(problem, GFX942)
    assert operator.validate(spec, GFX942) == []
    compiled, launch = compile_kernel(operator, spec, GFX942), operator.launch(problem, spec, GFX942)
    simulator = Simulator("gfx942", seed=9)
    places, pointers = {}, {}
    for array in operator.arrays(problem):
        dtype = numpy_dtype(array.dtype, GFX942)
        if len(array.shape) == 1:
            values = arrays.get(array.name, np.zeros(array.shape, dtype))
            memory = simulator.upload(values)
            places[array.name], pointers[array.name] = memory, memory
            continue
        reserved = Reserved(simulator, -(-array.nbytes // 4096) * 4096)
        rows = reserved.rows(dtype, *array.shape, stride)
        if array.role == "in":
            rows[:] = arrays[array.name]
        places[array.name], pointers[array.name] = (reserved, rows), np.uint64(reserved.address)
    arguments = [pointers[one] if isinstance(one, str) else one for one in launch.arguments]
    simulator.launch(compiled.code_object, compiled.kernel_name, launch.grid, launch.block, arguments)
    outputs = {
        array.name: places[array.name][1] if len(array.shape) == 2 else places[array.name].read("f4", array.shape)
        for array in operator.arrays(problem) if array.role == "out"
    }  # fmt: skip
    comparisons = check_outputs(operator, near, arrays, outputs, GFX942)
    assert all(one.ok for one in comparisons), "; ".join(map(str, comparisons))


@pytest.mark.one_in(2)
@pytest.mark.parametrize("base", [2, 4, 8])
@pytest.mark.parametrize(("name", "options"), [
    ("layernorm2d", {"add": "store", "bias": 1}), ("softmax", {"mask": 1}), ("smoothquant", {}),
])  # fmt: skip
def test_arrays_at_odd_addresses(name: str, options: dict[str, Any], base: int) -> None:
    """Arrays that begin `base` bytes behind a multiple of 16 (or at their element's size) work from there."""
    operator = find_operator(name)
    problem = operator.problem(m=5, n=256, base=base, **options)
    arrays = operator.inputs(problem, GFX942, seed=4)
    spec = operator.spec(problem, GFX942)
    assert spec.align * 2 == base
    compiled, launch = compile_kernel(operator, spec, GFX942), operator.launch(problem, spec, GFX942)
    simulator = Simulator("gfx942", seed=3)
    places: dict[str, Any] = {}
    for array in operator.arrays(problem):
        dtype = numpy_dtype(array.dtype, GFX942)
        shift = max(base, dtype.itemsize)
        memory = simulator.allocate(array.nbytes + shift)
        places[array.name] = (memory, shift, dtype, array.shape)
        if array.role == "in":
            memory.write(arrays[array.name].view(np.uint8), shift)
    pointers = {key: np.uint64(memory.address + shift) for key, (memory, shift, _, _) in places.items()}
    arguments = [pointers[one] if isinstance(one, str) else one for one in launch.arguments]
    simulator.launch(compiled.code_object, compiled.kernel_name, launch.grid, launch.block, arguments)
    outputs = {
        key: memory.read(dtype, shape, shift) for key, (memory, shift, dtype, shape) in places.items()
        if key not in arrays
    }  # fmt: skip
    comparisons = check_outputs(operator, problem, arrays, outputs, GFX942)
    assert all(one.ok for one in comparisons), "; ".join(map(str, comparisons))
