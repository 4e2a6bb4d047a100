"""Words of a routing's list as tile code; see `ckmlir.ops.moe.routing`."""

from __future__ import annotations

from ckmlir.lang import Scalar, Tile, where
from ckmlir.ops.moe.routing import TOKEN_BITS


def token_and_slot(words: Tile) -> tuple[Tile, Tile]:
    """What words say."""
    return words & ((1 << TOKEN_BITS) - 1), (words >> TOKEN_BITS) & 255


def entry_of(words: Tile, tokens: Scalar, slots: Scalar) -> Tile:
    """The numbers of entries, token by token; -1 for words that name no token or slot."""
    token, slot = token_and_slot(words)
    return where((token < tokens) & (slot < slots), token * slots + slot, -1)
