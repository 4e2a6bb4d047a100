"""Copies from memory to LDS that pass no registers, against NumPy: in every place of a schedule, with partial waits."""

from __future__ import annotations

import re

import numpy as np
import pytest
from kernel_runner import CHIPS, DTYPES, Compiled, compile_traced

from ckmlir.dialect.distribution_builders import coalesced
from ckmlir.dialect.mma import Mma
from ckmlir.dialect.schedule import Schedule
from ckmlir.lang import (
    Pointer,
    Scalar,
    cast,
    copy_to_lds,
    i32,
    kernel,
    load,
    loop,
    mma,
    ptr,
    stage,
    store,
    to_lds,
    view,
    zeros,
)  # fmt: skip
from ckmlir.passes.pipeline import PipelineFailure
from ckmlir.targets import get_target

TILE = (32, 64)


def compile_copy(chip: str, dtype: str, *, waves: int = 2, tile: tuple[int, int] = TILE, multiple: int = 8) -> Compiled:
    """y = x, a ragged matrix, through LDS, with another distribution on the way out."""
    arguments = {"x": ptr(dtype), "y": ptr(dtype), "m": i32, "n": i32, "pitch": i32}

    @kernel("copied", target=get_target(chip), waves=waves, arguments=arguments)
    def copied(x: Pointer, y: Pointer, m: Scalar, n: Scalar, pitch: Scalar) -> None:
        source, target = (
            view(one, (m, n.multiple_of(multiple)), (pitch.multiple_of(multiple), 1)).pad(*tile) for one in (x, y)
        )
        with loop(0, n, tile[1]) as step:
            lds = copy_to_lds(source.window(tile, (0, step.index)))
            store(lds.read(coalesced(tile, waves, 0, 4)), target.window(tile, (0, step.index)))

    return compile_traced(copied)


@pytest.mark.one_in(8)
@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize(("dtype", "waves", "tile"), [
    ("f16", 2, TILE), ("f16", 1, TILE), ("f32", 2, TILE), ("i8", 2, TILE), ("f16", 4, (8, 256)), ("f16", 4, (4, 32)),
])  # fmt: skip
def test_copy(chip: str, dtype: str, waves: int, tile: tuple[int, int]) -> None:
    """Every element arrives; what is outside the matrix is zero in LDS; the matrix's gaps stay."""
    x = np.random.default_rng(2).integers(-99, 99, (tile[0], 280)).astype(DTYPES[dtype])
    y = np.full_like(x, 7)
    _, result = compile_copy(chip, dtype, waves=waves, tile=tile).run(x, y, tile[0] - 1, 264, 280)
    expected = y.copy()
    expected[: tile[0] - 1, :264] = x[: tile[0] - 1, :264]
    np.testing.assert_array_equal(result, expected)


def test_width_of_copies() -> None:
    """gfx950 copies 16 bytes a lane where rows are aligned, 4 where they are not; the others always 4."""
    assert "buffer_load_dwordx4" in compile_copy("gfx950", "f16").assembly
    assert not re.search(r"buffer_load_dwordx\d.* lds", compile_copy("gfx950", "f16", multiple=2).assembly)
    assert not re.search(r"buffer_load_dwordx\d.* lds", compile_copy("gfx942", "f16").assembly)


SCHEDULES = {
    "plain": "schedule plain 1",
    "one_buffer": "schedule one_buffer 1; ahead copy 1; order interleave; fences memory",
    "two_buffers": "schedule two_buffers 1; ahead copy 1; buffers 2; order interleave; fences memory",
    "three_buffers": "schedule three_buffers 1; ahead copy 2; buffers 3; order interleave; fences memory",
    "program_order": "schedule program_order 1; ahead copy 2; buffers 3",
}
MIXED = {
    "one_buffer": SCHEDULES["one_buffer"].replace("copy 1", "copy 1, load 1"),
    "two_buffers": SCHEDULES["two_buffers"].replace("copy 1", "copy 1, load 2"),
    "three_buffers": SCHEDULES["three_buffers"].replace("copy 2", "copy 2, load 3"),
}
"""With a further stage that loads into registers what does not go straight to LDS."""
BLOCK = (64, 64, 64)


