"""What a kernel's author promises of a scalar, and the compiler relies upon without being able to prove it."""

from typing import Any

from ckmlir.dialect.build import integer, integer_of, value
from ckmlir.dialect.dialect import Ck
from ckmlir.dialect.scalars import name_of
from ckmlir.dialect.verify import expect, verified
from ckmlir.mlir import ext, ir


class PromiseOp(Ck.Operation, name="promise", traits=[ext.Pure]):
    """`ck.promise %scalar {divisor = 8} -> scalar`: the same scalar or pointer, promised to be divisible by a number.

    It is gone before anything is scheduled (`ck-record-promises`), and costs nothing: a checked run evaluates it.
    """

    scalar: ext.Operand[Any]
    promised: ext.Result[Any]

    @staticmethod
    @verified
    def verify_invariants(op: ir.OpView) -> None:
        given, result = op.operation.operands[0].type, op.operation.results[0].type
        if name_of(given) not in ("i32", "i64") and not name_of(given).startswith("!llvm.ptr"):
            raise ValueError(f"promises are made of i32, i64 and pointers, not of {given}")
        if given != result:
            raise ValueError(f"what is promised of {given} is {given}, not {result}")
        divisor = integer_of(op, "divisor")
        expect(divisor >= 1, f"divisor = {divisor}; a number is a multiple of 1 or more")


def promise(scalar: ir.Value, divisor: int) -> ir.Value:
    """The scalar (i32 or i64), or the pointer (in bytes), promised to be a multiple of `divisor`."""
    return value("ck.promise", scalar.type, [scalar], {"divisor": integer(divisor)})
