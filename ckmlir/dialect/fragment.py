"""Fragments: what tiles split into before they are scheduled; one instruction's worth of one thread's registers each.

A thread holds the elements of a tile in registers numbered by the tile's distribution. A fragment operation names the
registers that it moves (`registers`) and the distribution that says which elements those are; its value is the builtin
`vector` of one thread. Element-wise work on fragments is arith and math on such vectors.
"""

from collections.abc import Sequence
from typing import Any

from ckmlir.dialect.build import create, integer, integer_of, registers, registers_of, string, text_of, value
from ckmlir.dialect.dialect import Ck
from ckmlir.dialect.distribution import Distribution
from ckmlir.dialect.fragment_checks import (
    COPY_BYTES,
    check_contiguous,
    check_copyable,
    check_fragment,
    check_indexed,
    check_registers,
)  # fmt: skip
from ckmlir.dialect.lds_layout import LdsLayout
from ckmlir.dialect.memory import ATOMIC_KINDS
from ckmlir.dialect.scalars import bits
from ckmlir.dialect.types import LdsType, WindowType
from ckmlir.dialect.verify import expect, verified
from ckmlir.dialect.views import described_as
from ckmlir.mlir import ext, ir
from ckmlir.targets.mfma import INSTRUCTIONS


class LoadFragmentOp(Ck.Operation, name="load_fragment"):
    """`ck.load_fragment %window {distribution, registers} -> vector`: one memory access of every thread;
    invalid elements are zero.
    """

    window: ext.Operand[Any]
    fragment: ext.Result[Any]

    @staticmethod
    @verified
    def verify_invariants(op: ir.OpView) -> None:
        window = described_as(op.operation.operands[0].type, WindowType)
        check_fragment(op, op.operation.results[0].type, window.lengths, window.element)


class StoreFragmentOp(Ck.Operation, name="store_fragment"):
    """`ck.store_fragment %vector, %window {distribution, registers}`: one memory access of every thread;
    invalid elements are dropped.
    """

    fragment: ext.Operand[Any]
    window: ext.Operand[Any]

    @staticmethod
    @verified
    def verify_invariants(op: ir.OpView) -> None:
        fragment, window = op.operation.operands
        described = described_as(window.type, WindowType)
        check_fragment(op, fragment.type, described.lengths, described.element)


class GatherFragmentOp(Ck.Operation, name="gather_fragment"):
    """`ck.gather_fragment %window, %index {axis, distribution, registers} -> vector`: a load_fragment whose coordinate
    along the axis is each thread's own index; invalid elements, also those whose index is, are zero.
    """

    window: ext.Operand[Any]
    index: ext.Operand[Any]
    fragment: ext.Result[Any]

    @staticmethod
    @verified
    def verify_invariants(op: ir.OpView) -> None:
        window, index = op.operation.operands
        described = described_as(window.type, WindowType)
        check_indexed(op, index, check_fragment(op, op.operation.results[0].type, described.lengths, described.element))


class ScatterFragmentOp(Ck.Operation, name="scatter_fragment"):
    """`ck.scatter_fragment %vector, %window, %index {axis, distribution, registers}`: a store_fragment whose coordinate
    along the axis is each thread's own index; invalid elements, also those whose index is, are dropped.
    """

    fragment: ext.Operand[Any]
    window: ext.Operand[Any]
    index: ext.Operand[Any]

    @staticmethod
    @verified
    def verify_invariants(op: ir.OpView) -> None:
        fragment, window, index = op.operation.operands
        described = described_as(window.type, WindowType)
        check_indexed(op, index, check_fragment(op, fragment.type, described.lengths, described.element))


class InsideFragmentOp(Ck.Operation, name="inside_fragment", traits=[ext.Pure]):
    """`ck.inside_fragment %window {distribution, registers} -> i1`: whether the element of one register exists."""

    window: ext.Operand[Any]
    found: ext.Result[Any]

    @staticmethod
    @verified
    def verify_invariants(op: ir.OpView) -> None:
        _check_position(op, "i1")


