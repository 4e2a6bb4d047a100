"""Say in every view what divides its run-time lengths and strides, and how far its pointer is aligned.

The descriptor of a view decides how wide accesses may be, and tracing knows most of what it needs. What goes round a
loop is known only once the loop has its end: so what divides scalars is found once more, for whole kernels.
"""

from dataclasses import dataclass
from math import lcm
from typing import ClassVar

from msgspec.structs import replace

from ckmlir.dialect.descriptor import Descriptor
from ckmlir.dialect.divisors import Divisors
from ckmlir.dialect.scalars import bits
from ckmlir.dialect.types import ViewType, WindowType, describe
from ckmlir.mlir import ir
from ckmlir.passes.framework import Pass
from ckmlir.passes.walk import functions, operations

WINDOWS = ("ck.make_window", "ck.move_window", "ck.with_digits")


@dataclass(frozen=True)
class InferDivisors(Pass):
    """Find what divides the lengths, strides and pointers of views, and say so in their descriptors."""

    name: ClassVar[str] = "ck-infer-divisors"

    def apply(self, module: ir.Module) -> None:
        for function in functions(module):
            divisors = Divisors()
            for op in operations(function):
                if op.name == "ck.make_view":
                    _refine(op, divisors)


def _refine(op: ir.Operation, divisors: Divisors) -> None:
    described = describe(op.results[0].type)
    assert isinstance(described, ViewType)
    pointer, *dynamic = op.operands
    before = described.descriptor
    known = {
        number: lcm(multiple, found)
        for number, multiple in before.symbol_multiples.items()
        if (found := divisors.of(dynamic[number])) and number not in before.tables
    }
    aligned = max(divisors.alignment(pointer) * 8 // bits(described.element), 1)
    after: Descriptor = before.with_multiples(known)
    after = replace(after, alignment=lcm(after.alignment, aligned))
    if after != before:
        op.results[0].set_type(replace(described, descriptor=after).mlir())
        _follow(op.results[0], after)


def _follow(place: ir.Value, descriptor: Descriptor) -> None:
    """The windows of a view have its descriptor."""
    for use in place.uses:
        user = use.owner.operation
        if user.name in WINDOWS:
            window = describe(user.results[0].type)
            assert isinstance(window, WindowType)
            user.results[0].set_type(replace(window, descriptor=descriptor).mlir())
            _follow(user.results[0], descriptor)
