"""Convolutions that memory limits, forward, by the model of gfx942: bytes of their arrays, each read or written once,
in relation to what the model's HBM would move in the time of all kernels (its bandwidth times its efficiency).
"""

from __future__ import annotations

from typing import Any

import pytest

from ckmlir.ops import find_operator
from ckmlir.runtime.timing import model_kernels
from ckmlir.sim.timing.grid import Mode
from ckmlir.sim.timing.memory_shares import hbm_bytes_per_cycle
from ckmlir.sim.timing.parameters import load
from ckmlir.targets import get_target

AIM = 0.6
STEM: dict[str, Any] = {"n": 32, "c": 3, "k": 64, "image": (224, 224), "window": 7, "strides": 2, "pads": 3}
"""The first layer of ResNet-50."""


def depthwise(channels: int) -> dict[str, Any]:
    """32 images of 56 x 56 by 3 x 3."""
    return {"n": 32, "g": channels, "c": 1, "k": 1, "image": (56, 56)}


def share(mode: Mode, keys: dict[str, Any]) -> float:
    """Of the modelled bandwidth of memory."""
    operator, target, parameters = find_operator("conv_fwd"), get_target("gfx942"), load("gfx942")
    problem = operator.problem(**keys)
    moved = sum(array.nbytes for array in operator.arrays(problem))
    cycles = sum(
        one.under(parameters).grid.cycles for one in model_kernels(operator, problem, target, parameters, mode=mode)
    )
    return moved / (cycles * hbm_bytes_per_cycle(parameters))


@pytest.mark.full
@pytest.mark.parametrize(("mode", "keys"), [
    ("analytic", STEM),
    pytest.param("sampled", depthwise(128), marks=pytest.mark.full),
    pytest.param("sampled", STEM, marks=[
        pytest.mark.full, pytest.mark.xfail(strict=True, reason="workgroups of a compute unit wait: 40 %"),
    ]),
    *(pytest.param("sampled", depthwise(channels), marks=pytest.mark.full) for channels in (124, 126, 127)),
])  # fmt: skip
def test_shares_of_the_bandwidth_of_memory(mode: Mode, keys: dict[str, Any]) -> None:
    """With one workgroup of a compute unit carried over (`analytic`), or all of them simulated together (`sampled`)."""
    assert share(mode, keys) >= AIM
