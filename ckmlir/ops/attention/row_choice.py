"""How many rows a block of attention forward has, and which waves share them: rules from the model of time.

Few queries of one head leave most of a block of 128 rows empty. Heads that share keys are packed in rows, so that keys
are loaded once for all of them. Where all rows of a sequence fit, a block has 16 or 32, and its waves lie side by side
along keys: each multiplies with keys of its own, and takes channels of V of its own. What such a workgroup waits for is
memory, so that it loads two blocks of keys ahead.
"""

from __future__ import annotations

from typing import NamedTuple

from ckmlir.ops.attention.schedule_choice import AHEAD, DEFAULT
from ckmlir.ops.scalars import ceil_div

FEW_ROWS = (16, 32)
MOST_AHEAD = 128
"""Channels of heads up to which two blocks are loaded ahead."""
WIDEST = 128
"""Queries from which on one head fills blocks."""
SIDES = ((64, 4), (32, 2))
"""Keys of a block of few rows, and its waves, which take 16 keys at a time each; the second where heads are wide."""


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
