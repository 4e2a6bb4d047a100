"""Arithmetic on scalar IR values: constants, and the operations behind Python's operators."""

from __future__ import annotations

from ckmlir.dialect.build import value
from ckmlir.dialect.scalars import bits, element_type, is_float
from ckmlir.lang.trace import current, located
from ckmlir.mlir import arith, ir

Number = int | float


def dtype(name: str) -> ir.Type:
    """The element type of a dtype name on the target being traced."""
    return element_type(name, current().target.fp8)


@located
def constant(number: Number, type_: ir.Type) -> ir.Value:
    """A scalar constant.

    Raises:
        TypeError: a number with a fraction for an integer type.
        ValueError: an integer that the type cannot hold, signed or unsigned.
    """
    if is_float(type_):
        return value("arith.constant", type_, [], {"value": ir.FloatAttr.get(type_, float(number))})
    if not isinstance(number, int):
        raise TypeError(f"{number} meets {type_}; integers are written without a point, or convert with .to(…)")
    width = bits(type_)
    if not -(1 << (width - 1)) <= number < 1 << width:
        raise ValueError(f"{number} does not fit into {type_}")
    wrapped = number - (1 << width) if width > 1 and number >> (width - 1) > 0 else int(number)
    return value("arith.constant", type_, [], {"value": ir.IntegerAttr.get(type_, wrapped)})


# (operator, float) -> operation; None where the combination has no meaning.
_BINARY: dict[tuple[str, bool], str] = {
    ("+", True): "arith.addf", ("+", False): "arith.addi", ("-", True): "arith.subf", ("-", False): "arith.subi",
    ("*", True): "arith.mulf", ("*", False): "arith.muli", ("/", True): "arith.divf", ("//", False): "arith.divsi",
    ("%", False): "arith.remsi", ("maximum", True): "arith.maxnumf", ("maximum", False): "arith.maxsi",
    ("minimum", True): "arith.minnumf", ("minimum", False): "arith.minsi", ("&", False): "arith.andi",
    ("|", False): "arith.ori", ("^", False): "arith.xori", ("<<", False): "arith.shli", (">>", False): "arith.shrsi",
}  # fmt: skip
_COMPARE = {
    "<": ("slt", "olt"),
    "<=": ("sle", "ole"),
    ">": ("sgt", "ogt"),
    ">=": ("sge", "oge"),
    "==": ("eq", "oeq"),
    "!=": ("ne", "une"),
}
_CONTRACT = "#arith.fastmath<contract>"


def emit_binary(symbol: str, left: ir.Value, right: ir.Value) -> ir.Value:
    """One arithmetic operation on scalars of one type.

    Raises:
        TypeError: the types differ, or the operation has no meaning for them.
    """
    _check_same_type(symbol, left, right)
    floating = is_float(left.type)
    name = _BINARY.get((symbol, floating))
    if name is None:
        raise TypeError(f"'{symbol}' has no meaning for {left.type}")
    attributes = {"fastmath": ir.Attribute.parse(_CONTRACT)} if floating else {}
    return value(name, left.type, [left, right], attributes)


def emit_compare(symbol: str, left: ir.Value, right: ir.Value) -> ir.Value:
    """One comparison of scalars of one type; TypeError when they differ."""
    _check_same_type(symbol, left, right)
    signed, ordered = _COMPARE[symbol]
    if is_float(left.type):
        predicate = getattr(arith.CmpFPredicate, ordered.upper())
        return arith.cmpf(predicate, left, right)
    return arith.cmpi(getattr(arith.CmpIPredicate, signed), left, right)


def _check_same_type(symbol: str, left: ir.Value, right: ir.Value) -> None:
    if left.type != right.type:
        raise TypeError(f"'{symbol}' meets {left.type} and {right.type}; cast one to the other's type")


def negate(operand: ir.Value) -> ir.Value:
    """The negative of a scalar."""
    if is_float(operand.type):
        return value("arith.negf", operand.type, [operand], {"fastmath": ir.Attribute.parse(_CONTRACT)})
    return emit_binary("-", constant(0, operand.type), operand)
