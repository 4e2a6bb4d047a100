"""Tile compute: everything between loading and storing, on whole tiles, with value semantics."""

from collections.abc import Sequence
from math import prod
from typing import Any

from ckmlir.dialect.build import (
    integer,
    integer_of,
    product_segments,
    registers,
    registers_of,
    segments_of,
    string,
    text_of,
    value,
)
from ckmlir.dialect.dialect import Ck
from ckmlir.dialect.distribution import Distribution
from ckmlir.dialect.mma import Mma
from ckmlir.dialect.mma_index import PLACES, index_registers
from ckmlir.dialect.mma_scales import scale_registers
from ckmlir.dialect.packing import PACKED
from ckmlir.dialect.scalars import dtype_of
from ckmlir.dialect.types import TileType, tile_of
from ckmlir.dialect.verify import expect, verified
from ckmlir.dialect.views import described_as
from ckmlir.mlir import ext, ir
from ckmlir.targets.mfma import SCALED_BLOCK

UNIFORM = ("i1", "i32", "i64", "f32")
"""Types of a workgroup's scalars."""


class CastOp(Ck.Operation, name="cast", traits=[ext.Pure]):
    """`ck.cast %tile {bounded}`: to another element type, round to nearest even; i8 and fp8 results saturate.

    `bounded` promises of f32 elements what `ck.convert` says.
    """

    source: ext.Operand[Any]
    tile: ext.Result[Any]

    @staticmethod
    @verified
    def verify_invariants(op: ir.OpView) -> None:
        source, result = tile_of(op.operation.operands[0]), described_as(op.operation.results[0].type, TileType)
        expect(source.lengths == result.lengths and source.agrees(result), "a cast keeps shape and distribution")


class UniformOp(Ck.Operation, name="uniform", traits=[ext.Pure]):
    """`ck.uniform %tile`: the only element of a tile, which every lane holds, as a scalar of the workgroup."""

    source: ext.Operand[Any]
    scalar: ext.Result[Any]

    @staticmethod
    @verified
    def verify_invariants(op: ir.OpView) -> None:
        source, result = tile_of(op.operation.operands[0]), op.operation.results[0].type
        expect(
            prod(source.lengths) == 1,
            f"takes a tile of one element, not {list(source.lengths)}: reduce it, or slice one element out",
        )
        expect(str(source.element) in UNIFORM, f"makes scalars of {', '.join(UNIFORM)}, not {source.element}")
        expect(result == source.element, f"the scalar is the element, {source.element}, not {result}")


class BroadcastOp(Ck.Operation, name="broadcast", traits=[ext.Pure]):
    """`ck.broadcast %tile {axis}`: a new dimension along which the elements repeat."""

    source: ext.Operand[Any]
    tile: ext.Result[Any]

    @staticmethod
    @verified
    def verify_invariants(op: ir.OpView) -> None:
        axis = integer_of(op, "axis")
        source, result = tile_of(op.operation.operands[0]), described_as(op.operation.results[0].type, TileType)
        expect(
            0 <= axis < len(result.lengths), f"axis {axis} is not one of the result's {len(result.lengths)} dimensions"
        )
        if source.lengths != result.lengths[:axis] + result.lengths[axis + 1 :]:
            raise ValueError(f"{list(source.lengths)} with a new axis {axis} is not {list(result.lengths)}")
        if source.element != result.element:
            raise ValueError(f"broadcasts {source.element} to {result.element}; cast first")


class RedistributeOp(Ck.Operation, name="redistribute", traits=[ext.Pure]):
    """`ck.redistribute %tile`: the same tensor under another distribution: within threads, within rows of
    lanes where one of them has what all want, or, if it must, through LDS.
    """

    source: ext.Operand[Any]
    tile: ext.Result[Any]

    @staticmethod
    @verified
    def verify_invariants(op: ir.OpView) -> None:
        source, result = tile_of(op.operation.operands[0]), described_as(op.operation.results[0].type, TileType)
        expect(
            (source.lengths, source.element) == (result.lengths, result.element),
            "redistribution keeps shape and element",
        )


