"""Tiles of which no distribution was given and that no load determines: they lie as what they are stored to wants it,
or as the tile does that they were made like. Coordinates that only a reduction takes lie in any way.
"""

from __future__ import annotations

import numpy as np
import pytest
from kernel_runner import CHIPS, compile_traced

from ckmlir.lang import (
    Pointer,
    Scalar,
    atomic_add,
    cast,
    coordinates,
    full,
    i32,
    kernel,
    load,
    ptr,
    reduce_sum,
    scatter,
    scatter_add,
    store,
    stretch,
    view,
)
from ckmlir.lang.kernel import Argument
from ckmlir.targets import get_target


@pytest.mark.parametrize("chip", CHIPS)
def test_tiles_that_are_only_stored(chip: str) -> None:
    """Numbers to every kind of store, rows by an index that is loaded, and a stretched tile."""
    names = {"plain": "f32", "halves": "f16", "counts": "i32", "rows": "i32", "wide": "f32", "x": "f32"}

    @kernel("stored", target=get_target(chip), waves=2, arguments={name: ptr(dtype) for name, dtype in names.items()})
    def stored(plain: Pointer, halves: Pointer, counts: Pointer, rows: Pointer, wide: Pointer, x: Pointer) -> None:
        store(full((7, 48), 2.5, "f32"), view(plain, (7, 48), (48, 1)).window((7, 48), (0, 0)))
        which = load(view(rows, (64,), (1,)).window((64,), (0,)))
        scatter(full((64, 8), 3, "f16"), view(halves, (64, 8), (8, 1)).window((64, 8), (0, 0)), which, 0)
        atomic_add(full((256,), 3, "i32"), view(counts, (256,), (1,)).window((256,), (0,)))
        which = load(view(rows, (64,), (1,)).window((64,), (0,)))
        scatter_add(full((64, 8), 1, "i32"), view(counts, (32, 8), (8, 1)).window((64, 8), (0, 0)), which, 0)
        line = load(view(x, (64,), (1,)).window((64,), (0,)))
        store(stretch(line, 1, 32), view(wide, (64, 32), (32, 1)).window((64, 32), (0, 0)))

    x = np.arange(64, dtype=np.float32)
    plain, halves, counts = np.zeros((7, 48), np.float32), np.zeros((64, 8), np.float16), np.zeros(256, np.int32)
    rows, wide = np.random.default_rng(0).permutation(64).astype(np.int32), np.zeros((64, 32), np.float32)
    plain, halves, counts, _, wide, _ = compile_traced(stored).run(plain, halves, counts, rows, wide, x, checks="all")
    assert (plain == 2.5).all() and (halves == 3).all() and (counts == 4).all()
    np.testing.assert_array_equal(wide, np.repeat(x[:, None], 32, 1))


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize(("rows", "columns", "waves"), [(16, 64, 4), (1, 1, 1), (3, 5, 2), (7, 192, 4)])
def test_coordinates_that_are_only_reduced(chip: str, rows: int, columns: int, waves: int) -> None:
    """How many places of each row lie before a limit, like a tile of which nothing else is used."""
    names: dict[str, Argument] = {"x": ptr("f32"), "counts": ptr("f32"), "limit": i32}

    @kernel("counted", target=get_target(chip), waves=waves, arguments=names)
    def counted(x: Pointer, counts: Pointer, limit: Scalar) -> None:
        like = load(view(x, (rows, columns), (columns, 1)).window((rows, columns), (0, 0)))
        inside = (coordinates(like, 1) < limit) & (coordinates(like, 0) < 3)
        store(reduce_sum(cast(inside, "f32"), 1), view(counts, (rows,), (1,)).window((rows,), (0,)))

    x, counts = np.zeros((rows, columns), np.float32), np.zeros(rows, np.float32)
    _, counts = compile_traced(counted).run(x, counts, columns - 1, checks="all")
    np.testing.assert_array_equal(counts, np.where(np.arange(rows) < 3, columns - 1, 0))
