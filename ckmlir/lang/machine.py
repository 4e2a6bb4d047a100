"""Functions that are an instruction of the chip, where Python's operators promise more or have none."""

from __future__ import annotations

from typing import TypeVar

from ckmlir.dialect.build import value
from ckmlir.lang.arithmetic import constant
from ckmlir.lang.trace import TracingError, located
from ckmlir.lang.values import Scalar, Tile
from ckmlir.mlir import ir

Element = TypeVar("Element", Tile, Scalar)


@located
def reciprocal(tile: Element) -> Element:
    """1 / x of an f32 tile or scalar to within one unit in the last place: V_RCP_F32, a tenth of a division's work.

    0 gives infinity, infinity 0; denormals count as 0, and so do results that would be denormal (CDNA3 ISA, V_RCP_F32).
    """

    def apply(element: ir.Value) -> ir.Value:
        if str(element.type) != "f32":
            raise TracingError(f"reciprocal takes f32, not {element.type}; cast first")
        fast = {"fastmath": ir.Attribute.parse("#arith.fastmath<arcp,afn>")}
        return value("arith.divf", element.type, [constant(1.0, element.type), element], fast)

    found: Element = tile._apply(apply)
    return found


@located
def multiply_high(left: Element, right: int | Scalar) -> Element:
    """The upper 32 bits of the 64-bit product of two i32, both taken as unsigned, element by element: V_MUL_HI_U32."""

    def apply(one: ir.Value, other: ir.Value) -> ir.Value:
        if str(one.type) != "i32":
            raise TracingError(f"multiply_high takes i32, not {one.type}")
        wide = ir.IntegerType.get_signless(64)
        factors = [value("arith.extui", wide, [factor]) for factor in (one, other)]
        product = value("arith.muli", wide, factors)
        upper = value("arith.shrui", wide, [product, constant(32, wide)])
        return value("arith.trunci", one.type, [upper])

    found: Element = left._apply(apply, right)
    return found
