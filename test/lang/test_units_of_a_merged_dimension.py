"""A dimension that is padded up to whole units and merged behind another one, along which a loop walks: of the last
unit at each place there is a part. What is behind it is zero, though elements of the next place lie there in memory.
"""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from kernel_runner import CHIPS, compile_traced

from ckmlir.dialect.distribution_builders import in_quads
from ckmlir.lang import cast, i32, kernel, load, loop, ptr, store, view, zeros
from ckmlir.lang.kernel import Kernel
from ckmlir.targets import get_target

ROWS, DEPTH, UNIT, WAVES = 128, 64, 16, 4
LIES = in_quads((ROWS, DEPTH), WAVES, 8)


def running(chip: str) -> Kernel:
    """y = the sums over all steps of 64 along (places, units of images), by row and place in a step; a wave is at one
    place in each. Images lie within places.
    """
    arguments = {"x": ptr("f16"), "y": ptr("f32"), "images": i32, "places": i32}

    @kernel("units", target=get_target(chip), waves=WAVES, arguments=arguments)
    def sums(given: SimpleNamespace) -> None:
        images, places = given.images, given.places
        seen = view(given.x, (images, places, ROWS), (ROWS, images * ROWS, 1)).pad(UNIT, 1, 1)
        seen = seen.permute(1, 0, 2).merge(0, 1).permute(1, 0).pad(ROWS, 1)
        length = (images + (UNIT - 1)) // UNIT * UNIT * places
        with loop(0, length, DEPTH, carry=[zeros((ROWS, DEPTH), "f32", LIES)]) as step:
            tile = load(seen.window((ROWS, DEPTH), (0, step.index)), LIES)
            step.carry(step.carried[0] + cast(tile, "f32"))
        store(step.results[0], view(given.y, (ROWS, DEPTH), (DEPTH, 1)).window((ROWS, DEPTH), (0, 0)))

    return sums


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize(("images", "places"), [(31, 6), (1, 4), (17, 8), (16, 4)])
def test_nothing_is_behind_the_last_unit(chip: str, images: int, places: int) -> None:
    compiled = compile_traced(running(chip))
    x = np.random.default_rng(images).integers(1, 4, (places, images, ROWS)).astype(np.float16)
    y = compiled.run(x, np.zeros((ROWS, DEPTH), np.float32), images, places, checks="all")[1]
    padded = np.zeros((places, -(-images // UNIT) * UNIT, ROWS), np.float32)
    padded[:, :images] = x
    wanted = padded.reshape(-1, DEPTH, ROWS).sum(0).T
    np.testing.assert_array_equal(y, wanted)