class SliceOp(Ck.Operation, name="slice", traits=[ext.Pure]):
    """`ck.slice %tile {axis, start}`: the part of a tile along one axis that begins at `start`; no data moves."""

    source: ext.Operand[Any]
    tile: ext.Result[Any]

    @staticmethod
    @verified
    def verify_invariants(op: ir.OpView) -> None:
        source, result = tile_of(op.operation.operands[0]), described_as(op.operation.results[0].type, TileType)
        _check_part(op, source, result)
        expect(source.element == result.element, "a slice keeps its element type")


class JoinAxesOp(Ck.Operation, name="join_axes", traits=[ext.Pure]):
    """`ck.join_axes %tile {axis}`: two neighbouring dimensions as one, the second the faster; no data moves."""

    source: ext.Operand[Any]
    tile: ext.Result[Any]

    @staticmethod
    @verified
    def verify_invariants(op: ir.OpView) -> None:
        axis = integer_of(op, "axis")
        source, result = tile_of(op.operation.operands[0]), described_as(op.operation.results[0].type, TileType)
        expect(
            0 <= axis < len(source.lengths) - 1,
            f"axis {axis} and the one behind it are not both among the tile's {len(source.lengths)} dimensions",
        )
        joined = (*source.lengths[:axis], prod(source.lengths[axis : axis + 2]), *source.lengths[axis + 2 :])
        expect(
            (result.lengths, result.element) == (joined, source.element),
            f"joined, {list(source.lengths)} of {source.element} is {list(joined)} of {source.element}, "
            f"not {list(result.lengths)} of {result.element}",
        )
        if source.distribution is not None and result.distribution is not None:
            wanted = source.distribution.join(axis)
            expect(result.distribution == wanted, f"joined it lies as '{wanted}', not '{result.distribution}'")


class PermuteAxesOp(Ck.Operation, name="permute_axes", traits=[ext.Pure]):
    """`ck.permute_axes %tile {order}`: dimensions in another order, new dimension i the old order[i]; no data moves."""

    source: ext.Operand[Any]
    tile: ext.Result[Any]

    @staticmethod
    @verified
    def verify_invariants(op: ir.OpView) -> None:
        order = registers_of(op, "order")
        source, result = tile_of(op.operation.operands[0]), described_as(op.operation.results[0].type, TileType)
        expect(
            sorted(order) == list(range(len(source.lengths))),
            f"{list(order)} is not an order of the tile's {len(source.lengths)} dimensions",
        )
        wanted = [source.lengths[dim] for dim in order]
        expect(
            (list(result.lengths), result.element) == (wanted, source.element),
            f"{list(source.lengths)} of {source.element} in the order {list(order)} is {wanted} of {source.element}, "
            f"not {list(result.lengths)} of {result.element}",
        )
        if source.distribution is not None and result.distribution is not None:
            moved = source.distribution.permute(order)
            expect(result.distribution == moved, f"in this order it lies as '{moved}', not '{result.distribution}'")


class InsertOp(Ck.Operation, name="insert", traits=[ext.Pure]):
    """`ck.insert %part, %whole {axis, start}`: the whole with its part along one axis, from `start`, replaced.

    The part lies as `ck.slice` of the whole would; no data moves.
    """

    part: ext.Operand[Any]
    whole: ext.Operand[Any]
    tile: ext.Result[Any]

    @staticmethod
    @verified
    def verify_invariants(op: ir.OpView) -> None:
        part, whole = (tile_of(operand) for operand in op.operation.operands)
        expect(op.operation.results[0].type == op.operation.operands[1].type, "the result has the whole's type")
        _check_part(op, whole, part)
        expect(part.element == whole.element, f"{part.element} cannot replace {whole.element}; cast the part first")


class CoordinatesOp(Ck.Operation, name="coordinates", traits=[ext.Pure]):
    """`ck.coordinates {axis}`: an i32 tile holding each element's own coordinate along one axis."""

    tile: ext.Result[Any]

    @staticmethod
    @verified
    def verify_invariants(op: ir.OpView) -> None:
        axis, result = integer_of(op, "axis"), described_as(op.operation.results[0].type, TileType)
        expect(0 <= axis < len(result.lengths), f"axis {axis} is not one of {len(result.lengths)} dimensions")
        expect(str(result.element) == "i32", f"coordinates are i32, not {result.element}")


class SplatOp(Ck.Operation, name="splat", traits=[ext.Pure]):
    """`ck.splat %scalar`: a tile of equal elements."""

    scalar: ext.Operand[Any]
    tile: ext.Result[Any]

    @staticmethod
    @verified
    def verify_invariants(op: ir.OpView) -> None:
        result = described_as(op.operation.results[0].type, TileType)
        scalar = op.operation.operands[0].type
        expect(scalar == result.element, f"a {scalar} cannot fill a tile of {result.element}")


