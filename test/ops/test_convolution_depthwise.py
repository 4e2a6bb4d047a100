"""Convolutions of groups of few channels, which vector arithmetic sums: numbers, and when that is chosen."""

from __future__ import annotations

import itertools
import mmap
from collections import Counter
from typing import Any

import numpy as np
import pytest
from convolution_cases import convolved
from operator_runner import CHIPS

from ckmlir.compiler import compile_kernel
from ckmlir.ops import find_operator
from ckmlir.ops.contraction.depthwise import DepthwiseSpec
from ckmlir.ops.contraction.depthwise_plans import converts_weights
from ckmlir.records import replace
from ckmlir.runtime import open_device
from ckmlir.runtime.run import check_outputs, run_operator
from ckmlir.scheduling.machine_loop import steady_loop
from ckmlir.scheduling.workbench import Workbench
from ckmlir.sim.decode.decoder import disassemble
from ckmlir.sim.simulator import Simulator
from ckmlir.targets import get_target
from ckmlir.targets.cdna import WAVE_SIZE

OPERATOR = find_operator("conv_fwd")
GFX942 = get_target("gfx942")
DTYPES = ("f16", "bf16", "f32", "i8", "fp8", "f64", "bf8")
GEOMETRIES: tuple[dict[str, Any], ...] = (
    {"n": 2, "g": 24, "image": (7, 6)},
    {"n": 2, "g": 7, "image": (23,), "window": 4, "strides": 3, "dilations": 2, "pads": 2, "right_pads": 5},
    {"n": 1, "g": 66, "image": (4, 5, 3), "window": (3, 1, 2), "strides": (1, 2, 1), "pads": (1, 0, 1)},
    {"n": 3, "g": 16, "image": (9, 8), "window": (2, 5), "pads": 0, "right_pads": (-3, 2), "strides": 2},
)  # fmt: skip
CHANNELS = tuple(itertools.product((1, 2, 3, 4, 5, 8), (1, 2, 4, 8)))
DEFAULT = {30, 71}


