"""How entries of a routing are written: a word for each pair of a token and one of its slots, in units of an expert.

`moe_sorting` makes the words, products of experts' matrices read them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from ckmlir.ops.comparison import Array

TOKEN_BITS = 24
"""Of a word; the slot stands above them."""
MOST_SLOTS = 127
"""So that a word with a slot, or with their number, is not a negative i32."""

LISTS = ("sorted_ids", "expert_ids", "totals")
"""What products read of a routing."""
DIVISORS = ("across", "of_across", "blocks", "of_blocks")
"""What leads from the number of a workgroup to its unit (`experts_grid.Grid.divisors`)."""


def in_order(
    lists: Iterable[Any], divisors: Iterable[Any], arrays: Iterable[Any], others: Iterable[Any]
) -> tuple[Any, ...]:
    """Arguments of products of experts' matrices: those of `LISTS`, of `DIVISORS`, other arrays, other numbers. The
    first are in registers where a kernel begins, and lead to the words that its rows wait for; the others come from
    memory together with these words.
    """
    return (*lists, *divisors, *arrays, *others)


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
