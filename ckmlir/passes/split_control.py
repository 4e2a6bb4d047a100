"""Splitting of loops and branches: tiles that they carry or give become their fragments; blocks are split in turn."""

from collections.abc import Callable, Sequence
from math import gcd
from typing import Any, NamedTuple

from ckmlir.dialect.build import attributes_of, create
from ckmlir.dialect.control import BRANCH, WHILE, YIELD, append_while, end_of, same_values, with_results
from ckmlir.dialect.loop import LOOP, append_loop
from ckmlir.dialect.types import is_tile
from ckmlir.mlir import ir
from ckmlir.passes import split_compute
from ckmlir.passes.registers import Registers
from ckmlir.passes.split_state import CARRIED_CHUNK, SplitState

SplitBlock = Callable[[SplitState, ir.Block], None]
"""Replaces every tile operation of a block by fragments, in place."""


class Travelling(NamedTuple):
    """How a tile travels: so many chunks of a length."""

    chunks: int
    length: int
    element: ir.Type

    @classmethod
    def of(cls, registers: Registers, chunk: int) -> "Travelling":
        """A tile's registers in chunks of a length."""
        return cls(registers.count // chunk, chunk, registers.element)


Shape = Travelling | None
"""None: what is not a tile, and travels as it is."""


def split_control(state: SplitState, op: ir.Operation, split_block: SplitBlock) -> None:
    """Replace a loop or branch by one of fragments, at the current insertion point."""
    {LOOP: _loop, BRANCH: _branch, WHILE: _while}[op.name](state, op, split_block)


def _loop(state: SplitState, op: ir.Operation, split_block: SplitBlock) -> None:
    old = op.regions[0].blocks[0]
    initial = list(op.operands)[3:]
    shapes = [_carried(state, *pair) for pair in zip(list(old.arguments)[1:], initial, strict=True)]
    new = append_loop(op.operands[0], op.operands[1], op.operands[2], _flat(state, initial, shapes))
    for name, attribute in attributes_of(op).items():
        new.attributes[name] = attribute
    block = new.regions[0].blocks[0]
    old.arguments[0].replace_all_uses_with(block.arguments[0])
    end = _move(state, old, block, list(old.arguments)[1:], list(block.arguments)[1:], shapes)
    state.finished.append(op)  # before its body: operations there still use the old block's arguments
    split_block(state, block)
    _hand_on(state, end, shapes)
    _bind(state, list(op.results), list(new.results), shapes)


def _branch(state: SplitState, op: ir.Operation, split_block: SplitBlock) -> None:
    """Both arms first: from them follows how what they give is cut."""
    arms = [block for region in op.regions for block in region]
    for arm in arms:
        split_block(state, arm)
    given = [[state.of(item) if is_tile(item.type) else None for item in end_of(arm).operands] for arm in arms]
    shapes = [_given(*row) for row in zip(op.results, *given, strict=True)] if op.results else []
    new = create(BRANCH, [], list(op.operands), attributes_of(op), regions=len(op.regions))
    for arm, region in zip(arms, new.regions):
        arm.append_to(region)
        _hand_on(state, end_of(arm), shapes)
    new = with_results(new, [item.type for item in end_of(arms[0]).operands] if op.results else [])
    _bind(state, list(op.results), list(new.results), shapes)
    state.finished.append(op)  # behind its arms: they were split before anything could use its results


def _while(state: SplitState, op: ir.Operation, split_block: SplitBlock) -> None:
    deciding, body = (region.blocks[0] for region in op.regions)
    initial = list(op.operands)
    shapes = [_carried(state, *pair) for pair in zip(deciding.arguments, initial, strict=True)]
    new = append_while(_flat(state, initial, shapes))
    for name, attribute in attributes_of(op).items():
        new.attributes[name] = attribute
    blocks = [region.blocks[0] for region in new.regions]
    state.finished.append(op)  # before its blocks: operations there still use the old blocks' arguments
    end = _move(state, deciding, blocks[0], list(deciding.arguments), list(blocks[0].arguments), shapes)
    split_block(state, blocks[0])
    forwarded = list(end.operands)[1:]
    passed = [_carried(state, *pair) for pair in zip(body.arguments, forwarded, strict=True)]
    end = _hand_on(state, end, [None, *passed])
    types = [item.type for item in list(end.operands)[1:]]
    for argument in reversed(list(blocks[1].arguments)):  # made for what goes round; it takes what is handed on to it
        blocks[1].erase_argument(argument.arg_number)
    arguments = [blocks[1].add_argument(type_, op.location) for type_ in types]
    end = _move(state, body, blocks[1], list(body.arguments), arguments, passed)
    split_block(state, blocks[1])
    _hand_on(state, end, shapes)
    new = with_results(new, types)
    _bind(state, list(op.results), list(new.results), passed)


def _move(
    state: SplitState, old: ir.Block, new: ir.Block, taken: list[ir.Value], given: list[ir.Value], shapes: list[Shape]
) -> ir.Operation:
    """Move a block's operations into an empty one, `given` standing for the arguments `taken`; its end."""
    with ir.InsertionPoint(new), end_of(old).location:
        anchor = create("ck.barrier", [], [])  # something to move operations in front of
    for view in list(old.operations):
        view.operation.move_before(anchor)
    anchor.erase()
    _bind(state, taken, given, shapes)
    return end_of(new)


def _flat(state: SplitState, values: Sequence[ir.Value], shapes: Sequence[Shape]) -> list[ir.Value]:
    """Values with tiles replaced by their fragments."""
    flat: list[ir.Value] = []
    for value, shape in zip(values, shapes, strict=True):
        flat += [value] if shape is None else state.of(value).rechunked(shape.length).chunks
    return flat


def _hand_on(state: SplitState, end: ir.Operation, shapes: Sequence[Shape]) -> ir.Operation:
    """Let a block's end hand on fragments; the new end."""
    with ir.InsertionPoint(end), end.location:
        made = create(end.name, [], _flat(state, list(end.operands), shapes), attributes_of(end))
    end.erase()
    return made


def _bind(state: SplitState, old: Sequence[ir.Value], new: Sequence[ir.Value], shapes: Sequence[Shape]) -> None:
    """Let the new values stand for the old ones: fragments for tiles, one for one otherwise."""
    position = 0
    for value, shape in zip(old, shapes, strict=True):
        if shape is None:
            value.replace_all_uses_with(new[position])
            position += 1
        else:
            chunks = list(new[position : position + shape.chunks])
            state.bind(value, Registers(chunks, shape.length, shape.element))
            position += shape.chunks


def _carried(state: SplitState, argument: ir.Value, initial: ir.Value) -> Shape:
    """Carried tiles travel in the pieces that matrix instructions want, others in moderate vectors."""
    if not is_tile(initial.type):
        return None
    registers = state.of(initial)
    return Travelling.of(registers, accumulator_chunk(argument, set()) or gcd(registers.count, CARRIED_CHUNK))


def _given(result: ir.Value, first: Registers | None, other: Registers | None) -> Shape:
    """What both arms of a branch give: in the pieces that matrix instructions want, or that both arms have."""
    if first is None or other is None:
        return None
    return Travelling.of(
        first, accumulator_chunk(result, set()) or gcd(first.count, first.chunk, other.chunk, CARRIED_CHUNK)
    )


def accumulator_chunk(value: ir.Value, seen: set[Any]) -> int:
    """Registers of one accumulator if the tile reaches a matrix multiplication through element-wise work or branches,
    else 0.
    """
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
        else:
            found = next(filter(None, (accumulator_chunk(result, seen) for result in _given_as(user, value))), 0)
        if found:
            return found
    return 0


def _given_as(user: ir.Operation, value: ir.Value) -> list[ir.Value]:
    """The results as which a branch gives a value, where its user is the end of an arm."""
    if user.name != YIELD or user.parent.name != BRANCH:
        return []
    return [result for result, *given in same_values(user.parent.operation) if value in given]
