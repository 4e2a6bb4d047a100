"""Kernels over the places of a routing: their grid, and which problems their blocks divide."""

from __future__ import annotations

from typing import NamedTuple

from ckmlir.ops.contraction.contraction_spec import ContractionSpec
from ckmlir.ops.contraction.problem import Problem
from ckmlir.ops.contraction.reciprocals import reciprocal
from ckmlir.ops.contraction.scaling import of_matrices
from ckmlir.ops.moe.experts_problem import ExpertsProblem
from ckmlir.ops.moe.experts_scales import operator_of
from ckmlir.ops.request import MAXIMUM_SIZE, RequestError
from ckmlir.ops.scalars import ceil_div
from ckmlir.ops.spec import Reason
from ckmlir.records import replace
from ckmlir.targets import Target


class Grid(NamedTuple):
    """Blocks of the places that a routing may take.

    Attributes:
        across: blocks along the columns, neighbours in the grid.
        down: blocks along the places.
        of_unit: blocks along the places of a unit.
    """

    across: int
    down: int
    of_unit: int

    @property
    def workgroups(self) -> int:
        """One for each block."""
        return self.across * self.down

    @property
    def divisors(self) -> tuple[int, int, int, int]:
        """What kernels divide the number of a block by, each with its reciprocal."""
        return self.across, reciprocal(self.across), self.of_unit, reciprocal(self.of_unit)


def grid_of(problem: ExpertsProblem, spec: ContractionSpec) -> Grid:
    """The grid of a kernel. Raises RequestError for more blocks than kernels count to."""
    of_unit = problem.unit // spec.block[0]
    found = Grid(ceil_div(problem.product.n, spec.block[1]), problem.units * of_unit, of_unit)
    if found.workgroups > MAXIMUM_SIZE:
        raise RequestError(f"{spec.operator}: {found.workgroups} blocks of C; kernels count to {MAXIMUM_SIZE}")
    return found


def strides_of(product: Problem) -> list[int]:
    """As kernels take them: from one expert's matrix to the next's, and likewise of its scales, where there are any."""
    own = (product.operands[1], *(one.name for one in of_matrices(product.scaling)[:1]))
    return [product.batch_of(name).strides[0] for name in own]


def mismatches_of_blocks(problem: ExpertsProblem, spec: ContractionSpec, target: Target) -> list[Reason]:
    """Why blocks do not compute the rows of a unit as a product of their own; `spec` apart from its walk and sink."""
    reasons = []
    if problem.unit % spec.block[0]:
        why = f"blocks of {spec.block[0]} rows do not divide unit={problem.unit}"
        reasons.append(Reason("block", spec.block, why, "expected a divisor"))
    operator = operator_of(problem.product)
    plain = replace(spec, operator=operator.name, walk="grid", sink="store")
    single = replace(problem.product, m=spec.block[0], split_k=None, reduction=None)
    return reasons + operator.mismatches(single, plain, target)
