"""Scales of groups along K of experts' products: which a request names, and whose arithmetic those products have.

A has scales for each of its rows, which follow the rows of a routing as A's do; each expert has those of its matrices.
Beside A of 16 bits elements of 4 bits alone have scales.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from ckmlir.ops.comparison import Array
from ckmlir.ops.contraction.keys import check_packed
from ckmlir.ops.contraction.operator import ContractionOperator
from ckmlir.ops.contraction.problem import Problem
from ckmlir.ops.contraction.scaling import FLOATS, POWERS
from ckmlir.ops.contraction.scaling import ZEROS as SHIFTS
from ckmlir.ops.dtypes import HALF_BYTES, PACKED_FLOATS, PACKED_INTEGERS, find_dtype
from ckmlir.ops.gemm.gated_gemm_quant import LARGE_INTEGER
from ckmlir.ops.gemm.gemm import OPERATOR as GEMM
from ckmlir.ops.gemm.gemm_quant import GROUPS, scale_of
from ckmlir.ops.gemm.gemm_quant import OPERATOR as GEMM_QUANT
from ckmlir.ops.gemm.mx_gemm import OPERATOR as MX_GEMM
from ckmlir.ops.moe.experts_weights import OPERATOR as WEIGHTS_GEMM
from ckmlir.ops.request import Choice, Flag, RequestError
from ckmlir.targets.matrix_names import EIGHT_BIT_FLOATS
from ckmlir.targets.mfma import SCALED_BLOCK

MX = "mx"
A_SCALES = {**GROUPS, MX: (1, SCALED_BLOCK)}
B_SCALES = {**A_SCALES, "128x128": (128, 128)}
"""Words -> rows of A (columns of B), and elements along K, that share a scale."""
SCALED = (*EIGHT_BIT_FLOATS, "i8")
"""Types of A and B that have f32 scales."""
POWERED = ("fp8", "bf8", *PACKED_FLOATS)
"""Those that have powers of two."""
SCALE = Choice(
    "scale", None, "of 4 bits beside f16 and bf16: type of b_scale, unless that is mx; default: f32", FLOATS
)  # fmt: skip
"""The key of layers as well."""
ZEROS = Flag("zeros", False, "each scale of matrices of integers of 4 bits has a zero point beside it")
"""The key of layers as well."""
WIDE = ("f16", "bf16")
"""Types of A beside which elements of B of 4 bits have scales."""


def operator_of(product: Problem) -> ContractionOperator:
    """The operator of single products like this."""
    if not product.scaling:
        return GEMM
    if not product.scaled_sums:
        return WEIGHTS_GEMM
    return MX_GEMM if all(one.dtype == POWERS for one in product.scaling) else GEMM_QUANT


def read_scales(values: Mapping[str, Any]) -> Mapping[str, Any]:
    """The keys with what is open of scales: packed types have powers of two, others none. Raises RequestError for types
    and scales that do not fit each other.
    """
    a, b = values["dtype"], values["b_dtype"] or values["dtype"]
    if a in WIDE and b in HALF_BYTES:
        return _of_elements(values, a, b)
    if {a, b} & set(PACKED_FLOATS):
        values = {**values, **{key: values[key] or MX for key in ("a_scale", "b_scale")}}
    _check_of_four_bits(values, b)
    words = {key: values[key] for key in ("a_scale", "b_scale")}
    missing = [key for key, word in words.items() if word is None]
    if len(missing) == 1:
        raise RequestError(f"{missing[0]}: A and B have scales, or none has; expected {missing[0]} as well")
    if missing:
        if a != b and not {a, b} <= set(EIGHT_BIT_FLOATS):
            right = "a_scale=1x128 b_scale=1x128" if b in PACKED_INTEGERS else "a_scale=mx b_scale=mx"
            raise RequestError(f"b_dtype={b}: such products have scales of groups; expected {right}")
        return values
    if (words["a_scale"] == MX) != (words["b_scale"] == MX):
        text = " ".join(f"{key}={word}" for key, word in words.items())
        raise RequestError(f"{text}: powers of two are of both or none; expected mx twice")
    pairs = EIGHT_BIT_FLOATS if a in EIGHT_BIT_FLOATS else (a,)
    able = {"dtype": (a, SCALED), "b_dtype": (b, (*pairs, *PACKED_INTEGERS))}
    if words["a_scale"] == MX:
        able = {"dtype": (a, POWERED), "b_dtype": (b, POWERED)}
    for key, (found, types) in able.items():
        if found not in types:
            right = f"{'|'.join(types)} with a_scale={words['a_scale']}"
            if key == "dtype" and b in HALF_BYTES:
                right += f", or {'|'.join(WIDE)} without a_scale"
            raise RequestError(f"{key}={found}: expected {right}")
    check_packed(values, (a, b), zeros=values["zeros"])
    return {**values, "op": values["op"] or "acc"}


def _check_of_four_bits(values: Mapping[str, Any], b: str) -> None:
    """Raises RequestError for what only 4 bits beside A of 16 have, and for zero points of others than integers."""
    if values["scale"] is not None:
        raise RequestError(f"scale={values['scale']}: of B of 4 bits beside {'|'.join(WIDE)}; expected nothing")
    if values["zeros"] and b not in PACKED_INTEGERS:
        raise RequestError(f"zeros: of integers of 4 bits, not of {b}; expected b_dtype=i4, or u4")


def _of_elements(values: Mapping[str, Any], a: str, b: str) -> Mapping[str, Any]:
    """The keys with the scales of B's elements. Raises RequestError for those that A has, or that integers have not."""
    words = {**values, "b_scale": values["b_scale"] or (None if b in PACKED_INTEGERS else MX)}
    if words["a_scale"] is not None:
        raise RequestError(f"a_scale={words['a_scale']}: dtype={a} has no scales beside b_dtype={b}; expected nothing")
    if b in PACKED_INTEGERS and words["b_scale"] in (None, MX):
        given = "" if words["b_scale"] is None else f"={MX}"
        able = "|".join(word for word in B_SCALES if word != MX)
        raise RequestError(f"b_scale{given}: b_dtype={b} has scales of groups that are numbers; expected {able}")
    if words["b_scale"] == MX and values["scale"] is not None:
        able = "|".join(word for word in B_SCALES if word != MX)
        raise RequestError(f"scale={values['scale']}: b_scale={MX} are powers of two; expected b_scale={able}")
    check_packed(values, (a, b), zeros=values["zeros"])
    return words


