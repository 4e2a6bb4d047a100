"""Tile compute with a region of scalar code: what happens to each element, and how two of them combine."""

from collections.abc import Sequence
from typing import Any

from ckmlir.dialect.build import create, integer, integer_of, value
from ckmlir.dialect.dialect import Ck
from ckmlir.dialect.types import TileType, tile_of
from ckmlir.dialect.verify import expect, verified
from ckmlir.dialect.views import described_as
from ckmlir.mlir import ext, ir

MOST_TILES = 4
"""Tiles that one reduction or scan may take together."""
FOLDS = {"ck.reduce": "a reduction folds", "ck.scan": "a scan takes"}
"""Operations that combine the elements of an axis, in words."""


class ElementOp(Ck.Operation, name="element", traits=[ext.Pure]):
    """`ck.element %tile`: inside a ck.map, the tile's element at the position that is computed."""

    tile: ext.Operand[Any]
    element: ext.Result[Any]

    @staticmethod
    @verified
    def verify_invariants(op: ir.OpView) -> None:
        tile, element = tile_of(op.operation.operands[0]), op.operation.results[0].type
        if element != tile.element:
            raise ValueError(f"an element of {op.operation.operands[0].type} is {tile.element}, not {element}")
        expect(op.operation.parent.name == "ck.map", "stands inside a ck.map")


class MapOp(Ck.Operation, name="map"):
    """`ck.map ({ %x = ck.element %tile; scalar code; ck.yield })`: the region at every position of the result.

    Tiles that it reads have the result's shape and distribution; scalars from outside are the same at every position.
    """

    tile: ext.Result[Any]
    body: ext.Region

    @staticmethod
    @verified
    def verify_invariants(op: ir.OpView) -> None:
        result = described_as(op.operation.results[0].type, TileType)
        block = body_of(op)
        expect(len(block.arguments) == 0, "its region takes no arguments; it reads tiles with ck.element")
        for source in sources_of(op.operation):
            tile = tile_of(source)
            if tile.lengths != result.lengths or not tile.agrees(result):
                types = f"operand {source.type} and result {op.operation.results[0].type}"
                raise ValueError(f"{types} must have one shape and distribution")
        check_yield(block, [result.element])


class ReduceOp(Ck.Operation, name="reduce"):
    """`ck.reduce %tile, … {axis} ({ combine two elements })`: fold one axis away with an associative, commutative
    combiner.

    Up to four tiles fold together (Welford: count, mean, squares): the region takes all left elements, then all right
    ones.
    """

    first: ext.Operand[Any]
    second: ext.Operand[Any] | None
    third: ext.Operand[Any] | None
    fourth: ext.Operand[Any] | None
    first_result: ext.Result[Any]
    second_result: ext.Result[Any] | None
    third_result: ext.Result[Any] | None
    fourth_result: ext.Result[Any] | None
    combiner: ext.Region

    @staticmethod
    @verified
    def verify_invariants(op: ir.OpView) -> None:
        inputs, results, axis = _folded(op)
        for tile, result in zip(inputs, results, strict=True):
            left = tile.lengths[:axis] + tile.lengths[axis + 1 :]
            expect(
                result.lengths == left,
                f"axis {axis} of {list(tile.lengths)} leaves {list(left)}, not {list(result.lengths)}",
            )
            expect(tile.element == result.element, f"reduces {tile.element} to {result.element}; cast first")
        _check_combiner(op, inputs)


class ScanOp(Ck.Operation, name="scan"):
    """`ck.scan %tile, … {axis, identity?} ({ combine two elements })`: every element with all before it along an axis.

    The combiner is associative; what comes first is its left operand. With `identity`, one element for each tile, an
    element is not combined with itself, and the first along the axis is the identity. Up to four tiles go together.
    """

    first: ext.Operand[Any]
    second: ext.Operand[Any] | None
    third: ext.Operand[Any] | None
    fourth: ext.Operand[Any] | None
    first_result: ext.Result[Any]
    second_result: ext.Result[Any] | None
    third_result: ext.Result[Any] | None
    fourth_result: ext.Result[Any] | None
    combiner: ext.Region

    @staticmethod
    @verified
    def verify_invariants(op: ir.OpView) -> None:
        inputs, results, _ = _folded(op)
        for tile, result in zip(inputs, results, strict=True):
            expect(
                (result.lengths, result.element) == (tile.lengths, tile.element) and tile.agrees(result),
                "a scan keeps shape, element type and distribution",
            )
            expect(str(tile.element) != "i1", "scans numbers, not conditions; cast them")
        if "identity" in op.attributes:
            elements = [tile.element for tile in inputs]
            given = [one.type for one in op.attributes["identity"]]
            expect(given == elements, f"the identity is {_listed(elements)}, not {_listed(given)}")
        _check_combiner(op, inputs)


