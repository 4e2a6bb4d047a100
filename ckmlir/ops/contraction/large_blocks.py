"""Plans of blocks of 256 rows or columns, for products that keep the compute units busy with them."""

from __future__ import annotations

from collections.abc import Iterator

from ckmlir.ops.contraction.block_depths import bound_by_lds, depth_of
from ckmlir.ops.contraction.block_sizes import EIGHT_WAVES, FOUR_WAVES, LARGE, MEDIUM, NARROW, SMALL, TALL_WAVES
from ckmlir.ops.contraction.contraction_spec import stored_type
from ckmlir.ops.contraction.few_rows import filled
from ckmlir.ops.contraction.wishes import Plan, Wish, bits_of
from ckmlir.ops.dtypes import find_dtype
from ckmlir.ops.scalars import ceil_div
from ckmlir.targets import Target
from ckmlir.targets.cdna import ACCESS_BYTES

COPIED = "async_wide_carried"
"""What large blocks have where both operands go straight to LDS as they lie: four waves read half as much of LDS as
eight, and copies need no registers. By the model on gfx950, 4096 x 4096 x 4096 in cycles of eight waves with
`PREFERRED` and of this: bf16 163116, 149586; fp8 (`WITHOUT_REGISTERS`) 94313, 82908. Slots that are constants
(`async_wide`) take 148476 and 82872, for three times the time to compile; `async_late` 150996 and 84835. By the last:
what ends behind K gains as much (K of 4104 in rows of 4160 164888, 154263), but not rows that begin within a cache
line, of which each step takes two (4104 in rows of 4104 190200, 195713). So do expressions (GELU 182148, 168764), but
not those that read a matrix, for which four waves have fewer loads on their way (GELU with bias and residual 187886,
195715). Stores of single elements spill scalar registers beside 256 accumulators of a lane.

fp4 with powers of two in tiles takes 49608 cycles so, by eight waves, whose reads keep LDS busy as long as the matrix
cores, 55486, by `async_wide` 52907, by `async_late` 54994; with powers in rows 64941, by eight waves 74094."""
COPIED_APART = "async_wide_last"
"""The same for floats of 8 bits and fewer, whose stores are a larger part of the whole: those of a block, which memory
takes 12000 cycles for, begin under its last products. By the model on gfx950, 4096 x 4096 x 4096 in cycles of `COPIED`
and of this: fp4 with powers of two in tiles 48069, 46697, in rows 61889, 60808; fp8 81367, 79382. bf16 148189, 146221,
which is not worth a quarter more of the time to compile; i8 94121, 92205, but with scales of rows and columns it spills
three registers."""
COPIED_BY_DIGITS = "async_late"
"""The same where digits go round the loop, which advance once for its two steps: by the model on gfx950, 3 x 3
convolutions of 32 images of 56 x 56 with 128 to 256 channels 105179 cycles, by `COPIED` 106946."""
WITHOUT_REGISTERS = "ping_pong_async"
"""What eight waves are left with where the matrix instruction's own vectors take the registers of tiles that are on
their way: those go straight to LDS. By the model on gfx950, fp8 of 4096 x 4096 x 4096: 70 % of the peak, 63 % with
`PREFERRED` and 128 x 128."""
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
RATE_OF_WEIGHTS = 12_000
"""Where large blocks convert weights of 4 bits once for twice as many rows, that is 1 and the matrix cores' operations
a cycle over this: 1.09 on gfx90a, 1.17 on gfx942, 1.34 on gfx950. By the model, cycles of 128 x 128 and of what is
chosen, i4 with scales of 1x128 in f16, and with zero points in bf16: 4096 x 4096 x 4096 on gfx942 380081, 257144 and
451785, 270894, on gfx950 243611, 182107 and 271899, 185075, on gfx90a 1451340, 1416146 and 1594380, 1428562; 2048 x
5120 x 5120, whose blocks of 256 x 256 have .75 of the use, on gfx950 258086, 219621."""
TALL = "compv3"
"""The schedule of blocks of 256 x 128 by eight waves where no larger ones pay for such weights: 2048 x 4096 x 4096 on
gfx942 191653, 167235 and 227505, 176721. On gfx950 fp4 takes 1.01 of the cycles so, i4 .93: not there."""


