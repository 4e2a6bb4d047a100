"""Products whose B goes past LDS, straight to registers, where LDS would be busy longer than all else."""

from __future__ import annotations

from ckmlir.ops.contraction.block_depths import bound_by_lds, depth_of
from ckmlir.ops.contraction.block_sizes import MEDIUM, NARROW, SMALL
from ckmlir.ops.contraction.wishes import Wish, elements_in
from ckmlir.targets import Target
from ckmlir.targets.cdna import ACCESS_BYTES

STRAIGHT = "straight_single"
"""The schedule of sums of groups, each of which one instruction takes (`takes_straight`): a step reads and writes half
as much of LDS, which is busy almost all the time otherwise, while L1 has time to give B to both waves of a column. By
the model on gfx950, fp8 of 4096 x 4096, cycles of `compv3` and of this: scales of 1x128 and 128x128, K of 2048 70822,
68969; 4096 128889, 118356; 7168 215589, 199032; of 1x128 both, 2048 84717, 71030; 4096 142773, 119022; 7168 237668,
209780. Rows that begin within a cache line lose, since L1 gives more of them: K of 4112 in rows of 4112, stored in f32,
200926, 242901, in rows of 4224 142557, 130266. Scales of A from row to row leave out what is kept for B's blocks:
120673, 129213."""
LEAST_STEPS_OF_STRAIGHT = 16
"""Of a loop that has them."""
LEAST_LOAD_OF_STRAIGHT = 4
"""Scales that follow each other along K of a load, where columns have scales too: each load has an offset in a register
through the steps. With one and two registers leave room for one wave of a SIMD, K of 2176 104000 cycles instead of
87000."""
PLAIN, REQUEST_BYTES = "straight", 64
"""The schedule of plain products (`goes_past_lds`), and what L1 gives at a time. Waves lie side by side: LDS, which is
busy 92 % of the loop otherwise, holds no B then, and A for four waves. By the model on gfx950, cycles of `compv4` and
of this: bf16 3072 x 3072 x 4096 179006, 160705, 2048 x 2048 x 4096 69273, 66903; fp8 99356, 90535 and 40863, 37793; i8
96236, 86544; f16 2048 x 4096 x 1024 36130, 30791, 2048 x 2048 x 512 15087, 14039; forward convolution of 32 images of
20 x 20, 256 to 256 channels by 3 x 3, 44838, 41690; stream-K of 3072 x 3072 x 4096 in f16 152465, 131317. Waves two by
two, which take each column of B twice, take 191877, with one LDS buffer 171485; 32x32x16, whose lanes take half a
request of L1, 226421."""
LEAST_STEPS_OF_GROUPS = 4
"""Of the longest product of a group: with short ones workgroups that stay wait for what stands in front of a block's
loop. By the model on gfx950, eight products of up to 2048 x 2048 in f16, cycles of `compv4` and of this, one workgroup
for each block and workgroups that stay: K of 32 to 128 40459, 37997 and 32900, 33883; 64 to 1024 36872, 32613 and
34161, 31409; 512 to 4096 123856, 104257 and 126295, 110058."""
MOST_OF_ONE_PRODUCT = 4
"""Arrays that its loop loads: A, B, and scales of both."""


def takes_straight(wish: Wish, target: Target) -> bool:
    """Whether compute units have several blocks, for long sums of full vectors along K, as they lie, whose groups one
    short instruction takes; of one product, since registers have no room beside what finds the blocks of many.
    """
    lies = wish.read_layout == "RC" and wish.in_lines and not (wish.computed or wish.converts)
    medium = wish.block is None and wish.waves is None and min(wish.m, wish.n) > SMALL
    depth = depth_of(MEDIUM, STRAIGHT, wish.dtype, target)
    long = wish.k >= LEAST_STEPS_OF_STRAIGHT * depth and wish.blocks(MEDIUM) > target.compute_units
    alone = not (wish.stays or wish.products)
    room = wish.scale_load >= (LEAST_LOAD_OF_STRAIGHT if wish.column_scales else 1)
    return alone and lies and medium and long and wish.group == depth and takes_group(wish, target) and room


def goes_past_lds(wish: Wish, target: Target) -> bool:
    """Whether LDS would be busy as long as the matrix cores with blocks of 128 x 128, and B may go straight to the
    registers of waves side by side: one plain product, be it by stream-K, or a group of them, in full vectors along K,
    where lanes of a short instruction take whole requests of L1; also one of patches where a step has one place of the
    window.
    """
    steps = LEAST_STEPS_OF_GROUPS if wish.products else 0
    long = wish.k >= steps * depth_of(MEDIUM, PLAIN, wish.dtype, target)
    return wish.factors == 1 and long and min(wish.m, wish.n) > SMALL and may_go_past_lds(wish, target)


def may_go_past_lds(wish: Wish, target: Target) -> bool:
    """What `goes_past_lds` asks of one matrix B or two: of how they lie, and of the chip."""
    lies = wish.read_layout == wish.layout[:2] == "RC" and wish.in_lines and wish.load_bytes == ACCESS_BYTES
    other = wish.merged or wish.sparse or wish.computed or wish.converts or wish.powers
    plain = wish.arrays == 1 + wish.factors and not other
    open_ = wish.block is None and wish.waves is None
    request = elements_in(REQUEST_BYTES, wish.dtype)
    whole = any(one.n == NARROW and one.k >= request for one in target.mfmas(wish.dtype))
    return lies and plain and open_ and whole and bound_by_lds("compv4", wish.dtype, target)


def takes_group(wish: Wish, target: Target) -> bool:
    """Whether a short instruction takes a whole group of one product, in full vectors."""
    whole = any((one.n, one.k) == (NARROW, wish.group) for one in target.mfmas(wish.dtype, wish.dtype))
    return whole and wish.arrays <= MOST_OF_ONE_PRODUCT and wish.load_bytes >= ACCESS_BYTES
