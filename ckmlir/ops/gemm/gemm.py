"""gemm: C = A·B, accumulated in f32, f64 (of f64) or i32 (of i8); or an expression of that and of up to four D tensors.

Arrays have the shape of memory: `a` is (m, k) where the first letter of the layout is R and (k, m) where it is C; `b`
is (k, n) or (n, k) by the second letter; `c` is (m, n). `lda`, `ldb`, `ldc` are the distances of their rows in
elements. With `shuffled`, `b` holds the same matrix as `shuffle_b` arranges it (`ckmlir.ops.contraction.shuffle`).

With `b_dtype` one of A and B is of fp8 and the other of bf8. `dtype=xf32` multiplies arrays of f32 with 10 bits of
mantissa (gfx942 only). `op` is an expression such as `gelu(acc + d0) * alpha`, computed in f32, or for f64 in f64,
where chips have arithmetic and rounding but no exponentials. `acc` is the sum, `d0` to `d3` are D tensors, each a
matrix as C, one row, one column or one number (`d_kind`). Narrow outputs (i8, fp8, bf8) saturate. C = alpha·A·B +
beta·D is `op=alpha*acc+beta*d0`.

With `split_k` workgroups share the sums: each takes a part of K. By `reduction=workspace` their partial sums, f32,
f64 or i32, go to a workspace, and `sum_parts` adds them in a fixed order and applies `op`; by `atomic`
memory adds them to C, which is set to zero before.

NaN and infinities are those of IEEE arithmetic. Where the magnitudes of the products of an element add up to more than
their type holds, nothing is promised of it.

Kernel arguments: a, b; m, n, k; lda, ldb, ldc and those of D tensors (i32); of parts their length along k and, into a
workspace, the elements from one to the next (i32); D tensors, c; with an expression alpha and beta (f32, or f64). Grid:
tiles of C row by row; 1; parts.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ckmlir.ops.contraction.block_sizes import LARGE, MEDIUM, SMALL
from ckmlir.ops.contraction.contraction_spec import LAYOUTS, OUTPUTS, ContractionSpec, stored_type
from ckmlir.ops.contraction.keys import (
    PAIR_KEYS,
    PITCHES,
    PLAN_KEYS,
    SHUFFLED,
    SIZES,
    SPLIT_KEYS,
    check_sizes,
    expression_keys,
    read_problem,
)  # fmt: skip
from ckmlir.ops.contraction.operator import ContractionOperator
from ckmlir.ops.contraction.problem import REDUCTIONS, Problem
from ckmlir.ops.dtypes import find_dtype
from ckmlir.targets import Target

EXPRESSIONS = ("relu(acc + d0)", "gelu(acc + d0) + d1", "alpha * acc + beta * d0")
"""Epilogues whose kernels are listed; the first D tensor of the first two is a bias."""


class Gemm(ContractionOperator):
    """The operator `gemm`, which the module's docstring describes."""

    name = "gemm"
    keys = (*SIZES, *PAIR_KEYS, *PITCHES, *PLAN_KEYS, *SPLIT_KEYS, SHUFFLED, *expression_keys(None))

    def _problem(self, values: Mapping[str, Any]) -> Problem:
        return check_sizes(read_problem(values))

    def kernels(self, target: Target) -> list[ContractionSpec]:
        specs = []
        for dtype, outputs in OUTPUTS.items():
            for out in outputs if find_dtype(stored_type(dtype)).bytes < 4 else outputs[:1]:
                for layout in LAYOUTS:
                    for size in (SMALL, 8 * MEDIUM, 16 * LARGE):
                        problem = self.problem(m=size, n=size, k=1024, dtype=dtype, out=out, layout=layout)
                        specs.append(self.spec(problem, target))
            problem = self.problem(m=1024, n=1024, k=1024, dtype=dtype, schedule="preshuffle")
            specs.append(self.spec(problem, target))
            for reduction in REDUCTIONS:
                problem = self.problem(m=SMALL, n=8 * MEDIUM, k=8192, dtype=dtype, split_k=16, reduction=reduction)
                specs.append(self.spec(problem, target))
        for op in EXPRESSIONS:
            kinds = ["row" if "acc + d0" in op else "full"] + ["full"] * op.count("d1")
            for dtype in ("f16", "bf16"):
                for size in (SMALL, 8 * MEDIUM, 16 * LARGE):
                    problem = self.problem(m=size, n=size, k=1024, dtype=dtype, op=op, d_kind=kinds)
                    specs.append(self.spec(problem, target))
        return [spec for spec in dict.fromkeys(specs) if not self.validate(spec, target)]


OPERATOR = Gemm()
