"""Scales that A and the matrices B were quantised with: how they lie, and what they make of a matrix.

A scale is a number of f32, or a power of two (e8m0), for so many rows of A (columns of B) and so many elements along K,
or all of them. The product is that of the scaled matrices. Sums are scaled, or elements before they are multiplied: of
4 bits on their way to the type of A. Source of the semantics: CK Tile,
example/ck_tile/38_block_scale_gemm, whose modes are rowcol, tensor, aquant, bquant and abquant, 42_mx_gemm, and
18_flatmm, a16w4.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from ckmlir.ops.comparison import Array
from ckmlir.ops.contraction.scale_tiles import TILINGS, tiled_shape, untile_scales
from ckmlir.ops.scalars import ceil_div
from ckmlir.targets.mfma import SCALED_BLOCK

MAJORS = ("k", "rows")
"""Along what the scales of groups follow each other in memory: along K; along rows of A (columns of B)."""
ORDERS = (*MAJORS, *TILINGS)
"""The same of powers of two for each row, which may also lie in tiles (`ckmlir.ops.contraction.scale_tiles`)."""
ROWS, GROUPS = (0, 1, 128), (0, 32, 64, 128)
"""Rows, and elements along K, that share a scale; 0: all."""
POWERS = "e8m0"
A_DWORD = 4
"""Powers of two."""
DTYPES = ("f32", POWERS)
"""Of scales; powers of two are those of the microscaling formats (OCP Microscaling Formats, 5.4.1)."""
FLOATS = ("f32", "f16", "bf16")
"""Types of scales of elements, other than powers of two."""
ZEROS = "i8"
"""Of zero points; beside scales of elements these have the type of the scales."""
ELEMENTS = "elements"
"""What texts call that elements are scaled, not sums."""
NAMES = {operand: f"scale_{operand}" for operand in ("a", "b", "gate", "up", "down")}


class ScaleSpec(Struct, frozen=True, kw_only=True):
    """What a kernel knows of the scales of an operand.

    Attributes:
        operand: a, b, gate or up; down of a product behind another.
        rows, group: rows and elements along K that share a scale; 0: all.
        major: of `ORDERS`.
        dtype: of `DTYPES`; of elements also of `FLOATS`.
        align: elements of which both the distance and the length of rows of the array are multiples.
        zeros: type of the zero points, one beside each scale in an array that lies as theirs; "": none.
        of_elements: whether elements of 4 bits are multiplied by it before products are taken, not sums of products.
    """

    operand: str
    rows: int
    group: int
    major: str
    dtype: str
    align: int
    zeros: str = ""
    of_elements: bool = False

    @staticmethod
    def parse(text: str) -> ScaleSpec:
        """The inverse of `described`. Raises ValueError for other texts."""
        operand, rows, group, major, types, align = text.split(":")
        dtype, *beside = types.split("_")
        of_elements, others = ELEMENTS in beside, [one for one in beside if one != ELEMENTS]
        found = ScaleSpec(
            operand=operand, rows=int(rows), group=int(group), major=major, dtype=dtype, align=int(align),
            zeros="_".join(others), of_elements=of_elements,
        )  # fmt: skip
        if operand not in NAMES or found.rows not in ROWS or found.group not in GROUPS:
            raise ValueError(text)
        if major not in (ORDERS if found.is_power else MAJORS):
            raise ValueError(text)
        able = (*DTYPES, *FLOATS) if found.of_elements else DTYPES
        if dtype not in able or found.zeros not in ("", dtype if of_elements else ZEROS) or found.align < 1:
            raise ValueError(text)
        return found

    @property
    def described(self) -> str:
        """As `ContractionSpec.scaling` has it."""
        types = "_".join(filter(None, (self.dtype, ELEMENTS * self.of_elements, self.zeros)))
        return f"{self.operand}:{self.rows}:{self.group}:{self.major}:{types}:{self.align}"

    @property
    def name(self) -> str:
        """Of the array."""
        return NAMES[self.operand]

    @property
    def zero_names(self) -> tuple[str, ...]:
        """The array of zero points, if there is one."""
        return (f"zero_{self.operand}",) if self.zeros else ()

    @property
    def is_power(self) -> bool:
        """Whether matrix instructions that scale their operands can take it."""
        return (self.dtype, self.rows, self.group) == (POWERS, 1, SCALED_BLOCK)

    @property
    def in_dwords(self) -> bool:
        """Whether four groups of a row that follow each other along K are an aligned dword of powers of two."""
        together = TILINGS[self.major].together if self.major in TILINGS else self.align * (self.major == "k")
        return self.is_power and together % A_DWORD == 0 < together

    def loaded_by(self, depth: int) -> ScaleSpec:
        """As a step of so many elements along K loads them: a lane takes several only of the groups that it has."""
        return self if self.group < depth else replace(self, align=1)

    def is_of_columns(self, length: int) -> bool:
        """Whether a block of so many columns of B takes several scales of a group."""
        return self.group > 0 and self.operand != "a" and self.rows % length > 0

    @property
    def is_along_k(self) -> bool:
        """Whether there is one for each row of A, or column of B, and group, and those of a row or column follow each
        other in memory."""
        return self.group > 0 and (self.rows, self.major) == (1, "k")

    def shape(self, rows: int, k: int) -> tuple[int, ...]:
        """Of the array, for an operand (rows, k): a number for each row, or for each row and group."""
        along_rows = ceil_div(rows, self.rows) if self.rows else 1
        if not self.group:
            return (along_rows,)
        groups = ceil_div(k, self.group)
        if self.major in TILINGS:
            return tiled_shape(rows, groups, TILINGS[self.major])
        return (along_rows, groups) if self.major == "k" else (groups, along_rows)


S = TypeVar("S", bound=ScaleSpec)


def of_matrices(scaling: Iterable[S]) -> tuple[S, ...]:
    """Those of the matrices B."""
    return tuple(one for one in scaling if one.operand != "a")


class Scale(ScaleSpec, frozen=True, kw_only=True):
    """The scales of an operand of a problem; `pitch`: elements from one row of the array to the next."""

    pitch: int

    def strides(self) -> tuple[int, ...]:
        """Of the array, in elements."""
        return (self.pitch, 1) if self.group else (1,)

    def _by_row(self, array: Array, rows: int) -> Array:
        """The scales of every row, with those that fill tiles up."""
        if self.major in TILINGS:
            return untile_scales(array, self.major)[:rows].astype(np.float64)
        found = array.reshape(-1, 1) if not self.group else array if self.major == "k" else array.T
        return np.repeat(found.astype(np.float64), self.rows or rows, axis=0)[:rows]

    def largest(self, array: Array, rows: int, k: int) -> Array:
        """The largest magnitude among the scales of every row: NaN left out, but infinite for NaN where k is 0, so that
        no product has it, and where NaN fills the last tile up, which the zeros of A or B there meet.
        """
        by_row = self._by_row(array, rows)
        found: Array = np.fmax.reduce(np.abs(by_row), axis=1, initial=0.0)
        if self.major in TILINGS:
            return np.where(np.isfinite(by_row[:, ceil_div(k, self.group) :]).all(axis=1), found, np.inf)
        return found if k or self.group else np.where(np.isfinite(array).all(), found, np.inf)

    def least(self, array: Array, rows: int) -> Array:
        """The smallest magnitude among the scales of every row, NaN left out."""
        found: Array = np.fmin.reduce(np.abs(self._by_row(array, rows)), axis=1, initial=np.inf)
        return found

    def over(self, array: Array, rows: int, k: int) -> Array:
        """The scale of every element of the operand (rows, k)."""
        found = self._by_row(array, rows)
        found = np.repeat(found, self.group or k, axis=1)[:, :k]
        return np.broadcast_to(found, (rows, k))
