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
from ckmlir.ops.attention.schedule_choice import AHEAD, DEFAULT, WOVEN_COPIES, WOVEN_COPIES_DEEP, WOVEN_DEEP
from ckmlir.ops.scalars import ceil_div

FEW_ROWS = (16, 32)
MOST_AHEAD = 128
"""Channels of heads up to which two blocks are loaded ahead."""
WIDEST = 128
"""Queries from which on one head fills blocks."""
SIDES = ((64, 4), (32, 2))
"""Keys of a block of few rows, and its waves, which take 16 keys at a time each; the second where heads are wide."""

LONG_BLOCK = 128
"""The most keys of a step."""
LONG_ROWS = {DEFAULT: 64, WOVEN_COPIES: 128, WOVEN_COPIES_DEEP: 64, WOVEN_DEEP: 64}
"""By schedule, bytes of a row of K or V, as tiles have it, up to which two waves of a SIMD have registers for them."""
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
LONG_WITH = {DEFAULT: ("alibi", "softcap"), WOVEN_COPIES: ()}
"""By schedule, parts beside which it was, without a mask."""


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


def packs(queries: int, sharing: int) -> bool:
    """Whether so many heads that share keys are packed in rows: where that makes fewer blocks of `WIDEST` rows."""
    return sharing > 1 and queries < WIDEST and ceil_div(queries * sharing, WIDEST) < sharing


def long_blocks(
    schedule: str, row: int, keys: int, reach: int, mask: str, parts: Sequence[str], source: str
) -> tuple[int, ...]:
    """The longest block of keys, where that pays: a decay of the sums, an exchange between lanes and barriers serve
    twice as many keys, and arithmetic of more keys hides what a wave waits for, where products of short rows are soon
    done. Not where such a block lies in several pages.

    Args:
        row: bytes of a row of K or V, the longer.
        keys, reach: that there are, and that a query attends to, at most.
    """
    words = {word.partition("_")[0] for word in parts}
    under = LONG_UNDER.get(schedule, ()) if not parts else ("none",)
    fits = mask in under and words <= set(LONG_WITH.get(schedule, ()))
    filled = -keys % LONG_BLOCK < LONG_BLOCK // 2 or keys >= LONG_KEYS
    pays = row <= LONG_ROWS.get(schedule, 0) and reach > LONG_BLOCK // 2 and filled
    return (LONG_BLOCK,) if pays and fits and not gathers(source, LONG_BLOCK) else ()
