"""Gradients of the weights of convolutions against their references, and references against loops."""

from __future__ import annotations

import mmap
from typing import Any

import numpy as np
import pytest
from convolution_cases import ALIKE, Bench, draw, draw_alike, weight_gradient
from operator_runner import CHIPS, agree

from ckmlir.compiler import compile_kernel
from ckmlir.ops import find_operator
from ckmlir.ops.request import RequestError
from ckmlir.runtime import open_device
from ckmlir.runtime.run import check_outputs, run_operator
from ckmlir.scheduling.machine_loop import steady_loop
from ckmlir.scheduling.workbench import Workbench
from ckmlir.sim.simulator import Simulator
from ckmlir.targets import get_target

OPERATOR = find_operator("conv_bwd_weight")
GFX942 = get_target("gfx942")
DRAWN = 500
BENCH = Bench(OPERATOR, "gfx942")


def run(chip: str, **keys: Any) -> Any:
    """Run a request under all checkers, and compare it with the reference and that with loops."""
    target = get_target(chip)
    problem = OPERATOR.problem(**keys)
    arrays = OPERATOR.inputs(problem, target, seed=3)
    result = run_operator(OPERATOR, problem, arrays, target, open_device("sim", target, seed=5, checks="all"))
    comparisons = check_outputs(OPERATOR, problem, arrays, result.outputs, target)
    assert all(one.ok for one in comparisons), "; ".join(map(str, comparisons))
    found = OPERATOR.reference(problem, arrays)["dw"]
    by_loops = weight_gradient(keys, arrays["dy"], arrays["x"], found.shape)
    np.testing.assert_allclose(found.astype(np.float64), by_loops, rtol=1e-6, atol=1e-6)
    return result.outputs["dw"]


@pytest.mark.full
@pytest.mark.parametrize("seed", range(DRAWN))
def test_geometries_drawn_at_random(seed: int) -> None:
    """Strides, dilations, paddings, groups and channels of any kind, on changing chips."""
    keys = draw(seed)
    run(CHIPS[1 + seed % 2 if keys["dtype"] == "fp8" else seed % 3], **keys)


@pytest.mark.one_in(8)
@pytest.mark.parametrize("seed", range(ALIKE))
def test_geometries_of_one_kernel(seed: int) -> None:
    """Strides, dilations and paddings of any kind, several channels and images, under all checkers."""
    keys = {**draw_alike(seed), "split_k": 1}
    arrays, outputs = BENCH.run(keys)
    found = outputs["dw"]
    by_loops = weight_gradient(keys, arrays["dy"], arrays["x"], found.shape)
    np.testing.assert_allclose(found.astype(np.float64), by_loops, rtol=1e-6, atol=1e-6)


CASES: tuple[tuple[str, dict[str, Any]], ...] = (
    ("gfx90a", {"n": 3, "c": 3, "k": 20, "image": (23,), "window": (7,), "strides": 2, "pads": 3, "split_k": 3}),
    ("gfx942", {"n": 3, "c": 16, "k": 24, "g": 2, "image": (9, 6), "window": (2, 3), "dilations": (2, 1), "split_k": 4,
                "reduction": "atomic", "out": "f32"}),
    ("gfx950", {"n": 1, "c": 1, "k": 2, "g": 4, "image": (4, 5, 6), "window": 3, "dtype": "bf16", "out": "f32"}),
)  # fmt: skip


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("chip", "keys"), CASES)
def test_gradients(chip: str, keys: dict[str, Any]) -> None:
    """Parts of images, in a workspace and by atomics; depthwise."""
    run(chip, **keys)


def test_two_runs_give_the_same_bits() -> None:
    """With parts through a workspace."""
    keys = {"n": 2, "c": 8, "k": 8, "image": (9, 9), "window": 3, "dtype": "f32", "split_k": 3}
    np.testing.assert_array_equal(run("gfx942", **keys), run("gfx942", **keys))


def test_an_expression_adds_to_what_there_is() -> None:
    """Gradients of several batches are added up by a D tensor."""
    agree("conv_bwd_weight", "gfx942", n=2, c=8, k=12, g=2, image=(5, 6), op="acc * alpha + d0", alpha=0.5, out="f32")


@pytest.mark.one_in(2)
@pytest.mark.parametrize("keys", [
    {"n": 0}, {"n": 0, "image": (2**16,), "c": 2**15}, {"image": (1, 1), "window": 5},
    {"image": (2, 2), "window": 2, "pads": 3, "strides": 2},
    {"image": (1, 2), "window": 1, "pads": 0},
])  # fmt: skip
def test_sizes_at_the_ends(keys: dict[str, Any]) -> None:
    """No sums, one position, windows of nothing but padding, plain matrices."""
    run("gfx950", **{"n": 1, "c": 8, "k": 8, "image": (3, 3), "window": 3, "pads": 1, **keys})


