"""Gradients of the images of depthwise convolutions without strides: forward convolutions of dy by turned weights."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ckmlir.compiler import compile_kernel
from ckmlir.ops import find_operator
from ckmlir.ops.contraction.depthwise import DepthwiseSpec
from ckmlir.runtime import open_device
from ckmlir.runtime.run import check_outputs, run_operator
from ckmlir.targets import get_target

OPERATOR = find_operator("conv_bwd_data")
SINGLE: dict[str, Any] = {"c": 1, "k": 1}
CASES: tuple[tuple[str, dict[str, Any]], ...] = (
    ("gfx942", {"n": 2, "g": 64, "image": (5, 14), "window": 3, "pads": 1}),  # rows, weights of a row in one tile
    ("gfx950", {"n": 1, "g": 72, "image": (4, 28), "window": 5, "pads": (2, 1), "right_pads": (0, 3), "dtype": "bf16"}),
    ("gfx90a", {"n": 1, "g": 11, "image": (7, 9), "window": 3, "pads": 0}),
    ("gfx942", {"n": 2, "g": 64, "image": (3, 21), "window": 7, "pads": 3}),  # a tile for each place
    ("gfx942", {"n": 1, "g": 128, "image": (7, 7), "window": 7, "pads": 3}),
    ("gfx942", {"n": 1, "g": 16, "image": (4, 5, 6), "window": (1, 2, 3), "pads": (0, 1, 1), "right_pads": (0, 0, 2)}),
    ("gfx950", {"n": 1, "g": 24, "image": (9, 8), "window": 3, "pads": 2, "dilations": 2, "dtype": "f32"}),
    ("gfx90a", {"n": 1, "g": 24, "image": (9, 19), "op": "relu(acc) + d0", "d_kind": "full"}),  # no strips
    ("gfx942", {"n": 2, "g": 24, "image": (4, 19), "window": 4, "pads": 2, "channels": "first"}),
    ("gfx950", {"n": 2, "g": 40, "image": (33,), "window": 3, "pads": 0, "dtype": "i8"}),
)


@pytest.mark.parametrize(("chip", "keys"), [
    pytest.param(*one, marks=pytest.mark.full if number > 2 else ()) for number, one in enumerate(CASES)
])  # fmt: skip
def test_numbers(chip: str, keys: dict[str, Any]) -> None:
    """Under all checkers."""
    target, problem = get_target(chip), OPERATOR.problem(**SINGLE, **keys)
    spec = OPERATOR.spec(problem, target)
    assert DepthwiseSpec.parse(spec.windows).turned
    arrays = OPERATOR.inputs(problem, target, seed=3)
    result = run_operator(OPERATOR, problem, arrays, target, open_device("sim", target, seed=5, checks="all"))
    comparisons = check_outputs(OPERATOR, problem, arrays, result.outputs, target)
    assert all(one.ok for one in comparisons), "; ".join(map(str, comparisons))


@pytest.mark.parametrize(("keys", "words"), [
    ({}, "depthwise:2:few:1:1:7x3x1x1:turned"), ({"window": 5, "pads": 2}, "depthwise:2:each:1:1:7x5x1x1:turned"),
    ({"window": 5, "pads": 4}, "depthwise:2:inside:1:1:7x5x1x1:turned"),  # all that windows reach
    ({"window": 5, "pads": 0}, "depthwise:2:each:1:1:7x5x1x1:turned"), ({"pads": 3}, "data:2:few:1"),
    ({"strides": 2}, "data:2:few:1"), ({"strides": (1, 2)}, "data:2:few:1"), ({"k": 2}, "data:2:few:2"),
    ({"c": 2}, "data:2:few:1"), ({"g": 1}, "data:2:few:1"), ({"schedule": "compv3"}, "data:2:few:1"),
    ({"split_k": 2}, "data:2:few:1"), ({"dtype": "xf32"}, "data:2:few:1"),
])  # fmt: skip
def test_what_vectors_are_chosen_for(keys: dict[str, Any], words: str) -> None:
    keys = {"n": 8, "g": 64, **SINGLE, "image": (28, 28), "pads": 1, **keys}
    target = get_target("gfx942")
    assert OPERATOR.spec(OPERATOR.problem(**keys), target).windows == words


def test_an_adjoint() -> None:
    """<conv(x, w), dy> = <x, gradient(dy, w)>, in f32."""
    target, device = get_target("gfx942"), open_device("sim", get_target("gfx942"))
    keys: dict[str, Any] = {"n": 1, "g": 9, **SINGLE, "image": (5, 6), "window": (3, 4), "pads": (0, 2), "dtype": "f32"}
    forward = find_operator("conv_fwd")
    given = forward.inputs(forward.problem(**keys), target, seed=1)
    y = run_operator(forward, forward.problem(**keys), given, target, device).outputs["y"]
    problem = OPERATOR.problem(**keys)
    dy = OPERATOR.inputs(problem, target, seed=2)["dy"]
    dx = run_operator(OPERATOR, problem, {"dy": dy, "w": given["w"]}, target, device).outputs["dx"]
    left, right = (np.vdot(one.astype(np.float64), other) for one, other in ((y, dy), (given["x"], dx)))
    np.testing.assert_allclose(left, right, rtol=1e-5)


@pytest.mark.parametrize("chip", ["gfx942", pytest.param("gfx90a", marks=pytest.mark.full)])
def test_nothing_is_spilled(chip: str) -> None:
    target = get_target(chip)
    spec = OPERATOR.spec(OPERATOR.problem(n=32, g=240, **SINGLE, image=(28, 28), window=5, pads=2), target)
    kernel = compile_kernel(OPERATOR, spec, target)
    found = kernel.code_object.kernel(kernel.kernel_name).metadata
    assert (found.vgpr_spill_count, found.sgpr_spill_count, found.private_segment_size) == (0, 0, 0)
