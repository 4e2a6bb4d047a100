"""Traced values: run-time scalars, pointers and tiles with Python's operators."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import gcd
from typing import Any

from ckmlir.dialect import compute, regions
from ckmlir.dialect.build import create, value
from ckmlir.dialect.scalars import bits, is_float
from ckmlir.dialect.types import TileType, is_tile, tile_of
from ckmlir.lang.arithmetic import constant, dtype
from ckmlir.lang.operators import Operators
from ckmlir.lang.trace import located
from ckmlir.mlir import ir


class Scalar(Operators):
    """A uniform run-time scalar: i32, i64 or f32; `multiple` is what an i32 is known to be divisible by."""

    def __init__(self, ir_value: ir.Value, multiple: int = 1) -> None:
        self.value = ir_value
        self.multiple = multiple

    def multiple_of(self, divisor: int) -> Scalar:
        """The same scalar with a promise of the caller's: it is divisible by `divisor`."""
        return Scalar(self.value, max(divisor, 1))

    @property
    def type(self) -> ir.Type:
        """The MLIR type."""
        return self.value.type

    @located
    def _apply(self, function: Callable[..., ir.Value], *others: Any) -> Any:
        if any(isinstance(other, Tile) for other in others):
            return map_elements(function, self, *others)
        return Scalar(function(self.value, *(as_scalar(other, self.type).value for other in others)))

    @located
    def select(self, yes: Scalar, no: Scalar) -> Scalar:
        """One of two scalars of a type by this condition (a comparison's result), as in the combiner of a `reduce`."""
        if yes.type != no.type:
            raise TypeError(f"select meets {yes.type} and {no.type}; convert one to the other's type")
        return Scalar(value("arith.select", yes.type, [self.value, yes.value, no.value]))

    @located
    def to(self, name: str) -> Scalar:
        """Converted to i32, i64 (sign extended) or f32 (from i32)."""
        target = dtype(name)
        if target == self.type:
            return self
        if is_float(target) and not is_float(self.type):
            return Scalar(value("arith.sitofp", target, [self.value]))
        if not is_float(target) and not is_float(self.type):
            return Scalar(
                value("arith.extsi" if bits(target) > bits(self.type) else "arith.trunci", target, [self.value])
            )
        raise TypeError(f"a scalar of {self.type} does not become {name}")

    def __repr__(self) -> str:
        return f"Scalar({self.type})"


