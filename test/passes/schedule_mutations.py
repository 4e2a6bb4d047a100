"""Changes that break a scheduled kernel, each of which the schedule checker must refuse."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise

from ckmlir.dialect.build import integer, integer_of, producer, text_of, value
from ckmlir.mlir import ir

Change = Callable[[list[ir.Operation]], None]


def erase(name: str) -> Callable[[list[ir.Operation]], Iterator[Callable[[list[ir.Operation]], None]]]:
    def mutations(ops: list[ir.Operation]) -> Iterator[Callable[[list[ir.Operation]], None]]:
        for number, op in enumerate(ops):
            if op.name == name:
                yield lambda copy, number=number: copy[number].erase()

    return mutations


def weaken_wait(ops: list[ir.Operation]) -> Iterator[Callable[[list[ir.Operation]], None]]:
    """One access or one copy more may be outstanding."""
    for number, op in enumerate(ops):
        if op.name == "ck.wait":
            counter = "copies" if "copies" in op.attributes else "lds"
            if counter in op.attributes:
                more = integer_of(op, counter) + 1

                def change(
                    copy: list[ir.Operation], number: int = number, counter: str = counter, more: int = more
                ) -> None:
                    copy[number].attributes[counter] = integer(more)

                yield change


def other_buffer(ops: list[ir.Operation]) -> Iterator[Callable[[list[ir.Operation]], None]]:
    """LDS reads of the steady loop from the tensor's other slot, or another tensor of its type."""
    allocations = [number for number, op in enumerate(ops) if op.name == "ck.lds_alloc"]
    for number, op in enumerate(ops):
        mine = producer(op.operands[0]) if op.name == "ck.lds_read" and "ck.stage" in op.attributes else None
        if mine is not None:
            alike = (
                a
                for a in allocations
                if ops[a] != mine and ops[a].results[0].type == op.operands[0].type and same_layout(ops[a], mine)
            )
            for other in list(alike)[:1]:

                def change(copy: list[ir.Operation], number: int = number, other: int = other) -> None:
                    copy[number].operands[0] = copy[other].results[0]

                yield change


def other_slot(ops: list[ir.Operation]) -> Iterator[Change]:
    """Accesses to another slot of those that a loop hands on."""
    for number, op in enumerate(ops):
        place = {"ck.lds_read": 0, "ck.copy_fragment": 1}.get(op.name)
        if place is None or not isinstance(op.operands[place], ir.BlockArgument):
            continue
        handed = op.operands[place].owner.arguments  # of its block, or of one that leads to no other but it
        taken = [one for one in handed if one.type == op.operands[place].type]
        other = taken[taken.index(op.operands[place]) - 1].arg_number

        def change(copy: list[ir.Operation], number: int = number, place: int = place, other: int = other) -> None:
            copy[number].operands[place] = copy[number].operands[place].owner.arguments[other]

        yield change


def another_first(ops: list[ir.Operation]) -> Iterator[Change]:
    """The first step of a loop takes the slots in another order."""
    for number, op in enumerate(ops):
        slots = [place for place, one in enumerate(op.operands) if "!ck.lds" in str(one.type)]
        if op.name == "cf.br" and len(slots) > 1:

            def change(copy: list[ir.Operation], number: int = number, slots: list[int] = slots) -> None:
                branch = copy[number]
                first, second = branch.operands[slots[0]], branch.operands[slots[1]]
                branch.operands[slots[0]], branch.operands[slots[1]] = second, first

            yield change


def same_layout(one: ir.Operation, other: ir.Operation) -> bool:
    return text_of(one, "layout") == text_of(other, "layout")


def carried_crosswise(ops: list[ir.Operation]) -> Iterator[Callable[[list[ir.Operation]], None]]:
    """The steady loop hands on two neighbouring values of one type in each other's place."""
    for number, op in enumerate(ops):
        if op.name == "cf.cond_br" and op.successors[0] == op.block:
            for place in range(2, len(op.successors[0].arguments)):
                if (
                    op.operands[place].type == op.operands[place + 1].type
                    and op.operands[place] != op.operands[place + 1]
                ):

                    def change(copy: list[ir.Operation], number: int = number, place: int = place) -> None:
                        branch = copy[number]
                        first, second = branch.operands[place], branch.operands[place + 1]
                        branch.operands[place], branch.operands[place + 1] = second, first

                    yield change


def is_steady(block: ir.Block) -> bool:
    return block in list(list(block.operations)[-1].operation.successors)


def reaches_window(op: ir.Operation, steps: int) -> bool:
    """Whether an operation's result is part of a window's origin, so many operations on."""
    users = [use.owner.operation for result in op.results for use in result.uses]
    return op.name == "ck.make_window" or (steps > 0 and any(reaches_window(user, steps - 1) for user in users))


def unlimited(ops: list[ir.Operation]) -> Iterator[Callable[[list[ir.Operation]], None]]:
    """An index of the steady loop's last step that is not limited to the last iteration's."""
    for number, op in list(enumerate(ops))[::-1]:
        if op.name == "arith.minsi" and is_steady(op.block) and list(op.results[0].uses):
            yield lambda copy, number=number: copy[number].results[0].replace_all_uses_with(copy[number].operands[0])
            return


