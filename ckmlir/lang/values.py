"""Traced values: run-time scalars, pointers and tiles with Python's operators."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import gcd
from numbers import Integral, Real
from typing import Any

from ckmlir.diagnostics import position_of
from ckmlir.dialect import compute, regions
from ckmlir.dialect.anew import SCALARS
from ckmlir.dialect.anew import anew as taken_anew
from ckmlir.dialect.build import create, value
from ckmlir.dialect.divisors import constant_of
from ckmlir.dialect.held import held as taken_held
from ckmlir.dialect.promise import promise
from ckmlir.dialect.scalars import bits, is_float, name_of
from ckmlir.dialect.types import TileType, is_tile, tile_of
from ckmlir.given import described
from ckmlir.lang.arithmetic import constant, dtype
from ckmlir.lang.operators import Operators
from ckmlir.lang.trace import Traced, TracingError, current, located
from ckmlir.mlir import ir


class Scalar(Traced, Operators):
    """A uniform run-time scalar: i32, i64 or f32."""

    @property
    def multiple(self) -> int:
        """What it is known to be divisible by, from how it is computed and what was promised; 0 if it is always 0."""
        return current().divisors.of(self.value)

    @located
    def multiple_of(self, divisor: int) -> Scalar:
        """The same scalar with a promise of the caller's: it is divisible by `divisor`.

        What follows from arithmetic, loops and earlier promises need not be promised. A promise makes accesses wider
        and comparisons unnecessary; it costs nothing, and one that is not kept gives wrong numbers. A checked run finds
        it (checker `promise`).

        Raises:
            TracingError: a divisor below 1, a constant that it does not divide, or a scalar that is not an integer.
        """
        if divisor < 1:
            raise TracingError(f"multiple_of({divisor}): a divisor is at least 1")
        if name_of(self.type) not in ("i32", "i64"):
            raise TracingError(f"multiple_of is said of i32 and i64, not of {self.type}")
        number = constant_of(self.value)
        if number is not None and number % divisor:
            raise TracingError(f"{number} is not a multiple of {divisor}")
        return self if self.multiple % divisor == 0 else Scalar(promise(self.value, divisor))

    @located
    def anew(self) -> Scalar:
        """The same scalar, from which a loop computes again in each iteration what it needs.

        LLVM would compute before a loop what does not change in it, and keep each result in a register of its own. That
        is quicker, unless there are none left.

        Raises:
            TracingError: of a condition.
        """
        if name_of(self.type) not in SCALARS:
            raise TracingError(f"anew is for {', '.join(SCALARS)}, not for a condition")
        return Scalar(taken_anew(self.value))

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
    def select(self, yes: Scalar | int | float, no: Scalar | int | float) -> Scalar:
        """One of two scalars of a type by this condition (a comparison's result), as in the combiner of a `reduce`.

        One of the two may be a number.
        """
        if name_of(self.type) != "i1":
            raise TracingError(f"select is a condition's, such as (a < b).select(a, b), not of a scalar of {self.type}")
        type_ = yes.type if isinstance(yes, Scalar) else no.type if isinstance(no, Scalar) else None
        if type_ is None:
            raise TracingError(f"select of {yes} and {no}: one of them has to be a scalar, which says the type")
        chosen = [as_scalar(item, type_).value for item in (yes, no)]
        return Scalar(value("arith.select", type_, [self.value, *chosen]))

    @located
    def to(self, name: str) -> Scalar:
        """Converted to i32 or i64 (sign extended), from integers to f32 or f64, from one of these to the other; a
        condition that holds is 1.
        """
        target = dtype(name)
        if target == self.type:
            return self
        if name not in ("i32", "i64", "f32", "f64"):
            raise TracingError(f"a scalar of {self.type} does not become {name}: scalars are i32, i64, f32 or f64")
        if name_of(self.type) == "i1":
            return Scalar(value("arith.uitofp" if is_float(target) else "arith.extui", target, [self.value]))
        if is_float(target) and not is_float(self.type):
            return Scalar(value("arith.sitofp", target, [self.value]))
        if {name, name_of(self.type)} == {"f32", "f64"}:
            return Scalar(value("arith.extf" if name == "f64" else "arith.truncf", target, [self.value]))
        if not is_float(target) and not is_float(self.type):
            return Scalar(
                value("arith.extsi" if bits(target) > bits(self.type) else "arith.trunci", target, [self.value])
            )
        raise TracingError(f"a scalar of {self.type} does not become {name}")

    def __repr__(self) -> str:
        return f"Scalar({self.type})" if self.is_current else "Scalar(of another kernel)"


class Pointer(Traced):
    """A pointer into global memory: the type of the elements it points to, and its alignment in bytes."""

    def __init__(self, ir_value: ir.Value, element: ir.Type, alignment: int) -> None:
        super().__init__(ir_value)
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
    def aligned(self, alignment: int) -> Pointer:
        """The same pointer with a promise of the caller's: it is aligned to so many bytes. A checked run tests it."""
        if alignment < 1:
            raise TracingError(f"aligned({alignment}): a pointer is aligned to 1 byte at least")
        if self.alignment % alignment == 0:  # less is promised than is known
            return Pointer(self.value, self.element, alignment)
        return Pointer(promise(self.value, alignment), self.element, alignment)

    @located
    def held(self) -> Pointer:
        """The same pointer, computed here and kept in two scalar registers. Else LLVM computes it where it is used, and
        keeps all that it is computed of until then.
        """
        return Pointer(taken_held(self.value), self.element, self.alignment)

    @located
    def to(self, name: str) -> Pointer:
        """The same place as a pointer to elements of another type: for tables whose entries differ."""
        return Pointer(self.value, dtype(name), self.alignment)

    @located
    def scalar(self, index: Scalar | int) -> Scalar:
        """The element at an index, the same for the whole workgroup: a length or an offset that memory holds.

        It is read where it stands, once, and must not be written by the kernel.

        Raises:
            TracingError: the pointer is not to i32, i64, f32 or f64, or the index is a negative number.
        """
        if isinstance(index, int) and index < 0:
            raise TracingError(f"index {index}: elements are counted from 0; .offset({index}) moves the pointer")
        if str(self.element) not in ("i32", "i64", "f32", "f64"):
            raise TracingError(f"scalars are i32, i64, f32 or f64; the pointer is to {self.element}")
        attributes = {
            "alignment": ir.IntegerAttr.get(ir.IntegerType.get_signless(64), bits(self.element) // 8),
            "invariant": ir.UnitAttr.get(),
        }
        return Scalar(value("llvm.load", self.element, [self.offset(index).value], attributes))

    @located
    def pointer(self, index: Scalar | int, name: str, *, alignment: int = 16) -> Pointer:
        """The pointer that memory holds at an index, the same for the whole workgroup: one of several arrays.

        It is read like `scalar`. The caller promises its alignment, in bytes.

        Raises:
            TracingError: this pointer is not to i64, which addresses are kept as.
        """
        if str(self.element) != "i64":
            raise TracingError(f"addresses are kept as i64; the pointer is to {self.element}")
        address = self.scalar(index).multiple_of(alignment).value
        return Pointer(value("llvm.inttoptr", self.value.type, [address]), dtype(name), alignment)


def storage_type(element: ir.Type) -> ir.Type:
    """The type that LLVM uses for an element in memory: 8-bit floats are i8."""
    return ir.IntegerType.get_signless(8) if str(element).startswith("f8") else element


def as_scalar(number: Any, type_: ir.Type) -> Scalar:
    """A scalar of the given type from a Python number or a scalar of that type."""
    if isinstance(number, Scalar):
        if number.type != type_:
            raise TracingError(f"a scalar of {number.type} meets {type_}; convert one with .to(…)")
        return number
    if isinstance(number, (int, float)):
        return Scalar(constant(number, type_))
    if isinstance(number, Real):  # one of NumPy's
        return Scalar(constant(int(number) if isinstance(number, Integral) else float(number), type_))
    raise TracingError(f"expected a number or a scalar, got {described(number)}")


class Tile(Traced, Operators):
    """A tile: a tensor of static lengths spread over the workgroup's registers."""

    _type: TileType | None = None

    @property
    def type(self) -> TileType:
        """Lengths, element type and distribution."""
        value = self.value  # refused outside the tile's kernel
        if self._type is None:
            self._type = tile_of(value)
        return self._type

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
            raise TracingError(f"a tile is indexed by ':' for each of its {len(self.lengths)} dimensions and one None")
        return Stretched(self, axes[0])

    def __repr__(self) -> str:
        return f"Tile({self.value.type})" if self.is_current else "Tile(of another kernel)"


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
            raise TracingError(f"a tile of {list(mine)} with a new axis {self.axis} does not fit {list(lengths)}")
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
        raise TracingError("an element-wise operation needs at least one whole tile to take its shape from")
    shape = max(tiles, key=lambda tile: tile.type.distribution is not None)
    check_same_shape(tiles)
    element = next(operand.element for operand in operands if isinstance(operand, (Tile, Stretched)))
    inputs = [operand_value(operand, shape, element) for operand in operands]
    return Tile(build_map(function, inputs, shape.type, result))


def check_same_shape(tiles: Sequence[Tile]) -> None:
    """Whether tiles can meet element by element.

    Raises:
        TracingError: their lengths differ, or where they are known to lie; the notes say where each was made.
    """
    shape = max(tiles, key=lambda tile: tile.type.distribution is not None)
    for tile in tiles:
        if tile.lengths != shape.lengths:
            raise TracingError(
                f"tiles of {list(shape.lengths)} and {list(tile.lengths)} do not meet element by element; "
                "a new axis (tile[:, None]) repeats one along another"
            )
        if not tile.type.agrees(shape.type):
            raise TracingError(
                f"tiles that lie as '{shape.type.distribution}' and as '{tile.type.distribution}' do not meet element "
                "by element; redistribute one of them",
                notes=[
                    (f"the {which} one is made here", position_of(one.value.location))
                    for which, one in (("first", shape), ("other", tile))
                ],
            )


def operand_value(operand: Any, shape: Tile, element: ir.Type) -> ir.Value:
    """What an element-wise operation reads for an operand: a tile of the shape, or a scalar; numbers get a type."""
    if isinstance(operand, Stretched):
        return operand.against(shape).value
    if isinstance(operand, (Tile, Scalar)):
        return operand.value
    return as_scalar(operand, element).value


def build_map(
    function: Callable[..., ir.Value], inputs: Sequence[ir.Value], shape: TileType, result: ir.Type | None = None
) -> ir.Value:
    """Append a ck.map of tiles and scalars; the element type of the result is the function's unless given."""
    guess = result or next(tile_of(item).element for item in inputs if is_tile(item.type))
    operation = create("ck.map", [TileType(shape.lengths, guess, shape.distribution).mlir()], [], regions=1)
    block = operation.regions[0].blocks.append()
    try:
        with ir.InsertionPoint(block):
            outcome = function(*(regions.element(item) if is_tile(item.type) else item for item in inputs))
            regions.end([outcome])
    except BaseException:
        operation.erase()  # what was refused leaves nothing behind, if the user goes on
        raise
    if outcome.type != guess:
        operation.results[0].set_type(TileType(shape.lengths, outcome.type, shape.distribution).mlir())
    return operation.results[0]
