"""Convolutions of images against their references, and references against loops."""

from __future__ import annotations

import mmap
from typing import Any

import numpy as np
import pytest
from convolution_cases import ALIKE, Bench, convolved, draw, draw_alike
from operator_runner import CHIPS, agree

from ckmlir.compiler import compile_kernel
from ckmlir.ops import find_operator
from ckmlir.ops.contraction.parts import part_length, parts_of
from ckmlir.ops.request import RequestError
from ckmlir.runtime import open_device
from ckmlir.runtime.run import check_outputs, run_operator
from ckmlir.scheduling.machine_loop import steady_loop
from ckmlir.scheduling.workbench import Workbench
from ckmlir.sim.decode import disassemble, instruction_mix
from ckmlir.sim.simulator import Simulator
from ckmlir.targets import get_target

OPERATOR = find_operator("conv_fwd")
GFX942 = get_target("gfx942")
DRAWN = 500
DEFAULT = {25}
"""Seeds of the convolutions of any kind that are run by default."""
BENCH = Bench(OPERATOR, "gfx90a")


def run(chip: str, **keys: Any) -> None:
    """Run a request under all checkers, and compare it with the reference and that with loops."""
    target = get_target(chip)
    problem = OPERATOR.problem(**keys)
    arrays = OPERATOR.inputs(problem, target, seed=3)
    result = run_operator(OPERATOR, problem, arrays, target, open_device("sim", target, seed=5, checks="all"))
    comparisons = check_outputs(OPERATOR, problem, arrays, result.outputs, target)
    assert all(one.ok for one in comparisons), "; ".join(map(str, comparisons))
    found = OPERATOR.reference(problem, arrays)["y"]
    by_loops = convolved(keys, arrays["x"], arrays["w"], found.shape[1:-2])
    np.testing.assert_allclose(found.astype(np.float64), by_loops, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(
    "seed", [pytest.param(seed, marks=() if seed in DEFAULT else pytest.mark.full) for seed in range(DRAWN)]
)
def test_geometries_drawn_at_random(seed: int) -> None:
    """Strides, dilations, paddings, groups and channels of any kind, on changing chips."""
    keys = draw(seed)
    run(CHIPS[1 + seed % 2 if keys["dtype"] == "fp8" else seed % 3], **keys)


@pytest.mark.one_in(4)
@pytest.mark.parametrize("seed", range(ALIKE))
def test_geometries_of_one_kernel(seed: int) -> None:
    """Strides, dilations and paddings of any kind, several channels and images, under all checkers."""
    keys = draw_alike(seed)
    arrays, outputs = BENCH.run(keys)
    found = outputs["y"]
    by_loops = convolved(keys, arrays["x"], arrays["w"], found.shape[1:-2])
    np.testing.assert_allclose(found.astype(np.float64), by_loops, rtol=1e-6, atol=1e-6)


CASES: tuple[tuple[str, dict[str, Any]], ...] = (
    ("gfx90a", {"n": 2, "c": 16, "k": 24, "image": (9, 10), "window": (3, 2), "strides": (2, 1), "dilations": (1, 2),
                "pads": (1, 0), "right_pads": (2, 1), "g": 3, "dtype": "bf16"}),
    ("gfx942", {"n": 2, "c": 3, "k": 64, "image": (23,), "window": (7,), "strides": 2, "pads": 3}),  # a stem
    ("gfx950", {"n": 1, "c": 1, "k": 1, "g": 8, "image": (4, 5, 6), "window": 3, "dtype": "f32"}),  # depthwise
)  # fmt: skip


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("chip", "keys"), CASES)
def test_convolutions(chip: str, keys: dict[str, Any]) -> None:
    """One, two and three dimensions, channels in vectors and one by one, groups."""
    run(chip, **keys)


@pytest.mark.one_in(4)
@pytest.mark.parametrize("keys", [
    {"op": "relu(acc + d0) + d1 * d2 - d3", "d_kind": "row,full,column,scalar", "d": "f32,f16,i8,f32", "g": 2},
    {"op": "acc + d0", "d_kind": "row", "split_k": 3, "g": 2}, {"split_k": 2, "reduction": "atomic", "out": "f32"},
    {"op": "silu(acc) * d0", "window": (1, 1), "pads": 0},
])  # fmt: skip
def test_expressions_and_parts(keys: dict[str, Any]) -> None:
    """A residual as y, a bias for each channel, a number for each position or for all; sums in parts."""
    agree("conv_fwd", "gfx942", **{"n": 2, "c": 24, "k": 20, "image": (5, 6), **keys})


