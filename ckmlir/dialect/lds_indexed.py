"""LDS by run-time indices: tiles and fragments whose coordinate along one axis each element brings along.

An LDS tensor begins with a tile (`ck.to_lds`) and may then be changed in place. Changes take effect in the order of the
program, those of one operation in no particular order among each other. An index outside of the tensor reads zero and
changes nothing.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from ckmlir.dialect import memory
from ckmlir.dialect.build import create, integer, integer_of, registers, registers_of, string, text_of, value
from ckmlir.dialect.dialect import Ck
from ckmlir.dialect.distribution import Distribution
from ckmlir.dialect.fragment import placed, vector_type
from ckmlir.dialect.fragment_checks import check_before, check_contiguous, check_fragment, check_indexed
from ckmlir.dialect.types import LdsType, TileType, tile_of
from ckmlir.dialect.verify import expect, verified
from ckmlir.dialect.views import described_as
from ckmlir.mlir import ext, ir

KINDS = ("store", "add", "max")
"""What an update does with an element: it replaces it, is added to it, or replaces what is smaller."""
ATOMIC = {"add": ("i32", "f32"), "max": ("i32", "f32")}
"""The element types that LDS adds and compares by itself on every chip."""
FOLLOWS = "follows"
"""Unit attribute of an update's fragment: another one of the same operation stands before it, in no order to it."""


class LdsGatherOp(Ck.Operation, name="lds_gather"):
    """`ck.lds_gather %lds, %indices {axis} -> tile`: entry i along the axis is read at `indices[i]`."""

    lds: ext.Operand[Any]
    indices: ext.Operand[Any]
    tile: ext.Result[Any]

    @staticmethod
    @verified
    def verify_invariants(op: ir.OpView) -> None:
        lds, indices = op.operation.operands
        _check_tiles(op, lds, described_as(op.operation.results[0].type, TileType), tile_of(indices))


class LdsUpdateOp(Ck.Operation, name="lds_update"):
    """`ck.lds_update %tile, %lds, %indices {axis, kind} -> tile?`: entry i along the axis changes the tensor at
    `indices[i]`. The result, of kinds that LDS combines by itself, is what was there before; zero outside.
    """

    tile: ext.Operand[Any]
    lds: ext.Operand[Any]
    indices: ext.Operand[Any]
    before: ext.Result[Any] | None

    @staticmethod
    @verified
    def verify_invariants(op: ir.OpView) -> None:
        tile, lds, indices = op.operation.operands
        _check_tiles(op, lds, tile_of(tile), tile_of(indices))
        _check_kind(op, tile_of(tile).element)
        memory.check_before(op, tile.type)


class LdsGatherFragmentOp(Ck.Operation, name="lds_gather_fragment"):
    """`ck.lds_gather_fragment %lds, %index {axis, distribution, registers} -> vector`: one read of every thread."""

    lds: ext.Operand[Any]
    index: ext.Operand[Any]
    fragment: ext.Result[Any]

    @staticmethod
    @verified
    def verify_invariants(op: ir.OpView) -> None:
        lds, index = op.operation.operands
        _check_access(op, lds, op.operation.results[0].type, index)


class LdsUpdateFragmentOp(Ck.Operation, name="lds_update_fragment"):
    """`ck.lds_update_fragment %vector, %lds, %index {axis, kind, distribution, registers, follows?} -> vector?`: one
    change by every thread; the result is what was there before.
    """

    fragment: ext.Operand[Any]
    lds: ext.Operand[Any]
    index: ext.Operand[Any]
    before: ext.Result[Any] | None

    @staticmethod
    @verified
    def verify_invariants(op: ir.OpView) -> None:
        fragment, lds, index = op.operation.operands
        _check_access(op, lds, fragment.type, index)
        _check_kind(op, fragment.type.element_type)
        if text_of(op, "kind") in ATOMIC:
            count = len(registers_of(op))
            expect(count == 1, f"LDS changes one element of a lane at a time atomically, not {count}")
        check_before(op, fragment.type)


