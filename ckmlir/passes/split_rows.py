"""Splitting of what rows are given each: one operation of all registers, so that a wave has one branch around it."""

from ckmlir.dialect.cut import FRONT, cut_vector
from ckmlir.dialect.distribution_maps import broadcast_map
from ckmlir.dialect.fragment_compute import thread_coordinate
from ckmlir.dialect.rescale import rescale_vector
from ckmlir.dialect.types import tile_of
from ckmlir.mlir import ir
from ckmlir.passes.framework import fail
from ckmlir.passes.registers import Registers
from ckmlir.passes.split_state import SplitState


def split_rescale(state: SplitState, op: ir.Operation) -> None:
    """Registers times the factor that they have in common, or one each."""
    factors = _of_rows(state, op, "factors")
    _bind(state, op, rescale_vector(_whole(state, op), factors))


def split_cut(state: SplitState, op: ir.Operation) -> None:
    """Registers on one side of the bound that their rows have in common, or one each."""
    placed, bounds = tile_of(op.operands[0]).placed, _of_rows(state, op, "bounds")
    columns = [int(column) for column in placed.coordinates()[1, 0, 0]]
    whole, lane, other = _whole(state, op), thread_coordinate(placed, 1), op.attributes["other"]
    _bind(state, op, cut_vector(whole, bounds, lane, columns, other, front=FRONT in op.attributes))


def _of_rows(state: SplitState, op: ir.Operation, what: str) -> ir.Value:
    """Of the second operand, which has one element a row, the one that all registers share, or one for each."""
    source, own = (tile_of(operand).placed for operand in op.operands)
    homes = broadcast_map(own, source, 1)
    if homes is None:
        fail(op, f"{what} lie as '{own}', not with the rows of '{source}'; redistribute them first")
    return state.of(op.operands[1]).gather(homes[:1] if len(set(homes)) == 1 else homes)


def _whole(state: SplitState, op: ir.Operation) -> ir.Value:
    registers = state.of(op.operands[0])
    (whole,) = registers.rechunked(registers.count).chunks
    return whole


def _bind(state: SplitState, op: ir.Operation, vector: ir.Value) -> None:
    registers = state.of(op.operands[0])
    state.bind(op.results[0], Registers([vector], registers.count, registers.element))