def large_blocks(wish: Wish, preferred: str, target: Target) -> Iterator[Plan]:
    """Plans of large blocks that come before all others, the best first: groups of waves that take turns, and operands
    that are copied straight to LDS. `preferred`: the schedule of other blocks.
    """
    if _pays_turns(wish, preferred, target):
        yield _turns(wish, target)
    elif _pays_tall(wish, preferred, target):
        yield Plan(TALL, (LARGE, MEDIUM, depth_of(LARGE, TALL, wish.dtype, target)), TALL_WAVES)
    copied = COPIED_BY_DIGITS if wish.merged else COPIED_APART if _is_small_float(wish.dtype) else COPIED
    depth = depth_of(LARGE, copied, wish.dtype, target)
    long = _is_long(wish, depth)
    alone = (wish.powers and wish.k % depth == 0) or (wish.arrays == 2 and wish.in_lines)
    stored = not (wish.matrices or wish.single)
    if alone and stored and long and pays_copies(wish, copied, FOUR_WAVES, target):
        yield Plan(copied, (LARGE, LARGE, depth), FOUR_WAVES)


def pays_large(wish: Wish, schedule: str, waves: tuple[int, int], target: Target) -> bool:
    """Whether blocks of 256 x 256 pay: with smaller ones LDS would be busy as long as the matrix cores, there is a
    block for every compute unit, LDS holds its buffers at full depth, and these waves have the registers for it.

    Eight waves hold 128 accumulators beside the loads, which have to be full vectors. What is left is enough for two
    operands that are transposed on their way, for one of 8 bits that reads of LDS do not turn, or for sizes that blocks
    do not divide; but not for elements of 8 bits that are computed on their way (a sum of nine terms of i8 spilled 4 on
    gfx950).
    """
    bits8, deepest = bits_of(wish.dtype) <= 8, depth_of(SMALL, schedule, wish.dtype, target)
    transposed = (wish.read_layout[0] == "C") + (wish.read_layout[1] == "R")
    ragged = any(size % step for size, step in ((wish.m, LARGE), (wish.n, LARGE), (wish.k, deepest)))
    return (
        _has_enough(wish, target)
        and wish.load_bytes == ACCESS_BYTES
        and transposed * (1 + (bits8 and not target.transposed_elements(8))) + 2 * ragged <= 2
        and not (wish.computed and bits8)
        and depth_of(LARGE, schedule, wish.dtype, target) == deepest
        and wish.waves in (None, waves)
        and bound_by_lds(schedule, wish.dtype, target)
    )


def pays_copied_pairs(wish: Wish, target: Target) -> bool:
    """Whether a product with a sparse A has large blocks that are copied straight to LDS, by eight waves: these use the
    compute units as well as those of 128 x 128 do.

    By the model on gfx950, cycles of 128 x 128 with steps of 256 bytes of B and of this: 4096 x 4096 x 4096 of fp8
    132221, 106856, in RRR 131626, 106864; 8192 x 4096 x 2048 147269, 120692; 4096 x 4096 x 2048 of i8 in RRR 81665,
    74049, of f16 107065, 93165. Where they fill less, 4352 x 4096 x 1024, 57346, 75774. Single elements beside matrices
    take registers that the index has: GELU with bias and residual spilled 1 to 101.
    """
    able = wish.sparse and not (wish.single and wish.matrices)
    able = able and pays_copies(wish, WITHOUT_REGISTERS, EIGHT_WAVES, target)
    return able and _pays_size(wish, LARGE, LARGE, target)


def _has_enough(wish: Wish, target: Target) -> bool:
    """Whether there is a block of 256 x 256 for every compute unit, or weights make up for those that are idle."""
    enough = ceil_div(wish.m, LARGE) * ceil_div(wish.n, LARGE) >= target.compute_units
    return enough or (wish.weights and 0 not in (wish.m, wish.n) and _pays_size(wish, LARGE, LARGE, target))


def pays_copies(wish: Wish, schedule: str, waves: tuple[int, int], target: Target) -> bool:
    """Whether an open schedule may copy large blocks straight to LDS: both operands lie along K, or reads of LDS turn
    them.

    By the model on gfx950, 4096 x 4096 x 4096, cycles of `compv4` and of copies: fp8 in CRR 126347, 79198; RRR 125607,
    79238; f16 in RRR 162878, 146944.
    """
    dtype = find_dtype(stored_type(wish.dtype))
    turned = dtype.packing is None and target.transposed_elements(dtype.bits) > 0
    able = wish.schedule is None and (turned or wish.read_layout == "RC")
    return able and pays_large(wish, schedule, waves, target)