def run(chip: str, **keys: Any) -> None:
    """Run a request under all checkers, and compare it with the reference and that with loops."""
    target = get_target(chip)
    problem = OPERATOR.problem(**keys)
    assert OPERATOR.spec(problem, target).is_depthwise
    arrays = OPERATOR.inputs(problem, target, seed=3)
    result = run_operator(OPERATOR, problem, arrays, target, open_device("sim", target, seed=5, checks="all"))
    comparisons = check_outputs(OPERATOR, problem, arrays, result.outputs, target)
    assert all(one.ok for one in comparisons), "; ".join(map(str, comparisons))
    if "op" not in keys:
        found = OPERATOR.reference(problem, arrays)["y"]
        by_loops = convolved(keys, arrays["x"], arrays["w"], found.shape[1:-2])
        np.testing.assert_allclose(found.astype(np.float64), by_loops, rtol=1e-6, atol=1e-6)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("case", [
    pytest.param(case, marks=() if case in DEFAULT else pytest.mark.full)
    for case in range(len(GEOMETRIES) * len(CHANNELS))
])  # fmt: skip
def test_channels_and_multipliers(case: int) -> None:
    """Every number of channels and what they become, with changing geometries, types and chips."""
    geometry, (c, k) = GEOMETRIES[case % len(GEOMETRIES)], CHANNELS[case // len(GEOMETRIES)]
    dtype = DTYPES[case % len(DTYPES)]
    run(CHIPS[1 + case % 2 if dtype in ("fp8", "bf8") else case % 3], **geometry, c=c, k=k, dtype=dtype)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("keys", [
    {"op": "relu(acc + d0) + d1 * d2 - d3", "d_kind": "row,full,column,scalar", "d": "f32,f16,f32,f32"},
    pytest.param({"op": "silu(acc) + d0", "d_kind": "full", "c": 3, "k": 4, "dtype": "bf16"}, marks=pytest.mark.full),
    pytest.param({"op": "relu(acc) + d0", "d": "f32", "out": "i8", "dtype": "i8", "k": 8}, marks=pytest.mark.full),
    {"n": 0}, {"image": (0, 4)}, {"image": (1, 2), "window": 2, "pads": 4},
])  # fmt: skip
def test_expressions_and_ends(keys: dict[str, Any]) -> None:
    """A residual, a bias, numbers; nothing to compute, one place, windows wholly in the padding."""
    target = get_target("gfx90a")
    keys = {"n": 2, "g": 20, "c": 1, "k": 1, "image": (5, 6), **keys}
    problem = OPERATOR.problem(**keys)
    if OPERATOR.writes_nothing(problem):
        assert OPERATOR.launch(problem, OPERATOR.spec(problem, target), target).is_empty
    else:
        run("gfx90a", **keys)


@pytest.mark.parametrize(("keys", "words"), [
    ({"g": 64, "c": 1, "k": 1}, "depthwise:2:few:1:1:7x3x1x1"),
    ({"g": 64, "c": 1, "k": 1, "image": (28, 22)}, "depthwise:2:few:1:1:2x3x1x1"),
    ({"g": 64, "c": 1, "k": 1, "window": 5, "pads": 2}, "depthwise:2:each:1:1:7x5x1x1"),
    ({"g": 64, "c": 1, "k": 1, "window": 5, "pads": 0}, "depthwise:2:inside:1:1:8x5x1x1"),
    ({"g": 64, "c": 1, "k": 1, "image": (28, 27)}, "depthwise:2:few:1:1:3x3x1x1"),
    ({"g": 64, "c": 1, "k": 1, "image": (28, 29)}, "depthwise:2:few:1:1"),
    ({"g": 64, "c": 1, "k": 1, "strides": 2}, "depthwise:2:each:1:1:7x3x2x1"),
    ({"g": 64, "c": 1, "k": 1, "strides": 3}, "depthwise:2:few:1:1"),  # no place is met twice
    ({"g": 64, "c": 1, "k": 1, "dilations": (1, 2), "pads": 2}, "depthwise:2:each:1:1:7x3x1x2"),
    ({"g": 11, "c": 1, "k": 1, "window": 7, "pads": 3}, "depthwise:2:each:1:1:4x7x1x1"),
    ({"g": 64, "c": 2, "k": 1}, "depthwise:2:few:2:1"),
    ({"g": 64, "c": 1, "k": 1, "window": 7}, "depthwise:2:each:1:1:8x7x1x1"),
    ({"g": 64, "c": 1, "k": 1, "window": 7, "strides": 2}, "depthwise:2:each:1:1:4x7x2x1"),
    ({"g": 64, "c": 1, "k": 1, "window": (32, 1)}, "depthwise:2:padded:1:1"),
    ({"g": 64, "c": 1, "k": 2, "pads": 0}, "depthwise:2:inside:1:2"),
    ({"g": 64, "c": 8, "k": 8}, "depthwise:2:few:8:8"),
    ({"g": 64, "c": 9, "k": 1}, "forward:2:few:1"),
    ({"g": 64, "c": 1, "k": 3}, "forward:2:few:1"),
    ({"g": 1, "c": 1, "k": 1}, "forward:2:few:1"),
    ({"g": 64, "c": 1, "k": 1, "schedule": "compv3"}, "forward:2:few:1"),
    ({"g": 64, "c": 1, "k": 1, "split_k": 2}, "forward:2:few:1"),
    ({"g": 64, "c": 1, "k": 1, "dtype": "xf32"}, "forward:2:few:1"),
    ({"g": 2, "c": 1, "k": 1, "image": (1, 2**20), "window": (1, 2**16)}, "forward:2:padded:1"),
])  # fmt: skip
def test_what_vectors_are_chosen_for(keys: dict[str, Any], words: str) -> None:
    """Groups of few channels, unless the request says how products are made, or divisions would not be exact."""
    assert OPERATOR.spec(OPERATOR.problem(**keys), GFX942).windows == words


def test_a_channel_stays_its_own() -> None:
    """What is not a number in one group is none of the others', nor of the zeros around images."""
    keys: dict[str, Any] = {"n": 1, "g": 16, "c": 2, "k": 2, "image": (6, 6)}
    problem = OPERATOR.problem(**keys)
    arrays = OPERATOR.inputs(problem, GFX942, seed=3)
    arrays["x"][:, :, :, 5] = np.nan
    arrays["w"][7] = np.inf
    y = run_operator(OPERATOR, problem, arrays, GFX942, open_device("sim", GFX942)).outputs["y"]
    finite = np.isfinite(y.astype(np.float32)).all(axis=(0, 1, 2, 4))
    assert [group for group in range(16) if not finite[group]] == [5, 7]


def test_infinite_weights_beside_images() -> None:
    """Strips of whole rows leave out what zeros would be multiplied by: nothing is promised of that channel there, and
    no other is touched.
    """
    problem = OPERATOR.problem(n=1, g=16, c=1, k=1, image=(5, 6), window=3)
    assert OPERATOR.spec(problem, GFX942).windows.endswith(":6x3x1x1x1x6")
    arrays = OPERATOR.inputs(problem, GFX942, seed=3)
    arrays["w"][7] = np.inf
    result = run_operator(OPERATOR, problem, arrays, GFX942, open_device("sim", GFX942))
    assert all(one.ok for one in check_outputs(OPERATOR, problem, arrays, result.outputs, GFX942))
    finite = np.isfinite(result.outputs["y"].astype(np.float32)).all(axis=(0, 1, 2, 4))
    assert [group for group in range(16) if not finite[group]] == [7]


@pytest.mark.parametrize("chip", ["gfx942", *(pytest.param(one, marks=pytest.mark.full) for one in CHIPS[::2])])
def test_schedules_are_proved_and_nothing_spills(chip: str) -> None:
    """The loads of the steady loop are full vectors of images; and there is no matrix instruction."""
    target = get_target(chip)
    spec = OPERATOR.spec(OPERATOR.problem(n=32, g=128, c=1, k=1, image=(56, 56)), target)
    bench = Workbench.of(OPERATOR, spec, target)
    assert bench.compile(bench.schedule, code=False).findings == ()
    kernel = compile_kernel(OPERATOR, spec, target)
    found = kernel.code_object.kernel(kernel.kernel_name).metadata
    assert (found.vgpr_spill_count, found.sgpr_spill_count, found.private_segment_size) == (0, 0, 0)
    code = [one.mnemonic for one in disassemble(kernel.code_object, kernel.kernel_name)]
    assert not any("mfma" in one for one in code)
    assert Counter(code)["buffer_load_dwordx4"] >= 8


@pytest.mark.parametrize("c", [4, pytest.param(8, marks=pytest.mark.full), pytest.param(1, marks=pytest.mark.full)])
def test_sums_of_two_registers_keep_no_scratch(c: int) -> None:
    """Of f64 a lane has half as many sums, and loads half as many elements."""
    spec = OPERATOR.spec(OPERATOR.problem(n=3, g=64, c=c, k=1, image=(8, 8), dtype="f64"), GFX942)
    assert spec.is_depthwise
    kernel = compile_kernel(OPERATOR, spec, GFX942)
    found = kernel.code_object.kernel(kernel.kernel_name).metadata
    assert (found.vgpr_spill_count, found.sgpr_spill_count, found.private_segment_size) == (0, 0, 0)


def test_images_beyond_two_gibibytes() -> None:
    """2.5 GiB of images, of which windows touch a few places, in address space that takes no memory."""
    images, length, groups, stride = 5, 2**22, 64, 2**14
    keys = {"n": images, "image": (length,), "g": groups, "c": 1, "k": 1, "window": 1, "strides": stride, "pads": 0}
    problem = OPERATOR.problem(**keys)
    x, w, y = OPERATOR.arrays(problem)
    assert x.nbytes > 2**31
    simulator = Simulator("gfx942")
    area = np.frombuffer(mmap.mmap(-1, x.nbytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x4000), np.uint8)
    simulator.share(area, "images")  # MAP_NORESERVE
    random = np.random.default_rng(1)
    places = area.view(np.float16).reshape(x.shape)[:, ::stride]
    places[...] = random.standard_normal(places.shape).astype(np.float16)
    weights = random.standard_normal(w.shape).astype(np.float16)
    spec = OPERATOR.spec(problem, GFX942)
    compiled, launch = compile_kernel(OPERATOR, spec, GFX942), OPERATOR.launch(problem, spec, GFX942)
    output = simulator.upload(np.zeros(y.shape, np.float16))
    pointers = {"x": np.uint64(area.ctypes.data), "w": simulator.upload(weights), "y": output}
    arguments = [pointers[one] if isinstance(one, str) else one for one in launch.arguments]
    simulator.launch(compiled.code_object, compiled.kernel_name, launch.grid, launch.block, arguments)
    wanted = places.astype(np.float64) * weights.reshape(groups, 1).astype(np.float64)
    np.testing.assert_allclose(output.read("f2", y.shape).astype(np.float64), wanted, rtol=2e-3, atol=1e-3)


NARROW: tuple[tuple[str, dict[str, Any]], ...] = (
    ("gfx942", {"g": 11, "window": 7, "pads": 3, "dtype": "f16"}), ("gfx950", {"g": 63, "dtype": "bf16"}),
    ("gfx90a", {"g": 127, "dtype": "bf16", "op": "silu(acc) + d0", "d_kind": "full"}),
    ("gfx942", {"g": 62, "window": 7, "pads": 3, "dtype": "f16"}), ("gfx90a", {"g": 21, "dtype": "i8"}),
    ("gfx90a", {"g": 126, "window": 7, "pads": 3, "dtype": "bf16"}),
    ("gfx950", {"g": 2, "dtype": "f16"}),
)  # fmt: skip


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("chip", "keys"), [
    pytest.param(*one, marks=pytest.mark.full if number > 1 else ()) for number, one in enumerate(NARROW)
])  # fmt: skip
def test_narrow_loads_share_coordinates(chip: str, keys: dict[str, Any]) -> None:
    """Single elements, or pairs: nothing is spilled, and a place takes few instructions for each sum of a lane."""
    target = get_target(chip)
    spec = OPERATOR.spec(OPERATOR.problem(n=8, c=1, k=1, image=(56, 56), **keys), target)
    assert spec.is_depthwise and spec.align[0] <= 2
    kernel = compile_kernel(OPERATOR, spec, target)
    found = kernel.code_object.kernel(kernel.kernel_name).metadata
    assert (found.vgpr_spill_count, found.sgpr_spill_count, found.private_segment_size) == (0, 0, 0)
    sums = spec.block[0] * spec.block[1] // (spec.wave_count * WAVE_SIZE)
    strip = DepthwiseSpec.parse(spec.windows).strip
    places = strip.window if strip else 1  # of a step
    assert len(steady_loop(kernel.code_object, kernel.kernel_name).instructions) <= 32 * sums * places


