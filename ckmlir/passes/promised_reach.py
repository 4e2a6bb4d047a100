"""What a near access by index relies upon, as statements that a checked run evaluates: its view ends within reach.

Lengths and strides are known when the kernel runs, as those of the view that is gathered from or scattered to.
"""

from collections.abc import Callable
from typing import Any

from ckmlir.dialect.build import text_of
from ckmlir.dialect.reach import FAR, known_near
from ckmlir.dialect.scalars import bits
from ckmlir.dialect.symbols import Size, Symbol
from ckmlir.dialect.types import WindowType
from ckmlir.dialect.views import described_as, view_and_origins
from ckmlir.mlir import ir

WORDS = {"+": "addi", "-": "subi", "*": "muli", "//": "divui", "%": "remui"}
"""The operations of sizes as the data calls them."""


WINDOWS = {"ck.gather_fragment": 0, "ck.copy_fragment": 0, "ck.scatter_fragment": 1}
"""The operand that is its window, of accesses that may rely on a view being near."""


def window_of(op: ir.Operation) -> ir.Value | None:
    """The window of an access that relies on its view being near without knowing it; None for other operations."""
    place = WINDOWS.get(op.name)
    if place is None or "reach" not in op.attributes or text_of(op, "reach") == FAR:
        return None
    window = op.operands[place]
    described = described_as(window.type, WindowType)
    return None if known_near(described.descriptor, described.element) else window


def sizes_of(window: ir.Value) -> list[ir.Value]:
    """The run-time values that its view's extent depends on."""
    return list(view_and_origins(window)[0].operands)[1:]


def extent_of(window: ir.Value, number: Callable[[Any], int]) -> tuple[list[Any], int]:
    """Statements that compute the bytes of a window's view, and the number of the value that has them.

    `number` numbers values, and whatever else is handed to it.
    """
    described = described_as(window.type, WindowType)
    dynamic = sizes_of(window)
    statements: list[Any] = []

    def define(*what: Any) -> int:
        made = number(object())
        statements.append(["is", made, *what])
        return made

    def visit(size: Size) -> int:
        if isinstance(size, int):
            return define("constant", size)
        if isinstance(size, Symbol):
            return number(dynamic[size.index])
        left, right = visit(size.left), visit(size.right)
        return define(WORDS[size.operator], 64, left, right)

    elements = visit(described.descriptor.extent)
    return statements, define("muli", 64, elements, define("constant", bits(described.element) // 8))
