"""Splitting of accesses whose coordinate along an axis comes from a tile of indices: to memory, and to LDS."""

from collections.abc import Callable

from ckmlir.dialect import fragment, lds_indexed
from ckmlir.dialect.build import integer_of, producer, string, text_of
from ckmlir.dialect.distribution import Distribution
from ckmlir.dialect.distribution_maps import axis_map
from ckmlir.dialect.lds_layout import LdsLayout
from ckmlir.dialect.reach import reach_of
from ckmlir.dialect.scalars import bits
from ckmlir.dialect.types import TileType, tile_of
from ckmlir.mlir import ir
from ckmlir.passes import vectors
from ckmlir.passes.accesses import plan_accesses
from ckmlir.passes.framework import fail
from ckmlir.passes.registers import Registers
from ckmlir.passes.split_memory import ACCESS_BITS, atomic_width, bind_before, fetches, window_accesses
from ckmlir.passes.split_state import SplitState


def split_gather(state: SplitState, op: ir.Operation) -> None:
    """One gather_fragment an access."""
    window, indices = op.operands
    tile, axis = tile_of(op.results[0]), integer_of(op, "axis")
    where = indexed(op, window, tile.placed)
    own = index_of(state, op, indices, tile.placed, axis)
    pieces = [
        (registers, fragment.gather_fragment(window, own(registers[0]), where, registers, tile.element))
        for registers in window_accesses(state, window, tile.placed, across=axis)
    ]
    state.bind(op.results[0], Registers.scatter(pieces, tile.element))


def split_scatter(state: SplitState, op: ir.Operation) -> None:
    """One scatter_fragment an access."""
    value, window, indices = op.operands
    tile, axis = tile_of(value), integer_of(op, "axis")
    where = indexed(op, window, tile.placed)
    own = index_of(state, op, indices, tile.placed, axis)
    for registers in window_accesses(state, window, tile.placed, across=axis):
        data = state.of(value).gather(registers)
        fragment.scatter_fragment(data, window, own(registers[0]), where, registers)


def indexed(op: ir.Operation, window: ir.Value, distribution: Distribution) -> dict[str, ir.Attribute]:
    """What the accesses of a gather or scatter have in common."""
    return {
        "axis": op.attributes["axis"],
        "reach": string(reach_of(op, window)),
        "distribution": string(str(distribution)),
    }


def split_atomic_scatter(state: SplitState, op: ir.Operation) -> None:
    """One atomic_scatter_fragment an element, or pair of halves."""
    value, window, indices = op.operands
    tile, axis = tile_of(value), integer_of(op, "axis")
    where = {name: op.attributes[name] for name in ("axis", "kind")}
    where["distribution"] = string(str(tile.placed))
    own, fetch = index_of(state, op, indices, tile.placed, axis), fetches(op)
    updates = []
    for registers in window_accesses(state, window, tile.placed, atomic_width(tile.element), across=axis):
        data, index = state.of(value).gather(registers), own(registers[0])
        update = fragment.atomic_scatter_fragment(data, window, index, where, registers, fetch=fetch)
        updates.append((registers, update))
    bind_before(state, op, updates)


def split_lds_gather(state: SplitState, op: ir.Operation) -> None:
    """One lds_gather_fragment an access."""
    lds, indices = op.operands
    tile, axis = tile_of(op.results[0]), integer_of(op, "axis")
    buffer, text = state.buffer_of(lds), string(str(tile.placed))
    own = index_of(state, op, indices, tile.placed, axis)
    pieces = [
        (registers, lds_indexed.lds_gather_fragment(buffer, own(registers[0]), axis, text, registers, tile.element))
        for registers in _lds_accesses(buffer, tile, axis, ACCESS_BITS // bits(tile.element))
    ]
    state.bind(op.results[0], Registers.scatter(pieces, tile.element))


def split_lds_update(state: SplitState, op: ir.Operation) -> None:
    """One lds_update_fragment an access; what LDS combines by itself it takes element by element."""
    value, lds, indices = op.operands
    tile, axis, kind = tile_of(value), integer_of(op, "axis"), text_of(op, "kind")
    buffer, text = state.buffer_of(lds), string(str(tile.placed))
    own = index_of(state, op, indices, tile.placed, axis)
    widest = 1 if kind in lds_indexed.ATOMIC else ACCESS_BITS // bits(tile.element)
    where = {"axis": op.attributes["axis"], "kind": op.attributes["kind"], "distribution": text}
    updates, fetch = [], fetches(op)
    for number, registers in enumerate(_lds_accesses(buffer, tile, axis, widest)):
        data, index, follows = state.of(value).gather(registers), own(registers[0]), number > 0
        update = lds_indexed.lds_update_fragment(data, buffer, index, where, registers, follows=follows, fetch=fetch)
        updates.append((registers, update))
    bind_before(state, op, updates)


def _lds_accesses(buffer: ir.Value, tile: TileType, axis: int, widest: int) -> tuple[tuple[int, ...], ...]:
    """Accesses along the tensor's contiguous dimension, unless that is the axis of the indices."""
    contiguous = LdsLayout.parse(text_of(producer(buffer), "layout")).contiguous
    return plan_accesses(tile.placed, contiguous, 1 if contiguous == axis else widest)


def index_of(
    state: SplitState, op: ir.Operation, indices: ir.Value, distribution: Distribution, axis: int
) -> Callable[[int], ir.Value]:
    """What gives the index (i32) of a register of the data, from the tile of indices."""
    homes = axis_map(tile_of(indices).placed, distribution, axis)
    if homes is None:
        fail(
            op,
            f"its indices lie as '{tile_of(indices).placed}', where some threads lack those of their own elements; "
            f"redistribute them to '{distribution.along(axis)}', or the elements, which lie as '{distribution}'",
        )
    known = state.of(indices)
    made: dict[int, ir.Value] = {}

    def index(register: int) -> ir.Value:
        home = homes[register]
        if home not in made:
            made[home] = vectors.element(known.chunks[home // known.chunk], home % known.chunk)
        return made[home]

    return index