def test_a_d_tensor_meets_its_element() -> None:
    """By the reference: which element of a D tensor meets which of y."""
    shape = {"n": 2, "g": 3, "c": 2, "k": 4, "image": (5, 6), "window": (2, 2), "pads": 0}
    problem = OPERATOR.problem(**shape, op="0 * acc + d0 + d1 + d2 + d3", d_kind="full,row,column,scalar", out="f32")
    arrays = OPERATOR.inputs(problem, GFX942)
    assert [arrays[f"d{place}"].shape for place in range(4)] == [(2, 4, 5, 3, 4), (3, 4), (2, 4, 5), (1,)]
    d0, d1, d2, d3 = (arrays[f"d{place}"].astype(np.float64) for place in range(4))
    wanted = d0 + d1 + d2[..., None, None] + d3
    np.testing.assert_allclose(OPERATOR.reference(problem, arrays)["y"], wanted, rtol=1e-6, atol=1e-6)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("keys", [
    {"n": 0}, {"image": (0, 6)}, {"image": (1, 1), "window": (5, 5)}, {"image": (1, 2), "window": (1, 1), "pads": 0},
    {"image": (2, 2), "window": (2, 2), "pads": 3, "strides": 2},  # whole windows lie in the padding
    {"image": (0, 0), "window": (2, 2), "pads": 2},
])  # fmt: skip
def test_sizes_at_the_ends(keys: dict[str, Any]) -> None:
    """Nothing to compute, one position, windows of nothing but padding."""
    run("gfx950", **{"n": 1, "c": 8, "k": 8, "image": (3, 3), "pads": 1, **keys})


def test_windows_of_one_place_are_plain_matrices() -> None:
    """The kernel knows nothing of windows; with strides or padding it does."""
    one = {"c": 64, "k": 64, "window": 1, "pads": 0}
    assert OPERATOR.spec(OPERATOR.problem(**one), GFX942).windows == ""
    assert OPERATOR.spec(OPERATOR.problem(**one, strides=2), GFX942).windows == "forward:2:inside:64"
    assert OPERATOR.spec(OPERATOR.problem(**{**one, "pads": 1}), GFX942).windows == "forward:2:few:64"


def test_windows_of_few_places() -> None:
    """31 places have bits, in one dimension or in three, of single channels too; more are compared."""
    found = {}
    for window, c in (((31,), 8), ((32,), 8), ((3, 3, 3), 8), ((3, 3, 4), 8), ((3, 3), 1)):
        problem = OPERATOR.problem(c=c, k=64, image=(40,) * len(window), window=window)
        found[window, c] = OPERATOR.spec(problem, GFX942).windows.split(":")[2]
    assert list(found.values()) == ["few", "padded", "few", "padded", "few"]
    for dilation, word in ((8192, "few"), (8193, "padded")):  # places far apart, whose number no product finds
        problem = OPERATOR.problem(c=8, image=(20000,), window=3, dilations=dilation)
        assert OPERATOR.spec(problem, GFX942).windows.split(":")[2] == word


@pytest.mark.one_in(2)
@pytest.mark.parametrize("keys", [
    {"c": 2, "image": (33,), "window": 31, "dilations": 2, "pads": 30, "right_pads": 34, "strides": 3},
    {"c": 8, "image": (17000,), "window": 3, "dilations": 8192, "pads": 5, "right_pads": 3, "strides": 1},
    {"c": 8, "image": (3, 4, 2), "window": (3, 5, 2), "pads": (2, 1, 0), "right_pads": (0, 4, 3), "dtype": "f32"},
])  # fmt: skip
def test_bits_of_places(keys: dict[str, Any]) -> None:
    """Windows with nearly as many places as there are bits, many of them in the padding; the last step is a part."""
    run("gfx942", n=2, k=8, **keys)


