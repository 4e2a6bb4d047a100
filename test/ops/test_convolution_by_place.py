"""Gradients of weights whose sums go along all images at a position, then along those at the next: each step, or what
each wave loads of it, is at one position, also where units of images end with a part of one.
"""

from __future__ import annotations

from itertools import groupby
from typing import Any

import numpy as np
import pytest
from convolution_cases import Bench, weight_gradient
from operator_runner import CHIPS

from ckmlir.compiled_kernel import CompiledKernel
from ckmlir.compiler import compile_kernel
from ckmlir.ops import find_operator
from ckmlir.ops.contraction.windows import WindowsSpec
from ckmlir.scheduling.workbench import Workbench
from ckmlir.sim.decode import disassemble, instruction_mix
from ckmlir.targets import get_target

OPERATOR = find_operator("conv_bwd_weight")
GFX942 = get_target("gfx942")
CASES: tuple[tuple[str, dict[str, Any]], ...] = (
    ("gfx942", {"n": 64, "c": 8, "k": 24, "g": 2, "image": (3, 2), "strides": (2, 1), "dilations": (1, 2),
                "right_pads": (2, 3), "block": (32, 32, 64)}),
    ("gfx90a", {"n": 64, "c": 5, "k": 7, "image": (9,), "window": 4, "dtype": "f32", "split_k": 3}),
    ("gfx950", {"n": 128, "c": 16, "k": 8, "image": (2, 1, 3), "window": (1, 2, 2), "dtype": "bf16",
                "reduction": "atomic", "out": "f32"}),
    ("gfx942", {"n": 256, "c": 16, "k": 16, "image": (2, 3), "dtype": "fp8", "b_dtype": "bf8"}),
    ("gfx90a", {"n": 64, "c": 3, "k": 4, "image": (3, 3), "window": 2, "strides": 3, "dtype": "f64"}),
    ("gfx950", {"n": 256, "c": 32, "k": 8, "image": (2, 2), "dtype": "i8", "op": "acc + d0"}),
    ("gfx942", {"n": 16, "c": 24, "k": 16, "g": 2, "image": (3, 5), "strides": (2, 1), "block": (128, 128, 64)}),
    ("gfx950", {"n": 48, "c": 128, "k": 8, "image": (5,), "dilations": 2, "split_k": 2, "dtype": "bf16",
                "block": (128, 128, 64)}),
    ("gfx90a", {"n": 8, "c": 6, "k": 12, "image": (3, 2, 2), "window": 2, "dtype": "f32"}),
    ("gfx942", {"n": 32, "c": 16, "k": 32, "image": (3, 3), "dtype": "fp8", "block": (128, 128, 128)}),
)  # fmt: skip
FEW = (0, 1, 6, 7)
IN_UNITS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("gfx942", {"n": 31, "c": 128, "k": 16, "image": (5, 5), "block": (128, 128, 64)}),
    ("gfx90a", {"n": 47, "c": 24, "k": 16, "g": 2, "image": (3, 5), "dilations": (1, 2), "right_pads": (2, 3),
                "block": (128, 128, 64)}),
    ("gfx950", {"n": 61, "c": 128, "k": 8, "image": (5,), "dilations": 2, "split_k": 2, "dtype": "bf16",
                "block": (128, 128, 64)}),
    ("gfx942", {"n": 63, "c": 5, "k": 7, "image": (4, 3)}),
    ("gfx942", {"n": 15, "c": 64, "k": 40, "image": (3, 4), "strides": (2, 1), "block": (128, 128, 64), "split_k": 3}),
    ("gfx90a", {"n": 31, "c": 6, "k": 12, "image": (3, 2, 2), "window": 2, "dtype": "f32"}),
    ("gfx942", {"n": 127, "c": 16, "k": 32, "image": (3, 3), "dtype": "fp8", "block": (128, 128, 128)}),
    ("gfx942", {"n": 31, "c": 16, "k": 16, "image": (7, 1), "pads": 0, "window": (2, 1), "reduction": "atomic",
                "out": "f32", "split_k": 4, "block": (128, 128, 64)}),
    ("gfx90a", {"n": 63, "c": 3, "k": 4, "image": (3, 3), "window": 2, "strides": 3, "dtype": "f64"}),
)  # fmt: skip
FEW_IN_UNITS = (0, 1, 2, 3)
NEIGHBOURS: tuple[tuple[str, dict[str, Any], str], ...] = (
    ("gfx942", {"n": 4, "c": 24, "k": 16, "g": 2, "image": (6, 4), "strides": (3, 1), "dilations": (1, 2),
                "right_pads": (2, 3), "block": (128, 128, 64)}, "4x1x4"),
    ("gfx942", {"n": 12, "c": 32, "k": 16, "image": (3, 4), "pads": 2, "right_pads": 0, "split_k": 3,
                "block": (128, 128, 64)}, "4x1x4"),
    ("gfx90a", {"n": 2, "c": 6, "k": 12, "image": (4, 8), "dtype": "f32", "block": (64, 64, 32)}, "2x1x4"),
    ("gfx950", {"n": 1, "c": 16, "k": 8, "image": (4, 2, 8), "window": (1, 2, 2), "pads": (0, 1, 1),
                "right_pads": (0, 0, 0), "dtype": "bf16", "reduction": "atomic", "out": "f32", "block": (128, 128, 64)},
     "1x1x2x8"),
    ("gfx942", {"n": 8, "c": 16, "k": 32, "image": (8, 4), "strides": (2, 1), "dtype": "fp8", "b_dtype": "bf8",
                "block": (128, 128, 128)}, "8x1x4"),
    ("gfx90a", {"n": 16, "c": 5, "k": 7, "image": (8,), "window": 4, "pads": 2, "right_pads": 1}, "16x2"),
    ("gfx942", {"n": 20, "c": 48, "k": 16, "image": (3, 4), "window": 1, "pads": 0, "strides": 2, "op": "acc + d0",
                "block": (128, 128, 64)}, "4x2x2"),
)  # fmt: skip
FEW_OF_NEIGHBOURS = (0, 5)