class Pointer:
    """A pointer into global memory: the type of the elements it points to, and its alignment in bytes."""

    def __init__(self, ir_value: ir.Value, element: ir.Type, alignment: int) -> None:
        self.value = ir_value
        self.element = element
        self.alignment = alignment

    @located
    def offset(self, elements: Scalar | int) -> Pointer:
        """The pointer some elements further on; the arithmetic is 64 bits wide."""
        i64 = ir.IntegerType.get_signless(64)
        wide = as_scalar(elements, i64) if isinstance(elements, int) else elements.to("i64")
        dynamic = ir.DenseI32ArrayAttr.get([-2147483648])
        step = value(
            "llvm.getelementptr",
            self.value.type,
            [self.value, wide.value],
            {"rawConstantIndices": dynamic, "elem_type": ir.TypeAttr.get(storage_type(self.element))},
        )
        known = abs(elements) if isinstance(elements, int) else elements.multiple
        return Pointer(step, self.element, gcd(self.alignment, known * bits(self.element) // 8))

    @located
    def scalar(self, index: Scalar | int) -> Scalar:
        """The element at an index, the same for the whole workgroup: a length or an offset that memory holds.

        It is read where it stands, once, and must not be written by the kernel.

        Raises:
            TypeError: the pointer is not to i32, i64 or f32.
        """
        if str(self.element) not in ("i32", "i64", "f32"):
            raise TypeError(f"scalars are i32, i64 or f32; the pointer is to {self.element}")
        attributes = {
            "alignment": ir.IntegerAttr.get(ir.IntegerType.get_signless(64), bits(self.element) // 8),
            "invariant": ir.UnitAttr.get(),
        }
        return Scalar(value("llvm.load", self.element, [self.offset(index).value], attributes))


def storage_type(element: ir.Type) -> ir.Type:
    """The type that LLVM uses for an element in memory: 8-bit floats are i8."""
    return ir.IntegerType.get_signless(8) if str(element).startswith("f8") else element


def as_scalar(number: Any, type_: ir.Type) -> Scalar:
    """A scalar of the given type from a Python number or a scalar of that type."""
    if isinstance(number, Scalar):
        if number.type != type_:
            raise TypeError(f"a scalar of {number.type} meets {type_}; convert one with .to(…)")
        return number
    if isinstance(number, (int, float)):
        return Scalar(constant(number, type_))
    raise TypeError(f"expected a number or a scalar, got {type(number).__name__}")


class Tile(Operators):
    """A tile: a tensor of static lengths spread over the workgroup's registers."""

    def __init__(self, ir_value: ir.Value) -> None:
        self.value = ir_value

    @property
    def type(self) -> TileType:
        """Lengths, element type and distribution."""
        return tile_of(self.value)

    @property
    def element(self) -> ir.Type:
        """The element type."""
        return self.type.element

    @property
    def lengths(self) -> tuple[int, ...]:
        """The tensor's lengths."""
        return self.type.lengths

    def _apply(self, function: Callable[..., ir.Value], *others: Any) -> Any:
        return map_elements(function, self, *others)

    def __getitem__(self, index: Any) -> Stretched:
        """`row[:, None]`: a new axis; it is broadcast against what the tile meets."""
        parts = index if isinstance(index, tuple) else (index,)
        axes = [position for position, part in enumerate(parts) if part is None]
        others = [part for part in parts if part is not None]
        if len(axes) != 1 or any(part != slice(None) for part in others) or len(others) != len(self.lengths):
            raise TypeError(f"a tile is indexed by ':' for each of its {len(self.lengths)} dimensions and one None")
        return Stretched(self, axes[0])

    def __repr__(self) -> str:
        return f"Tile({self.value.type})"


class Stretched(Operators):
    """A tile with a new axis that takes its length from the tile it meets (`row[:, None]`)."""

    def __init__(self, tile: Tile, axis: int) -> None:
        self.tile = tile
        self.axis = axis

    @property
    def element(self) -> ir.Type:
        """The element type."""
        return self.tile.element

    def against(self, other: Tile) -> Tile:
        """Broadcast to the other tile's shape."""
        lengths, mine = other.lengths, self.tile.lengths
        if lengths[: self.axis] + lengths[self.axis + 1 :] != mine:
            raise ValueError(f"a tile of {list(mine)} with a new axis {self.axis} does not fit {list(lengths)}")
        return Tile(
            compute.broadcast(self.tile.value, self.axis, TileType(lengths, self.element, other.type.distribution))
        )

    def _apply(self, function: Callable[..., ir.Value], *others: Any) -> Any:
        return map_elements(function, self, *others)


@located
def map_elements(function: Callable[..., ir.Value], *operands: Any, result: ir.Type | None = None) -> Tile:
    """Apply a function of scalar IR values to every element; numbers and scalars are broadcast."""
    tiles = [operand for operand in operands if isinstance(operand, Tile)]
    if not tiles:
        raise TypeError("an element-wise operation needs at least one whole tile to take its shape from")
    shape = max(tiles, key=lambda tile: tile.type.distribution is not None)
    different = [tile for tile in tiles if tile.lengths != shape.lengths]
    if different:
        raise ValueError(
            f"tiles of {list(shape.lengths)} and {list(different[0].lengths)} do not meet element by element; "
            "a new axis (tile[:, None]) repeats one along another"
        )
    element = next(operand.element for operand in operands if isinstance(operand, (Tile, Stretched)))
    inputs = [operand_value(operand, shape, element) for operand in operands]
    return Tile(build_map(function, inputs, shape.type, result))


def operand_value(operand: Any, shape: Tile, element: ir.Type) -> ir.Value:
    """What an element-wise operation reads for an operand: a tile of the shape, or a scalar; numbers get a type."""
    if isinstance(operand, Stretched):
        return operand.against(shape).value
    if isinstance(operand, Tile):
        return operand.value
    if isinstance(operand, Scalar):
        return operand.value
    return as_scalar(operand, element).value


def build_map(
    function: Callable[..., ir.Value], inputs: Sequence[ir.Value], shape: TileType, result: ir.Type | None = None
) -> ir.Value:
    """Append a ck.map of tiles and scalars; the element type of the result is the function's unless given."""
    guess = result or next(tile_of(item).element for item in inputs if is_tile(item.type))
    operation = create("ck.map", [TileType(shape.lengths, guess, shape.distribution).mlir()], [], regions=1)
    block = operation.regions[0].blocks.append()
    with ir.InsertionPoint(block):
        outcome = function(*(regions.element(item) if is_tile(item.type) else item for item in inputs))
        regions.end([outcome])
    if outcome.type != guess:
        operation.results[0].set_type(TileType(shape.lengths, outcome.type, shape.distribution).mlir())
    return operation.results[0]
