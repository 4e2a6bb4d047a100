"""Convolutions of fp8 with bf8, and their gradients: one array of each, or both the other way round."""

from __future__ import annotations

from typing import Any

import pytest
from operator_runner import agree

from ckmlir.ops import find_operator
from ckmlir.ops.convolution import filled
from ckmlir.ops.request import RequestError

IMAGES: dict[str, Any] = {"n": 2, "c": 16, "k": 24, "image": (6, 7), "window": (3, 2), "pads": (1, 0)}
CASES: dict[str, dict[str, Any]] = {
    "padded": IMAGES,
    "strides": {**IMAGES, "g": 2, "c": 5, "strides": (2, 1), "dilations": (1, 2)},
    "pointwise": {**IMAGES, "window": 1, "pads": 0},
    "parts": {**IMAGES, "split_k": 2},
    "first": {**IMAGES, "channels": "first"},
    "depthwise": {**IMAGES, "g": 24, "c": 1, "k": 1},
}
OPERATORS = ("conv_fwd", "conv_bwd_data", "conv_bwd_weight")
FEW = {("conv_bwd_data", "strides"), ("conv_fwd", "depthwise")}


@pytest.mark.one_in(2)
@pytest.mark.parametrize("dtype", ["fp8", pytest.param("bf8", marks=pytest.mark.full)])
@pytest.mark.parametrize("chip", ["gfx942", pytest.param("gfx950", marks=pytest.mark.full)])
@pytest.mark.parametrize(("operator", "case"), [
    pytest.param(operator, case, marks=() if (operator, case) in FEW else pytest.mark.full)
    for operator in OPERATORS for case in CASES
])  # fmt: skip
def test_numbers(operator: str, case: str, chip: str, dtype: str) -> None:
    agree(operator, chip, **CASES[case], dtype=dtype, b_dtype="bf8" if dtype == "fp8" else "fp8", out="f32", op="acc")


@pytest.mark.full
def test_filled_images(monkeypatch: pytest.MonkeyPatch) -> None:
    """Images and weights are copied each in its own type."""
    monkeypatch.setattr(filled, "SAVED_BY_LENGTH", 1.0)
    agree("conv_fwd", "gfx942", **{**IMAGES, "c": 5}, dtype="fp8", b_dtype="bf8", out="f32", op="acc")


@pytest.mark.parametrize("name", OPERATORS)
@pytest.mark.parametrize("geometry", [{}, {"g": 24, "c": 1, "k": 1}])
def test_other_pairs_are_refused(name: str, geometry: dict[str, int]) -> None:
    with pytest.raises(RequestError, match=f"{name}: b_dtype=fp8: beside dtype=f16"):
        find_operator(name).problem(**{**IMAGES, **geometry}, dtype="f16", b_dtype="fp8")