@pytest.mark.one_in(4)
@pytest.mark.parametrize("number", [
    pytest.param(number, marks=() if number in FEW else pytest.mark.full) for number in range(len(CASES))
])  # fmt: skip
def test_gradients(number: int) -> None:
    """One to three dimensions, groups, parts in a workspace and by atomics, and single elements, under all checkers."""
    chip, keys = CASES[number]
    bench = Bench(OPERATOR, chip)
    arrays, outputs = bench.run(keys)
    assert [spec.windows.partition(":")[0] for spec in bench.kernels] == ["places"]
    if "op" not in keys:
        by_loops = weight_gradient(keys, arrays["dy"], arrays["x"], outputs["dw"].shape)
        np.testing.assert_allclose(outputs["dw"].astype(np.float64), by_loops, rtol=1e-6, atol=1e-5)


@pytest.mark.one_in(8)
@pytest.mark.parametrize("number", [
    pytest.param(number, marks=() if number in FEW_IN_UNITS else pytest.mark.full) for number in range(len(IN_UNITS))
])  # fmt: skip
def test_gradients_in_units(number: int) -> None:
    """Of the last unit at each position there is a part; what is behind it lies in no array."""
    chip, keys = IN_UNITS[number]
    bench = Bench(OPERATOR, chip)
    arrays, outputs = bench.run(keys)
    assert [spec.windows.partition(":")[0] for spec in bench.kernels] == ["units"]
    by_loops = weight_gradient(keys, arrays["dy"], arrays["x"], outputs["dw"].shape)
    np.testing.assert_allclose(outputs["dw"].astype(np.float64), by_loops, rtol=1e-6, atol=1e-5)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("number", [
    pytest.param(number, marks=() if number in FEW_OF_NEIGHBOURS else pytest.mark.full)
    for number in range(len(NEIGHBOURS))
])  # fmt: skip
def test_gradients_in_units_of_neighbours(number: int) -> None:
    """Units of neighbouring positions of one image or several, also along one dimension and three."""
    chip, keys, unit = NEIGHBOURS[number]
    bench = Bench(OPERATOR, chip)
    arrays, outputs = bench.run(keys)
    assert [spec.windows.rpartition(":")[2] for spec in bench.kernels] == [unit]
    if "op" not in keys:
        by_loops = weight_gradient(keys, arrays["dy"], arrays["x"], outputs["dw"].shape)
        np.testing.assert_allclose(outputs["dw"].astype(np.float64), by_loops, rtol=1e-6, atol=1e-5)


