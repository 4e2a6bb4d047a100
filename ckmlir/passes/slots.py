"""Blocks that take LDS tensors as arguments, once for each set of slots that they are reached with.

A loop with `slots carried` hands a tensor's slots round. What an access touches there depends on the way that led to
it, but the slots are few: so passes that follow LDS look at a block once for each of its arrangements, as if the loop
had been unrolled, and at all other blocks once.
"""

from collections.abc import Sequence

from msgspec import Struct

from ckmlir.dialect.build import segments_of
from ckmlir.dialect.types import is_lds
from ckmlir.mlir import ir
from ckmlir.passes.flow import Flow
from ckmlir.passes.walk import Blocks

Slots = dict[ir.Value, ir.Value]
"""Block argument -> the result of the allocation that it is."""


class Visit(Struct):
    """A block under one arrangement of slots.

    Attributes:
        block: its place in the function.
        slots: what the LDS tensors among the arguments of it and of blocks that every way here passes are.
        following: the visits that may come next, by their places in the list.
    """

    block: int
    slots: Slots
    following: list[int]


def visits_of(function: ir.Operation, blocks: Blocks) -> list[Visit]:
    """The blocks of a kernel, those that take LDS tensors once for each arrangement, by the blocks' places."""
    order = list(function.regions[0])
    taken = [[argument for argument in block.arguments if is_lds(argument.type)] for block in order]
    flow = Flow(order)
    if not any(taken):
        return [Visit(place, {}, following) for place, following in enumerate(flow.following)]
    visits = [Visit(0, {}, [])]
    known = {(0, frozenset[tuple[ir.Value, ir.Value]]()): 0}
    for visit in visits:  # grows while it is gone through
        end = blocks[visit.block][-1]
        for number, to in enumerate(flow.following[visit.block]):
            passed = {one for place in flow.dominators[to] for one in taken[place]}
            slots = {one: slot for one, slot in visit.slots.items() if one in passed}
            given = handed(end, number)
            for argument in taken[to]:
                operand = given[ir.BlockArgument(argument).arg_number]
                slots[argument] = visit.slots.get(operand, operand)
            key = to, frozenset(slots.items())
            if key not in known:
                known[key] = len(visits)
                visits.append(Visit(to, slots, []))
            visit.following.append(known[key])
    return _in_order(visits)


def handed(end: ir.Operation, successor: int) -> list[ir.Value]:
    """What a branch hands to one of its successors."""
    operands = list(end.operands)
    if len(end.successors) == 1:
        return operands
    middle = 1 + segments_of(end)[1]
    return operands[1:middle] if successor == 0 else operands[middle:]


def _in_order(visits: list[Visit]) -> list[Visit]:
    """By the blocks' places."""
    order = sorted(range(len(visits)), key=lambda number: visits[number].block)
    place = {number: at for at, number in enumerate(order)}
    return [
        Visit(visits[number].block, visits[number].slots, [place[to] for to in visits[number].following])
        for number in order
    ]


def users_of(tensor: ir.Value, visits: Sequence[Visit]) -> list[ir.Operation]:
    """The operations that an allocation's tensor is an operand of, through arguments of blocks too; branches that hand
    it on are none of them.
    """
    names = dict.fromkeys((tensor, *(one for visit in visits for one, slot in visit.slots.items() if slot == tensor)))
    users = (use.owner.operation for name in names for use in name.uses)
    return [user for user in users if not len(user.successors)]
