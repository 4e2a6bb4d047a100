"""Attention whose steps take 128 keys: proved, clean under all checkers and right, wherever queries and keys end."""

from __future__ import annotations

from typing import Any

import pytest
from operator_runner import checked

from ckmlir.ops import find_operator
from ckmlir.scheduling import Workbench
from ckmlir.targets import get_target

WOVEN = {"d": 64, "schedule": "qr_woven_async"}
BYTES = {"d": 64, "dtype": "fp8"}
GROUP = {"mode": "group", "seqlens_q": (37, 129, 64), "seqlens_k": (129, 340, 65)}


@pytest.mark.one_in(4)
@pytest.mark.parametrize(("chip", "keys"), [
    ("gfx950", {**WOVEN, "mask": "bottom_right", "sq": 140, "sk": 370}),
    ("gfx942", {**BYTES, "mask": "bottom_right", "sq": 70, "sk": 350}),
    ("gfx90a", {"d": 32, "sq": 40, "sk": 384}),
    *(pytest.param(*one, marks=pytest.mark.full) for one in (
        ("gfx950", {**WOVEN, "dtype": "bf16", "mask": "window:200,10", "sq": 333, "sk": 370}),
        ("gfx950", {**WOVEN, "d": 48, **GROUP, "mask": "top_left"}),
        ("gfx950", {**BYTES, "soft_cap": 30, "sq": 40, "sk": 340}),
        ("gfx942", {**BYTES, "alibi": "head", "sq": 40, "sk": 340}),
        ("gfx942", {"d": 32, "dtype": "bf16", **GROUP, "mask": "bottom_right"}),
    )),
])  # fmt: skip
def test_they_are_proved_and_right(chip: str, keys: dict[str, Any]) -> None:
    operator, target = find_operator("fmha_fwd"), get_target(chip)
    asked = {"h": 2, "lse": 1, **keys}
    spec = operator.spec(operator.problem(**asked), target)
    assert spec.block[1] == 128
    bench = Workbench.of(operator, spec, target)
    assert bench.compile(bench.schedule).findings == ()
    checked("fmha_fwd", chip, asked)
