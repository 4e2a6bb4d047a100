"""flatmm: C = A·B with B in fragment order, straight to registers, and A through LDS (CK Tile's example 18).

Keys, arrays and kernel arguments are those of `gemm`, whose kernel it is with `shuffled` (32 by default) and the
schedule `preshuffle`. `b` is what `shuffle_b`, the operator or the function of `ckmlir.ops.contraction.shuffle`, makes
of a matrix; layouts are those with B along k.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ckmlir.ops.contraction.block_sizes import MEDIUM, SMALL
from ckmlir.ops.contraction.contraction_spec import PRESHUFFLE, ContractionSpec
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
from ckmlir.ops.contraction.shuffle import COLUMNS
from ckmlir.ops.request import Choice
from ckmlir.targets import Target

LAYOUTS = ("RCR", "CCR")
SCHEDULES = (PRESHUFFLE, "straight")


class Flatmm(ContractionOperator):
    """The operator `flatmm`, which the module's docstring describes."""

    name = "flatmm"
    keys = (
        *SIZES,
        *(key for key in PAIR_KEYS if key.name != "layout"),
        Choice("layout", "RCR", "of A, B, C: R rows, C columns are contiguous", LAYOUTS),
        *(key for key in PITCHES if key.name != "ldb"),
        *(key for key in PLAN_KEYS if key.name != "schedule"),
        Choice("schedule", None, "of the K loop; by default preshuffle", SCHEDULES),
        *SPLIT_KEYS,
        Choice("columns", None, "of a tile of B; by default those of mfma, or 32 (f64: 16)", tuple(map(str, COLUMNS))),
        *expression_keys(None),
    )

    def _problem(self, values: Mapping[str, Any]) -> Problem:
        asked = None if values["columns"] is None else int(values["columns"])
        schedule = values["schedule"] or PRESHUFFLE
        return check_sizes(read_problem({**values, "schedule": schedule, "shuffled": asked or None, "ldb": None}))

    def kernels(self, target: Target) -> list[ContractionSpec]:
        problems = [
            self.problem(m=size, n=8 * MEDIUM, k=1024, dtype=dtype, layout=layout, op=op)
            for dtype in ("f16", "bf16", "fp8", "bf8")
            for layout, op in zip(LAYOUTS, (None, "gelu(acc + d0)"), strict=True)
            for size in (SMALL, 8 * MEDIUM)
        ]
        specs = dict.fromkeys(self.spec(problem, target) for problem in problems)
        return [spec for spec in specs if not self.validate(spec, target)]


OPERATOR = Flatmm()
