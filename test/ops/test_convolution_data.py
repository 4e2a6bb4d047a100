"""Gradients of the images of convolutions against their references, references against loops; and that forward and both
gradients are adjoints.
"""

from __future__ import annotations

import mmap
from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
import pytest
from convolution_cases import ALIKE, Bench, convolved, draw, draw_alike, image_gradient
from operator_runner import CHIPS, agree, checked

from ckmlir.compiled_kernel import CompiledKernel
from ckmlir.compiler import compile_kernel
from ckmlir.ops import find_operator
from ckmlir.ops.contraction.reciprocals import reciprocal
from ckmlir.ops.contraction.residues import GEOMETRY, Residues
from ckmlir.ops.request import RequestError
from ckmlir.runtime import open_device
from ckmlir.runtime.run import check_outputs, run_operator
from ckmlir.scheduling.machine_loop import steady_loop
from ckmlir.scheduling.workbench import Workbench
from ckmlir.sim.decode import disassemble
from ckmlir.sim.simulator import Simulator
from ckmlir.targets import get_target

OPERATOR = find_operator("conv_bwd_data")
GFX942 = get_target("gfx942")
DRAWN = 500
BENCH = Bench(OPERATOR, "gfx950")


def run(chip: str, **keys: Any) -> None:
    """Run a request under all checkers, and compare it with the reference and that with loops."""
    target = get_target(chip)
    problem = OPERATOR.problem(**keys)
    arrays = OPERATOR.inputs(problem, target, seed=3)
    result = run_operator(OPERATOR, problem, arrays, target, open_device("sim", target, seed=5, checks="all"))
    comparisons = check_outputs(OPERATOR, problem, arrays, result.outputs, target)
    assert all(one.ok for one in comparisons), "; ".join(map(str, comparisons))
    found = OPERATOR.reference(problem, arrays)["dx"]
    by_loops = image_gradient(keys, arrays["dy"], arrays["w"], found.shape)
    np.testing.assert_allclose(found.astype(np.float64), by_loops, rtol=1e-6, atol=1e-6)


@pytest.mark.full
@pytest.mark.parametrize("seed", range(DRAWN))
def test_geometries_drawn_at_random(seed: int) -> None:
    """Strides, dilations, paddings, groups and channels of any kind, on changing chips."""
    keys = draw(seed)
    run(CHIPS[1 + seed % 2 if keys["dtype"] == "fp8" else seed % 3], **keys)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("seed", range(ALIKE))
def test_geometries_of_one_kernel(seed: int) -> None:
    """Strides, dilations and paddings of any kind, several channels and images, under all checkers."""
    keys = draw_alike(seed)
    arrays, outputs = BENCH.run(keys)
    found = outputs["dx"]
    by_loops = image_gradient(keys, arrays["dy"], arrays["w"], found.shape)
    np.testing.assert_allclose(found.astype(np.float64), by_loops, rtol=1e-6, atol=1e-6)


CASES: tuple[tuple[str, dict[str, Any]], ...] = (
    ("gfx90a", {"n": 2, "c": 16, "k": 24, "g": 2, "image": (9, 10), "window": (3, 3), "strides": 2, "dtype": "bf16"}),
    # stride and dilation have a factor in common, so that whole classes meet nothing
    ("gfx942", {"n": 2, "c": 3, "k": 20, "image": (31,), "window": (4,), "strides": 6, "dilations": 4, "pads": 5}),
    ("gfx950", {"n": 1, "c": 1, "k": 1, "g": 8, "image": (4, 5, 6), "window": 3, "strides": 2, "dtype": "f32"}),
)  # fmt: skip


@pytest.mark.one_in(3)
@pytest.mark.parametrize(("chip", "keys"), CASES)
def test_gradients(chip: str, keys: dict[str, Any]) -> None:
    """One, two and three dimensions with classes, groups, depthwise."""
    run(chip, **keys)


