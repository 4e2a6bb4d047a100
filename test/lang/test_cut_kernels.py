"""Rows of which a side is cut off at a bound, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from kernel_runner import CHIPS, compile_traced

from ckmlir.dialect.distribution import Distribution
from ckmlir.lang import Kernel, Pointer, cut, kernel, load, ptr, store, view
from ckmlir.ops.dtypes import numpy_dtype
from ckmlir.targets import get_target

ROWS = {
    "d0: 2@wave 64@lane, d1: 32@y0": (128, 32),  # a row a lane
    "d0: 2@wave 32@lane.1, d1: 4@y0 2@lane.0 4@y1": (64, 32),  # a row in two lanes
    "d0: 2@wave 32@lane.1 2@y0, d1: 2@lane.0 32@y1": (128, 64),  # two rows a lane, a row in two lanes
}
LOWEST, GREATEST = -(2**31), 2**31 - 1


def cutting(chip: str, lies: str, shape: tuple[int, int], dtype: str = "f32", *, front: bool) -> Kernel:
    types = {"x": ptr(dtype), "b": ptr("i32"), "y": ptr(dtype)}

    @kernel("cutting", target=get_target(chip), waves=2, arguments=types)
    def cutting(x: Pointer, b: Pointer, y: Pointer) -> None:
        rows, columns = shape
        source, target = (view(one, shape, (columns, 1)).window(shape, (0, 0)) for one in (x, y))
        bounds = load(view(b, (rows,), (1,)).window((rows,), (0,)))
        store(cut(load(source, Distribution.parse(lies)), bounds, -7.0, front=front), target)

    return cutting


@pytest.mark.one_in(2)
@pytest.mark.parametrize("front", [False, True])
@pytest.mark.parametrize(
    ("chip", "lies"),
    [pytest.param(chip, lies, marks=() if chip == "gfx950" else pytest.mark.full) for chip in CHIPS for lies in ROWS],
)
def test_rows_are_cut(chip: str, lies: str, front: bool) -> None:
    """With bounds all over the tile, outside it on either side, as far as integers go, and in one row alone; what is
    not cut, NaN too, stays as it is."""
    shape = ROWS[lies]
    rows, columns = shape
    compiled = compile_traced(cutting(chip, lies, shape, front=front))
    data = np.random.default_rng(1).standard_normal(shape).astype(np.float32)
    data[::5, ::3] = np.nan
    nothing = LOWEST if front else GREATEST
    all_over = np.arange(rows, dtype=np.int32) % (columns + 7) - 3
    alone = np.where(np.arange(rows) == rows - 3, columns // 2, nothing).astype(np.int32)
    alike = [np.full(rows, one, np.int32) for one in (LOWEST, 0, 1, columns - 1, columns, GREATEST)]
    for bounds in (all_over, alone, *alike):
        *_, result = compiled.run(data, bounds, np.zeros_like(data), checks="all")
        place = np.arange(columns)[None, :]
        kept = place >= bounds[:, None] if front else place < bounds[:, None]
        np.testing.assert_array_equal(result, np.where(kept, data, np.float32(-7)))
    if rows == 64 or columns == 32:  # of two rows a lane LLVM makes selections
        assert compiled.assembly.count("\ts_cbranch") == 1


@pytest.mark.parametrize(
    ("chip", "dtype"), [("gfx90a", "bf16"), ("gfx942", "fp8"), ("gfx950", "f16"), ("gfx950", "fp8")]
)
def test_elements_that_share_registers_are_cut(chip: str, dtype: str) -> None:
    """With a bound that all rows share, too, as keys have it; what is kept keeps its bits."""
    lies, shape = "d0: 2@wave 32@lane.1, d1: 4@y0 2@lane.0 4@y1", (64, 32)
    compiled = compile_traced(cutting(chip, lies, shape, dtype, front=False))
    element = numpy_dtype(dtype, get_target(chip))
    bits = np.uint8 if element.itemsize == 1 else np.uint16
    data = np.random.default_rng(1).integers(0, np.iinfo(bits).max, shape).astype(bits).view(element)
    for bounds in (np.arange(64) % 39 - 3, *(np.full(64, one) for one in (LOWEST, 1, 31, 32, GREATEST))):
        *_, result = compiled.run(data, bounds.astype(np.int32), np.zeros_like(data), checks="all")
        cut_off = np.where(np.arange(32) < bounds[:, None], data.view(bits), np.full(1, -7).astype(element).view(bits))
        np.testing.assert_array_equal(result.view(bits), cut_off)
