"""The softmax kernels as tile code.

A row in registers: its maximum, then the sum of its exponentials. A row that streams: both at once, every register
position with a maximum and a sum of its own, rescaled when the maximum grows.
"""

from collections.abc import Sequence
from math import inf
from typing import Any

from ckmlir.lang import Kernel, Tile, each_element, exp2, where
from ckmlir.ops.precision import LOG2_E
from ckmlir.ops.request import GREATEST_F32
from ckmlir.ops.rows.block_kernel import Column, Part, RowBlock, row_kernel
from ckmlir.ops.softmax.softmax import SoftmaxSpec
from ckmlir.targets import Target

LOWEST = -GREATEST_F32
"""The least that a maximum is taken for: minus infinity less this has an exponential of 0, less itself it is NaN."""


def build(spec: SoftmaxSpec, target: Target) -> Kernel:
    """Trace the kernel of a specification."""

    def body(block: RowBlock) -> None:
        def exponent(column: Column) -> Tile:
            scaled = block.load("x", column) * (block.given.scale * LOG2_E)
            if spec.mask:
                scaled = where(block.load("mask", column).equals(0.0), -inf, scaled)
            return block.inside(scaled, column, -inf)

        exponents = block.held(exponent)
        largest, total = (_streamed if spec.streamed else _whole)(block, exponents)
        inverse = inverse_of_total(total)
        block.each(lambda at: block.store(exp2(exponents(at).minus(largest[:, None])) * inverse[:, None], "y", at))

    return row_kernel(spec, target, body, ["scale"])


def _whole(block: RowBlock, exponents: Part) -> tuple[Tile, Tile]:
    largest = row_maximum(block, exponents)
    return largest, block.sum(lambda column: exp2(exponents(column).minus(largest[:, None])))


def _streamed(block: RowBlock, exponents: Part) -> tuple[Tile, Tile]:
    def one(column: Column) -> list[Tile]:
        return [exponents(column), block.full(1.0)]

    largest, total = block.fold(one, [LOWEST, 0.0], _merge)
    return largest, total


def _merge(left: Sequence[Any], right: Sequence[Any]) -> list[Any]:
    """(maximum, sum of exponentials less the maximum) of two samples together."""
    largest = left[0].maximum(right[0]).maximum(LOWEST)
    return [largest, left[1] * exp2(left[0].minus(largest)) + right[1] * exp2(right[0].minus(largest))]


def inverse_of_total(total: Tile) -> Tile:
    """What divides by totals; by one where nothing was added up."""
    return each_element(lambda one: 1.0 / one.equals(0.0).select(1.0, one), total)


def row_maximum(block: RowBlock, values: Part) -> Tile:
    """The largest element of every row, at least the lowest finite number; what lies behind its end must be -inf."""
    largest: Tile = block.fold(lambda column: [values(column)], [LOWEST], lambda a, b: [a[0].maximum(b[0])])[0]
    bounded: Tile = largest.maximum(LOWEST)
    return bounded
