"""Kernels that wish for room for several waves of a SIMD: the wish is kept where nothing is spilled for it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from kernel_runner import CHIPS, Compiled

from ckmlir.compiler import compile_traced
from ckmlir.dialect.distribution_builders import coalesced
from ckmlir.lang import Kernel, load, ptr, reduce_max, store, view
from ckmlir.lang import kernel as traced
from ckmlir.targets import get_target

LONG = 96 * 64
"""Elements of a row, 96 a lane, all of which wait for the row's maximum."""


def below_the_maximum(chip: str, waves_a_simd: int) -> Kernel:
    """y = x - max(x), by one wave."""
    lies = coalesced((1, LONG), 1, 1, 4)

    @traced(
        "below", target=get_target(chip), waves=1, arguments={"x": ptr("f32"), "y": ptr("f32")},
        waves_a_simd=waves_a_simd,
    )  # fmt: skip
    def below(given: Any) -> None:
        x, y = (view(one, (1, LONG), (LONG, 1)).window((1, LONG), (0, 0)) for one in (given.x, given.y))
        tile = load(x, lies)
        store(tile - reduce_max(tile, 1)[:, None], y)

    return below


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize(("wished", "most"), [(1, 512), (4, 128), (8, 512)])
def test_nothing_is_spilled_for_a_wish(chip: str, wished: int, most: int) -> None:
    """Of 512 registers four waves have 128 each, which is enough, and eight 64, which is not."""
    kernel = below_the_maximum(chip, wished)
    found = compile_traced(kernel)
    metadata = found.code_object.kernel().metadata
    assert 96 < metadata.vgpr_count <= most
    assert (metadata.vgpr_spill_count, metadata.sgpr_spill_count, metadata.private_segment_size) == (0, 0, 0)
    x = np.random.default_rng(3).standard_normal(LONG).astype(np.float32)
    _, y = Compiled(kernel, found.hsaco, "", "", "").run(x, np.zeros(LONG, np.float32), checks="all")
    assert np.array_equal(y, x - x.max())