def test_expressions() -> None:
    """What lies as dx is read where a class writes."""
    keys = {"op": "relu(acc + d0) * d1 - d2", "d_kind": "full,row,scalar", "d": "f32,f16,f32", "g": 2}
    agree("conv_bwd_data", "gfx942", n=2, c=24, k=20, image=(5, 6), strides=2, **keys)


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("chip", "keys"), [
    ("gfx942", {"g": 2, "strides": 2, "op": "relu(acc + d0) * d1 - d2", "d_kind": "full,row,scalar"}),
    # of eight parts of the longest sums a class with fewer places has fewer, and others nothing at all
    ("gfx950", {"strides": (2, 3), "window": (4, 2), "split_k": 8, "reduction": "atomic", "out": "f32"}),
    ("gfx90a", {"window": 1, "pads": 0, "k": 200}),
])  # fmt: skip
def test_parts_of_sums(chip: str, keys: dict[str, Any]) -> None:
    """Through a workspace, added by memory, of plain matrices; classes with short sums have none in the last parts."""
    checked("conv_bwd_data", chip, {"n": 2, "c": 24, "k": 72, "image": (5, 6), "split_k": 3, **keys})


def test_long_sums_are_shared() -> None:
    """Where few blocks have them; not where parts would be beyond the reach of 32-bit offsets."""
    few = OPERATOR.problem(n=32, c=512, k=512, image=(7, 7))
    assert OPERATOR.spec(few, GFX942).sink == "partial"
    assert OPERATOR.spec(OPERATOR.problem(n=32, c=512, k=512, image=(7, 7), split_k=1), GFX942).sink == "store"
    wide = {"n": 32, "c": 1024, "k": 64, "image": (1024, 32)}
    assert OPERATOR.problem(**wide).split_k == 1
    with pytest.raises(RequestError, match="split_k=2: a part's sums take 4294967296 bytes"):
        OPERATOR.problem(**wide, split_k=2)


@pytest.mark.one_in(8)
@pytest.mark.parametrize("keys", [
    {"n": 0}, {"image": (1, 1), "window": 5}, {"image": (2, 2), "window": 2, "pads": 3, "strides": 2},
    {"image": (1, 2), "window": 1, "pads": 0}, {"image": (5, 3), "window": 1, "pads": 0, "strides": 70000},
    {"image": (4, 4), "window": 6, "pads": 0},  # there is no position: zeros
])  # fmt: skip
def test_sizes_at_the_ends(keys: dict[str, Any]) -> None:
    """Nothing to compute, places that nothing meets, strides beyond the image, plain matrices."""
    run("gfx950", **{"n": 1, "c": 8, "k": 8, "image": (3, 3), "window": 3, "pads": 1, **keys})


@pytest.mark.parametrize("keys", [{"strides": (2, 3)}, {"strides": (4, 1), "dilations": (6, 5)}, {"strides": 70}])
def test_every_place_is_in_one_class(keys: dict[str, Any]) -> None:
    """Classes have all places of an image between them, and none has more rows than the most."""
    windows = OPERATOR.problem(n=1, image=(9, 10), **keys).windows
    assert isinstance(windows, Residues)
    lengths, strides = windows.sliding.image, windows.sliding.stride
    counts = [[len(range(first, length, stride)) for first in range(min(length, stride))]
              for length, stride in zip(lengths, strides, strict=True)]  # fmt: skip
    assert prod(map(sum, counts)) == prod(lengths)
    assert windows.classes == prod(map(len, counts)) and windows.most_rows == prod(map(max, counts))


@pytest.mark.parametrize("keys", [
    {"strides": 2, "pads": 1}, {"strides": (3, 4), "pads": (2, 5), "window": 5}, {"strides": (2, 70), "pads": (0, 3)},
])  # fmt: skip
def test_the_longest_sums_come_first(keys: dict[str, Any]) -> None:
    """The first class begins at a place that meets the most places of the window, unless images are too short."""
    windows = OPERATOR.problem(n=1, image=(9, 10), **keys).windows
    assert isinstance(windows, Residues)
    sliding = windows.sliding
    place = GEOMETRY.index("longest") * sliding.rank + 2  # behind images and channels
    for dim, first in enumerate(windows.arguments((0, 0))[place : place + sliding.rank]):
        meets = [
            sum((h + sliding.left[dim] - f * sliding.dilation[dim]) % sliding.stride[dim] == 0
                for f in range(sliding.window[dim]))
            for h in range(min(sliding.stride[dim], sliding.image[dim]))
        ]  # fmt: skip
        assert first == 0 if sliding.stride[dim] > sliding.image[dim] else meets[first] == max(meets)


