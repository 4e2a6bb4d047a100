"""Fragments: what tiles split into before they are scheduled; one instruction's worth of one thread's registers each.

A thread holds the elements of a tile in registers numbered by the tile's distribution. A fragment operation names the
registers that it moves (`registers`) and the distribution that says which elements those are; its value is the builtin
`vector` of one thread. Element-wise work on fragments is arith and math on such vectors.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from ckmlir.dialect.build import create, registers, registers_of, value
from ckmlir.dialect.dialect import Ck
from ckmlir.dialect.fragment_checks import check_before, check_fragment, check_indexed, check_registers
from ckmlir.dialect.memory import INVARIANT, check_kind
from ckmlir.dialect.types import WindowType
from ckmlir.dialect.verify import expect, verified
from ckmlir.dialect.views import described_as
from ckmlir.mlir import ext, ir


class LoadFragmentOp(Ck.Operation, name="load_fragment"):
    """`ck.load_fragment %window {distribution, registers, invariant} -> vector`: one memory access of every thread;
    invalid elements are zero. `invariant`: as in `ck.load`.
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
    along the axis is each thread's own index; invalid elements, also those whose index is, are zero. `reach`: as in
    `ck.gather`.
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
    """`ck.atomic_fragment %vector, %window {kind, distribution, registers} -> vector?`: atomic update of memory by
    every thread; the result is what was there before, zero for invalid elements.
    """

    fragment: ext.Operand[Any]
    window: ext.Operand[Any]
    before: ext.Result[Any] | None

    @staticmethod
    @verified
    def verify_invariants(op: ir.OpView) -> None:
        fragment, window = op.operation.operands
        described = described_as(window.type, WindowType)
        check_fragment(op, fragment.type, described.lengths, described.element)
        check_kind(op)
        check_before(op, fragment.type)


class AtomicScatterFragmentOp(Ck.Operation, name="atomic_scatter_fragment"):
    """`ck.atomic_scatter_fragment %vector, %window, %index {axis, kind, distribution, registers} -> vector?`: an
    atomic_fragment whose coordinate along the axis is each thread's own index.
    """

    fragment: ext.Operand[Any]
    window: ext.Operand[Any]
    index: ext.Operand[Any]
    before: ext.Result[Any] | None

    @staticmethod
    @verified
    def verify_invariants(op: ir.OpView) -> None:
        fragment, window, index = op.operation.operands
        described = described_as(window.type, WindowType)
        check_indexed(op, index, check_fragment(op, fragment.type, described.lengths, described.element))
        check_kind(op)
        check_before(op, fragment.type)


def _check_position(op: ir.OpView, result: str) -> None:
    window = described_as(op.operation.operands[0].type, WindowType)
    check_registers(op, window.lengths, window.element)
    expect(len(registers_of(op)) == 1, f"a position is one register's, not {len(registers_of(op))}")
    found = op.operation.results[0].type
    expect(str(found) == result, f"the result is {result}, not {found}")


def placed(distribution: ir.Attribute, numbers: Sequence[int]) -> dict[str, ir.Attribute]:
    """The attributes that say which registers of a thread an operation moves, and where their elements lie."""
    return {"distribution": distribution, "registers": registers(numbers)}


def vector_type(length: int, element: ir.Type) -> ir.Type:
    """`vector<length x element>`."""
    return ir.VectorType.get([length], element)


def load_fragment(
    window: ir.Value, distribution: ir.Attribute, numbers: Sequence[int], element: ir.Type, *, invariant: bool = False
) -> ir.Value:
    """One memory access of every thread."""
    attributes = placed(distribution, numbers)
    if invariant:
        attributes[INVARIANT] = ir.UnitAttr.get()
    return value("ck.load_fragment", vector_type(len(numbers), element), [window], attributes)


def store_fragment(vector: ir.Value, window: ir.Value, distribution: ir.Attribute, numbers: Sequence[int]) -> None:
    """One memory access of every thread."""
    create("ck.store_fragment", [], [vector, window], placed(distribution, numbers))


def gather_fragment(
    window: ir.Value, index: ir.Value, where: Mapping[str, ir.Attribute], numbers: Sequence[int], element: ir.Type
) -> ir.Value:
    """One memory access of every thread, at its own index along an axis: `where` has axis, reach and distribution."""
    attributes = {**where, "registers": registers(numbers)}
    return value("ck.gather_fragment", vector_type(len(numbers), element), [window, index], attributes)


def inside_fragment(window: ir.Value, distribution: ir.Attribute, number: int) -> ir.Value:
    """Whether the element of a register exists (i1)."""
    attributes = placed(distribution, [number])
    return value("ck.inside_fragment", ir.IntegerType.get_signless(1), [window], attributes)


def offset_fragment(window: ir.Value, distribution: ir.Attribute, number: int) -> ir.Value:
    """Elements from the pointer to the element of a register (i32)."""
    attributes = placed(distribution, [number])
    return value("ck.offset_fragment", ir.IntegerType.get_signless(32), [window], attributes)


def scatter_fragment(
    vector: ir.Value, window: ir.Value, index: ir.Value, where: Mapping[str, ir.Attribute], numbers: Sequence[int]
) -> None:
    """One memory access of every thread, at its own index along an axis: `where` has axis, reach and distribution."""
    create("ck.scatter_fragment", [], [vector, window, index], {**where, "registers": registers(numbers)})


def atomic_fragment(
    vector: ir.Value, window: ir.Value, where: Mapping[str, ir.Attribute], numbers: Sequence[int], *, fetch: bool
) -> ir.Operation:
    """One atomic update of every thread: `where` has kind and distribution. `fetch`: its result is what was there."""
    results = [vector.type] if fetch else []
    return create("ck.atomic_fragment", results, [vector, window], {**where, "registers": registers(numbers)})


def atomic_scatter_fragment(
    vector: ir.Value,
    window: ir.Value,
    index: ir.Value,
    where: Mapping[str, ir.Attribute],
    numbers: Sequence[int],
    *,
    fetch: bool,
) -> ir.Operation:
    """`atomic_fragment` of every thread at its own index along an axis: `where` has that too."""
    results, attributes = [vector.type] if fetch else [], {**where, "registers": registers(numbers)}
    return create("ck.atomic_scatter_fragment", results, [vector, window, index], attributes)
