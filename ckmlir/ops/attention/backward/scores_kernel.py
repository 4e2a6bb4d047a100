"""What parts of a request do to the exponents of attention backward: the counterpart of `bias_kernel.py`, with keys as
rows. What is added has a slope of one, so that dS stays what it is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ckmlir.lang import Scalar, Tile, View, absolute, cast, coordinates, load, permute_axes, view
from ckmlir.lang.views import Amount
from ckmlir.ops.attention.backward.loop_kernel import ExponentPart, Form
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

    def apply(self, exponents: Tile, query: Amount) -> Tile:
        """See `loop_kernel.ExponentPart`."""
        distance = coordinates(exponents, 1) - coordinates(exponents, 0) + (query + self.shift - self.first)
        fallen: Tile = exponents - absolute(cast(distance, "f32")) * self.slope
        return fallen


class Added(ExponentPart):
    """Elements of an array (queries, keys), natural exponents."""

    def __init__(self, form: Form, first: Scalar, whole: View) -> None:
        self.form, self.first, self.whole = form, first, whole

    def at(self, first: Scalar) -> ExponentPart:
        """See `loop_kernel.ExponentPart`."""
        return Added(self.form, first, self.whole)

    def load(self, query: Amount) -> None:
        """See `loop_kernel.ExponentPart`."""
        window = self.whole.window((self.form.queries, self.form.keys), (query, self.first))
        self.tile = permute_axes(load(window, self.form.score_layout.permute((1, 0))), 1, 0)

    def apply(self, exponents: Tile, query: Amount) -> Tile:
        """See `loop_kernel.ExponentPart`."""
        added: Tile = exponents + cast(self.tile, "f32") * LOG2_E
        return added


def _alibi(word: str, given: Any, work: Work, form: Form) -> ExponentPart:
    """See `parts/alibi.py`."""
    slope = given.slopes.scalar(work.head + work.batch * given.slopes_batch) * LOG2_E
    if word == "alibi_causal":
        return Rising(slope, work.first)
    return Falling(slope, work.first, (work.sk - work.sq) * given.slopes_corner)


def _bias(word: str, given: Any, work: Work, form: Form) -> ExponentPart:
    """See `parts/bias.py`; the word ends with what divides rows and their distances."""
    align = int(word.split("_")[2])
    row = given.bias_seq.multiple_of(align)
    distance = work.head.to("i64") * given.bias_head + work.q.origin(row, given.bias_batch)
    begin = given.bias.offset(distance.multiple_of(align))
    whole = view(begin, (work.sq, work.k.divided(align)), (row, 1)).pad(form.queries, form.keys)
    return Added(form, work.first, whole)


EXPONENTS: Mapping[str, Callable[[str, Any, Work, Form], ExponentPart]] = {"alibi": _alibi, "bias": _bias}
"""By the name of a part."""