def test_where_steps_divide_the_images() -> None:
    """And all of them are within the reach of one pointer; kernels take more images than they know to divide."""
    def seen(**keys: object) -> str:
        return OPERATOR.spec(OPERATOR.problem(c=128, k=128, **keys), GFX942).windows

    assert seen(n=64) == "places:2:padded:128:64"
    assert seen(n=32, block=(128, 128, 32)) == "places:2:padded:128:32"
    assert seen(n=64, image=(500, 500)) == "weight:2:padded:128"
    spec = OPERATOR.spec(OPERATOR.problem(n=64), GFX942)
    assert not OPERATOR.mismatches(OPERATOR.problem(n=384), spec, GFX942)


def test_where_what_waves_load_divides_them() -> None:
    """A wave loads 16 of a step's 64 positions; elements one by one take steps that divide the images."""
    def seen(**keys: object) -> str:
        return OPERATOR.spec(OPERATOR.problem(c=128, k=128, **keys), GFX942).windows

    assert seen(n=32) == seen(n=96) == "places:2:padded:128:32"
    assert seen(n=16) == seen(n=48) == "places:2:padded:128:16"
    assert seen(n=8) == seen(n=40) == "places:2:padded:128:8x1x2"
    assert seen(n=20, image=(14, 14)) == "places:2:padded:128:4x2x2"
    assert seen(n=8, image=(7, 7)) == seen(n=29) == seen(n=6) == "weight:2:padded:128"
    assert seen(n=15) == seen(n=31) == seen(n=500, image=(7, 7)) == "units:2:padded:128:16"
    assert seen(n=8, dtype="f32", block=(128, 128, 32)) == "places:2:padded:128:8"
    single = OPERATOR.spec(OPERATOR.problem(n=16, c=5, k=64), GFX942)
    assert (single.windows, single.block[2]) == ("places:2:padded:1:16x1x2", 32)
    assert OPERATOR.spec(OPERATOR.problem(n=28, c=5, k=64), GFX942).windows == "places:2:padded:1:4x2x4"
    assert OPERATOR.spec(OPERATOR.problem(n=28, c=5, k=64, image=(7, 7)), GFX942).windows == "units:2:padded:1:32"
    few = OPERATOR.problem(n=6, c=40, k=128)  # a place for each lane of a quad
    assert OPERATOR.spec(few, GFX942).windows == "places:2:padded:8:2x2x4"


def test_kernels_in_units_take_any_images() -> None:
    """Within the reach of one pointer, if their K ends where the kernel takes it to, or it compares."""
    def asked(n: int, image: tuple[int, int]) -> Any:
        return OPERATOR.problem(n=n, image=image, c=128, k=128, block=(128, 128, 64))

    whole, ragged = (OPERATOR.spec(asked(31, image), GFX942) for image in ((28, 28), (7, 7)))
    assert (whole.windows, whole.pad) == ("units:2:padded:128:16", "")
    assert (ragged.windows, ragged.pad) == ("units:2:padded:128:16", "k")
    for images in (0, 1, 5, 32, 33):
        assert not OPERATOR.mismatches(asked(images, (7, 7)), ragged, GFX942)
    reasons = OPERATOR.mismatches(asked(31, (7, 7)), whole, GFX942)
    assert any("k=1568 is not a multiple" in str(reason) for reason in reasons)
    far = OPERATOR.mismatches(asked(255, (500, 500)), ragged, GFX942)
    assert any("pointers move" in str(reason) for reason in far)


