"""Fragments in LDS: room for tensors, and one access of every thread."""

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

from ckmlir.dialect.build import create, integer, integer_of, registers_of, string, text_of, value
from ckmlir.dialect.dialect import Ck
from ckmlir.dialect.distribution import Distribution
from ckmlir.dialect.fragment import placed, vector_type
from ckmlir.dialect.fragment_checks import (
    COPY_BYTES,
    check_contiguous,
    check_copyable,
    check_fragment,
    check_indexed,
    check_registers,
)
from ckmlir.dialect.lds_layout import LdsLayout
from ckmlir.dialect.packed_checks import packing_of
from ckmlir.dialect.reach import check_near
from ckmlir.dialect.scalars import bits
from ckmlir.dialect.types import LdsType, WindowType
from ckmlir.dialect.verify import expect, verified
from ckmlir.dialect.views import described_as
from ckmlir.mlir import ext, ir
from ckmlir.targets.features import TRANSPOSED

BEGINS = "begins"
"""Unit attribute of what fills LDS: here a value of the tensor begins, and what it held before is needed no more.

A value is filled by several operations, one an access; the one that runs first carries the attribute. Without it
nothing is said: the operation may add to what is there.
"""


ALIGNMENT = 16
"""Bytes: the widest access of a lane."""


class LdsAllocOp(Ck.Operation, name="lds_alloc"):
    """`ck.lds_alloc {layout, name?, rooms?, offset?} -> !ck.lds`: room for a tensor in LDS.

    `layout` is an `LdsLayout` (order of the dimensions, pitch, swizzle); `offset` in bytes is set by ck-allocate-lds.
    With `rooms` the tensor lies there so many times, one copy behind the other: waves that hold the same elements each
    write a copy of their own, since no two waves may write the same byte, and all read the first.
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
        expect(rooms_of(op.operation) >= 1, "there is at least 1 room")
        if "offset" in op.attributes:
            expect(integer_of(op, "offset") >= 0, "offset must not be negative")


class LdsReadOp(Ck.Operation, name="lds_read"):
    """`ck.lds_read %lds {distribution, registers, transposed?, format?} -> vector`: one LDS access of every thread.

    With `transposed` the lanes read what the distribution says, n elements (`TRANSPOSED`), and exchange them in groups
    of 16: element j of what lane i of a group gets is element i % n of what lane (16 / n) j + i / n has read. With a
    format of packed elements it is these that are exchanged, not the bytes that they share.
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
            packing = packing_of(op) if "format" in op.attributes else None
            size = bits(lds.element) if packing is None else packing.bits
            count, right = len(registers_of(op)), TRANSPOSED.get(size, 0)
            count = count * bits(lds.element) // size
            *others, last = (f"{number} elements of {one} bits" for one, number in TRANSPOSED.items())
            able = f"{', '.join(others)} or {last}"
            expect(count == right, f"a transposing read takes {able}, not {count} of {size}")


class LdsWriteOp(Ck.Operation, name="lds_write"):
    """`ck.lds_write %vector, %lds {distribution, registers, begins?}`: one LDS access of every thread.

    With `begins` a value of the tensor begins here (`BEGINS`).
    """

    fragment: ext.Operand[Any]
    lds: ext.Operand[Any]

    @staticmethod
    @verified
    def verify_invariants(op: ir.OpView) -> None:
        fragment, lds = op.operation.operands
        described = described_as(lds.type, LdsType)
        along = check_fragment(op, fragment.type, described.lengths, described.element)
        check_contiguous(lds, along, len(registers_of(op)))
        _check_begins(op)


