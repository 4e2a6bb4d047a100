"""Convolutions and gradients of arrays that have channels first: turned by steps of their own, and only where that
moves anything.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ckmlir.ops import find_operator
from ckmlir.ops.request import RequestError
from ckmlir.ops.steps import OWN_KERNEL
from ckmlir.runtime import open_device
from ckmlir.runtime.run import check_outputs, run_operator
from ckmlir.targets import get_target

GFX942 = get_target("gfx942")
KEYS: dict[str, Any] = {"n": 2, "g": 2, "c": 6, "k": 5, "image": (5, 6), "window": (3, 2), "strides": (2, 1)}
REQUESTS: list[tuple[str, dict[str, Any]]] = [
    ("conv_fwd", {"op": "relu(acc + d0) + d1 * d2", "d_kind": "row,full,column", "d": "f32,f16,f32"}),
    ("conv_fwd", {"split_k": 2, "reduction": "atomic", "out": "f32", "op": ""}),
    ("conv_bwd_data", {"op": "acc + d0", "dtype": "bf16"}),
    ("conv_bwd_weight", {"op": "acc * d0", "split_k": 3}),
    ("conv_bwd_weight", {"dtype": "f32", "image": (3, 4, 5), "window": 2, "strides": 1}),
]  # fmt: skip


def turned(name: str, values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Channels first from last, by the letters of their dimensions."""
    if name.removeprefix("d") == "w":
        return np.moveaxis(values, -1, 2)
    return np.moveaxis(values, (-2, -1), (1, 2))


@pytest.mark.one_in(3)
@pytest.mark.parametrize(("name", "keys"), REQUESTS)
def test_numbers(name: str, keys: dict[str, Any]) -> None:
    """Under all checkers, with D tensors as the output, and parts; and the reference is that of channels last."""
    operator = find_operator(name)
    keys = {**KEYS, **{key: value for key, value in keys.items() if value}}
    first, last = (operator.problem(**keys, channels=where) for where in ("first", "last"))
    given = operator.inputs(last, GFX942, seed=2)
    output = operator.names["c"]
    full = {one.name for one in last.side if one.kind == "full"}
    known_as = {array: output if array in full else array for array in given}
    arrays = {
        array: np.ascontiguousarray(turned(known_as[array], values))
        if array in full or array in operator.names.values() else values
        for array, values in given.items()
    }  # fmt: skip
    assert {one.name: one.shape for one in operator.arrays(first) if one.role == "in"} == {
        array: values.shape for array, values in arrays.items()
    }
    result = run_operator(operator, first, arrays, GFX942, open_device("sim", GFX942, seed=5, checks="all"))
    comparisons = check_outputs(operator, first, arrays, result.outputs, GFX942)
    assert all(one.ok for one in comparisons), "; ".join(map(str, comparisons))
    wanted = operator.reference(last, given)[output]
    np.testing.assert_array_equal(operator.reference(first, arrays)[output], turned(output, wanted))


@pytest.mark.parametrize(("keys", "count"), [
    ({}, 4), ({"window": 1, "pads": 0}, 3), ({"window": 1, "pads": 0, "image": (1, 1)}, 1),
    ({"g": 1, "c": 1, "k": 1}, 1), ({"n": 0}, 1),
])  # fmt: skip
def test_only_what_moves_is_turned(keys: dict[str, Any], count: int) -> None:
    """Weights of one place and images of one channel or place have the same bytes either way."""
    operator = find_operator("conv_fwd")
    problem = operator.problem(**{**KEYS, "strides": 1, "pads": 1, **keys, "channels": "first"})
    steps = operator.steps(problem, operator.spec(problem, GFX942), GFX942)
    assert len(steps) == count and OWN_KERNEL in steps


@pytest.mark.parametrize(("keys", "words"), [
    ({"dtype": "f64"}, "channels=first: nothing turns arrays of f64"),
    ({"channels": "both"}, "expected last.first"),
])  # fmt: skip
def test_requests_that_are_refused(keys: dict[str, Any], words: str) -> None:
    with pytest.raises(RequestError, match=words):
        find_operator("conv_fwd").problem(**{"channels": "first", **keys})