def compile_gemm(chip: str, schedule: str, *, mixed: bool = False, waves: tuple[int, int] = (2, 2)) -> Compiled:
    """c (m, n) = a (m, k) · b (n, k)ᵀ of one block; `mixed`: b goes through registers."""
    target = get_target(chip)
    bm, bn, bk = BLOCK
    product = Mma.select(target, "32x32x8" if chip != "gfx950" else "32x32x16", "f16", block_k=bk)
    count = waves[0] * waves[1]
    text = (MIXED if mixed else SCHEDULES)[schedule]
    arguments = {"a": ptr("f16"), "b": ptr("f16"), "c": ptr("f32"), "m": i32, "n": i32, "k": i32}

    @kernel("product", target=target, waves=count, arguments=arguments)
    def gemm(a: Pointer, b: Pointer, c: Pointer, m: Scalar, n: Scalar, k: Scalar) -> None:
        k = k.multiple_of(8)
        A, B = view(a, (m, k), (k, 1)).pad(bm, bk), view(b, (n, k), (k, 1)).pad(bn, bk)
        start = zeros((bm, bn), "f32", product.c_over(waves, bm, bn))
        with loop(0, k, bk, carry=[start], schedule=Schedule.parse(text)) as step:
            (total,) = step.carried
            window = B.window((bn, bk), (0, step.index))
            with stage("load"):
                loaded = load(window) if mixed else None
            with stage("copy"):
                la = copy_to_lds(A.window((bm, bk), (0, step.index)))
                lb = copy_to_lds(window) if loaded is None else to_lds(loaded)
            with stage("math"):
                ra, rb = la.read(product.a_over(waves, bm, bk)), lb.read(product.b_over(waves, bn, bk))
                step.carry(mma(product, ra, rb, total))
        store(cast(step.results[0], "f32"), view(c, (m, n), (n, 1)).pad(bm, bn).window((bm, bn), (0, 0)))

    return compile_traced(gemm)


@pytest.mark.one_in(16)
@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize(("schedule", "mixed"), [*((one, False) for one in SCHEDULES), *((one, True) for one in MIXED)])
def test_gemm(chip: str, schedule: str, mixed: bool) -> None:
    """The product is right for trip counts below, at and above the buffers, with and without a remainder."""
    compiled = compile_gemm(chip, schedule, mixed=mixed)
    random = np.random.default_rng(9)
    for k in (0, 8, 64, 128, 192, 264):
        a, b = (random.integers(-4, 5, (rows, k)).astype(np.float16) for rows in (60, 64))
        *_, c = compiled.run(a, b, np.full((60, 64), np.nan, np.float32), 60, 64, k)
        np.testing.assert_array_equal(c, a.astype(np.float32) @ b.astype(np.float32).T)


def test_one_wave() -> None:
    """A single wave needs no barrier of the hardware, but waits for its copies."""
    compiled = compile_gemm("gfx942", "two_buffers", waves=(1, 1))
    assert "s_barrier" not in compiled.assembly
    assert "copies = " in compiled.scheduled
    random = np.random.default_rng(9)
    a, b = (random.integers(-4, 5, (64, 200)).astype(np.float16) for _ in range(2))
    *_, c = compiled.run(a, b, np.zeros((64, 64), np.float32), 64, 64, 200)
    np.testing.assert_array_equal(c, a.astype(np.float32) @ b.astype(np.float32).T)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("chip", CHIPS)
def test_waits_are_partial(chip: str) -> None:
    """With three buffers the copies of one iteration stay in flight through the steady loop's only wait and barrier."""
    compiled = compile_gemm(chip, "three_buffers")
    blocks = re.split(r"\n\s*\^bb", compiled.scheduled)
    steady = max(blocks, key=lambda text: text.count("ck.mfma"))
    copies = steady.count("ck.copy_fragment") // 3
    waits = [int(n) for n in re.findall(r"copies = (\d+)", steady)]
    assert copies > 0
    assert waits == [copies] * 3
    assert steady.count('"ck.barrier"') == 3
    assert "vmcnt(0)" not in max(re.split(r"\n\.LBB", compiled.assembly), key=lambda text: text.count("v_mfma"))


