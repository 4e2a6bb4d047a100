"""Views through coordinate transforms, and windows that move: copies of a tensor against NumPy's own slicing."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from kernel_runner import CHIPS, compile_traced

from ckmlir.dialect.distribution_builders import coalesced
from ckmlir.dialect.schedule import Schedule
from ckmlir.lang import Kernel, Pointer, Scalar, View, i32, kernel, load, loop, ptr, stage, store, view
from ckmlir.targets import get_target

TILE = (16, 16)
SOURCE = np.arange(1, 24 * 40 + 1, dtype=np.float32).reshape(24, 40)
VIEWS = {
    "slice": (lambda v, a: v.slice(0, 2, 20).slice(1, a, 33).pad(*TILE), lambda x, a: x[2:20, a:33]),
    "offset": (lambda v, a: v.offset(0, a, 16).pad(*TILE), lambda x, a: x[a : a + 16]),
    "pad_left": (lambda v, a: v.pad_left(0, a).pad_left(1, 2).pad(*TILE), lambda x, a: np.pad(x, ((a, 0), (2, 0)))),
    "pad_right": (lambda v, a: v.pad_right(1, a).pad(*TILE), lambda x, a: np.pad(x, ((0, 0), (0, a)))),
    "permute": (lambda v, a: v.permute(1, 0).pad(*TILE), lambda x, a: x.T),
    "unmerge_merge": (
        lambda v, a: v.unmerge(1, [5, 8]).permute(1, 0, 2).merge(1, 2).pad(*TILE),
        lambda x, a: x.reshape(24, 5, 8).transpose(1, 0, 2).reshape(5, 192),
    ),
    "freeze_insert": (
        lambda v, a: v.freeze(0, a).insert(0, 16).pad(*TILE),
        lambda x, a: np.broadcast_to(x[a], (16, 40)),
    ),
    "reverse": (
        lambda v, a: v.reverse(0).offset(1, a, 24).reverse(1).pad(*TILE),
        lambda x, a: x[::-1, a : a + 24][:, ::-1],
    ),
    "modulo": (lambda v, a: v.modulo(0, 48).pad(*TILE), lambda x, a: np.concatenate([x, x])),
    "windows": (
        lambda v, a: v.pad_left(1, 1).pad_right(1, 1).embed(1, [3, 40], [1, 1]).permute(1, 0, 2).merge(0, 1).pad(*TILE),
        lambda x, a: np.concatenate([np.pad(x, ((0, 0), (1, 1)))[:, i : i + 40] for i in range(3)]),
    ),
}  # fmt: skip


def copy_kernel(chip: str, transform: Callable[[View, Scalar], View], shape: tuple[int, int]) -> Kernel:
    """Copies a transformed view, tile by tile, into a packed array of `shape`; all tiles in one workgroup."""
    rows, columns = shape
    arguments = {"x": ptr("f32"), "y": ptr("f32"), "a": i32}

    @kernel("copy", target=get_target(chip), waves=1, arguments=arguments)
    def copy(x: Pointer, y: Pointer, a: Scalar) -> None:
        source: View = transform(view(x, SOURCE.shape, (SOURCE.shape[1], 1)), a)
        target = view(y, (rows, columns), (columns, 1)).pad(*TILE)
        distribution = coalesced(TILE, 1, 1, 4)
        for row in range(0, rows, TILE[0]):
            with loop(0, columns, TILE[1]) as step:
                tile = load(source.window(TILE, (row, step.index)), distribution)
                store(tile, target.window(TILE, (row, step.index)))

    return copy


@pytest.mark.one_in(2)
@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("name", VIEWS)
def test_transformed_view(chip: str, name: str) -> None:
    """Every element of the transformed tensor is read from where NumPy finds it; outside of it there are zeros."""
    transform, reference = VIEWS[name]
    expected = np.asarray(reference(SOURCE, 3), dtype=np.float32)
    compiled = compile_traced(copy_kernel(chip, transform, expected.shape))
    _, result = compiled.run(SOURCE, np.full(expected.shape, -1.0, np.float32), 3)
    np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize("schedule", ["schedule plain 1", "schedule ahead 1; ahead load 2"])
def test_moved_window(schedule: str) -> None:
    """A window moved by a loop's index visits the tensor like one made anew, also from two stages at once."""
    arguments = {"x": ptr("f32"), "y": ptr("f32"), "n": i32}

    @kernel("moved", target=get_target("gfx942"), waves=1, arguments=arguments)
    def moved(x: Pointer, y: Pointer, n: Scalar) -> None:
        source = view(x, (16, n), (n, 1)).pad(*TILE).window(TILE, (0, 0))
        target = view(y, (16, n), (n, 1)).pad(*TILE).window(TILE, (0, 0))
        with loop(0, n, TILE[1], schedule=Schedule.parse(schedule)) as step:
            here = source.moved(0, step.index)
            with stage("load"):
                tile = load(here.moved(0, 0), coalesced(TILE, 1, 1, 1))
            with stage("store"):
                store(tile + load(here, coalesced(TILE, 1, 1, 1)), target.moved(0, step.index))

    data = np.random.default_rng(3).standard_normal((16, 83)).astype(np.float32)
    _, result = compile_traced(moved).run(data, np.zeros_like(data), 83)
    np.testing.assert_array_equal(result, data + data)


