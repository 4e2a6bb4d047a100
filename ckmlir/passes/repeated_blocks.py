"""Steady loops of one block, and what it takes to put a copy of their turn beside it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ckmlir.dialect import arith
from ckmlir.dialect.build import integer_of, producer, segments_of
from ckmlir.dialect.control import end_of
from ckmlir.dialect.divisors import constant_of
from ckmlir.mlir import ir


class Loop(NamedTuple):
    """A block that goes back to itself while its index is less than a bound.

    Attributes:
        body: its operations, without the comparison and the branch.
        counter: number of the argument that is the index.
        following: what the next turn has instead.
        steps: of a turn.
        stride: what each of them adds to the index.
        again: what the block hands to itself.
    """

    block: ir.Block
    body: list[ir.Operation]
    counter: int
    following: ir.Value
    bound: ir.Value
    steps: int
    stride: ir.Value
    again: list[ir.Value]

    @property
    def turn(self) -> int:
        """What a turn adds to the index, if the stride is known, else 0."""
        return self.steps * (constant_of(self.stride) or 0)


def loop_of(block: ir.Block, held: Sequence[ir.Operation]) -> Loop | None:
    """The loop that a block with these operations is, if it is one."""
    *body, end = held
    if end.name != "cf.cond_br" or end.successors[0] != block or end.successors[1] == block:
        return None
    condition, *given = end.operands
    again = given[: segments_of(end)[1]]
    compared = producer(condition)
    if compared is None or compared.name != "arith.cmpi" or compared.block != block or len(list(condition.uses)) > 1:
        return None
    following, bound = compared.operands
    if integer_of(compared, "predicate") != arith.CmpIPredicate.slt or not is_outside(bound, block):
        return None
    item, strides = following, list[ir.Value]()
    while (owner := producer(item)) is not None and owner.block == block and owner.name == "arith.addi":
        item, stride = owner.operands
        strides.append(stride)
    index = [one.arg_number for one in block.arguments if one == item and again[one.arg_number] == following]
    if not index or not strides or any(one != strides[0] for one in strides) or any(len(op.regions) for op in body):
        return None
    body.remove(compared)
    return Loop(block, body, index[0], following, bound, len(strides), strides[0], again)


def is_outside(item: ir.Value, block: ir.Block) -> bool:
    """Whether a value is not computed in a block."""
    owner = producer(item)
    return bool(item.owner != block if owner is None else owner.block != block)


def block_behind(after: ir.Block, like: Sequence[ir.Value]) -> ir.Block:
    """An empty block behind another one, with arguments for some values."""
    return after.create_after(*(one.type for one in like), arg_locs=[end_of(after).location] * len(like))


def left_by(loop: Loop) -> list[ir.Value]:
    """What a loop's block leaves to itself and to those behind it."""
    end = end_of(loop.block)
    own = [*loop.block.arguments, *(result for op in loop.body for result in op.results)]
    users = ((one, [use.owner.operation for use in one.uses]) for one in own)
    return [one for one, by in users if any(user == end or user.block != loop.block for user in by)]


def handed_behind(loop: Loop, behind: ir.Block, left: Sequence[ir.Value]) -> dict[ir.Value, ir.Value]:
    """What a loop's block leaves, as arguments of the block behind it; what comes later takes those from now on."""
    now = dict(zip(left, behind.arguments, strict=True))
    for old, new in now.items():
        for use in [use for use in old.uses if use.owner.operation.block != loop.block]:
            use.owner.operation.operands[use.operand_number] = new
    return now


def copy(op: ir.Operation, now: dict[ir.Value, ir.Value]) -> None:
    """Append an operation with what its operands are now, and note its results."""
    other = op.clone()
    for number, operand in enumerate(op.operands):
        if operand in now:
            other.operands[number] = now[operand]
    now.update(zip(op.results, other.results, strict=True))