def test_units_divide_positions() -> None:
    """A kernel takes others than it was chosen for, but not a part of a unit."""
    spec = OPERATOR.spec(OPERATOR.problem(n=4, c=128, k=128, image=(14, 14)), GFX942)
    asked = OPERATOR.problem(n=8, c=128, k=128, image=(28, 30), block=spec.block)
    assert not [one for one in OPERATOR.mismatches(asked, spec, GFX942) if one.field == "windows"]
    asked = OPERATOR.problem(n=8, c=128, k=128, image=(28, 27), block=spec.block)
    reasons = OPERATOR.mismatches(asked, spec, GFX942)
    assert any("there are 27 positions along a dimension" in str(reason) for reason in reasons), reasons


@pytest.mark.parametrize("word", [
    "places:2:padded:8:4x2", "places:2:padded:8:16x1x1", "places:2:padded:8:4x3x2", "units:2:padded:8:4x2x2",
])  # fmt: skip
def test_units_that_are_none(word: str) -> None:
    with pytest.raises(ValueError, match=word):
        WindowsSpec.parse(word)


@pytest.mark.parametrize(("keys", "words"), [
    ({"n": 96}, "there are 96 images; expected a divisor, or weight:2:padded:64"),
    ({"n": 128, "image": (500, 500)}, "pointers move to the image where a part begins"),
    ({"n": 128, "c": 8}, "windows=weight:2:padded:64: the kernel is another one; expected weight:2:padded:8"),
])  # fmt: skip
def test_kernels_of_others(keys: dict[str, Any], words: str) -> None:
    spec = OPERATOR.spec(OPERATOR.problem(n=128), GFX942)
    reasons = OPERATOR.mismatches(OPERATOR.problem(**keys), spec, GFX942)
    assert any(words in str(reason) for reason in reasons), reasons


def turns(kernel: CompiledKernel) -> list[dict[str, int]]:
    """The instructions by kind of the first turn at a position, and of those that stay there."""
    code = disassemble(kernel.code_object, kernel.kernel_name)
    place = {one.address: number for number, one in enumerate(code)}
    loops = [
        instruction_mix(code[place[one.branch_target] : number + 1])
        for number, one in enumerate(code)
        if one.branch_target in place and place[one.branch_target] <= number
    ]
    fewest = min(mix["mfma"] for mix in loops if mix["mfma"])
    return [dict(mix) for mix in loops if mix["mfma"] == fewest]


@pytest.mark.parametrize(
    ("chip", "staying", "first", "scalar"),
    [
        ("gfx942", 32, 40, 30),
        *(pytest.param(*one, marks=pytest.mark.full) for one in (("gfx90a", 32, 40, 30), ("gfx950", 0, 16, 60))),
    ],
)
def test_a_step_has_one_position(chip: str, staying: int, first: int, scalar: int) -> None:
    """For 32 matrix instructions so many of the vector unit, with those that transpose, and no more scalar ones."""
    counts = counted(chip, n=64, c=64, k=256)
    assert len(counts) == 2
    assert sorted(mix["valu"] for mix in counts) == [staying, first]
    assert max(mix["salu"] for mix in counts) <= scalar