def test_no_patches_whose_other_lengths_are_more_than_numpy_counts() -> None:
    """A length of 0 makes them none, and the gradient zeros; also where another is beyond 31 bits with its padding."""
    agree("conv_bwd_weight", "gfx950", n=2500, c=8, k=8, image=(4095, 0, 2**31 - 1))
    agree("conv_bwd_weight", "gfx950", n=2, c=8, k=8, image=(0, 2**31 - 1), pads=(1, 4))
    agree("conv_bwd_weight", "gfx950", n=0, c=8, k=8, image=(5, 2**31 - 1), pads=(1, 4))


def test_many_positions_are_shared() -> None:
    """Few results of long sums: by default in as many parts as keep compute units busy."""
    spec = OPERATOR.spec(OPERATOR.problem(n=32, c=64, k=64), GFX942)
    assert (spec.sink, spec.windows) == ("partial", "places:2:padded:64:32")
    assert OPERATOR.spec(OPERATOR.problem(n=32, c=64, k=64, split_k=1), GFX942).sink == "store"


SQUARES: tuple[tuple[dict[str, Any], tuple[int, int, int]], ...] = (
    ({"n": 32, "c": 64, "k": 64, "image": (56, 56)}, (64, 64, 128)),
    ({"n": 32, "c": 64, "k": 32, "dtype": "fp8"}, (64, 64, 256)),
    ({"n": 32, "c": 34, "k": 48, "image": (56, 56)}, (64, 64, 64)),
    ({"n": 32, "c": 64, "k": 16, "image": (56, 56)}, (16, 64, 128)),
    ({"n": 8, "c": 64, "k": 64}, (32, 32, 128)),
    ({"n": 4, "c": 10, "k": 64, "image": (8, 16, 16), "strides": 2}, (32, 32, 64)),
)  # fmt: skip


@pytest.mark.parametrize(("keys", "block"), SQUARES)
def test_long_sums_of_few_rows_have_square_blocks(keys: dict[str, Any], block: tuple[int, int, int]) -> None:
    """Of vectors deep ones; pairs of channels have small squares, low blocks only what is short or of 16 rows."""
    assert OPERATOR.spec(OPERATOR.problem(**keys), GFX942).block == block


PAIRS: dict[str, Any] = {"n": 4, "c": 10, "image": (8, 16, 16), "strides": 2}


@pytest.mark.parametrize("channels", [64, pytest.param(16, marks=pytest.mark.full)])
def test_volumes_of_pairs_keep_no_registers_in_lanes(channels: int) -> None:
    """Where low blocks kept 52 scalar ones."""
    target = get_target("gfx90a")
    spec = OPERATOR.spec(OPERATOR.problem(**PAIRS, k=channels), target)
    kernel = compile_kernel(OPERATOR, spec, target)
    found = kernel.code_object.kernel(kernel.kernel_name).metadata
    assert (found.vgpr_spill_count, found.sgpr_spill_count, found.private_segment_size) == (0, 0, 0)


@pytest.mark.parametrize(("chip", "keys"), [
    ("gfx90a", {**PAIRS, "n": 1, "k": 40}),
    pytest.param("gfx942", {"n": 3, "c": 24, "k": 40, "image": (9, 7), "block": (64, 64, 128)}, marks=pytest.mark.full),
    pytest.param("gfx950", {"n": 3, "c": 16, "k": 24, "g": 2, "image": (9, 7), "block": (64, 64, 128), "split_k": 2},
                 marks=pytest.mark.full),
])  # fmt: skip
def test_square_blocks(chip: str, keys: dict[str, Any]) -> None:
    """Numbers, under all checkers."""
    run(chip, **{"window": 3, "pads": 1, **keys})


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    ("chip", "keys", "most"),
    [
        ("gfx942", {"c": 64}, 54), ("gfx942", {"n": 40, "c": 16, "image": (7, 7)}, 79),
        *(pytest.param(*one, marks=pytest.mark.full) for one in (("gfx90a", {"c": 64}, 54), ("gfx950", {"c": 64}, 44))),
    ],
)
def test_lanes_share_what_they_divide(chip: str, keys: dict[str, Any], most: int) -> None:
    """Where units are of too few images: for 32 matrix instructions so many of the vector unit, with those that
    transpose in registers. Lanes of a quad share comparisons too where 32 channels put them at one place of the window.
    """
    target = get_target(chip)
    asked = {"n": 42, "k": 256, "image": (32, 28), "block": (128, 128, 64), **keys}
    spec = OPERATOR.spec(OPERATOR.problem(**asked), target)
    assert spec.windows.startswith("weight:")
    kernel = compile_kernel(OPERATOR, spec, target)
    mix = steady_loop(kernel.code_object, kernel.kernel_name).mix
    assert 32 * mix["valu"] <= most * mix["mfma"]
    assert 32 * mix["salu"] <= 40 * mix["mfma"]


