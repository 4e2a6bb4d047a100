"""Rows times factors that are nearly always 1, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from kernel_runner import CHIPS, compile_traced

from ckmlir.dialect.distribution import Distribution
from ckmlir.lang import Kernel, Pointer, kernel, load, ptr, rescale, store, view
from ckmlir.targets import get_target

ROWS = {
    "d0: 2@wave 64@lane, d1: 32@y0": (128, 32),  # a row a lane
    "d0: 2@wave 32@lane.1 2@y0, d1: 2@lane.0 32@y1": (128, 64),  # two rows a lane, a row in two lanes
}
FACTORS = {"ones": (), "one row": (77,), "two waves": (3, 100), "all": tuple(range(128))}
"""Rows with other factors than 1."""


def rescaling(chip: str, lies: str, shape: tuple[int, int]) -> Kernel:
    @kernel("rescaling", target=get_target(chip), waves=2, arguments=dict.fromkeys("xfy", ptr("f32")))
    def rescaling(x: Pointer, f: Pointer, y: Pointer) -> None:
        rows, columns = shape
        source, target = (view(one, shape, (columns, 1)).window(shape, (0, 0)) for one in (x, y))
        factors = load(view(f, (rows,), (1,)).window((rows,), (0,)))
        store(rescale(load(source, Distribution.parse(lies)), factors), target)

    return rescaling


@pytest.mark.parametrize(
    ("chip", "lies"),
    [pytest.param(chip, lies, marks=() if chip == "gfx942" else pytest.mark.full) for chip in CHIPS for lies in ROWS],
)
def test_rows_are_rescaled(chip: str, lies: str) -> None:
    """With factors of 1 for all rows, for those of one wave, and for none; NaN is a factor like others."""
    compiled = compile_traced(rescaling(chip, lies, ROWS[lies]))
    data = np.random.default_rng(1).standard_normal(ROWS[lies]).astype(np.float32)
    for name, rows in FACTORS.items():
        factors = np.ones(len(data), np.float32)
        factors[list(rows)] = np.linspace(-2, 0.5, len(rows), dtype=np.float32)
        if name == "two waves":
            factors[rows[0]] = np.nan
        *_, result = compiled.run(data, factors, np.zeros_like(data), checks="all")
        np.testing.assert_array_equal(result, data * factors[:, None], err_msg=name)
    if "lane.1" not in lies:  # of two rows a lane LLVM makes selections
        assert compiled.assembly.count("\ts_cbranch") == 1
