"""How a window is copied to LDS: which dimension is contiguous there, who copies what, and how much at a time.

Copies have no distribution of their own to choose: the instruction puts the cells of a wave's lanes one behind the
other. It is found once, for the pass that gives indices their place as for the one that splits.
"""

import math
from typing import NamedTuple

from ckmlir.dialect.build import integer_of
from ckmlir.dialect.distribution import Distribution
from ckmlir.dialect.distribution_builders import lane_cells
from ckmlir.dialect.fragment_checks import COPY_BYTES
from ckmlir.dialect.scalars import bits
from ckmlir.dialect.types import LdsType, describe
from ckmlir.mlir import ir
from ckmlir.passes.framework import fail
from ckmlir.passes.window_vectors import Lengths
from ckmlir.targets import Target
from ckmlir.targets.cdna import WAVE_SIZE


class CopyPlan(NamedTuple):
    """Order of the dimensions in LDS, distribution of the places, and elements of a cell."""

    order: list[int]
    distribution: Distribution
    cell: int


def copy_plan(op: ir.Operation, vector_length: Lengths, waves: int, target: Target) -> CopyPlan:
    """That of a ck.copy_to_lds: the widest cells that fit, and of these the widest with which no two waves write the
    same place. Cells do not lie along an axis that indices give the coordinate of.
    """
    lds = describe(op.results[0].type)
    assert isinstance(lds, LdsType)
    by_index = integer_of(op, "axis") if len(op.operands) > 1 else None
    rank, size = len(lds.lengths), bits(lds.element)
    problems = []
    twice: list[CopyPlan] = []
    widths = [width for width in COPY_BYTES if width in target.direct_to_lds]
    for width in reversed(widths):
        cell = width * 8 // size
        runs = [
            1 if dim == by_index else vector_length(op.operands[0], dim, max(cell, 1))
            for dim in range(rank)
        ]  # fmt: skip
        contiguous = max(range(rank), key=lambda dim: (runs[dim], dim != by_index, dim))
        if cell < 1 or runs[contiguous] < cell:
            problems.append(f"{width} bytes are not contiguous and aligned in memory")
            continue
        order = [dim for dim in range(rank) if dim != contiguous] + [contiguous]
        try:
            found = CopyPlan(order, lane_cells(lds.lengths, order, waves, cell), cell)
        except ValueError as problem:
            problems.append(str(problem))
            continue
        if math.prod(lds.lengths) >= cell * waves * WAVE_SIZE:
            return found
        twice.append(found)
    if twice:
        return twice[0]
    able = " or ".join(map(str, widths))
    fail(
        op,
        f"{target.name} copies {able} bytes a lane to LDS, which does not suit this window: "
        f"{'; '.join(problems)}; load it and use to_lds",
    )
