"""What is to be computed where it is used, and not kept until then."""

from typing import Any

from ckmlir.dialect.build import value
from ckmlir.dialect.dialect import Ck
from ckmlir.dialect.verify import expect, verified
from ckmlir.mlir import ext, ir

SCALARS = ("i32", "i64", "f32")


class AnewOp(Ck.Operation, name="anew", traits=[ext.Pure]):
    """`ck.anew %scalar -> scalar`: the same scalar, of which LLVM does not know that it is the same each time.

    So what follows from it is computed in each iteration of a loop, and takes no registers in between.
    """

    scalar: ext.Operand[Any]
    same: ext.Result[Any]

    @staticmethod
    @verified
    def verify_invariants(op: ir.OpView) -> None:
        given, result = op.operation.operands[0].type, op.operation.results[0].type
        expect(str(given) in SCALARS, f"is of scalars ({', '.join(SCALARS)}), not of {given}")
        expect(given == result, f"the same scalar is {given}, not {result}")


def anew(scalar: ir.Value) -> ir.Value:
    """The scalar (i32, i64 or f32), to be taken for another one each time."""
    return value("ck.anew", scalar.type, [scalar])