class MmaOp(Ck.Operation, name="mma", traits=[ext.Pure]):
    """`ck.mma %a, %b, %c {instruction}`: a (m, k) · b (n, k)ᵀ + c (m, n) by the matrix instruction named.

    The attribute is an `Mma` in its own notation: instruction, iterations along K in one operand, operands swapped or
    not; with parts of K c is (parts m, n). With two operands more, e8m0 tiles (m, k / 32) and (n, k / 32), every 32
    elements along K of a and of b are scaled first. With one more, an i8 tile (m, k / 8), a has the two of every four
    elements along K that it names, and is (m, k / 2) (`dialect.mma_index`).
    """

    a: ext.Operand[Any]
    b: ext.Operand[Any]
    c: ext.Operand[Any]
    scales_a: ext.Operand[Any] | None
    scales_b: ext.Operand[Any] | None
    index: ext.Operand[Any] | None
    tile: ext.Result[Any]

    @staticmethod
    @verified
    def verify_invariants(op: ir.OpView) -> None:
        a, b, c, *beside = (tile_of(operand) for operand in op.operation.operands)
        scales, index = beside[: sum(segments_of(op)[3:5])], beside[sum(segments_of(op)[3:5]) :]
        result = described_as(op.operation.results[0].type, TileType)
        expect(result == c, "the result has the accumulator's type")
        for tile in (a, b, c):
            expect(len(tile.lengths) == 2, "operands are two-dimensional: a (m, k), b (n, k), c (m, n)")
        mma = Mma.parse(text_of(op, "instruction"))
        expect(
            mma.instruction.sparse == (len(index) == 1),
            f"{mma.instruction.name} {'needs the index of a' if mma.instruction.sparse else 'takes no index'}",
        )
        depths = [
            PACKED[dtype].count(tile.lengths[1]) if dtype in PACKED else tile.lengths[1]
            for tile, dtype in ((a, mma.a_dtype), (b, mma.b_dtype))
        ]
        of_a = depths[0] * (1 + len(index))
        expect(of_a == depths[1], f"K differs: a has {of_a}, b has {depths[1]}")
        made = (mma.parts * a.lengths[0], b.lengths[0])
        expect(c.lengths == made, f"c must be {list(made)}, not {list(c.lengths)}")
        for name, tile, dtype in (("a", a, mma.a_dtype), ("b", b, mma.b_dtype), ("c", c, mma.acc_dtype)):
            wanted = "i8" if dtype in PACKED else dtype.removeprefix("x")  # bytes; xf32 computes with f32
            expect(
                dtype_of(tile.element) == wanted,
                f"{mma.instruction.name} takes {wanted} as {name}, not {tile.element}",
            )
        if a.distribution and b.distribution and c.distribution:
            problems = mma.check(a.distribution, b.distribution, c.distribution)
            expect(not problems, "; ".join(problems))
        expect(len(scales) in (0, 2), "scales are of both operands, or of none")
        for name, tile, depth, own in zip("ab", (a, b), depths, scales, strict=False):
            _check_scales(mma, name, tile, depth, own)
        for own in index:
            _check_index(mma, a, own)


