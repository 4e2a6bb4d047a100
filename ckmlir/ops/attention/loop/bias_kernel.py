"""What is added to scores in the loop over keys: elements of memory, or numbers that fall with the distance."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ckmlir.dialect.distribution import Distribution
from ckmlir.dialect.mma import Mma
from ckmlir.lang import (
    Scalar,
    Tile,
    View,
    absolute,
    cast,
    coordinates,
    full,
    join_axes,
    load,
    stretch,
    view,
    zeros,
)  # fmt: skip
from ckmlir.ops.attention.loop.loop_kernel import Form, Score
from ckmlir.ops.attention.loop.scales_kernel import ACCUMULATOR_GROUP
from ckmlir.ops.attention.loop.units_kernel import Units
from ckmlir.ops.attention.loop.work_kernel import Work
from ckmlir.ops.precision import LN_2
from ckmlir.records import replace
from ckmlir.targets.cdna import WAVE_SIZE


def along_keys(form: Form, first: Tile, slope: Scalar) -> Tile:
    """A number a query for the block's first key, and `slope` more for each key behind it: (queries, keys).

    A sum of what four neighbours have in common and of what each has among them: all that a loop keeps of them is one
    number for every four keys of a lane, and four more.
    """
    lies = form.score_layout.split(1, ACCUMULATOR_GROUP)
    groups = coordinates(zeros((form.keys // ACCUMULATOR_GROUP,), "i32", lies.reduce(2).reduce(0)), 0)
    common = stretch(first, 1, form.keys // ACCUMULATOR_GROUP, lies.reduce(2))
    common = common + (cast(groups * ACCUMULATOR_GROUP, "f32") * slope)[None, :]
    each = stretch(common, 2, ACCUMULATOR_GROUP, lies)
    return join_axes(each + cast(coordinates(each, 2), "f32") * slope, 1)


def numbered(first: Tile, columns: int, scores: Mma, lies: Distribution) -> Tile:
    """A whole number a row (i32) for the first of so many columns, and one more for each behind it, in f32, for a tile
    of scores that lies so.

    What differs between lanes is in one number for each; three more follow from it, and a constant for every four keys
    leads from all four to these. Pairs differ by one constant, so that packed instructions take it from one scalar
    register: with a constant each, 32 columns would take 32 of these. Constants are subtracted: LLVM leaves out x - 0,
    but not x + 0.
    """
    lanes = WAVE_SIZE // scores.instruction.n
    blocks = columns // (ACCUMULATOR_GROUP * lanes)
    lies = lies.split(1, ACCUMULATOR_GROUP * lanes).split(2, ACCUMULATOR_GROUP)
    own = stretch(first, 1, lanes, lies.reduce(3).reduce(1))
    own = cast(own + coordinates(own, 1) * ACCUMULATOR_GROUP, "f32")
    four = stretch(own, 2, ACCUMULATOR_GROUP, lies.reduce(1))
    four = four - cast(-coordinates(four, 2), "f32")
    each = stretch(four, 1, blocks, lies)
    each = each - cast(coordinates(each, 1) * -(ACCUMULATOR_GROUP * lanes), "f32")
    return join_axes(join_axes(each, 2), 1)


@dataclass(frozen=True)
class Rising(Score):
    """Slope times the key's number."""

    slope: Scalar
    form: Form

    def apply(self, scores: Tile, key: Scalar) -> Tile:
        """See `loop_kernel.Score`."""
        first = full((self.form.queries,), key.to("f32") * self.slope, "f32", self.form.row_layout)
        risen: Tile = scores + along_keys(self.form, first, self.slope)
        return risen

    def of_products(self, scale: Scalar) -> tuple[list[Score], Units]:
        """See `loop_kernel.Score`."""
        return [replace(self, slope=self.slope / (scale * LN_2))], Units(scale)


@dataclass(frozen=True)
class Falling(Rising):
    """Minus slope times the distance of query and key.

    Attributes:
        diagonal: the key on the diagonal of the block's first query.
    """

    diagonal: Scalar

    def apply(self, scores: Tile, key: Scalar) -> Tile:
        """See `loop_kernel.Score`."""
        form = self.form
        first = (key - self.diagonal) - form.rows()
        fallen: Tile = scores - absolute(numbered(first, form.keys, form.scores, form.score_layout)) * self.slope
        return fallen


@dataclass
class Added(Score):
    """Elements of an array (queries, keys), times a factor."""

    form: Form
    first: Scalar
    whole: View
    factor: Scalar | float = 1.0

    def load(self, key: Scalar) -> None:
        """See `loop_kernel.Score`."""
        window = self.whole.window((self.form.queries, self.form.keys), (self.first, key))
        self.tile = load(window, self.form.score_layout)

    def apply(self, scores: Tile, key: Scalar) -> Tile:
        """See `loop_kernel.Score`."""
        added: Tile = scores + cast(self.tile, "f32") * self.factor
        return added

    def of_products(self, scale: Scalar) -> tuple[list[Score], Units]:
        """See `loop_kernel.Score`."""
        return [replace(self, factor=1.0 / (scale * LN_2))], Units(scale)


def added(align: int, given: Any, work: Work, form: Form) -> Added:
    """The bias of the work's head and queries; `align` divides its rows and their distances. Rows are as long as the
    array's: what lies behind a sequence's keys is masked."""
    row = given.bias_seq.multiple_of(align)
    distance = work.head.to("i64") * given.bias_head + work.q.origin(row, given.bias_batch)
    begin = given.bias.offset(distance.multiple_of(align))
    whole = view(begin, (work.sq, work.longest.multiple_of(align)), (row, 1))
    return Added(form, work.first, whole.pad(form.queries, form.keys))
