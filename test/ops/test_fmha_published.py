"""Five shapes of CK Tile's smoke list of attention forward with all head sizes, layouts, biases and dropout, its splits
with and without pages, and windows with sink tokens and sinks like its own. Heads and batches are as many; sequences
are as long but for 1024 queries, of which 200 are taken, so that a case runs in seconds.
"""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from ckmlir.ops import find_operator
from ckmlir.runtime import check_outputs, run_operator
from ckmlir.runtime.simulator_device import SimulatorDevice
from ckmlir.sim.checks import parse_checks
from ckmlir.targets import get_target

Keys = dict[str, Any]

SHAPES: tuple[Keys, ...] = (
    {"b": 2, "h": 2, "hk": 1, "sq": 55, "sk": 256, "mask": "top_left"},
    {"b": 1, "h": 3, "sq": 100, "sk": 51},
    {"b": 2, "h": 1, "sq": 99, "sk": 256, "mask": "top_left"},
    {"b": 1, "h": 2, "hk": 1, "sq": 200, "sk": 256, "mask": "bottom_right"},
    {"b": 2, "h": 1, "sq": 3, "sk": 99, "mask": "bottom_right"},
)
SINKS = ("top_left", "window:2,0,2", "window:1,3,4", "window_bottom_right:-1,1,2", "window_bottom_right:3,0,1")
GRID: list[tuple[str, str, Keys]] = [
    (chip, "fmha_fwd", {**shape, "d": d, "dtype": dtype, "layout": layout, "lse": lse, **bias, "dropout": dropout})
    for chip in ("gfx90a", "gfx942", "gfx950")
    for dtype in ("f16", "bf16")
    for d in (32, 64, 128, 256)
    for layout in ("bhsd", "bshd")
    for lse in (0, 1)
    for bias in ({}, {"bias": "one"}, {"alibi": "head"})
    for dropout in (0.0, 0.2)
    for shape in SHAPES
] + [
    (chip, "fmha_fwd_splitkv", {**shape, "d": d, "dtype": "f16", "lse": 1, "splits": splits, **pages})
    for chip in ("gfx90a", "gfx942", "gfx950")
    for d in (32, 64, 128, 256)
    for splits in (1, 2, 3)
    for pages in ({}, {"page_size": 128})
    for shape in SHAPES
] + [
    (chip, "fmha_fwd", {"b": 1, "h": 2, "hk": 1, "sq": 100, "sk": 130, "d": d, "mask": mask, "sink": sink, "lse": 1})
    for chip in ("gfx90a", "gfx942", "gfx950")
    for d in (64, 128)
    for mask in SINKS
    for sink in (0, 1)
]
DEFAULT = Random(7).sample(GRID, 3)


@pytest.mark.parametrize(
    ("chip", "name", "keys"), [one if one in DEFAULT else pytest.param(*one, marks=pytest.mark.full) for one in GRID],
    ids=lambda one: ",".join(f"{key}={value}" for key, value in one.items()) if isinstance(one, dict) else one,
)  # fmt: skip
def test_numbers(chip: str, name: str, keys: Keys) -> None:
    operator, target = find_operator(name), get_target(chip)
    problem = operator.problem(**keys)
    arrays = operator.inputs(problem, target, seed=3)
    device = SimulatorDevice(target, seed=5, checks=parse_checks("all"))
    result = run_operator(operator, problem, arrays, target, device)
    comparisons = check_outputs(operator, problem, arrays, result.outputs, target)
    assert comparisons and all(one.ok for one in comparisons), "; ".join(map(str, comparisons))
