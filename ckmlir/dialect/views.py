"""Views and windows: a pointer with a descriptor, and a rectangle of static lengths in it."""

from collections.abc import Sequence
from typing import Any

from ckmlir.dialect.build import create, producer, value
from ckmlir.dialect.descriptor import Descriptor
from ckmlir.dialect.dialect import Ck
from ckmlir.dialect.scalars import name_of
from ckmlir.dialect.types import SPACES, LdsType, ViewType, WindowType, describe, is_ck
from ckmlir.dialect.verify import expect, verified
from ckmlir.mlir import ext, ir

MOVES_BUFFER = "moves_buffer"


class ViewOp(Ck.Operation, name="make_view", traits=[ext.Pure]):
    """`ck.make_view %pointer, %dynamic…`: the descriptor's run-time lengths and strides follow the pointer, in
    order of `?i`.
    """

    pointer: ext.Operand[Any]
    dynamic: Sequence[ext.Operand[Any]]
    view: ext.Result[Any]

    @staticmethod
    @verified
    def verify_invariants(op: ir.OpView) -> None:
        operands = list(op.operation.operands)
        described = described_as(op.operation.results[0].type, ViewType)
        pointer = f"!llvm.ptr<{SPACES[described.space]}>"
        if name_of(operands[0].type) != pointer:
            raise ValueError(f"a view in {described.space} memory takes {pointer}, not {operands[0].type}")
        count = described.descriptor.symbol_count
        if len(operands) - 1 != count:
            given = f"{len(operands) - 1} are given"
            raise ValueError(f"the descriptor {described.descriptor} has {count} run-time values, {given}")
        for operand in operands[1:]:
            if name_of(operand.type) != "i32":
                raise ValueError(f"run-time lengths and strides are i32, not {operand.type}")


class WindowOp(Ck.Operation, name="make_window", traits=[ext.Pure]):
    """`ck.make_window %view, %origin… {moves_buffer?}`: one i32 origin a dimension, uniform over the workgroup.

    With `moves_buffer` the buffer of accesses begins where a loop moves the window to, and ends with the view.
    """

    view: ext.Operand[Any]
    origin: Sequence[ext.Operand[Any]]
    window: ext.Result[Any]

    @staticmethod
    @verified
    def verify_invariants(op: ir.OpView) -> None:
        operands = list(op.operation.operands)
        view = described_as(operands[0].type, ViewType)
        window = described_as(op.operation.results[0].type, WindowType)
        if (view.element, view.space, view.descriptor) != (window.element, window.space, window.descriptor):
            types = f"{op.operation.results[0].type} over {operands[0].type}"
            raise ValueError(f"the window's element, space and descriptor must be its view's: {types}")
        expect(
            len(operands) - 1 == len(window.lengths),
            f"a window of {len(window.lengths)} dimensions takes as many origins, not {len(operands) - 1}",
        )
        for origin in operands[1:]:
            if name_of(origin.type) != "i32":
                raise ValueError(f"origins are i32, not {origin.type}")


class MoveWindowOp(Ck.Operation, name="move_window", traits=[ext.Pure]):
    """`ck.move_window %window, %step…`: the window so many elements further on, one uniform i32 step a dimension."""

    window: ext.Operand[Any]
    steps: Sequence[ext.Operand[Any]]
    moved: ext.Result[Any]

    @staticmethod
    @verified
    def verify_invariants(op: ir.OpView) -> None:
        operands = list(op.operation.operands)
        window = described_as(operands[0].type, WindowType)
        expect(op.operation.results[0].type == operands[0].type, "a moved window keeps its type")
        expect(
            len(operands) - 1 == len(window.lengths),
            f"a window of {len(window.lengths)} dimensions moves by as many steps, not {len(operands) - 1}",
        )
        for step in operands[1:]:
            expect(name_of(step.type) == "i32", f"steps are i32, not {step.type}")


def described_as(type_: ir.Type, kind: type) -> Any:
    """The description of a ck type of the given kind; TypeError in words otherwise."""
    described = describe(type_) if is_ck(type_) else None
    if not isinstance(described, kind):
        noun = "an LDS tensor" if kind is LdsType else f"a {kind.__name__.removesuffix('Type').lower()}"
        raise TypeError(f"expected {noun}, got {type_}")
    return described


def view(
    pointer: ir.Value, descriptor: Descriptor, element: ir.Type, dynamic: Sequence[ir.Value], space: str = "global"
) -> ir.Value:
    """A view of `element`s at `pointer` laid out by `descriptor`, whose run-time values are `dynamic` (i32)."""
    return value("ck.make_view", ViewType(element, space, descriptor).mlir(), [pointer, *dynamic])


def window(
    of: ir.Value, lengths: Sequence[int], origin: Sequence[ir.Value], *, moves_buffer: bool = False
) -> ir.Value:
    """The window of static `lengths` at `origin` (i32, uniform) of a view; `moves_buffer`: see `WindowOp`."""
    described = described_as(of.type, ViewType)
    type_ = WindowType(described.element, described.space, described.descriptor, tuple(lengths))
    attributes = {MOVES_BUFFER: ir.UnitAttr.get()} if moves_buffer else {}
    return value("ck.make_window", type_.mlir(), [of, *origin], attributes)


def move_window(of: ir.Value, steps: Sequence[ir.Value]) -> ir.Value:
    """A window moved by `steps` (i32, uniform), one a dimension."""
    return value("ck.move_window", of.type, [of, *steps])


def moves_buffer(of: ir.Value) -> bool:
    """Whether the buffer of accesses to a window begins where a loop moves it to."""
    while (owner := producer(of)) is not None and owner.name == "ck.move_window":
        of = owner.operands[0]
    return owner is not None and MOVES_BUFFER in owner.attributes


def view_and_origins(of: ir.Value) -> tuple[ir.Operation, list[list[ir.Value]]]:
    """The `ck.make_view` that a window lies in, and for every dimension the i32 values that add up to its origin.

    Raises:
        ValueError: the window is not made by operations of this dialect.
    """
    parts: list[list[ir.Value]] = []
    while (owner := producer(of)) is not None and owner.name in ("ck.make_window", "ck.move_window"):
        of, *own = owner.operands
        parts = [[number, *rest] for number, rest in zip(own, parts or [[] for _ in own], strict=True)]
    if owner is None or owner.name != "ck.make_view":
        raise ValueError(f"{of.type} comes from no ck.make_view; only ck operations make views and windows")
    return owner, parts


__all__ = [
    "MoveWindowOp",
    "ViewOp",
    "WindowOp",
    "create",
    "described_as",
    "move_window",
    "moves_buffer",
    "view",
    "view_and_origins",
    "window",
]
