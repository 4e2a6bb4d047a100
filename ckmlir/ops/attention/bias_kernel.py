"""What is added to scores in the loop over keys: elements of memory, or numbers that fall with the distance."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from ckmlir.lang import Scalar, Tile, View, absolute, cast, coordinates, load, view
from ckmlir.ops.attention.loop_kernel import Form, Score
from ckmlir.ops.attention.work_kernel import Work

LOG2_E = math.log2(math.e)


@dataclass(frozen=True)
class Rising(Score):
    """Slope times the key's number; the slope is that of exponents to the base 2."""

    slope: Scalar

    def apply(self, scores: Tile, key: Scalar) -> Tile:
        """See `loop_kernel.Score`."""
        risen: Tile = scores + (cast(coordinates(scores, 1), "f32") + key.to("f32")) * self.slope
        return risen


@dataclass(frozen=True)
class Falling(Score):
    """Minus slope times the distance of query and key.

    Attributes:
        diagonal: the key on the diagonal of the block's first query.
    """

    slope: Scalar
    form: Form
    diagonal: Scalar

    def apply(self, scores: Tile, key: Scalar) -> Tile:
        """See `loop_kernel.Score`."""
        row = self.form.rows() + (self.diagonal - key)
        distance = absolute(cast(coordinates(scores, 1), "f32") - cast(row, "f32")[:, None])
        fallen: Tile = scores - distance * self.slope
        return fallen


class Added(Score):
    """Elements of an array (queries, keys), natural exponents."""

    def __init__(self, form: Form, first: Scalar, whole: View) -> None:
        self.form, self.first, self.whole = form, first, whole

    def load(self, key: Scalar) -> None:
        """See `loop_kernel.Score`."""
        window = self.whole.window((self.form.queries, self.form.keys), (self.first, key))
        self.tile = load(window, self.form.score_layout)

    def apply(self, scores: Tile, key: Scalar) -> Tile:
        """See `loop_kernel.Score`."""
        added: Tile = scores + cast(self.tile, "f32") * LOG2_E
        return added


def added(align: int, given: Any, work: Work, form: Form) -> Added:
    """The bias of the work's head and queries; `align` divides its rows and their distances. Rows are as long as the
    array's: what lies behind a sequence's keys is masked."""
    row = given.bias_seq.multiple_of(align)
    distance = work.head.to("i64") * given.bias_head + work.q.origin(row, given.bias_batch)
    begin = given.bias.offset(distance.multiple_of(align))
    whole = view(begin, (work.sq, given.sk.multiple_of(align)), (row, 1))
    return Added(form, work.first, whole.pad(form.queries, form.keys))
