"""About how long blocks of few tiles take for a product of few rows, or few blocks, by which these, schedules and parts
of K are chosen.

One estimate for all types. A compute unit takes the workgroups that it has at a time as long as the longest of three:
its steps one after the other, each of which multiplies and waits; their products on its SIMDs; and what passes through
its L1 cache and LDS. All compute units together wait for memory. These overlap in part, so that the sum is that of a
norm. Parts of K take a second kernel, which reads sums of all parts.

The numbers were fitted to 5,879 kernels of 216 products by the model of time, with all workgroups of a compute unit
simulated together: f16, f32, fp8 and i8, m of 1, 16, 28 and 64, n x k of 384x1536, 1024x4096, 1024x8192, 2048x2048,
4096x4096 and 8192x1536, on three chips. It is wrong by 8 % (root mean square). Of products of more rows, from which
only `L2_REACHED` and `LATER` are, it is wrong by 13 %. benchmarks/results/few_rows.md has how good its choices are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from ckmlir.ops.contraction.block_sizes import MEDIUM
from ckmlir.ops.dtypes import HALF_BYTES, find_dtype
from ckmlir.ops.scalars import ceil_div
from ckmlir.targets import Target

if TYPE_CHECKING:  # plain products load quickly without
    from ckmlir.ops.contraction.sources import Source


class Loop(Struct, frozen=True):
    """What the loop of a schedule makes of a step.

    Attributes:
        buffers: of LDS, for a workgroup.
        one, several: cycles that a step takes beside its products, of a workgroup of one wave, and of several waves,
            which wait for each other.
        woven: whether LDS is read between products, so that a step lasts `READS` at least.
        least: steps that are gone through at least, since loads are so far ahead.
        reached: the share of the matrix cores' rate that several workgroups on a SIMD reach together.
    """

    buffers: int
    one: int
    several: int
    woven: bool
    least: int
    reached: float


LOOPS = {
    "compv4": Loop(2, 280, 380, woven=True, least=1, reached=1.0),
    "compv3": Loop(1, 130, 290, woven=True, least=1, reached=1.0),
    "mem3": Loop(1, 440, 610, woven=False, least=2, reached=0.78),
    "v4": Loop(1, 280, 430, woven=False, least=2, reached=0.71),
}
"""By name of the schedule. Others are taken for the first."""
READS = 550
"""Cycles that a step lasts at least, beside its waits, where reads of LDS and what else is done alternate."""
TILE = 16
"""Rows and columns that one wave has at least."""
MOST_ROWS, MOST_TILES = 64, 16
"""Of C, and of a block, up to which the estimate holds."""
BEGIN = 3240
"""Cycles from the launch until the first products, and from the last until all is stored."""
WRITTEN = 213
"""Bytes of a step that are written to LDS in a cycle where its one buffer makes reads wait for that."""
DWORD, NARROW = 4, 15
"""Bytes of a load below which each takes so many cycles of a step more: they are packed, and compared one by one."""
CONVERTED = 8
"""Cycles of a wave for an element of a lane that becomes another type: two instructions."""
NEAR = 36.5
"""Bytes of A and B that a compute unit moves to LDS and from there in a cycle."""
L2_REACHED, LATER = 0.72, 3000
"""Of products of more rows: what is reached of the peak of the L2 caches, from which rows of blocks read B again (as by
the model: te42kyfo/gpu-benches, gpu-l2-cache/mi210.txt); and cycles of workgroups that come when others have ended,
until their first products and until all is stored."""
REACHED = 0.81
"""What is reached of memory's peak, of which each compute unit that has a workgroup has its share, whether it needs
that or not."""
MOST_WAVES = 8
"""Of the workgroups that a compute unit has at a time."""
SECOND, AT_ONCE, AGAIN, PART_CYCLES = 850, 8, 320, 16_500
"""Of parts: cycles of the second kernel, how many it loads at once, cycles where there are more, and those of all
compute units for each part; sums are written and read at memory's peak."""
OVERLAP = 4.6
"""The norm of what overlaps in part."""
SAVED = 16 * 128
"""Bytes along K of the steps that parts have to save: the time between two kernels, which the model leaves out, is
assumed to cost less than these."""
MOST_PARTS, SUM_BYTES = 256, 4
"""Parts at most; bytes of a partial sum. Few blocks of long sums take as many as there are compute units, or twice: by
the model on gfx942 the gradient of the weights of 32 images of 224 x 224, 3 to 64 channels by 7 x 7 with strides, which
is three blocks of sums over 401408, takes 38.6 us with 200 parts and 185.2 with 32, a product of 64 x 64 x 65536 8.9
and 16.7.
"""
ONE_BY_ONE, APART = 32, 8
"""Numbers of parts up to which each is looked at, and beyond which those so far apart are."""


