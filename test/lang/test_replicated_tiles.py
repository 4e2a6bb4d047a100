"""Tiles that several waves hold go through LDS without a race: no two waves write a byte, all read the same copy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from kernel_runner import CHIPS, DTYPES, compile_traced

from ckmlir.dialect.context import shared_context
from ckmlir.dialect.distribution import Distribution
from ckmlir.dialect.schedule import Schedule
from ckmlir.lang import copy_to_lds, i32, kernel, load, loop, ptr, redistribute, stage, store, to_lds, view, zeros
from ckmlir.mlir import ir
from ckmlir.passes.check_schedule import check_module
from ckmlir.targets import get_target

BY_WAVES = "r: 4@wave 2@lane, d0: 32@lane"
"""All four waves hold the tile, each twice."""
BY_PAIRS = "r: 2@wave.0, d0: 2@wave.1 64@lane"
"""Waves 0 and 2 hold one half, 1 and 3 the other."""
APART = "r: 2@wave.1, d0: 64@lane 2@wave.0"
"""Another pairing, and other places within it."""


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize(("length", "held", "wanted"), [
    (32, BY_WAVES, BY_WAVES), (128, BY_PAIRS, APART), (128, APART, BY_PAIRS),
])  # fmt: skip
def test_through_lds_and_back(chip: str, length: int, held: str, wanted: str) -> None:
    """Written to LDS by name and read in another way, and exchanged by `redistribute`."""

    @kernel("pass_on", target=get_target(chip), waves=4, arguments={"x": ptr("f32"), "y": ptr("f32")})
    def pass_on(given: Any) -> None:
        source, result = (view(one, (length,), (1,)).window((length,), (0,)) for one in (given.x, given.y))
        tile = load(source, Distribution.parse(held))
        store(to_lds(tile).read(Distribution.parse(wanted)) + redistribute(tile, Distribution.parse(wanted)), result)

    compiled = compile_traced(pass_on)
    with shared_context():
        assert check_module(ir.Module.parse(compiled.scheduled)) == []
    x = np.arange(length, dtype=np.float32)
    _, y = compiled.run(x, np.zeros_like(x), checks="all")
    np.testing.assert_array_equal(y, 2 * x)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("direct", [False, True])
def test_small_tiles_of_a_scheduled_loop(chip: str, direct: bool) -> None:
    """256 bytes a step by four waves, through registers or straight to LDS, two buffers, trip counts from 0 to 4."""
    text = "ahead fill 1; buffers 2" if direct else "ahead load 2, fill 1; buffers 2"

    @kernel("sums", target=get_target(chip), waves=4, arguments={"x": ptr("i32"), "y": ptr("i32"), "steps": i32})
    def sums(given: Any) -> None:
        lies = Distribution.parse("r: 4@wave, d0: 64@lane")
        x = view(given.x, (given.steps * 64,), (1,)).pad(64)
        total = zeros((64,), "i32", lies)
        with loop(0, given.steps, 1, carry=[total], schedule=Schedule.parse(f"schedule sums 1; {text}")) as step:
            window = x.window((64,), (step.index * 64,))
            if direct:
                with stage("fill"):
                    there = copy_to_lds(window)
            else:
                with stage("load"):
                    loaded = load(window, lies)
                with stage("fill"):
                    there = to_lds(loaded)
            with stage("add"):
                step.carry(step.carried[0] + there.read(lies))
        store(step.results[0], view(given.y, (64,), (1,)).window((64,), (0,)))

    compiled = compile_traced(sums)
    for steps in range(5):
        x = np.arange(64 * max(steps, 1), dtype=DTYPES["i32"])
        _, y = compiled.run(x, np.zeros(64, np.int32), steps, checks="all")
        np.testing.assert_array_equal(y, x[: 64 * steps].reshape(-1, 64).sum(axis=0))