@pytest.mark.parametrize(("groups", "keys", "block"), [
    (126, {}, (56, 128, 1)), (126, {"window": 7}, (64, 128, 1)), (124, {}, (56, 128, 1)), (66, {}, (56, 128, 1)),
    (126, {"dtype": "f32"}, (56, 128, 1)), (126, {"image": (4096,)}, (32, 128, 1)), (127, {"dtype": "i8"}, (28, 64, 1)),
    (124, {"dtype": "i8"}, (56, 128, 1)),
    (124, {"window": 5}, (48, 64, 1)), (124, {"dtype": "f32"}, (56, 64, 1)), (127, {}, (56, 128, 1)),
    (127, {"strides": 2}, (56, 128, 1)), (127, {"strides": 3}, (16, 128, 1)),
    (62, {}, (28, 64, 1)), (130, {}, (28, 64, 1)), (128, {}, (56, 64, 1)), (126, {"k": 2}, (32, 64, 1)),
])  # fmt: skip
def test_rows_that_begin_anywhere_in_cache_lines(
    groups: int, keys: dict[str, Any], block: tuple[int, int, int]
) -> None:
    """One element of several bytes, pairs, and four in windows of few places have blocks of 128 columns where these are
    no more; lanes that load pairs have 32 sums in windows of nine places.
    """
    problem = OPERATOR.problem(**{"n": 32, "g": groups, "c": 1, "k": 1, "image": (56, 56), **keys})
    assert OPERATOR.spec(problem, GFX942).block == block


