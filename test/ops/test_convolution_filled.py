"""Channels that are filled up, odd numbers and others, and few columns, which have slim blocks: numbers, and when."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from convolution_cases import convolved
from operator_runner import CHIPS, agree, checked

from ckmlir.compiler import compile_kernel
from ckmlir.ops import find_operator
from ckmlir.ops.convolution import filled
from ckmlir.ops.convolution.operator import ConvolutionProblem
from ckmlir.ops.operator import Run
from ckmlir.runtime import open_device
from ckmlir.runtime.run import check_outputs, run_operator
from ckmlir.scheduling.machine_loop import steady_loop
from ckmlir.targets import get_target

FORWARD = find_operator("conv_fwd")
CASES: tuple[tuple[str, dict[str, Any]], ...] = (
    ("gfx942", {"n": 2, "c": 3, "k": 20, "image": (11, 12), "window": (5, 7), "strides": 2, "pads": (2, 3),
                "right_pads": (1, 4)}),
    ("gfx90a", {"n": 3, "c": 5, "k": 33, "image": (17,), "window": (4,), "pads": 1, "dtype": "bf16", "strides": 3}),
    ("gfx950", {"n": 1, "c": 9, "k": 8, "image": (5, 4, 6), "window": (2, 3, 2), "dilations": (2, 1, 1),
                "pads": (1, 0, 2), "right_pads": (1, 0, -2), "dtype": "fp8"}),
    ("gfx942", {"n": 2, "c": 3, "k": 8, "image": (6, 9), "window": (2, 3), "pads": 0, "dtype": "i8", "split_k": 2}),
    ("gfx90a", {"n": 2, "c": 7, "k": 12, "image": (5, 6), "window": 3, "channels": "first", "dtype": "f32",
                "op": "relu(acc + d0) + d1", "d_kind": "row,full"}),
    ("gfx950", {"n": 1, "c": 10, "k": 256, "image": (4, 5), "window": 3, "pads": 1, "dtype": "bf16"}),
    ("gfx942", {"n": 2, "c": 51, "k": 256, "image": (5, 6), "window": (2, 3), "pads": (0, 2), "strides": 2}),
    ("gfx90a", {"n": 1, "c": 42, "k": 257, "image": (6, 7), "window": 3, "pads": 1, "right_pads": (1, 0)}),
    ("gfx950", {"n": 2, "c": 60, "k": 256, "image": (5, 4), "window": 2, "pads": 1, "dtype": "bf16"}),
)  # fmt: skip
FEW = (0,)


@pytest.mark.parametrize("number", [
    pytest.param(number, marks=() if number in FEW else pytest.mark.full) for number in range(len(CASES))
])  # fmt: skip
def test_numbers(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """One to three dimensions, paddings that differ, types, channels first, parts of sums; and infinite elements come
    only to the positions whose windows meet them.
    """
    monkeypatch.setattr(filled, "LEAST_POSITIONS", 1)
    monkeypatch.setattr(filled, "SAVED_BY_LENGTH", 1.0)
    chip, keys = CASES[number]
    target, problem = get_target(chip), FORWARD.problem(**keys)
    arrays = dict(FORWARD.inputs(problem, target, seed=3))
    if keys.get("dtype", "f16") in ("f16", "bf16", "f32"):
        arrays["x"] = arrays["x"].copy()
        arrays["x"].flat[arrays["x"].size // 2] = np.inf
    result = run_operator(FORWARD, problem, arrays, target, open_device("sim", target, seed=5, checks="all"))
    comparisons = check_outputs(FORWARD, problem, arrays, result.outputs, target)
    assert all(one.ok for one in comparisons), "; ".join(map(str, comparisons))
    if "op" not in keys and np.isfinite(arrays["x"].astype(np.float64)).all():
        found = FORWARD.reference(problem, arrays)["y"].astype(np.float64)
        by_loops = convolved(keys, arrays["x"], arrays["w"], found.shape[1:-2])
        np.testing.assert_allclose(found, by_loops, rtol=1e-6, atol=1e-6)


def test_many_positions_of_odd_channels_are_filled() -> None:
    """Not few positions, channels in vectors, groups, single places, or windows with holes in their rows."""
    stem = {"n": 32, "c": 3, "k": 64, "image": (224, 224), "window": 7, "strides": 2, "pads": 3}
    target = get_target("gfx942")
    problem = FORWARD.problem(**stem)
    spec = FORWARD.spec(problem, target)
    assert (spec.block, spec.align[:2], spec.windows) == ((256, 64, 32), (4, 4), "forward:2:few:4")
    steps = FORWARD.steps(problem, spec, target)
    filling = [one.arrays["y"] for one in steps if isinstance(one, Run)]
    assert filling == ["x_filled", "w_filled"]
    assert {one.name: one.nbytes for one in FORWARD.workspaces(problem, spec, target)} == {
        "x_filled": 32 * 224 * 230 * 4 * 2, "w_filled": 64 * 49 * 4 * 2,
    }  # fmt: skip
    for other in ({"n": 2}, {"c": 4}, {"c": 1}, {"g": 2}, {"window": 1, "pads": 0}, {"dilations": 2}):
        assert FORWARD.problem(**{**stem, **other}).multiplied is None


@pytest.mark.parametrize(("keys", "is_filled"), [
    ({}, True), ({"dtype": "i8"}, True), ({"dtype": "f32"}, False), ({"c": 126}, False),
    ({"c": 33, "k": 512}, True), ({"n": 8, "c": 33}, False), ({"n": 8, "image": (14, 14)}, True),
    ({"c": 255, "k": 512, "image": (7, 7)}, True), ({"n": 8, "c": 97, "k": 64, "image": (7, 7)}, True),
    ({"n": 8, "c": 63, "k": 256, "image": (56, 56)}, True),
    ({"c": 63, "k": 512, "image": (56, 56), "strides": 2}, True),
    ({"c": 3, "k": 32, "image": (224, 224), "strides": 2}, False),
    ({"n": 4, "c": 33, "image": (112, 112), "window": 2}, False),
])  # fmt: skip
def test_odd_channels_are_filled_where_that_saves_time(keys: dict[str, Any], is_filled: bool) -> None:
    """Where products are many or sums long for what is copied; not vectors, pairs, or few elements of 32 bits."""
    problem = FORWARD.problem(**{"n": 32, "c": 127, "k": 128, "image": (28, 28), **keys})
    assert (problem.multiplied is not None) == is_filled


@pytest.mark.parametrize(("chip", "keys"), [
    ("gfx942", {"c": 115, "k": 33, "image": (5, 6)}),
    pytest.param("gfx950", {"c": 129, "k": 16, "image": (9, 4), "dilations": (2, 1), "dtype": "i8"},
                 marks=pytest.mark.full),
    pytest.param("gfx90a", {"c": 345, "k": 20, "image": (17,), "dtype": "bf16"}, marks=pytest.mark.full),
])  # fmt: skip
def test_long_sums_of_odd_channels(chip: str, keys: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Numbers, under all checkers, of few products as if they were many."""
    monkeypatch.setattr(filled, "SAVED_BY_LENGTH", 1.0)
    keys = {"n": 2, **keys}
    assert FORWARD.problem(**keys).multiplied is not None
    checked("conv_fwd", chip, keys)