@pytest.mark.one_in(2)
@pytest.mark.parametrize("chip", CHIPS)
def test_layout_is_swizzled_without_gaps(chip: str) -> None:
    """Copies can write the layouts chosen, and reads of a default tile lose little to bank conflicts."""
    layouts = re.findall(r'layout = "([^"]+)"', compile_gemm(chip, "two_buffers").scheduled)
    assert layouts
    assert all("swizzle" in one and "pitch 64" in one and "skew" not in one for one in layouts)


def compile_listed(chip: str, dtype: str, schedule: str, waves: int = 2, tile: tuple[int, int] = TILE) -> Compiled:
    """y = rows of x by two lists, one for the odd steps along n and one for the even ones, through LDS."""
    arguments = {"x": ptr(dtype), "lists": ptr("i32"), "y": ptr(dtype), "m": i32, "n": i32, "pitch": i32}

    @kernel("listed", target=get_target(chip), waves=waves, arguments=arguments)
    def listed(x: Pointer, lists: Pointer, y: Pointer, m: Scalar, n: Scalar, pitch: Scalar) -> None:
        width, between = n.multiple_of(8), pitch.multiple_of(8)
        source = view(x, (m, width), (between, 1)).pad(1, tile[1])
        target = view(y, (tile[0], width), (between, 1)).pad(*tile)
        rows = view(lists, (2, tile[0]), (tile[0], 1))
        with loop(0, n, tile[1], schedule=Schedule.parse(schedule)) as step:
            with stage("list"):
                own = load(rows.freeze(0, step.index // tile[1] % 2).pad(tile[0]).window((tile[0],), (0,)))
            with stage("copy"):
                lds = copy_to_lds(source.window(tile, (0, step.index)), own)
            with stage("out"):
                store(lds.read(coalesced(tile, waves, 0, 4)), target.window(tile, (0, step.index)))

    return compile_traced(listed)


@pytest.mark.one_in(8)
@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize(("dtype", "waves", "tile"), [
    ("f16", 2, TILE), ("f32", 1, TILE), ("i8", 2, TILE), ("f16", 4, (8, 256)), ("f16", 4, (4, 32)),
])  # fmt: skip
def test_rows_by_a_list(chip: str, dtype: str, waves: int, tile: tuple[int, int]) -> None:
    """Each copy takes the row that its list names, in any order and any number of times; other indices give zeros."""
    random = np.random.default_rng(8)
    x = random.integers(1, 99, (5, 280)).astype(DTYPES[dtype])
    wild = np.array([-1, 5, 4, 0, -(2**31), 2**31 - 1, 3, 2**26])
    lists = random.choice(wild, (2, tile[0])).astype(np.int32)
    schedule = "schedule s 1; ahead list 2, copy 1; buffers 2"
    compiled = compile_listed(chip, dtype, schedule, waves, tile)
    *_, result = compiled.run(x, lists, np.zeros((tile[0], 280), x.dtype), 5, 264, 280, checks="all")
    expected = np.zeros((tile[0], 280), x.dtype)
    for begin in range(0, 264, tile[1]):
        own, columns = lists[begin // tile[1] % 2], slice(begin, min(begin + tile[1], 264))
        exists = (own >= 0) & (own < 5)
        expected[exists, columns] = x[own[exists], columns]
    np.testing.assert_array_equal(result, expected)
    assert "lds" in compiled.assembly
    assert "ds_write" not in compiled.assembly


@pytest.mark.parametrize(("keys", "message"), [
    ({"dtype": "f16", "multiple": 1}, "4 bytes are not contiguous and aligned in memory"),
    ({"dtype": "f16", "tile": (32, 96)}, r"64 lanes with 2 elements each do not fill whole rows of \[32, 96\]"),
    ({"dtype": "f64"}, "4 bytes are not contiguous and aligned in memory"),
    ({"dtype": "f16", "tile": (2, 16)}, r"do not fill whole rows of \[2, 16\]"),
])  # fmt: skip
def test_windows_that_cannot_be_copied(keys: dict[str, object], message: str) -> None:
    """The reason and the way out."""
    with pytest.raises(PipelineFailure, match=message + ".*load it and use to_lds"):
        compile_copy("gfx942", **keys)  # type: ignore[arg-type]
