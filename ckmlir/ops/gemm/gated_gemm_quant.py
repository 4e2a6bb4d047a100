"""gated_gemm_quant: C = op(scaled A · scaled G, scaled A · scaled U) of quantised matrices, by default silu(gate) * up.

Scales are those of `gemm_quant`: of A, and of each of the two matrices, as `b_scale` says. Both products are in one
loop, and A with its scales is read once.

Arrays: a; gate and up, each as `b` of `gemm`; scale_a, scale_gate, scale_up; D tensors, c. Kernel arguments: those in
front of D tensors, then as in `gemm_quant`.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from ckmlir.ops.arrays import ArraySpec
from ckmlir.ops.comparison import Array
from ckmlir.ops.contraction.keys import expression_keys
from ckmlir.ops.contraction.problem import Problem
from ckmlir.ops.gemm.gated_gemm import PRODUCTS
from ckmlir.ops.gemm.gemm_quant import OPERATOR as GEMM_QUANT
from ckmlir.ops.gemm.gemm_quant import GemmQuant

LARGE_INTEGER = 64
"""About what i8 elements are, of -128 to 127."""
EXPRESSION = expression_keys("silu(gate) * up", PRODUCTS)


class GatedGemmQuant(GemmQuant):
    """The operator `gated_gemm_quant`, which the module's docstring describes."""

    name = "gated_gemm_quant"
    products: ClassVar[int] = PRODUCTS
    keys = (*(key for key in GEMM_QUANT.keys if key.name not in {one.name for one in EXPRESSION}), *EXPRESSION)

    def _values(self, problem: Problem, array: ArraySpec, generator: np.random.Generator) -> Array:
        """Scales such that sums are of the size that activations are for."""
        values = super()._values(problem, array, generator)
        if array.name != problem.scaling[0].name:
            return values
        size = LARGE_INTEGER**2 if problem.dtype == "i8" else 1
        smaller: Array = values / (size * max(problem.k, 1) ** 0.5)
        return smaller


OPERATOR = GatedGemmQuant()
