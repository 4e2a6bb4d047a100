"""What a kernel is where the request leaves it open: block, waves, matrix instruction, epilogue and schedule.

What a request names is kept. For the rest there are candidates, the best first (`plans`), and the operator takes the
first that the chip can run. docs/defaults.md has the rule in words, docs/timing.md what the model of time says of it.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

from ckmlir.ops.contraction.contraction_spec import accumulator_type
from ckmlir.ops.contraction.few_rows import few_rows, filled
from ckmlir.ops.contraction.problem import Problem
from ckmlir.ops.contraction.wishes import NARROWEST_FOR_TWO_STEPS, Plan, Wish, bits_of, elements_in
from ckmlir.ops.dtypes import find_dtype
from ckmlir.ops.scalars import ceil_div
from ckmlir.ops.schedules import GEMM as SCHEDULES
from ckmlir.ops.schedules import parse as parse_schedule
from ckmlir.targets import Target
from ckmlir.targets.timing import lds_cycles

SMALL, MEDIUM, LARGE = 64, 128, 256
"""Rows and columns of the blocks that the operator chooses; products with no more rows, or columns, than the small one
take that."""
SIZES = (16, 32, SMALL, MEDIUM, LARGE)
"""Rows and columns of blocks for requests that no preferred one goes with."""
STEP_BYTES = (128, 64, 32)
"""Their bytes along K, the best first."""
PREFERRED = ("compv4", "compv3")
"""Schedules, the best first: two LDS buffers leave loads two iterations to come, one buffer fits everywhere."""
PREFERRED_PARTIAL = ("compv3",)
"""The same for partial sums that have accumulators of their own: with another buffer there is one workgroup a compute
unit, and nothing multiplies while it scales. By the model, fp8 of 4096 x 4096 x 4096 with scales of 1x128 and 128x128
takes 62.5 µs instead of 96.2 on gfx942, 42.8 instead of 77.7 on gfx950, one workgroup carried over to all (all sampled,
60.3 on gfx950, and 53.7 since LDS keeps scales)."""
COPIED = "async_late"
"""What large blocks have where both operands go straight to LDS as they lie: four waves read half as much of LDS as
eight, and copies need no registers. By the model on gfx950, 4096 x 4096 x 4096 in cycles of eight waves with
`PREFERRED` and of this: bf16 163116, 150996; fp8 (`WITHOUT_REGISTERS`) 94313, 84835. `async_wide` takes 148636 and
83012, for 2.5 times the time to compile. What ends behind K gains as much (K of 4104 in rows of 4160 164888, 154263),
but not rows that begin within a cache line, of which each step takes two (4104 in rows of 4104 190200, 195713). So do
expressions (GELU 182148, 168764), but not those that read a matrix, for which four waves have fewer loads on their way
(GELU with bias and residual 187886, 195715). Stores of single elements spill scalar registers beside 256 accumulators
of a lane."""
COPIED_WITH_POWERS = "async_wide"
"""The same by eight waves for fp4 with powers of two, which have no form with accumulators apart: by the model 55486
cycles of 4096 x 4096 x 4096 with scales in tiles, `PREFERRED` with 128 x 128 takes 77109."""
WITHOUT_REGISTERS = "ping_pong_async"
"""What eight waves are left with where the matrix instruction's own vectors take the registers of tiles that are on
their way: those go straight to LDS. By the model on gfx950, fp8 of 4096 x 4096 x 4096: 70 % of the peak, 63 % with
`PREFERRED` and 128 x 128."""
NARROWEST_FOR_DEEP = 8
"""Bytes of a load below which deep steps of 8-bit types spill, since there are so many loads."""
PREFERRED_DEEP, DEEP_BYTES = "compv3", 256
"""The schedule of deep steps, and their bytes of B along K; see `_pays_deep`."""
MOST_FOR_TWO_STEPS = 128
"""Accumulators of a work-item above which a loop is not given two steps: they fill a register file of their own, and
transposed operands beside them do not find enough in the other."""
MOST_LARGE_BLOCKS = 3
"""Schedules that load further ahead than this are for products bound by memory, which small blocks serve better."""
LEAST_STEPS_OF_COPIED = 8
"""Of large blocks; see `_is_long`."""
PING_PONG = "ping_pong"
"""The order of steps in which groups of waves take turns."""
SEVEN = 224
"""Rows or columns of seven tiles of 32, or a wave's seven of 16."""
TURNED: tuple[tuple[int, int], ...] = ((LARGE, LARGE), (SEVEN, LARGE), (192, LARGE), (LARGE, SEVEN), (LARGE, 192))
"""Rows and columns of blocks at which they do, the best first of those that are of equal use: smaller ones for products
of which these leave fewer compute units idle. By the model on gfx942, 4096 x 4096 x 4096 in cycles of 256 x 256, a
block for 256 of 304 compute units, and of 224 x 256, one for each: f16 285233, 256896; fp8 153351, 139731."""
GAIN_OF_TURNS = 1.02
"""How much less of the compute units' rounds they may use than blocks of 128 x 128 do: 8192 x 8192 x 4096 by 224 x 256,
.0001 less, takes .91 of the cycles on gfx942."""
VECTOR_BYTES = 16
"""The widest access of a lane."""
FOUR_WAVES, EIGHT_WAVES = (2, 2), (2, 4)
"""Along m and n: one wave a SIMD, and two."""
OTHER_WAVES = ((1, 4), (4, 1), (2, 4), (4, 2), (1, 2), (2, 1), (1, 1))
"""What a named block gets that the preferred waves do not divide, or have no registers for; the best first."""
SIDE_BY_SIDE = (1, 4)
"""Along n, so that each converts columns of its own where B becomes another type on its way from fragment order to
registers: waves of a column would convert the same. Sums of groups leave four waves no registers for that, eight do as
well. By the model, 2048 x 2048 x 2048 with weights of i4 in tiles of 32 columns, cycles of `FOUR_WAVES`, `EIGHT_WAVES`
and of this: `gemm_int4` 56109, 51007, 50228 on gfx942, 47000, 44289, 42335 on gfx950; fp8 with scales of 128x128 45180,
38968, 38260 on gfx942, with zero points of 1x128 66189 (4 registers spilled), 48655, 44773 on gfx950. With several
groups of scales in a step, 1x64 with zero points on gfx950, `TALL_WAVES` take 70501, small blocks 47714."""
TALL_WAVES, NARROW = (4, 2), 16
"""Waves, and columns of the matrix instruction, where four waves have too few registers; see `crowded`."""


