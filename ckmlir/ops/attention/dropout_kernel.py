"""Dropout in the loop over keys: a lane draws once for the 16 elements that it holds of a block of 32 x 32."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

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
from ckmlir.ops.attention.loop_kernel import Form, Weights
from ckmlir.ops.attention.philox import BLOCK, INCREMENTS, MULTIPLIERS, ROUNDS
from ckmlir.ops.attention.weights_kernel import Around
from ckmlir.ops.attention.work_kernel import Work

WORDS = BYTES = 4
"""Words of a draw, and bytes of a word: 16 elements of a lane."""


def dropped(word: str, given: Any, work: Work, form: Form, weights: Weights) -> Dropped:
    """Weights of which some are zero; see `parts.dropout` for the word and the arguments."""
    if "memory" in word:
        seed, offset = ((array.scalar(0), array.scalar(1)) for array in (given.drop_seed, given.drop_offset))
    else:
        seed = given.drop_seed_low, given.drop_seed_high
        offset = given.drop_offset_low, given.drop_offset_high
    head = (work.batch * given.drop_heads + work.head).to("i64") * 64
    counter = (offset[1].to("i64") << 32) + (offset[0].to("i64") & 0xFFFFFFFF) + head
    stored = None
    if "stored" in word:
        row, by_head = given.drop_row, given.drop_rows.to("i64") * given.drop_row.to("i64")
        begin = work.head.to("i64") * by_head + work.q.origin(row, given.drop_heads.to("i64") * by_head)
        stored = view(given.randval.offset(begin), (work.sq, work.sk), (row, 1)).pad(form.queries, form.keys)
    return Dropped(weights, Draw(form, work.first, seed, counter), given.drop_threshold, stored)


@dataclass(frozen=True)
class Draw:
    """Random bytes for a head; see `philox.random_bytes`.

    Attributes:
        first: the block's first query.
        seed: its two halves; counter: of lane 0, as i64.
    """

    form: Form
    first: Scalar
    seed: tuple[Scalar, Scalar]
    counter: Scalar

    def bytes(self, key: Scalar) -> Tile:
        """The bytes (queries, keys) for a block of keys, as i32, where the scores lie."""
        form = self.form
        wave, blocks = form.waves[0], form.keys // BLOCK
        lanes = zeros((form.queries, blocks, 2), "i32", _layout(f"d0: {wave}@wave 32@lane.1", blocks, "2@lane.0"))
        row, block, half = (coordinates(lanes, axis) for axis in range(3))
        low = self.counter.to("i32")
        lane = (row & (BLOCK - 1)) + half * BLOCK + low
        carry = where(lane.below(lanes + low), lanes + 1, 0)  # of the sum of unsigned words
        high = carry + (self.counter >> 32).to("i32")
        words = self._rounds(lane, high, (row >> 5) + (self.first >> 5), block + (key >> 5))
        return self._spread(words, wave, blocks)

    def _rounds(self, *counter: Tile) -> tuple[Tile, ...]:
        x, y, z, w = counter
        low, high = self.seed
        for _ in range(ROUNDS):
            upper = multiply_high(x, MULTIPLIERS[0]), multiply_high(z, MULTIPLIERS[1])
            lower = x * MULTIPLIERS[0], z * MULTIPLIERS[1]
            x, y, z, w = upper[1] ^ y ^ low, lower[1], upper[0] ^ w ^ high, lower[0]
            low, high = low + INCREMENTS[0], high + INCREMENTS[1]
        return x, y, z, w

    def _spread(self, words: Sequence[Tile], wave: int, blocks: int) -> Tile:
        """Words (queries, blocks, 2 halves) of lanes as bytes (queries, keys): a key is a block, a word, a half and a
        byte."""
        rows = f"d0: {wave}@wave 32@lane.1"
        four = Distribution.parse(f"{rows}, d1: {blocks}@y0, d2: {WORDS}@y1, d3: 2@lane.0")
        spread = [stretch(word, 2, WORDS, four) for word in words]
        number = coordinates(spread[0], 2)
        chosen = spread[-1]
        for place, word in enumerate(spread[:-1]):
            chosen = where(number.equals(place), word, chosen)
        joined = join_axes(chosen, 1)
        sixteen = Distribution.parse(f"{rows}, d1: {blocks * WORDS}@y0, d2: 2@lane.0, d3: {BYTES}@y1")
        found = stretch(joined, 3, BYTES, sixteen)
        found = (found >> (coordinates(found, 3) * 8)) & 0xFF
        return join_axes(join_axes(found, 1), 1)


def _layout(rows: str, blocks: int, half: str) -> Distribution:
    return Distribution.parse(f"{rows}, d1: {blocks}@y0, d2: {half}")


class Dropped(Around):
    """Weights that are zero where a random byte is above a threshold; the sum of the weights has them all.

    Attributes:
        stored: where the bytes (queries, keys) go, if they are kept.
    """

    def __init__(self, inner: Weights, draw: Draw, threshold: Scalar, stored: View | None) -> None:
        super().__init__(inner)
        self.draw, self.threshold, self.stored = draw, threshold, stored

    def weigh(self, scores: Tile, state: Sequence[Tile], top: Any, key: Scalar) -> tuple[Tile, list[Tile]]:
        """See `loop_kernel.Weights`."""
        weights, after = super().weigh(scores, state, top, key)
        drawn = self.draw.bytes(key)
        if self.stored is not None:
            signed = cast((drawn << 24) >> 24, "i8")
            store(signed, self.stored.window(signed.lengths, (self.draw.first, key)))
        return where(drawn <= self.threshold, weights, 0.0), after