class OffsetFragmentOp(Ck.Operation, name="offset_fragment", traits=[ext.Pure]):
    """`ck.offset_fragment %window {distribution, registers} -> i32`: elements from the pointer to that of one
    register.
    """

    window: ext.Operand[Any]
    offset: ext.Result[Any]

    @staticmethod
    @verified
    def verify_invariants(op: ir.OpView) -> None:
        _check_position(op, "i32")


class AtomicFragmentOp(Ck.Operation, name="atomic_fragment"):
    """`ck.atomic_fragment %vector, %window {kind, distribution, registers}`: atomic update of memory by every
    thread.
    """

    fragment: ext.Operand[Any]
    window: ext.Operand[Any]

    @staticmethod
    @verified
    def verify_invariants(op: ir.OpView) -> None:
        fragment, window = op.operation.operands
        described = described_as(window.type, WindowType)
        check_fragment(op, fragment.type, described.lengths, described.element)
        kind = text_of(op, "kind")
        expect(kind in ATOMIC_KINDS, f"kind '{kind}' is not one of {', '.join(ATOMIC_KINDS)}")


class LdsAllocOp(Ck.Operation, name="lds_alloc"):
    """`ck.lds_alloc {layout, name?, offset?} -> !ck.lds`: room for a tensor in LDS.

    `layout` is an `LdsLayout` (order of the dimensions, pitch, swizzle); `offset` in bytes is set by ck-allocate-lds.
    """

    lds: ext.Result[Any]

    @staticmethod
    @verified
    def verify_invariants(op: ir.OpView) -> None:
        lds = described_as(op.operation.results[0].type, LdsType)
        layout = LdsLayout.parse(text_of(op, "layout"))
        expect(
            layout.lengths == lds.lengths,
            f"the layout covers {list(layout.lengths)}, the tensor has {list(lds.lengths)}",
        )
        if "name" in op.attributes:
            text_of(op, "name")
        if "offset" in op.attributes:
            expect(integer_of(op, "offset") >= 0, "offset must not be negative")


class LdsReadOp(Ck.Operation, name="lds_read"):
    """`ck.lds_read %lds {distribution, registers, transposed?} -> vector`: one LDS access of every thread.

    With `transposed` the lanes read what the distribution says, 4 elements of 16 bits, and exchange them in groups of
    16: element j of what lane i of a group gets is element i % 4 of what lane 4 j + i / 4 has read.
    """

    lds: ext.Operand[Any]
    fragment: ext.Result[Any]

    @staticmethod
    @verified
    def verify_invariants(op: ir.OpView) -> None:
        lds = described_as(op.operation.operands[0].type, LdsType)
        along = check_fragment(op, op.operation.results[0].type, lds.lengths, lds.element)
        check_contiguous(op.operation.operands[0], along, len(registers_of(op)))
        if "transposed" in op.attributes:
            count, size = len(registers_of(op)), bits(lds.element)
            expect((count, size) == (4, 16), f"a transposing read takes 4 elements of 16 bits, not {count} of {size}")


class LdsWriteOp(Ck.Operation, name="lds_write"):
    """`ck.lds_write %vector, %lds {distribution, registers}`: one LDS access of every thread."""

    fragment: ext.Operand[Any]
    lds: ext.Operand[Any]

    @staticmethod
    @verified
    def verify_invariants(op: ir.OpView) -> None:
        fragment, lds = op.operation.operands
        described = described_as(lds.type, LdsType)
        along = check_fragment(op, fragment.type, described.lengths, described.element)
        check_contiguous(lds, along, len(registers_of(op)))


