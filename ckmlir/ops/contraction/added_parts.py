"""Parts that are to be added, and how `sum_parts` adds them: tiles, shares, loads ahead."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from math import prod

from msgspec import Struct
from msgspec.structs import replace

from ckmlir.ops.arrays import ALIGNMENT
from ckmlir.ops.contraction.contraction_spec import SCALARS, accumulator_names, computing_type
from ckmlir.ops.dtypes import find_dtype
from ckmlir.ops.precision import PRECISIONS, Precision
from ckmlir.ops.tensors.arrays import Operand
from ckmlir.ops.tensors.folding import Folded, fold
from ckmlir.ops.tensors.tiling import MAXIMUM_REACH, WAVES, TileFields, choose_tile, tile_fields
from ckmlir.targets.cdna import WAVE_SIZE

ELEMENTS = 1024
"""Of a workgroup's tile and all its shares: a vector of f32 for each work-item, since few results have many parts."""
AHEAD = {0: 4, 5: 8}
SHARES = {0: 1, 12: 2, 48: 16}
"""Least parts -> of a share's on their way while one is added, and shares that work-items add side by side where C has
`FEW_TILES` at most: few workgroups wait for memory, not for its bandwidth. By the model with all workgroups of a
compute unit, cycles on gfx950 (gfx942) of 4 on their way, of 8, and of 8 with two and with four shares: 9 parts of
64 x 576 3800, 3476, 3368, 3751 (3498, 3190, 3376, 3783); 16 of 64 x 256 5624, 4148, 3556, 3891 (5086, 3834, 3328,
3711); of 512 x 256 6388, 5492, 5842, 6290 (6470, 6270, 6607, 7780). Two parts of 3136 x 1024 14767, with 8 on their way
15103. With 2, 4, 8 and 16 shares: 28 parts of 64 x 576 4459, 4979, 5946, 5841 (4592, 5211, 5251, 5313), 61 of 64 x 256
6435, 5107, 4939, 4793 (5963, 5227, 5259, 5029), 14426 without any; 250 of 64 x 64 17895, 11023, 7119, 5139 (16244,
10103, 6719, 5199)."""
MOST_SHARES = 64
FEW_TILES = 48
"""Of ELEMENTS."""


class SumProblem(Struct, frozen=True, dict=True):
    """Parts to add.

    Attributes:
        lengths: of C.
        sums: the parts of every accumulator; their first dimension counts parts, `axes` are those of the others.
        side: the D tensors.
        op: the expression; "" for none.
        align: bytes that divide the addresses of all arrays.
    """

    parts: int
    lengths: tuple[int, ...]
    sums: tuple[Operand, ...]
    side: tuple[Operand, ...]
    c: Operand
    op: str
    alpha: float
    beta: float
    align: int = ALIGNMENT

    @cached_property
    def folded(self) -> Folded:
        """The index space of C: its strides, those of the parts, those of D tensors."""
        sums = [tuple(one.index_strides) for one in self.sums]
        return fold(self.lengths, [self.c.index_strides, *sums, *(one.index_strides for one in self.side)])

    @property
    def ordered(self) -> Folded:
        """With the arrays in the order of specifications: parts, D tensors, C."""
        found = self.folded
        return Folded(found.lengths, (*found.strides[1:], found.strides[0]), found.groups)

    @property
    def part_stride(self) -> int:
        """Elements from one part to the next."""
        return self.sums[0].strides[0]

    @property
    def operands(self) -> tuple[Operand, ...]:
        """All arrays in the order of the kernel's arguments."""
        return (*self.sums, *self.side, self.c)

    @property
    def precision(self) -> Precision:
        """What floats are added in, and the expression is computed in."""
        return PRECISIONS[computing_type(self.sums[0].dtype)]

    @property
    def variables(self) -> tuple[str, ...]:
        """What the expression may name."""
        return (*accumulator_names(len(self.sums)), *(one.name for one in self.side), *SCALARS)


def tile_of(problem: SumProblem) -> tuple[int, ...]:
    """Extents as C and the parts ask for them, none where a D tensor's elements lie too far apart for a tile."""
    folded, own = problem.folded, 1 + len(problem.sums)
    dtypes = [problem.c.dtype, *(one.dtype for one in problem.sums)]
    near = MAXIMUM_REACH // (4 * ELEMENTS * len(folded.lengths))
    free = [dim for dim in range(len(folded.lengths)) if all(row[dim] <= near for row in folded.strides[own:])]
    return choose_tile(replace(folded, strides=folded.strides[:own]), dtypes, free, ELEMENTS // shares_of(problem))


def fields_of_tile(problem: SumProblem) -> TileFields:
    """Of a specification: no more waves than all shares have elements for."""
    tile = tile_of(problem)
    waves = min(WAVES, max(prod(tile) * shares_of(problem) // WAVE_SIZE, 1))
    return {**tile_fields(problem.folded, tile), "waves": waves}


def shares_of(problem: SumProblem) -> int:
    """Of the parts, as far as those of all shares are within reach of one another."""
    found = _of_parts(SHARES, problem.parts) if prod(problem.lengths) <= FEW_TILES * ELEMENTS else 1
    return found if within_reach(problem, found, problem.folded.lengths) else 1


def within_reach(problem: SumProblem, shares: int, extents: Sequence[int]) -> bool:
    """Whether one address reaches the parts that so many shares add at a time, of a tile of these extents."""
    folded, size = problem.folded, find_dtype(problem.sums[0].dtype).bytes
    tiles = (
        sum((extent - 1) * step for extent, step in zip(extents, strides, strict=True))
        for strides in folded.strides[1 : 1 + len(problem.sums)]
    )
    return shares == 1 or ((shares - 1) * problem.part_stride + max(tiles)) * size < MAXIMUM_REACH


def _of_parts(least: Mapping[int, int], parts: int) -> int:
    """What a table has for so many parts."""
    return least[max(key for key in least if key <= parts)]


def ahead_of(problem: SumProblem) -> int:
    """Parts of a share that are on their way while one is added."""
    return _of_parts(AHEAD, problem.parts)
