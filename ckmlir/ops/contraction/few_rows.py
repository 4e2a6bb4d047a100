"""Plans of products of few rows, where loads of B rather than the matrix cores decide."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from ckmlir.ops.contraction.parts import READS_FIRST, READS_FIRST_TO_SAVE, default_parts
from ckmlir.ops.contraction.wishes import NARROWEST_FOR_TWO_STEPS, Plan, Wish, bits_of, elements_in
from ckmlir.ops.operator import ceil_div
from ckmlir.targets import Target

MOST_ROWS = 64
"""Of C, and fewer than columns."""
LOW, HIGH = 16, 32
"""Rows of blocks: of the shortest matrix instructions; and of products that would read B more than twice."""
COLUMNS = (16, 32, 64)
"""Of blocks."""
DEPTHS = (256, 128)
"""Bytes along K: two cache lines, or one, so that more blocks fit into the LDS of a compute unit."""
NARROWEST_FOR_TWO_LINES = 2
"""Bytes of a load below which a step is one cache line: three steps of bytes that each take a register do not fit."""
AHEAD = "mem3"
"""The schedule: three steps are on their way from memory, with one LDS buffer. By the model, cycles of the preferred
schedule and of this one: f16 64 x 8192 x 1536 on gfx90a 95635, 37356; 16 x 8192 x 1536 on gfx950 17066, 11309. Blocks
of 32 rows whose sums workgroups share are alone on a compute unit, where two buffers are better: 64 x 1024 x 8192 on
gfx90a 30595, 35500."""
ALONE, PRODUCTS_HIDE, LONG_PRODUCTS, SHORT_PRODUCTS = READS_FIRST, "compv3", 512, 128
"""What blocks of one wave or two take that are one for a compute unit at most: a wave is alone on its SIMD then, and
waits for LDS and matrix instructions in turns where reads are woven in between, as `AHEAD` has it. So all of a step's
reads come before its products, with four steps on their way; where the products of a step take so many cycles or more,
reads are woven into these. By the model, cycles with `AHEAD`, `ALONE` and `PRODUCTS_HIDE`: i8 16 x 384 x 1536 on gfx942
7279, 5759, 7179, on gfx950 7275, 5759, 7975, on gfx90a (512 cycles) 9035, 8571, 7023; f16 16 x 384 x 1024 on gfx942
8447, 6327, 9019, on gfx90a 9023, 7587, 7815. By four waves i8 16 x 4096 x 1536 takes 12287, 12067, 12539 on gfx90a.
Where a step's products are short, parts of K have to save more."""
ONE_ROUND = 5 / 6
"""What a single round of blocks for half of the compute units or more is worth as a share of rounds that are full: it
keeps memory busy where B is read once. By the model f16 16 x 4096 x 4096 takes 46115 cycles on gfx90a with 64 blocks,
with 256 (.82 of three rounds) 55600; 16 x 8192 x 1536 takes 16750 on gfx942 with 256 blocks, with 512 (.84 of two)
15089; 28 x 2048 x 2048, whose B is read twice, 19127 on gfx90a with 64, 14765 with 256."""
STEPS_TO_SAVE = 17
"""Steps of 128 bytes that parts of K save at least: small blocks that have all of K fill the chip too. By the model,
cycles of two parts and of these: 64 x 4096 x 4096 in fp8 (16 saved) on gfx942 16963, 13873, 28 x 4096 x 4096 in i8
15088, 14045; 64 x 1536 x 4096 in f16 (32 saved) on gfx90a 23936, 26208."""
PARTS_TO_SPARE = 8
"""Parts of K, of which half as many of blocks half as wide are better for products of 16 rows, if that leaves so many
and no fewer workgroups: partial sums are fewer. By the model on gfx950, cycles with other blocks and parts, and with
the choice: f16 16 x 1024 x 8192 13590 (32 columns, 16 parts), 12611; 16 x 512 x 8192 13610 (the same), 12103; fp8 1 x
1024 x 8192 12426 (64 columns, 16 parts), 9778; on gfx942, i8 16 x 1024 x 8192 12758 (64 columns, 16 parts), 11805. With
fewer parts on gfx950: f16 28 x 4096 x 4096 16242, 30361. With fewer workgroups on gfx942 (288 for 304): f16 28 x 512 x
8192 13889, 14556."""