def one_further(ops: list[ir.Operation]) -> Iterator[Callable[[list[ir.Operation]], None]]:
    """Loads for one iteration more ahead."""
    for number, op in enumerate(ops):
        if op.name == "arith.constant" and is_steady(op.block) and reaches_window(op, 4):

            def change(copy: list[ir.Operation], number: int = number) -> None:
                value = copy[number].attributes["value"]
                copy[number].attributes["value"] = ir.IntegerAttr.get(value.type, value.value + 1)

            yield change


def unfenced(ops: list[ir.Operation]) -> Iterator[Callable[[list[ir.Operation]], None]]:
    """Fences beside what is pinned in the steady loop."""
    for number, op in enumerate(ops):
        beside = [ops[number - 1], *ops[number + 1 : number + 2]]
        pins = any("ck.pinned" in one.attributes or one.name == "ck.barrier" for one in beside)
        if op.name == "ck.sched_barrier" and is_steady(op.block) and pins:
            yield lambda copy, number=number: copy[number].erase()


def no_store(ops: list[ir.Operation]) -> Iterator[Callable[[list[ir.Operation]], None]]:
    yield from erase("ck.store_fragment")(ops)


def one_too_many(ops: list[ir.Operation]) -> Iterator[Change]:
    """Loops that go on while their index is not beyond the end."""
    for number, op in enumerate(ops):
        if op.name == "arith.cmpi" and op.attributes["predicate"].value == SLT and decides(op):

            def change(copy: list[ir.Operation], number: int = number) -> None:
                kind = copy[number].attributes["predicate"].type
                copy[number].attributes["predicate"] = ir.IntegerAttr.get(kind, SLE)

            yield change


def decides(op: ir.Operation) -> bool:
    return any(use.owner.operation.name == "cf.cond_br" for use in op.results[0].uses)


def handed_on_again(ops: list[ir.Operation]) -> Iterator[Change]:
    """What a loop carries is handed on as it came, not what the iteration makes of it."""
    for number, op in enumerate(ops):
        for to, first in ((op.successors[0], int(op.name == "cf.cond_br")),) if op.name.startswith("cf.") else ():
            if not goes_back(op, to):
                continue
            for place, argument in enumerate(to.arguments):
                if op.operands[first + place] != argument:

                    def change(
                        copy: list[ir.Operation], number: int = number, place: int = place, first: int = first
                    ) -> None:
                        branch = copy[number]
                        branch.operands[first + place] = branch.successors[0].arguments[place]

                    yield change


def goes_back(branch: ir.Operation, to: ir.Block) -> bool:
    blocks = list(branch.block.region)
    return blocks.index(to) <= blocks.index(branch.block)


def off_by_one(ops: list[ir.Operation]) -> Iterator[Change]:
    """Windows one element further on along their first dimension."""
    for number, op in enumerate(ops):
        if op.name == "ck.make_window":

            def change(copy: list[ir.Operation], number: int = number) -> None:
                window = copy[number]
                origin = window.operands[1]
                with ir.InsertionPoint(window), window.location:
                    one = value("arith.constant", origin.type, [], {"value": ir.IntegerAttr.get(origin.type, 1)})
                    window.operands[1] = value("arith.addi", origin.type, [origin, one])

            yield change


def other_row(ops: list[ir.Operation]) -> Iterator[Change]:
    """Copies at the index of another one."""
    listed = [number for number, op in enumerate(ops) if op.name == "ck.copy_fragment" and len(op.operands) > 2]
    for number, other in pairwise(listed):
        if ops[number].operands[2] != ops[other].operands[2]:

            def change(copy: list[ir.Operation], number: int = number, other: int = other) -> None:
                copy[other].operands[2] = copy[number].operands[2]

            yield change


SLT, SLE = 2, 3  # predicates of arith.cmpi
MUTATIONS = {
    "barrier removed": erase("ck.barrier"),
    "wait removed": erase("ck.wait"),
    "wait weakened": weaken_wait,
    "fence removed": unfenced,
    "write to LDS removed": erase("ck.lds_write"),
    "copy to LDS removed": erase("ck.copy_fragment"),
    "store removed": no_store,
    "other buffer read": other_buffer,
    "other slot taken": other_slot,
    "slots begin in another order": another_first,
    "carried values crosswise": carried_crosswise,
    "index not limited": unlimited,
    "load further ahead": one_further,
    "loop runs once more": one_too_many,
    "carried value handed on again": handed_on_again,
    "window off by one": off_by_one,
    "index of another row": other_row,
}
EXPECTED = {
    "barrier removed": {"hazard", "wait"},
    "wait removed": {"wait"},
    "wait weakened": {"wait"},
    "fence removed": {"fence"},
    "store removed": {"order"},
    "index not limited": {"order"},
}
"""Kinds of findings, of which there is one. Without a barrier another may still lie between a copy and its reader, but
one that the copying wave does not reach with its copy ended: that is a wait in the wrong place.
"""
