"""What a kernel is where the request leaves it open: block, waves, matrix instruction, epilogue and schedule.

What a request names is kept. For the rest there are candidates, the best first (`plans`), and the operator takes the
first that the chip can run. docs/defaults.md has the rule in words, benchmarks/results/schedules.md what was compared.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

from ckmlir.ops.contraction.block_depths import bound_by_lds, depth_of
from ckmlir.ops.contraction.block_sizes import EIGHT_WAVES, FOUR_WAVES, LARGE, MEDIUM, NARROW, SMALL, TALL_WAVES
from ckmlir.ops.contraction.contraction_spec import accumulator_type
from ckmlir.ops.contraction.crowded import crowded
from ckmlir.ops.contraction.few_blocks import few_blocks
from ckmlir.ops.contraction.few_rows import few_rows
from ckmlir.ops.contraction.large_blocks import (
    PING_PONG,
    WITHOUT_REGISTERS,
    large_blocks,
    pays_copied_pairs,
    pays_copies,
    pays_large,
)
from ckmlir.ops.contraction.past_lds import (
    MOST_OF_ONE_PRODUCT,
    PLAIN,
    STRAIGHT,
    goes_past_lds,
    takes_group,
    takes_straight,
)
from ckmlir.ops.contraction.problem import Problem
from ckmlir.ops.contraction.wishes import NARROWEST_FOR_TWO_STEPS, Plan, Wish, bits_of, elements_in
from ckmlir.ops.dtypes import find_dtype
from ckmlir.ops.schedules import GEMM as SCHEDULES
from ckmlir.ops.schedules import parse as parse_schedule
from ckmlir.targets import Target
from ckmlir.targets.cdna import ACCESS_BYTES

SIZES = (16, 32, SMALL, MEDIUM, LARGE)
"""Rows and columns of blocks for requests that no preferred one goes with."""
STEP_BYTES = (128, 64, 32)
"""Their bytes along K, the best first."""
PREFERRED = ("compv4", "compv3")
"""Schedules, the best first: two LDS buffers leave loads two iterations to come, one buffer fits everywhere."""
TWO_STEPS = ("compv4", "compv6")
"""Of these those whose loop has two steps."""
PREFERRED_PARTIAL = ("compv3",)
"""The same for partial sums that have accumulators of their own: with another buffer there is one workgroup a compute
unit, and nothing multiplies while it scales. By the model, fp8 of 4096 x 4096 x 4096 with scales of 1x128 and 128x128
takes 62.5 µs instead of 96.2 on gfx942, 42.8 instead of 77.7 on gfx950, one workgroup carried over to all (all sampled,
60.3 on gfx950, and 53.7 since LDS keeps scales)."""
COPIED_ALONE = "async"
"""The same before these where a compute unit has one block anyway (`_copies_alone`). By the model on gfx950, fp8 with
scales of 1x128 and 128x128, cycles of `PREFERRED_PARTIAL` and of this: 2048 x 2048 x 256 8121, 7733; 512 11219, 10143;
2048 25547, 22271; 1000 x 1500 x 2000 28282, 26624; of 1x128 both 29443, 23573 (K of 7168 86055, 85071), 1x64 both
36097, 34137; i8 28663, 25127. Gated ones, 22522 and 20608 in blocks of 64 x 64, spilled 50 registers in some of 128 x
128."""
LEAST_GROUP_OF_COPIED = 64
"""Elements along K that have a scale; with 32 both took the same, and an expression beside i8 spilled 11 registers."""
PREFERRED_SHORT = ("compv6", "compv3")
"""The same for short sums of more blocks than compute units: with one LDS buffer a compute unit holds two workgroups,
of which one multiplies while the other loads its first step or stores C (`_runs_beside`)."""
MOST_OF_SHORT = 1 << 15
"""Cycles of the matrix instructions of a block's sums up to which that pays more than a second buffer, with which a
step waits less. By the model, `batched_gemm` of 512 x 512, cycles of `PREFERRED` and of this: f16 on gfx942, 22
products with K of 64 16285, 14304; 512 36309, 31896; 2048 (32768 cycles) 95229, 91103; 4096 173821, 168883; 64
products with K of 512 63202, 60981; fp8, 38 with K of 512 26349, 22351; on gfx90a, 14 products, f16 with K of 64 23601,
18377; 512 66609, 63015; 2048 (65536 cycles) 214065, 217651; i8 with K of 512 74685, 61016; f32 with K of 256 125269,
110676; f64, whose accumulators leave no registers for two, 141383, 141737. f16 of 4096 x 4096 x 128 on gfx90a 107740,
75885; 38 of 500 x 500 x 500 on gfx942 44473, 47254."""
NARROWEST_FOR_DEEP = 8
"""Bytes of a load below which deep steps of 8-bit types spill, since there are so many loads."""
PREFERRED_DEEP, DEEP_BYTES = "compv3", 256
"""The schedule of deep steps, and their bytes of B along K; see `_pays_deep`."""
LONGEST_STEP = 1024
"""Along K, longer than any."""
MOST_NUMBERED = 32
"""Loads of a step whose row of K is a wave's, half of them of a number for each k (`Wish.numbered`), since each has a
distance in a scalar register; of two operands half as many. By the model, 511 x 511 x 1021 with such numbers, cycles of
plans without this rule and of this: f32 on gfx942 in RRR 32994, 30920, in CRR, numbers for both, 36942 (88 scalar
registers in lanes), 29927 (none); fp8 in CCR 109329 (25), 104295; i8 in RRR 377271 (9, and 11 vector registers in
scratch memory), 401035, in CRR on gfx90a 840742 (29), 460435."""
MANY_MIXED = 2
"""Operands with single elements of matrices that lie otherwise (`Wish.mixed`), twice as many of 8 bits, from which on
steps of 128 x 128 are half as long. By the model, 4096 x 4096 x 1024 of two arrays each on gfx942, whole steps and
half: f16 with one across K of A and of B 223284, 186068, of A alone 179983, 228123; fp8 333839 (53 registers in
scratch memory), 244251, of A alone 243927, 194371; on gfx950 f16 221180, 137148. Of four and three of fp8 305447 and
234463, by 64 x 64 401813."""
MANY_ARRAYS = 7
"""Of A and B together, from which on one such operand of 16 bits is enough: by the model half steps then take .76 to
1.04 (gfx942, 1024 x 1024 x 1024, 161729 with 22 registers spilled, 150979), where all lie alike 1.04 to 1.11."""
MANY_SINGLE = {8: 5, 16: 8}
"""By bits of an element, arrays of A and B together from which on single elements take the step of `_short_step`: each
load has a distance, and at the end of K an outcome, in a scalar register. bf8 of three and two arrays in 128 x 128 x
64, 1023 x 1016 x 513 in RRR on gfx942, kept 23 scalar registers in lanes, of three and three in 64 x 64 x 128 14, f16
of four and four on gfx950 19. By the model three and three of bf8 take 59174 cycles so, 63384 in 64 x 64 x 128 by eight
waves, which spilled 3, 86198 in 128 x 128 x 32."""
NARROWEST_FOR_SHORT_STEPS = 8
"""Bytes of the loads of computed operands of 8 bits that lie along K from which on steps of 128 x 128 are half as long
where LDS then holds two workgroups, and one otherwise: one computes operands while the other multiplies. By the model,
4096 x 4096 x 1024, whole steps and half: i8 of two arrays each 673616, 574410 on gfx90a, 191954, 160594 on gfx942, of
A alone 565340, 491026 and 144106, 117406; fp8 188146, 157738 on gfx942. Of three each i8 takes 326883 on gfx942 in the
blocks of 64 x 64 that whole steps leave, and 203674. On gfx950, where LDS holds two anyway, fp8 takes 144437 and
147865. Across K single rows are loaded, i8 in CRR 222394, 1688778 on gfx942."""
MOST_FOR_TWO_STEPS = 128
"""Accumulators of a work-item above which a loop is not given two steps: they fill a register file of their own, and
transposed operands beside them do not find enough in the other."""
MOST_LARGE_BLOCKS = 3
"""Schedules that load further ahead than this are for products bound by memory, which small blocks serve better."""
OTHER_WAVES = ((1, 4), (4, 1), (2, 4), (4, 2), (1, 2), (2, 1), (1, 1))
"""What a named block gets that the preferred waves do not divide, or have no registers for; the best first."""
SIDE_BY_SIDE = (1, 4)
"""Along n, so that each converts columns of its own where B becomes another type on its way from fragment order to
registers: waves of a column would convert the same. Sums of groups leave four waves no registers for that, eight do as
well. By the model, 2048 x 2048 x 2048 with weights of i4 in tiles of 32 columns, cycles of `FOUR_WAVES`, `EIGHT_WAVES`
and of this: `gemm_int4` 56109, 51007, 50228 on gfx942, 47000, 44289, 42335 on gfx950; fp8 with scales of 128x128 45180,
38968, 38260 on gfx942, with zero points of 1x128 66189 (4 registers spilled), 48655, 44773 on gfx950. With several
groups of scales in a step, 1x64 with zero points on gfx950, `TALL_WAVES` take 70501, small blocks 47714."""


def plans(wish: Wish, target: Target) -> list[Plan]:
    """Candidates for what is open, the best first: the largest block, and for each block every schedule.

    Blocks: for products of few rows low ones (`few_rows`). Else 128 x 128, and 64 x 64 where the product has few
    rows or columns or many blocks are on their way from memory; 256 x 256 before that, for groups of waves that take
    turns, and where LDS would keep the matrix cores waiting (`pays_large`). Schedules: `PREFERRED`, before them groups
    that take turns where large blocks leave no compute unit idle that others would not, and for large blocks that are
    copied `COPIED` (`large_blocks`), behind them `WITHOUT_REGISTERS`. Waves: four; eight, two a SIMD, for large blocks
    that are not `COPIED`, where they take turns, and for whole steps of which each row is compared (`compares_rows`):
    with four, 1001 x 1003 x 999 with scales of 1x128 spilled 17 to 29 scalar registers.
    """
    schedules = _preferred(wish, target) if wish.schedule is None else (wish.schedule,)
    found = []
    if wish.block is not None:
        found = [Plan(name, wish.block, wish.waves or default_waves(name)) for name in schedules]
        narrow = [one._replace(columns=NARROW) for one in found if _is_large(one, target)]
        found = narrow * wish.crowded + found
    else:
        found = [*few_rows(wish, schedules, target), *few_blocks(wish, schedules, target)]
        if _has_many_single(wish):
            found.append(_short_step(wish, schedules[-1], target))
        if pays_copied_pairs(wish, target):
            depth = depth_of(LARGE, WITHOUT_REGISTERS, wish.dtype, target)
            found.append(Plan(WITHOUT_REGISTERS, (LARGE, LARGE, depth), EIGHT_WAVES))
        if _pays_deep(wish, target):
            found.append(Plan(PREFERRED_DEEP, (MEDIUM, MEDIUM, elements_in(DEEP_BYTES, wish.dtype)), FOUR_WAVES))
        found += large_blocks(wish, PREFERRED[0], target)
        last = (WITHOUT_REGISTERS,) * pays_copies(wish, WITHOUT_REGISTERS, EIGHT_WAVES, target)
        large = [(LARGE, name) for name in (*schedules, *last)]
        for size, name in (*large, *itertools.product((MEDIUM, SMALL), schedules)):
            if size in _sizes(wish, name, target):
                found += crowded(wish, size, name, target)
                waves = wish.waves or _waves(wish, size, name)
                whole = depth_of(size, name, wish.dtype, target)
                depth = min(whole, _deepest(wish, size, waves, target))
                if wish.compares_rows:  # short steps, if groups of scales are no longer; else few loads of a wave
                    found.append(Plan(name, (size, size, min(whole // 2, wish.compared_depth, depth)), waves))
                    waves = wish.waves or EIGHT_WAVES
                columns = _columns(wish, size, name, target)
                found.append(Plan(name, (size, size, depth), waves, columns))
                if depth > elements_in(STEP_BYTES[-1], wish.dtype) and _halves_steps(wish, size, target):
                    found.append(Plan(name, (size, size, depth // 2), waves, columns))
        if wish.computed and wish.arrays > 2:
            found.append(_short_step(wish, schedules[-1], target))
    if wish.schedule is None:
        found = [one for one in found if one.schedule not in TWO_STEPS or _room_for_two_steps(wish, one, target)]
    return found


def _preferred(wish: Wish, target: Target) -> tuple[str, ...]:
    """Schedules of blocks that have none of their own, the best first."""
    if wish.partial:
        first = COPIED_ALONE if _copies_alone(wish, target) else STRAIGHT if takes_straight(wish, target) else ""
        return (first, *PREFERRED_PARTIAL) if first else PREFERRED_PARTIAL
    if _runs_beside(wish, target):
        return PREFERRED_SHORT
    return (PLAIN, *PREFERRED) if goes_past_lds(wish, target) else PREFERRED


def _runs_beside(wish: Wish, target: Target) -> bool:
    """Whether sums are short, and compute units have several blocks to compute, of which they hold two at a time if
    each has one LDS buffer, and one if each has two. Not where workgroups share the steps of blocks: these are as many
    as the chip holds, and would have smaller shares. Classes of rows count as far as they have sums: by the model the
    gradient of 64 images of 28 x 28, 128 to 256 channels by 3 x 3 with strides, 392 blocks in four classes that
    count as three, takes 34749 cycles of `compv4` on gfx942, 41055 of `compv6`, on gfx90a 112884 and 96083.
    """
    plain = wish.arrays == 2 and not (wish.stays or wish.merged or wish.sparse or wish.computed)
    medium = wish.block is None and min(wish.m, wish.n) > SMALL
    able, words = target.mfmas(wish.dtype), find_dtype(accumulator_type(wish.dtype)).bytes // 4
    if not (plain and medium and able and words == 1 and wish.blocks(MEDIUM) > target.compute_units):
        return False
    return _holds_one(target) and 2 * MEDIUM * MEDIUM * wish.k <= MOST_OF_SHORT * target.mfma_rate(able[0])


def _copies_alone(wish: Wish, target: Target) -> bool:
    """Whether no compute unit has a second block that runs beside the first, and operands are copied to LDS as they
    lie, full vectors along K."""
    lies = wish.read_layout == "RC" and not wish.computed and wish.load_bytes == ACCESS_BYTES in target.direct_to_lds
    medium = wish.block is None and min(wish.m, wish.n) > SMALL and wish.arrays <= MOST_OF_ONE_PRODUCT
    return lies and medium and wish.group >= LEAST_GROUP_OF_COPIED and wish.blocks(MEDIUM) <= target.compute_units


def _holds_one(target: Target) -> bool:
    """Whether LDS holds one workgroup of 128 x 128 with two buffers of whole steps, and two with half of that."""
    buffer = 2 * MEDIUM * STEP_BYTES[0]
    return target.lds_bytes // (2 * buffer) == 1 < target.lds_bytes // buffer


def _halves_steps(wish: Wish, size: int, target: Target) -> bool:
    """Whether half a step is tried where registers have no room for a whole one, before a smaller block: of computed
    operands, if more than half of the compute units have a block. By the model, cycles of 64 x 64 and of this: 2048 x
    2048 x 512 of f16 on gfx942 128473, 77013; 1024 x 1024 x 1024, 64 blocks for 304 units, 38966, 75393.
    """
    return wish.computed and size == MEDIUM and 2 * wish.blocks(MEDIUM) > target.compute_units


def _has_many_single(wish: Wish) -> bool:
    """Whether A and B are made of many arrays that are loaded element by element: see `MANY_SINGLE`."""
    bits = bits_of(wish.dtype)
    return wish.computed and 8 * wish.load_bytes <= bits and wish.arrays >= MANY_SINGLE.get(bits, math.inf)


def _short_step(wish: Wish, schedule: str, target: Target) -> Plan:
    """What is left where a step of the small block has too many loads: i8 of three arrays each for A and B, in single
    bytes. With half as deep a step gfx90a keeps 104 scalar registers in lanes.
    """
    depth = depth_of(SMALL, schedule, wish.dtype, target) // 4
    return Plan(schedule, (SMALL, SMALL, depth), wish.waves or TALL_WAVES)


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


def _is_large(plan: Plan, target: Target) -> bool:
    """Whether the sums of a lane leave architectural registers none for terms that are crowded (`is_crowded`)."""
    return math.prod(plan.block[:2]) > MOST_FOR_TWO_STEPS * math.prod(plan.waves) * target.wave_size


def _columns(wish: Wish, size: int, schedule: str, target: Target) -> int:
    """Of the matrix instruction, 0 for any: few where terms are crowded, where B goes straight to registers, and as
    `narrow_for_scales` has it."""
    if size == LARGE:
        return NARROW if wish.crowded else 0
    straight = wish.schedule is None and schedule in (PLAIN, STRAIGHT)
    return NARROW if straight else narrow_for_scales(wish, target)


def narrow_for_scales(wish: Wish, target: Target) -> int:
    """Columns of the matrix instruction where they have scales of their own and a short one takes a whole group: its
    sums are scaled as they come, and a lane has half as many rows. 0: any.

    By the model on gfx950, 4096 x 4096 of fp8 with scales of 1x128 of both, which lanes hand on along their row, in
    cycles of 32 columns and of 16 with room for two waves a SIMD: K of 2048 112209, 85395; 4096, from where on LDS
    keeps A's scales, 207353, 144553; 7168 345785, 239675; where scales lie from row to row, 4096 185313, 125279; f32
    stored, 2048 116386, 91343; B of i4 with zero points, 4096 419609, 254457; RRR, 4096, 222633, 164225. A transposed A
    leaves one wave a SIMD: with both transposed 2048 x 2048 x 2048 takes 30951, 32237, 4096 x 4096 x 4096 218489,
    211157; A alone (CRR), which has the long one, 33433, 35539 and 229993, 237461, 1024 x 1024 x 4096 56446, 57626.
    """
    across = wish.layout[:2] == "CR"
    return NARROW if wish.column_scales and takes_group(wish, target) and not across else 0


def _sizes(wish: Wish, schedule: str, target: Target) -> tuple[int, ...]:
    """Rows and columns that blocks may have under a schedule."""
    plan = parse_schedule(SCHEDULES[schedule])
    if min(wish.m, wish.n) <= SMALL or plan.ahead_of("load") > MOST_LARGE_BLOCKS:
        return (SMALL,)
    if wish.arrays > 2 and wish.compares_rows:
        return (SMALL,)
    # Accumulators of both, and narrow loads beside them, may ask for the small one.
    usual = (MEDIUM, SMALL) if wish.arrays > 2 else (MEDIUM,)
    takes_turns = plan.order == PING_PONG and min(wish.m, wish.n) > MEDIUM
    one = wish.arrays == 2 or wish.weights
    return (LARGE, *usual) if one and (takes_turns or pays_large(wish, schedule, EIGHT_WAVES, target)) else usual


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
    return open_ and deep and wish.load_bytes >= NARROWEST_FOR_DEEP and bound_by_lds(PREFERRED[0], wish.dtype, target)


def _waves(wish: Wish, size: int, schedule: str) -> tuple[int, int]:
    """Of a block of this size, where nothing is crowded.

    Packed elements that are turned take registers before and behind: on gfx950 fp6 in CRR spilled 83 with blocks of 128
    x 128 by four waves, and eight take 158; u4 with zero points and scales of 1x128 took 452 and spilled 4.
    """
    if wish.numbered or (wish.turned and size == MEDIUM):
        return TALL_WAVES
    if _converts_columns(wish, size, schedule):
        return EIGHT_WAVES if wish.partial else SIDE_BY_SIDE
    if schedule == PLAIN and wish.schedule is None:
        return SIDE_BY_SIDE
    return EIGHT_WAVES if size == LARGE else default_waves(schedule)


def _deepest(wish: Wish, size: int, waves: tuple[int, int], target: Target) -> int:
    """Along K a step of a block of this size at most, a power of two: short where both operands are `numbered`, which
    read more arrays, for many loads of single elements (`MANY_MIXED`), and where that leaves a compute unit two
    workgroups that compute operands (`NARROWEST_FOR_SHORT_STEPS`).
    """
    if not wish.numbered:
        of_bytes = bits_of(wish.dtype) <= 8
        wide = wish.layout[:2] == "RC" and wish.load_bytes >= NARROWEST_FOR_SHORT_STEPS
        beside = of_bytes and wish.computed and wide and _holds_one(target)
        mixed = wish.mixed * (2 if of_bytes or wish.arrays >= MANY_ARRAYS else 1)
        single = wish.computed and wish.arrays > 2 and 8 * wish.load_bytes <= bits_of(wish.dtype) == 16
        many = (beside or mixed >= MANY_MIXED or single) and size == MEDIUM
        return elements_in(STEP_BYTES[1], wish.dtype) if many else LONGEST_STEP
    most = MOST_NUMBERED // wish.numbered * math.prod(waves) * target.wave_size // (2 * wish.numbered * size)
    return max(1 << most.bit_length() - 1, elements_in(STEP_BYTES[-1], wish.dtype))


def _converts_columns(wish: Wish, size: int, schedule: str) -> bool:
    """Whether waves convert columns of B on their way to registers, see `SIDE_BY_SIDE`."""
    straight = parse_schedule(SCHEDULES[schedule]).path_of("b") == "straight"
    plain = wish.layout[0] == "R" and wish.load_bytes >= NARROWEST_FOR_TWO_STEPS
    return wish.converts and straight and plain and size == MEDIUM


def _room_for_two_steps(wish: Wish, plan: Plan, target: Target) -> bool:
    """Whether registers, scalar ones too, have room for the steady loop of two steps that two LDS buffers take."""
    words = find_dtype(accumulator_type(wish.dtype)).bytes // 4
    accumulators = plan.block[0] * plan.block[1] * words // (math.prod(plan.waves) * target.wave_size)
    narrow = wish.load_bytes < NARROWEST_FOR_TWO_STEPS or wish.compares_rows or wish.turned or any(wish.reads_turn)
    return not narrow and accumulators <= MOST_FOR_TWO_STEPS
