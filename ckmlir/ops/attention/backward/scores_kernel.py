"""What parts of a request do to the exponents of attention backward: the counterpart of `bias_kernel.py`, with keys as
rows. What is added has a slope of one, so that dS stays what it is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from ckmlir.lang import Scalar, Tile, View, absolute, cast, coordinates, load, permute_axes, view, zeros
from ckmlir.lang.views import Amount
from ckmlir.ops.attention.backward.loop_kernel import ExponentPart, Form
from ckmlir.ops.attention.loop.bias_kernel import numbered
from ckmlir.ops.attention.loop.work_kernel import Work
from ckmlir.ops.precision import LOG2_E
from ckmlir.records import replace


@dataclass(frozen=True)
class Rising(ExponentPart):
    """Slope times the key's number; the slope is that of exponents to the base 2.

    Attributes:
        first: the block's first key.
    """

    slope: Scalar
    first: Scalar

    def at(self, first: Scalar) -> ExponentPart:
        """See `loop_kernel.ExponentPart`."""
        return replace(self, first=first)

    def apply(self, exponents: Tile, query: Amount) -> Tile:
        """See `loop_kernel.ExponentPart`."""
        risen: Tile = exponents + cast(coordinates(exponents, 0) + self.first, "f32") * self.slope
        return risen


@dataclass(frozen=True)
class Falling(Rising):
    """Minus slope times the distance of query and key.

    Attributes:
        shift: the key on the diagonal of the first query.
    """

    shift: Scalar
    form: Form

    def apply(self, exponents: Tile, query: Amount) -> Tile:
        """See `loop_kernel.ExponentPart`."""
        form = self.form
        keys = zeros((form.keys,), "i32", form.score_layout.reduce(1))
        first = (query + self.shift - self.first) - coordinates(keys, 0)
        fallen: Tile = exponents - absolute(numbered(first, form.queries, form.scores, form.score_layout)) * self.slope
        return fallen


class Added(ExponentPart):
    """Elements of an array (queries, keys), natural exponents; `moves`: its buffer with the queries, whose end then
    refuses what would be compared for each element, for scalar registers that other parts take."""

    def __init__(self, form: Form, first: Scalar, whole: View, *, moves: bool) -> None:
        self.form, self.first, self.whole, self.moves = form, first, whole, moves

    def at(self, first: Scalar) -> ExponentPart:
        """See `loop_kernel.ExponentPart`."""
        return Added(self.form, first, self.whole, moves=self.moves)

    def load(self, query: Amount) -> None:
        """See `loop_kernel.ExponentPart`."""
        block = self.form.queries, self.form.keys
        window = self.whole.window(block, (query, self.first), moves_buffer=self.moves)
        self.tile = permute_axes(load(window, self.form.score_layout.permute((1, 0))), 1, 0)

    def apply(self, exponents: Tile, query: Amount) -> Tile:
        """See `loop_kernel.ExponentPart`."""
        added: Tile = exponents + cast(self.tile, "f32") * LOG2_E
        return added


def _alibi(word: str, given: Any, work: Work, form: Form, *, alone: bool) -> ExponentPart:
    """See `parts/alibi.py`."""
    slope = given.slopes.scalar(work.head + work.batch * given.slopes_batch) * LOG2_E
    if word == "alibi_causal":
        return Rising(slope, work.first)
    return Falling(slope, work.first, (work.sk - work.sq) * given.slopes_corner, form)


def _bias(word: str, given: Any, work: Work, form: Form, *, alone: bool) -> ExponentPart:
    """See `parts/bias.py`; the word ends with what divides rows and their distances."""
    align = int(word.split("_")[2])
    row = given.bias_seq.multiple_of(align)
    distance = work.head.to("i64") * given.bias_head + work.q.origin(row, given.bias_batch)
    begin = given.bias.offset(distance.multiple_of(align))
    whole = view(begin, (work.sq, work.k.divided(align)), (row, 1)).pad(form.queries, form.keys)
    return Added(form, work.first, whole, moves=alone)


class Builder(Protocol):
    """What makes such a part of a word, and whether it is the only part of the request."""

    def __call__(self, word: str, given: Any, work: Work, form: Form, *, alone: bool) -> ExponentPart: ...


EXPONENTS: Mapping[str, Builder] = {"alibi": _alibi, "bias": _bias}
"""By the name of a part."""
