"""Kernels that wish for room for several waves of a SIMD: the wish is kept where nothing is spilled for it, or where
workgroups of a compute unit wait for each other.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from kernel_runner import CHIPS, Compiled

from ckmlir.compiled_kernel import CompiledKernel
from ckmlir.compiler import compile_traced
from ckmlir.dialect.distribution_builders import coalesced
from ckmlir.lang import Kernel, load, ptr, reduce_max, signal, store, view, wait_until
from ckmlir.lang import kernel as traced
from ckmlir.targets import get_target

ROOM = {"workgroups_a_unit": 16}
LONG = 96 * 64
"""Elements of a row, 96 a lane, all of which wait for the row's maximum."""


def below_the_maximum(chip: str, *, waits: bool = False, **room: int) -> Kernel:
    """y = x - max(x), by one wave; one that waits does so for a flag that it has set."""
    lies = coalesced((1, LONG), 1, 1, 4)
    arguments = {"x": ptr("f32"), "y": ptr("f32"), "flags": ptr("i32")}

    @traced("below", target=get_target(chip), waves=1, arguments=arguments, **room)
    def below(given: Any) -> None:
        x, y = (view(one, (1, LONG), (LONG, 1)).window((1, LONG), (0, 0)) for one in (given.x, given.y))
        tile = load(x, lies)
        if waits:
            signal(given.flags, 0, 1)
            wait_until(given.flags, 0, 1)
        store(tile - reduce_max(tile, 1)[:, None], y)

    return below


def result_of(kernel: Kernel, found: CompiledKernel) -> tuple[Any, Any]:
    """What the kernel stores, under all checkers, and what it should."""
    x = np.random.default_rng(3).standard_normal(LONG).astype(np.float32)
    arrays = (x, np.zeros(LONG, np.float32), np.zeros(1, np.int32))
    return Compiled(kernel, found.hsaco, "", "", "").run(*arrays, checks="all")[1], x - x.max()


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize(("wished", "most"), [(1, 512), (4, 128), (8, 512)])
def test_nothing_is_spilled_for_a_wish(chip: str, wished: int, most: int) -> None:
    """Of 512 registers four waves have 128 each, which is enough, and eight 64, which is not."""
    kernel = below_the_maximum(chip, waves_a_simd=wished)
    found = compile_traced(kernel)
    metadata = found.code_object.kernel().metadata
    assert 96 < metadata.vgpr_count <= most
    assert (metadata.vgpr_spill_count, metadata.sgpr_spill_count, metadata.private_segment_size) == (0, 0, 0)
    assert np.array_equal(*result_of(kernel, found))


@pytest.mark.one_in(2)
@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("waits", [False, True])
def test_those_that_wait_for_each_other_fit_whatever_it_takes(chip: str, waits: bool) -> None:
    """32 workgroups of a wave leave 64 registers each. One that is waited for has to run; else as many run as may
    without spilling."""
    kernel = below_the_maximum(chip, waits=waits, workgroups_a_unit=32)
    found = compile_traced(kernel)
    assert (found.workgroups_a_unit(64) == 32) == waits
    assert (found.code_object.kernel().metadata.vgpr_spill_count > 0) == waits
    assert np.array_equal(*result_of(kernel, found))


def test_where_they_fit_nothing_changes() -> None:
    """Sixteen workgroups have 128 registers each, of which the kernel takes a hundred."""
    alone, held = (compile_traced(below_the_maximum("gfx942", waits=True, **room)) for room in ({}, ROOM))
    assert alone.hsaco == held.hsaco