@pytest.mark.one_in(2)
@pytest.mark.parametrize("chip", CHIPS)
def test_schedules_are_proved(chip: str) -> None:
    target = get_target(chip)
    spec = OPERATOR.spec(OPERATOR.problem(c=8, k=16, image=(9, 9), g=2), target)
    bench = Workbench.of(OPERATOR, spec, target)
    assert bench.compile(bench.schedule, code=False).findings == ()


@pytest.mark.parametrize(
    ("chip", "align"), [("gfx942", 1), *(pytest.param(chip, 8, marks=pytest.mark.full) for chip in CHIPS)]
)
def test_no_listed_kernel_spills(chip: str, align: int) -> None:
    """With channels one by one, where conditions are many, and in vectors."""
    target = get_target(chip)
    for spec in OPERATOR.kernels(target):
        if spec.dtype == "f16" and spec.align[1] <= align:
            kernel = compile_kernel(OPERATOR, spec, target)
            found = kernel.code_object.kernel(kernel.kernel_name).metadata
            counts = (found.vgpr_spill_count, found.sgpr_spill_count, found.private_segment_size)
            assert counts == (0, 0, 0), spec.name


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("keys", "large"), [
    ({"n": 5, "image": (2**22,), "c": 64, "strides": 2**14}, "x"),
    ({"n": 5, "image": (1000,), "g": 2**12, "c": 8, "k": 64}, "dy"),
])  # fmt: skip
def test_arrays_beyond_two_gibibytes(keys: dict[str, Any], large: str) -> None:
    """In parts that are not, whose pointers move to where they begin; in address space that takes no memory, of which
    the first group touches a few places.
    """
    problem = OPERATOR.problem(**{"k": 8, "window": 1, "pads": 0, "reduction": "atomic", "out": "f32", **keys})
    spec = OPERATOR.spec(problem, GFX942)
    assert spec.sink == "atomic" and problem.longest_part < problem.k
    simulator, random, areas, seen = Simulator("gfx942"), np.random.default_rng(1), {}, {}
    for array in OPERATOR.arrays(problem)[:2]:
        assert (array.nbytes > 2**31) == (array.name == large)
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x4000  # MAP_NORESERVE
        areas[array.name] = area = np.frombuffer(mmap.mmap(-1, array.nbytes, flags=flags), np.uint8)
        simulator.share(area, array.name)
        stride = keys.get("strides", 1) if array.name == "x" else 1
        places = area.view(np.float16).reshape(array.shape)[:, ::stride, 0]
        places[...] = random.standard_normal(places.shape).astype(np.float16)
        seen[array.name] = places.astype(np.float64)
    compiled, launch = compile_kernel(OPERATOR, spec, GFX942), OPERATOR.launch(problem, spec, GFX942)
    output = simulator.upload(np.zeros(OPERATOR.arrays(problem)[-1].shape, np.float32))
    memories = {"dw": output, **{name: np.uint64(area.ctypes.data) for name, area in areas.items()}}
    arguments = [memories[one] if isinstance(one, str) else one for one in launch.arguments]
    grid = (launch.grid[0], 1, launch.grid[2])  # the first group
    simulator.launch(compiled.code_object, compiled.kernel_name, grid, launch.block, arguments)
    wanted = np.einsum("npk,npc->kc", seen["dy"], seen["x"])
    found = output.read("f4", problem.shapes.w)[0, :, 0]
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize(("keys", "words"), [
    ({"n": 3, "image": (2**24,), "strides": 2**14, "window": 1, "pads": 0}, "array x: what 256 positions take of it"),
    ({"n": 2**10, "image": (2**10, 2**10), "c": 1, "k": 64, "split_k": 60}, "split_k=60: .*; expected at least 65"),
    ({"op": "acc", "d_kind": "row"}, "d_kind=row: unknown key"),
])  # fmt: skip
def test_requests_that_are_refused(keys: dict[str, Any], words: str) -> None:
    """Each is one error that says what is wrong."""
    with pytest.raises(RequestError, match=words):
        OPERATOR.problem(**keys)


def test_few_blocks_have_parts_for_most_compute_units() -> None:
    """Three blocks of sums over 401408: with 32 parts two thirds of the chip would be idle."""
    problem = OPERATOR.problem(n=32, image=(224, 224), c=3, k=64, window=7, strides=2, pads=3)
    launch = OPERATOR.launch(problem, OPERATOR.spec(problem, GFX942), GFX942)
    assert launch.grid[0] * launch.grid[2] > 0.9 * GFX942.compute_units
