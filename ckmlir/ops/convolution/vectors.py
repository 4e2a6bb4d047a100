"""What convolutions and gradients of images have in common where vectors multiply groups of few channels."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ckmlir.ops.contraction.contraction_spec import ContractionSpec
from ckmlir.ops.contraction.depthwise import NO_INSTRUCTION, Depthwise, DepthwiseSpec
from ckmlir.ops.contraction.depthwise_plans import EPILOGUE, SCHEDULES, depthwise_block, strips_that_pay
from ckmlir.ops.contraction.problem import Problem
from ckmlir.ops.contraction.wishes import Plan
from ckmlir.records import replace
from ckmlir.targets import Target

if TYPE_CHECKING:
    from ckmlir.ops.convolution.operator import ConvolutionOperator, ConvolutionProblem


def is_open(asked: Problem) -> bool:
    """Whether a request leaves it to the operator how products are made, and has none that vectors do not multiply."""
    named = (asked.block, asked.waves, asked.mfma, asked.epilogue, asked.schedule, asked.reduction)
    return asked.dtype != "xf32" and asked.split_k in (None, 1) and not any(named)


def in_vectors(
    operator: ConvolutionOperator, problem: ConvolutionProblem, windows: Depthwise, target: Target
) -> Iterator[ContractionSpec]:
    """Specifications for such windows of a problem: in strips that pay first."""
    align, *_ = problem.aligned()
    for seen in (strips_that_pay(windows, align), windows):
        if seen is None:
            continue
        block, waves = depthwise_block(seen, align, problem.dtype, target)
        for schedule in SCHEDULES:
            asked = replace(problem, windows=seen, mfma=NO_INSTRUCTION, epilogue=EPILOGUE)
            yield replace(operator.planned(asked, Plan(schedule, block, waves), "store", target), slices=(1, 1))


def seen_by(spec: ContractionSpec, problem: ConvolutionProblem) -> ConvolutionProblem:
    """The problem with images in a kernel's strips, if it has some and they are."""
    strip = DepthwiseSpec.parse(spec.windows).strip if spec.is_depthwise else None
    if strip is None or not isinstance(problem.windows, Depthwise):
        return problem
    seen = problem.windows.in_rows() if strip.image else problem.windows.in_strips(strip.positions)
    return replace(problem, windows=seen or problem.windows)