ADJOINTS: tuple[dict[str, Any], ...] = (
    {"c": 6, "k": 8, "g": 2, "image": (7, 6), "window": (3, 2), "strides": (2, 1), "dilations": (1, 2), "pads": (1, 2),
     "right_pads": (0, 1)},
    {"c": 5, "k": 20, "image": (31,), "window": 4, "strides": 6, "dilations": 4, "pads": 5},
    {"c": 1, "k": 2, "g": 4, "image": (4, 5, 6), "window": (2, 3, 1), "strides": (1, 2, 3), "pads": (1, 0, 2)},
    {"c": 16, "k": 3, "image": (9, 9), "window": (1, 5), "strides": (3, 2), "pads": (0, 3), "right_pads": 0},
)  # fmt: skip


@pytest.mark.parametrize("number", [
    pytest.param(number, marks=pytest.mark.full if number else ()) for number in range(len(ADJOINTS))
])  # fmt: skip
def test_forward_and_gradients_are_adjoints(number: int) -> None:
    """<conv(x, w), g> = <x, bwd_data(g, w)> = <w, bwd_weight(x, g)>, of what the kernels compute."""
    keys = {"n": 2, "dtype": "f32", **ADJOINTS[number]}
    random, found = np.random.default_rng(5), {}
    operators = {name: find_operator(name) for name in ("conv_fwd", "conv_bwd_data", "conv_bwd_weight")}
    shapes = operators["conv_fwd"].problem(**keys).geometry
    given = {name: random.standard_normal(getattr(shapes, name)).astype(np.float32) for name in "xwy"}
    for name, operator in operators.items():
        problem = operator.problem(**keys)
        arrays = {one.name: given[one.name[-1]] for one in operator.arrays(problem) if one.role == "in"}
        result = run_operator(operator, problem, arrays, GFX942, open_device("sim", GFX942))
        (values,) = result.outputs.values()
        found[name] = values.astype(np.float64)
    products = [np.vdot(found[name], given[other]) for name, other in zip(operators, "yxw", strict=True)]
    np.testing.assert_allclose(products, products[0], rtol=1e-5)
    exact = convolved(keys, given["x"], given["w"], shapes.y[1:-2])
    np.testing.assert_allclose(products[0], np.vdot(exact, given["y"]), rtol=1e-5)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("chip", CHIPS)
def test_schedules_are_proved(chip: str) -> None:
    target = get_target(chip)
    spec = OPERATOR.spec(OPERATOR.problem(c=8, k=16, image=(9, 9), g=2, strides=2, split_k=2), target)
    assert spec.sink == "partial"
    bench = Workbench.of(OPERATOR, spec, target)
    assert bench.compile(bench.schedule, code=False).findings == ()


def test_conditions_of_weights_are_found_once() -> None:
    """For 32 matrix instructions so many others, where channels are not whole steps; places of dy are bits."""
    spec = OPERATOR.spec(OPERATOR.problem(n=32, c=256, k=40), GFX942)
    assert spec.windows == "data:2:few:8"
    kernel = compile_kernel(OPERATOR, spec, GFX942)
    mix = steady_loop(kernel.code_object, kernel.kernel_name).mix
    assert 32 * mix["valu"] <= 69 * mix["mfma"]
    assert 32 * mix["salu"] <= 4 * mix["mfma"]


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("k", "valu"), [(33, 592), (34, 466)])
def test_lanes_of_a_quad_find_places_of_weights_in_small_blocks(k: int, valu: int) -> None:
    """Vector instructions for 32 matrix instructions, of dy whose channels are not whole steps: each lane of a quad
    finds where one of four places of K lies, counted from the last, and nothing is spilled.
    """
    problem, target = OPERATOR.problem(n=8, c=64, k=k, image=(28, 28)), get_target("gfx942")
    kernel = compile_kernel(OPERATOR, OPERATOR.spec(problem, target), target)
    mix = steady_loop(kernel.code_object, kernel.kernel_name).mix
    assert 32 * mix["valu"] <= valu * mix["mfma"]
    kept = kernel.code_object.kernel(kernel.kernel_name).metadata
    assert (kept.vgpr_spill_count, kept.sgpr_spill_count, kept.private_segment_size) == (0, 0, 0)


