"""Where K and V lie: a part of attention that every problem has one of, each in a file of its own in `parts/`.

A source is made of the request's keys (`asked`), says which arrays there are and which of their rows belong to a
sequence, and traces what the loop over keys loads from (`loop_kernel.Keys`).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from ckmlir.ops.arrays import ArraySpec
from ckmlir.ops.attention.part import Part
from ckmlir.ops.attention.problem import Place, Problem
from ckmlir.ops.attention.sequences import Rows
from ckmlir.ops.comparison import Array
from ckmlir.ops.packing import elements

if TYPE_CHECKING:
    from ckmlir.ops.attention.fmha_fwd_spec import FmhaFwdSpec
    from ckmlir.ops.attention.loop.loop_kernel import Form, Keys
    from ckmlir.ops.attention.loop.page_table_kernel import Pages
    from ckmlir.ops.attention.loop.work_kernel import Work


class Source(Part):
    """Where K and V lie; frozen, with what it asks for as its fields. `arrays` are its lists, without K and V.

    Attributes:
        limited: kernels address K and V by offsets of 32 bits from their start.
    """

    limited: ClassVar[bool] = True

    def sequences(self, problem: Problem) -> Rows:
        """The keys of all sequences, as this source has them. Raises RequestError."""
        return problem.keys

    def settled(self, problem: Problem) -> Source:
        """The same, once the strides of K and V are known. Raises RequestError."""
        return self

    @abstractmethod
    def extent(self, problem: Problem) -> tuple[int, int]:
        """Batches of K and V, and rows of each."""

    def layout(self, problem: Problem) -> str:
        """The order of heads and rows of K and V in memory."""
        return problem.layout

    def array(self, problem: Problem, name: str) -> ArraySpec:
        """K or V as it lies in memory."""
        return problem.array(name)

    def by_head(self, problem: Problem, name: str, array: Array) -> Array:
        """K or V with the axes (batch, head, row, channel)."""
        return problem.by_head(array) if name == "k" else problem.values_by_head(array)

    @abstractmethod
    def places(self, problem: Problem, number: int, arrays: Mapping[str, Array], keys: range) -> tuple[Array, Array]:
        """The batch and the row of each of some keys of a sequence."""

    def rows(self, problem: Problem, place: Place, arrays: Mapping[str, Array]) -> tuple[Array, Array]:
        """K and V (keys, channels) that a place's queries may attend to."""
        batches, rows = self.places(problem, place.number, arrays, range(place.keys))
        head = place.head // (problem.h // problem.hk)
        k, v = (self.by_head(problem, name, arrays[name]) for name in "kv")
        k, v = (elements(one[batches, head, rows], problem.held_as(name)) for one, name in ((k, "k"), (v, "v")))
        return k, v

    @classmethod
    def pages_of(cls, word: str, given: Any, work: Work) -> Pages | None:
        """The pages that the work's keys lie in, if any: `work.pages` of all that is traced behind."""
        return None

    @classmethod
    @abstractmethod
    def traced(cls, word: str, given: Any, spec: FmhaFwdSpec, work: Work, form: Form) -> Keys:
        """What the loop over keys loads from; `given` has the kernel's arguments."""


def find_source(kinds: Sequence[type[Source]], word: str) -> type[Source]:
    """The kind of source that a word of a specification belongs to; the first without a word. Raises KeyError."""
    return {kind.name: kind for kind in kinds}[word.partition("_")[0]] if word else kinds[0]