def _folded(op: ir.OpView) -> tuple[list[TileType], list[TileType], int]:
    """The tiles that an operation combines along an axis, its results, and that axis; what holds for any such
    operation is checked.
    """
    axis = integer_of(op, "axis")
    inputs = [tile_of(operand) for operand in op.operation.operands]
    results = [described_as(result.type, TileType) for result in op.operation.results]
    expect(len(inputs) == len(results), f"{len(inputs)} tiles in give as many out, not {len(results)}")
    for tile in inputs:
        rank = len(tile.lengths)
        expect(0 <= axis < rank, f"axis {axis} is not one of the tile's {rank} dimensions")
        alike = tile.lengths == inputs[0].lengths and tile.agrees(inputs[0])
        expect(alike, "its tiles must have one shape and distribution")
    return inputs, results, axis


def _check_combiner(op: ir.OpView, inputs: Sequence[TileType]) -> None:
    """Whether the region combines elements of these tiles, two of each."""
    elements = [tile.element for tile in inputs]
    block = body_of(op)
    arguments = [argument.type for argument in block.arguments]
    expect(arguments == elements * 2, "the combiner takes all left elements, then all right ones")
    check_yield(block, elements)


class YieldOp(Ck.Operation, name="yield", traits=[ir.IsTerminatorTrait]):
    """Ends the scalar code of ck.map, ck.reduce and ck.scan."""

    first: ext.Operand[Any]
    second: ext.Operand[Any] | None
    third: ext.Operand[Any] | None
    fourth: ext.Operand[Any] | None


def sources_of(map_op: ir.Operation) -> list[ir.Value]:
    """The tiles that a ck.map reads, each once, in the order of its code."""
    found = [
        op.operation.operands[0] for op in map_op.regions[0].blocks[0].operations if op.operation.name == "ck.element"
    ]
    return list(dict.fromkeys(found))


def body_of(op: ir.OpView) -> ir.Block:
    """The only block of an operation's region; ValueError when there is another number of them."""
    blocks = list(op.operation.regions[0])
    expect(len(blocks) == 1, f"its region has one block, not {len(blocks)}")
    return blocks[0]


def check_yield(block: ir.Block, types: Sequence[ir.Type]) -> None:
    """Check that a region's block ends in a ck.yield of the given types."""
    last = block.operations[-1].operation if len(block.operations) else None
    expect(last is not None and last.name == "ck.yield", "its region must end in ck.yield")
    assert last is not None
    given = [operand.type for operand in last.operands]
    if given != list(types):
        raise ValueError(f"its region yields {', '.join(map(str, given))} where {', '.join(map(str, types))} is needed")


def element(tile: ir.Value) -> ir.Value:
    """Inside a ck.map: the tile's element at the position that is computed."""
    return value("ck.element", tile_of(tile).element, [tile])


def reduce(tiles: Sequence[ir.Value], axis: int, results: Sequence[TileType]) -> ir.Operation:
    """Append a reduction; its region's block takes the elements and still needs the combiner.

    Raises:
        ValueError: no tile, or more than MOST_TILES.
    """
    return _folding("ck.reduce", tiles, results, {"axis": integer(axis)})


def scan(tiles: Sequence[ir.Value], axis: int, identity: Sequence[ir.Attribute] | None = None) -> ir.Operation:
    """Append a scan; its region's block takes the elements and still needs the combiner.

    Raises:
        ValueError: no tile, or more than MOST_TILES.
    """
    attributes = {"axis": integer(axis)}
    if identity is not None:
        attributes["identity"] = ir.ArrayAttr.get(list(identity))
    return _folding("ck.scan", tiles, [tile_of(tile) for tile in tiles], attributes)


def _folding(
    name: str, tiles: Sequence[ir.Value], results: Sequence[TileType], attributes: dict[str, ir.Attribute]
) -> ir.Operation:
    if not 1 <= len(tiles) <= MOST_TILES:
        raise ValueError(f"{FOLDS[name]} 1 to {MOST_TILES} tiles together, not {len(tiles)}")
    groups = segments(len(tiles))
    attributes = {**attributes, "operandSegmentSizes": groups, "resultSegmentSizes": groups}
    operation = create(name, [result.mlir() for result in results], tiles, attributes, regions=1)
    elements = [tile_of(tile).element for tile in tiles] * 2
    operation.regions[0].blocks.append(*elements, arg_locs=[operation.location] * len(elements))
    return operation


def _listed(types: Sequence[ir.Type]) -> str:
    return ", ".join(map(str, types)) or "nothing"


def segments(count: int) -> ir.Attribute:
    """Segment sizes of `count` values in MOST_TILES optional places."""
    return ir.DenseI32ArrayAttr.get([int(place < count) for place in range(MOST_TILES)])


def end(values: Sequence[ir.Value]) -> None:
    """Terminate a region of scalar code."""
    create("ck.yield", [], values, {"operandSegmentSizes": segments(len(values))})