@pytest.mark.parametrize(("chip", "keys"), [
    ("gfx942", {"g": 126, "image": (5, 7)}),
    *(pytest.param(*one, marks=pytest.mark.full) for one in (
        ("gfx950", {"g": 124, "image": (11,), "dtype": "bf16", "strides": 2}),
        ("gfx90a", {"g": 70, "image": (3, 4, 5), "dtype": "i8", "dilations": 2}),
        ("gfx942", {"g": 126, "image": (6, 5), "dtype": "f32", "op": "silu(acc) + d0", "d_kind": "full"}),
        ("gfx950", {"g": 68, "image": (4, 9), "dtype": "fp8", "window": (1, 5), "pads": (0, 2)}),
    )),
])  # fmt: skip
def test_blocks_of_two_cache_lines(chip: str, keys: dict[str, Any]) -> None:
    """Numbers, under all checkers."""
    keys = {"n": 2, "c": 1, "k": 1, **keys}
    assert OPERATOR.spec(OPERATOR.problem(**keys), get_target(chip)).block[1] == 128
    run(chip, **keys)


@pytest.mark.parametrize(
    "strip", ["7x3", "7x3x1x1x7", "1x3x1x1", "7x0x1x1", "7x3x1x1x0x0", "07x3x1x1", "7x3x1x1x50x7", "7x2000000000x1x1"]
)
def test_texts_that_are_no_strips(strip: str) -> None:
    with pytest.raises(ValueError, match=strip):
        DepthwiseSpec.parse(f"depthwise:2:padded:1:1:{strip}")


