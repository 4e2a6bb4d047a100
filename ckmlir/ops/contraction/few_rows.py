"""Plans of products of few rows, where loads of B rather than the matrix cores decide."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator

from ckmlir.ops.contraction.block_sizes import CACHE_LINE, FOUR_WAVES, SMALL
from ckmlir.ops.contraction.low_blocks import LOOPS, MOST_ROWS, LowBlocks, low_blocks, waves_of
from ckmlir.ops.contraction.wishes import NARROWEST_FOR_TWO_STEPS, Plan, Wish, bits_of, elements_in
from ckmlir.ops.scalars import ceil_div
from ckmlir.targets import Target
from ckmlir.targets.cdna import ACCESS_BYTES

Low = tuple[tuple[int, int, int], str]
"""A block and the name of its schedule."""
LOW, HIGH = 16, 32
"""Rows of blocks: of the shortest matrix instructions; and of products that would read B more than twice."""
COLUMNS = (16, 32, 64)
"""Of blocks."""
TWO_LINES = (2 * CACHE_LINE, CACHE_LINE)
"""Bytes along K: two cache lines, or one where two take too many loads."""
NARROWEST_FOR_TWO_LINES = 2
"""Bytes of a load below which a step is one cache line: three steps of bytes that each take a register do not fit."""
EIGHT_LOADS = (16, 8)
"""Bits of an element, and bytes of a load, with which a step is one cache line too: two lines of a tile of 16 rows are
eight loads of a wave, whose distances scalar registers keep (`global_access.MOST_DISTANCES`), and with four steps on
their way 64 x 1024 x 1020 in f16 leaves two of these in lanes on gfx942. One line takes 7661 cycles by the model, 7093
with two, 9573 with two by schedules that spill none."""
AHEAD, ALONE = "mem3", "v4"
"""Beside the schedules given, that of narrow loads, which has three steps on their way from memory, and that of one
block, which has four."""
MOST_TO_HAVE_ALONE = 32 * 32
"""Elements of C of a block of merged dimensions up to which it may have `ALONE`: scalar registers have no room for the
conditions of four steps on their way. On gfx950 the gradient of images in blocks of 64 x 64 x 64, with 160 channels of
f16, keeps five in lanes of vector registers, that of weights in 32 x 64 x 128, with 72 channels of i8, one. Nor have
they for those of weights and their scales where K ends within a step: `gemm_fp4` of 16 x 2880 x 2880 in bf16 keeps
seven. By the model it takes 4.88 us, 4.79 with `compv4`; 1 x 5760 x 2880 7.02, 6.44; 32 x 64 x 2880 3.71, 3.89."""
SQUARES = 5
"""Steps of 64 x 64 for each compute unit, from which on these are better where both A and B are transposed: low blocks
load 32 bytes of a row of A, and of patches find as many places in the images for a fraction of the products. That is
with more than 16 rows; of plain matrices where low blocks have 16 rows. By the model, in us of low blocks and of these
(f16 if nothing else is said): gradient of weights, 32 images of 28 x 28, 64 channels to 32 by 3 x 3, on gfx942 24.5,
12.2 (f32 53.9, 20.2; fp8 18.3, 9.9), gfx950 21.1, 13.0; 56 x 56, 64 to 64, 41.1, 31.1, gfx950 36.7, 34.3, gfx90a
123.8, 75.2; with 2.9 steps, 8 images of 28 x 28, 64 to 64, gfx942 6.8, 8.2; to 16 channels, 56 x 56, 16.0, 28.8.
Patches in full vectors have steps of two cache lines: 11.3, 9.4 on gfx950; 24.7, 21.2, 67.1; with pairs of channels, 34
to 48, 28.6 instead of 21.8 with one. Products 64 x 4096 x 4096 on gfx942 41.0, 13.7, gfx950 16.5, 10.0; with blocks of
32 rows 64 x 256 x 100352 on gfx942 21.3, 24.9, 64 x 1024 x 25088 17.8, 18.3."""


def few_rows(wish: Wish, schedules: tuple[str, ...], target: Target) -> Iterator[Plan]:
    """Plans of a product of at most 64 rows, the best first; none for others, or where schedule or waves are named.

    Blocks and schedules are those that take the least time with as many parts of K as pay, or as are asked for
    (`LowBlocks`). With at most 64 columns too there is one block (`_one_block`). Patches that are loaded four bytes
    at a time have blocks of 32 x 32, whose lanes have few loads; long sums of such or of transposed matrices blocks
    of 64 x 64 (`SQUARES`).
    """
    if not 0 < wish.m <= MOST_ROWS or wish.elements_decide or wish.waves or wish.schedule:
        return
    if wish.n <= MOST_ROWS and wish.arrays == 2:
        yield from _one_block(wish, schedules, target)
        return
    pairs = candidates(wish, _shapes(wish), schedules)
    low, *others = sorted(pairs, key=lambda pair: cycles_of(wish, pair[0], pair[1], target))
    if _in_squares(wish, low[0], target):
        if wish.merged and wish.load_bytes == ACCESS_BYTES:
            deep = (SMALL, SMALL, elements_in(TWO_LINES[0], wish.dtype))
            yield from (Plan(name, deep, FOUR_WAVES) for name in schedules)
        return
    if wish.merged and wish.load_bytes == NARROWEST_FOR_TWO_STEPS and wish.layout[:2] == "CR":
        yield from (low_plan((HIGH, HIGH, elements_in(CACHE_LINE, wish.dtype)), name) for name in schedules)
    yield from (low_plan(*pair) for pair in (low, *others))


def _one_block(wish: Wish, schedules: tuple[str, ...], target: Target) -> Iterator[Plan]:
    """Of a product that is one block of C, in parts of K. Bytes across K take registers of their own: by the model, all
    kernels in cycles of `compv4` and of `v4`, fp8 64 x 64 x 131072 in CRR on gfx942 20502, 20722, on gfx950 20581,
    22195.
    """
    shape = (SMALL, SMALL, elements_in(CACHE_LINE, wish.dtype))
    name = min((schedules[0], ALONE), key=lambda name: cycles_of(wish, shape, name, target))
    if _is_wide(wish) and not wish.merged and not _is_turned(wish) and _parts(wish, shape, name, target) > 1:
        yield Plan(name, shape, FOUR_WAVES)


def _in_squares(wish: Wish, low: tuple[int, int, int], target: Target) -> bool:
    """Whether blocks of 64 x 64 are better than low ones: see `SQUARES`."""
    steps = ceil_div(wish.k, elements_in(CACHE_LINE, wish.dtype)) * wish.blocks(SMALL)
    long = wish.m > LOW and steps >= SQUARES * target.compute_units
    return long and wish.layout[:2] == "CR" and (wish.merged or low[0] == LOW)


def _shapes(wish: Wish) -> Iterator[tuple[int, int, int]]:
    """Blocks that may be better than others."""
    depth = depth_of_low(wish)
    yield from ((LOW, columns, depth) for columns in COLUMNS)
    if wish.m > HIGH:
        yield from ((HIGH, columns, depth) for columns in COLUMNS[1:])
        if _is_wide(wish):
            yield SMALL, SMALL, depth


def cycles_of(wish: Wish, shape: tuple[int, int, int], schedule: str, target: Target) -> float:
    """How long a block and a schedule take, about."""
    return _low(wish, shape, target).cycles(schedule, _parts(wish, shape, schedule, target), target)


def _parts(wish: Wish, shape: tuple[int, int, int], schedule: str, target: Target) -> int:
    """Parts of K that are asked for, or pay."""
    return wish.parts or _low(wish, shape, target).best_parts(schedule, target)


def _low(wish: Wish, block: tuple[int, int, int], target: Target) -> LowBlocks:
    lengths, held = (wish.m, wish.n, wish.k), (wish.dtype, bits_of(wish.dtype), wish.load_bytes)
    count = wish.batch * max(len(wish.products), 1)
    return low_blocks(
        lengths, count, block, held, target, merged=wish.merged, layout=wish.layout, factors=wish.factors,
        idle=wish.idle, weight_bits=wish.weight_bits,
    )  # fmt: skip


def _is_wide(wish: Wish) -> bool:
    """Whether loads are wide, and sums those of all of K."""
    return not (wish.partial or wish.load_bytes < NARROWEST_FOR_TWO_STEPS or wish.compares_rows)


def able_schedules(wish: Wish, schedules: tuple[str, ...]) -> tuple[str, ...]:
    """Among which is chosen: of wide loads, all whose loops are known. Narrow loads of bytes across K wait for memory:
    by the model on gfx942, in cycles of `AHEAD` and of `compv3`, 17 x 1536 x 1536 in CCR of i8 11692, 14284, 33 x 5000
    x 1536 of fp8 12089, 15804; along K 28 x 1024 x 4093 11274, 9436.
    """
    if wish.partial or wish.compares_rows:
        return schedules
    if _is_turned(wish) and not _is_wide(wish):
        return (AHEAD,)
    known = LOOPS if _is_wide(wish) else (AHEAD,)
    return tuple(dict.fromkeys((*known, *schedules)))


def candidates(wish: Wish, shapes: Iterable[tuple[int, int, int]], schedules: tuple[str, ...]) -> Iterator[Low]:
    """Blocks with each schedule that they may have: see `MOST_TO_HAVE_ALONE`."""
    for shape, name in itertools.product(shapes, able_schedules(wish, schedules)):
        if name != ALONE or _has_room_alone(wish, shape):
            yield shape, name


def _has_room_alone(wish: Wish, shape: tuple[int, int, int]) -> bool:
    """Whether scalar registers keep the conditions of four steps on their way: see `MOST_TO_HAVE_ALONE`."""
    if wish.weights and wish.k % shape[2]:
        return False
    return not wish.merged or shape[0] * shape[1] <= MOST_TO_HAVE_ALONE


def _is_turned(wish: Wish) -> bool:
    """Whether bytes lie across K, which take registers of their own."""
    return bits_of(wish.dtype) == 8 and wish.layout[:2] != "RC"


def depth_of_low(wish: Wish) -> int:
    """How many elements along K a step has: two cache lines, or one."""
    if wish.compares_rows:
        return wish.compared_depth
    one = wish.load_bytes < NARROWEST_FOR_TWO_LINES or (bits_of(wish.dtype), wish.load_bytes) == EIGHT_LOADS
    return elements_in(TWO_LINES[one], wish.dtype)


def filled(blocks: int, target: Target) -> float:
    """The share of the compute units' rounds that so many blocks fill; of none that of one."""
    return max(blocks, 1) / (max(ceil_div(blocks, target.compute_units), 1) * target.compute_units)


def low_plan(block: tuple[int, int, int], schedule: str) -> Plan:
    """A block under a schedule, with the waves of such blocks."""
    return Plan(schedule, block, waves_of(block[0], block[1]))
