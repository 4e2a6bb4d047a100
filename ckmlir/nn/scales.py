"""Scales of quantised matrices as they are given: what they are of, and how kernels are told so."""

from __future__ import annotations

import math

from ckmlir.nn.given import Given
from ckmlir.nn.products import transposed
from ckmlir.ops.dtypes import POWER
from ckmlir.ops.scalars import ceil_div
from ckmlir.runtime.device import DeviceError

LENGTHS = (128, 64, 32)
"""Elements along K that may share a scale."""
VECTORS = ("tensor", "row", "column")
"""Scales of these have no groups along K."""


def of_rows(scales: Given, leading: tuple[int, ...]) -> Given:
    """Scales of an operand whose rows have these leading dimensions, (…) or (…, groups), as a matrix."""
    if _is_number(scales):
        return scales.strided((1, 1), (1, 1))
    if scales.shape == leading:
        return scales.reshaped(math.prod(leading), 1)
    if scales.ndim == 2:  # for all rows, or blocks of them, as `quantize` has them
        return scales
    if scales.shape[:-1] == leading:
        return scales.reshaped(math.prod(leading), scales.shape[-1])
    expected = f"one number, {leading}, or {(*leading, 'groups')}"
    raise DeviceError(f"{scales.what}: shape {scales.shape}; expected {expected}")


def as_matrix(scales: Given, ndim: int) -> Given:
    """Scales of an operand with so many dimensions, with as many; one number is of all of it."""
    if _is_number(scales):
        return scales.strided((1,) * ndim, (1,) * ndim)
    return scales.require(ndim=ndim)


def require_f32(scales: Given, products: str) -> None:
    """Raise DeviceError for scales that are powers of two, which kernels of such products do not take."""
    if scales.dtype == POWER.name:
        raise DeviceError(f"{scales.what}: powers of two of {products}; expected f32, or a product of matrices")
    scales.require(dtype="f32")


def ways(operand: str, scales: Given, rows: int, k: int) -> list[tuple[str, str]]:
    """In which words kernels may be told of scales (…, rows that have some, groups): what they are of, and their order.

    A product of few rows or a short K allows several, and others in the same launch may allow only one of these. The
    usual one comes first. Raises DeviceError where no kernel takes such scales, or none as they lie.
    """
    count, groups = scales.shape[-2:]
    forms = _forms(operand, count, groups, rows, k, scales.dtype == POWER.name)
    if not forms:
        row = "row or 128" if operand == "b" else "row"
        expected = f"one number, one for each of {rows} rows, or for each {row} and 32, 64 or 128 of {k} elements"
        if scales.dtype == POWER.name:
            expected = f"a power of two for each of {rows} rows and 32 of {k} elements"
        raise DeviceError(f"{scales.what}: shape {scales.shape}; expected {expected}")
    down, across = scales.strides[-2:]
    majors = [
        major
        for major, length, step in (("k", groups, across), ("rows", count, down))
        if step == 1 or length < 2 or 0 in scales.shape
    ]
    found = [(form, major) for form in forms for major in (majors if form not in VECTORS else ["rows"])]
    if "rows" not in majors and forms[0] in VECTORS:
        raise DeviceError(f"{scales.what}: numbers lie {down} elements apart; make a contiguous copy first")
    if not found:
        raise DeviceError(f"{scales.what}: neither rows nor columns are contiguous; make a contiguous copy first")
    return found


def laid(operand: str, scales: Given, way: tuple[str, str]) -> tuple[dict[str, object], Given]:
    """The keys of scales that kernels are told of in this way (`ways`), and the view of their memory."""
    form, major = way
    batch, steps = scales.shape[:-2], scales.strides[:-2]
    keys: dict[str, object] = {f"{operand}_scale": form}
    if form in VECTORS:
        return keys, scales.strided((*batch, scales.shape[-2]), (*steps, 1))
    memory = transposed(scales) if major == "rows" else scales
    pitch = memory.strides[-2] if memory.shape[-2] > 1 and 0 not in memory.shape else max(memory.shape[-1], 1)
    keys |= {f"{operand}_major": major, f"ld_scale_{operand}": pitch}
    return keys, memory.strided(memory.shape, (*steps, pitch, 1))


def _forms(operand: str, count: int, groups: int, rows: int, k: int, is_power: bool) -> list[str]:
    """What scales may be of, in the operators' words, the usual one first."""
    vectors = {
        "tensor": (count, groups) == (1, 1),
        "row" if operand == "a" else "column": count == rows and groups == 1,
    }  # fmt: skip
    found = [form for form, is_one in vectors.items() if is_one and not is_power]
    return found + group_forms((count, groups), rows, k, is_power=is_power, blocks=operand == "b")


def group_forms(shape: tuple[int, ...], rows: int, k: int, *, is_power: bool, blocks: bool) -> list[str]:
    """The operators' names for scales of groups along K of this shape, the usual one first.

    Args:
        shape: (…, rows that have scales, groups).
        rows, k: of the operand.
        is_power: scales are powers of two.
        blocks: 128 rows may share a scale.
    """
    if is_power:
        return ["1x32"] if shape == (rows, ceil_div(k, 32)) else []
    found = [f"1x{length}" for length in LENGTHS if shape == (rows, ceil_div(k, length))]
    return found + ["128x128"] * (blocks and shape == (ceil_div(rows, 128), ceil_div(k, 128)))


def _is_number(scales: Given) -> bool:
    return math.prod(scales.shape) == 1 and scales.ndim < 2