class CopyFragmentOp(Ck.Operation, name="copy_fragment"):
    """`ck.copy_fragment %window, %lds {distribution, registers}`: one copy of every thread from memory to LDS.

    The distribution says where in LDS, taken for rows without swizzle, a thread's registers lie: one cell behind the
    other from lane to lane, because the instruction has one LDS address a wave. The thread copies there the elements
    that the tensor's layout has in that place. The copy ends some time after the operation; `ck.wait {copies}`.
    """

    window: ext.Operand[Any]
    lds: ext.Operand[Any]

    @staticmethod
    @verified
    def verify_invariants(op: ir.OpView) -> None:
        window, lds = op.operation.operands
        source, described = described_as(window.type, WindowType), described_as(lds.type, LdsType)
        expect(
            (source.lengths, source.element) == (described.lengths, described.element),
            f"the window is {list(source.lengths)} of {source.element}, the LDS tensor {list(described.lengths)} of "
            f"{described.element}",
        )
        numbers = registers_of(op)
        along = check_registers(op, described.lengths, described.element)
        size = len(numbers) * bits(source.element) // 8
        expect(size in COPY_BYTES, f"no copy moves {size} bytes a lane; it moves {', '.join(map(str, COPY_BYTES))}")
        check_contiguous(lds, along, len(numbers))
        check_copyable(op, lds)


class MfmaOp(Ck.Operation, name="mfma", traits=[ext.Pure]):
    """`ck.mfma %a, %b, %c {instruction}`: one matrix instruction of a wave, by its name in the target's table."""

    a: ext.Operand[Any]
    b: ext.Operand[Any]
    c: ext.Operand[Any]
    fragment: ext.Result[Any]

    @staticmethod
    @verified
    def verify_invariants(op: ir.OpView) -> None:
        name = text_of(op, "instruction")
        expect(name in INSTRUCTIONS, f"there is no matrix instruction '{name}'; they are written like f32.32x32x8f16")
        instruction = INSTRUCTIONS[name]
        for operand, wanted in zip(op.operation.operands, (instruction.a_type, instruction.b_type), strict=False):
            expect(isinstance(operand.type, ir.VectorType), f"operands are vectors, not {operand.type}")
            expect(_bits(str(operand.type)) == _bits(wanted), f"{name} takes {wanted}, not {operand.type}")
        c = op.operation.operands[2].type
        expect(str(c) == instruction.acc_type, f"{name} adds to {instruction.acc_type}, not {c}")
        expect(op.operation.results[0].type == c, "the result has the accumulator's type")


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
    """`ck.convert %vector`: elements to another type, round to nearest even; i8 and fp8 results saturate."""

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


def _check_position(op: ir.OpView, result: str) -> None:
    window = described_as(op.operation.operands[0].type, WindowType)
    check_registers(op, window.lengths, window.element)
    expect(len(registers_of(op)) == 1, f"a position is one register's, not {len(registers_of(op))}")
    found = op.operation.results[0].type
    expect(str(found) == result, f"the result is {result}, not {found}")


def _bits(type_: str) -> int:
    """Bits of the text of a vector or a scalar type."""
    length, _, element = type_.removeprefix("vector<").removesuffix(">").rpartition("x")
    return int(length or 1) * bits(element)


def vector_type(length: int, element: ir.Type) -> ir.Type:
    """`vector<length x element>`."""
    return ir.VectorType.get([length], element)


def load_fragment(window: ir.Value, distribution: ir.Attribute, numbers: Sequence[int], element: ir.Type) -> ir.Value:
    """One memory access of every thread."""
    return value(
        "ck.load_fragment",
        vector_type(len(numbers), element),
        [window],
        {"distribution": distribution, "registers": registers(numbers)},
    )


def store_fragment(vector: ir.Value, window: ir.Value, distribution: ir.Attribute, numbers: Sequence[int]) -> None:
    """One memory access of every thread."""
    create("ck.store_fragment", [], [vector, window], {"distribution": distribution, "registers": registers(numbers)})


def gather_fragment(
    window: ir.Value, index: ir.Value, axis: int, distribution: ir.Attribute, numbers: Sequence[int], element: ir.Type
) -> ir.Value:
    """One memory access of every thread, at its own index along an axis."""
    attributes = {"axis": integer(axis), "distribution": distribution, "registers": registers(numbers)}
    return value("ck.gather_fragment", vector_type(len(numbers), element), [window, index], attributes)