def few_rows(wish: Wish, schedules: tuple[str, ...], target: Target) -> Iterator[Plan]:
    """Plans of a product of at most 64 rows, the best first; none for others, or where schedule or waves are named.

    Where parts of K pay, there are as many as blocks of 64 columns have, and blocks are as narrow as leaves so many, or
    `PARTS_TO_SPARE` of them and as many workgroups.
    Else each has all of K. Then as few compute units as possible idle in the last round; of such blocks those are
    taken that are most, as far as LDS holds all of a compute unit's; waves alone on their SIMDs have `ALONE`.
    """
    if not 0 < wish.m <= MOST_ROWS or wish.n <= MOST_ROWS or wish.arrays > 2 or wish.waves or wish.schedule:
        return
    ahead = schedules if wish.partial or wish.compares_rows else (AHEAD, *schedules)
    own = _own_sums(wish, target)
    cycles = _alone(wish, own, target)
    shared = _shared(wish, target, READS_FIRST_TO_SAVE if 0 < cycles <= SHORT_PRODUCTS else STEPS_TO_SAVE)
    if shared is not None:
        yield from _plans(shared, ahead if shared[0] == LOW else schedules)
        return
    alone = (PRODUCTS_HIDE if cycles >= LONG_PRODUCTS else ALONE,) if cycles else ()
    yield from _plans(own, (*alone, *ahead))


def _own_sums(wish: Wish, target: Target) -> tuple[int, int, int]:
    """The block that has all of K."""
    able = [
        (rows, columns, depth)
        for rows, columns in itertools.product((LOW, HIGH) if wish.m > HIGH else (LOW,), COLUMNS)
        for depth in _depths(wish)
        if ceil_div(_blocks(wish, rows, columns), target.compute_units) * (rows + columns) * depth * bits_of(wish.dtype)
        <= target.lds_bytes * 8
    ]
    return max(
        able or [(_rows(wish), COLUMNS[-1], _depths(wish)[-1])],
        key=lambda one: (_worth(wish, one[0], one[1], target), _blocks(wish, one[0], one[1]), one[2]),
    )


def _alone(wish: Wish, block: tuple[int, int, int], target: Target) -> float:
    """Cycles of the matrix instructions of a step, where waves of such blocks are alone on their SIMDs; else 0."""
    rows, columns, depth = block
    narrow = wish.partial or wish.load_bytes < NARROWEST_FOR_TWO_STEPS or wish.compares_rows
    able = target.mfmas(wish.dtype)
    if narrow or not able or columns > 2 * LOW or _blocks(wish, rows, columns) > target.compute_units:
        return 0
    return 2 * LOW * LOW * depth * target.simds / target.mfma_rate(able[0])


def _shared(wish: Wish, target: Target, to_save: int) -> tuple[int, int, int] | None:
    """The block where workgroups share its sums; None where that does not pay, by so many steps of 128 bytes."""
    rows, depth = _rows(wish), _depths(wish)[0]
    steps, bytes_ = ceil_div(wish.k, depth), depth * bits_of(wish.dtype) // 8
    blocks = {one: _blocks(wish, rows, one) for one in COLUMNS}
    parts = {one: default_parts((rows, one), blocks[one], steps, target, bytes_) for one in COLUMNS}
    most = parts[COLUMNS[-1]]
    if (steps - ceil_div(steps, most)) * bytes_ < to_save * 128:
        return None

    def pays(columns: int) -> bool:
        as_many = blocks[columns] * parts[columns] >= blocks[COLUMNS[-1]] * most
        return parts[columns] == most or (wish.m <= LOW and as_many and parts[columns] >= PARTS_TO_SPARE)

    return rows, next(filter(pays, COLUMNS)), depth


def _depths(wish: Wish) -> list[int]:
    """How many elements along K a step may have."""
    lines = DEPTHS if wish.load_bytes >= NARROWEST_FOR_TWO_LINES else DEPTHS[1:]
    return [wish.compared_depth] if wish.compares_rows else [elements_in(bytes_, wish.dtype) for bytes_ in lines]


def _rows(wish: Wish) -> int:
    return LOW if wish.m <= HIGH else HIGH


def filled(blocks: int, target: Target) -> float:
    """The share of the compute units' rounds that so many blocks fill; of none that of one."""
    return max(blocks, 1) / (max(ceil_div(blocks, target.compute_units), 1) * target.compute_units)


def _worth(wish: Wish, rows: int, columns: int, target: Target) -> float:
    """How busy blocks keep memory, as a share of full rounds."""
    blocks = _blocks(wish, rows, columns)
    once = wish.m <= rows and target.compute_units // 2 <= blocks <= target.compute_units
    return max(filled(blocks, target), ONE_ROUND if once else 0.0)


def _blocks(wish: Wish, rows: int, columns: int) -> int:
    return ceil_div(wish.m, rows) * ceil_div(wish.n, columns) * wish.batch


def _plans(block: tuple[int, int, int], schedules: tuple[str, ...]) -> Iterator[Plan]:
    """A block under each schedule: 16 columns of 16 rows a wave, of 32 rows two by two."""
    waves = (1, block[1] // LOW) if block[0] == LOW else (2, min(block[1] // LOW, 2))
    return (Plan(name, block, waves) for name in schedules)
