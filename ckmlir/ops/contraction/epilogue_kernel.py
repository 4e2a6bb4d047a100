"""What becomes of a block of accumulators: an expression with D tensors, rounding, and the way to memory.

Where workgroups share the sums, `sinks_kernel.py` says what becomes of those of each.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct

from ckmlir.dialect.distribution_builders import coalesced
from ckmlir.lang import (
    Scalar,
    Tile,
    cast,
    full,
    slice_tile,
    stretch,
    to_lds,
)  # fmt: skip
from ckmlir.ops.contraction.contraction_spec import SCALARS, ContractionSpec, computing_type
from ckmlir.ops.contraction.rows_kernel import Array, Put
from ckmlir.ops.contraction.side import SideSpec
from ckmlir.ops.contraction.slices import stored_vector
from ckmlir.ops.tensors.expression import parse
from ckmlir.ops.tensors.tiles import evaluate_tiles


class Output(Struct, frozen=True):
    """C of the workgroup's product: its matrix, or one for each accumulator's partial sums; its D tensors by name, and
    the numbers.
    """

    matrices: Sequence[Array]
    sides: Mapping[str, Array]
    numbers: Mapping[str, Scalar]


def write_block(
    spec: ContractionSpec, output: Output, totals: Sequence[Tile], row: Scalar, column: Scalar, put: Put
) -> None:
    """Put the block of C at (row, column) that the accumulators come to, slice by slice."""
    rows, columns = (length // parts for length, parts in zip(spec.block[:2], spec.slices, strict=True))
    for down, across in _order(spec):
        at = row + down * rows if down else row, column + across * columns if across else column
        parts = [_slice(one, (down * rows, across * columns), (rows, columns)) for one in totals]
        values = [_expression(spec, output, parts, *at)] if spec.op else [_rounded(spec, one) for one in parts]
        for value, matrix in zip(values, output.matrices, strict=True):
            put(matrix.rows(at[0], rows), value, at[1])


def _order(spec: ContractionSpec) -> Iterator[tuple[int, int]]:
    """Slices as they are put: row after row through LDS; column after column straight from the accumulators.

    Elements of a lane then have a register each that tells which columns exist, and one in each D tensor and in C for
    where they lie. Slices below each other have them in common, so that they are at hand for as long as there are such.
    Row after row, with 64 columns and three matrices, they took the 256 registers beside accumulators, and LLVM half a
    minute (a GELU with two matrices beside single elements of C, 256 x 256 by 4 x 1 waves).
    """
    down, across = map(range, spec.slices)
    if spec.epilogue == "direct":
        return ((low, right) for right, low in itertools.product(across, down))
    return itertools.product(down, across)


def _slice(block: Tile, start: tuple[int, int], lengths: tuple[int, int]) -> Tile:
    for axis in range(2):
        if block.lengths[axis] != lengths[axis]:
            block = slice_tile(block, axis, start[axis], lengths[axis])
    return block


def _rounded(spec: ContractionSpec, total: Tile) -> Tile:
    """The accumulators in C's type; through LDS they are as small as they get."""
    return _arranged(cast(total, spec.out), spec)


def _expression(spec: ContractionSpec, output: Output, totals: Sequence[Tile], row: Scalar, column: Scalar) -> Tile:
    """The expression, in f32 or f64, of accumulators that lie as C is stored: D tensors are read as C is written."""
    expression = parse(spec.op, (*spec.accumulators, *output.sides, *SCALARS))
    computing = computing_type(spec.dtype)
    values = [cast(_arranged(total, spec), computing) for total in totals]
    variables = dict(zip(spec.accumulators, values, strict=True))
    used = expression.variables
    for (name, seen), text in zip(output.sides.items(), spec.side, strict=True):
        if name in used:
            side = _side(SideSpec.parse(text), seen, values[0].lengths, row, column, computing)
            variables[name] = side
    for name in SCALARS:
        if name in used:
            variables[name] = full(values[0].lengths, output.numbers[name], computing, values[0].type.distribution)
    return cast(evaluate_tiles(expression, variables, computing, values[0]), spec.out)


def _side(
    side: SideSpec, seen: Array, lengths: Sequence[int], row: Scalar, column: Scalar, computing: str
) -> Tile:
    """A D tensor's part of the block, in the type that expressions are computed in."""
    rows, columns = lengths
    if side.kind == "full":
        return cast(seen.rows(row, rows).load((column,), (columns,)), computing)
    if side.kind == "column":
        return stretch(cast(seen.rows(row, rows).load(), computing), 1, columns)
    return stretch(cast(seen.rows(column, columns).load(), computing), 0, rows)


def _arranged(block: Tile, spec: ContractionSpec) -> Tile:
    """A part of C for its store: as it lies, or through LDS so that every row is written in full vectors."""
    if spec.epilogue == "direct":
        return block
    return to_lds(block).read(coalesced(block.lengths, spec.wave_count, 1, stored_vector(spec)))