def plans(wish: Wish, target: Target) -> list[Plan]:
    """Candidates for what is open, the best first: the largest block, and for each block every schedule.

    Blocks: for products of few rows low ones (`few_rows`). Else 128 x 128, and 64 x 64 where the product has few
    rows or columns or many blocks are on their way from memory; 256 x 256 before that, for groups of waves that take
    turns, and where LDS would keep the matrix cores waiting (`_pays_large`). Schedules: `PREFERRED`, before them groups
    that take turns where large blocks leave no compute unit idle that others would not (`_pays_turns`), and for large
    blocks that are copied `COPIED`, behind them `WITHOUT_REGISTERS`. Waves: four; eight, two a SIMD, for large blocks
    that are not `COPIED`, where they take turns, and for whole steps of which each row is compared (`compares_rows`):
    with four, 1001 x 1003 x 999 with scales of 1x128 spilled 17 to 29 scalar registers.
    """
    schedules = (PREFERRED_PARTIAL if wish.partial else PREFERRED) if wish.schedule is None else (wish.schedule,)
    found = []
    if wish.block is not None:
        found = [Plan(name, wish.block, wish.waves or default_waves(name)) for name in schedules]
    else:
        found = list(few_rows(wish, schedules, target))
        if _pays_deep(wish, target):
            found.append(Plan(PREFERRED_DEEP, (MEDIUM, MEDIUM, elements_in(DEEP_BYTES, wish.dtype)), FOUR_WAVES))
        if _pays_turns(wish, target):
            found.append(_turns(wish, target))
        depth = _depth(LARGE, COPIED, wish.dtype, target)
        if wish.powers and _whole_and_long(wish, depth) and _pays_copies(wish, COPIED_WITH_POWERS, EIGHT_WAVES, target):
            found.append(Plan(COPIED_WITH_POWERS, (LARGE, LARGE, depth), EIGHT_WAVES))
        plain = wish.arrays == 2 and not (wish.matrices or wish.single)
        if plain and wish.in_lines and _is_long(wish, depth) and _pays_copies(wish, COPIED, FOUR_WAVES, target):
            found.append(Plan(COPIED, (LARGE, LARGE, depth), FOUR_WAVES))
        last = (WITHOUT_REGISTERS,) * _pays_copies(wish, WITHOUT_REGISTERS, EIGHT_WAVES, target)
        large = [(LARGE, name) for name in (*schedules, *last)]
        for size, name in [*large, *itertools.product((MEDIUM, SMALL), schedules)]:
            if size in _sizes(wish, name, target):
                found += crowded(wish, size, name, target)
                waves = wish.waves or _waves(wish, size, name)
                depth = _depth(size, name, wish.dtype, target)
                if wish.compares_rows:  # short steps, if groups of scales are no longer; else few loads of a wave
                    found.append(Plan(name, (size, size, min(depth // 2, wish.compared_depth)), waves))
                    waves = wish.waves or EIGHT_WAVES
                found.append(Plan(name, (size, size, depth), waves, NARROW if wish.crowded and size == LARGE else 0))
    if wish.schedule is None:
        found = [one for one in found if one.schedule != PREFERRED[0] or _room_for_two_steps(wish, one, target)]
    return found


def other_blocks(preferred: Plan, problem: Problem, target: Target, highest: int = LARGE) -> Iterator[Plan]:
    """Blocks of any size, for a request that names something with which no preferred one goes: many waves, or few, a
    matrix instruction, a schedule of many LDS buffers. First those that are no larger, the nearest size first. For a
    request that names the block, and no waves, those of other waves.

    Args:
        preferred: the last plan of `plans`.
        highest: the most rows, a power of two.
    """
    if problem.block is not None:
        others = () if problem.waves else OTHER_WAVES
        yield from (Plan(preferred.schedule, problem.block, waves) for waves in others)
        return
    if not any((problem.waves, problem.mfma, problem.schedule)):
        return
    dtype = problem.taken(target) or problem.dtype
    area = preferred.block[0] * preferred.block[1]
    lengths = itertools.product([size for size in SIZES if size <= highest], SIZES)
    nearest = sorted(lengths, key=lambda one: _distance(one, area))
    ways = (problem.waves,) if problem.waves else dict.fromkeys((preferred.waves, (1, 4), (1, 2), (1, 1)))
    for lengths, bytes_, waves in itertools.product(nearest, STEP_BYTES, ways):
        yield Plan(preferred.schedule, (*lengths, elements_in(bytes_, dtype)), waves)


def _distance(lengths: tuple[int, int], area: int) -> tuple[bool, float, int]:
    """How far a block of these lengths is from one of an area, for `sorted`."""
    own = math.prod(lengths)
    return own > area, abs(math.log2(own / area)), abs(lengths[0] - lengths[1])


def default_waves(schedule: str) -> tuple[int, int]:
    """Four waves; eight where groups of them take turns."""
    return EIGHT_WAVES if parse_schedule(SCHEDULES[schedule]).order == PING_PONG else FOUR_WAVES


def default_mfma(
    block: tuple[int, int, int],
    waves: tuple[int, int],
    types: tuple[str, str],
    target: Target,
    columns: int = 0,
    sparse: bool = False,
) -> tuple[int, int, int]:
    """The chip's fastest instruction of the largest shape that tiles a wave's part of the block, or of those
    with so many `columns` if they are given, or with a sparse A.

    Where none does, the smallest one, which `invalid_fields` then refuses with the reason.
    """
    able = [one for one in target.mfmas(*types, sparse=sparse) if columns in (0, one.n)]
    fitting = [
        one for one in able
        if block[0] % (waves[0] * one.m) == 0 and block[1] % (waves[1] * one.n) == 0 and block[2] % one.k == 0
    ]  # fmt: skip
    if not able:
        return 32, 32, elements_in(16, types[0])
    # Of several, the first: `mfmas` has the fastest first.
    best = max(fitting, key=lambda one: one.m) if fitting else min(able, key=lambda one: one.m)
    return best.m, best.n, best.k


def _sizes(wish: Wish, schedule: str, target: Target) -> tuple[int, ...]:
    """Rows and columns that blocks may have under a schedule."""
    plan = parse_schedule(SCHEDULES[schedule])
    if min(wish.m, wish.n) <= SMALL or plan.ahead_of("load") > MOST_LARGE_BLOCKS:
        return (SMALL,)
    if wish.arrays > 2 and wish.compares_rows:
        return (SMALL,)
    if wish.arrays > 2:
        return (MEDIUM, SMALL)  # accumulators of both, and narrow loads beside them, may ask for the small one
    takes_turns = plan.order == PING_PONG and min(wish.m, wish.n) > MEDIUM
    return (LARGE, MEDIUM) if takes_turns or _pays_large(wish, schedule, EIGHT_WAVES, target) else (MEDIUM,)


def _pays_large(wish: Wish, schedule: str, waves: tuple[int, int], target: Target) -> bool:
    """Whether blocks of 256 x 256 pay: with smaller ones LDS would be busy as long as the matrix cores, there is a
    block for every compute unit, LDS holds its buffers at full depth, and these waves have the registers for it.

    Eight waves hold 128 accumulators beside the loads, which have to be full vectors. What is left is enough for two
    operands that are transposed on their way, for one of 8 bits, or for sizes that blocks do not divide.
    """
    bits8, deepest = bits_of(wish.dtype) <= 8, _depth(SMALL, schedule, wish.dtype, target)
    transposed = (wish.read_layout[0] == "C") + (wish.read_layout[1] == "R")
    ragged = any(size % step for size, step in ((wish.m, LARGE), (wish.n, LARGE), (wish.k, deepest)))
    return (
        ceil_div(wish.m, LARGE) * ceil_div(wish.n, LARGE) >= target.compute_units
        and wish.load_bytes == VECTOR_BYTES
        and transposed * (1 + bits8) + 2 * ragged <= 2
        and _depth(LARGE, schedule, wish.dtype, target) == deepest
        and wish.waves in (None, waves)
        and _bound_by_lds(schedule, wish.dtype, target)
    )


def _pays_turns(wish: Wish, target: Target) -> bool:
    """Whether groups of waves that take turns at large blocks pay: steps are whole, loads full vectors along K, and
    large blocks use the compute units as well as those of 128 x 128 do. For elements of at most 16 bits.

    By the model on gfx942, of 256 x 256 against the preferred schedule at 128 x 128: 4096 x 4096 x 4096 .92 in f16, .91
    in bf16 and fp8; 4864 x 4096 x 4096 .93; where they fill less, 8192 x 8192 x 8192 1.04, 3072 x 3072 x 3072 1.15. Of
    those of `TURNED` that fill most, sizes that they do not divide: 7390 x 4536 x 2112 twice with GELU, bias and a
    factor .85; fp8 of 8192 x 2179 x 1024 .86. On gfx90a 1993 x 2324 x 4096 1.00, i8 of 5080 x 2048 x 1024 .97; by 256 x
    256 2048 x 3328 x 4096 .99. Where LDS is the limit of 16-bit products turns do not help, 1.31 of `compv4` with the
    same block on gfx950; of 8-bit products there 1.01.
    """
    if wish.schedule is not None or wish.waves not in (None, EIGHT_WAVES) or wish.arrays > 2:
        return False
    if wish.layout[:2] != "RC" or wish.load_bytes < VECTOR_BYTES or bits_of(wish.dtype) > 16:
        return False
    if 0 in (wish.m, wish.n, wish.k) or wish.k % _depth(LARGE, PING_PONG, wish.dtype, target):
        return False
    if _bound_by_lds(PREFERRED[0], "f16", target):
        return False
    rows, columns, _ = _turns(wish, target).block
    return _use(wish, rows, columns, target) * GAIN_OF_TURNS >= _use(wish, MEDIUM, MEDIUM, target)


def _turns(wish: Wish, target: Target) -> Plan:
    """Groups of waves that take turns at the blocks of `TURNED` that leave the fewest compute units idle, of those that
    the waves divide. The index of a sparse A takes the registers of a wave's seventh tile (GELU with bias and residual
    spilled 14). Where terms are crowded the largest one has none left (`is_crowded`). Single elements, straight from
    256 x 192, keep four scalar registers in lanes in a batch.
    """
    found = [
        Plan(PING_PONG, (*size, _depth(LARGE, PING_PONG, wish.dtype, target)), waves, NARROW if wish.crowded else 0)
        for size in TURNED
        if wish.waves in (None, waves := EIGHT_WAVES if size[1] == LARGE else TALL_WAVES)
        if not (wish.sparse and SEVEN in size)
        if not (wish.crowded and size == (LARGE, LARGE))
        if not (wish.single and size == (LARGE, 192))
    ]
    return max(found, key=lambda one: _use(wish, one.block[0], one.block[1], target))


def _pays_deep(wish: Wish, target: Target) -> bool:
    """Whether steps of `DEEP_BYTES` of B pay: A is sparse, so that its rows are half as long, and LDS rather than the
    matrix cores is the limit. Two workgroups a compute unit then wait for half as many barriers, and for half as many
    cache lines of the index.

    By the model on gfx950, 4096 x 4096 x 4096 in cycles of a dense product, of the rule for dense ones and of this: f16
    163260, 176749, 153032; fp8 94313, 109613, 82197. On gfx942 f16 285233, 185820, 268253. Those are of one workgroup,
    carried over; with both of a compute unit simulated f16 takes 209532 on gfx950, three others 210678 to 297571.
    """
    open_ = wish.sparse and wish.schedule is None and wish.waves in (None, FOUR_WAVES)
    deep = wish.k >= 2 * elements_in(DEEP_BYTES, wish.dtype) and min(wish.m, wish.n) > SMALL
    return open_ and deep and wish.load_bytes >= NARROWEST_FOR_DEEP and _bound_by_lds(PREFERRED[0], wish.dtype, target)


def crowded(wish: Wish, size: int, schedule: str, target: Target) -> Iterator[Plan]:
    """Plans of eight waves where four have no registers for what lies beside operands and sums; none where waves are
    named.

    That is the scales of a step that holds several groups; the matrix instruction is short where both operands are read
    along K and columns have scales of their own. Where both are transposed, or B goes straight to registers, and where
    eight waves do not fit either, blocks are small. It is loads of few bytes, with their offsets, beside scales or a
    second matrix; and a transposed A beside partial sums and a B that goes straight to registers.

    By the model, 2048 x 2048 x 2048 with scales of 1x32 of both, cycles of four waves and of this: fp8 71434, 63822 on
    gfx942, 69401, 57661 on gfx950, i8 346892, 291538 on gfx90a. 1x64 on gfx942 53678, 48450. 1x32 and 128x128 37330,
    35052, with the short instruction 38324. Powers of two on gfx942, bf8 in CRR 126674, 91253 (with 21 registers
    spilled, and none). 500 x 512 x 333 gated, with 1x32 of all on gfx942: 26194, 26730 (45 spilled, and none). B of fp8
    in fragment order with 1x64 on gfx950, eight waves, which spilled 114, and small blocks: 113947, 29641.
    """
    if wish.waves or wish.compares_rows or size == LARGE or wish.arrays == 2:
        return
    depth, narrow = _depth(size, schedule, wish.dtype, target), wish.load_bytes < NARROWEST_FOR_TWO_STEPS
    groups = size == MEDIUM and 0 < wish.group < depth
    straight = parse_schedule(SCHEDULES[schedule]).path_of("b") == "straight"
    small = Plan(schedule, (SMALL, SMALL, depth), TALL_WAVES if narrow else FOUR_WAVES)
    if groups and (straight or wish.layout[:2] == "CR"):
        yield small
    elif groups or narrow or (wish.partial and straight and wish.layout[0] == "C"):
        columns = NARROW if groups and wish.layout[:2] == "RC" and wish.column_scales else 0
        yield Plan(schedule, (size, size, depth), TALL_WAVES, columns)
        if (groups or narrow) and wish.column_scales:
            yield small


def _waves(wish: Wish, size: int, schedule: str) -> tuple[int, int]:
    """Of a block of this size, where nothing is crowded.

    Packed elements that are turned take registers before and behind: on gfx950 fp6 in CRR spilled 83 with blocks of 128
    x 128 by four waves, and eight take 158; u4 with zero points and scales of 1x128 took 452 and spilled 4.
    """
    if wish.turned and size == MEDIUM:
        return TALL_WAVES
    if _converts_columns(wish, size, schedule):
        return EIGHT_WAVES if wish.partial else SIDE_BY_SIDE
    return EIGHT_WAVES if size == LARGE else default_waves(schedule)


def _converts_columns(wish: Wish, size: int, schedule: str) -> bool:
    """Whether waves convert columns of B on their way to registers, see `SIDE_BY_SIDE`."""
    straight = parse_schedule(SCHEDULES[schedule]).path_of("b") == "straight"
    plain = wish.layout[0] == "R" and wish.load_bytes >= NARROWEST_FOR_TWO_STEPS
    return wish.converts and straight and plain and size == MEDIUM


def _use(wish: Wish, rows: int, columns: int, target: Target) -> float:
    """The share of the compute units' rounds in which blocks of a size compute elements that there are."""
    down, across = ceil_div(wish.m, rows), ceil_div(wish.n, columns)
    return filled(down * across * wish.batch, target) * (wish.m * wish.n) / (down * rows * across * columns)


def _pays_copies(wish: Wish, schedule: str, waves: tuple[int, int], target: Target) -> bool:
    """Whether an open schedule may copy large blocks straight to LDS: both operands are read along K, as they lie."""
    open_ = wish.schedule is None and wish.read_layout == "RC"
    return open_ and _pays_large(wish, schedule, waves, target)


def _whole_and_long(wish: Wish, depth: int) -> bool:
    """Whether K is whole steps, and long."""
    return wish.k % depth == 0 and _is_long(wish, depth)


def _is_long(wish: Wish, depth: int) -> bool:
    """Whether K is as many steps as make up for the longer way into the loop.

    By the model on gfx950, 4096 x 4096 in bf16, in cycles of eight waves with `PREFERRED` and of four: K of 64 17308
    and 19776, of 256 25896 and 26136, of 1024 53340 and 51108.
    """
    return wish.k >= LEAST_STEPS_OF_COPIED * depth


def _room_for_two_steps(wish: Wish, plan: Plan, target: Target) -> bool:
    """Whether registers, scalar ones too, have room for the steady loop of two steps that two LDS buffers take."""
    words = find_dtype(accumulator_type(wish.dtype)).bytes // 4
    accumulators = plan.block[0] * plan.block[1] * words // (math.prod(plan.waves) * target.wave_size)
    narrow = wish.load_bytes < NARROWEST_FOR_TWO_STEPS or wish.compares_rows or wish.turned or any(wish.reads_turn)
    return not narrow and accumulators <= MOST_FOR_TWO_STEPS


def _bound_by_lds(schedule: str, dtype: str, target: Target) -> bool:
    """Whether LDS takes as many cycles as the matrix cores for a 128 x 128 block of four waves.

    A block is written once, and read by as many waves as share its rows. Rates are those of the chip's tables, without
    bank conflicts.
    """
    plan, (rows, columns) = parse_schedule(SCHEDULES[schedule]), FOUR_WAVES
    depth = elements_in(128, dtype)
    access = target.wave_size * VECTOR_BYTES
    lds = 0.0
    for tensor, sharing in (("a", columns), ("b", rows)):
        if plan.path_of(tensor) != "straight":
            accesses = MEDIUM * 128 / access
            lds += accesses * sharing * lds_cycles(target, "read", VECTOR_BYTES).busy
            lds += accesses * lds_cycles(target, "write", VECTOR_BYTES).busy
    able = target.mfmas(dtype)
    return bool(able) and lds >= 2 * MEDIUM * MEDIUM * depth / target.mfma_rate(able[0])


def _depth(size: int, schedule: str, dtype: str, target: Target) -> int:
    """Along K 128 bytes, a full cache line of the rows; half of that where the schedule's LDS buffers would not fit."""
    plan = parse_schedule(SCHEDULES[schedule])
    buffers = sum(plan.buffers_of(tensor) for tensor in "ab" if plan.path_of(tensor) != "straight")
    depth = elements_in(128, dtype)
    return depth if buffers * size * 128 <= target.lds_bytes else depth // 2