class LowBlocks(Struct, frozen=True):
    """Blocks of a product of few rows.

    Attributes:
        rows, columns: of a block.
        steps: of the loop that has all of K.
        step_bytes: along K.
        blocks: of C, in all batches.
        products: cycles of the matrix instructions of a step for one tile.
        load_bytes: of a lane's loads of A and B.
        matrices: bytes of A and B.
        sums: elements of C.
        few: whether C has few rows.
        idle: more blocks in the launch, which have nothing to sum.
        converted: elements of B of a step that become another type on their way to LDS.
    """

    rows: int
    columns: int
    steps: int
    step_bytes: int
    blocks: int
    products: float
    load_bytes: int
    matrices: int
    sums: int
    few: bool = True
    idle: int = 0
    converted: int = 0

    @property
    def tiles(self) -> int:
        """Of 16 x 16, in a block."""
        return max(self.rows * self.columns // TILE**2, 1)

    def workgroups(self, parts: int, target: Target) -> int:
        """Of a compute unit, which has most."""
        return ceil_div(max(self.blocks, 1) * parts, target.compute_units)

    def cycles(self, schedule: str, parts: int, target: Target) -> float:
        """Of all kernels, without the time between them."""
        loop = LOOPS.get(schedule) or next(iter(LOOPS.values()))
        steps, own = max(ceil_div(self.steps, parts), loop.least), self.workgroups(parts, target)
        each = (self.rows + self.columns) * self.step_bytes
        waves = min(self.tiles, target.simds)
        held = max(min(target.lds_bytes // (loop.buffers * each), MOST_WAVES // waves), 1)
        rounds = ceil_div(own, held)
        launched = ceil_div((max(self.blocks, 1) + self.idle) * parts, target.compute_units)
        idle = ceil_div(launched, held) - rounds
        chain = rounds * steps * self._step(loop, each, waves, target) + idle * LATER
        multiplied = steps * self.products * ceil_div(own * self.tiles, target.simds) / loop.reached
        multiplied += steps * own * CONVERTED * self.converted / (target.wave_size * target.simds)
        near = own * steps * each / NEAR
        workgroups = max(self.blocks, 1) * parts
        share = own * min(workgroups, target.compute_units) / workgroups  # as if all units had as many
        far = self.matrices * share / (REACHED * target.memory_bytes)
        again = 0.0
        if not self.few:
            chain += (rounds - 1) * LATER
            again = workgroups * share * steps * each / (L2_REACHED * target.l2_bytes)
        found = BEGIN + _norm(max(chain, multiplied), near, far, again)
        if parts == 1:
            return found
        sums = 2 * self.sums * SUM_BYTES / target.memory_bytes
        second = SECOND + AGAIN * (parts > AT_ONCE)
        return found + second + parts * (PART_CYCLES / target.compute_units + sums)

    def _step(self, loop: Loop, each: int, waves: int, target: Target) -> float:
        """Cycles of one step of a workgroup that is alone, of so many bytes."""
        wait: float = loop.several if waves > 1 else loop.one
        if loop.buffers == 1:
            wait += each / WRITTEN
        busy = self.products * ceil_div(self.tiles, target.simds)
        if self.load_bytes < DWORD:
            busy += NARROW * each // (waves * target.wave_size * self.load_bytes)
        busy += CONVERTED * self.converted / (waves * target.wave_size)
        return wait + max(busy, READS * loop.woven)

    def best_parts(self, schedule: str, target: Target) -> int:
        """How many parts of K take the least time, the fewest of them; 1 where that saves little."""
        most = max(min(2 * target.compute_units // max(self.blocks, 1), self.steps, MOST_PARTS), 1)
        looked_at = (*range(1, min(most, ONE_BY_ONE) + 1), *range(ONE_BY_ONE + APART, most, APART), most)
        able = dict.fromkeys(even_parts(self.steps, parts) for parts in looked_at)
        pay = (one for one in able if (self.steps - ceil_div(self.steps, one)) * self.step_bytes >= SAVED)
        return min((1, *pay), key=lambda parts: self.cycles(schedule, parts, target))


def _norm(*times: float) -> float:
    longest: float = max(*times, 1.0)
    total: float = sum((one / longest) ** OVERLAP for one in times)
    found: float = longest * total ** (1 / OVERLAP)
    return found


def is_low(lengths: tuple[int, int, int], block: tuple[int, int, int]) -> bool:
    """Whether the estimate holds of a product (m, n, k) in such blocks."""
    return 0 < lengths[0] <= MOST_ROWS and block[0] * block[1] <= MOST_TILES * TILE**2


def is_few(lengths: tuple[int, int, int], count: int, block: tuple[int, int, int], target: Target) -> bool:
    """Whether the estimate holds of so many products (m, n, k) of more rows in such blocks: 128 x 128 or less, of which
    there are fewer of 128 x 128 than compute units.
    """
    few = count * ceil_div(lengths[0], MEDIUM) * ceil_div(lengths[1], MEDIUM) < target.compute_units
    return lengths[0] > MOST_ROWS and few and block[0] * block[1] <= MEDIUM * MEDIUM


def low_blocks(
    lengths: tuple[int, int, int], count: int, block: tuple[int, int, int], held: tuple[str, int, int], target: Target,
    *, merged: bool, factors: int = 1, idle: int = 0, weight_bits: int = 0,
) -> LowBlocks:  # fmt: skip
    """Blocks of so many products (m, n, k) whose A and B are of a type, held in so many bits and loaded by so many
    bytes. `merged`: of merged dimensions, such as patches, which come from memory once for many places of a window:
    that is not counted. `factors`: matrices B, which count as one with as many times the columns. `idle`: more products
    in the launch, which have nothing to sum. `weight_bits`: of an element of B in memory where it is converted, else 0.
    """
    m, n, k = lengths[0], factors * lengths[1], lengths[2]
    rows, columns, depth = block[0], factors * block[1], block[2]
    (dtype, bits, load_bytes), each = held, ceil_div(m, rows) * ceil_div(n, columns)
    return LowBlocks(
        rows, columns, ceil_div(k, depth), max(depth * bits // 8, 1), count * each,
        tile_cycles(dtype, depth, target), load_bytes,
        0 if merged else count * (m * bits + n * (weight_bits or bits)) * k // 8,
        (count + idle) * m * n, m <= MOST_ROWS, idle * each, columns * depth if weight_bits else 0,
    )  # fmt: skip


def weight_bits(sources: Sequence[Source]) -> int:
    """Of an element in memory of the matrix that becomes another type on its way to LDS; 0 where none does."""
    return max((find_dtype(one.dtype).bits for one in sources if one.dtype in HALF_BYTES), default=0)


def tile_cycles(dtype: str, depth: int, target: Target) -> float:
    """Cycles of the matrix instructions of a step for one tile of C, so many elements deep; 0 for other types."""
    able = target.mfmas(dtype)
    return 2 * TILE * TILE * depth * target.simds / target.mfma_rate(able[0]) if able else 0


def even_parts(steps: int, most: int) -> int:
    """Parts of so many steps, at most so many, that none is without steps."""
    return ceil_div(steps, ceil_div(steps, max(most, 1))) if steps else 1