def _check_tiles(op: ir.OpView, lds: ir.Value, tile: TileType, indices: TileType) -> None:
    tensor, axis = described_as(lds.type, LdsType), integer_of(op, "axis")
    expect(0 <= axis < len(tile.lengths), f"axis {axis} is not one of the tile's {len(tile.lengths)} dimensions")
    _check_others(tensor, tile.lengths, axis)
    expect(tile.element == tensor.element, f"the LDS tensor holds {tensor.element}, the tile {tile.element}")
    expect(
        indices.lengths == (tile.lengths[axis],),
        f"axis {axis} has {tile.lengths[axis]} entries and takes as many indices, not {list(indices.lengths)}",
    )
    expect(str(indices.element) == "i32", f"indices are i32, not {indices.element}")
    if tile.distribution is not None and indices.distribution is not None:
        wanted = tile.distribution.along(axis)
        expect(
            indices.distribution == wanted,
            f"indices for axis {axis} of '{tile.distribution}' lie as '{wanted}', not '{indices.distribution}'",
        )


def _check_access(op: ir.OpView, lds: ir.Value, vector: ir.Type, index: ir.Value) -> None:
    tensor, axis = described_as(lds.type, LdsType), integer_of(op, "axis")
    lengths = Distribution.parse(text_of(op, "distribution")).lengths
    along = check_fragment(op, vector, lengths, tensor.element)
    check_indexed(op, index, along)
    _check_others(tensor, lengths, axis)
    check_contiguous(lds, along, len(registers_of(op)))


def _check_others(tensor: LdsType, lengths: tuple[int, ...], axis: int) -> None:
    """Along all dimensions but the axis a tile has the tensor's lengths."""
    others = tensor.lengths[:axis] + tensor.lengths[axis + 1 :]
    expect(
        len(lengths) == len(tensor.lengths) and lengths[:axis] + lengths[axis + 1 :] == others,
        f"the LDS tensor is {list(tensor.lengths)}, the tile {list(lengths)}; they may differ along axis {axis} only",
    )


def _check_kind(op: ir.OpView, element: ir.Type) -> None:
    kind = text_of(op, "kind")
    expect(kind in KINDS, f"kind '{kind}' is not one of {', '.join(KINDS)}")
    able = ATOMIC.get(kind)
    expect(
        able is None or str(element) in able,
        f"LDS has no atomic {kind} of {element} on every chip; there are those of {', '.join(able or ())}",
    )
    expect(
        able is not None or not len(op.operation.results),
        f"a {kind} into LDS gives nothing back; kinds that give what was there before are {', '.join(ATOMIC)}",
    )


def lds_gather(lds: ir.Value, indices: ir.Value, axis: int, tile: TileType) -> ir.Value:
    """Read an LDS tensor as a tile of the given type, the coordinate along an axis taken from an i32 tile."""
    return value("ck.lds_gather", tile.mlir(), [lds, indices], {"axis": integer(axis)})


def lds_update(tile: ir.Value, lds: ir.Value, indices: ir.Value, axis: int, kind: str) -> None:
    """Change an LDS tensor by a tile, the coordinate along an axis taken from an i32 tile; `kind` is one of KINDS."""
    create("ck.lds_update", [], [tile, lds, indices], {"axis": integer(axis), "kind": string(kind)})


def lds_fetch(tile: ir.Value, lds: ir.Value, indices: ir.Value, axis: int, kind: str) -> ir.Value:
    """`lds_update`, and what the tensor held before; `kind` is one of ATOMIC."""
    return value("ck.lds_update", tile.type, [tile, lds, indices], {"axis": integer(axis), "kind": string(kind)})


def lds_gather_fragment(
    lds: ir.Value, index: ir.Value, axis: int, distribution: ir.Attribute, numbers: Sequence[int], element: ir.Type
) -> ir.Value:
    """One read of every thread, at its own index along an axis."""
    attributes = {"axis": integer(axis), **placed(distribution, numbers)}
    return value("ck.lds_gather_fragment", vector_type(len(numbers), element), [lds, index], attributes)


def lds_update_fragment(
    vector: ir.Value,
    lds: ir.Value,
    index: ir.Value,
    where: Mapping[str, ir.Attribute],
    numbers: Sequence[int],
    *,
    follows: bool,
    fetch: bool,
) -> ir.Operation:
    """One change by every thread, at its own index: `where` has axis, kind and distribution. `follows`: not the first
    fragment of its operation. `fetch`: its result is what was there before.
    """
    attributes = {**where, "registers": registers(numbers)}
    if follows:
        attributes[FOLLOWS] = ir.UnitAttr.get()
    return create("ck.lds_update_fragment", [vector.type] if fetch else [], [vector, lds, index], attributes)
