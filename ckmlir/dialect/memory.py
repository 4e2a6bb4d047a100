"""Tile memory: between windows and tiles, and between tiles and LDS.

None of these names a lane, a wait or a barrier: where the elements lie is the tile's distribution, when they arrive is
the passes' business.
"""

from collections.abc import Mapping
from typing import Any

from ckmlir.dialect.build import create, integer, integer_of, string, text_of, value
from ckmlir.dialect.dialect import Ck
from ckmlir.dialect.packed_checks import check_turned
from ckmlir.dialect.reach import NEAR, check_near, check_reach
from ckmlir.dialect.types import LdsType, TileType, WindowType
from ckmlir.dialect.verify import expect, verified
from ckmlir.dialect.views import described_as
from ckmlir.mlir import ext, ir

ATOMIC_KINDS = ("add", "max")
INVARIANT = "invariant"
"""Of a load that the kernel does not change what it reads, as of LLVM's."""


class LoadOp(Ck.Operation, name="load"):
    """`ck.load %window {invariant} -> tile`: elements outside the view's validity are zero. `invariant` promises that
    the kernel does not change what is read.
    """

    window: ext.Operand[Any]
    tile: ext.Result[Any]

    @staticmethod
    @verified
    def verify_invariants(op: ir.OpView) -> None:
        _check_pair(op.operation.operands[0].type, op.operation.results[0].type)


class StoreOp(Ck.Operation, name="store"):
    """`ck.store %tile, %window`: elements outside the view's validity are dropped."""

    tile: ext.Operand[Any]
    window: ext.Operand[Any]

    @staticmethod
    @verified
    def verify_invariants(op: ir.OpView) -> None:
        tile, window = op.operation.operands
        _check_pair(window.type, tile.type)


class AtomicUpdateOp(Ck.Operation, name="atomic_update"):
    """`ck.atomic_update %tile, %window {kind = "add"} -> tile?`: each element is combined with memory atomically, agent
    scope. The result is what memory held before, zero for elements outside the view's validity.
    """

    tile: ext.Operand[Any]
    window: ext.Operand[Any]
    before: ext.Result[Any] | None

    @staticmethod
    @verified
    def verify_invariants(op: ir.OpView) -> None:
        tile, window = op.operation.operands
        _check_pair(window.type, tile.type)
        check_kind(op)
        check_before(op, tile.type)


class GatherOp(Ck.Operation, name="gather"):
    """`ck.gather %window, %indices {axis} -> tile`: like a load, but entry i along the axis is read at `indices[i]`.

    Indices are counted from the window's origin; one that is negative or beyond the view gives zeros. `reach` ("near",
    "far") says how far the view goes, where that is not to be decided by what is known (`dialect/reach.py`).
    """

    window: ext.Operand[Any]
    indices: ext.Operand[Any]
    tile: ext.Result[Any]

    @staticmethod
    @verified
    def verify_invariants(op: ir.OpView) -> None:
        window, indices = op.operation.operands
        _check_indexed(op, window.type, op.operation.results[0].type, indices.type)


class ScatterOp(Ck.Operation, name="scatter"):
    """`ck.scatter %tile, %window, %indices {axis}`: like a store, but entry i along the axis is written at
    `indices[i]`.

    Indices are counted from the window's origin; what has one that is negative or beyond the view is dropped. Where two
    are equal either of the entries may remain. `reach` is that of `ck.gather`.
    """

    tile: ext.Operand[Any]
    window: ext.Operand[Any]
    indices: ext.Operand[Any]

    @staticmethod
    @verified
    def verify_invariants(op: ir.OpView) -> None:
        tile, window, indices = op.operation.operands
        _check_indexed(op, window.type, tile.type, indices.type)


class AtomicScatterOp(Ck.Operation, name="atomic_scatter"):
    """`ck.atomic_scatter %tile, %window, %indices {axis, kind} -> tile?`: an atomic update, entry i along the axis at
    `indices[i]`.

    As with a scatter; entries with equal indices all take part. The result is that of `ck.atomic_update`.
    """

    tile: ext.Operand[Any]
    window: ext.Operand[Any]
    indices: ext.Operand[Any]
    before: ext.Result[Any] | None

    @staticmethod
    @verified
    def verify_invariants(op: ir.OpView) -> None:
        tile, window, indices = op.operation.operands
        _check_indexed(op, window.type, tile.type, indices.type)
        check_kind(op)
        check_before(op, tile.type)


class InsideOp(Ck.Operation, name="inside", traits=[ext.Pure]):
    """`ck.inside %window -> tile of i1`: whether each of a window's elements exists in its view."""

    window: ext.Operand[Any]
    tile: ext.Result[Any]

    @staticmethod
    @verified
    def verify_invariants(op: ir.OpView) -> None:
        _check_positions(op, "i1")