@pytest.mark.parametrize(("chip", "keys"), [
    ("gfx942", {"k": 34, "window": (2, 3), "strides": (2, 1)}),
    *(pytest.param(*one, marks=pytest.mark.full) for one in (
        ("gfx90a", {"k": 9, "dtype": "bf16"}), ("gfx942", {"k": 24, "dtype": "fp8", "dilations": 2}),
        ("gfx950", {"k": 20, "dtype": "i8", "g": 2}), ("gfx942", {"k": 36, "dtype": "f32", "strides": 2}),
    )),
])  # fmt: skip
def test_places_of_weights_in_small_blocks(chip: str, keys: dict[str, Any]) -> None:
    """Numbers, under all checkers."""
    checked("conv_bwd_data", chip, {"n": 2, "c": 64, "image": (9, 7), **keys})


def test_kernels_divide_little() -> None:
    """Each division by a number of the launch takes a reciprocal; of 17 those of classes come with the arguments."""
    spec = OPERATOR.spec(OPERATOR.problem(n=32, c=64, k=64, image=(9, 9), strides=2), GFX942)
    kernel = compile_kernel(OPERATOR, spec, GFX942)
    code = disassemble(kernel.code_object, kernel.kernel_name)
    assert sum(one.mnemonic == "v_rcp_f32" for one in code) <= 8


