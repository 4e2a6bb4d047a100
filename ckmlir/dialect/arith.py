"""Integer arithmetic and comparisons of MLIR's arith dialect, appended at the current insertion point and location.

The bindings' own builders bind signatures, which takes ten times as long, and importing them builds a class for each
operation of the dialect.
"""

from enum import IntEnum

from ckmlir.mlir import ir


class CmpIPredicate(IntEnum):
    """Comparisons of integers, by MLIR's numbers (mlir/Dialect/Arith/IR/ArithBase.td)."""

    eq = 0
    ne = 1
    slt = 2
    sle = 3
    sgt = 4
    sge = 5
    ult = 6
    ule = 7
    ugt = 8
    uge = 9


class CmpFPredicate(IntEnum):
    """Comparisons of floats, by MLIR's numbers: ordered ones do not hold of NaN, unordered ones do."""

    AlwaysFalse = 0
    OEQ = 1
    OGT = 2
    OGE = 3
    OLT = 4
    OLE = 5
    ONE = 6
    ORD = 7
    UEQ = 8
    UGT = 9
    UGE = 10
    ULT = 11
    ULE = 12
    UNE = 13
    UNO = 14
    AlwaysTrue = 15


def _binary(name: str, left: ir.Value, right: ir.Value) -> ir.Value:
    return ir.Operation.create(name, results=[left.type], operands=[left, right]).results[0]


def addi(left: ir.Value, right: ir.Value) -> ir.Value:
    """left + right."""
    return _binary("arith.addi", left, right)


def subi(left: ir.Value, right: ir.Value) -> ir.Value:
    """left - right."""
    return _binary("arith.subi", left, right)


def muli(left: ir.Value, right: ir.Value) -> ir.Value:
    """left * right."""
    return _binary("arith.muli", left, right)


def divui(left: ir.Value, right: ir.Value) -> ir.Value:
    """The quotient of unsigned numbers."""
    return _binary("arith.divui", left, right)


def remui(left: ir.Value, right: ir.Value) -> ir.Value:
    """The rest of unsigned numbers."""
    return _binary("arith.remui", left, right)


def andi(left: ir.Value, right: ir.Value) -> ir.Value:
    """Bits of both."""
    return _binary("arith.andi", left, right)


def ori(left: ir.Value, right: ir.Value) -> ir.Value:
    """Bits of either."""
    return _binary("arith.ori", left, right)


def xori(left: ir.Value, right: ir.Value) -> ir.Value:
    """Bits of one of them."""
    return _binary("arith.xori", left, right)


def shli(left: ir.Value, right: ir.Value) -> ir.Value:
    """Shifted to the left."""
    return _binary("arith.shli", left, right)


def shrui(left: ir.Value, right: ir.Value) -> ir.Value:
    """Shifted to the right, filled with zeros."""
    return _binary("arith.shrui", left, right)


def shrsi(left: ir.Value, right: ir.Value) -> ir.Value:
    """Shifted to the right, filled with the sign."""
    return _binary("arith.shrsi", left, right)


def minsi(left: ir.Value, right: ir.Value) -> ir.Value:
    """The smaller of signed numbers."""
    return _binary("arith.minsi", left, right)


def maxsi(left: ir.Value, right: ir.Value) -> ir.Value:
    """The larger of signed numbers."""
    return _binary("arith.maxsi", left, right)


def minui(left: ir.Value, right: ir.Value) -> ir.Value:
    """The smaller of unsigned numbers."""
    return _binary("arith.minui", left, right)


def maxui(left: ir.Value, right: ir.Value) -> ir.Value:
    """The larger of unsigned numbers."""
    return _binary("arith.maxui", left, right)


def trunci(result: ir.Type, item: ir.Value) -> ir.Value:
    """The low bits, as many as `result` has."""
    return ir.Operation.create("arith.trunci", results=[result], operands=[item]).results[0]


def cmpi(predicate: CmpIPredicate, left: ir.Value, right: ir.Value) -> ir.Value:
    """Whether integers compare so: i1, or a vector of it."""
    return _compared("arith.cmpi", predicate, left, right)


def cmpf(predicate: CmpFPredicate, left: ir.Value, right: ir.Value) -> ir.Value:
    """Whether floats compare so: i1, or a vector of it."""
    return _compared("arith.cmpf", predicate, left, right)


def _compared(name: str, predicate: IntEnum, left: ir.Value, right: ir.Value) -> ir.Value:
    result = ir.IntegerType.get_signless(1)
    if isinstance(left.type, ir.VectorType):
        result = ir.VectorType.get(left.type.shape, result)
    number = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), int(predicate))
    return ir.Operation.create(
        name, results=[result], operands=[left, right], attributes={"predicate": number}
    ).results[0]
