"""How a block gets from accumulators to memory where the request leaves that open: through LDS or not, in slices."""

from __future__ import annotations

import itertools
import math
from functools import lru_cache

from ckmlir.ops.contraction.contraction_spec import SCALARS, ContractionSpec, computing_type
from ckmlir.ops.contraction.side import MOST, NAMES, SideSpec
from ckmlir.ops.contraction.wishes import Plan, bits_of, is_crowded, matrices_of, plan_of
from ckmlir.ops.dtypes import find_dtype
from ckmlir.ops.schedules import GEMM as SCHEDULES
from ckmlir.ops.schedules import parse as parse_schedule
from ckmlir.ops.tensors.expression import parse
from ckmlir.ops.tensors.linearity import is_linear
from ckmlir.targets.cdna import WAVE_SIZE

LARGEST_THROUGH_LDS = 128 * 128
"""Elements of C; larger blocks may not fit LDS."""
MOST_AT_ONCE = 32
"""Elements of a work-item that an expression takes at once, half of it beside more than `ACCUMULATORS_WITH_ROOM`: its
terms and D tensors stand beside the accumulators that are still to come. With 64 of 128 at once, a GELU with bias and
residual spills 157 registers on gfx950, with 32 it spills 30."""
ACCUMULATORS_WITH_ROOM = 64
MOST_CROWDED = 8
"""The same beside so many accumulators where terms are crowded (`is_crowded`), half of it where all D tensors are
matrices: with all of it, single elements of four in f32 spilled 5 on gfx950."""
MOST_TOLD = 48
"""Elements of a work-item that one product has at once where a list tells rows and C goes straight to memory: D tensors
are columns or rows, and what tells rows is asked for at once. By the model on gfx950, bf16, down of 4096 tokens of 4
among 32 experts, n = 1024, k = 512, in blocks of 96 x 128 by four waves side by side, in us as a whole, in two parts
and in three below each other: 17.4, 18.0 and 18.0, added by memory 18.2, 20.0 and 20.2, rows in f32 20.2, 20.8 and
21.4; gate and up 29.9, 29.6 and 29.6. Not what is not linear in the sums: 8 experts of 2, n = k = 1024, a GELU with a
bias, which leaves registers for two workgroups then, 26.7 and 17.6, a SiLU 16.8 and 16.3."""
MOST_SLICED = 128
"""Accumulators of a lane beside which slices do not pay: with 256 a GELU with bias keeps 12 scalar registers in lanes
on gfx950, and GELU of 4096 x 4096 x 4096 in bf16 takes 177761 cycles by the model, 168764 straight from them."""

STORE_BYTES = 16
"""Of a lane at a time, where C goes through LDS."""


def default_epilogue(plan: Plan, *, computed: bool = False) -> str:
    """Through LDS; larger blocks of C than 128 x 128 may not fit there and go straight from the accumulators. What an
    expression computes goes through LDS in slices, since it reads D tensors as C is written; but not where lanes have
    more than `MOST_SLICED` accumulators.
    """
    if plan.along_k > 1:
        return "direct"
    size = plan.block[0] * plan.block[1]
    sliced = computed and size <= MOST_SLICED * math.prod(plan.waves) * WAVE_SIZE
    return "cshuffle" if sliced or size <= LARGEST_THROUGH_LDS else "direct"


def slices_of(spec: ContractionSpec) -> tuple[int, int]:
    """What `default_slices` gives for a kernel, whatever slices it has; (1, 1) where C goes straight to memory as it is
    summed, or where waves along K have added their sums through LDS.
    """
    computed = bool(spec.op) or spec.dtype == "f64"
    if spec.along_k > 1 or (spec.epilogue == "direct" and not computed):
        return 1, 1
    element = find_dtype(computing_type(spec.dtype) if computed else spec.out).bytes
    sides = [SideSpec.parse(text) for text in spec.side]
    most = MOST_AT_ONCE // 2
    if is_crowded(sides, spec.out, spec.align[2]):
        most = MOST_CROWDED if matrices_of(sides) < MOST else MOST_CROWDED // 2
    down, across = default_slices(
        plan_of(spec), spec.mfma, spec.dtype, spec.products, element, most, computed=computed
    )  # fmt: skip
    return _of_told_rows(spec, down, across) if spec.listed else (down, across)


