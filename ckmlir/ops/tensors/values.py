"""Values of input arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ckmlir.ops.arrays import ArraySpec
from ckmlir.ops.dtypes import find_dtype

if TYPE_CHECKING:
    from ckmlir.ops.comparison import Array


def moved_values(array: ArraySpec, generator: np.random.Generator) -> Array:
    """Any integers that the element type holds, any bytes of packed ones, or normally distributed numbers."""
    if find_dtype(array.dtype).packing is not None:
        return generator.integers(0, 256, array.shape, dtype=np.uint8)
    if find_dtype(array.dtype).is_integer:
        limits = np.iinfo(np.int8 if array.dtype == "i8" else np.int32)
        return generator.integers(limits.min, limits.max, array.shape, endpoint=True)
    values: Array = generator.standard_normal(array.shape, dtype=np.float32)
    return values