class OffsetsOp(Ck.Operation, name="offsets", traits=[ext.Pure]):
    """`ck.offsets %window -> tile of i32`: how many elements each of a window's elements lies behind the pointer.

    Below 2^31; of elements that do not exist it is any number.
    """

    window: ext.Operand[Any]
    tile: ext.Result[Any]

    @staticmethod
    @verified
    def verify_invariants(op: ir.OpView) -> None:
        _check_positions(op, "i32")


class ToLdsOp(Ck.Operation, name="to_lds"):
    """`ck.to_lds %tile -> !ck.lds`: the tile's contents in LDS, visible to the whole workgroup."""

    tile: ext.Operand[Any]
    lds: ext.Result[Any]

    @staticmethod
    @verified
    def verify_invariants(op: ir.OpView) -> None:
        _check_same_tensor(op.operation.operands[0].type, op.operation.results[0].type)


class CopyToLdsOp(Ck.Operation, name="copy_to_lds"):
    """`ck.copy_to_lds %window, %indices? {axis?} -> !ck.lds`: the window's contents in LDS, without passing through
    registers.

    Elements outside the view's validity are zero. The copy goes on while the wave does; what reads the tensor waits.
    With indices entry i along the axis is read at `indices[i]`, as by `ck.gather`, whose `reach` is near.
    """

    window: ext.Operand[Any]
    indices: ext.Operand[Any] | None
    lds: ext.Result[Any]

    @staticmethod
    @verified
    def verify_invariants(op: ir.OpView) -> None:
        window = described_as(op.operation.operands[0].type, WindowType)
        lds = described_as(op.operation.results[0].type, LdsType)
        expect(
            window.lengths == lds.lengths,
            f"the window is {list(window.lengths)}, the LDS tensor {list(lds.lengths)}",
        )
        expect(window.element == lds.element, f"the window holds {window.element}, the LDS tensor {lds.element}")
        for indices in list(op.operation.operands)[1:]:
            check_near(op)
            _check_indices(op, lds.lengths, described_as(indices.type, TileType))


class FromLdsOp(Ck.Operation, name="from_lds"):
    """`ck.from_lds %lds {format?, before?, after?} -> tile`: read with the result's distribution, whatever the writer's
    was. With a format of packed elements, which share bytes along dimension `before` in LDS, the tile has them share
    bytes along `after`, as `ck.repack` has it.
    """

    lds: ext.Operand[Any]
    tile: ext.Result[Any]

    @staticmethod
    @verified
    def verify_invariants(op: ir.OpView) -> None:
        tile, lds = op.operation.results[0].type, op.operation.operands[0].type
        if "format" in op.attributes:
            check_turned(op, described_as(lds, LdsType), described_as(tile, TileType))
        else:
            _check_same_tensor(tile, lds)


def _check_pair(window_type: ir.Type, tile_type: ir.Type) -> None:
    window, tile = described_as(window_type, WindowType), described_as(tile_type, TileType)
    expect(window.lengths == tile.lengths, f"the window is {list(window.lengths)}, the tile {list(tile.lengths)}")
    expect(
        window.element == tile.element,
        f"the window holds {window.element}, the tile {tile.element}; cast the tile first",
    )


def check_kind(op: ir.OpView) -> None:
    kind = text_of(op, "kind")
    expect(kind in ATOMIC_KINDS, f"kind '{kind}' is not one of {', '.join(ATOMIC_KINDS)}")


def check_before(op: ir.OpView, given: ir.Type) -> None:
    """What an update gives of memory or LDS before it is a tile like the one that it takes."""
    for result in op.operation.results:
        tile, before = described_as(given, TileType), described_as(result.type, TileType)
        alike = None in (tile.distribution, before.distribution) or tile.distribution == before.distribution
        expect(
            (tile.lengths, tile.element) == (before.lengths, before.element) and alike,
            f"takes {given} and gives what was there before as one like it, not {result.type}",
        )


def _check_positions(op: ir.OpView, element: str) -> None:
    window = described_as(op.operation.operands[0].type, WindowType)
    tile = described_as(op.operation.results[0].type, TileType)
    expect(window.lengths == tile.lengths, f"the window is {list(window.lengths)}, the tile {list(tile.lengths)}")
    expect(str(tile.element) == element, f"gives {element}, not {tile.element}")


def _check_indexed(op: ir.OpView, window_type: ir.Type, tile_type: ir.Type, indices_type: ir.Type) -> None:
    _check_pair(window_type, tile_type)
    check_reach(op)
    tile, indices = described_as(tile_type, TileType), described_as(indices_type, TileType)
    axis = _check_indices(op, tile.lengths, indices)
    if tile.distribution is not None and indices.distribution is not None:
        wanted = tile.distribution.along(axis)
        expect(
            indices.distribution == wanted,
            f"indices for axis {axis} of '{tile.distribution}' lie as '{wanted}', not '{indices.distribution}'",
        )


