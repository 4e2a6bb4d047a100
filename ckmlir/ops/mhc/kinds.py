"""How many coefficients of hyper-connections a row has, of which kinds, and by which of two formulas."""

from __future__ import annotations

MOST_STREAMS = 8
KINDS = ("pre", "post", "res")
FORMS = ("paper", "ck")
"""See `ckmlir.ops.mhc.mixing`."""


def coefficients_of(streams: int) -> int:
    """Coefficients of a row of so many streams."""
    return 2 * streams + streams * streams