def test_long_windows_have_no_strips() -> None:
    """What they meet is not even listed."""
    keys = {"n": 1, "g": 64, "c": 1, "k": 1, "image": (7,), "window": 10**4, "pads": 10**4 - 1, "right_pads": 0}
    spec = OPERATOR.spec(OPERATOR.problem(**keys), GFX942)
    assert spec.is_depthwise and DepthwiseSpec.parse(spec.windows).strip is None


STRIPS: tuple[tuple[str, dict[str, Any], str], ...] = (
    ("gfx942", {"g": 126, "image": (5, 21), "op": "silu(acc) + d0", "d_kind": "full"}, "7x3x1x1"),
    ("gfx950", {"g": 40, "image": (7, 7), "window": 7, "pads": 3, "dtype": "bf16"}, "7x7x1x1x3x7"),
    ("gfx90a", {"g": 11, "image": (3, 10), "window": (3, 5), "strides": 2, "pads": (1, 2), "dtype": "i8"},
     "5x5x2x1x2x10"),
    ("gfx942", {"g": 24, "image": (4, 14), "dilations": (1, 2), "pads": (1, 2)}, "7x3x1x2"),
    ("gfx90a", {"g": 66, "image": (4, 28), "strides": 2, "dtype": "bf16"}, "7x3x2x1"),
    ("gfx950", {"g": 64, "image": (22,), "window": 4, "right_pads": 2, "dtype": "bf16"}, "2x4x1x1"),
    ("gfx942", {"g": 70, "image": (4, 3, 6), "window": (2, 1, 3), "pads": 0, "dtype": "f32"}, "4x3x1x1x0x6"),
    ("gfx90a", {"g": 11, "image": (6, 8), "window": (5, 7), "pads": (2, 3)}, "8x7x1x1x3x8"),
    ("gfx90a", {"g": 11, "image": (6, 20), "window": (5, 7), "pads": (2, 3)}, "5x7x1x1"),
    ("gfx942", {"g": 9, "image": (7, 9), "window": (2, 3), "strides": (3, 1), "dilations": (2, 1), "pads": (0, 3),
                "right_pads": (1, -2)}, "8x3x1x1x3x9"),
    ("gfx90a", {"g": 120, "image": (4, 12), "dtype": "f64"}, "6x3x1x1"),
    ("gfx950", {"g": 128, "image": (2, 6), "window": (1, 2), "pads": (0, 1), "right_pads": (0, 0), "dtype": "fp8"},
     "6x2x1x1x1x6"),
    ("gfx942", {"g": 24, "image": (3, 2), "window": (3, 7), "pads": (1, 3)}, "2x7x1x1x3x2"),
    ("gfx90a", {"g": 1024, "image": (2, 14), "window": (1, 5), "pads": (0, 2)}, "14x5x1x1x2x14"),
    ("gfx950", {"g": 33, "image": (7,), "dilations": 2, "pads": 2, "dtype": "f32"}, "7x3x1x2x2x7"),
    ("gfx942", {"g": 65, "image": (3, 4, 5), "window": (2, 1, 4), "pads": (0, 1, 4), "right_pads": (1, 0, -1),
                "dtype": "bf16"}, "5x4x1x1x4x5"),
)  # fmt: skip


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("chip", "keys", "strip"), [
    pytest.param(*one, marks=pytest.mark.full if number > 1 else ()) for number, one in enumerate(STRIPS)
])  # fmt: skip
def test_strips_of_positions(chip: str, keys: dict[str, Any], strip: str) -> None:
    """Numbers, under all checkers, along one dimension to three, with paddings and without."""
    keys = {"n": 2, "c": 1, "k": 1, **keys}
    assert OPERATOR.spec(OPERATOR.problem(**keys), get_target(chip)).windows.endswith(f":{strip}")
    run(chip, **keys)


