"""How many rows a block of attention forward has, which waves share them, and where it takes the most keys at a time:
rules from the model of time.

Few queries of one head leave most of a block of 128 rows empty. Heads that share keys are packed in rows, so that keys
are loaded once for all of them. Where all rows of a sequence fit, a block has 16 or 32, and its waves lie side by side
along keys: each multiplies with keys of its own, and takes channels of V of its own. What such a workgroup waits for is
memory, so that it loads two blocks of keys ahead.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ckmlir.ops.attention.paged_spec import gathers
from ckmlir.ops.attention.schedule_choice import (
    AHEAD,
    DEFAULT,
    SIMDS,
    WIDE,
    WOVEN_COPIES,
    WOVEN_COPIES_DEEP,
    WOVEN_DEEP,
)
from ckmlir.ops.scalars import ceil_div
from ckmlir.targets import Target

FEW_ROWS = (16, 32)
MOST_AHEAD = 128
"""Channels of heads up to which two blocks are loaded ahead."""
WIDEST = 128
"""Queries from which on one head fills blocks."""
SIDES = ((64, 4), (32, 2))
"""Keys of a block of few rows, and its waves, which take 16 keys at a time each; the second where heads are wide."""

LONG_BLOCK = 128
"""The most keys of a step."""
LONG_ROWS = {DEFAULT: 64, WOVEN_COPIES: 128, WOVEN_COPIES_DEEP: 128, WOVEN_DEEP: 64}
"""By schedule, bytes of a row of K or V, as tiles have it, up to which such a step pays."""
LONG_KEYS = 512
"""Keys from which on it does not matter that half of the last block has none."""
LONG_UNDER = {
    DEFAULT: ("none", "causal"),
    WOVEN_COPIES: ("none", "causal", "window"),
    WOVEN_COPIES_DEEP: ("none", "causal", "window"),
    WOVEN_DEEP: ("none",),
}
"""By schedule, masks under which a step of so many keys was compared and pays: beside a window `qr` spilled scalar
registers in 16 bits, beside sink tokens in 8."""
LONG_WHOLE = {WOVEN_COPIES_DEEP: "window"}
"""By schedule, a mask under which no keys may end within such a step: two scalar registers were kept in lanes."""
LONG_WITH = {DEFAULT: ("alibi", "softcap"), WOVEN_COPIES_DEEP: ("sink", "softcap", "outputscale")}
"""By schedule, parts beside which it was, the first without a mask; ALiBi by the second kept up to 13 scalar registers
in lanes."""
ROWS = 32
"""Queries of a wave whose arithmetic is woven."""
APART, APART_IN_BYTES = 1.1, 0.95
"""Cycles of two blocks by waves that have a SIMD each, as a share of those of one twice as high, whose waves hide each
other's waits: 1.06 to 1.12 with 128 channels (1.20 where 8-bit types go through registers), and .89 to 1.00 where these
are copied to LDS."""


class Few(NamedTuple):
    """A block of few rows."""

    schedule: str
    rows: int
    keys: int
    waves: int


def few_rows(rows: int, channels: int, mask: str, schedule: str | None, *, listed: bool) -> list[Few]:
    """Blocks for sequences of so many rows, the best first; none for more rows, or where another schedule is named. The
    gaps of sink tokens, for each block that is ahead, and wide heads leave too few registers for loading further ahead,
    and scales that are `listed` like the keys (up to twelve scalar ones were kept in lanes).
    """
    deep = mask != "sinks" and channels <= MOST_AHEAD and not listed
    names = {None: (AHEAD, DEFAULT) if deep else (DEFAULT,), AHEAD: (AHEAD,), DEFAULT: (DEFAULT,)}.get(schedule, ())
    fitting = [one for one in FEW_ROWS if rows <= one][:1]
    return [Few(name, one, keys, waves) for one in fitting for name in names for keys, waves in SIDES]


def woven_waves(
    blocks: int, tile: int, size: int, mask: str, *, copied: bool, alone: bool, scaled: bool, target: Target
) -> list[tuple[int, int]]:
    """Waves, and queries of each, of a workgroup whose arithmetic is woven, the best first. Two waves share a SIMD, so
    that one fills what waits of the other leave, or each has one of its own, and with it registers for whatever parts
    and masks take. Blocks of the latter are half as high: more are cut short by a mask, and the last round of
    workgroups is shorter where compute units are left over.

    By the model, in cycles of the former: .84 to .91 with half a round left over; under a window .85 to .91; under a
    causal mask .65 to .87 with a workgroup a compute unit, with more .98 to 1.00 where K and V are copied to LDS, .91
    with 64 channels elsewhere, and 1.07 with 128.

    Args:
        blocks: of `WIDEST` queries, in all heads.
        tile: channels of the larger tile; `size`: bytes of an element of K.
        copied: K and V are copied to LDS.
        alone: random numbers (101 were spilled) or addresses of 64 bits (39) want registers that two waves lack.
        scaled: matrix instructions scale, which one wave of a SIMD has no registers for (111 with 256 channels).
    """
    if alone or scaled:
        return [(SIMDS if alone else 2 * SIMDS, ROWS)]
    pairs = ceil_div(blocks, 2)
    if mask == "none":
        rounds = [ceil_div(count, target.compute_units) for count in (pairs, blocks)]
        shared = 2 * rounds[0] <= (APART_IN_BYTES if copied and size == 1 else APART) * rounds[1]
    else:
        shared = mask == "causal" and tile >= WIDE and not copied and pairs > target.compute_units
    both = [(2 * SIMDS, ROWS), (SIMDS, ROWS)]
    return both if shared else both[::-1]


def packs(queries: int, sharing: int) -> bool:
    """Whether so many heads that share keys are packed in rows: where that makes fewer blocks of `WIDEST` rows."""
    return sharing > 1 and queries < WIDEST and ceil_div(queries * sharing, WIDEST) < sharing


def long_blocks(
    schedule: str, row: int, keys: int, reach: int, mask: str, parts: Sequence[str], source: str, *, whole: bool
) -> tuple[int, ...]:
    """The longest block of keys, where that pays: a decay of the sums, an exchange between lanes and barriers serve
    twice as many keys, and arithmetic of more keys hides what a wave waits for, where products of short rows are soon
    done. Not where such a block lies in several pages.

    Args:
        row: bytes of a row of K or V, the longer.
        keys, reach: that there are, and that a query attends to, at most.
        whole: keys come in whole steps of so many, for certain.
    """
    words = {word.partition("_")[0] for word in parts}
    under = ("none",) if parts and schedule == DEFAULT else LONG_UNDER.get(schedule, ())
    fits = mask in under and (whole or mask != LONG_WHOLE.get(schedule)) and words <= set(LONG_WITH.get(schedule, ()))
    filled = -keys % LONG_BLOCK < LONG_BLOCK // 2 or keys >= LONG_KEYS
    pays = row <= LONG_ROWS.get(schedule, 0) and reach > LONG_BLOCK // 2 and filled
    return (LONG_BLOCK,) if pays and fits and not gathers(source, LONG_BLOCK) else ()
