"""How many coefficients of hyper-connections a row has, and of which kinds."""

from __future__ import annotations

MOST_STREAMS = 8
KINDS = ("pre", "post", "res")


def coefficients_of(streams: int) -> int:
    """Coefficients of a row of so many streams."""
    return 2 * streams + streams * streams