@pytest.mark.one_in(4)
@pytest.mark.parametrize(("keys", "vector", "scalar"), [
    ({"c": 128}, 32, 32),
    ({"c": 64}, 40, 32),
    ({"c": 128, "image": (7, 7)}, 32, 40),  # the last step ends behind the last position
    ({"c": 64, "image": (7, 7)}, 40, 40),
])  # fmt: skip
def test_a_wave_has_one_position(keys: dict[str, Any], vector: int, scalar: int) -> None:
    """As where a step has: whether what a wave loads exists costs no vector instruction where its lanes are at one
    place of the window.
    """
    (mix,) = counted("gfx942", n=32, k=128, block=(128, 128, 64), **keys)
    assert mix["valu"] == vector
    assert mix["salu"] <= scalar


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("keys", "vector", "scalar"), [
    ({"n": 40, "c": 128}, 40, 32),
    ({"n": 20, "c": 40, "image": (14, 14)}, 40, 40),
    pytest.param({"n": 4, "c": 64, "image": (56, 56)}, 40, 32, marks=pytest.mark.full),
    pytest.param({"n": 4, "c": 128, "image": (8, 14, 14)}, 40, 40, marks=pytest.mark.full),
    pytest.param({"n": 6, "c": 40}, 42, 40, marks=pytest.mark.full),
])  # fmt: skip
def test_a_wave_is_at_one_unit(keys: dict[str, Any], vector: int, scalar: int) -> None:
    """Of several positions: its lanes compare where they are in it, and find nothing."""
    (mix,) = counted("gfx942", k=128, block=(128, 128, 64), **keys)
    assert mix["valu"] <= vector
    assert mix["salu"] <= scalar


@pytest.mark.one_in(4)
@pytest.mark.parametrize(("keys", "vector", "scalar"), [
    ({"c": 128}, 40, 34),
    ({"c": 128, "image": (7, 7)}, 40, 40),
    ({"c": 64}, 48, 32),
    ({"c": 40, "image": (7, 7)}, 48, 40),
])  # fmt: skip
def test_a_part_of_a_unit_takes_an_instruction_a_load(keys: dict[str, Any], vector: int, scalar: int) -> None:
    """Beside those of whole units."""
    (mix,) = counted("gfx942", n=31, k=128, block=(128, 128, 64), **keys)
    assert mix["valu"] == vector
    assert mix["salu"] <= scalar


def counted(chip: str, **keys: object) -> list[dict[str, float]]:
    """Vector and scalar instructions of `turns` for 32 matrix instructions, of a kernel that keeps its registers."""
    target = get_target(chip)
    kernel = compile_kernel(OPERATOR, OPERATOR.spec(OPERATOR.problem(**keys), target), target)
    found = kernel.code_object.kernel(kernel.kernel_name).metadata
    assert (found.vgpr_spill_count, found.sgpr_spill_count, found.private_segment_size) == (0, 0, 0)
    return [{name: 32 * mix[name] / mix["mfma"] for name in ("valu", "salu")} for mix in turns(kernel)]


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("images", "image"), [(64, (28, 28)), (32, (28, 28)), (16, (7, 7))])
def test_matrix_instructions_stay_among_the_others(images: int, image: tuple[int, int]) -> None:
    """LLVM leaves them where the schedule has them, and does not gather them behind all accesses of a turn."""
    spec = OPERATOR.spec(OPERATOR.problem(n=images, c=128, k=128, image=image, block=(128, 128, 64)), GFX942)
    kernel = compile_kernel(OPERATOR, spec, GFX942)
    names = [one.mnemonic for one in disassemble(kernel.code_object, kernel.kernel_name)]
    runs = [len([*group]) for is_matrix, group in groupby(names, lambda name: "mfma" in name) if is_matrix]
    assert max(runs) <= 8, runs


@pytest.mark.one_in(2)
@pytest.mark.parametrize("chip", CHIPS)
def test_schedules_are_proved(chip: str) -> None:
    target = get_target(chip)
    spec = OPERATOR.spec(OPERATOR.problem(n=128, c=8, k=16, image=(9, 9), g=2), target)
    assert spec.windows.startswith("places:")
    bench = Workbench.of(OPERATOR, spec, target)
    assert bench.compile(bench.schedule, code=False).findings == ()
