"""Plans where four waves have no registers for what lies beside operands and sums."""

from __future__ import annotations

from collections.abc import Iterator

from ckmlir.ops.contraction.block_depths import depth_of
from ckmlir.ops.contraction.block_sizes import FOUR_WAVES, LARGE, MEDIUM, NARROW, SMALL, TALL_WAVES
from ckmlir.ops.contraction.wishes import NARROWEST_FOR_TWO_STEPS, Plan, Wish
from ckmlir.ops.schedules import GEMM as SCHEDULES
from ckmlir.ops.schedules import parse as parse_schedule
from ckmlir.targets import Target
from ckmlir.targets.cdna import ACCESS_BYTES

MANY_GROUPS = 4
"""Of scales in a step, at least: beside them and the offsets of loads a long instruction's sums have no registers."""


def crowded(wish: Wish, size: int, schedule: str, target: Target) -> Iterator[Plan]:
    """Plans of eight waves where four have no registers for what lies beside operands and sums; none where waves are
    named.

    That is the scales of a step that holds several groups. Where columns have scales of their own, the matrix
    instruction is short if both operands are read along K, if a long one takes a whole group (RRR on gfx950: 1x64
    spilled 4, with k = 130 72), or if there are many groups and loads are no full vectors (1x32 in RRR, k = 130: 27 on
    gfx950; k = 260: 23 on gfx942); elsewhere the long one takes fewer cycles (by the model on gfx950, 1024 x 1024 x
    1024 in CCR with 1x32: 30200 instead of 35990). Where both are transposed, or B goes straight to registers, also
    beside narrow loads and scales of columns (bf8, k = 1, 1x128 spilled 124 by eight waves on gfx942), where single
    bytes lie beside 1x32 of columns (RRR, k = 333, spilled 2 to 4), and where eight waves do not fit either, blocks are
    small: i8 of single bytes in RRR with 1x64 of A spilled 28 on gfx90a by four waves. It is loads of few bytes, with
    their offsets, beside scales or a second matrix; and a transposed A beside partial sums and a B that goes straight
    to registers.

    By the model, 2048 x 2048 x 2048 with scales of 1x32 of both, cycles of four waves and of this: fp8 48590, 45406 on
    gfx942, 47857 (2 spilled), 44755 on gfx950, i8 308808, 264920 on gfx90a. 1x64 on gfx942 42272, 36962. 1x32 and
    128x128 35938, 34862. These were not measured again since lanes hand scales of columns on along their row: 1x32 and
    128x128 with the short instruction 38324. Powers of two on gfx942, bf8 in CRR 126674, 91253 (with 21 registers
    spilled, and none). 500 x 512 x 333 gated, with 1x32 of all on gfx942: 26194, 26730 (45 spilled, and none). B of fp8
    in fragment order with 1x64 on gfx950, eight waves, which spilled 114, and small blocks: 113947, 29641.
    """
    if wish.waves or wish.compares_rows or size == LARGE or wish.arrays == 2 or wish.numbered:
        return
    depth, narrow = depth_of(size, schedule, wish.dtype, target), wish.load_bytes < NARROWEST_FOR_TWO_STEPS
    groups = size == MEDIUM and 0 < wish.group < depth
    straight = parse_schedule(SCHEDULES[schedule]).path_of("b") == "straight"
    small = Plan(schedule, (SMALL, SMALL, depth), TALL_WAVES if narrow else FOUR_WAVES)
    columns_beside_bytes = narrow and straight and wish.column_scales
    along, many = wish.layout[:2] == "RC", wish.group * MANY_GROUPS <= depth
    bytes_across = wish.load_bytes == 1 and many and wish.column_scales and not along
    if columns_beside_bytes or (groups and (straight or wish.layout[:2] == "CR" or bytes_across)):
        yield small
        if columns_beside_bytes:  # tiles of 32 columns are 32 rows high, of which eight waves find none
            yield small._replace(waves=FOUR_WAVES)
    elif groups or narrow or (wish.partial and straight and wish.layout[0] == "C"):
        whole = any(one.n > NARROW and one.k == wish.group for one in target.mfmas(wish.dtype, wish.dtype))
        beside_loads = many and wish.load_bytes < ACCESS_BYTES
        columns = NARROW if groups and wish.column_scales and (along or beside_loads or whole) else 0
        yield Plan(schedule, (size, size, depth), TALL_WAVES, columns)
        if (groups and narrow) or ((groups or narrow) and wish.column_scales):
            yield small
