"""What a reduction computes, and what its kernel depends on."""

from __future__ import annotations

from functools import cached_property
from math import prod

from msgspec import Struct
from msgspec.structs import replace

from ckmlir.digests import digest_of
from ckmlir.ops.reduction.kinds import KINDS
from ckmlir.ops.spec import Algorithm, by
from ckmlir.ops.tensors.arrays import Operand, packed
from ckmlir.ops.tensors.folding import Folded, fold
from ckmlir.ops.tensors.mapping_spec import is_integer
from ckmlir.ops.tensors.tiling import TileSpec

KEPT, REDUCED = 0, 1
STORES = ("write", "partial", "atomic")
"""What becomes of a workgroup's results."""
PLACEHOLDER = 16
"""Stride of a dimension of length 1: no access depends on it."""


class ReduceProblem(Struct, frozen=True, dict=True):
    """A reduction to compute.

    Attributes:
        x: the input; its axes are the index space.
        reduced: which dimensions are folded away.
        kinds, before, after: of every output.
        outputs: names of the outputs.
        out: their element type.
        count: what means divide by.
        parts: workgroups that share a result.
        atomic: whether they combine their results in memory.
        partial: the outputs are the results of all parts, for another reduction; `after` is left to that.
    """

    x: Operand
    reduced: tuple[int, ...]
    kinds: tuple[str, ...]
    before: tuple[str, ...]
    after: tuple[str, ...]
    outputs: tuple[str, ...]
    out: str
    count: int
    parts: int
    atomic: bool
    align: int
    partial: bool = False

    @property
    def accumulator(self) -> str:
        """What partial results are."""
        return "i32" if self.integer else "f32"

    @property
    def two_steps(self) -> bool:
        """Whether parts are reduced by a kernel of their own, and then their results by others."""
        return self.parts > 1 and not self.atomic and not self.partial

    @property
    def workspaces(self) -> tuple[str, ...]:
        """Names of the arrays of partial results, one for each output."""
        return tuple(f"{name}_parts" for name in self.outputs)

    def first_step(self) -> ReduceProblem:
        """The reduction of every part, into the workspaces."""
        return replace(self, partial=True, outputs=self.workspaces, out=self.accumulator)

    def second_step(self, place: int) -> ReduceProblem:
        """The reduction of the parts of one output; its arrays are x and y."""
        shape = (self.parts, prod(self.kept_shape))
        return replace(
            self,
            x=Operand("x", self.accumulator, shape, packed(shape), (0, 1)),
            reduced=(0,),
            kinds=(KINDS[self.kinds[place]].partial,),
            before=("a",),
            after=(self.after[place],),
            outputs=("y",),
            parts=1,
        )

    @property
    def kept_shape(self) -> tuple[int, ...]:
        return tuple(length for dim, length in enumerate(self.x.shape) if dim not in self.reduced)

    @cached_property
    def folded(self) -> Folded:
        """Kept dimensions, then reduced ones, at least one of each; strides of the input, then of the outputs."""
        steps = iter(packed(self.kept_shape))
        groups = [REDUCED if dim in self.reduced else KEPT for dim in range(len(self.x.shape))]
        outs = [0 if group == REDUCED else next(steps) for group in groups]
        found = fold(self.x.shape, [self.x.index_strides, outs], groups)
        if max(self.x.shape, default=1) <= 1 and 0 not in self.x.shape:
            found = Folded((), ((), ()), ())
        rows = [list(found.lengths), list(found.groups), *map(list, found.strides)]
        for group, place in ((KEPT, 0), (REDUCED, len(rows[0]) + 1)):
            if group not in rows[1]:
                for row, entry in zip(rows, (1, group, PLACEHOLDER, PLACEHOLDER * (group == KEPT)), strict=True):
                    row.insert(place, entry)
        return Folded(tuple(rows[0]), (tuple(rows[2]), tuple(rows[3])), tuple(rows[1]))

    @property
    def integer(self) -> bool:
        """Whether it is computed in integers."""
        return is_integer((self.x.dtype, self.out))


class ReduceSpec(TileSpec):
    """What a reduction kernel depends on; arrays are x, then the outputs.

    Attributes:
        kept: how many of the folded dimensions are kept; the others, behind them, are reduced.
        kinds, before, after: see ReduceProblem.
        stores: write, partial (results before `after`, one set for each part) or atomic.
    """

    kept: int
    kinds: tuple[str, ...]
    before: tuple[str, ...]
    after: tuple[str, ...]
    stores: Algorithm[str]

    @property
    def name(self) -> str:
        digest = digest_of(self.to_json(), 10)
        return "_".join(["reduce", self.dtypes[0], *self.kinds, f"tile{by(self.tile)}", self.stores, digest])

    @property
    def spread(self) -> int:
        return self.kept

    @property
    def integer(self) -> bool:
        return is_integer(self.dtypes)

    @property
    def reduced_dims(self) -> range:
        return range(self.kept, self.rank)

    @property
    def looped(self) -> bool:
        """Whether the reduced dimensions are more than one tile, or shared."""
        return self.stores != "write" or not all(self.single[dim] for dim in self.reduced_dims)