@pytest.mark.one_in(4)
@pytest.mark.parametrize(("c", "valu", "salu"), [(128, 0, 10), (64, 0, 10), (40, 31, 13), (36, 40, 13), (34, 67, 13)])
def test_places_are_found_once(c: int, valu: int, salu: int) -> None:
    """For 32 matrix instructions so many others, in turns that stay at a place of a window, where channels are whole
    turns of the steady loop and whole steps; and where they are not.
    """
    spec = OPERATOR.spec(OPERATOR.problem(n=32, c=c, k=256), GFX942)
    kernel = compile_kernel(OPERATOR, spec, GFX942)
    mix = steady_loop(kernel.code_object, kernel.kernel_name).mix
    assert 32 * mix["valu"] <= valu * mix["mfma"]
    assert 32 * mix["salu"] <= salu * mix["mfma"]


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("block", "valu"), [((64, 64, 32), 320), ((128, 128, 64), 147)])
def test_single_elements_carry_their_digits(block: tuple[int, int, int], valu: int) -> None:
    """Odd numbers of channels: no step divides; vector instructions for 32 matrix instructions."""
    problem = OPERATOR.problem(n=8, c=33, k=128, image=(28, 28), block=block)
    kernel = compile_kernel(OPERATOR, OPERATOR.spec(problem, GFX942), GFX942)
    loop = steady_loop(kernel.code_object, kernel.kernel_name)
    assert 32 * loop.mix["valu"] <= valu * loop.mix["mfma"]
    assert not any(one.mnemonic == "v_mul_hi_u32" for one in loop.instructions)
    kept = kernel.code_object.kernel(kernel.kernel_name).metadata
    assert (kept.vgpr_spill_count, kept.sgpr_spill_count, kept.private_segment_size) == (0, 0, 0)


@pytest.mark.parametrize(("operator", "keys", "valu"), [
    ("conv_fwd", {"n": 32, "c": 3, "k": 64, "image": (224, 224), "window": 7, "strides": 2, "pads": 3}, 478),
    ("conv_fwd", {"n": 32, "g": 126, "c": 1, "k": 1, "image": (59, 59)}, 486),
    pytest.param("conv_fwd", {"n": 32, "c": 128, "k": 128, "image": (28, 28)}, 320, marks=pytest.mark.full),
    pytest.param("conv_fwd", {"n": 32, "g": 128, "c": 1, "k": 1, "image": (59, 59)}, 535, marks=pytest.mark.full),
    pytest.param("conv_bwd_data", {"n": 32, "c": 128, "k": 128, "image": (28, 28)}, 622, marks=pytest.mark.full),
])  # fmt: skip
def test_lanes_share_positions(operator: str, keys: dict[str, Any], valu: int) -> None:
    """All vector instructions of a kernel. Where each lane finds the positions of all its rows it takes 788, 765, 467,
    815 and 772.
    """
    found = find_operator(operator)
    kernel = compile_kernel(found, found.spec(found.problem(**keys), get_target("gfx942")), get_target("gfx942"))
    assert instruction_mix(disassemble(kernel.code_object, kernel.kernel_name))["valu"] <= valu


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("keys", "schedule"), [
    ({"c": 256}, "straight"), ({"c": 128, "dtype": "fp8"}, "straight"),
    ({"c": 96}, "compv4"),  # places of the window change within steps
])  # fmt: skip
def test_weights_go_past_lds_on_gfx950(keys: dict[str, Any], schedule: str) -> None:
    """Where LDS would be the limit, as of plain products; nothing is spilled."""
    target = get_target("gfx950")
    spec = OPERATOR.spec(OPERATOR.problem(**{"n": 32, "k": 256, "image": (20, 20), **keys}), target)
    assert (spec.block[:2], spec.schedule) == ((128, 128), schedule)
    kernel = compile_kernel(OPERATOR, spec, target)
    found = kernel.code_object.kernel(kernel.kernel_name).metadata
    assert (found.vgpr_spill_count, found.sgpr_spill_count) == (0, 0)


def test_parts_of_patches_are_one_for_a_compute_unit() -> None:
    """Two where LDS holds two workgroups take longer; of plain matrices they do not."""
    few = {"n": 32, "c": 256, "k": 256, "image": (14, 14)}
    for name, parts in (("conv_fwd", 2), ("conv_bwd_data", 2), ("conv_bwd_weight", 7)):
        chosen, target = find_operator(name), get_target("gfx950")
        problem = chosen.problem(**few)
        assert parts_of(problem, part_length(problem, chosen.spec(problem, target), target)) == parts


