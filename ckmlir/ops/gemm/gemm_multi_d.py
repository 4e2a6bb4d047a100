"""gemm_multi_d: E = op(A·B, D0, D1, …), CK Tile's example 19; `gemm` with two D tensors that scale the sums by default.

Keys, arrays and kernel arguments are those of `gemm`.
"""

from __future__ import annotations

from ckmlir.ops.contraction.block_sizes import LARGE, MEDIUM, SMALL
from ckmlir.ops.contraction.contraction_spec import ContractionSpec
from ckmlir.ops.contraction.keys import PAIR_KEYS, PITCHES, PLAN_KEYS, SHUFFLED, SIZES, SPLIT_KEYS, expression_keys
from ckmlir.ops.gemm.gemm import Gemm
from ckmlir.targets import Target


class GemmMultiD(Gemm):
    """The operator `gemm_multi_d`, which the module's docstring describes."""

    name = "gemm_multi_d"
    keys = (*SIZES, *PAIR_KEYS, *PITCHES, *PLAN_KEYS, *SPLIT_KEYS, SHUFFLED, *expression_keys("acc * d0 * d1"))

    def kernels(self, target: Target) -> list[ContractionSpec]:
        problems = [
            self.problem(m=size, n=size, k=1024, dtype=dtype)
            for dtype in ("f16", "bf16")
            for size in (SMALL, 8 * MEDIUM, 16 * LARGE)
        ]
        specs = dict.fromkeys(self.spec(problem, target) for problem in problems)
        return [spec for spec in specs if not self.validate(spec, target)]


OPERATOR = GemmMultiD()
