"""Fragments in registers: matrix instructions, exchanges between lanes, conversions, and who computes."""

from collections.abc import Sequence
from typing import Any

from ckmlir.dialect.build import integer, integer_of, product_segments, registers, registers_of, string, text_of, value
from ckmlir.dialect.dialect import Ck
from ckmlir.dialect.distribution import Distribution
from ckmlir.dialect.fragment import vector_type
from ckmlir.dialect.lane_rows import ROW
from ckmlir.dialect.scalars import bits
from ckmlir.dialect.verify import expect, verified
from ckmlir.mlir import ext, ir
from ckmlir.targets.mfma import INDEXED, INSTRUCTIONS, MfmaInstruction


class MfmaOp(Ck.Operation, name="mfma", traits=[ext.Pure]):
    """`ck.mfma %a, %b, %c {instruction}`: one matrix instruction of a wave, by its name in the target's table.

    With `%scales_a, %scales_b {scale_bytes}`, vectors of 1, 2 or 4 block scales, each lane's operands are scaled by
    those of the positions that the attribute names. With `%index {index_byte}`, a vector of 1, 2 or 4 bytes, the
    elements of a sparse a are those that the bytes from this one on say.
    """

    a: ext.Operand[Any]
    b: ext.Operand[Any]
    c: ext.Operand[Any]
    scales_a: ext.Operand[Any] | None
    scales_b: ext.Operand[Any] | None
    index: ext.Operand[Any] | None
    fragment: ext.Result[Any]

    @staticmethod
    @verified
    def verify_invariants(op: ir.OpView) -> None:
        name = text_of(op, "instruction")
        expect(name in INSTRUCTIONS, f"there is no matrix instruction '{name}'; they are written like f32.32x32x8f16")
        instruction = INSTRUCTIONS[name]
        scales = list(op.operation.operands)[3:]
        if instruction.sparse:
            expect(len(scales) == 1, f"{name} takes an index")
            _check_index(op, instruction, scales.pop().type)
        expect(len(scales) in (0, 2), "scales are of both operands, or of none")
        expect(instruction.scaled or not scales, f"{name} has no block scales")
        for vector, place in zip(scales, registers_of(op, "scale_bytes") if scales else (), strict=True):
            fits = isinstance(vector.type, ir.VectorType) and str(vector.type.element_type) == "f8E8M0FNU"
            expect(fits and vector.type.shape[0] in (1, 2, 4), f"block scales are 1, 2 or 4 e8m0, not {vector.type}")
            expect(0 <= place < vector.type.shape[0], f"there is no scale {place} in {vector.type}")
        for operand, wanted in zip(op.operation.operands, (instruction.a_type, instruction.b_type), strict=False):
            expect(isinstance(operand.type, ir.VectorType), f"operands are vectors, not {operand.type}")
            expect(_bits(str(operand.type)) == _bits(wanted), f"{name} takes {wanted}, not {operand.type}")
        c = op.operation.operands[2].type
        expect(str(c) == instruction.acc_type, f"{name} adds to {instruction.acc_type}, not {c}")
        expect(op.operation.results[0].type == c, "the result has the accumulator's type")


def _check_index(op: ir.OpView, instruction: MfmaInstruction, given: ir.Type) -> None:
    """Check that a vector holds the bytes of the index of a sparse operand."""
    own, place = instruction.a_per_lane // INDEXED, integer_of(op, "index_byte")
    fits = isinstance(given, ir.VectorType) and str(given.element_type) == "i8" and given.shape[0] in (1, 2, 4)
    expect(fits, f"an index is 1, 2 or 4 i8, not {given}")
    expect(place % own == 0 and 0 <= place <= given.shape[0] - own, f"there are no {own} bytes from {place} in {given}")


class ExchangeOp(Ck.Operation, name="exchange", traits=[ext.Pure]):
    """`ck.exchange %value {mask, equal_below}`: the value of lane (this lane xor mask).

    `equal_below` is set where all lanes that differ from this one only in bits below the mask hold equal values, as
    in a reduction that has already folded those bits: any of them may then stand for the lane asked for.
    """

    source: ext.Operand[Any]
    exchanged: ext.Result[Any]

    @staticmethod
    @verified
    def verify_invariants(op: ir.OpView) -> None:
        mask = integer_of(op, "mask")
        expect(mask in (1, 2, 4, 8, 16, 32), f"mask {mask} is not a single bit of a 64-lane index")
        expect(op.operation.operands[0].type == op.operation.results[0].type, "an exchange keeps its type")


class HalfOp(Ck.Operation, name="half", traits=[ext.Pure]):
    """`ck.half %value {upper}`: the value of lane (this lane mod 32), of the upper half of the wave 32 lanes on.

    A combination of both halves is the same in all lanes, so that the order of its operands is.
    """

    source: ext.Operand[Any]
    half: ext.Result[Any]

    @staticmethod
    @verified
    def verify_invariants(op: ir.OpView) -> None:
        expect(op.operation.operands[0].type == op.operation.results[0].type, "a half keeps its type")


class RowLaneOp(Ck.Operation, name="row_lane", traits=[ext.Pure]):
    """`ck.row_lane %value {lane}`: the value that the lane so many behind the first has, of each row of 16 lanes."""

    source: ext.Operand[Any]
    handed_on: ext.Result[Any]

    @staticmethod
    @verified
    def verify_invariants(op: ir.OpView) -> None:
        lane = integer_of(op, "lane")
        expect(0 <= lane < ROW, f"lane {lane} is not in a row of {ROW}, from 0")
        expect(op.operation.operands[0].type == op.operation.results[0].type, "what is handed on keeps its type")