SMALL = {"block": (32, 32, 32), "wave": (1, 1)}
TURNS = (
    ("conv_fwd", "gfx942", {"c": 192, "schedule": "compv3", **SMALL}),  # six turns a place
    ("conv_fwd", "gfx950", {"c": 128, "g": 2, "schedule": "compv4", **SMALL}),  # two, of two steps
    ("conv_fwd", "gfx90a", {"c": 256, "image": (2, 3, 2), "window": 2, "strides": (1, 2, 1), "dtype": "bf16"}),
    ("conv_bwd_data", "gfx942", {"k": 192, "c": 8, "strides": 2, "schedule": "compv3", **SMALL}),
    ("conv_bwd_data", "gfx950", {"k": 256, "c": 8, "image": (7,), "window": 3, "dilations": 2}),
    ("conv_fwd", "gfx942", {"c": 96, "schedule": "compv4", **SMALL}),  # three steps, and two a turn
    ("conv_fwd", "gfx90a", {"c": 160, "schedule": "compv4", "split_k": 3, **SMALL}),  # a part begins within a turn
    ("conv_fwd", "gfx950", {"c": 256, "schedule": "compv4", "split_k": 7, "reduction": "atomic", **SMALL}),
    ("conv_bwd_data", "gfx942", {"k": 224, "c": 8, "strides": 2, "schedule": "mem3", **SMALL}),  # three a turn
    ("conv_bwd_data", "gfx950", {"k": 192, "c": 8, "image": (7,), "window": 3, "dilations": 2, "split_k": 2}),
)


@pytest.mark.one_in(10)
@pytest.mark.parametrize(("operator", "chip", "keys"), TURNS)
def test_turns_without_carries(operator: str, chip: str, keys: dict[str, Any]) -> None:
    """Several turns of the steady loop at each place of a window, some of which lie in the padding."""
    agree(operator, chip, **{"n": 2, "k": 8, "image": (3, 4), "window": (3, 2), "pads": 1, "right_pads": 0, **keys})


TALL = {"wave": (4, 1), "schedule": "compv3"}


@pytest.mark.parametrize(("operator", "keys", "block"), [
    ("conv_fwd", {}, (256, 64, 32)), ("conv_fwd", {"dtype": "f32"}, (256, 64, 16)),
    ("conv_bwd_data", {}, (256, 64, 32)), ("conv_bwd_data", {"k": 3}, (256, 64, 8)),
    ("conv_fwd", {"c": 1, "window": 7, "strides": 2, "pads": 3, "image": (224, 224)}, (256, 64, 8)),
    ("conv_fwd", {"n": 4}, (64, 64, 128)), ("conv_fwd", {"k": 128}, (128, 128, 64)),
    ("conv_fwd", {"wave": (2, 2)}, (64, 64, 64)),
])  # fmt: skip
def test_few_columns_and_many_rows(operator: str, keys: dict[str, Any], block: tuple[int, ...]) -> None:
    """Blocks are tall where there is one for every compute unit, unless the request says otherwise."""
    chosen = find_operator(operator)
    spec = chosen.spec(chosen.problem(**{"n": 32, "c": 64, "k": 64, "image": (56, 56), **keys}), GFX942)
    assert spec.block == block and (spec.waves == (4, 1)) == (block[0] == 256)


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("operator", "chip", "keys"), [
    ("conv_fwd", "gfx942", {"c": 3, "block": (256, 64, 8)}), ("conv_fwd", "gfx90a", {"c": 24, "block": (256, 64, 32)}),
    ("conv_bwd_data", "gfx950", {"c": 24, "block": (256, 64, 32), "strides": 2}),
])  # fmt: skip
def test_tall_blocks(operator: str, chip: str, keys: dict[str, Any]) -> None:
    """Ragged rows of several images, ragged columns."""
    agree(operator, chip, n=3, k=40, image=(11, 10), **TALL, **keys)


@pytest.mark.parametrize("chip", CHIPS)
def test_schedules_are_proved(chip: str) -> None:
    target = get_target(chip)
    spec = OPERATOR.spec(OPERATOR.problem(c=8, k=16, image=(9, 9), g=2), target)
    bench = Workbench.of(OPERATOR, spec, target)
    assert bench.compile(bench.schedule, code=False).findings == ()


def test_copies_to_another_buffer_may_fly_on() -> None:
    """B's are on their way to LDS while C goes through where A's were: the check of waits tells the buffers apart."""
    target = get_target("gfx90a")
    spec = OPERATOR.spec(OPERATOR.problem(dtype="i8", schedule="async_wide"), target)
    bench = Workbench.of(OPERATOR, spec, target)
    assert bench.compile(bench.schedule, code=False).findings == ()


