"""How entries of a routing are written: a word for each pair of a token and one of its slots, in units of an expert.

`moe_sorting` makes the words, products of experts' matrices read them.
"""

from __future__ import annotations

TOKEN_BITS = 24
"""Of a word; the slot stands above them."""
MOST_SLOTS = 127
"""So that a word with a slot, or with their number, is not a negative i32."""


def most_units(entries: int, experts: int, unit: int) -> int:
    """Units that so many entries take at most, each expert's padded to whole ones."""
    return (entries + min(experts, entries) * (unit - 1)) // unit
