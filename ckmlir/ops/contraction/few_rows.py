"""Plans of products of few rows, where loads of B rather than the matrix cores decide."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from ckmlir.ops.contraction.block_depths import VECTOR_BYTES
from ckmlir.ops.contraction.block_sizes import FOUR_WAVES, SMALL
from ckmlir.ops.contraction.parts import (
    LEAST_PRODUCTS,
    LONG_PRODUCTS,
    are_by_steps,
    cycles_in_parts,
    cycles_of_sums,
    default_parts,
    tile_cycles,
)
from ckmlir.ops.contraction.wishes import CACHE_LINE, NARROWEST_FOR_TWO_STEPS, Plan, Wish, bits_of, elements_in
from ckmlir.ops.scalars import ceil_div
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
LOADED = 12
"""Bytes of B that a compute unit has from memory in a cycle, at most."""
ONE_ROUND, ONE_LONG_ROUND, LONG_SUM = 5 / 6, 9 / 10, 8 << 10
"""What a single round of blocks for half of the compute units or more is worth as a share of rounds that are full: it
keeps memory busy where B is read once. By the model f16 16 x 4096 x 4096 takes 46115 cycles on gfx90a with 64 blocks,
with 256 (.82 of three rounds) 55600; 16 x 8192 x 1536 takes 16750 on gfx942 with 256 blocks, with 512 (.84 of two)
15089; 28 x 2048 x 2048, whose B is read twice, 19127 on gfx90a with 64, 14765 with 256. More where sums are so many
bytes long: 16 x 8192 x 4096 takes 36798 on gfx942 with 256, 39203 with 512, 16 x 8192 x 8192 69286, 77785."""
STEPS_TO_SAVE, SAME_BLOCK_TO_SAVE, SHORT_TO_SAVE = 17, 24, 32
"""Steps of 128 bytes that parts of K save at least: small blocks that have all of K fill the chip too. By the model,
cycles of two parts and of these: 64 x 4096 x 4096 in fp8 (16 saved) on gfx942 16963, 13873, 28 x 4096 x 4096 in i8
15088, 14045; 64 x 1536 x 4096 in f16 (32 saved) on gfx90a 23936, 26208. More where these are `ALONE`, which goes
through many steps as soon as others write and add parts: most of all where products are short and parts have other
blocks, and not at all where these are more than compute units and parts are not blocks of 16 x 16 or 32 x 32. Cycles of
parts and of these, f16 on gfx942: 16 x 384 x 1536 (22 saved) 7603, 7623; 16 x 2048 x 2048 (24 saved) 10087, 9331; with
the same block 16 x 1024 x 2048 (24 saved) 7760, 8919; 28 x 4096 x 4096 (two parts of 16 x 64, 32 saved) 22513, 20015;
on gfx950 (four parts, 48 saved) 16242, 13993, 64 x 2048 x 4096 (four parts of 32 x 32) 12242, 13933. On gfx90a, where
these are more than compute units, 64 x 1024 x 2048 (20 saved) 13683, 12060, and fewer 16 x 384 x 1536 (18 saved) 6877,
9583."""
PARTS_TO_SPARE = 3
"""Parts of K, of which half as many of blocks half as wide are better, if that leaves so many and no fewer workgroups:
partial sums are fewer. Of products of more than 16 rows that is blocks of 16 x 16 and 32 x 32. By the model, f16 in
cycles with other blocks and parts, and with the choice: on gfx950 16 x 1024 x 8192 13590 (32 columns, 16 parts), 12611;
on gfx942 16 x 1024 x 4096 11118 (64 columns, 8 parts), 9820; 28 x 384 x 4096 10565 (the same, 16), 8912; 64 x 1024 x
4096 12409 (the same, 9), 11934; on gfx90a 16 x 384 x 1536 7980 (the same, 6), 6877; 64 x 384 x 1536 9120 (the same),
8012; on gfx950 64 x 1024 x 4096 12125 (32 x 16, 4 parts), 10298. With blocks of 16 x 32 28 x 384 x 4096 on gfx90a 10937
(64 columns, 9 parts), 12270 (4). With fewer parts on gfx950 28 x 4096 x 4096 16242, 30361."""

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

    Where parts of K pay, there are as many as blocks of 64 columns have, and blocks are as small as leaves so many, or
    `PARTS_TO_SPARE` of them and as many workgroups.
    Patches that are loaded four bytes at a time have blocks of 32 x 32, whose lanes have few loads; long sums none of
    these plans (`SQUARES`). Else each has all of K. Then as few compute units as possible idle in the last round; of
    such blocks those are taken that are most, as far as LDS holds all of a compute unit's. Waves alone on their SIMDs
    have `ALONE`.
    """
    if not 0 < wish.m <= MOST_ROWS or wish.n <= MOST_ROWS or wish.arrays > 2 or wish.waves or wish.schedule:
        return
    ahead = schedules if wish.partial or wish.compares_rows else (AHEAD, *schedules)
    own = _own_sums(wish, target)
    shared = _shared(wish, own, target)
    if _in_squares(wish, shared or own, target):
        if wish.merged and wish.load_bytes == VECTOR_BYTES:
            deep = (SMALL, SMALL, elements_in(DEPTHS[0], wish.dtype))
            yield from (Plan(name, deep, FOUR_WAVES) for name in schedules)
        return
    if wish.merged and wish.load_bytes == NARROWEST_FOR_TWO_STEPS and wish.layout[:2] == "CR":
        yield from _plans((HIGH, HIGH, elements_in(CACHE_LINE, wish.dtype)), schedules)
    if shared is not None:
        first = _for_one_tile(_products(wish, shared, target), shared)
        yield from _plans(shared, (*first, *(ahead if shared[0] == LOW else schedules)))
    else:
        yield from _plans(own, (*_for_one_tile(_alone(wish, own, target), own), *ahead), whole=True)