def test_moves_and_windows_check_their_rank() -> None:
    """The number of steps, lengths and origins is that of the dimensions."""
    with pytest.raises(ValueError, match="a window of 2 dimensions moves by as many steps, not 1"):

        @kernel("wrong", target=get_target("gfx942"), waves=1, arguments={"x": ptr("f32")})
        def wrong(x: Pointer) -> None:
            view(x, (16, 16), (16, 1)).window(TILE, (0, 0)).moved(1)

    with pytest.raises(ValueError, match="takes as many lengths and origins, not 1 and 2"):

        @kernel("wrong", target=get_target("gfx942"), waves=1, arguments={"x": ptr("f32")})
        def also_wrong(x: Pointer) -> None:
            view(x, (16, 16), (16, 1)).window((16,), (0, 0))


def windows_kernel(chip: str) -> Kernel:
    """y[i] = row i of the windows of padded images, their rows merged with the images: what an implicit GEMM loads."""
    sizes = dict.fromkeys(("images", "h", "places", "left", "right", "taps"), i32)

    @kernel("windows", target=get_target(chip), waves=1, arguments={"x": ptr("f32"), "y": ptr("f32"), **sizes})
    def windows(
        x: Pointer, y: Pointer, images: Scalar, h: Scalar, places: Scalar, left: Scalar, right: Scalar, taps: Scalar
    ) -> None:
        padded = view(x, (images, h, 64), (h * 64, 64, 1)).pad_left(1, left).pad_right(1, right)
        seen = padded.embed(1, (places, taps), (1, 1)).permute(0, 1, 3, 2).merge(0, 1)
        with loop(0, taps, 1) as step:
            rows = load(seen.freeze(2, step.index).pad(32, 64).window((32, 64), (0, 0)))
            store(rows, view(y, (taps, 32, 64), (32 * 64, 64, 1)).freeze(0, step.index).window((32, 64), (0, 0)))

    return windows


@pytest.mark.one_in(4)
@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize(("left", "right"), [(1, 1), (2, 0), (0, 2), (3, 4)])
def test_a_loop_moves_along_a_padding_below_a_merge(chip: str, left: int, right: int) -> None:
    """The place where a row's window starts may be in the padding, before the memory, and its elements are there."""
    images, h, taps = 2, 10, 3
    places = h + left + right - taps + 1
    x = np.random.default_rng(1).standard_normal((images, h, 64)).astype(np.float32)
    padded = np.pad(x, ((0, 0), (left, right), (0, 0)))
    merged = [padded[:, tap : tap + places].reshape(-1, 64) for tap in range(taps)]
    expected = np.stack([np.pad(rows, ((0, 32 - len(rows)), (0, 0))) for rows in merged])
    arguments = images, h, places, left, right, taps
    _, result = compile_traced(windows_kernel(chip)).run(x, np.empty_like(expected), *arguments, checks="all")
    np.testing.assert_array_equal(result, expected)
