"""What a layer of experts makes of the sums of its products: activation, scales, biases and weights, as an expression
of `moe_gemm` with D tensors.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from ckmlir.ops.moe.between import SCALES
from ckmlir.ops.moe.experts_scales import has_channels

WEIGHTS = "sorted_weights"
_KINDS = {"x_scale": "column", SCALES: "column", WEIGHTS: "place"}
"""Of D tensors; others are a row of each expert."""
_FIRST = ("x_scale", "gate_scale", "up_scale", "gate_bias", "up_bias")
_SECOND = (WEIGHTS, SCALES, "down_scale", "down_bias")


class Sums(NamedTuple):
    """What becomes of the sums of a product.

    Attributes:
        keys: of `moe_gemm`: the expression and its D tensors.
        sides: what the D tensors are called in a layer, in their order.
    """

    keys: Mapping[str, str]
    sides: tuple[str, ...]


def first_sums(values: Mapping[str, Any]) -> Sums:
    """Of gate and up, by the keys of a layer: the activation of sums with their scales and biases."""
    return sums_of_matrices(values["op"], scaled=has_channels(values), bias=values["bias"])


def sums_of_matrices(op: str, *, scaled: bool, bias: str | None, weighted: bool = False) -> Sums:
    """Of gate and up, or of one matrix, which is called gate as well.

    Args:
        op: an expression of gate and up, or of acc.
        scaled: rows and columns have scales, which sums are multiplied by.
        bias: type of what is added to the scaled sums; None: nothing is.
        weighted: the outcome is multiplied by the weights of entries.
    """
    matrices = {"gate": "gate", "up": "up", "acc": "gate"}

    def whole(found: re.Match[str]) -> str:
        name, own = found[0], matrices[found[0]]
        with_scales = f"{name} * x_scale * {own}_scale" if scaled else name
        biased = f"{with_scales} + {own}_bias" if bias else with_scales
        return name if biased == name else f"({biased})"

    text = re.sub(r"\b(gate|up|acc)\b", whole, op)
    return _numbered(f"({text}) * {WEIGHTS}" if weighted else text, (*_FIRST, WEIGHTS), bias)


def second_sums(values: Mapping[str, Any]) -> Sums:
    """Of down: with scales and biases, times the weights of entries."""
    scales = f" * {SCALES} * down_scale" * has_channels(values)
    text = f"(acc{scales} + down_bias) * {WEIGHTS}" if values["bias"] else f"acc * {WEIGHTS}{scales}"
    return _numbered(text, _SECOND, values["bias"])


def _numbered(text: str, names: tuple[str, ...], bias: str | None) -> Sums:
    """An expression with the names of a layer's arrays, which become D tensors where it has them."""
    sides = tuple(name for name in names if re.search(rf"\b{name}\b", text))
    for place, name in enumerate(sides):
        text = re.sub(rf"\b{name}\b", f"d{place}", text)
    types = (bias if bias and name.endswith("_bias") else "f32" for name in sides)
    keys = {"op": text}
    if sides:
        keys |= {"d": ",".join(types), "d_kind": ",".join(_KINDS.get(name, "row") for name in sides)}
    return Sums(keys, sides)
