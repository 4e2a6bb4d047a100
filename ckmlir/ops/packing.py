"""Arrays of packed elements: bytes (uint8) of two fp4 (e2m1), i4 or u4, or of parts of four fp6 (e2m3) or bf6 (e3m2).

Elements follow each other along the last dimension, the first in the lowest bits (CDNA4 ISA, "Data formats"); strides
and shapes of such arrays are in bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ckmlir.dialect.packing import PACKED
from ckmlir.ops.request import RequestError

if TYPE_CHECKING:
    from ckmlir.ops.comparison import Array

_ONE_A_BYTE = {
    "fp4": "float4_e2m1fn", "fp6": "float6_e2m3fn", "bf6": "float6_e3m2fn", "i4": "int4", "u4": "uint4",
}  # fmt: skip
"""What `ml_dtypes` calls the formats; its arrays have a byte for each element."""


def _one_a_byte(dtype: str) -> Any:
    import ml_dtypes

    return getattr(ml_dtypes, _ONE_A_BYTE[dtype])


def pack_values(values: Array, dtype: str) -> Array:
    """Numbers (…, n) as bytes (…, size): rounded to nearest even, what is too large to the largest number.

    NaN, which these formats lack, becomes some number.

    Raises:
        RequestError: n elements do not fill whole bytes, or there is no dimension.
    """
    packed_shape("values", values.shape, dtype)
    with np.errstate(invalid="ignore"):
        if PACKED[dtype].is_integer:  # NumPy truncates and wraps around
            values = np.clip(np.nan_to_num(np.rint(values), nan=0.0), PACKED[dtype].least, PACKED[dtype].largest)
        codes = values.astype(_one_a_byte(dtype)).view(np.uint8)
    return pack_codes(codes, dtype)


def pack_codes(codes: Array, dtype: str) -> Array:
    """Codes of elements, each in the lowest bits of a byte, behind each other. Raises RequestError alike."""
    shape = packed_shape("codes", codes.shape, dtype)
    bits = (codes[..., None] >> np.arange(PACKED[dtype].bits, dtype=np.uint8)) & 1
    return np.packbits(bits.reshape(*shape, 8), axis=-1, bitorder="little").reshape(shape)


def unpack_values(bytes_: Array, dtype: str) -> Array:
    """The numbers (…, n) in bytes (…, size), in f32.

    Raises:
        RequestError: bytes that hold some element in part.
    """
    numbers: Array = unpack_codes(bytes_, dtype).view(_one_a_byte(dtype)).astype(np.float32)
    return numbers


def elements(array: Array, dtype: str) -> Array:
    """The elements of an array that holds bytes of packed ones, or else these."""
    return unpack_values(array, dtype) if dtype in PACKED and array.dtype == np.uint8 else array


def unpack_codes(bytes_: Array, dtype: str) -> Array:
    """The codes of the elements in bytes, each in a byte of its own. Raises RequestError alike."""
    packing = PACKED[dtype]
    if not bytes_.shape or bytes_.shape[-1] % packing.bytes:
        raise RequestError(f"{dtype}: bytes of shape {bytes_.shape} hold elements in part; expected whole groups")
    bits = np.unpackbits(np.ascontiguousarray(bytes_).view(np.uint8), axis=-1, bitorder="little")
    count = packing.count(bytes_.shape[-1])
    weights = (1 << np.arange(packing.bits)).astype(np.uint8)
    codes: Array = (bits.reshape(*bytes_.shape[:-1], count, packing.bits) * weights).sum(axis=-1, dtype=np.uint8)
    return codes


def bytes_of(chosen: Array, dtype: str) -> Array:
    """The bytes of an array that hold some of the elements that are chosen, or parts of them."""
    bits = np.repeat(chosen, PACKED[dtype].bits, axis=-1)
    found: Array = np.any(bits.reshape(*packed_shape("elements", chosen.shape, dtype), 8), axis=-1, keepdims=True)
    return found[..., 0]


def packed_shape(what: str, shape: Sequence[int], dtype: str) -> tuple[int, ...]:
    """The shape in bytes of an array of elements. Raises RequestError where they do not fill bytes."""
    packing = PACKED[dtype]
    if not shape or shape[-1] % packing.elements:
        length = f"{shape[-1]} elements" if shape else "no dimension"
        raise RequestError(
            f"{what}: {dtype} fills bytes with {packing.elements} elements along the last dimension, which has "
            f"{length}; expected a multiple of {packing.elements}"
        )
    return (*shape[:-1], packing.size(shape[-1]))


def packed_strides(what: str, strides: Sequence[int], shape: Sequence[int], dtype: str) -> tuple[int, ...]:
    """Strides in bytes of an array of elements. Raises RequestError where rows begin within bytes, or elements do not
    follow each other.
    """
    packing = PACKED[dtype]
    if 0 in shape:
        return tuple(strides)
    if strides[-1] != 1:
        raise RequestError(
            f"{what}: {dtype} shares bytes with its neighbours, which are {strides[-1]} apart; expected 1 as the last"
        )
    for stride, length in zip(strides[:-1], shape[:-1], strict=True):
        if length > 1 and stride % packing.elements:
            raise RequestError(
                f"{what}: rows of {dtype} begin with a byte; expected strides that are multiples of "
                f"{packing.elements}, not {stride}"
            )
    return (*(stride // packing.elements * packing.bytes for stride in strides[:-1]), 1)
