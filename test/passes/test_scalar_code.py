"""Scalar code of tiles: it is read once, however many vectors it is applied to."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from ckmlir.dialect.build import attributes_of, registers_of
from ckmlir.dialect.context import exclusive
from ckmlir.ops import find_operator
from ckmlir.passes import elementwise
from ckmlir.passes.pipeline import FRAGMENTING, run_pipeline
from ckmlir.passes.walk import REGION_VALUES, functions, nested, operations
from ckmlir.targets import get_target


def test_scalar_code_is_read_once_for_all_vectors_of_a_tile(monkeypatch: pytest.MonkeyPatch) -> None:
    operator, target = find_operator("rmsnorm2d"), get_target("gfx942")
    kernel = operator.build(operator.spec(operator.problem(m=64, n=4096, dtype="f32"), target), target)
    read = Counter[str]()

    def asked(op: Any) -> Any:
        read[op.name] += 1
        return attributes_of(op)

    monkeypatch.setattr(elementwise, "attributes_of", asked)
    with exclusive(kernel.module.context):
        (function,) = functions(kernel.module)
        inside = [one.name for op in operations(function) if op.name in REGION_VALUES for one in nested(op)]
        run_pipeline(kernel.module, FRAGMENTING, dump_on_failure=False)
        made = Counter(op.name for op in operations(function))
        loads = [op for op in operations(function) if op.name == "ck.load_fragment"]
        assert read == Counter(name for name in inside if not name.startswith("ck."))
        assert made["arith.mulf"] >= 4 * 3  # each of x², x * inv_rms and y * gamma of four vectors
        assert registers_of(loads[0]) is registers_of(loads[0])
