"""Inputs whose elements share places in memory: repeated rows and columns, and windows that overlap."""

from __future__ import annotations

import numpy as np
import pytest

from ckmlir.ops import find_operator
from ckmlir.ops.request import RequestError
from ckmlir.runtime import open_device, run_operator
from ckmlir.runtime.run import check_outputs
from ckmlir.targets import TARGETS, get_target


@pytest.mark.parametrize("chip", TARGETS)
@pytest.mark.parametrize(
    ("name", "keys"),
    [
        ("permute", {"shape": "40x64", "strides": "0x1"}),
        ("permute", {"shape": "40x64", "strides": "1x0"}),
        ("permute", {"shape": "33x17x5", "strides": "1x1x2", "perm": "2x0x1"}),
        ("cast", {"shape": "40x64", "strides": "8x1", "dtype": "f32", "out": "f16"}),
        ("cast", {"shape": "9x12", "strides": "4x1", "dtype": "fp4", "out": "f32"}),
        ("elementwise", {"shape": "7x40x64", "op": "a * b", "a_strides": "64x0x1", "b": "40x64", "b_strides": "1x1"}),
    ],
)
def test_numbers(name: str, keys: dict[str, object], chip: str) -> None:
    operator, target = find_operator(name), get_target(chip)
    problem = operator.problem(**keys)
    arrays = operator.inputs(problem, target)
    device = open_device("sim", target, checks="all")
    result = run_operator(operator, problem, arrays, target, device, guarded=True)
    assert all(one.ok for one in check_outputs(operator, problem, arrays, result.outputs, target))


def test_elements_that_differ_are_refused() -> None:
    """One place cannot hold two values: the array is named, nothing is left to the order of copying."""
    operator, target = find_operator("permute"), get_target("gfx942")
    problem = operator.problem(shape="4x8", strides="0x1", dtype="f32")
    arrays = {"x": np.arange(32, dtype=np.float32).reshape(4, 8)}
    with pytest.raises(RequestError, match="array x: elements that share a place by strides 0x1 differ"):
        run_operator(operator, problem, arrays, target, open_device("sim", target))
