"""Reductions and scans: the elements of an axis combined by a function of the author's."""

from collections.abc import Callable, Sequence
from typing import Any

from ckmlir.dialect import regions
from ckmlir.dialect.scalars import bits, is_float
from ckmlir.dialect.types import TileType
from ckmlir.given import described
from ckmlir.lang.arithmetic import Number, constant, emit_binary
from ckmlir.lang.trace import TracingError, located
from ckmlir.lang.values import Scalar, Tile, as_scalar, check_same_shape
from ckmlir.mlir import ir

Combine = Callable[[list[Scalar], list[Scalar]], Sequence[Scalar]]


@located
def reduce(
    tiles: Sequence[Tile], axis: int, combine: Callable[[list[Scalar], list[Scalar]], Sequence[Scalar]]
) -> list[Tile]:
    """Fold one axis of several tiles together with an associative, commutative function of two element tuples.

    Raises:
        TracingError: no tile or more than four, of different lengths, or of a single dimension; or the function does
            not give an element for each of them.
    """
    shapes = [tile.type for tile in tiles]
    if any(len(shape.lengths) == 1 for shape in shapes):
        raise TracingError(
            "a reduction leaves at least one dimension, and this tile has no other: stretch(tile, 0, 1) gives it one"
        )
    if tiles:
        check_same_shape(tiles)
    results = [
        TileType(
            shape.lengths[:axis] + shape.lengths[axis + 1 :],
            shape.element,
            None if shape.distribution is None else shape.distribution.reduce(axis),
        )
        for shape in shapes
    ]
    operation = regions.reduce([tile.value for tile in tiles], axis, results)
    return _with_combiner(operation, "a reduction", combine, [shape.element for shape in shapes])


@located
def scan(
    tiles: Sequence[Tile],
    axis: int,
    combine: Callable[[list[Scalar], list[Scalar]], Sequence[Scalar]],
    *,
    exclusive: Sequence[int | float] | None = None,
) -> list[Tile]:
    """Every element of an axis combined with all before it, several tiles together, by an associative function.

    The function's first tuple is what comes first; it need not be commutative. With `exclusive`, an identity of the
    function for each tile, an element is not combined with itself: the first becomes the identity, the second what the
    first was. Floating-point numbers are added in an order that depends on where the elements lie.

    Raises:
        TracingError: no tile or more than four, of different lengths, or of conditions; or the function does not give
            an element for each of them; or not an identity for each.
    """
    if tiles:
        check_same_shape(tiles)
    elements = [tile.element for tile in tiles]
    if any(str(element) == "i1" for element in elements):
        raise TracingError("a scan combines numbers, not conditions: cast(tile, 'i32') makes numbers of them")
    if exclusive is not None and len(exclusive) != len(tiles):
        raise TracingError(f"exclusive has an identity for each of {len(tiles)} tiles, not {len(exclusive)}")
    identity = None
    if exclusive is not None:
        identity = [_attribute(number, element) for number, element in zip(exclusive, elements, strict=True)]
    operation = regions.scan([tile.value for tile in tiles], axis, identity)
    return _with_combiner(operation, "a scan", combine, elements)


def _with_combiner(operation: ir.Operation, what: str, combine: Combine, elements: list[ir.Type]) -> list[Tile]:
    """The results of a reduction or scan, once its region holds what the author's function does."""
    block = operation.regions[0].blocks[0]
    try:
        with ir.InsertionPoint(block):
            arguments = [Scalar(argument) for argument in block.arguments]
            found = combine(arguments[: len(elements)], arguments[len(elements) :])
            regions.end(_combined(what, found, elements))
    except BaseException:
        operation.erase()
        raise
    return [Tile(result) for result in operation.results]


def _combined(what: str, found: Any, elements: list[ir.Type]) -> list[ir.Value]:
    """What the function of a reduction or scan gives, one element for each tile."""
    check_scalar_code(what)
    count = f"{len(elements)} element{'s' if len(elements) > 1 else ''}"
    if not isinstance(found, (list, tuple)):
        raise TracingError(f"the function of {what} gives a list of {count}, not {described(found)}")
    if len(found) != len(elements):
        raise TracingError(f"the function of {what} gives {count}, one for each tile, not {len(found)}")
    return [as_scalar(item, element).value for item, element in zip(found, elements)]


def check_scalar_code(what: str) -> None:
    """Refuse operations in the block that is being written that are none of elements: it is `what`'s function."""
    for op in ir.InsertionPoint.current.block.operations:
        if not op.operation.name.startswith(("arith.", "math.", "ck.element")):
            raise TracingError(
                f"the function of {what} computes with elements only, by operators, select and functions such as "
                f"exp2; '{op.operation.name}' belongs outside"
            )


def _attribute(number: Number, element: ir.Type) -> ir.Attribute:
    """A number as an attribute of an element type; what does not fit is refused as a constant is."""
    made = constant(number, element).owner
    attribute: ir.Attribute = made.attributes["value"]
    made.erase()
    return attribute


def _folding(symbol: str) -> Combine:
    def combine(left: list[Scalar], right: list[Scalar]) -> list[Scalar]:
        return [Scalar(emit_binary(symbol, left[0].value, right[0].value))]

    return combine


def _fold(name: str, symbol: str) -> Callable[[Tile, int], Tile]:
    combine = _folding(symbol)

    def function(tile: Tile, axis: int) -> Tile:
        return reduce([tile], axis, combine)[0]

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"Fold an axis by {symbol}."
    return located(function)


reduce_sum = _fold("reduce_sum", "+")
reduce_max = _fold("reduce_max", "maximum")
reduce_min = _fold("reduce_min", "minimum")


@located
def scan_sum(tile: Tile, axis: int, *, exclusive: bool = False) -> Tile:
    """The sum of every element and all before it along an axis; `exclusive`: only of those before it."""
    return scan([tile], axis, _folding("+"), exclusive=[0] if exclusive else None)[0]


@located
def scan_max(tile: Tile, axis: int, *, exclusive: bool = False) -> Tile:
    """The largest of every element and all before it along an axis; `exclusive`: only of those before it.

    The first of these is the smallest number of the type, minus infinity for floats. A number beats NaN.
    """
    least = [_smallest(tile.element)] if exclusive else None
    return scan([tile], axis, _folding("maximum"), exclusive=least)[0]


def _smallest(element: ir.Type) -> int | float:
    return float("-inf") if is_float(element) else -(1 << (bits(element) - 1))
