"""Functions of tiles: creation, element-wise mathematics, reductions, LDS and matrix multiplication."""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from ckmlir.dialect import compute, memory, regions
from ckmlir.dialect.build import value
from ckmlir.dialect.distribution import Distribution
from ckmlir.dialect.mma import Mma
from ckmlir.dialect.types import LdsType, TileType, describe
from ckmlir.lang.arithmetic import Number, dtype, emit_binary
from ckmlir.lang.trace import located
from ckmlir.lang.values import Scalar, Tile, as_scalar, build_map, map_elements, operand_value
from ckmlir.lang.views import Window
from ckmlir.mlir import ir


@located
def full(lengths: Sequence[int], number: Number, name: str, distribution: Distribution | None = None) -> Tile:
    """A tile of equal elements of a dtype."""
    return Tile(compute.splat(as_scalar(number, dtype(name)).value, lengths, distribution))


@located
def splat_like(like: Tile, number: Number, name: str) -> Tile:
    """A tile of equal elements of a dtype that lies as another one does."""
    return map_elements(lambda _: as_scalar(number, dtype(name)).value, like)


def zeros(lengths: Sequence[int], name: str, distribution: Distribution | None = None) -> Tile:
    """A tile of zeros."""
    return full(lengths, 0, name, distribution)


@located
def coordinates(like: Tile, axis: int) -> Tile:
    """Each element's own coordinate along an axis (i32), for masks."""
    shape = like.type
    return Tile(compute.coordinates(shape.lengths, shape.distribution, axis))


@located
def cast(tile: Tile, name: str) -> Tile:
    """Converted to a dtype, rounded to nearest even; i8 and 8-bit floats saturate."""
    element = dtype(name)
    return tile if element == tile.element else Tile(compute.cast(tile.value, element))


@located
def where(condition: Tile, yes: Any, no: Any) -> Tile:
    """Element-wise choice; `yes` and `no` may be tiles, also stretched ones, scalars or numbers, at least one of them a
    tile."""
    shape = next((item for item in (yes, no) if isinstance(item, Tile)), None)
    if shape is None:
        raise TypeError("where needs a tile as one of its two values")
    inputs = [condition.value, *(operand_value(item, shape, shape.element) for item in (yes, no))]

    def select(test: ir.Value, left: ir.Value, right: ir.Value) -> ir.Value:
        return value("arith.select", left.type, [test, left, right])

    known = condition if condition.type.distribution is not None else shape
    return Tile(
        build_map(select, inputs, TileType(shape.lengths, shape.element, known.type.distribution), shape.element)
    )


Element = TypeVar("Element", Tile, Scalar)


def _unary(operation: str) -> Callable[[Element], Element]:
    def function(tile: Element) -> Element:
        found: Element = tile._apply(lambda element: value(operation, element.type, [element]))
        return found

    function.__name__ = operation.partition(".")[2]
    function.__doc__ = f"`{operation}` on every element of a tile, or on a scalar."
    return function


exp2 = _unary("math.exp2")
log2 = _unary("math.log2")
sqrt = _unary("math.sqrt")
rsqrt = _unary("math.rsqrt")
absolute = _unary("math.absf")
truncate = _unary("math.trunc")
floor = _unary("math.floor")
ceil = _unary("math.ceil")
round_even = _unary("math.roundeven")


def maximum(left: Any, right: Any) -> Tile:
    """The larger element; a number beats NaN."""
    return map_elements(lambda a, b: emit_binary("maximum", a, b), left, right)


def minimum(left: Any, right: Any) -> Tile:
    """The smaller element; a number beats NaN."""
    return map_elements(lambda a, b: emit_binary("minimum", a, b), left, right)


@located
def reduce(
    tiles: Sequence[Tile], axis: int, combine: Callable[[list[Scalar], list[Scalar]], Sequence[Scalar]]
) -> list[Tile]:
    """Fold one axis of several tiles together with an associative, commutative function of two element tuples."""
    shapes = [tile.type for tile in tiles]
    results = [
        TileType(
            shape.lengths[:axis] + shape.lengths[axis + 1 :],
            shape.element,
            None if shape.distribution is None else shape.distribution.reduce(axis),
        )
        for shape in shapes
    ]
    operation = regions.reduce([tile.value for tile in tiles], axis, results)
    block = operation.regions[0].blocks[0]
    with ir.InsertionPoint(block):
        arguments = [Scalar(argument) for argument in block.arguments]
        regions.end([item.value for item in combine(arguments[: len(tiles)], arguments[len(tiles) :])])
    return [Tile(result) for result in operation.results]


def _fold(symbol: str) -> Callable[[Tile, int], Tile]:
    def combine(left: list[Scalar], right: list[Scalar]) -> list[Scalar]:
        return [Scalar(emit_binary(symbol, left[0].value, right[0].value))]

    def function(tile: Tile, axis: int) -> Tile:
        return reduce([tile], axis, combine)[0]

    function.__doc__ = f"Fold an axis by {symbol}."
    return function


reduce_sum = _fold("+")
reduce_max = _fold("maximum")
reduce_min = _fold("minimum")


class LdsTensor:
    """A tile's contents in LDS."""

    def __init__(self, ir_value: ir.Value) -> None:
        self.value = ir_value

    @located
    def read(self, distribution: Distribution) -> Tile:
        """The tensor as a tile with the distribution asked for."""
        described = describe(self.value.type)
        assert isinstance(described, LdsType)
        return Tile(memory.from_lds(self.value, TileType(described.lengths, described.element, distribution)))


@located
def to_lds(tile: Tile, name: str = "") -> LdsTensor:
    """Put a tile into LDS; its layout there is chosen free of bank conflicts by the compiler.

    `name` is what schedules and reports call the tensor. A schedule may have a loaded tile that is given a name go to
    LDS without passing through registers, or to its reader without passing through LDS.
    """
    return LdsTensor(memory.to_lds(tile.value, name))


@located
def copy_to_lds(window: Window) -> LdsTensor:
    """Copy a window to LDS without passing through registers; what is outside the view becomes zero.

    Rows must be contiguous in memory, in aligned pieces of 4 bytes (gfx950: 16 bytes where possible), and a row must be
    a power of two of them, or a multiple of 64. Readers wait for the copy by themselves; a schedule may run it ahead.
    """
    return LdsTensor(memory.copy_to_lds(window.value))


@located
def mma(instruction: Mma, a: Tile, b: Tile, c: Tile) -> Tile:
    """a (m, k) · b (n, k)ᵀ + c (m, n) by a matrix instruction."""
    return Tile(compute.mma(instruction, a.value, b.value, c.value))


@located
def redistribute(tile: Tile, distribution: Distribution) -> Tile:
    """The same tensor under another distribution."""
    return Tile(compute.redistribute(tile.value, distribution))


@located
def slice_tile(tile: Tile, axis: int, start: int, length: int) -> Tile:
    """Elements [start, start + length) of an axis; the bounds must fall between whole register blocks of the tile."""
    shape = tile.type
    lengths = (*shape.lengths[:axis], length, *shape.lengths[axis + 1 :])
    part = None if shape.distribution is None else shape.distribution.slice(axis, start, length)[0]
    return Tile(compute.slice_tile(tile.value, axis, start, TileType(lengths, shape.element, part)))


@located
def insert_tile(whole: Tile, part: Tile, axis: int, start: int) -> Tile:
    """`whole` with elements from `start` on along an axis replaced by `part`, the counterpart of `slice_tile`."""
    return Tile(compute.insert(part.value, whole.value, axis, start))
