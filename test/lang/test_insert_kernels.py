"""Parts of tiles replaced by others, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from kernel_runner import CHIPS, compile_traced

from ckmlir.dialect.distribution import Distribution
from ckmlir.lang import Kernel, Pointer, cast, insert_tile, kernel, load, ptr, slice_tile, store, view
from ckmlir.passes.pipeline import PipelineFailure
from ckmlir.targets import get_target

LAYOUT = Distribution.parse("d0: 4@y0 2@wave 8@lane, d1: 8@lane 4@y1")  # 64x32: rows of 16 in registers
SHAPE = (64, 32)


def swap_kernel(chip: str, axis: int, start: int, length: int, *, given: bool = True) -> Kernel:
    """The rows (or columns) from `start` on replaced by the doubled ones from 0 on, in f16."""
    arguments = {"x": ptr("f16"), "y": ptr("f16")}

    @kernel("swap", target=get_target(chip), waves=2, arguments=arguments)
    def swap(x: Pointer, y: Pointer) -> None:
        source, target = (view(pointer, SHAPE, (SHAPE[1], 1)).window(SHAPE, (0, 0)) for pointer in (x, y))
        tile = load(source, LAYOUT if given else None)
        part = slice_tile(tile, axis, 0, length)
        whole = insert_tile(tile, part + part, axis, start)
        store(insert_tile(whole, cast(cast(part, "f32") * 3.0, "f16"), axis, 0), target)

    return swap


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize(("axis", "start", "length"), [(0, 16, 16), (0, 32, 16), (0, 32, 32), (0, 48, 16)])
def test_insert(chip: str, axis: int, start: int, length: int) -> None:
    """A part of one to two register blocks goes to every place that it fits; the rest stays."""
    data = np.random.default_rng(1).integers(-8, 8, SHAPE).astype(np.float16)
    expected = data.copy()
    part = data[:length]
    expected[start : start + length] = part + part
    expected[:length] = 3 * part
    _, result = compile_traced(swap_kernel(chip, axis, start, length)).run(data, np.zeros_like(data))
    np.testing.assert_array_equal(result, expected)


def test_insert_into_a_tile_whose_distribution_is_inferred() -> None:
    """The part's distribution follows from the whole's."""
    data = np.random.default_rng(1).integers(-8, 8, SHAPE).astype(np.float16)
    _, result = compile_traced(swap_kernel("gfx942", 0, 32, 32, given=False)).run(data, np.zeros_like(data))
    np.testing.assert_array_equal(result[32:], 2 * data[:32])
    np.testing.assert_array_equal(result[:32], 3 * data[:32])


def test_parts_in_other_lanes_are_refused() -> None:
    """A part that lies in some lanes only cannot be taken or put within each thread."""
    arguments = {"x": ptr("f16"), "y": ptr("f16")}

    @kernel("refused", target=get_target("gfx942"), waves=2, arguments=arguments)
    def refused(x: Pointer, y: Pointer) -> None:
        whole = load(view(x, SHAPE, (32, 1)).window(SHAPE, (0, 0)), LAYOUT)
        part = load(view(y, (8, 32), (32, 1)).window((8, 32), (0, 0)))
        store(insert_tile(whole, part, 0, 0), view(y, SHAPE, (32, 1)).window(SHAPE, (0, 0)))

    with pytest.raises(PipelineFailure, match=r"\[0, 8\) of dimension 0 is not a whole part of each thread's"):
        compile_traced(refused)