def _of_told_rows(spec: ContractionSpec, down: int, across: int) -> tuple[int, int]:
    """The parts of a block whose rows a list tells: side by side where each wave has all rows, and no more than lanes,
    since what tells them is then loaded once. By the model on gfx950, bf16, down of 4096 tokens of 4 among 32 experts,
    n = 1024, k = 512, in blocks of 64 x 128, in us with two parts below each other and with four side by side: 34.4 and
    32.1, k = 256 25.3 and 23.3, added by memory in f32 34.9 and 32.8, in bf16 29.6 and 28.8; 1000 tokens of 2 among 8,
    n = 4096 18.1 and 18.3. In blocks of 144 rows, in units as high, 26.6 with three parts below each other and 27.6.
    Higher ones that go straight to memory have parts as wide as the block, if a lane has `MOST_AT_ONCE` elements of it
    at most: 160 x 256 with rows in bf16 18.7, where ten parts take 19.3 and load what tells rows twice.
    """
    if spec.waves[0] == 1 and spec.block[0] <= WAVE_SIZE and down * across > 1:
        return 1, spec.block[1] // (spec.waves[1] * spec.mfma[1])
    if _at_once(spec):
        return 1, 1
    of_lane = spec.products * spec.block[0] * spec.block[1] // (down * math.prod(spec.waves) * WAVE_SIZE)
    if spec.waves[0] == 1 and spec.epilogue == "direct" and of_lane <= MOST_AT_ONCE:
        return down, 1
    return down, 2 * across if _added_one_by_one(spec, across) else across


def _at_once(spec: ContractionSpec) -> bool:
    """Whether a block whose rows a list tells goes to memory as a whole (`MOST_TOLD`)."""
    whole = spec.block[0] * spec.block[1] // (math.prod(spec.waves) * WAVE_SIZE)
    if spec.waves[0] > 1 or spec.epilogue != "direct" or spec.products > 1 or whole > MOST_TOLD:
        return False
    return is_linear(parse(spec.op, (*spec.accumulators, *NAMES, *SCALARS)), spec.accumulators)


def stored_vector(spec: ContractionSpec) -> int:
    """Elements of C that a lane stores at once, where C goes through LDS."""
    return min(spec.align[2], STORE_BYTES // find_dtype(spec.out).bytes)


def _added_one_by_one(spec: ContractionSpec, across: int) -> bool:
    """Whether a wave adds one row at a time, with numbers of rows that a list tells; in parts half as wide it adds two.
    Scalar registers would hold which row it is, and its numbers: up to 63 were kept in lanes of vector registers behind
    the loop. By the model, i8, 4096 tokens of 2 among 8 experts, n = 1026, k = 1024, and of 4 among 32, k = 512, in us
    with two parts and with four: 20.9 and 20.5, 49.9 and 46.2 on gfx942; 147 and 144, 175 and 169 on gfx90a; 18.0 and
    16.9, 30.7 and 29.4 on gfx950.
    """
    if spec.sink != "atomic" or spec.epilogue == "direct" or not any(name in NAMES for name in spec.listed):
        return False
    columns = spec.block[1] // across
    return columns == WAVE_SIZE * stored_vector(spec) and columns % (2 * spec.waves[1] * spec.mfma[1]) == 0


def default_slices(
    plan: Plan, mfma: tuple[int, int, int], dtype: str, products: int, element: int, most: int, *, computed: bool
) -> tuple[int, int]:
    """Parts of the block's rows and columns that go through LDS one after the other: as few as take no more LDS than
    the loop does, if there are such; a part has at least the rows and columns that all waves' matrix instructions have
    at once.

    Args:
        element: bytes of an element in LDS. Rows of less than 4 bytes an element are skewed, so that a block as large
            as the loop's LDS would take a little more, and one workgroup less may fit on a compute unit.
        most: elements of a work-item at once, beside more than `ACCUMULATORS_WITH_ROOM`.
        computed: by an expression: parts then take no more registers than there is room for, either.
    """
    rows, columns, depth = plan.block
    schedule, size = parse_schedule(SCHEDULES[plan.schedule]), bits_of(dtype)
    sides = (("a", rows), *[("b", columns)] * products)
    loop = sum(
        schedule.buffers_of(tensor) * length * depth * size // 8
        for tensor, length in sides
        if schedule.path_of(tensor) != "straight"
    )
    elements, threads = products * rows * columns, math.prod(plan.waves) * WAVE_SIZE
    room = (loop - (element < 4)) // element
    if computed:
        at_once = MOST_AT_ONCE if elements * element // 4 // threads <= ACCUMULATORS_WITH_ROOM else most
        room = min(room, at_once * threads * 4 // element)
    down, across = max(rows // (plan.waves[0] * mfma[0]), 1), max(columns // (plan.waves[1] * mfma[1]), 1)
    return _fewest(down, across, elements, room)


@lru_cache(maxsize=4096)
def _fewest(down: int, across: int, elements: int, room: int) -> tuple[int, int]:
    """Parts of which each has at most `room` elements, as few as there are; else all that rows and columns can be cut
    into.
    """
    cuts = list(itertools.product(_divisors(down), _divisors(across)))
    able = [cut for cut in cuts if elements // math.prod(cut) <= room]
    if not able:
        return max(cuts, key=math.prod)
    return min(able, key=lambda cut: (math.prod(cut), cut[1]))


def _divisors(number: int) -> list[int]:
    return [one for one in range(1, number + 1) if number % one == 0]