def _pays_turns(wish: Wish, preferred: str, target: Target) -> bool:
    """Whether groups of waves that take turns at large blocks pay: steps are whole, loads full vectors along K, and
    large blocks use the compute units as well as those of 128 x 128 do. For elements of at most 16 bits, but not where
    they are computed on their way: those of a step come together, and SiLU of A spilled 31 at 224 x 256 on gfx942.

    By the model on gfx942, of 256 x 256 against the preferred schedule at 128 x 128: 4096 x 4096 x 4096 .92 in f16, .91
    in bf16 and fp8; 4864 x 4096 x 4096 .93; where they fill less, 8192 x 8192 x 8192 1.04, 3072 x 3072 x 3072 1.15. Of
    those of `TURNED` that fill most, sizes that they do not divide: 7390 x 4536 x 2112 twice with GELU, bias and a
    factor .85; fp8 of 8192 x 2179 x 1024 .86. On gfx90a 1993 x 2324 x 4096 1.00, i8 of 5080 x 2048 x 1024 .97; by 256 x
    256 2048 x 3328 x 4096 .99. Where LDS is the limit of 16-bit products turns do not help, 1.31 of `compv4` with the
    same block on gfx950; of 8-bit products there 1.01.
    """
    room = not (wish.arrays > 2 or wish.computed) or (wish.weights and not wish.rounds_wide)
    if not (room and _allows_turns(wish, preferred, target)):
        return False
    rows, columns, _ = _turns(wish, target).block
    return _pays_size(wish, rows, columns, target)


def _pays_tall(wish: Wish, preferred: str, target: Target) -> bool:
    """See `TALL`."""
    able = wish.weights and wish.waves is None and _allows_turns(wish, preferred, target)
    return able and _pays_size(wish, LARGE, MEDIUM, target)


def _allows_turns(wish: Wish, preferred: str, target: Target) -> bool:
    """What `_pays_turns` asks of plan, operands and chip."""
    if wish.schedule is not None or wish.waves not in (None, EIGHT_WAVES):
        return False
    if wish.layout[:2] != "RC" or wish.load_bytes < ACCESS_BYTES or bits_of(wish.dtype) > 16:
        return False
    if 0 in (wish.m, wish.n, wish.k) or wish.k % depth_of(LARGE, PING_PONG, wish.dtype, target):
        return False
    return not bound_by_lds(preferred, "f16", target)


def _pays_size(wish: Wish, rows: int, columns: int, target: Target) -> bool:
    """Whether blocks use the compute units about as well as those of 128 x 128 do: see `GAIN_OF_TURNS`."""
    gain = 1 + target.mfma_rate(target.mfmas(wish.dtype)[0]) / RATE_OF_WEIGHTS if wish.weights else GAIN_OF_TURNS
    return _use(wish, rows, columns, target) * gain >= _use(wish, MEDIUM, MEDIUM, target)


def _turns(wish: Wish, target: Target) -> Plan:
    """Groups of waves that take turns at the blocks of `TURNED` that leave the fewest compute units idle, of those that
    the waves divide. The index of a sparse A takes the registers of a wave's seventh tile (GELU with bias and residual
    spilled 14). Where terms are crowded the largest one has none left (`is_crowded`). Single elements, straight from
    256 x 192, keep four scalar registers in lanes in a batch. Seven tiles of columns of weights of 4 bits are converted
    in pieces that leave no room either (i4 with zero points, GELU with bias and residual spilled 46).
    """
    found = [
        Plan(PING_PONG, (*size, depth_of(LARGE, PING_PONG, wish.dtype, target)), waves, NARROW if wish.crowded else 0)
        for size in TURNED
        if wish.waves in (None, waves := EIGHT_WAVES if size[1] == LARGE else TALL_WAVES)
        if not (wish.sparse and SEVEN in size)
        if not (wish.crowded and size == (LARGE, LARGE))
        if not (wish.single and size == (LARGE, 192))
        if not (wish.weights and size == (LARGE, SEVEN))
    ]
    return max(found, key=lambda one: _use(wish, one.block[0], one.block[1], target))


def _use(wish: Wish, rows: int, columns: int, target: Target) -> float:
    """The share of the compute units' rounds in which blocks of a size compute elements that there are."""
    down, across = ceil_div(wish.m, rows), ceil_div(wish.n, columns)
    return filled(down * across * wish.batch, target) * (wish.m * wish.n) / (down * rows * across * columns)


def _is_small_float(dtype: str) -> bool:
    """Of 8 bits and fewer."""
    return bits_of(dtype) <= 8 and dtype != "i8"


def _is_long(wish: Wish, depth: int) -> bool:
    """Whether K is as many steps as make up for the longer way into the loop.

    By the model on gfx950, 4096 x 4096 in bf16, in cycles of eight waves with `PREFERRED` and of four: K of 64 17308
    and 19776, of 256 25896 and 26136, of 1024 53340 and 51108.
    """
    return wish.k >= LEAST_STEPS_OF_COPIED * depth
