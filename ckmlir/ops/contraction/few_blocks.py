"""Plans of products of more than 64 rows that have fewer blocks of 128 x 128 than the chip has compute units.

Smaller blocks, or parts of K, give work to the others. The estimate of `low_blocks.py` says which, as of few rows. By
the model, cycles of 128 x 128 in as many parts of K as pay, and of what is chosen here: f16 512 x 512 x 512 on gfx90a
21186, 9621, 1024 x 1024 x 1024 on gfx942 23090, 14415, on gfx950 20674, 13790; fp8 128 x 4096 x 4096 on gfx942 31694,
19464 (benchmarks/results/few_rows.md).
"""

from __future__ import annotations

from collections.abc import Iterator

from ckmlir.ops.contraction.block_sizes import CACHE_LINE, MEDIUM, SMALL
from ckmlir.ops.contraction.few_rows import candidates, cycles_of, depth_of_low, low_plan
from ckmlir.ops.contraction.low_blocks import is_few
from ckmlir.ops.contraction.wishes import Plan, Wish, elements_in
from ckmlir.targets import Target

ROWS_AND_COLUMNS = ((32, 32), (32, 64), (64, 64))
"""Of blocks that are smaller than 128 x 128."""
LEAST_GAIN = 0.96
"""Share of the cycles of 128 x 128 below which the estimate, which is off by a tenth, is taken at its word. On gfx950,
cycles of 128 x 128 in two parts and of 64 x 64, which it takes for .975 of that: 6272 x 256 x 2304 in f16
33051, 38318; forward and image gradient of as many rows by 3 x 3 34949, 36278 and 37915, 40599."""
NARROW_ONES = ((16, 16), (32, 16), (64, 16), (64, 32))
"""More of them, for products of few columns."""


def few_blocks(wish: Wish, schedules: tuple[str, ...], target: Target) -> Iterator[Plan]:
    """The best first; none where blocks of 128 x 128 take the least time, or are as many as compute units, nor where
    schedule or waves are named, or workgroups take block after block.
    """
    named = wish.waves or wish.schedule or wish.stays or wish.products
    line = elements_in(CACHE_LINE, wish.dtype)
    few = is_few((wish.m, wish.n, wish.k), wish.batch, (MEDIUM, MEDIUM, line), target)
    if named or wish.elements_decide or not few:
        return
    medium = cycles_of(wish, (MEDIUM, MEDIUM, line), schedules[0], target)
    times = {pair: cycles_of(wish, *pair, target) for pair in candidates(wish, _shapes(wish), schedules)}
    enough = LEAST_GAIN * medium
    yield from (low_plan(*pair) for pair in sorted(times, key=times.__getitem__) if times[pair] < enough)


def _shapes(wish: Wish) -> Iterator[tuple[int, int, int]]:
    """Blocks that may be better than others; squares with steps of one cache line too, of which LDS holds more. Of
    merged dimensions steps are one line: digits of each load go round the loop."""
    line = elements_in(CACHE_LINE, wish.dtype)
    depth = min(line, depth_of_low(wish)) if wish.merged else depth_of_low(wish)
    shapes = (*ROWS_AND_COLUMNS, *NARROW_ONES) if wish.n <= SMALL else ROWS_AND_COLUMNS
    yield from ((*lengths, depth) for lengths in shapes if lengths[1] < 2 * max(wish.n, NARROW_ONES[0][1]))
    if line < depth and wish.n > SMALL // 2:
        yield SMALL, SMALL, line