def test_pairs_of_channels_are_filled_for_many_columns() -> None:
    """Where that is faster by the model; then a lane loads four channels, or eight."""
    target = get_target("gfx942")

    def is_filled(c: int, k: int, dtype: str = "f16", **others: int) -> bool:
        problem = FORWARD.problem(n=32, c=c, k=k, image=(112, 112), dtype=dtype, **others)
        filled = problem.multiplied is not None
        assert not filled or min(FORWARD.spec(problem, target).align[:2]) >= 4
        return filled

    assert is_filled(10, 256) and is_filled(62, 512, "bf16") and is_filled(26, 256)
    others = ((10, 255), (34, 255), (66, 256), (112, 256), (6, 256), (12, 256), (36, 256), (56, 256), (10, 256, "f32"))
    assert not any(is_filled(*one) for one in others)
    assert not is_filled(10, 256, strides=2) and is_filled(10, 256, window=2)


@pytest.mark.parametrize("chip", CHIPS)
def test_channels_are_filled_to_eight_or_to_whole_steps(chip: str) -> None:
    """Where zeros cost less than they save: a lane then loads eight, and whole steps have the blocks of products."""
    target, found = get_target(chip), {}
    for c in (33, 34, 47, 49, 50, 60, 63, 114, 124, 127):
        problem = FORWARD.problem(n=32, c=c, k=256, image=(56, 56))
        assert isinstance(problem, ConvolutionProblem) and problem.multiplied is not None
        spec = FORWARD.spec(problem, target)
        assert spec.align[:2] == (8, 8)
        found[c] = problem.multiplied.k // 9
        assert c < 49 or spec.block > (128, 128, 64)
    assert found == {33: 40, 34: 40, 47: 48, 49: 64, 50: 64, 60: 64, 63: 64, 114: 128, 124: 128, 127: 128}


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("c", "most"), [(34, 28), (50, 0)])
def test_filled_channels_take_few_vector_instructions(c: int, most: int) -> None:
    """For 32 matrix instructions; pairs of channels take 66.5."""
    target = get_target("gfx942")
    kernel = compile_kernel(FORWARD, FORWARD.spec(FORWARD.problem(n=32, c=c, k=256, image=(56, 56)), target), target)
    mix = steady_loop(kernel.code_object, kernel.kernel_name).mix
    assert 32 * mix["valu"] <= most * mix["mfma"]
    kept = kernel.code_object.kernel(kernel.kernel_name).metadata
    assert (kept.vgpr_spill_count, kept.sgpr_spill_count, kept.private_segment_size) == (0, 0, 0)


