"""Fragments in LDS: room for tensors, and one access of every thread."""

from collections.abc import Sequence
from typing import Any

from ckmlir.dialect.build import create, integer_of, registers_of, string, text_of, value
from ckmlir.dialect.dialect import Ck
from ckmlir.dialect.fragment import placed, vector_type
from ckmlir.dialect.fragment_checks import (
    COPY_BYTES,
    check_contiguous,
    check_copyable,
    check_fragment,
    check_registers,
)
from ckmlir.dialect.lds_layout import LdsLayout
from ckmlir.dialect.scalars import bits
from ckmlir.dialect.types import LdsType, WindowType
from ckmlir.dialect.verify import expect, verified
from ckmlir.dialect.views import described_as
from ckmlir.mlir import ext, ir


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


def lds_alloc(lds: LdsType, layout: LdsLayout, name: str) -> ir.Value:
    """Room for a tensor in LDS; `name` serves reports."""
    return value("ck.lds_alloc", lds.mlir(), [], {"layout": string(str(layout)), "name": string(name)})


def lds_read(
    lds: ir.Value, distribution: ir.Attribute, numbers: Sequence[int], element: ir.Type, *, transposed: bool = False
) -> ir.Value:
    """One LDS access of every thread."""
    attributes = placed(distribution, numbers)
    if transposed:
        attributes["transposed"] = ir.UnitAttr.get()
    return value("ck.lds_read", vector_type(len(numbers), element), [lds], attributes)


def lds_write(vector: ir.Value, lds: ir.Value, distribution: ir.Attribute, numbers: Sequence[int]) -> None:
    """One LDS access of every thread."""
    create("ck.lds_write", [], [vector, lds], placed(distribution, numbers))


def copy_fragment(window: ir.Value, lds: ir.Value, distribution: ir.Attribute, numbers: Sequence[int]) -> None:
    """One copy of every thread from memory to LDS."""
    create("ck.copy_fragment", [], [window, lds], placed(distribution, numbers))
