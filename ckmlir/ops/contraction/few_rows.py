"""Plans of products of few rows, where loads of B rather than the matrix cores decide."""

from __future__ import annotations

from collections.abc import Iterator

from ckmlir.ops.contraction.block_depths import VECTOR_BYTES
from ckmlir.ops.contraction.block_sizes import FOUR_WAVES, SMALL
from ckmlir.ops.contraction.low_blocks import BUFFERS, MOST_ROWS, LowBlocks, low_blocks
from ckmlir.ops.contraction.wishes import CACHE_LINE, NARROWEST_FOR_TWO_STEPS, Plan, Wish, bits_of, elements_in
from ckmlir.ops.scalars import ceil_div
from ckmlir.targets import Target

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
AHEAD = "mem3"
"""The schedule: three steps are on their way from memory, with one LDS buffer. By the model, cycles of the preferred
schedule and of this one: f16 64 x 8192 x 1536 on gfx90a 95635, 37356; 16 x 8192 x 1536 on gfx950 17066, 11309. Blocks
of 32 rows whose sums workgroups share are alone on a compute unit, where two buffers are better: 64 x 1024 x 8192 on
gfx90a 30595, 35500."""
ALONE, PRODUCTS_HIDE, SHORT_PRODUCTS = "v4", "compv3", 128
"""What waves with one tile of C take that are alone on their SIMDs, or share them with those of another part of K: such
a wave waits for LDS and matrix instructions in turns where reads are woven in between, as `AHEAD` has it. So all of a
step's reads come before its products, with four steps on their way; where the products of a step take so many cycles or
more, and there are one or two waves, reads are woven into these. By the model, cycles with `AHEAD`, `ALONE` and
`PRODUCTS_HIDE`: i8 16 x 384 x 1536 on gfx942 7279, 5759, 7179, on gfx950 7275, 5759, 7975, on gfx90a (512 cycles) 9035,
8571, 7023; f16 16 x 384 x 1024 on gfx942 8447, 6327, 9019, on gfx90a 9023, 7587, 7815. By four waves i8 16 x 4096 x
1536 takes 12287, 12067, 12539 on gfx90a. With several workgroups a compute unit f16 64 x 2048 x 2048 on gfx942 13737,
9173, 64 x 1024 x 1536 on gfx90a 12048, 10064; of parts of K 28 x 2048 x 2048 on gfx942 (16 x 64, four parts) 11520,
10462, 64 x 1024 x 4096 on gfx950 (32 x 32, eight parts, two workgroups a compute unit) 11818 with `compv4`, 10298; i8
16 x 384 x 3072 on gfx90a 8121, 7669, 7313."""
LONG_PRODUCTS, TWO_TILES, ROOM_FOR, AT_ONCE = 512, 2, 2, 4
"""Cycles of a step's products from which on these hide what else is done, as `PRODUCTS_HIDE` has it in blocks of so
many tiles, or two LDS buffers do, where LDS has room for those of all workgroups that a compute unit has, of two at
most. By the model, f32 in cycles of `ALONE` or `AHEAD` and of two buffers: 64 x 1024 x 4096 by 32 x 32 and 8 parts on
gfx950 19250, 16972; by 32 x 64 and 3 parts on gfx90a 46181, 31297, by 7, whose second buffers LDS cannot hold, 36101,
43086. Of at most so many steps `ALONE` has all on their way: 64 x 384 x 1536 by 32 x 32 and 8 parts on gfx950 9035,
10027."""
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

    Blocks are those of `_shapes` that take the least time with as many parts of K as pay, or as are asked for
    (`LowBlocks`). With at most 64 columns too there is one block (`_one_block`). Patches that are loaded four bytes
    at a time have blocks of 32 x 32, whose lanes have few loads; long sums of such or of transposed matrices blocks
    of 64 x 64 (`SQUARES`).
    """
    if not 0 < wish.m <= MOST_ROWS or wish.arrays > 2 or wish.waves or wish.schedule:
        return
    if wish.n <= MOST_ROWS:
        yield from _one_block(wish, target)
        return
    low = _best(wish, target)
    if _in_squares(wish, low, target):
        if wish.merged and wish.load_bytes == VECTOR_BYTES:
            deep = (SMALL, SMALL, elements_in(TWO_LINES[0], wish.dtype))
            yield from (Plan(name, deep, FOUR_WAVES) for name in schedules)
        return
    if wish.merged and wish.load_bytes == NARROWEST_FOR_TWO_STEPS and wish.layout[:2] == "CR":
        yield from _plans((HIGH, HIGH, elements_in(CACHE_LINE, wish.dtype)), schedules)
    yield from _plans(low, _schedules(wish, low, schedules, target))


def _one_block(wish: Wish, target: Target) -> Iterator[Plan]:
    """Of a product that is one block of C, if parts of K have few products to hide what they wait for. By the model,
    all kernels in cycles of `compv4` and of `ALONE`, f16: 64 x 64 x 65536 in CRR on gfx942 20418, 17420, on gfx950
    19367, 15253, in RCR 18590, 17536 and 19425, 15503; 32 x 48 x 20000 12275, 10953 and 15096, 13052. fp8 64 x 64 x
    131072 in RCR 18574, 17500 and 18117, 15967, but bytes across K, which take registers of their own, 20502, 20722 and
    20581, 22195.
    """
    shape = (SMALL, SMALL, elements_in(CACHE_LINE, wish.dtype))
    low = _low(wish, shape, target)
    products = low.products * ceil_div(low.tiles, target.simds)
    is_short = 0 < products < LONG_PRODUCTS and _is_wide(wish) and not wish.merged
    is_turned = bits_of(wish.dtype) == 8 and wish.layout[:2] != "RC"
    if is_short and not is_turned and (wish.parts or low.best_parts(target)) > 1:
        yield Plan(ALONE, shape, FOUR_WAVES)


def _in_squares(wish: Wish, low: tuple[int, int, int], target: Target) -> bool:
    """Whether blocks of 64 x 64 are better than low ones: see `SQUARES`."""
    steps = ceil_div(wish.k, elements_in(CACHE_LINE, wish.dtype)) * wish.blocks(SMALL)
    long = wish.m > LOW and steps >= SQUARES * target.compute_units
    return long and wish.layout[:2] == "CR" and (wish.merged or low[0] == LOW)


def _shapes(wish: Wish) -> Iterator[tuple[int, int, int]]:
    """Blocks that may be better than others."""
    depth = _depth(wish)
    yield from ((LOW, columns, depth) for columns in COLUMNS)
    if wish.m > HIGH:
        yield from ((HIGH, columns, depth) for columns in COLUMNS[1:])
        if _is_wide(wish):
            yield SMALL, SMALL, depth


def _best(wish: Wish, target: Target) -> tuple[int, int, int]:
    """The shape that takes the least time."""

    def cycles(shape: tuple[int, int, int]) -> float:
        low = _low(wish, shape, target)
        return low.cycles(wish.parts or low.best_parts(target), target)

    return min(_shapes(wish), key=cycles)


def _low(wish: Wish, block: tuple[int, int, int], target: Target) -> LowBlocks:
    lengths, held = (wish.m, wish.n, wish.k), (wish.dtype, bits_of(wish.dtype), wish.load_bytes)
    count = wish.batch * max(len(wish.products), 1)
    return low_blocks(lengths, count, block, held, target, merged=wish.merged)


def _is_wide(wish: Wish) -> bool:
    """Whether loads are wide, and sums those of all of K."""
    return not (wish.partial or wish.load_bytes < NARROWEST_FOR_TWO_STEPS or wish.compares_rows)


def _schedules(wish: Wish, block: tuple[int, int, int], schedules: tuple[str, ...], target: Target) -> tuple[str, ...]:
    """The schedules of a block, the best first: see `AHEAD`, `ALONE`, `PRODUCTS_HIDE` and `ROOM_FOR`."""
    low = _low(wish, block, target)
    parts = wish.parts or low.best_parts(target)
    own = low.workgroups(parts, target)
    ahead = schedules if wish.partial or wish.compares_rows else (AHEAD, *schedules)
    bytes_ = (block[0] + block[1]) * low.step_bytes
    roomy = min(own, ROOM_FOR) * BUFFERS * bytes_ <= target.lds_bytes
    if not _is_wide(wish) or low.tiles > target.simds or not low.products:
        return schedules if roomy and block[0] > LOW and low.products >= SHORT_PRODUCTS else ahead
    if low.products >= LONG_PRODUCTS:
        at_once = own == 1 and ceil_div(low.steps, parts) <= AT_ONCE
        alone = PRODUCTS_HIDE if low.tiles <= TWO_TILES else schedules[0] if roomy and not at_once else ALONE
    elif low.products > SHORT_PRODUCTS and own * low.tiles > target.simds:
        return ahead
    else:
        alone = ALONE
    return (alone, *ahead)


def _depth(wish: Wish) -> int:
    """How many elements along K a step has: two cache lines, or one."""
    if wish.compares_rows:
        return wish.compared_depth
    one = wish.load_bytes < NARROWEST_FOR_TWO_LINES or (bits_of(wish.dtype), wish.load_bytes) == EIGHT_LOADS
    return elements_in(TWO_LINES[one], wish.dtype)


def filled(blocks: int, target: Target) -> float:
    """The share of the compute units' rounds that so many blocks fill; of none that of one."""
    return max(blocks, 1) / (max(ceil_div(blocks, target.compute_units), 1) * target.compute_units)


def _plans(block: tuple[int, int, int], schedules: tuple[str, ...]) -> Iterator[Plan]:
    """A block under each schedule: 16 columns of 16 rows a wave, of more rows two by two."""
    waves = (1, block[1] // LOW) if block[0] == LOW else (2, min(block[1] // LOW, 2))
    return (Plan(name, block, waves) for name in dict.fromkeys(schedules))
