"""Element types of operators: their names, sizes and precisions, and the NumPy types that hold them.

"fp4" is e2m1, "fp6" e2m3, "bf6" e3m2, "i4" an integer from -8 to 7 and "u4" one from 0 to 15, of which arrays hold
bytes.

"fp8" is e4m3 and "bf8" is e5m2 in the flavour of the chip: FNUZ on gfx942, OCP on gfx950 (CDNA3 and CDNA4 ISA
documents, "8-bit floating point"). So their NumPy type depends on the target; that of every other dtype does not.
"""

from __future__ import annotations

from functools import cache, cached_property
from typing import Any

import numpy as np
from msgspec import Struct

from ckmlir.dialect.packing import PACKED, Packing
from ckmlir.errors import suggest
from ckmlir.ops.request import RequestError, show
from ckmlir.targets import Target
from ckmlir.targets.cdna import ACCESS_BYTES


class Dtype(Struct, frozen=True, dict=True):
    """An element type.

    Attributes:
        bytes: size of an element; of packed ones, of what arrays count in: bytes, which elements share.
        mantissa: stored bits of the significand; 0 for integers, which are exact.
        least_exponent: exponent of the smallest normal number; 0 for integers.
    """

    name: str
    bytes: int
    mantissa: int = 0
    least_exponent: int = 0

    @cached_property
    def packing(self) -> Packing | None:
        """How elements share bytes; None where each has its own."""
        return PACKED.get(self.name)

    @cached_property
    def bits(self) -> int:
        """Of an element."""
        return 8 * self.bytes if self.packing is None else self.packing.bits

    @cached_property
    def step(self) -> int:
        """Bits between elements, for sizes that are powers of two: those of an element, or the power of two above."""
        return 1 << (self.bits - 1).bit_length()

    @cached_property
    def widest(self) -> int:
        """The most elements that an access takes, a power of two."""
        return 1 << (8 * ACCESS_BYTES // self.bits).bit_length() - 1

    def whole_vectors(self, elements: int) -> int:
        """The fewest elements that are whole accesses of the widest, at least so many and one."""
        return max(-(-elements // self.widest), 1) * self.widest

    def size(self, elements: int) -> int:
        """Bytes of so many elements; of packed ones they are whole groups."""
        return elements * self.bytes if self.packing is None else self.packing.size(elements)

    def packed_length(self, elements: int) -> int:
        """What arrays count so many elements as: bytes of packed ones."""
        return elements if self.packing is None else self.packing.size(elements)

    @property
    def is_integer(self) -> bool:
        return self.mantissa == 0

    @property
    def unit_roundoff(self) -> float:
        """Largest relative error of rounding a normal number to the nearest; 0 for integers."""
        return 0.0 if self.is_integer else 2.0 ** -(self.mantissa + 1)

    @property
    def least_normal(self) -> float:
        """The smallest normal number; 0 for integers."""
        return 0.0 if self.is_integer else 2.0**self.least_exponent

    @property
    def underflow(self) -> float:
        """Largest absolute error of rounding a subnormal number to the nearest; 0 for integers."""
        return 0.0 if self.is_integer else 2.0 ** (self.least_exponent - self.mantissa - 1)


DTYPES = {
    dtype.name: dtype
    for dtype in (
        Dtype("f16", 2, 10, -14),
        Dtype("bf16", 2, 7, -126),
        Dtype("f32", 4, 23, -126),
        Dtype("f64", 8, 52, -1022),
        Dtype("fp8", 1, 3, -7),
        Dtype("bf8", 1, 2, -15),
        Dtype("i8", 1),
        Dtype("i32", 4),
    )
}

ADDRESS = Dtype("i64", 8)
"""Of tables in memory that hold addresses; no operator computes with it."""
POWER = Dtype("e8m0", 1)
"""A power of two, 2^-127 to 2^127, or NaN: the scale of a block (OCP Microscaling Formats, 5.4.1)."""
_PACKED = tuple(
    Dtype(name, 1) if one.is_integer else Dtype(name, 1, one.mantissa, 1 - one.bias) for name, one in PACKED.items()
)
_ASIDE = {one.name: one for one in (ADDRESS, POWER, *_PACKED)}

TENSOR_TYPES = tuple(name for name in DTYPES if name != "f64")
"""What operators take that compute in f32, or move elements of up to 4 bytes."""

PACKED_FLOATS = tuple(name for name, one in PACKED.items() if not one.is_integer)
"""Small floats of which several share bytes: those that microscaling formats have."""

PACKED_INTEGERS = tuple(name for name, one in PACKED.items() if one.is_integer)
"""Integers of which several share bytes (CK Tile's pk_int4): weights that become another type as they are loaded."""

HALF_BYTES = tuple(name for name, one in PACKED.items() if one.bits == 4)
"""Elements of which two share a byte: weights that become floats as they are loaded."""

PACKED_TYPES = tuple(PACKED)
"""Elements of which several share bytes (`ckmlir.ops.packing`); what takes them says so."""

_NUMPY: dict[str, Any] = {
    "f16": np.float16, "f32": np.float32, "f64": np.float64, "i8": np.int8, "i32": np.int32, "i64": np.int64,
    **dict.fromkeys(PACKED, np.uint8),
}  # fmt: skip
_ELSEWHERE = {"bf16": "bfloat16", "e8m0": "float8_e8m0fnu"}
_ELSEWHERE_8_BIT = {
    ("fp8", "fnuz"): "float8_e4m3fnuz", ("bf8", "fnuz"): "float8_e5m2fnuz",
    ("fp8", "ocp"): "float8_e4m3fn", ("bf8", "ocp"): "float8_e5m2",
}  # fmt: skip
"""What `ml_dtypes` calls the types that NumPy lacks."""


def find_dtype(name: str) -> Dtype:
    """The element type called `name`. Raises RequestError when there is none."""
    if name in _ASIDE:
        return _ASIDE[name]
    if name not in DTYPES:
        raise RequestError(f"unknown dtype {show(name)!r}; {suggest(name, DTYPES)}")
    return DTYPES[name]


def numpy_dtype(name: str, target: Target) -> np.dtype[Any]:
    """The NumPy type of a dtype on a chip. Raises RequestError where the chip has no such 8-bit float."""
    find_dtype(name)
    if name in _NUMPY:
        found: np.dtype[Any] = np.dtype(_NUMPY[name])
        return found
    if name in _ELSEWHERE:
        return _elsewhere(_ELSEWHERE[name])
    flavour = target.fp8
    if flavour is None:
        raise RequestError(f"dtype {name}: {target.name} has no 8-bit floating point; it starts with gfx942")
    return _elsewhere(_ELSEWHERE_8_BIT[name, flavour])


@cache
def _elsewhere(name: str) -> np.dtype[Any]:
    """A type of `ml_dtypes`, which is imported when one is asked for."""
    import ml_dtypes

    found: np.dtype[Any] = np.dtype(getattr(ml_dtypes, name))
    return found


def named_dtype(name: Any) -> np.dtype[Any]:
    """What NumPy takes for a type: also the name of one of `ml_dtypes`, which it knows when that has been imported.
    Raises TypeError."""
    found: np.dtype[Any]
    try:
        found = np.dtype(name)
    except TypeError:
        import ml_dtypes  # noqa: F401 - NumPy knows its names from then on

        found = np.dtype(name)
    return found


def storage_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The type that an array has in a .npy file: its own, or the unsigned integer of its size where NumPy lacks it."""
    return dtype if dtype.isbuiltin == 1 else np.dtype(f"u{dtype.itemsize}")