@pytest.mark.parametrize(("operator", "keys", "block"), [
    ("conv_fwd", {"n": 32, "k": 8}, (256, 16, 32)), ("conv_fwd", {"n": 2, "k": 16}, (64, 16, 64)),
    ("conv_fwd", {"n": 2, "k": 17}, (16, 16, 128)), ("conv_bwd_data", {"n": 32, "c": 3}, (256, 16, 32)),
    ("conv_bwd_data", {"n": 2, "c": 3, "strides": 2}, (64, 16, 64)),
    ("conv_fwd", {"n": 2, "k": 8, "c": 1}, (64, 64, 32)),
])  # fmt: skip
def test_few_columns_have_slim_blocks(operator: str, keys: dict[str, Any], block: tuple[int, ...]) -> None:
    chosen = find_operator(operator)
    spec = chosen.spec(chosen.problem(**{"c": 64, "k": 64, "image": (56, 56), **keys}), get_target("gfx942"))
    assert spec.block == block


@pytest.mark.parametrize(("operator", "chip", "keys"), [
    ("conv_fwd", "gfx942", {"c": 16, "k": 5}),
    *[pytest.param(operator, chip, keys, marks=pytest.mark.full) for chip in CHIPS for operator, keys in (
        ("conv_fwd", {"c": 24, "k": 1, "dtype": "f32"}), ("conv_bwd_data", {"c": 3, "k": 40, "strides": 2}),
        ("conv_fwd", {"c": 200, "k": 15, "dtype": "bf16", "op": "relu(acc + d0)", "d_kind": "row"}),
        ("conv_bwd_data", {"c": 11, "k": 16, "block": (256, 16, 32), "wave": (4, 1), "schedule": "compv3"}),
    )],
])  # fmt: skip
def test_slim_blocks(operator: str, chip: str, keys: dict[str, Any]) -> None:
    """Fewer columns than a block has, rows of several images."""
    agree(operator, chip, n=3, image=(11, 10), **keys)
