"""Both products of a layer of experts in one kernel: its specifications, its launch, and what is queued around it.

A block has the rows of a unit and some columns of what is between the products; see
`ckmlir.ops.contraction.chain_kernel`. Memory adds what blocks make of a token's row, in f32, in no fixed order; where y
is of another type, a second kernel rounds it.
"""

from __future__ import annotations

from collections.abc import Iterator

from ckmlir.ops.contraction.contraction_spec import ContractionSpec
from ckmlir.ops.contraction.coverage import covered
from ckmlir.ops.contraction.defaults import PREFERRED
from ckmlir.ops.contraction.problem import Problem
from ckmlir.ops.contraction.scaling import Scale, of_matrices
from ckmlir.ops.contraction.sum_parts import OPERATOR as SUM_PARTS
from ckmlir.ops.contraction.sum_parts import cleared, sum_over
from ckmlir.ops.contraction.wishes import Plan
from ckmlir.ops.dtypes import find_dtype
from ckmlir.ops.moe.experts_grid import grid_of, mismatches_of_blocks, strides_of
from ckmlir.ops.moe.experts_scales import operator_of
from ckmlir.ops.moe.layer_problem import LayerProblem
from ckmlir.ops.moe.layer_sums import WEIGHTS
from ckmlir.ops.moe.routing import LISTS, in_order
from ckmlir.ops.operator import NOTHING, Launch, Run, Step
from ckmlir.ops.scalars import f32, i32
from ckmlir.ops.spec import Reason, unlike
from ckmlir.ops.steps import OWN_KERNEL, Workspace
from ckmlir.records import replace
from ckmlir.targets import Target
from ckmlir.targets.cdna import WAVE_SIZE

NAME = "fused_moe"
"""Of the kernels."""
ROWS = ("a:token", "c:token")
"""Rows that the routing tells: those of x and of y."""
BLOCKS = (
    (64, 128, (2, 2)), (32, 128, (2, 2)), (16, 128, (1, 4)), (64, 64, (2, 2)), (32, 64, (2, 2)), (16, 64, (1, 4)),
)  # fmt: skip
"""Rows of a block, columns of what is between the products, waves: the widest first, since every block reads its rows
of x and adds to all columns of y."""
DEPTHS = (128, 64)
"""Bytes of a step along the first sums."""
COLUMNS = 64
"""Of y in a step of the second product."""
SCHEDULES = (PREFERRED[-1], *PREFERRED)


