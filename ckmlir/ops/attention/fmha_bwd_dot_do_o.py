"""fmha_bwd_dot_do_o: what gradients of attention need of each query, the first step of `fmha_bwd`.

    delta    = -factor · rowsum(dO · O)    what the product dO·Vᵀ begins with
    exponent = log2(e) · LSE               what scores to the base 2 are reduced by

Arrays: o and do, (b, h, sq, dv) with layout bhsd or (b, sq, h, dv) with bshd, lse (b, h, sq) in f32; delta and exponent
as lse. Kernel arguments: o, do, lse, delta, exponent; sq, h (i32); factor (f32); for o and do the strides of the
sequence (i32), the head and the batch (i64). Grid: (blocks of queries, heads, batches).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ckmlir.ops.attention.head_strides import VECTOR_BYTES, HeadStrides, checked_head_strides
from ckmlir.ops.comparison import Array, Tolerance
from ckmlir.ops.dtypes import find_dtype
from ckmlir.ops.operator import NOTHING, Argument, ArraySpec, Launch, Operator, array_spec, ceil_div
from ckmlir.ops.precision import DENORMAL, UNIT, in_f32, order_decides
from ckmlir.ops.request import Choice, Integer, Real, RequestError
from ckmlir.ops.spec import Reason, Spec, not_a_choice
from ckmlir.targets import Target
from ckmlir.targets.cdna import WAVE_SIZE

DTYPES = ("f16", "bf16")
CHANNEL_TILES = (32, 64, 128, 256)
"""Channels that a tile may have: lanes side by side hold a row."""
ROWS, WAVES = 64, 4
"""Queries and waves of a workgroup."""
STEPS = 16
"""Additions one after another, at most: 8 of a lane's vector, 5 of lanes."""
LOG2_E = math.log2(math.e)


@dataclass(frozen=True)
class Problem:
    """Rows of dO and O to multiply; strides along batches, heads and rows."""

    b: int
    h: int
    sq: int
    dv: int
    dtype: str
    layout: str
    o_strides: tuple[int, int, int]
    do_strides: tuple[int, int, int]
    factor: float = 1.0

    def by_head(self, array: Array) -> Array:
        """A view of o or do with the axes (batch, head, query, channel)."""
        return array if self.layout == "bhsd" else array.transpose(0, 2, 1, 3)


@dataclass(frozen=True)
class DotDoOSpec(Spec):
    """What the kernel's code depends on."""

    dtype: str
    dv: int

    @property
    def name(self) -> str:
        return f"fmha_bwd_dot_do_o_{self.dtype}_d{self.dv}"

    @property
    def dv_tile(self) -> int:
        """Channels of a tile."""
        return min(tile for tile in CHANNEL_TILES if tile >= self.dv)


