"""What operators on whole rows by index have in common: tiles, alignment, strides, values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, TypeVar

import numpy as np

from ckmlir.ops.arrays import alignment
from ckmlir.ops.comparison import Array
from ckmlir.ops.dtypes import find_dtype
from ckmlir.ops.request import RequestError
from ckmlir.ops.scalars import ceil_div
from ckmlir.ops.spec import Algorithm, Reason, Spec, not_a_choice
from ckmlir.targets.cdna import WAVE_SIZE

DTYPES = ("f16", "bf16", "f32", "i32", "i8")
WAVES = 4
TILE_ROWS = 16
"""Rows of a workgroup's tile: four of each wave."""


class RowsSpec(Spec):
    """What the code of such a kernel depends on; `align`: what divides rows and strides, in elements."""

    dtype: str
    align: Algorithm[int]

    kernel: ClassVar[str]

    @property
    def name(self) -> str:
        return f"{self.kernel}_{self.dtype}_align{self.align}"

    @property
    def block(self) -> tuple[int, int, int]:
        """Work-items."""
        return WAVES * WAVE_SIZE, 1, 1

    @property
    def columns(self) -> int:
        """Of a tile: a vector of each lane."""
        return WAVE_SIZE * self.align

    def invalid(self) -> Iterator[Reason]:
        """Why there is no such kernel."""
        yield from not_a_choice(self, dtype=DTYPES)
        most = find_dtype(self.dtype).widest if self.dtype in DTYPES else 1
        if self.align < 1 or most % self.align:
            yield Reason("align", self.align, "accesses are vectors of up to 16 bytes", f"expected a divisor of {most}")


S = TypeVar("S", bound=RowsSpec)


def rows_spec(type_: type[S], dtype: str, *sizes: int) -> S:
    """The kernel for rows and strides of these sizes, in elements."""
    return type_(dtype, alignment(find_dtype(dtype).bytes, *sizes))


def column_tiles(n: int, spec: RowsSpec) -> int:
    """Tiles side by side."""
    return ceil_div(n, spec.columns)


def read_stride(values: Mapping[str, Any], name: str) -> int:
    """The stride that a key asks for, by default as long as a row is. Raises RequestError for one that is shorter."""
    least: int = values["n"]
    given: int | None = values[name]
    if given is not None and given < least:
        raise RequestError(f"{name}={given}: a row has {least} elements; expected at least that")
    return least if given is None else given


def rows_by_number(table: Array, ids: Array) -> Array:
    """What numbers (…) name of the rows of a table (rows, n), in NumPy: (…, n), zeros for numbers outside of it."""
    exists = (ids >= 0) & (ids < len(table))
    with_zeros = np.concatenate([table, np.zeros((1, table.shape[1]), table.dtype)])
    found: Array = with_zeros[np.where(exists, ids, len(table))]
    return found


def some_values(dtype: str, shape: tuple[int, ...], generator: np.random.Generator) -> Array:
    """Random numbers of a type."""
    if dtype.startswith("i"):
        most = 127 if dtype == "i8" else 1000
        return generator.integers(-most, most + 1, shape)
    return generator.standard_normal(shape, dtype=np.float32)