def inside_fragment(window: ir.Value, distribution: ir.Attribute, number: int) -> ir.Value:
    """Whether the element of a register exists (i1)."""
    attributes = {"distribution": distribution, "registers": registers([number])}
    return value("ck.inside_fragment", ir.IntegerType.get_signless(1), [window], attributes)


def offset_fragment(window: ir.Value, distribution: ir.Attribute, number: int) -> ir.Value:
    """Elements from the pointer to the element of a register (i32)."""
    attributes = {"distribution": distribution, "registers": registers([number])}
    return value("ck.offset_fragment", ir.IntegerType.get_signless(32), [window], attributes)


def scatter_fragment(
    vector: ir.Value, window: ir.Value, index: ir.Value, axis: int, distribution: ir.Attribute, numbers: Sequence[int]
) -> None:
    """One memory access of every thread, at its own index along an axis."""
    attributes = {"axis": integer(axis), "distribution": distribution, "registers": registers(numbers)}
    create("ck.scatter_fragment", [], [vector, window, index], attributes)


def atomic_fragment(
    vector: ir.Value, window: ir.Value, kind: str, distribution: ir.Attribute, numbers: Sequence[int]
) -> None:
    """One atomic update of every thread."""
    create(
        "ck.atomic_fragment",
        [],
        [vector, window],
        {"kind": string(kind), "distribution": distribution, "registers": registers(numbers)},
    )


def lds_alloc(lds: LdsType, layout: LdsLayout, name: str) -> ir.Value:
    """Room for a tensor in LDS; `name` serves reports."""
    return value("ck.lds_alloc", lds.mlir(), [], {"layout": string(str(layout)), "name": string(name)})


def lds_read(
    lds: ir.Value, distribution: ir.Attribute, numbers: Sequence[int], element: ir.Type, *, transposed: bool = False
) -> ir.Value:
    """One LDS access of every thread."""
    attributes = {"distribution": distribution, "registers": registers(numbers)}
    if transposed:
        attributes["transposed"] = ir.UnitAttr.get()
    return value("ck.lds_read", vector_type(len(numbers), element), [lds], attributes)


def copy_fragment(window: ir.Value, lds: ir.Value, distribution: ir.Attribute, numbers: Sequence[int]) -> None:
    """One copy of every thread from memory to LDS."""
    create("ck.copy_fragment", [], [window, lds], {"distribution": distribution, "registers": registers(numbers)})


def lds_write(vector: ir.Value, lds: ir.Value, distribution: ir.Attribute, numbers: Sequence[int]) -> None:
    """One LDS access of every thread."""
    create("ck.lds_write", [], [vector, lds], {"distribution": distribution, "registers": registers(numbers)})


def mfma(instruction: ir.Attribute, a: ir.Value, b: ir.Value, c: ir.Value) -> ir.Value:
    """One matrix instruction of a wave."""
    return value("ck.mfma", c.type, [a, b, c], {"instruction": instruction})


def exchange(source: ir.Value, mask: int, *, equal_below: bool) -> ir.Value:
    """The value of the lane whose index differs in one bit."""
    attributes = {"mask": integer(mask)}
    if equal_below:
        attributes["equal_below"] = ir.UnitAttr.get()
    return value("ck.exchange", source.type, [source], attributes)


def thread_coordinate(distribution: Distribution, axis: int) -> ir.Value:
    """Where register 0 of this thread lies along an axis (i32)."""
    i32 = ir.IntegerType.get_signless(32)
    return value("ck.thread_coordinate", i32, [], {"distribution": string(str(distribution)), "axis": integer(axis)})


def convert(source: ir.Value, element: ir.Type) -> ir.Value:
    """A vector's elements in another type."""
    return value("ck.convert", vector_type(source.type.shape[0], element), [source])


def workgroup_id(axis: int) -> ir.Value:
    """This workgroup's position in the grid."""
    return value("ck.workgroup_id", ir.IntegerType.get_signless(32), [], {"axis": integer(axis)})
