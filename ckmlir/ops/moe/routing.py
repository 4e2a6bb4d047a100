"""How entries of a routing are written: a word for each pair of a token and one of its slots, in units of an expert.

`moe_sorting` makes the words, products of experts' matrices read them.
"""

from __future__ import annotations

import numpy as np

from ckmlir.ops.comparison import Array

TOKEN_BITS = 24
"""Of a word; the slot stands above them."""
MOST_SLOTS = 127
"""So that a word with a slot, or with their number, is not a negative i32."""


def most_units(entries: int, experts: int, unit: int) -> int:
    """Units that so many entries take at most, each expert's padded to whole ones."""
    return (entries + min(experts, entries) * (unit - 1)) // unit


def rows_of_words(words: Array, rows: str, tokens: int, topk: int) -> Array:
    """The rows that words of the list stand for, in NumPy: one for each token (`rows=token`), or for each entry, token
    by token (`entry`); -1 for words that name no token or slot.
    """
    unsigned = words.astype(np.int64) & 0xFFFFFFFF
    token, slot = unsigned & ((1 << TOKEN_BITS) - 1), unsigned >> TOKEN_BITS
    row = token if rows == "token" else token * topk + slot
    found: Array = np.where((token < tokens) & (slot < topk), row, -1)
    return found
