"""Masks as parts of the loop over keys: minus infinity where a query does not attend to a key.

A query attends to a run of keys (`masks.py`), and perhaps to the first ones: what their limits leave becomes bits, of
which an element takes one, whatever the mask (`ckmlir.lowering.column_bits`). Where few blocks of keys are cut, waves
may branch around it instead, for each end of the run.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

from ckmlir.lang import Scalar, Tile, coordinates, cut, full, minimum, where
from ckmlir.ops.attention.loop.loop_kernel import Form, Score
from ckmlir.ops.attention.loop.work_kernel import Work


@dataclass(frozen=True)
class Below(Score):
    """Keys from `end` on do not exist.

    Attributes:
        branches: waves of which nothing is masked branch around.
    """

    end: Scalar
    branches: bool = False

    def apply(self, scores: Tile, key: Scalar) -> Tile:
        """See `loop_kernel.Score`."""
        end = self.end - key
        if self.branches:
            return cut(scores, full(scores.type.lengths[:1], end, "i32"), -inf)
        return where(coordinates(scores, 1) < end, scores, -inf)


@dataclass(frozen=True)
class Causal(Score):
    """A query attends to the keys in front of itself plus x.

    Attributes:
        end: of the keys, where a block may reach beyond them.
        branches: as `Below` has it.
    """

    form: Form
    work: Work
    x: Scalar
    end: Scalar | None
    branches: bool

    def ends(self) -> tuple[Tile, Tile]:
        """The queries' numbers, and the key behind the last of each."""
        row = self.work.rows.queries(self.work.first, self.form)
        end = row + self.x
        return row, end if self.end is None else minimum(end, self.end)

    def apply(self, scores: Tile, key: Scalar) -> Tile:
        """See `loop_kernel.Score`."""
        _, end = self.ends()
        if self.branches:
            return cut(scores, end - key, -inf)
        return where(coordinates(scores, 1) < (end - key)[:, None], scores, -inf)


@dataclass(frozen=True)
class Window(Causal):
    """A query attends to fewer than y keys in front of and with its own, and to those that `Causal` has."""

    y: Scalar

    def apply(self, scores: Tile, key: Scalar) -> Tile:
        """See `loop_kernel.Score`."""
        if not self.branches:
            return where(self.inside(scores, key), scores, -inf)
        row, _ = self.ends()
        return cut(super().apply(scores, key), row - self.y + 1 - key, -inf, front=True)

    def inside(self, scores: Tile, key: Scalar) -> Tile:
        """Whether each key of a block is inside its query's window."""
        row, end = self.ends()
        begin, columns = row - self.y + 1, coordinates(scores, 1)
        inside: Tile = (columns < (end - key)[:, None]) & (columns >= (begin - key)[:, None])
        return inside


@dataclass(frozen=True)
class Sinks(Window):
    """A query attends to the keys that `Window` has, and to the first `sink` as far as `Causal` has them."""

    sink: Scalar

    def apply(self, scores: Tile, key: Scalar) -> Tile:
        """See `loop_kernel.Score`."""
        _, end = self.ends()
        first = (minimum(end, self.sink) - key)[:, None]
        return where(self.inside(scores, key) | (coordinates(scores, 1) < first), scores, -inf)