def test_few_places_in_each_dimension_without_strips() -> None:
    """A number of positions that no strip divides, seen by 7 x 7."""
    keys: dict[str, Any] = {"n": 2, "g": 20, "c": 1, "k": 1, "image": (5, 11), "window": 7, "pads": 3}
    assert OPERATOR.spec(OPERATOR.problem(**keys), GFX942).windows == "depthwise:2:each:1:1"
    run("gfx942", **keys)


@pytest.mark.full
@pytest.mark.parametrize("strip", ["2x3x2x1", "8x3x2x1"])
def test_strips_that_somebody_names(strip: str) -> None:
    """Of strides, and of groups of several channels that become several."""
    keys: dict[str, Any] = {"n": 2, "g": 12, "c": 2, "k": 4, "image": (3, 16), "strides": (1, 2)}
    problem = OPERATOR.problem(**keys)
    plain = OPERATOR.spec(problem, GFX942)
    named = replace(plain, windows=f"depthwise:2:few:2:4:{strip}", block=(64, 32, 1), waves=(1, 1), pad="mn")
    if strip.startswith("8"):  # 17 places in three rows
        named = replace(named, windows=named.windows.replace("few", "each"))
    assert not OPERATOR.validate(named, GFX942)
    arrays = OPERATOR.inputs(problem, GFX942, seed=3)
    result = run_operator(OPERATOR, problem, arrays, GFX942, open_device("sim", GFX942), spec=named)
    assert all(one.ok for one in check_outputs(OPERATOR, problem, arrays, result.outputs, GFX942))


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("keys", "loads"), [({"g": 128}, 24), ({"g": 126}, 42), ({"g": 128, "strides": 2}, 36)])
def test_strips_load_once_what_several_positions_meet(keys: dict[str, Any], loads: int) -> None:
    """A step is a row of the window: seven positions by three places meet nine, with strides 15, of which lanes have a
    load, or two, for each strip, and weights of three places. A turn has two steps; and nothing is spilled."""
    spec = OPERATOR.spec(OPERATOR.problem(n=32, c=1, k=1, image=(56, 56), **keys), GFX942)
    kernel = compile_kernel(OPERATOR, spec, GFX942)
    found = kernel.code_object.kernel(kernel.kernel_name).metadata
    assert (found.vgpr_spill_count, found.sgpr_spill_count, found.private_segment_size) == (0, 0, 0)
    assert steady_loop(kernel.code_object, kernel.kernel_name).mix["vmem"] <= loads


