"""Arithmetic on scalar IR values: constants, and the operations behind Python's operators."""

from __future__ import annotations

from math import frexp, isfinite, isnan

from ckmlir.dialect import arith
from ckmlir.dialect.build import constant_integer, constant_real, value
from ckmlir.dialect.scalars import bits, element_type, is_float, name_of
from ckmlir.lang.trace import TracingError, current, located
from ckmlir.mlir import ir

Number = int | float
LARGEST = {
    "f16": 65504.0, "bf16": (2 - 2**-7) * 2.0**127, "f32": (2 - 2**-23) * 2.0**127, "f64": (2 - 2**-52) * 2.0**1023,
    "f8E4M3FNUZ": 240.0, "f8E4M3FN": 448.0, "f8E5M2FNUZ": 57344.0, "f8E5M2": 57344.0,
    "f8E8M0FNU": 2.0**127,
}  # fmt: skip
"""The largest finite numbers of the floating-point types."""


def dtype(name: str) -> ir.Type:
    """The element type of a dtype name on the target being traced."""
    return element_type(name, current().target.fp8)


@located
def constant(number: Number | bool, type_: ir.Type) -> ir.Value:
    """A scalar constant; True and False are conditions (i1).

    Raises:
        TracingError: a number with a fraction for an integer type; one that the type cannot hold (an integer may be
            signed or unsigned, infinity and NaN are numbers of floating-point types); True for a number.
    """
    if isinstance(number, bool) and name_of(type_) != "i1":
        raise TracingError(f"{number} meets {type_}: it is a condition, write {int(number)} for the number")
    if is_float(type_):
        rounded = float(number)
        if isfinite(rounded) and abs(rounded) > LARGEST[str(type_)]:
            raise TracingError(f"{number} does not fit into {type_}; the largest is {LARGEST[str(type_)]:g}")
        is_power = rounded >= 2.0**-127 and frexp(rounded)[0] == 0.5
        if name_of(type_) == "f8E8M0FNU" and not (isnan(rounded) or is_power):
            raise TracingError(f"{number} is not an e8m0, which has powers of two from 2^-127 to 2^127, and NaN")
        return constant_real(rounded, type_)
    if not isinstance(number, int):
        raise TracingError(f"{number} meets {type_}; integers are written without a point, or convert with .to(…)")
    width = bits(type_)
    if not -(1 << (width - 1)) <= number < 1 << width:
        raise TracingError(f"{number} does not fit into {type_}")
    wrapped = number - (1 << width) if width > 1 and number >> (width - 1) > 0 else int(number)
    return constant_integer(wrapped, type_)


SIGNED = ("<", "<=", ">", ">=", "//", "%", "maximum", "minimum", ">>")
"""What takes integers as signed."""


def check_constant(symbol: str, number: object, type_: ir.Type, *, divides: bool = True) -> None:
    """Refuse a number whose operation has no result, or another one than it says.

    Args:
        number: one of the operands if it is a Python integer, or anything else.
        type_: that of both operands.
        divides: whether the number is the second operand.

    Raises:
        TracingError: a division by 0; a shift by less than 0 or by the type's bits; a number that only an unsigned
            type can hold, where integers are taken as signed.
    """
    if not isinstance(number, int) or is_float(type_):
        return
    width = bits(type_)
    if divides and symbol in ("//", "%") and number == 0:
        raise TracingError(f"'{symbol}' divides by 0")
    if divides and symbol in ("<<", ">>") and not 0 <= number < width:
        raise TracingError(f"'{symbol}' shifts {type_} by {number}; it shifts by 0 to {width - 1}")
    if symbol in SIGNED and number >= 1 << (width - 1) and width > 1:
        raise TracingError(f"'{symbol}' takes {type_} as signed, and {number} is beyond {(1 << (width - 1)) - 1}")


