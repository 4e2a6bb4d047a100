"""About how long blocks of few tiles take for a product of few rows, or few blocks, by which these, schedules and parts
of K are chosen.

One estimate for all types. Workgroups come in rounds, of as many as compute units hold at a time. A round takes as long
as the longest of six: the steps of a workgroup, one after the other, each of which multiplies and waits, behind what
loads ahead of the first; the products of those of a compute unit on its SIMDs; what these write to LDS and read from
it, over one of two buses; what its L1 cache is asked for; what L2 caches give all of them; and what memory gives, which
is what they read in common once. These overlap in part, the better the more workgroups a compute unit has, so that the
sum is that of a norm. Parts of K take a second kernel, which reads sums of all parts.

The numbers were fitted to 2,118 kernels of 216 products by the model of time, with all workgroups of a compute unit
simulated together: f16, f32, fp8 and i8, m of 1, 16, 28 and 64, n x k of 384x1536, 1024x4096, 1024x8192, 2048x2048,
4096x4096 and 8192x1536, on three chips. It is wrong by 6 % (root mean square), for 297 kernels of 34 products of more
rows, to which they were fitted too, by 10 %. benchmarks/results/few_rows.md has how good its choices are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from ckmlir.ops.contraction.block_sizes import FOUR_WAVES, MEDIUM
from ckmlir.ops.dtypes import HALF_BYTES, find_dtype
from ckmlir.ops.scalars import ceil_div
from ckmlir.targets import Target

if TYPE_CHECKING:  # plain products load quickly without
    from ckmlir.ops.contraction.sources import Source


class Loop(Struct, frozen=True):
    """What the loop of a schedule makes of a step.

    Attributes:
        buffers: of LDS, for a workgroup.
        wait: cycles that a step takes beside its products, of a workgroup of several waves, which wait for each other.
        woven: whether LDS is read between products, which hide the wait. One step is on its way from memory then, for
            which the next waits.
        steps: of loads whose registers a lane has.
        reached: the share of the matrix cores' rate that several workgroups on a SIMD reach together.
        ahead: steps whose loads are on their way before the first.
        turn: steps of a turn, each of which loads one as far ahead; the rest behind the turns loads nothing.
    """

    buffers: int
    wait: int
    woven: bool
    steps: float
    reached: float
    ahead: int
    turn: int


LOOPS = {
    "compv4": Loop(2, 394, woven=True, steps=1.0, reached=1.00, ahead=2, turn=2),
    "compv3": Loop(1, 303, woven=True, steps=1.0, reached=0.76, ahead=2, turn=1),
    "mem3": Loop(1, 524, woven=False, steps=2.2, reached=0.62, ahead=3, turn=2),
    "v4": Loop(1, 280, woven=False, steps=5.3, reached=0.58, ahead=4, turn=4),
}
"""By name of the schedule. Others are taken for the first."""
ALONE = 144
"""Cycles by which a wave waits less where it is its workgroup's only one."""
COMING, MOVED = 0.58, 0.14
"""The shares of memory's latency, and of the time that a step is moved, for which the next step waits where one is on
its way."""
TILE = 16
"""Rows and columns that one wave has at least."""
MOST_ROWS, MOST_TILES, MOST_WAVES = 64, 16, 4
"""Of C, and of a block, up to which the estimate holds; and waves of a block."""
BEGIN = 2790
"""Cycles of a round until the first products, and from the last until all is stored."""
FILL = 0.45
"""The share of the time that memory takes for what loads ahead of the first step for which that waits: each wave asks
for several steps at once, and what others ask for comes between."""
BUS, SHARING, SET_UP = 64, 2, 1.25
"""Bytes of LDS a cycle for as many SIMDs as share a bus, and how much longer a write of 16 bytes a lane takes it than a
read (as by the model: ROCm Compute Profiler documentation, 'Local data share')."""
SEEN = 0.5
"""The share of that time of its own waves for which a workgroup waits in a step: of reads, and of writes to the one
buffer of a schedule."""
DWORD, NARROW = 4, 20
"""Bytes of a load below which each takes a wave so many cycles of a step: they are packed, and compared one by one."""
CONVERTED = 8
"""Cycles of a wave for an element of a lane that becomes another type: two instructions."""
REQUEST = 64
"""Bytes that an L1 cache is asked for at least, and gives in a cycle."""
L2_REACHED = 0.72
"""What is reached of the peak of the L2 caches, from which workgroups read A and B (as by the model: te42kyfo/
gpu-benches, gpu-l2-cache/mi210.txt)."""
REACHED = 0.82
"""What is reached of memory's peak, of which each compute unit that has a workgroup has its share, whether it needs
that or not."""
TAKEN, OF_TILE, LOADED = 36, 4, 4
"""Vector registers of a lane beside those of steps on their way, and of a tile of sums; bytes of a register."""
IDLE = 3000
"""Cycles of a round of workgroups that have nothing to sum."""
SECOND, AT_ONCE, AGAIN, PART_CYCLES = 683, 8, 481, 72
"""Of parts: cycles of the second kernel, how many it loads at once, cycles where there are more, and those for each
part; sums are written and read at memory's peak."""
OVERLAP, BESIDE = 6.8, 2.4
"""The norm of what overlaps in part, and how much it grows with each workgroup beside another."""
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
        rows, columns: of a block; columns those of all matrices B.
        steps: of the loop that has all of K.
        step_bytes: along K.
        m, n: of one product.
        row_bytes, column_bytes: of A and of B, along all of K; 0 where what memory gives is not counted.
        products: cycles of the matrix instructions of a step for one tile.
        load_bytes: of a lane's loads of A and B.
        requested: bytes of a step that caches are asked for.
        count: products in the launch.
        idle: more of them, which have nothing to sum.
        converted: elements of B of a step that become another type on their way to LDS.
        factors: matrices B, whose columns waves do not share.
    """

    rows: int
    columns: int
    steps: int
    step_bytes: int
    m: int
    n: int
    row_bytes: int
    column_bytes: int
    products: float
    load_bytes: int
    requested: int
    count: int = 1
    idle: int = 0
    converted: int = 0
    factors: int = 1

    @property
    def tiles(self) -> int:
        """Of 16 x 16, in a block."""
        return max(self.rows * self.columns // TILE**2, 1)

    @property
    def spread(self) -> tuple[int, int]:
        """Waves of a workgroup, along rows and columns."""
        return waves_of(self.rows, self.columns // self.factors)

    @property
    def waves(self) -> int:
        """Of a workgroup."""
        return self.spread[0] * self.spread[1]

    @property
    def across(self) -> int:
        """Blocks of a row of them."""
        return max(ceil_div(self.n, self.columns), 1)

    @property
    def each(self) -> int:
        """Blocks of a product."""
        return max(ceil_div(self.m, self.rows), 1) * self.across

    @property
    def blocks(self) -> int:
        """That sum something, in all products."""
        return self.each * max(self.count, 1)

    @property
    def bytes(self) -> int:
        """Of A and B, that a step has in LDS."""
        return (self.rows + self.columns) * self.step_bytes

    def cycles(self, schedule: str, parts: int, target: Target) -> float:
        """Of all kernels, without the time between them."""
        loop = LOOPS.get(schedule) or next(iter(LOOPS.values()))
        workgroups, units = self.blocks * parts, target.compute_units
        together = min(self.held(loop, target), ceil_div(workgroups, units))
        places = together * units
        running = min(workgroups, places)
        share = self.from_memory(running, parts) / running
        whole, rest = divmod(workgroups, places)
        last = ceil_div(rest, units)
        if whole and last == together:  # a unit with as many takes as long, whatever the others do
            whole, rest = whole + 1, 0
        found = whole and whole * self._round(loop, parts, together, units, share, target)
        if rest:  # as if all units that have a workgroup had as many
            found += self._round(loop, parts, last, min(rest, units), share, target)
        launched = workgroups + self.idle * self.each * parts
        found += (ceil_div(launched, places) - ceil_div(workgroups, places)) * IDLE
        if parts == 1:
            return found
        sums = 2 * (self.count + self.idle) * self.m * self.n * SUM_BYTES / target.memory_bytes
        return found + SECOND + AGAIN * (parts > AT_ONCE) + parts * (PART_CYCLES + sums)

    def held(self, loop: Loop, target: Target) -> int:
        """Workgroups that a compute unit holds at a time, by LDS and by what registers hold of sums and of steps on
        their way.
        """
        waves = self.waves
        lanes, sums = waves * target.wave_size, OF_TILE * ceil_div(self.tiles, waves)
        registers = TAKEN + sums + loop.steps * self.bytes / (lanes * LOADED)
        able = min(int(target.registers.vector_total / registers), target.waves_per_simd) * target.simds
        granules = ceil_div(loop.buffers * self.bytes, target.lds_granule)
        return max(min(target.lds_bytes // (granules * target.lds_granule), able // waves), 1)

    def from_memory(self, workgroups: int, parts: int) -> float:
        """Bytes of A and B that so many workgroups read, the first ones of a launch, what they have in common once.
        They have the blocks of a product row by row, those of all products, and these for each part of K, which count
        as if all were as long as the longest.
        """
        whole, rest = divmod(workgroups, self.each)
        rows = whole * self.m + min(ceil_div(rest, self.across) * self.rows, self.m)
        columns = whole * self.n + min(rest * self.columns, self.n)
        longest = ceil_div(self.steps, parts) / max(self.steps, 1)
        return (rows * self.row_bytes + columns * self.column_bytes) * longest

    def _round(self, loop: Loop, parts: int, own: int, units: int, share: float, target: Target) -> float:
        """Cycles of workgroups that run at a time, so many of each of so many compute units, for each of which memory
        moves so many bytes.
        """
        steps = max(ceil_div(self.steps, parts), 1)
        far = units * own * share / (REACHED * target.memory_bytes)
        chain = steps * self._step(loop, far / (own * steps), target) + FILL * min(loop.ahead / steps, 1) * far
        on_one = ceil_div(own * self.waves, target.simds) * ceil_div(self.tiles, self.waves)
        multiplied = steps * self.products * on_one / loop.reached
        multiplied += steps * own * (self._packed(target.simds, target) + self._converted(target.simds, target))
        served = steps * sum(self._served(own, target))
        loaded = loop.ahead + steps // loop.turn * loop.turn
        near = own * loaded * self.requested / REQUEST
        again = units * own * steps * self.requested / (L2_REACHED * target.l2_bytes)
        return BEGIN + _norm(OVERLAP + BESIDE * (own - 1), max(chain, multiplied), served, near, again, far)

    def _served(self, own: int, target: Target) -> tuple[float, float]:
        """Cycles of a step in which waves of so many workgroups of a compute unit write to LDS, and read from it: those
        that share a bus. Waves come to its SIMDs in turn, so that two share one while the other has nothing to do.
        """
        waves, (down, across) = self.waves, self.spread
        whole, rest = divmod(own * waves, target.simds)
        sharing = SHARING * whole + min(rest, SHARING)
        read = (self.rows / down + self.columns / across) * self.step_bytes
        return sharing * SET_UP * self.bytes / (waves * BUS), sharing * read / BUS

    def _packed(self, waves: int, target: Target) -> float:
        """Cycles of a step in which so many waves pack what narrow loads bring."""
        loads = self.bytes / self.load_bytes if self.load_bytes < DWORD else 0
        return NARROW * loads / (waves * target.wave_size)

    def _converted(self, waves: int, target: Target) -> float:
        """Cycles of a step in which so many waves convert B."""
        return CONVERTED * self.converted / (waves * target.wave_size)

    def _step(self, loop: Loop, moving: float, target: Target) -> float:
        """Cycles of one step of a workgroup that is alone, whose bytes memory moves in so many cycles."""
        waves = self.waves
        written, read = self._served(1, target)
        wait = loop.wait - ALONE * (waves == 1)
        moved = SEEN * (read + written * (loop.buffers == 1)) + self._converted(waves, target)
        busy = self.products * ceil_div(self.tiles, waves) + self._packed(waves, target)
        coming = COMING * target.memory_latency + MOVED * moving
        return moved + (max(wait + coming, busy) if loop.woven else wait + busy)

    def best_parts(self, schedule: str, target: Target) -> int:
        """How many parts of K take the least time, the fewest of them; 1 where that saves little."""
        most = max(min(2 * target.compute_units // max(self.blocks, 1), self.steps, MOST_PARTS), 1)
        looked_at = (*range(1, min(most, ONE_BY_ONE) + 1), *range(ONE_BY_ONE + APART, most, APART), most)
        able = dict.fromkeys(even_parts(self.steps, parts) for parts in looked_at)
        pay = (one for one in able if (self.steps - ceil_div(self.steps, one)) * self.step_bytes >= SAVED)
        return min((1, *pay), key=lambda parts: self.cycles(schedule, parts, target))


def _norm(power: float, *times: float) -> float:
    longest: float = max(*times, 1.0)
    total: float = sum((one / longest) ** power for one in times)
    found: float = longest * total ** (1 / power)
    return found


def waves_of(rows: int, columns: int) -> tuple[int, int]:
    """Along rows and columns of a block: a tile of 16 x 16 each where it has 16 rows or columns, else two by two. A
    request may name a smaller block, which is refused later."""
    tiles = max(rows // TILE, 1), max(columns // TILE, 1)
    return (min(tiles[0], MOST_WAVES), min(tiles[1], MOST_WAVES)) if 1 in tiles else FOUR_WAVES


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
    *, merged: bool, layout: str = "RCR", factors: int = 1, idle: int = 0, weight_bits: int = 0,
) -> LowBlocks:  # fmt: skip
    """Blocks of so many products (m, n, k) whose A and B are of a type, held in so many bits and loaded by so many
    bytes. `merged`: of merged dimensions, such as patches, which come from memory once for many places of a window:
    that is not counted. `layout`: of A and B, since what lies across K is asked for row by row of K. `factors`:
    matrices B, which count as one with as many times the columns. `idle`: more products in the launch, which have
    nothing to sum. `weight_bits`: of an element of B in memory where it is converted, else 0.
    """
    (m, n, k), (rows, columns, depth), (dtype, bits, load_bytes) = lengths, block, held
    step_bytes, of_b = max(depth * bits // 8, 1), weight_bits or bits
    row_bytes, column_bytes = (0, 0) if merged else (k * bits // 8, k * of_b // 8)
    least = REQUEST * 8 // bits
    asked = max(rows, least * (layout[0] == "C")) + factors * max(columns, least * (layout[1] == "R"))
    return LowBlocks(
        rows, factors * columns, ceil_div(k, depth), step_bytes, m, factors * n, row_bytes, column_bytes,
        tile_cycles(dtype, depth, target), load_bytes, asked * step_bytes, count, idle,
        factors * columns * depth if weight_bits else 0, factors,
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
