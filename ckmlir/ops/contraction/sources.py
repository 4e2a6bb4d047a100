"""Operands that several arrays combine to on their way into LDS: A = f(a0, a1, …), B = g(b0, b1, …).

Source of the semantics: CK Tile, example/ck_tile/22_gemm_multi_abd, where several A and several B tensors, each with a
layout and strides of its own, are combined element by element as they are loaded.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from msgspec import Struct

from ckmlir.ops.arrays import alignment
from ckmlir.ops.comparison import Array
from ckmlir.ops.contraction.shuffle import COLUMNS, shuffled_shape, unshuffle_b
from ckmlir.ops.contraction.side import TYPES
from ckmlir.ops.dtypes import HALF_BYTES, PACKED_INTEGERS, POWER, find_dtype, numpy_dtype
from ckmlir.ops.packing import unpack_values
from ckmlir.ops.precision import PRECISIONS, through_jumps
from ckmlir.ops.request import LEAST_NORMAL_F32, RequestError
from ckmlir.ops.scalars import ceil_div
from ckmlir.ops.tensors.expression import check_f64, evaluate_exactly, parse, read_expression
from ckmlir.ops.tensors.rounding import Bounded, bounded_error, saturated
from ckmlir.targets import Target

MOST = 4
"""Arrays that an operand may be made of; CK Tile's example has two."""
NAMES = {operand: tuple(f"{operand}{place}" for place in range(MOST)) for operand in "ab"}
BOUND = 2.0**100
"""Above it nothing is promised of `cast(…, bounded=True)`."""
ROWS = {"a": "m", "b": "n"}
"""What an operand has beside k."""
FORMS = ("along_k", "across_k", "each_k", "each_row", "scalar")
"""A matrix whose elements follow each other along k, or across it; one number for each k, for each row (of A, or
column of B), or for all."""
TILES = {f"tiles_of_{columns}": columns for columns in COLUMNS}
"""More forms: a matrix in fragment order (`ckmlir.ops.contraction.shuffle`), of B and `HALF_BYTES`."""
MATRICES = ("along_k", "across_k", *TILES)
GROUPS = {f"group_of_{length}": length for length in (32, 64, 128)}
"""More forms: a number for each row and so many elements of k."""