# (operator, float) -> operation; None where the combination has no meaning.
_BINARY: dict[tuple[str, bool], str] = {
    ("+", True): "arith.addf", ("+", False): "arith.addi", ("-", True): "arith.subf", ("-", False): "arith.subi",
    ("*", True): "arith.mulf", ("*", False): "arith.muli", ("/", True): "arith.divf", ("//", False): "arith.divsi",
    ("%", False): "arith.remsi", ("maximum", True): "arith.maxnumf", ("maximum", False): "arith.maxsi",
    ("minimum", True): "arith.minnumf", ("minimum", False): "arith.minsi", ("&", False): "arith.andi",
    ("minus", True): "arith.subf", ("minus", False): "arith.subi", ("|", False): "arith.ori",
    ("^", False): "arith.xori", ("<<", False): "arith.shli", (">>", False): "arith.shrsi",
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
_ROUNDED = ("minus",)
"""What is never fused with a product among its operands."""


def emit_binary(symbol: str, left: ir.Value, right: ir.Value) -> ir.Value:
    """One arithmetic operation on scalars of one type.

    Raises:
        TracingError: the types differ, or the operation has no meaning for them.
    """
    _check_same_type(symbol, left, right)
    if name_of(left.type) == "i1" and symbol not in ("&", "|", "^"):
        raise TracingError(f"'{symbol}' meets conditions, which are not numbers; where(condition, 1, 0) is one")
    floating = is_float(left.type)
    name = _BINARY.get((symbol, floating))
    if name is None:
        raise TracingError(f"'{symbol}' has no meaning for {left.type}")
    attributes = {"fastmath": ir.Attribute.parse(_CONTRACT)} if floating and symbol not in _ROUNDED else {}
    return value(name, left.type, [left, right], attributes)


def emit_compare(symbol: str, left: ir.Value, right: ir.Value) -> ir.Value:
    """One comparison of scalars of one type; TypeError when they differ."""
    _check_same_type(symbol, left, right)
    if name_of(left.type) == "i1" and symbol not in ("==", "!="):
        raise TracingError(f"'{symbol}' meets conditions, which have no order; join them by & | ^ ~")
    signed, ordered = _COMPARE[symbol]
    if is_float(left.type):
        predicate = getattr(arith.CmpFPredicate, ordered.upper())
        return arith.cmpf(predicate, left, right)
    return arith.cmpi(getattr(arith.CmpIPredicate, signed), left, right)


def _check_same_type(symbol: str, left: ir.Value, right: ir.Value) -> None:
    if left.type != right.type:
        raise TracingError(f"'{symbol}' meets {left.type} and {right.type}; cast one to the other's type")


def emit_float(name: str, operation: str, operand: ir.Value, *, exact: bool = False) -> ir.Value:
    """One function of a floating-point scalar, of any type where it is exact.

    Raises:
        TracingError: the scalar is an integer, or not f32 where results are rounded.
    """
    if not is_float(operand.type) or (not exact and name_of(operand.type) != "f32"):
        wanted = "floating-point numbers" if exact else "f32"
        raise TracingError(f"{name} takes {wanted}, not {operand.type}; cast first")
    return value(operation, operand.type, [operand])


def negate(operand: ir.Value) -> ir.Value:
    """The negative of a scalar."""
    if is_float(operand.type):
        return value("arith.negf", operand.type, [operand], {"fastmath": ir.Attribute.parse(_CONTRACT)})
    return emit_binary("-", constant(0, operand.type), operand)


def emit_below(left: ir.Value, right: ir.Value) -> ir.Value:
    """Whether 0 <= left < right, for integers; TracingError for others."""
    _check_same_type("below", left, right)
    if is_float(left.type):
        raise TracingError(f"below compares integers, not {left.type}")
    return arith.cmpi(arith.CmpIPredicate.ult, left, right)


def magnitude(operand: ir.Value) -> ir.Value:
    """The absolute value of a scalar; of the smallest integer it is that integer."""
    if is_float(operand.type):
        return value("math.absf", operand.type, [operand])
    return emit_binary("maximum", operand, negate(operand))


def invert(operand: ir.Value) -> ir.Value:
    """All bits of an integer, or a condition, turned over; TracingError for other types."""
    if is_float(operand.type):
        raise TracingError(f"'~' has no meaning for {operand.type}")
    return emit_binary("^", operand, constant(-1, operand.type))