@pytest.mark.parametrize("number", [1, 2, 3, 7, 1000, 2**15, 2**31 - 1])
def test_reciprocals(number: int) -> None:
    """What they find is the quotient, or one less, of all that is below 2^31."""
    unsigned = reciprocal(number) % 2**32
    dividends = {0, 1, number - 1, number, 2 * number - 1, 2**31 - 1, (2**31 - 1) // number * number}
    assert all(0 <= dividend // number - (dividend * unsigned >> 32) <= 1 for dividend in dividends)


@pytest.mark.parametrize(("chip", "aligns"), [
    ("gfx942", (1,)), *(pytest.param(chip, range(2, 9), marks=pytest.mark.full) for chip in CHIPS),
    *(pytest.param(chip, (1,), marks=pytest.mark.full) for chip in ("gfx90a", "gfx950")),
])  # fmt: skip
def test_no_listed_kernel_spills(chip: str, aligns: Sequence[int]) -> None:
    """With channels one by one, where conditions are many, and in vectors; of volumes as well."""
    target = get_target(chip)
    for spec in OPERATOR.kernels(target):
        if spec.dtype == "f16" and spec.align[0] in aligns:
            kernel = compile_kernel(OPERATOR, spec, target)
            assert spilled(kernel) == (0, 0, 0), kernel.kernel_name


VOLUMES = {"n": 4, "image": (8, 16, 16)}
NAMED: dict[str, Any] = {"c": 63, "k": 20, "window": (3, 1, 2), "split_k": 2, "block": (96, 64, 32)}
OF_VOLUMES: list[dict[str, Any]] = [
    {"c": 64, "k": 64, "g": 2}, {"n": 32, "c": 128, "k": 128}, {"n": 32, "c": 64, "k": 64, "image": (32, 32, 32)},
    {"c": 33, "k": 64}, {"c": 3, "k": 64, "strides": 2}, {"c": 64, "k": 33}, {"c": 64, "k": 64, "split_k": 2},
    {"c": 16, "k": 33, "window": (5, 3, 5)}, {"c": 17, "k": 33, "dtype": "f32", "image": (8, 16)},
    {"c": 7, "k": 96, "dtype": "f32", "out": "f16", "op": "tanh(acc)*beta"}, {"c": 1, "k": 8, "g": 33, "dtype": "f32"},
    NAMED,
]  # fmt: skip
IN_LANES = pytest.mark.xfail(strict=True, reason="two scalar registers are kept in lanes (docs/testing.md)")


@pytest.mark.full
@pytest.mark.parametrize(("chip", "keys"), [
    pytest.param(chip, keys, marks=[IN_LANES] * (chip == "gfx950" and keys is NAMED))
    for chip in CHIPS for keys in OF_VOLUMES
])  # fmt: skip
def test_volumes_keep_no_registers_in_lanes(chip: str, keys: dict[str, Any]) -> None:
    """Not even numbers of their classes, before the loop or behind it."""
    kernel = requested(chip, {**VOLUMES, **keys})
    assert spilled(kernel) == (0, 0, 0), kernel.kernel_name


def test_many_arguments_are_read_in_pieces() -> None:
    """Before a loop, where few of them are needed all the way through."""
    kernel = requested("gfx950", {**VOLUMES, "c": 16, "k": 64, "strides": 2})
    assert spilled(kernel) == (0, 0, 0), kernel.kernel_name


@pytest.mark.one_in(4)
@pytest.mark.parametrize("keys", [
    {**VOLUMES, "c": 64, "k": 33}, {"n": 3, "g": 31, "c": 1, "k": 3, "image": (4, 6), "window": (3, 2), "op": "acc+d0"},
    {"n": 2, "c": 31, "k": 10, "image": (4, 2, 4), "window": (1, 2, 1), "pads": (4, 4, 2), "op": "tanh(acc)*beta"},
    {"n": 1, "c": 33, "k": 48, "image": (2, 10), "window": 2, "strides": (4, 1), "dilations": (1, 2), "dtype": "bf16"},
    {"n": 1, "c": 33, "k": 16, "image": (7, 7, 7), "window": (1, 3, 2), "strides": (2, 2, 1), "dilations": (2, 1, 1)},
])  # fmt: skip
def test_single_elements_keep_no_registers_in_lanes(keys: dict[str, Any]) -> None:
    """Those of dy have bits for places of the window; those of dx and a D tensor, offsets in vector registers; those of
    weights that come before the loop, what is left behind them, and one place after the other.
    """
    kernel = requested("gfx942", keys)
    assert spilled(kernel) == (0, 0, 0), kernel.kernel_name


@pytest.mark.parametrize(("chip", "keys"), [
    ("gfx942", {"c": 64, "k": 64}), *(pytest.param(chip, keys, marks=pytest.mark.full) for chip in CHIPS
                                      for keys in ({"c": 64, "k": 33}, {"c": 64, "k": 64, "split_k": 2})),
])  # fmt: skip
def test_steady_loops_of_volumes_read_memory_and_lanes_for_elements_only(chip: str, keys: dict[str, Any]) -> None:
    """Their many arguments are read before the loop, and addresses are known to be the same for all lanes."""
    kernel = requested(chip, {**VOLUMES, **keys})
    loop = steady_loop(kernel.code_object, kernel.kernel_name).instructions
    mnemonics = {one.mnemonic for one in loop}
    assert not [one for one in mnemonics if one.startswith(("v_readlane", "v_readfirstlane", "s_load"))]


def test_parts_know_that_they_begin_with_steps() -> None:
    """For 32 matrix instructions so many others: digits are those of a step's origin in parts of the sums too."""
    keys = {"n": 4, "c": 128, "k": 128, "image": (16, 16), "split_k": 2}
    kernel = requested("gfx942", {**keys, "block": (128, 128, 64)})
    mix = steady_loop(kernel.code_object, kernel.kernel_name).mix
    assert 32 * mix["valu"] <= 16 * mix["mfma"]
    assert 32 * mix["salu"] <= 10 * mix["mfma"]


@pytest.mark.parametrize(("chip", "keys", "schedule"), [
    ("gfx942", {"c": 128, "k": 128}, "compv6"),
    ("gfx942", {"c": 128, "k": 256, "strides": 2}, "compv4"),  # 392 blocks in four classes, which count as three
    ("gfx90a", {"c": 128, "k": 256, "strides": 2}, "compv6"),
    ("gfx90a", {"n": 8, "c": 512, "k": 128, "strides": 3}, "compv6"),  # a place of the window in each class
    ("gfx942", {"c": 128, "k": 120}, "compv4"),  # places change within steps
])  # fmt: skip
def test_short_sums_have_two_workgroups_a_compute_unit(chip: str, keys: dict[str, Any], schedule: str) -> None:
    """As plain products have; classes of places count as if all had the longest sums."""
    spec = OPERATOR.spec(OPERATOR.problem(**{"n": 64, "image": (28, 28), **keys}), get_target(chip))
    assert (spec.block[:2], spec.schedule) == ((128, 128), schedule)


def requested(chip: str, keys: dict[str, Any]) -> CompiledKernel:
    """The kernel of a request."""
    target = get_target(chip)
    return compile_kernel(OPERATOR, OPERATOR.spec(OPERATOR.problem(**keys), target), target)


def spilled(kernel: CompiledKernel) -> tuple[int, int, int]:
    """Vector and scalar registers that a kernel spills, and its bytes of scratch."""
    found = kernel.code_object.kernel(kernel.kernel_name).metadata
    return found.vgpr_spill_count, found.sgpr_spill_count, found.private_segment_size


def test_gradients_beyond_two_gibibytes() -> None:
    """2.5 GiB of dy, most of it of windows wholly in the padding, in address space that takes no memory."""
    length, padding, k = 300, 2**24, 8
    keys = {"n": 5, "image": (length,), "c": 8, "k": k, "window": 2, "pads": padding, "dilations": 3}
    problem = OPERATOR.problem(**keys)
    dy, w, dx = OPERATOR.arrays(problem)
    assert dy.nbytes > 2**31
    simulator, random = Simulator("gfx942"), np.random.default_rng(1)
    area = np.frombuffer(mmap.mmap(-1, dy.nbytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x4000), np.uint8)
    simulator.share(area, "dy")  # MAP_NORESERVE
    seen = area.view(np.float16).reshape(dy.shape)[:, padding - 3 : padding + length, 0]
    seen[...] = random.standard_normal(seen.shape).astype(np.float16)
    weights = random.standard_normal(w.shape).astype(np.float16)
    spec = OPERATOR.spec(problem, GFX942)
    compiled, launch = compile_kernel(OPERATOR, spec, GFX942), OPERATOR.launch(problem, spec, GFX942)
    output = simulator.upload(np.zeros(dx.shape, np.float16))
    pointers = {"dy": np.uint64(area.ctypes.data), "w": simulator.upload(weights), "dx": output}
    arguments = [pointers[one] if isinstance(one, str) else one for one in launch.arguments]
    simulator.launch(compiled.code_object, compiled.kernel_name, launch.grid, launch.block, arguments)
    near, far = seen[:, 3:].astype(np.float64), seen[:, :-3].astype(np.float64)
    wanted = near @ weights[0, :, 0].astype(np.float64) + far @ weights[0, :, 1].astype(np.float64)
    np.testing.assert_allclose(output.read("f2", dx.shape)[:, :, 0].astype(np.float64), wanted, rtol=2e-3, atol=2e-2)


@pytest.mark.parametrize(("keys", "words"), [
    ({"n": 3, "image": (2**24,), "k": 64, "strides": 2**15, "c": 64}, "array dx: what a workgroup takes of it spans"),
    ({"image": (2**18,), "strides": 2**16, "c": 1}, "strides: 65536 is among them; kernels count strides up to 32768"),
    ({"n": 2**30, "image": (8, 1, 31), "pads": 0}, "places in all images: 266287972352; kernels count to"),
    ({"op": "acc + d0", "d_kind": "column"}, "expected 1 to 4 of full"),
])  # fmt: skip
def test_requests_that_are_refused(keys: dict[str, Any], words: str) -> None:
    """Each is one error that says what is wrong."""
    with pytest.raises(RequestError, match=words):
        OPERATOR.problem(**keys)
