"""Split tiles into the fragments of one thread: vectors of registers, one memory access or matrix instruction each.

After this pass a kernel holds builtin vectors, arith and math on them, and the fragment operations of the ck dialect.
Loops are still loops of stages; every fragment inherits its tile operation's stage and source line.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import gcd
from typing import Any, ClassVar

from ckmlir.dialect.build import create
from ckmlir.dialect.loop import LOOP, append_loop, end_loop
from ckmlir.dialect.types import is_tile
from ckmlir.mlir import ir
from ckmlir.passes import split_compute, split_memory, split_reduce
from ckmlir.passes.framework import Pass, fail
from ckmlir.passes.registers import Registers
from ckmlir.passes.split_state import CARRIED_CHUNK, SplitState
from ckmlir.passes.walk import functions, waves_of

Splitter = Callable[[SplitState, ir.Operation], None]

SPLITTERS: dict[str, Splitter] = {
    "ck.load": split_memory.split_load,
    "ck.store": split_memory.split_store,
    "ck.gather": split_memory.split_gather,
    "ck.scatter": split_memory.split_scatter,
    "ck.atomic_update": split_memory.split_atomic_update,
    "ck.inside": split_memory.split_inside,
    "ck.offsets": split_memory.split_offsets,
    "ck.to_lds": split_memory.split_to_lds,
    "ck.copy_to_lds": split_memory.split_copy_to_lds,
    "ck.from_lds": split_memory.split_from_lds,
    "ck.map": split_compute.split_map,
    "ck.cast": split_compute.split_cast,
    "ck.splat": split_compute.split_splat,
    "ck.coordinates": split_compute.split_coordinates,
    "ck.broadcast": split_compute.split_broadcast,
    "ck.slice": split_compute.split_slice,
    "ck.join_axes": split_compute.split_join_axes,
    "ck.insert": split_compute.split_insert,
    "ck.redistribute": split_compute.split_redistribute,
    "ck.mma": split_compute.split_mma,
    "ck.reduce": split_reduce.split_reduce,
}


@dataclass(frozen=True)
class SplitTiles(Pass):
    """Split tiles into per-thread fragments: accesses, matrix instructions and vectors of registers."""

    name: ClassVar[str] = "ck-split-tiles"

    def apply(self, module: ir.Module) -> None:
        for function in functions(module):
            state = SplitState(function, waves_of(function))
            split_block(state, function.regions[0].blocks[0])
            for op in reversed(state.finished):
                op.erase()


def split_block(state: SplitState, block: ir.Block) -> None:
    """Replace every tile operation of a block by fragments, in place; the old operations end in `state.finished`."""
    for op_view in list(block.operations):
        op = op_view.operation
        if op.name == LOOP:
            with ir.InsertionPoint(op), op.location:
                split_loop(state, op)
        elif op.name in SPLITTERS:
            with ir.InsertionPoint(op), op.location, state.stage(op):
                try:
                    SPLITTERS[op.name](state, op)
                except ValueError as problem:  # of a type or a notation, in words
                    fail(op, str(problem))
            state.finished.append(op)


def split_loop(state: SplitState, op: ir.Operation) -> None:
    """A loop whose carried tiles are their fragments; the body's operations move over."""
    old = op.regions[0].blocks[0]
    operands = list(op.operands)
    flat: list[ir.Value] = operands[:3]
    shapes: list[tuple[int, Registers] | None] = []
    for initial, argument in zip(operands[3:], list(old.arguments)[1:], strict=True):
        if is_tile(initial.type):
            registers = state.of(initial).rechunked(_carried_chunk(argument, state.of(initial)))
            shapes.append((len(registers.chunks), registers))
            flat.extend(registers.chunks)
        else:
            shapes.append(None)
            flat.append(initial)
    new = append_loop(flat[0], flat[1], flat[2], flat[3:])
    for name in (item if isinstance(item, str) else item.name for item in op.attributes):
        new.attributes[name] = op.attributes[name]
    block = new.regions[0].blocks[0]
    with ir.InsertionPoint(block):
        end = create("scf.yield", [], [])
    _bind(state, list(old.arguments)[1:], list(block.arguments)[1:], shapes)
    old.arguments[0].replace_all_uses_with(block.arguments[0])
    for inner in list(old.operations)[:-1]:
        inner.operation.move_before(end)
    state.finished.append(op)  # before its body: operations there still use the old block's arguments
    split_block(state, block)
    _finish_body(state, old, end, shapes)
    _bind(state, list(op.results), list(new.results), shapes)


def _finish_body(
    state: SplitState, old: ir.Block, end: ir.Operation, shapes: Sequence[tuple[int, Registers] | None]
) -> None:
    values: list[ir.Value] = []
    old_end = list(old.operations)[-1].operation
    yielded = list(old_end.operands)
    old_end.erase()
    with ir.InsertionPoint(end), end.location:
        for value, shape in zip(yielded, shapes, strict=True):
            if shape is None:
                values.append(value)
            else:
                values.extend(state.of(value).rechunked(shape[1].chunk).chunks)
        end_loop(values)
    end.erase()


def _bind(
    state: SplitState, old: Sequence[ir.Value], new: Sequence[ir.Value], shapes: Sequence[tuple[int, Registers] | None]
) -> None:
    """Let the new values stand for the old ones: fragments for tiles, one for one otherwise."""
    position = 0
    for value, shape in zip(old, shapes, strict=True):
        if shape is None:
            value.replace_all_uses_with(new[position])
            position += 1
        else:
            count, registers = shape
            state.bind(value, Registers(list(new[position : position + count]), registers.chunk, registers.element))
            position += count


def _carried_chunk(argument: ir.Value, initial: Registers) -> int:
    """Carried tiles travel in the pieces that matrix instructions want, others in moderate vectors."""
    chunk = accumulator_chunk(argument, set())
    return chunk if chunk else gcd(initial.count, CARRIED_CHUNK)


def accumulator_chunk(value: ir.Value, seen: set[Any]) -> int:
    """Registers of one accumulator if the tile reaches a matrix multiplication through element-wise work, else 0."""
    if value in seen:
        return 0
    seen.add(value)
    for use in value.uses:
        user = use.owner.operation
        if user.name == "ck.mma" and use.operand_number == 2:
            return split_compute.accumulator_registers(user)
        if user.name == "ck.element":
            user = user.parent.operation
        if user.name in ("ck.map", "ck.cast"):
            found = accumulator_chunk(user.results[0], seen)
            if found:
                return found
    return 0
