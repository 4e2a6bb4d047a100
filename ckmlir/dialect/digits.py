"""Windows along which the digits of a merged dimension are known beforehand: who walks along one carries them.

A coordinate that a view divides into digits (`merge`) may advance with a loop. Its digits then follow from those of the
iteration before by addition, comparison and carry; `ck.with_digits` says them to the accesses of a window.
"""

from collections.abc import Sequence
from typing import Any

from ckmlir.dialect.build import integer, integer_of, producer, string, text_of, value
from ckmlir.dialect.descriptor import Descriptor
from ckmlir.dialect.dialect import Ck
from ckmlir.dialect.padding import RightPad
from ckmlir.dialect.transform_graph import Step
from ckmlir.dialect.transforms import Merge
from ckmlir.dialect.types import WindowType
from ckmlir.dialect.verify import expect, verified
from ckmlir.dialect.views import described_as
from ckmlir.mlir import ext, ir

WITH_DIGITS = "ck.with_digits"
ORIGIN, WAVE, THREAD, QUAD = KINDS = ("origin", "wave", "thread", "quad")
"""Of which coordinate digits are, see `WithDigitsOp`."""


class WithDigitsOp(Ck.Operation, name="with_digits", traits=[ext.Pure]):
    """`ck.with_digits %window, %digit… {axis, of, inside} -> window`: the window, along whose axis a merged dimension
    has these digits (i32), the slowest first.

    They are those of the window's origin (`of = "origin"`, uniform), of which the last is a multiple of a power of two
    that the window's length does not exceed; of its wave's coordinate, `inside` elements further on ("wave", the same
    for all lanes), of which the last is a multiple of one that what lanes and registers add stays below; of each
    thread's, as far as it comes from lane and wave, and `inside` elements on ("thread"), to whose last the rest of a
    register's coordinate stays below the last length; or of that and as many more as the lane's number in its quad
    ("quad"), where all four lanes have the same coordinates.
    """

    window: ext.Operand[Any]
    digits: Sequence[ext.Operand[Any]]
    known: ext.Result[Any]

    @staticmethod
    @verified
    def verify_invariants(op: ir.OpView) -> None:
        window, *digits = op.operation.operands
        described = described_as(window.type, WindowType)
        expect(op.operation.results[0].type == window.type, "the window keeps its type")
        axis, kind = integer_of(op.operation, "axis"), text_of(op.operation, "of")
        merge = merged_along(described.descriptor, axis) if 0 <= axis < len(described.lengths) else None
        expect(merge is not None, f"axis {axis} of {described.descriptor} is not a merged dimension, padded at most")
        assert merge is not None
        expect(
            len(digits) == len(merge.lowers),
            f"a dimension merged of {len(merge.lowers)} has as many digits, not {len(digits)}",
        )
        for digit in digits:
            expect(str(digit.type) == "i32", f"digits are i32, not {digit.type}")
        expect(kind in KINDS, f"digits are of {', '.join(KINDS)}, not '{kind}'")
        inside = integer_of(op.operation, "inside")
        expect(kind != ORIGIN or inside == 0, f"digits of the origin lie 0 elements inside, not {inside}")


def merged_along(descriptor: Descriptor, axis: int) -> Step | None:
    """The merge whose coordinate is that of a dimension on top; paddings on the right may lie between."""
    dimension = descriptor.tops[axis]
    for step in reversed(descriptor.steps):
        if step.uppers == (dimension,):
            if isinstance(step.transform, Merge):
                return step
            if not isinstance(step.transform, RightPad):
                return None
            (dimension,) = step.lowers
    return None


def with_digits(window: ir.Value, digits: Sequence[ir.Value], axis: int, kind: str, inside: int) -> ir.Value:
    """A window of which the digits of the merged dimension along an axis are known."""
    attributes = {"axis": integer(axis), "of": string(kind), "inside": integer(inside)}
    return value(WITH_DIGITS, window.type, [window, *digits], attributes)


def known_digits(window: ir.Value) -> tuple[ir.Value, list[ir.Operation]]:
    """The window that others add digits to, and the operations that do."""
    found = []
    while (owner := producer(window)) is not None and owner.name == WITH_DIGITS:
        found.append(owner)
        window = owner.operands[0]
    return window, found