@pytest.mark.parametrize(
    ("chip", "align"), [("gfx942", 1), *(pytest.param(chip, 8, marks=pytest.mark.full) for chip in CHIPS)]
)
def test_no_listed_kernel_spills(chip: str, align: int) -> None:
    """With channels one by one, where conditions are many, and in vectors."""
    target = get_target(chip)
    specs = OPERATOR.kernels(target)
    words = {spec.windows.rpartition(":")[0] for spec in specs}
    depthwise = {"depthwise:2:few:1", "depthwise:2:few:1:1"}  # those with strips have a word more
    assert words == {"", "forward:2:few", "forward:2:padded", "forward:3:few", *depthwise}
    for spec in specs:
        if spec.dtype == "f16" and spec.align[0] <= align:
            kernel = compile_kernel(OPERATOR, spec, target)
            found = kernel.code_object.kernel(kernel.kernel_name).metadata
            counts = (found.vgpr_spill_count, found.sgpr_spill_count, found.private_segment_size)
            assert counts == (0, 0, 0), spec.name


def test_images_beyond_two_gibibytes() -> None:
    """2.5 GiB of images, of which windows touch a few places, in address space that takes no memory."""
    images, length, channels, stride = 5, 2**22, 64, 2**14
    keys = {"n": images, "image": (length,), "c": channels, "k": 8, "window": 1, "strides": stride, "pads": 0}
    problem = OPERATOR.problem(**keys)
    x, w, y = OPERATOR.arrays(problem)
    assert x.nbytes > 2**31
    simulator = Simulator("gfx942")
    area = np.frombuffer(mmap.mmap(-1, x.nbytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x4000), np.uint8)
    simulator.share(area, "images")  # MAP_NORESERVE
    random = np.random.default_rng(1)
    places = area.view(np.float16).reshape(x.shape)[:, ::stride, 0]
    places[...] = random.standard_normal(places.shape).astype(np.float16)
    weights = random.standard_normal(w.shape).astype(np.float16)
    spec = OPERATOR.spec(problem, GFX942)
    compiled, launch = compile_kernel(OPERATOR, spec, GFX942), OPERATOR.launch(problem, spec, GFX942)
    output = simulator.upload(np.zeros(y.shape, np.float16))
    pointers = {"x": np.uint64(area.ctypes.data), "w": simulator.upload(weights), "y": output}
    arguments = [pointers[one] if isinstance(one, str) else one for one in launch.arguments]
    simulator.launch(compiled.code_object, compiled.kernel_name, launch.grid, launch.block, arguments)
    wanted = places.astype(np.float64) @ weights[0, :, 0].astype(np.float64).T
    found = output.read("f2", y.shape)[:, :, 0].astype(np.float64)
    np.testing.assert_allclose(found, wanted, rtol=2e-3, atol=2e-2)


@pytest.mark.parametrize(("keys", "words"), [
    ({"n": 3, "image": (2**15, 2**15), "strides": 2**14, "window": 1, "pads": 0, "c": 1}, "array x: what a workgroup"),
    ({"image": (2**20, 2**20), "pads": 0, "c": 1}, "the elements from one image to the next"),
    ({"c": 0}, "c=0: expected a whole number from 1"),
    ({"image": (5, 5, 5), "window": (3, 3)}, "window=3x3: expected one number, or one for each of 3"),
    ({"op": "acc + d0", "d_kind": "rows"}, "d_kind=rows: expected 1 to 4 of full, row, column, scalar"),
    ({"n": 2**12, "image": (2**10, 2**10), "c": 1, "k": 1}, "positions of windows in all images"),
    ({"g": 2**16, "c": 2**16, "image": (1,)}, "from one image to the next"),
    ({"dtype": "i8", "out": "f16"}, "dtype=i8 gives i32"),
])  # fmt: skip
def test_requests_that_are_refused(keys: dict[str, Any], words: str) -> None:
    """Each is one error that says what is wrong."""
    with pytest.raises(RequestError, match=words):
        OPERATOR.problem(**keys)


def test_short_sums_have_two_workgroups_a_compute_unit() -> None:
    """As plain products have, where a step has one place of the window."""
    def schedule(**keys: object) -> str:
        problem = OPERATOR.problem(**{"n": 32, "c": 512, "k": 1024, "window": 1, "pads": 0, "strides": 2, **keys})
        return str(OPERATOR.spec(problem, GFX942).schedule)

    assert schedule() == schedule(c=128, k=320, window=3, pads=1, strides=1) == "compv6"
    assert schedule(c=520) == schedule(c=4096) == "compv4"