class Source(Struct, frozen=True):
    """An array of an operand.

    Attributes:
        name: `a0`, `b1`, …
        dtype: of `TYPES`; of a matrix also of `HALF_BYTES`, whose array counts bytes; of groups also e8m0.
        form: of `FORMS`, `TILES` or `GROUPS`.
        pitch: of a matrix, and of groups, the elements from one row of memory to the next; else the distance of
            neighbours.
    """

    name: str
    dtype: str
    form: str
    pitch: int

    @property
    def operand(self) -> str:
        """A or B."""
        return self.name[0]

    @property
    def is_matrix(self) -> bool:
        return self.form in MATRICES

    def shape(self, rows: int, k: int) -> tuple[int, ...]:
        """Of the array; `rows` of A, or columns of B."""
        if self.form in TILES:
            return shuffled_shape(rows, k // 2, TILES[self.form], 1)
        if self.dtype in HALF_BYTES:
            return (rows, k // 2) if self.form == "along_k" else (k, rows // 2)
        if self.is_matrix:
            # B's rows in memory are k where elements follow each other across it, and A's likewise.
            return (rows, k) if self.form == "along_k" else (k, rows)
        if self.form in GROUPS:
            return (rows, ceil_div(k, GROUPS[self.form]))
        return {"each_k": (k,), "each_row": (rows,), "scalar": (1,)}[self.form]

    def strides(self) -> tuple[int, ...]:
        """Of the array, in elements."""
        return (self.pitch, 1) if self.is_matrix or self.form in GROUPS else (self.pitch,)

    def aligned(self, rows: int, k: int) -> int:
        """The widest aligned vector along a row that never crosses its end, in elements."""
        if self.is_matrix:
            return alignment(find_dtype(self.dtype).bytes, self.pitch, self.shape(rows, k)[1])
        return alignment(find_dtype(self.dtype).bytes, k) if self.form == "each_k" and self.pitch == 1 else 1

    def described(self, rows: int, k: int) -> str:
        """What a kernel has to know of it, as `ContractionSpec.sources` has it."""
        return f"{self.name}:{self.dtype}:{self.form}:{self.aligned(rows, k)}"

    def over(self, array: Array, rows: int, k: int) -> Array:
        """Its elements as they meet those of the operand (rows, k)."""
        if self.form in TILES:
            array = unshuffle_b(array, rows, k // 2, TILES[self.form])
        if self.dtype in HALF_BYTES:
            array = unpack_values(array, self.dtype)
        if self.form in GROUPS:
            return np.repeat(array, GROUPS[self.form], axis=1)[:, :k]
        places: dict[str, Array] = {"across_k": array.T, "each_row": array.reshape(-1, 1)}
        return places.get(self.form, array)


class SourceSpec(Struct, frozen=True):
    """What a kernel knows of a source: see `Source`."""

    name: str
    dtype: str
    form: str
    align: int

    @staticmethod
    def parse(text: str) -> SourceSpec:
        """The inverse of `Source.described`. Raises ValueError for other texts."""
        name, dtype, form, align = text.split(":")
        forms = (*FORMS, *TILES, *GROUPS)
        if dtype not in (*TYPES, *HALF_BYTES, POWER.name) or form not in forms or name not in NAMES.get(name[:1], ()):
            raise ValueError(text)
        return SourceSpec(name, dtype, form, int(align))

    @property
    def is_matrix(self) -> bool:
        return self.form in MATRICES

    @property
    def shares_across(self) -> bool:
        """Whether elements share bytes across k."""
        return self.dtype in HALF_BYTES and self.form == "across_k"

    @property
    def element(self) -> str:
        """What memory counts in."""
        return "i8" if self.dtype in HALF_BYTES else self.dtype

    @property
    def multiple(self) -> int:
        """Of which the length of its rows is one, in elements; rows of tiles are filled up."""
        if self.form in TILES:
            return 2
        return 2 * self.align if self.dtype in HALF_BYTES else self.align


def read_sources(
    operand: str, op: str, values: Mapping[str, Any], rows: int, k: int, dtype: str, letter: str, computing: str
) -> tuple[Source, ...]:
    """The arrays that an operand's expression names, from `a0` (or `b0`) on.

    Args:
        values: `a_types`, `a_kind`, `a_layout`, `lda` of a request (of B alike), each None or one for each array.
        dtype, letter: what arrays have unless those say otherwise.
        computing: what the expression is computed in.

    Raises:
        RequestError: for descriptions that do not fit the expression, or no matrix among the arrays.
    """
    names, key = NAMES[operand], f"{operand}_op"
    expression = read_expression(op, names)
    if computing == "f64":
        check_f64(expression)
    count = max((place + 1 for place, name in enumerate(names) if name in expression.variables), default=0)
    missing = [name for name in names[: max(count, 1)] if name not in expression.variables]
    if missing:
        raise RequestError(f"{key}={op}: it does not name {missing[0]}; number arrays from {names[0]} on")
    given = {name: values[name] or () for name in (f"{operand}_types", f"{operand}_kind", f"{operand}_layout")}
    given[f"ld{operand}"] = values[f"ld{operand}"] or ()
    for name, found in given.items():
        if found and len(found) != count:
            raise RequestError(f"{name}: {len(found)} arrays are described, {key}={op} names {count}")
    types, kinds, letters, pitches = given.values()
    sources = []
    for place, name in enumerate(names[:count]):
        own = types[place] if types else dtype
        kind = kinds[place] if kinds else "full"
        along_k = "R" if operand == "a" else "C"
        form = {"full": "along_k" if (letters[place] if letters else letter) == along_k else "across_k", "k": "each_k",
                ROWS[operand]: "each_row", "scalar": "scalar"}[kind]  # fmt: skip
        if own == "f64" != computing:
            raise RequestError(f"{operand}_types: {name} is f64, and {key} is computed in f32; expected f32")
        bare = Source(name, own, form, 1)
        least = max(bare.shape(rows, k)[1], 1) if bare.is_matrix else 1
        pitch = (pitches[place] if pitches else 0) or least
        if pitch < least:
            raise RequestError(
                f"ld{operand}={pitch}: rows of {name} have {least} elements; expected at least that, or 0"
            )
        sources.append(Source(name, own, form, pitch))
    if not any(one.is_matrix for one in sources):
        raise RequestError(f"{operand}_kind: no array of {operand.upper()} is a matrix; expected one that is full")
    return tuple(sources)


def letter_of(sources: Sequence[Source], letter: str) -> str:
    """R or C, as most matrices of an operand lie, which lanes load as vectors while they load the others one by one;
    the letter given where as many lie either way."""
    along_k = "R" if sources[0].operand == "a" else "C"
    forms = [one.form for one in sources if one.is_matrix]
    along, across = forms.count("along_k"), forms.count("across_k")
    if along == across:
        return letter
    return along_k if along > across else "RC"[along_k == "R"]


def are_bounded(sources: Sequence[Source] | Sequence[SourceSpec], dtype: str) -> bool:
    """Whether what arrays come to is promised to be such as `cast(…, bounded=True)` takes: weights of 4 bits with
    scales, in bf16; those with powers of two are exact.
    """
    types = {one.dtype for one in sources}
    return dtype == "bf16" and POWER.name not in types and not types.isdisjoint(HALF_BYTES)


def _as_bounded(values: Array, error: Array) -> Array:
    """The error with that of conversions of numbers that are promised to be bounded: nothing is known of larger ones,
    and smaller ones may become zero.
    """
    sizes = np.abs(values)
    found: Array = np.where(sizes < LEAST_NORMAL_F32, np.maximum(error, sizes), error)
    return np.where(sizes >= BOUND, np.inf, found)


def combined(
    op: str, sources: Sequence[Source], arrays: Mapping[str, Array], shape: tuple[int, int], computing: str, dtype: str
) -> tuple[Array, Array]:
    """The operand (rows, k) before it is rounded to the type in which it is multiplied, and how far what is computed
    may be from it: of integers of 4 bits nothing is known where it is not finite.
    """
    precision = PRECISIONS[computing]
    expression = parse(op, tuple(one.name for one in sources))
    values = {one.name: one.over(arrays[one.name], *shape).astype(np.float64) for one in sources}
    found = evaluate_exactly(expression, values, precision=precision)
    given = {one.name: Bounded(values[one.name], _conversion(one, values[one.name])) for one in sources}
    error = bounded_error(expression, given, precision)
    if any(one.dtype in PACKED_INTEGERS for one in sources):
        beside = [values[one.name] for one in sources if one.dtype not in PACKED_INTEGERS]
        unknown = np.logical_or.reduce([_overflows_scaled(one) for one in beside]) | ~np.isfinite(found)
        error = np.where(unknown, np.inf, error)
    error = _as_bounded(found, error) if are_bounded(sources, dtype) else error
    return np.broadcast_to(found, shape), np.broadcast_to(error, shape)


def _overflows_scaled(values: Array) -> Array:
    """Where 16 times a scale or a zero point is beyond f32, so that no integer times it, 0 either, need be finite."""
    with np.errstate(over="ignore"):
        found: Array = ~np.isfinite((16 * values).astype(np.float32))
    return found


def _conversion(source: Source, values: Array) -> Array | float:
    """How far f32 is from large integers."""
    return np.abs(values.astype(np.float32).astype(np.float64) - values) if source.dtype == "i32" else 0.0


def rounded(values: Array, error: Array, dtype: str, target: Target) -> tuple[Array, Array]:
    """What LDS holds of values that are computed with an error, and how far that may be from it: nothing but where the
    error crosses a step of the rounding; infinitely far where nothing is known.
    """
    kind = numpy_dtype(dtype, target)

    def to_dtype(exact: Array) -> Array:
        with np.errstate(over="ignore", invalid="ignore"):
            narrow: Array = saturated(exact, dtype, target).astype(kind).astype(np.float64)
        return narrow

    found = to_dtype(values)
    moved = through_jumps(values, np.where(np.isfinite(error), error, 0.0), to_dtype)
    unsure = np.isinf(error) | (np.isfinite(found) != np.isfinite(to_dtype(np.abs(values) + error)))
    return found, np.where(unsure & (error > 0), np.inf, moved)


def moved_sums(a: Array, a_error: Array, b: Array, b_error: Array) -> Array:
    """How far sums of products of A (m, k) and B (n, k) may be off because those are; infinitely far where nothing is
    known of a row.
    """
    finite = [np.where(np.isfinite(one), np.abs(one), 0.0) for one in (a, a_error, b, b_error)]
    found: Array = finite[1] @ (finite[2] + finite[3]).T + finite[0] @ finite[3].T
    unknown = np.logical_or.outer(np.isinf(a_error).any(axis=1), np.isinf(b_error).any(axis=1))
    return np.where(unknown, np.inf, found)