def has_channels(values: Mapping[str, Any]) -> bool:
    """Whether a layer's rows, and rows of its matrices, have a scale each, by its keys: of 8 bits without groups."""
    return {values["dtype"], values["b_dtype"] or values["dtype"]} <= set(SCALED) and values["a_scale"] is None


def with_scales(product: Problem, values: Mapping[str, Any]) -> Problem:
    """The product with the scales that its request names."""
    if values["b_scale"] is None:
        return product
    own = {**values, "a_major": "k", "b_major": "k", "ld_scale_a": None, "ld_scale_b": None}
    dtype = POWERS if values["b_scale"] == MX else values["scale"] or "f32"
    of_elements = values["a_scale"] is None
    of_b = scale_of("b", B_SCALES[values["b_scale"]], own, product.n, product.k, dtype)
    zeros = (dtype if of_elements else SHIFTS) * values["zeros"]
    found = tuple(replace(of_b, operand=name, of_elements=of_elements, zeros=zeros) for name in product.operands[1:])
    if not of_elements:
        found = (scale_of("a", A_SCALES[values["a_scale"]], own, product.m, product.k, dtype), *found)
    return replace(product, scaling=found)


def packed_bytes(elements: int, dtype: str, what: str) -> int:
    """So many elements of B as arrays count them. Raises RequestError for packed ones that do not fill bytes."""
    packing = find_dtype(dtype).packing
    if packing is None:
        return elements
    if elements % packing.elements:
        shared = f"{packing.elements} elements of {dtype} share bytes"
        raise RequestError(f"{what}={elements}: {shared}; expected a multiple of {packing.elements}")
    return packing.size(elements)


def smaller(values: Array, product: Problem) -> Array:
    """Scales of A such that sums are of the size that activations are for: times a power of two."""
    size = LARGE_INTEGER**2 if product.dtype == "i8" else 1
    found: Array = values * 2.0 ** -round(math.log2(size * max(product.k, 1) ** 0.5))
    return found