class FirstLaneOp(Ck.Operation, name="first_lane", traits=[ext.Pure]):
    """`ck.first_lane %scalar {copies}`: what all lanes hold equally, in a scalar register.

    `copies` says that it is an element of a tile of which all lanes of all waves hold copies.
    """

    source: ext.Operand[Any]
    scalar: ext.Result[Any]

    @staticmethod
    @verified
    def verify_invariants(op: ir.OpView) -> None:
        source = op.operation.operands[0].type
        expect(str(source) in ("i1", "i32", "i64", "f32"), f"takes i1, i32, i64 or f32, not {source}")
        expect(op.operation.results[0].type == source, "the result has the operand's type")


class ThreadCoordinateOp(Ck.Operation, name="thread_coordinate", traits=[ext.Pure]):
    """`ck.thread_coordinate {distribution, axis} -> i32`: where this thread's register 0 lies along an axis."""

    coordinate: ext.Result[Any]

    @staticmethod
    @verified
    def verify_invariants(op: ir.OpView) -> None:
        distribution, axis = Distribution.parse(text_of(op, "distribution")), integer_of(op, "axis")
        expect(
            0 <= axis < len(distribution.lengths), f"axis {axis} is not one of {len(distribution.lengths)} dimensions"
        )
        expect(str(op.operation.results[0].type) == "i32", "a coordinate is i32")


class ConvertOp(Ck.Operation, name="convert", traits=[ext.Pure]):
    """`ck.convert %vector {bounded}`: elements to another type, round to nearest even; i8 and fp8 results saturate.

    `bounded` promises that f32 elements are NaN or of a magnitude below 2^100, and that what is below 2^-126 may become
    zero; where they become 8-bit floats also that none is larger than the largest finite one.
    """

    source: ext.Operand[Any]
    fragment: ext.Result[Any]

    @staticmethod
    @verified
    def verify_invariants(op: ir.OpView) -> None:
        source, result = op.operation.operands[0].type, op.operation.results[0].type
        expect(
            isinstance(source, ir.VectorType) and isinstance(result, ir.VectorType) and source.shape == result.shape,
            f"converts vectors of one length, not {source} to {result}",
        )


class WorkgroupIdOp(Ck.Operation, name="workgroup_id", traits=[ext.Pure]):
    """`ck.workgroup_id {axis} -> i32`: this workgroup's position in the grid along axis 0 (x), 1 (y) or 2 (z)."""

    position: ext.Result[Any]

    @staticmethod
    @verified
    def verify_invariants(op: ir.OpView) -> None:
        axis = integer_of(op, "axis")
        expect(0 <= axis <= 2, f"axis {axis} is not 0 (x), 1 (y) or 2 (z)")
        expect(str(op.operation.results[0].type) == "i32", "a position is i32")


def _bits(type_: str) -> int:
    """Bits of the text of a vector or a scalar type."""
    length, _, element = type_.removeprefix("vector<").removesuffix(">").rpartition("x")
    return int(length or 1) * bits(element)


Scale = tuple[ir.Value, int]
"""A vector of block scales, and which of them is meant; or one of bytes of an index, and the first of those."""


def mfma(
    instruction: ir.Attribute,
    a: ir.Value,
    b: ir.Value,
    c: ir.Value,
    scales: Sequence[Scale] = (),
    index: Sequence[Scale] = (),
) -> ir.Value:
    """One matrix instruction of a wave; with block scales of a and b, or the index of a, if they are given."""
    segments = product_segments(len(scales), len(index))
    attributes = {"instruction": instruction, "operandSegmentSizes": segments}
    if scales:
        attributes["scale_bytes"] = registers([place for _, place in scales])
    for _, place in index:
        attributes["index_byte"] = integer(place)
    return value("ck.mfma", c.type, [a, b, c, *(vector for vector, _ in (*scales, *index))], attributes)


def exchange(source: ir.Value, mask: int, *, equal_below: bool) -> ir.Value:
    """The value of the lane whose index differs in one bit."""
    attributes = {"mask": integer(mask)}
    if equal_below:
        attributes["equal_below"] = ir.UnitAttr.get()
    return value("ck.exchange", source.type, [source], attributes)


def half(source: ir.Value, *, upper: bool) -> ir.Value:
    """The value of the lane that lies as far from the start of the wave's lower or upper half."""
    return value("ck.half", source.type, [source], {"upper": ir.UnitAttr.get()} if upper else {})


def row_lane(source: ir.Value, lane: int) -> ir.Value:
    """In all lanes of each row of 16 the value that one of them has."""
    return value("ck.row_lane", source.type, [source], {"lane": integer(lane)})


def first_lane(source: ir.Value, *, copies: bool = False) -> ir.Value:
    """What all lanes hold equally, in a scalar register; with `copies` an element that all waves hold."""
    return value("ck.first_lane", source.type, [source], {"copies": ir.UnitAttr.get()} if copies else {})


def thread_coordinate(distribution: Distribution, axis: int) -> ir.Value:
    """Where register 0 of this thread lies along an axis (i32)."""
    i32 = ir.IntegerType.get_signless(32)
    return value("ck.thread_coordinate", i32, [], {"distribution": string(str(distribution)), "axis": integer(axis)})


def convert(source: ir.Value, element: ir.Type, *, bounded: bool = False) -> ir.Value:
    """A vector's elements in another type."""
    attributes = {"bounded": ir.UnitAttr.get()} if bounded else {}
    return value("ck.convert", vector_type(source.type.shape[0], element), [source], attributes)


def workgroup_id(axis: int) -> ir.Value:
    """This workgroup's position in the grid."""
    return value("ck.workgroup_id", ir.IntegerType.get_signless(32), [], {"axis": integer(axis)})
