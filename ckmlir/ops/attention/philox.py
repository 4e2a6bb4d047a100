"""Philox 4x32 with seven rounds in NumPy (Salmon et al., 2011), and the bytes that attention's dropout takes of it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ckmlir.ops.comparison import Array

ROUNDS = 7
MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
INCREMENTS = (0x9E3779B9, 0xBB67AE85)
BLOCK = 32
"""Queries, and keys, of the blocks that lanes draw for."""
_WORD = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)


def philox(counter: Sequence[Array], seed: int) -> tuple[Array, Array, Array, Array]:
    """Four words of 32 bits for each counter of four words; the arrays are uint64."""
    x, y, z, w = (np.asarray(word, np.uint64) for word in counter)
    low, high = np.uint64(seed & 0xFFFFFFFF), np.uint64(seed >> 32 & 0xFFFFFFFF)
    for _ in range(ROUNDS):
        first, second = x * np.uint64(MULTIPLIERS[0]), z * np.uint64(MULTIPLIERS[1])
        x, y, z, w = (second >> _HALF) ^ y ^ low, second & _WORD, (first >> _HALF) ^ w ^ high, first & _WORD
        low, high = (low + np.uint64(INCREMENTS[0])) & _WORD, (high + np.uint64(INCREMENTS[1])) & _WORD
    return x, y, z, w


def random_bytes(seed: int, offset: int, rows: range, keys: int) -> Array:
    """The bytes (rows, keys) of a head: `offset` is the counter of lane 0.

    Lane l of a block of 32 x 32 has its query l % 32 and, of every eight keys, the four from 4 · (l // 32) on; byte i
    of word w is that of key i among the four of the w-th eight.
    """
    row, key = np.meshgrid(np.asarray(rows), np.arange(keys), indexing="ij")
    lane = row % BLOCK + BLOCK * (key >> 2 & 1)
    counter = np.uint64(offset & 2**64 - 1) + lane.astype(np.uint64)
    words = philox((counter & _WORD, counter >> _HALF, row // BLOCK, key // BLOCK), seed)
    word = np.choose(key >> 3 & 3, words)
    found: Array = (word >> (8 * (key & 3)).astype(np.uint64)) & np.uint64(255)
    return found