class DotDoO(Operator[Problem, DotDoOSpec]):
    """See the module's text."""

    name = "fmha_bwd_dot_do_o"
    summary = "attention backward, first step: minus rowsum(dO·O) of every query"
    spec_type = DotDoOSpec
    keys = (
        Integer("b", 1, "batches"),
        Integer("h", 2, "heads", minimum=1),
        Integer("sq", 256, "queries"),
        Integer("dv", 128, "channels: a multiple of 8 up to 256", minimum=1, multiple=8),
        Choice("dtype", "f16", "of O and dO", DTYPES),
        Choice("layout", "bhsd", "order of the dimensions in memory", ("bhsd", "bshd")),
        Real("factor", 1.0, "of delta, at most 1: with dropout the probability that a weight is kept", 0),
        *(
            HeadStrides(
                f"{name}_strides", None, f"elements from one batch, head and row of {name} to the next", 3, array=name
            )
            for name in ("o", "do")
        ),
    )

    def _problem(self, values: Mapping[str, Any]) -> Problem:
        dv = values["dv"]
        if dv % 8 or dv > CHANNEL_TILES[-1]:
            raise RequestError(f"dv={dv}: expected a multiple of 8 from 8 to {CHANNEL_TILES[-1]}")
        if not 0 < values["factor"] <= 1:
            raise RequestError(f"factor={values['factor']}: expected a number above 0 and at most 1")
        sizes = (values["h"], values["sq"], dv)
        strides = {
            f"{name}_strides": checked_head_strides(
                name, values["layout"], values["b"], sizes, values["dtype"], values[f"{name}_strides"]
            )
            for name in ("o", "do")
        }
        problem = Problem(**{**values, **strides})
        self.arrays(problem)  # refuses what is too large
        return problem

    def spec(self, problem: Problem, target: Target) -> DotDoOSpec:
        return DotDoOSpec(problem.dtype, problem.dv)

    def validate(self, spec: DotDoOSpec, target: Target) -> list[Reason]:
        reasons = list(not_a_choice(spec, dtype=DTYPES))
        if spec.dv % 8 or not 8 <= spec.dv <= CHANNEL_TILES[-1]:
            right = f"expected a multiple of 8 from 8 to {CHANNEL_TILES[-1]}"
            reasons.append(Reason("dv", spec.dv, "no tile holds so many channels in whole vectors", right))
        return reasons

    def kernels(self, target: Target) -> list[DotDoOSpec]:
        return [DotDoOSpec(dtype, dv) for dtype in DTYPES for dv in (32, 64, 96, 128, 256)]

    def arrays(self, problem: Problem) -> tuple[ArraySpec, ...]:
        found = []
        for name, (batch, head, row) in (("o", problem.o_strides), ("do", problem.do_strides)):
            heads = ((problem.h, head), (problem.sq, row))
            (first, far), (second, near) = heads if problem.layout == "bhsd" else heads[::-1]
            shape = (problem.b, first, second, problem.dv)
            found.append(ArraySpec(name, shape, problem.dtype, "in", (batch, far, near, 1)))
        by_query = (problem.b, problem.h, problem.sq)
        found.append(array_spec("lse", by_query, "f32", "in"))
        return (*found, *(array_spec(name, by_query, "f32", "out") for name in ("delta", "exponent")))

    def _values(self, problem: Problem, array: ArraySpec, generator: np.random.Generator) -> Array:
        return generator.standard_normal(array.shape, dtype=np.float32)

    def reference(self, problem: Problem, arrays: Mapping[str, Array]) -> dict[str, Array]:
        with np.errstate(invalid="ignore", over="ignore"):
            delta = -problem.factor * in_f32(self._products(problem, arrays).sum(-1))
            return {"delta": delta, "exponent": in_f32(arrays["lse"].astype(np.float64) * LOG2_E)}

    def _products(self, problem: Problem, arrays: Mapping[str, Array]) -> Array:
        o, do = (problem.by_head(arrays[name]).astype(np.float64) for name in ("o", "do"))
        with np.errstate(invalid="ignore"):
            found: Array = o * do
        return found

    def tolerances(
        self, problem: Problem, arrays: Mapping[str, Array], reference: Mapping[str, Array], target: Target
    ) -> dict[str, Tolerance]:
        """With u f32's unit roundoff: products of 16-bit numbers are exact in f32 (of bf16 down to its range). A lane
        adds a vector of them, then lanes are added in pairs, so that a sum has an error of at most `STEPS` u sum|x|;
        the factor and the product with it add one each. The exponent is rounded twice, with its constant.
        """
        products = self._products(problem, arrays)
        sizes = problem.factor * np.where(np.isfinite(products), np.abs(products), 0.0).sum(-1)
        steps = STEPS + 2 * (problem.factor != 1)
        free = order_decides(products, -1)
        what = f"an f32 sum of {problem.dv} products"
        return {
            "delta": Tolerance(0.0, steps * UNIT * sizes + (problem.dv + 1) * DENORMAL, what, free),
            "exponent": Tolerance(2 * UNIT, DENORMAL, "one f32 product"),
        }

    def launch(self, problem: Problem, spec: DotDoOSpec, target: Target) -> Launch:
        if self.writes_nothing(problem):
            return NOTHING
        arguments: list[Argument] = ["o", "do", "lse", "delta", "exponent", np.int32(problem.sq), np.int32(problem.h)]
        arguments.append(np.float32(problem.factor))
        for batch, head, row in (problem.o_strides, problem.do_strides):
            arguments += (np.int32(row), np.int64(head), np.int64(batch))
        grid = (ceil_div(problem.sq, ROWS), problem.h, problem.b)
        return Launch(grid, (WAVES * WAVE_SIZE, 1, 1), tuple(arguments))


def row_multiple(dtype: str) -> int:
    """Elements of which distances in arrays of a dtype are multiples."""
    return VECTOR_BYTES // find_dtype(dtype).bytes


OPERATOR = DotDoO()