@pytest.mark.parametrize(("groups", "keys", "block", "waves"), [
    (240, {"window": 5}, (56, 64, 1), 2), (192, {"window": 7, "dtype": "bf16"}, (56, 64, 1), 2),
    (96, {"window": 7}, (112, 32, 1), 2), (160, {"window": 5}, (112, 32, 1), 2), (224, {"window": 5}, (56, 64, 1), 2),
    (240, {}, (56, 64, 1), 1), (240, {"window": 5, "strides": 2}, (28, 64, 1), 1),
    (32, {"window": 5, "image": (56, 112)}, (112, 32, 1), 1),
    (240, {"window": 5, "dtype": "i8"}, (56, 64, 1), 1),
])  # fmt: skip
def test_blocks_of_large_windows(groups: int, keys: dict[str, Any], block: tuple[int, int, int], waves: int) -> None:
    """Lanes have half as many sums, and a half block that would be left over makes blocks of 32 columns."""
    keys = {"image": (28, 28), "pads": keys.get("window", 3) // 2, **keys}
    spec = OPERATOR.spec(OPERATOR.problem(n=32, g=groups, c=1, k=1, **keys), GFX942)
    assert (spec.block, spec.waves) == (block, (waves, 1))


@pytest.mark.parametrize(("chip", "keys"), [
    ("gfx942", {"g": 56, "image": (3, 21)}),
    *(pytest.param(*one, marks=pytest.mark.full) for one in (
        ("gfx950", {"g": 64, "image": (9, 20), "dtype": "bf16"}), ("gfx90a", {"g": 72, "image": (4, 21), "window": 8}),
        ("gfx942", {"g": 208, "image": (2, 28), "op": "silu(acc) + d0", "d_kind": "row"}),
    )),
])  # fmt: skip
def test_weights_that_are_converted_in_lds(chip: str, keys: dict[str, Any]) -> None:
    """Numbers of strips of long windows, under all checkers."""
    keys = {"n": 2, "c": 1, "k": 1, "window": 7, "pads": 3, **keys}
    assert converts_weights(OPERATOR.spec(OPERATOR.problem(**keys), get_target(chip)))
    run(chip, **keys)


@pytest.mark.parametrize("chip", ["gfx942", *(pytest.param(one, marks=pytest.mark.full) for one in CHIPS[::2])])
def test_rows_take_no_more_than_their_images_have(chip: str) -> None:
    """Of 7 positions by 7 places 37 meet the image, which has 7 places: a lane loads four channels of each, and
    multiplies what is met, two channels at a time, once their halves are converted. Weights of all places are one tile
    of eight for 64 channels. A turn has two steps.
    """
    target = get_target(chip)
    spec = OPERATOR.spec(OPERATOR.problem(n=32, g=768, c=1, k=1, image=(7, 7), window=7, pads=3), target)
    kernel = compile_kernel(OPERATOR, spec, target)
    loop = steady_loop(kernel.code_object, kernel.kernel_name)
    assert sum(one.mnemonic == "v_pk_fma_f32" for one in loop.instructions) == 2 * 37 * 2
    assert sum(one.mnemonic.startswith("v_cvt_f32_f16") for one in loop.instructions) == 2 * (7 + 7) * 4
    assert loop.mix["valu"] <= 284 and loop.mix["vmem"] == 2 * (7 + 8)
    assert sum(one.mnemonic.startswith("ds_read") for one in loop.instructions) == 2 * 7
    found = kernel.code_object.kernel(kernel.kernel_name).metadata
    assert (found.vgpr_spill_count, found.sgpr_spill_count, found.private_segment_size) == (0, 0, 0)


@pytest.mark.parametrize("keys", [{"image": (28, 29)}, {"window": 5, "pads": 2}, {"strides": 2}, {"dilations": 2}])
def test_strips_are_those_of_their_windows(keys: dict[str, Any]) -> None:
    """Positions that strips do not divide, and other windows, are another kernel's; further strips are not."""
    spec = OPERATOR.spec(OPERATOR.problem(g=64, c=1, k=1), GFX942)
    others = OPERATOR.problem(g=64, c=1, k=1, n=3, image=(9, 14), window=(2, 3), strides=(2, 1))
    assert not OPERATOR.mismatches(others, replace(spec, pad="m"), GFX942)
    reasons = OPERATOR.mismatches(OPERATOR.problem(**{"g": 64, "c": 1, "k": 1, **keys}), spec, GFX942)
    assert "windows" in {reason.field for reason in reasons}


def test_blocks_of_few_rows() -> None:
    """A kernel that somebody names: 24 rows, of which 8 are the most that lanes can share evenly."""
    keys: dict[str, Any] = {"n": 2, "g": 9, "c": 1, "k": 1, "image": (9, 11)}
    problem = OPERATOR.problem(**keys)
    named = replace(OPERATOR.spec(problem, GFX942), block=(24, 8, 1), waves=(1, 1), pad="mn")
    assert not OPERATOR.validate(named, GFX942)
    arrays = OPERATOR.inputs(problem, GFX942, seed=3)
    result = run_operator(OPERATOR, problem, arrays, GFX942, open_device("sim", GFX942), spec=named)
    assert all(one.ok for one in check_outputs(OPERATOR, problem, arrays, result.outputs, GFX942))


@pytest.mark.parametrize(("field", "value"), [
    ("mfma", (32, 32, 8)), ("epilogue", "cshuffle"), ("schedule", "compv3"), ("slices", (2, 1)), ("sink", "atomic"),
    ("block", (128, 64, 2)), ("block", (1024, 64, 1)), ("waves", (2, 2)), ("windows", "depthwise:2:padded:9:1"),
    ("windows", "depthwise:2:padded:1:1:17x3x1x1"), ("windows", "depthwise:2:padded:1:1:4x3"),
    ("windows", "depthwise:2:few:1:1:7x3x1x1x9x7"),  # no window meets the image
])  # fmt: skip
def test_kernels_that_are_refused(field: str, value: Any) -> None:
    """Each with a reason that names the field."""
    spec = OPERATOR.spec(OPERATOR.problem(g=64, c=1, k=1), GFX942)
    reasons = OPERATOR.validate(spec.__class__(**{**vars(spec), field: value}), GFX942)
    assert field in {reason.field for reason in reasons}
