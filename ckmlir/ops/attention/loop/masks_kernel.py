"""Masks as parts of the loop over keys: minus infinity where a query does not attend to a key.

One comparison an element, whatever the mask: a query attends to a run of keys (`masks.py`). Where few blocks of keys
are cut, waves may branch around it instead, for each end of the run.
"""

from __future__ import annotations

from dataclasses import dataclass

from ckmlir.lang import Scalar, Tile, coordinates, cut, full, maximum, minimum, where
from ckmlir.ops.attention.loop.loop_kernel import Form, Score
from ckmlir.ops.attention.loop.work_kernel import Work

INFINITY = float("inf")


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
            return cut(scores, full(scores.type.lengths[:1], end, "i32"), -INFINITY)
        return where(coordinates(scores, 1) < end, scores, -INFINITY)


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
            return cut(scores, end - key, -INFINITY)
        return where(coordinates(scores, 1) < (end - key)[:, None], scores, -INFINITY)


@dataclass(frozen=True)
class Window(Causal):
    """A query attends to fewer than y keys in front of and with its own, and to those that `Causal` has."""

    y: Scalar

    def apply(self, scores: Tile, key: Scalar) -> Tile:
        """See `loop_kernel.Score`."""
        if not self.branches:
            return self.apart(scores, key, -INFINITY)
        row, _ = self.ends()
        return cut(super().apply(scores, key), row - self.y + 1 - key, -INFINITY, front=True)

    def apart(self, scores: Tile, key: Scalar, others: Tile | float) -> Tile:
        """The scores inside the window, `others` outside."""
        row, end = self.ends()
        begin = row - self.y + 1
        length = maximum(end - begin, 0)
        inside = (coordinates(scores, 1) + key - begin[:, None]).below(length[:, None])
        return where(inside, scores, others)


@dataclass(frozen=True)
class Sinks(Window):
    """A query attends to the keys that `Window` has, and to the first `sink` as far as `Causal` has them."""

    sink: Scalar

    def apply(self, scores: Tile, key: Scalar) -> Tile:
        """See `loop_kernel.Score`. One choice in another: joined conditions would take scalar registers."""
        _, end = self.ends()
        first = (minimum(end, self.sink) - key)[:, None]
        return self.apart(scores, key, where(coordinates(scores, 1) < first, scores, -INFINITY))