def _in_squares(wish: Wish, low: tuple[int, int, int], target: Target) -> bool:
    """Whether blocks of 64 x 64 are better than low ones: see `SQUARES`."""
    steps = ceil_div(wish.k, elements_in(CACHE_LINE, wish.dtype)) * wish.blocks(SMALL)
    long = wish.m > LOW and steps >= SQUARES * target.compute_units
    return long and wish.layout[:2] == "CR" and (wish.merged or low[0] == LOW)


def _for_one_tile(cycles: float, block: tuple[int, int, int]) -> tuple[str, ...]:
    """The schedule of waves that have one tile of C and are alone, whose products take so many cycles; none for 0."""
    if cycles < LONG_PRODUCTS:
        return (ALONE,) if cycles else ()
    return (PRODUCTS_HIDE,) if block[0] * block[1] <= 2 * LOW * LOW else ()


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


def _products(wish: Wish, block: tuple[int, int, int], target: Target) -> float:
    """Cycles of the matrix instructions of a step, where each wave has a tile of C and loads are wide; else 0."""
    rows, columns, depth = block
    narrow = wish.partial or wish.load_bytes < NARROWEST_FOR_TWO_STEPS or wish.compares_rows
    return 0 if narrow or rows * columns > target.simds * LOW**2 else tile_cycles(wish.dtype, depth, target)


