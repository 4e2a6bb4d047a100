"""Atomic updates of memory by tiles of indices, against NumPy under all checkers."""

from __future__ import annotations

import numpy as np
import pytest
from kernel_runner import CHIPS, DTYPES, compile_traced

from ckmlir.dialect.distribution import Distribution
from ckmlir.lang import Kernel, Pointer, Scalar, i32, kernel, load, ptr, scatter_add, scatter_max, view
from ckmlir.targets import get_target

ROWS, COLUMNS = 32, 64
LIES = Distribution.parse("d0: 2@y0 2@wave 8@lane, d1: 8@lane 8@y1")
UPDATES = {"add": scatter_add, "max": scatter_max}
TYPES = [
    (chip, kind, dtype)
    for chip in CHIPS
    for kind, dtype in (("add", "f32"), ("add", "i32"), ("add", "f16"), ("add", "bf16"), ("add", "f64"),
                        ("max", "f32"), ("max", "i32"))
    if (chip, dtype) != ("gfx90a", "bf16")  # has no instruction for it
]  # fmt: skip


def update_kernel(chip: str, kind: str, dtype: str, distribution: Distribution = LIES) -> Kernel:
    """y[ids[i]] += x[i], or the larger of both; y has `rows` rows of 62 elements, some pitch apart."""
    arguments = {"x": ptr(dtype), "ids": ptr("i32"), "y": ptr(dtype), "rows": i32, "pitch": i32}

    @kernel("updated", target=get_target(chip), waves=2, arguments=arguments)
    def updated(x: Pointer, ids: Pointer, y: Pointer, rows: Scalar, pitch: Scalar) -> None:
        tile = load(view(x, (ROWS, COLUMNS), (COLUMNS, 1)).window((ROWS, COLUMNS), (0, 0)), distribution)
        indices = load(view(ids, (ROWS,), (1,)).window((ROWS,), (0,)))
        result = view(y, (rows, 62), (pitch.multiple_of(2), 1)).pad(1, COLUMNS).window((ROWS, COLUMNS), (0, 0))
        UPDATES[kind](tile, result, indices, 0)

    return updated


def check(kernel_: Kernel, kind: str, dtype: str) -> None:
    """Rows that several entries share, and indices anywhere."""
    random = np.random.default_rng(5)
    rows, pitch = 13, 66
    x = random.integers(-4, 5, (ROWS, COLUMNS)).astype(DTYPES[dtype])
    ids = random.integers(0, rows, ROWS).astype(np.int32)
    ids[[1, 5, 9, 20, 30]] = [-1, rows, rows + 7, 2**31 - 1, -(2**31)]
    y = random.integers(-4, 5, (rows, pitch)).astype(DTYPES[dtype])
    expected = y.astype(np.float64)
    for row, place in enumerate(ids):
        if 0 <= place < rows:
            own = x[row, :62].astype(np.float64)
            old = expected[place, :62]
            expected[place, :62] = old + own if kind == "add" else np.maximum(old, own)
    _, _, got = compile_traced(kernel_).run(x, ids, y, np.int32(rows), np.int32(pitch), checks="all")
    np.testing.assert_array_equal(got.astype(np.float64), expected)


@pytest.mark.one_in(4)
@pytest.mark.parametrize(("chip", "kind", "dtype"), TYPES)
def test_rows_by_index(chip: str, kind: str, dtype: str) -> None:
    """Small integers are exact in every type; what has an index outside is dropped, with no write near it."""
    check(update_kernel(chip, kind, dtype), kind, dtype)


@pytest.mark.parametrize("chip", CHIPS)
def test_copies_count_once(chip: str) -> None:
    """Where two waves hold the same elements, one of them updates."""
    copies = Distribution.parse("r: 2@wave, d0: 4@y0 8@lane, d1: 8@lane 8@y1")
    check(update_kernel(chip, "add", "f32", copies), "add", "f32")
