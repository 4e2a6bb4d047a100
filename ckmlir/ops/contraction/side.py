"""Tensors that an epilogue takes beside the accumulators (CK's D tensors): a matrix, a row, a column or one number.

Source of the semantics: CK Tile, example/ck_tile/19_gemm_multi_d, where D tensors of any strides are combined with the
accumulators element by element.
"""

from __future__ import annotations

from msgspec import Struct

from ckmlir.ops.arrays import alignment
from ckmlir.ops.dtypes import find_dtype

MOST = 4
"""D tensors that a request may name; CK Tile's examples have two."""
MOST_OF_EXPERTS = 6
"""The same of products of experts, none of whose is a matrix: gate and up in 8 bits take a scale of each row, and each
matrix a scale and a bias of each column; and entries have weights."""
NAMES = tuple(f"d{place}" for place in range(MOST_OF_EXPERTS))
"""Of all that an epilogue takes."""
REQUESTED = NAMES[:MOST]
TYPES = ("f16", "bf16", "f32", "f64", "fp8", "bf8", "i8", "i32")
KINDS = ("full", "row", "column", "scalar")
"""One element for each of C; a row that repeats for all rows; a column for all columns; one for all."""


class SideTensor(Struct, frozen=True):
    """A D tensor of a problem.

    Attributes:
        name: `d0`, `d1`, …
        kind: of `KINDS`.
        pitch: elements from one row of a matrix to the next; of a column from one element to the next.
    """

    name: str
    dtype: str
    kind: str
    pitch: int

    def shape(self, m: int, n: int) -> tuple[int, ...]:
        """Of the array."""
        return {"full": (m, n), "row": (n,), "column": (m,), "scalar": (1,)}[self.kind]

    def strides(self) -> tuple[int, ...]:
        """Of the array, in elements."""
        return {"full": (self.pitch, 1), "row": (1,), "column": (self.pitch,), "scalar": (1,)}[self.kind]

    def aligned(self, n: int, *distances: int) -> int:
        """The widest aligned vector along a row that never crosses its end, in elements; `distances` between parts."""
        if self.kind in ("column", "scalar"):
            return 1
        pitch = (self.pitch,) if self.kind == "full" else ()
        return alignment(find_dtype(self.dtype).bytes, n, *pitch, *distances)

    def described(self, n: int, *distances: int) -> str:
        """What a kernel has to know of it, as `ContractionSpec.side` has it."""
        return f"{self.dtype}:{self.kind}:{self.aligned(n, *distances)}"


class SideSpec(Struct, frozen=True):
    """What a kernel knows of a D tensor: see `SideTensor`."""

    dtype: str
    kind: str
    align: int

    @staticmethod
    def parse(text: str) -> SideSpec:
        """The inverse of `SideTensor.described`. Raises ValueError for other texts."""
        dtype, kind, align = text.split(":")
        if dtype not in TYPES or kind not in KINDS:
            raise ValueError(text)
        return SideSpec(dtype, kind, int(align))