class Chained:
    """Both products in one kernel; `ckmlir.ops.moe.apart` is the other way."""

    def proposals(self, layer: LayerProblem, target: Target) -> Iterator[ContractionSpec]:
        """Candidates, the best first."""
        product, second = _made(layer), layer.second.product
        of_down, of_y = _aligned(layer)
        beside = _added(layer)
        size, align = find_dtype(product.stored).bytes, (*product.aligned()[:2], of_y)
        for rows, between, waves in BLOCKS:
            if layer.first.unit % rows:
                continue
            for depth in DEPTHS:
                for schedule in SCHEDULES:
                    plan = Plan(schedule, (rows, between, depth // size), waves)
                    found = operator_of(product).planned(product, plan, "atomic", target)
                    yield replace(
                        found, operator=NAME, walk="experts", rows=ROWS, epilogue="direct", slices=(1, 1), align=align,
                        chain=(COLUMNS, of_down), chain_side=beside,
                        chain_scaling=tuple(one.loaded_by(between).described for one in _as_of_down(second)),
                    )  # fmt: skip

    def others(self, layer: LayerProblem, target: Target) -> Iterator[ContractionSpec]:
        """None are tried behind them."""
        return iter(())

    def mismatches(self, layer: LayerProblem, spec: ContractionSpec, target: Target) -> list[Reason]:
        """Why a kernel does not compute a layer."""
        reasons = list(unlike(spec, operator=NAME, walk="experts", rows=ROWS, sink="atomic"))
        if not any(spec.chain):
            why = "it stores what is between the products"
            reasons.append(Reason("chain", spec.chain, why, "expected a second product"))
        of_down, of_y = _aligned(layer)
        claims = (("chain", "down", of_down, max(spec.chain[1], 1)), ("align", "y", of_y, spec.align[2]))
        for field, name, rows, claimed in claims:
            if rows % claimed:
                why = f"rows of array {name} are aligned to {rows} elements"
                reasons.append(Reason(field, getattr(spec, field), why, f"expected at most {rows} for {name}"))
        scales = tuple(one.described for one in _as_of_down(layer.second.product))
        kept = (("chain_scaling", scales, "scales"), ("chain_side", _added(layer), "rows to add"))
        for field, expected, what in kept:
            if not covered(expected, getattr(spec, field)):
                why = f"the kernel takes other {what} beside the second matrix"
                reasons.append(Reason(field, getattr(spec, field), why, f"expected {expected}"))
        plain = replace(spec, align=(*spec.align[:2], 1))
        return reasons + mismatches_of_blocks(replace(layer.first, product=_made(layer)), plain, target)

    def launch(self, layer: LayerProblem, spec: ContractionSpec, target: Target) -> Launch:
        """A workgroup for each block of rows and of what is between."""
        first, product, second = layer.first, _made(layer), layer.second.product
        grid = grid_of(first, spec)
        if not grid.workgroups:
            return NOTHING
        names = [layer.first_names.get(name, name) for name in product.names if name not in product.outputs]
        beside = {one.name: one.pitch for one in of_matrices(second.scaling)}
        beside |= {one.name: one.pitch for one in second.side[1:]}  # the bias, behind the weights
        own = [layer.second_names[name] for name in (second.operands[1], *beside)]
        arrays = (*names, *own, WEIGHTS, layer.sums.name)
        distances = replace(product, ldc=second.ldc).distances()
        of_matrix = second.distances()[1]
        strides = [*strides_of(product), *strides_of(second)]
        counts = (first.count("place"), first.t, first.topk, first.e)
        sizes = (product.n, product.k, *distances, of_matrix, *beside.values(), *strides, *counts)
        others = (*map(i32, sizes), *map(f32, (product.alpha, product.beta)))
        arguments = in_order(LISTS, map(i32, grid.divisors), arrays, others)
        shape = (grid.across, grid.down)
        return Launch((grid.workgroups, 1, 1), (spec.wave_count * WAVE_SIZE, 1, 1), arguments, shape)

    def steps(self, layer: LayerProblem) -> tuple[Step, ...]:
        """Zeros, to which memory adds; both products; and what rounds the sums, where y is not f32."""
        sums, y = layer.sums, layer.y
        if sums.name == y.name:
            return (cleared(sums), OWN_KERNEL)
        strides = (sums.elements, *sums.strides)
        rounded = sum_over(1, sums.shape, sums.dtype, strides, y.dtype, y.strides)
        return (cleared(sums), OWN_KERNEL, Run(SUM_PARTS, rounded, {"acc_parts": sums.name, "c": y.name}))

    def workspaces(self, layer: LayerProblem) -> tuple[Workspace, ...]:
        """Of the sums, where y is not f32."""
        return () if layer.sums.name == layer.y.name else (Workspace(layer.sums.name, layer.sums.nbytes),)


def _aligned(layer: LayerProblem) -> tuple[int, int]:
    """Elements of which rows of `down` and of y are multiples."""
    _, of_down, of_y = layer.second.product.aligned()
    return of_down, of_y


def _as_of_down(second: Problem) -> tuple[Scale, ...]:
    """The scales of the matrix of a second product, as those of `down`."""
    return tuple(replace(one, operand="down") for one in of_matrices(second.scaling))


def _added(layer: LayerProblem) -> tuple[str, ...]:
    """The bias of the second product, which stands behind its weights, as a specification has it."""
    return layer.second.product.described_side()[1:]


def _made(layer: LayerProblem) -> Problem:
    """The first product; what comes of it is added in f32."""
    return replace(layer.first.product, out="f32")