class CopyFragmentOp(Ck.Operation, name="copy_fragment"):
    """`ck.copy_fragment %window, %lds, %index? {axis?, distribution, registers, begins?}`: one copy of every thread
    from memory to LDS.

    The distribution says where in LDS, taken for rows without swizzle, a thread's registers lie: one cell behind the
    other from lane to lane, because the instruction has one LDS address a wave. The thread copies there the elements
    that the tensor's layout has in that place. The copy ends some time after the operation; `ck.wait {copies}`. With
    `begins` a value of the tensor begins here (`BEGINS`). With an index the coordinate along the axis is each thread's
    own, as in `ck.gather_fragment`.
    """

    window: ext.Operand[Any]
    lds: ext.Operand[Any]
    index: ext.Operand[Any] | None

    @staticmethod
    @verified
    def verify_invariants(op: ir.OpView) -> None:
        window, lds, *index = op.operation.operands
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
        for one in index:
            check_near(op)
            check_indexed(op, one, along)
        _check_begins(op)


def _check_begins(op: ir.OpView) -> None:
    if BEGINS in op.attributes:
        expect(isinstance(op.attributes[BEGINS], ir.UnitAttr), f"'{BEGINS}' stands alone, it has no value")


def lds_alloc(lds: LdsType, layout: LdsLayout, name: str, writer: Distribution) -> ir.Value:
    """Room for a tensor in LDS that a tile of distribution `writer` is written to; `name` serves reports."""
    attributes = {"layout": string(str(layout)), "name": string(name)}
    rooms = prod(digit.length for digit in writer.wave_copies())
    if rooms > 1:
        attributes["rooms"] = integer(rooms)
    return value("ck.lds_alloc", lds.mlir(), [], attributes)


def rooms_of(alloc: ir.Operation) -> int:
    """How many times an allocation has room for its tensor."""
    return integer_of(alloc, "rooms") if "rooms" in alloc.attributes else 1


def room_bytes(alloc: ir.Operation) -> int:
    """Bytes of the tensor with its layout."""
    lds = described_as(alloc.results[0].type, LdsType)
    return LdsLayout.parse(text_of(alloc, "layout")).elements * bits(lds.element) // 8


def room_distance(alloc: ir.Operation) -> int:
    """Bytes from one copy of the tensor to the next."""
    return -(-room_bytes(alloc) // ALIGNMENT) * ALIGNMENT


def tensor_bytes(alloc: ir.Operation) -> int:
    """Bytes from the beginning of the first copy to the end of the last."""
    return (rooms_of(alloc) - 1) * room_distance(alloc) + room_bytes(alloc)


def lds_read(
    lds: ir.Value,
    distribution: ir.Attribute,
    numbers: Sequence[int],
    element: ir.Type,
    *,
    transposed: bool = False,
    format_: str = "",
) -> ir.Value:
    """One LDS access of every thread; `transposed`: lanes exchange what they read, elements of a packed `format_` if
    there is one.
    """
    attributes = placed(distribution, numbers)
    if transposed:
        attributes["transposed"] = ir.UnitAttr.get()
    if format_:
        attributes["format"] = string(format_)
    return value("ck.lds_read", vector_type(len(numbers), element), [lds], attributes)


def lds_write(
    vector: ir.Value, lds: ir.Value, distribution: ir.Attribute, numbers: Sequence[int], *, begins: bool = False
) -> None:
    """One LDS access of every thread; `begins`: the first of those that make a value of the tensor."""
    create("ck.lds_write", [], [vector, lds], _filling(distribution, numbers, begins))


def copy_fragment(
    operands: Sequence[ir.Value], where: Mapping[str, ir.Attribute], numbers: Sequence[int], *, begins: bool = False
) -> None:
    """One copy of every thread from memory to LDS: of a window, to a tensor, it may be at an index. `where` has the
    distribution, and with an index axis and reach; `begins`: the first of those that make a value of the tensor.
    """
    more = _filling(where["distribution"], numbers, begins)
    create("ck.copy_fragment", [], operands, {**where, **more})


def _filling(distribution: ir.Attribute, numbers: Sequence[int], begins: bool) -> dict[str, ir.Attribute]:
    return {**placed(distribution, numbers), **({BEGINS: ir.UnitAttr.get()} if begins else {})}