def _check_index(mma: Mma, a: TileType, index: TileType) -> None:
    """Check that a tile is the index of a sparse a."""
    expect(dtype_of(index.element) == "i8", f"an index is i8, not {index.element}")
    wanted = (a.lengths[0], 2 * a.lengths[1] // PLACES)
    expect(index.lengths == wanted, f"the index of a is {list(wanted)}, not {list(index.lengths)}")
    if a.distribution and index.distribution:
        found = index_registers(mma, a.distribution, index.distribution)
        expect(not isinstance(found, str), str(found))


def _check_scales(mma: Mma, name: str, tile: TileType, depth: int, scales: TileType) -> None:
    """Check that a tile of block scales is one for a (or b), which is so deep."""
    expect(mma.instruction.scaled, f"{mma.instruction.name} has no block scales")
    expect(dtype_of(scales.element) == "e8m0", f"the scales of {name} are e8m0, not {scales.element}")
    wanted = (tile.lengths[0], depth // SCALED_BLOCK)
    expect(scales.lengths == wanted, f"the scales of {name} are {list(wanted)}, not {list(scales.lengths)}")
    if tile.distribution and scales.distribution:
        found = scale_registers(mma, tile.distribution, scales.distribution, of_b=name == "b")
        expect(not isinstance(found, str), str(found))


def _check_part(op: ir.OpView, whole: TileType, part: TileType) -> None:
    """Check that `part` is [start, start + its length) of one axis of `whole`."""
    axis, start = integer_of(op, "axis"), integer_of(op, "start")
    expect(
        len(whole.lengths) == len(part.lengths) and 0 <= axis < len(whole.lengths),
        f"axis {axis} does not exist",
    )
    for dimension, (full, some) in enumerate(zip(whole.lengths, part.lengths, strict=True)):
        expect(
            some == full or dimension == axis,
            f"only axis {axis} may shrink: {list(whole.lengths)} to {list(part.lengths)}",
        )
    end = start + part.lengths[axis]
    expect(start >= 0 and end <= whole.lengths[axis], f"[{start}, {end}) is outside an axis of {whole.lengths[axis]}")


def uniform(tile: ir.Value) -> ir.Value:
    """The only element of a tile as a scalar."""
    return value("ck.uniform", tile_of(tile).element, [tile])


def cast(source: ir.Value, element: ir.Type, *, bounded: bool = False) -> ir.Value:
    """A tile with elements of another type."""
    tile = tile_of(source)
    attributes = {"bounded": ir.UnitAttr.get()} if bounded else {}
    return value("ck.cast", TileType(tile.lengths, element, tile.distribution).mlir(), [source], attributes)


def splat(scalar: ir.Value, lengths: Sequence[int], distribution: Distribution | None) -> ir.Value:
    """A tile filled with a scalar."""
    return value("ck.splat", TileType(tuple(lengths), scalar.type, distribution).mlir(), [scalar])


def coordinates(lengths: Sequence[int], distribution: Distribution | None, axis: int) -> ir.Value:
    """Each element's coordinate along an axis (i32)."""
    i32 = ir.IntegerType.get_signless(32)
    return value("ck.coordinates", TileType(tuple(lengths), i32, distribution).mlir(), [], {"axis": integer(axis)})


def broadcast(source: ir.Value, axis: int, result: TileType) -> ir.Value:
    """Repeat a tile along a new axis of the result type."""
    return value("ck.broadcast", result.mlir(), [source], {"axis": integer(axis)})


def redistribute(source: ir.Value, distribution: Distribution) -> ir.Value:
    """The same tensor under another distribution."""
    tile = tile_of(source)
    return value("ck.redistribute", TileType(tile.lengths, tile.element, distribution).mlir(), [source])


def slice_tile(source: ir.Value, axis: int, start: int, result: TileType) -> ir.Value:
    """The part of a tile that begins at `start` along an axis."""
    return value("ck.slice", result.mlir(), [source], {"axis": integer(axis), "start": integer(start)})


def insert(part: ir.Value, whole: ir.Value, axis: int, start: int) -> ir.Value:
    """The whole with the part that begins at `start` along an axis replaced."""
    return value("ck.insert", whole.type, [part, whole], {"axis": integer(axis), "start": integer(start)})


def join_axes(source: ir.Value, axis: int, result: TileType) -> ir.Value:
    """A tile with dimensions `axis` and `axis + 1` as one."""
    return value("ck.join_axes", result.mlir(), [source], {"axis": integer(axis)})


def permute_axes(source: ir.Value, order: Sequence[int], result: TileType) -> ir.Value:
    """A tile with its dimensions in another order: new dimension i is the old `order[i]`."""
    return value("ck.permute_axes", result.mlir(), [source], {"order": registers(order)})


def mma(
    instruction: Mma,
    a: ir.Value,
    b: ir.Value,
    c: ir.Value,
    scales: Sequence[ir.Value] = (),
    index: Sequence[ir.Value] = (),
) -> ir.Value:
    """a · bᵀ + c by a matrix instruction; with the block scales of a and b, or the index of a, if they are given."""
    segments = product_segments(len(scales), len(index))
    attributes = {"instruction": string(str(instruction)), "operandSegmentSizes": segments}
    return value("ck.mma", c.type, [a, b, c, *scales, *index], attributes)
