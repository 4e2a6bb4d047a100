"""Windows of padded views at any origin, also where the length is a multiple of the window's."""

from __future__ import annotations

import numpy as np
import pytest
from kernel_runner import CHIPS, compile_traced

from ckmlir.lang import Kernel, Pointer, Scalar, i32, kernel, load, ptr, store, view
from ckmlir.targets import get_target

TILE = (8, 64)


def moved_copy(chip: str, lengths: tuple[int, int]) -> Kernel:
    """y = the window of x at (row, column); and that window of z = y."""
    arguments = {"x": ptr("f32"), "y": ptr("f32"), "z": ptr("f32"), "row": i32, "column": i32}

    @kernel("moved", target=get_target(chip), waves=2, arguments=arguments)
    def moved(x: Pointer, y: Pointer, z: Pointer, row: Scalar, column: Scalar) -> None:
        tile = load(view(x, lengths, (lengths[1], 1)).pad(*TILE).window(TILE, (row, column)))
        store(tile, view(y, TILE, (TILE[1], 1)).window(TILE, (0, 0)))
        store(tile, view(z, lengths, (lengths[1], 1)).pad(*TILE).window(TILE, (row, column)))

    return moved


@pytest.mark.one_in(2)
@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("lengths", [(16, 128), (15, 127)])
def test_windows_at_any_origin(chip: str, lengths: tuple[int, int]) -> None:
    """What lies outside is zero and is not written, whether or not tiles fill the tensor."""
    compiled = compile_traced(moved_copy(chip, lengths))
    x = np.random.default_rng(0).standard_normal(lengths).astype(np.float32)
    for row, column in ((0, 0), (8, 64), (8, 65), (9, 64), (3, 100), (15, 126), (16, 0), (0, 128), (40, 7), (7, 500)):
        _, y, z = compiled.run(x, np.ones(TILE, np.float32), np.full_like(x, 7), row, column, checks="all")
        expected, kept = np.zeros(TILE, np.float32), np.full_like(x, 7)
        part = x[row : row + TILE[0], column : column + TILE[1]]
        expected[: part.shape[0], : part.shape[1]] = part
        kept[row : row + TILE[0], column : column + TILE[1]] = part
        np.testing.assert_array_equal(y, expected, err_msg=f"at {row}, {column}")
        np.testing.assert_array_equal(z, kept, err_msg=f"at {row}, {column}")


def row_copy(chip: str) -> Kernel:
    """y = 64 elements of x in (row, column) and behind; and those of z = y. Lengths are known at run time only."""
    sizes = dict.fromkeys(("m", "n", "pitch", "row", "column"), i32)

    @kernel(
        "row", target=get_target(chip), waves=1, arguments={"x": ptr("f16"), "y": ptr("f16"), "z": ptr("f16"), **sizes}
    )
    def copied(
        x: Pointer, y: Pointer, z: Pointer, m: Scalar, n: Scalar, pitch: Scalar, row: Scalar, column: Scalar
    ) -> None:
        tile = load(view(x, (m, n), (pitch, 1)).pad(1, 64).window((1, 64), (row, column)))
        store(tile, view(y, (1, 64), (64, 1)).window((1, 64), (0, 0)))
        store(tile, view(z, (m, n), (pitch, 1)).pad(1, 64).window((1, 64), (row, column)))

    return copied


@pytest.mark.one_in(2)
@pytest.mark.parametrize("chip", CHIPS)
def test_a_row_ends_with_its_length(chip: str) -> None:
    """What lies behind the end of a row is zero and is not written, in a gap between rows or in the next row; nor is
    anything of a row that does not exist, though the memory is there."""
    compiled = compile_traced(row_copy(chip))
    random = np.random.default_rng(1)
    for m, n, pitch in ((3, 127, 127), (3, 100, 160), (1, 64, 64), (2, 1, 8), (2, 0, 8)):
        x = random.standard_normal((5, pitch)).astype(np.float16)
        for row, column in ((0, 0), (m - 1, 64), (0, 90), (m - 1, n), (0, 500), (m, 0), (m + 1, 0), (1 << 20, 0)):
            sizes = (m, n, pitch, row, column)
            _, y, z = compiled.run(x, np.ones((1, 64), np.float16), np.full_like(x, 7), *sizes, checks="all")
            expected, kept = np.zeros((1, 64), np.float16), np.full_like(x, 7)
            part = x[row : row + 1, column : min(column + 64, n)] if row < m else x[:0]
            expected[: part.shape[0], : part.shape[1]] = part[:, :64] if part.size else 0
            if part.size:
                kept[row, column : column + part.shape[1]] = part
            np.testing.assert_array_equal(y, expected, err_msg=str(sizes))
            np.testing.assert_array_equal(z, kept, err_msg=str(sizes))
