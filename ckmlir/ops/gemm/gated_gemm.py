"""gated_gemm: C = op(A·G, A·U), by default silu(A·G) * (A·U): both products in one loop, A read once.

Arrays: a as in `gemm`; gate and up, each as `b` of `gemm`; D tensors that op names; c. In `op`, `gate` and `up` are the
two sums.

Kernel arguments: a, gate, up; then as in `gemm`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ckmlir.ops.contraction.block_sizes import MEDIUM, SMALL
from ckmlir.ops.contraction.contraction_spec import ContractionSpec
from ckmlir.ops.contraction.keys import (
    PAIR_KEYS,
    PITCHES,
    PLAN_KEYS,
    SIZES,
    SPLIT_KEYS,
    check_sizes,
    expression_keys,
    read_problem,
)  # fmt: skip
from ckmlir.ops.contraction.operator import ContractionOperator
from ckmlir.ops.contraction.problem import Problem
from ckmlir.targets import Target

PRODUCTS = 2


class GatedGemm(ContractionOperator):
    """The operator `gated_gemm`, which the module's docstring describes."""

    name = "gated_gemm"
    keys = (*SIZES, *PAIR_KEYS, *PITCHES, *PLAN_KEYS, *SPLIT_KEYS, *expression_keys("silu(gate) * up", PRODUCTS))

    def _problem(self, values: Mapping[str, Any]) -> Problem:
        return check_sizes(read_problem(values, PRODUCTS))

    def kernels(self, target: Target) -> list[ContractionSpec]:
        problems = [
            self.problem(m=size, n=size, k=1024, dtype=dtype, op=op)
            for op in ("silu(gate) * up", "gelu(gate) * up")
            for dtype in ("f16", "bf16")
            for size in (SMALL, 8 * MEDIUM)
        ]
        specs = dict.fromkeys(self.spec(problem, target) for problem in problems)
        return [spec for spec in specs if not self.validate(spec, target)]


OPERATOR = GatedGemm()
