"""Dropout in the loop over keys: a lane draws once for the 16 elements that it holds of a block of 32 x 32."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from ckmlir.dialect.distribution import Distribution
from ckmlir.lang import (
    Scalar,
    Tile,
    View,
    cast,
    coordinates,
    join_axes,
    multiply_high,
    store,
    stretch,
    view,
    where,
    zeros,
)  # fmt: skip
from ckmlir.ops.attention.loop.loop_kernel import Form, Weights
from ckmlir.ops.attention.loop.weights_kernel import Around
from ckmlir.ops.attention.loop.work_kernel import Work
from ckmlir.ops.attention.philox import BLOCK, INCREMENTS, MULTIPLIERS, ROUNDS

WORDS = BYTES = 4
"""Words of a draw, and bytes of a word: 16 elements of a lane."""
WORD = (1 << 32) - 1
HELD_ROUNDS = 4
"""Rounds whose keys stay in scalar registers; those of the others are computed in each step. LLVM has words of a lane
that do not change with the block of keys in front of the loop: with fewer rounds a step takes 2 to 20 vector
instructions more."""


def dropped(word: str, given: Any, work: Work, form: Form, weights: Weights) -> Dropped:
    """Weights of which some are zero; see `parts.dropout` for the word and the arguments."""
    stored = None
    if "stored" in word:
        row, by_head = given.drop_row, given.drop_rows.to("i64") * given.drop_row.to("i64")
        begin = work.head.to("i64") * by_head + work.q.origin(row, given.drop_heads.to("i64") * by_head)
        stored = view(given.randval.offset(begin), (work.sq, work.sk), (row, 1)).pad(form.queries, form.keys)
    drawers = Drawers(f"{form.waves[0]}@wave {BLOCK}@lane.1", f"{form.keys // BLOCK}@y0", f"{WORDS}@y1", f"{BYTES}@y2")
    draw = Draw(drawers, *seed_and_counter(word, given, work))
    return Dropped(weights, draw, work.first, given.drop_threshold, stored)


def seed_and_counter(word: str, given: Any, work: Work) -> tuple[tuple[Scalar, Scalar], Scalar]:
    """The seed's two halves, and the counter (i64) of lane 0 for the work's head."""
    if "memory" in word:
        seed, offset = ((array.scalar(0), array.scalar(1)) for array in (given.drop_seed, given.drop_offset))
    else:
        seed = given.drop_seed_low, given.drop_seed_high
        offset = given.drop_offset_low, given.drop_offset_high
    head = (work.batch * given.drop_heads + work.head).to("i64") * 64
    return seed, (offset[1].to("i64") << 32) + (offset[0].to("i64") & 0xFFFFFFFF) + head


class Drawers(Struct, frozen=True):
    """Which lane draws for which elements of a block (queries, keys), in the words of `Distribution.parse`; the upper
    half of the lanes takes the upper four of every eight keys.

    Attributes:
        queries, blocks: where these lie, blocks of 32 keys; words, bytes: what of a lane's draw it keeps.
    """

    queries: str
    blocks: str
    words: str
    bytes: str
    halves: str = "2@lane.0"

    @property
    def by_word(self) -> Distribution:
        """(queries, blocks, words, halves)."""
        return Distribution.parse(f"d0: {self.queries}, d1: {self.blocks}, d2: {self.words}, d3: {self.halves}")

    @property
    def by_byte(self) -> Distribution:
        """(queries, words of all blocks, halves, bytes)."""
        words = f"{self.blocks} {self.words}"
        return Distribution.parse(f"d0: {self.queries}, d1: {words}, d2: {self.halves}, d3: {self.bytes}")


class Draw(Struct, frozen=True):
    """Random bytes for a head; see `philox.random_bytes`.

    Attributes:
        seed: its two halves; counter: of lane 0, as i64.
    """

    drawers: Drawers
    seed: tuple[Scalar, Scalar]
    counter: Scalar

    def bytes(self, query: Scalar | int, key: Scalar) -> Tile:
        """The bytes (queries, keys), as i32, for the block that begins at a query and a key."""
        lies = self.drawers.by_word.reduce(2)
        lanes = zeros(lies.lengths, "i32", lies)
        row, block, half = (coordinates(lanes, axis) for axis in range(3))
        low = self.counter.to("i32")
        row = row + query
        lane = (row & (BLOCK - 1)) + half * BLOCK + low
        carry = where(lane.below(lanes + low), lanes + 1, 0)  # of the sum of unsigned words
        high = carry + (self.counter >> 32).to("i32")
        return self._spread(self._rounds(lane, high, row >> 5, block + (key >> 5)))

    def _rounds(self, *counter: Tile) -> tuple[Tile, ...]:
        """The words of a draw. The keys of all rounds would take fourteen scalar registers throughout the loop."""
        x, y, z, w = counter
        anew = [half.anew() for half in self.seed]
        for number in range(ROUNDS):
            seed = self.seed if number < HELD_ROUNDS else anew
            low, high = (half + (more * number & WORD) for half, more in zip(seed, INCREMENTS, strict=True))
            upper = multiply_high(x, MULTIPLIERS[0]), multiply_high(z, MULTIPLIERS[1])
            lower = x * MULTIPLIERS[0], z * MULTIPLIERS[1]
            x, y, z, w = upper[1] ^ y ^ low, lower[1], upper[0] ^ w ^ high, lower[0]
        return x, y, z, w

    def _spread(self, words: Sequence[Tile]) -> Tile:
        """Words (queries, blocks, 2 halves) of lanes as bytes (queries, keys): a key is a block, a word, a half and a
        byte."""
        spread = [stretch(word, 2, WORDS, self.drawers.by_word) for word in words]
        number = coordinates(spread[0], 2)
        chosen = spread[-1]
        for place, word in enumerate(spread[:-1]):
            chosen = where(number.equals(place), word, chosen)
        found = stretch(join_axes(chosen, 1), 3, BYTES, self.drawers.by_byte)
        found = (found >> (coordinates(found, 3) * 8)) & 0xFF
        return join_axes(join_axes(found, 1), 1)


class Dropped(Around):
    """Weights that are zero where a random byte is above a threshold; the sum of the weights has them all.

    Attributes:
        first: the block's first query.
        stored: where the bytes (queries, keys) go, if they are kept.
    """

    def __init__(self, inner: Weights, draw: Draw, first: Scalar, threshold: Scalar, stored: View | None) -> None:
        super().__init__(inner)
        self.draw, self.first, self.threshold, self.stored = draw, first, threshold, stored

    def weigh(self, scores: Tile, state: Sequence[Tile], top: Any, key: Scalar) -> tuple[Tile, list[Tile]]:
        """See `loop_kernel.Weights`."""
        weights, after = super().weigh(scores, state, top, key)
        drawn = self.draw.bytes(self.first, key)
        if self.stored is not None:
            signed = as_i8(drawn)
            store(signed, self.stored.window(signed.lengths, (self.first, key)))
        return where(drawn <= self.threshold, weights, 0.0), after


def as_i8(drawn: Tile) -> Tile:
    """Random bytes as numbers of one byte, with its sign."""
    return cast((drawn << 24) >> 24, "i8")