def _check_indices(op: ir.OpView, lengths: tuple[int, ...], indices: TileType) -> int:
    """Check that there is an index for each entry along the axis of a tensor; the axis."""
    axis = integer_of(op, "axis")
    expect(0 <= axis < len(lengths), f"axis {axis} is not one of the tile's {len(lengths)} dimensions")
    expect(
        indices.lengths == (lengths[axis],),
        f"axis {axis} has {lengths[axis]} entries and takes as many indices, not {list(indices.lengths)}",
    )
    expect(str(indices.element) == "i32", f"indices are i32, not {indices.element}")
    return axis


def _check_same_tensor(tile_type: ir.Type, lds_type: ir.Type) -> None:
    tile, lds = described_as(tile_type, TileType), described_as(lds_type, LdsType)
    expect(tile.lengths == lds.lengths, f"the LDS tensor is {list(lds.lengths)}, the tile {list(tile.lengths)}")
    expect(tile.element == lds.element, f"the LDS tensor holds {lds.element}, the tile {tile.element}")


def load(window: ir.Value, tile: TileType, *, invariant: bool = False) -> ir.Value:
    """Load a window into a tile of the given type."""
    return value("ck.load", tile.mlir(), [window], {INVARIANT: ir.UnitAttr.get()} if invariant else {})


def store(tile: ir.Value, window: ir.Value) -> None:
    """Store a tile into a window."""
    create("ck.store", [], [tile, window])


def atomic_update(tile: ir.Value, window: ir.Value, kind: str) -> None:
    """Combine a tile with a window's memory atomically; `kind` is one of ATOMIC_KINDS."""
    create("ck.atomic_update", [], [tile, window], {"kind": string(kind)})


def fetch_update(tile: ir.Value, window: ir.Value, kind: str) -> ir.Value:
    """`atomic_update`, and what memory held before."""
    return value("ck.atomic_update", tile.type, [tile, window], {"kind": string(kind)})


def gather(window: ir.Value, indices: ir.Value, axis: int, tile: TileType, reach: str | None = None) -> ir.Value:
    """Load a window into a tile of the given type, the coordinate along an axis taken from an i32 tile."""
    return value("ck.gather", tile.mlir(), [window, indices], _indexed(axis, reach))


def scatter(tile: ir.Value, window: ir.Value, indices: ir.Value, axis: int, reach: str | None = None) -> None:
    """Store a tile into a window, the coordinate along an axis taken from an i32 tile."""
    create("ck.scatter", [], [tile, window, indices], _indexed(axis, reach))


def _indexed(axis: int, reach: str | None) -> dict[str, ir.Attribute]:
    return {"axis": integer(axis), **({} if reach is None else {"reach": string(reach)})}


def atomic_scatter(tile: ir.Value, window: ir.Value, indices: ir.Value, axis: int, kind: str) -> None:
    """Combine a tile with a window's memory atomically, the coordinate along an axis taken from an i32 tile."""
    create("ck.atomic_scatter", [], [tile, window, indices], {"axis": integer(axis), "kind": string(kind)})


def fetch_scatter(tile: ir.Value, window: ir.Value, indices: ir.Value, axis: int, kind: str) -> ir.Value:
    """`atomic_scatter`, and what memory held before."""
    attributes = {"axis": integer(axis), "kind": string(kind)}
    return value("ck.atomic_scatter", tile.type, [tile, window, indices], attributes)


def inside(window: ir.Value, tile: TileType) -> ir.Value:
    """Which elements of a window exist, as a tile of i1 of the given type."""
    return value("ck.inside", tile.mlir(), [window])


def offsets(window: ir.Value, tile: TileType) -> ir.Value:
    """Where the elements of a window lie behind the pointer, as a tile of i32 of the given type."""
    return value("ck.offsets", tile.mlir(), [window])


def to_lds(tile: ir.Value, name: str = "") -> ir.Value:
    """Put a tile into LDS; `name` is what schedules call the tensor."""
    described = described_as(tile.type, TileType)
    return value("ck.to_lds", LdsType(described.lengths, described.element).mlir(), [tile], _named(name))


def copy_to_lds(window: ir.Value, name: str = "", indices: ir.Value | None = None, axis: int = 0) -> ir.Value:
    """Copy a window into LDS, with indices at these along an axis; `name` is what schedules call the tensor."""
    described = described_as(window.type, WindowType)
    operands, where = ([window], {}) if indices is None else ([window, indices], _indexed(axis, NEAR))
    type_ = LdsType(described.lengths, described.element).mlir()
    return value("ck.copy_to_lds", type_, operands, {**_named(name), **where})


def _named(name: str) -> dict[str, ir.Attribute]:
    return {"name": string(name)} if name else {}


def from_lds(lds: ir.Value, tile: TileType, turn: Mapping[str, ir.Attribute] | None = None) -> ir.Value:
    """Read an LDS tensor as a tile of the given type; `turn` are the attributes of a `ck.repack` on the way."""
    return value("ck.from_lds", tile.mlir(), [lds], dict(turn or {}))