def _alone(wish: Wish, block: tuple[int, int, int], target: Target) -> float:
    """The same, where waves of such blocks with all of K are alone on their SIMDs; else 0."""
    rows, columns, _ = block
    waves = _blocks(wish, rows, columns) * (rows * columns // LOW**2)
    return _products(wish, block, target) if waves <= target.compute_units * target.simds else 0


def _shared(wish: Wish, own: tuple[int, int, int], target: Target) -> tuple[int, int, int] | None:
    """The block whose sums workgroups share; None where that does not pay beside blocks that have all of K."""
    rows, depth = _rows(wish), _depths(wish)[0]
    steps, bytes_ = ceil_div(wish.k, depth), depth * bits_of(wish.dtype) // 8
    shapes = tuple(dict.fromkeys(((LOW, LOW), *((rows, columns) for columns in COLUMNS))))
    blocks = {one: _blocks(wish, *one) for one in shapes}
    cycles = tile_cycles(wish.dtype, depth, target)
    by_steps = are_by_steps(wish.dtype, cycles)
    parts = {
        one: default_parts(one, blocks[one], steps, target, bytes_, by_steps=by_steps, cycles=cycles) for one in shapes
    }
    widest = shapes[-1]

    def two_a_unit(one: tuple[int, int]) -> bool:
        """Whether waves multiply that would be alone on their compute units, at the same time as others, and B is read
        twice at most: i8 64 x 384 x 4096 on gfx90a takes 10549 cycles so, 9502 in blocks of 32 x 32.
        """
        long = one == (LOW, LOW) and cycles > LEAST_PRODUCTS and wish.m <= HIGH
        return long and parts[one] > 1 and blocks[one] * parts[one] > target.compute_units

    def pays(one: tuple[int, int]) -> bool:
        many = parts[one] >= PARTS_TO_SPARE or two_a_unit(one)
        spared = many and blocks[one] * parts[one] >= blocks[widest] * parts[widest]
        square = one[0] == one[1]
        return (spared and (square or wish.m <= LOW)) or (parts[one] == parts[widest] and one[0] == rows)

    def in_parts(one: tuple[int, int]) -> float:
        """About how long a shape takes; memory bounds how short steps are."""
        memory = wish.k * wish.n * bits_of(wish.dtype) / 8 / (LOADED * target.compute_units)
        in_steps = cycles_in_parts(steps, parts[one], one[0] * one[1] // LOW**2, cycles, target)
        return max(in_steps, memory + cycles_of_sums(parts[one], target))

    best = min(shapes, key=in_parts) if by_steps else next(filter(pays, shapes))
    saved, block = (steps - ceil_div(steps, parts[best])) * bytes_, (*best, depth)
    least = 0 if two_a_unit(best) else _to_save(wish, own, block, target)
    return block if least is not None and saved >= least * 128 else None


def _to_save(wish: Wish, own: tuple[int, int, int], shared: tuple[int, int, int], target: Target) -> int | None:
    """Steps of 128 bytes that parts of K have to save beside blocks that have all of it; None: no number is enough."""
    cycles, full = _alone(wish, own, target), _blocks(wish, *own[:2]) > target.compute_units
    if not 0 < cycles < LONG_PRODUCTS:
        return STEPS_TO_SAVE
    if cycles > SHORT_PRODUCTS:
        return SAME_BLOCK_TO_SAVE if full else STEPS_TO_SAVE
    if full and shared[0] != shared[1]:
        return None
    return SAME_BLOCK_TO_SAVE if own == shared else SHORT_TO_SAVE


def _depths(wish: Wish) -> list[int]:
    """How many elements along K a step may have."""
    one = wish.load_bytes < NARROWEST_FOR_TWO_LINES or (bits_of(wish.dtype), wish.load_bytes) == EIGHT_LOADS
    lines = DEPTHS[1:] if one else DEPTHS
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
    long = wish.k * bits_of(wish.dtype) >= 8 * LONG_SUM
    return max(filled(blocks, target), (ONE_LONG_ROUND if long else ONE_ROUND) if once else 0.0)


def _blocks(wish: Wish, rows: int, columns: int) -> int:
    return ceil_div(wish.m, rows) * ceil_div(wish.n, columns) * wish.batch


def _plans(block: tuple[int, int, int], schedules: tuple[str, ...], *, whole: bool = False) -> Iterator[Plan]:
    """A block under each schedule: 16 columns of 16 rows a wave, of 32 rows two by two."""
    waves = (1, block[1] // LOW) if block[0] == LOW else (2, min(block[1] // LOW, 2))
    return (Plan(name, block, waves, whole=whole) for name in schedules)
