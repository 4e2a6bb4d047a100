"""What the body of a scheduled loop takes: where each operand comes from, and what one step hands to a later one.

A value of the body is computed in some step; an operation that runs less far ahead takes it in a later one, and it
travels as a block argument through the steps between. So do the carried values of the loop, the results of its `yield`.
"""

from typing import NamedTuple

from msgspec import Struct

from ckmlir.dialect.control import end_of
from ckmlir.mlir import ir
from ckmlir.passes.loop_body import Placed, maker_of, operands_of
from ckmlir.passes.walk import nested

Key = tuple[object, int]
"""A value of the body (or a carried argument's number) and the step, relative to the current one, that produces it."""


class Origin(NamedTuple):
    """Where an operand of the body comes from: rotating allocations, the loop variable (-1) or a carried value by its
    number, an operation that runs so far ahead; all None for what is computed outside.
    """

    slots: list[ir.Value] | None
    argument: int | None
    ahead: int | None


class Taken(Struct, frozen=True):
    """An operation of the body, with what every copy of it would ask of the bindings again."""

    placed: Placed
    operands: list[ir.Value]
    results: list[ir.Value]
    inside: list[ir.Operation]
    """What it holds, where it has regions."""
    name: str


class LoopValues:
    """The values that the steps of a loop take and hand on.

    Args:
        loop: the loop.
        placed: the operations of its body, with how far each runs ahead.
        slots: for every LDS tensor of the body, its rotating allocations outside the loop.

    Attributes:
        yielded: what the body hands on, one for each carried value.
        initial: what carried values are before the first iteration.
        taken: the placed operations.
        yielded_ahead: how far ahead the operation runs that computes each yielded value; None if none of the body does.
        needed: the values of earlier steps that a step uses itself, or has to pass on.
    """

    def __init__(self, loop: ir.Operation, placed: list[Placed], slots: dict[ir.Value, list[ir.Value]]) -> None:
        self.body = loop.regions[0].blocks[0]
        self.slots = slots
        self.yielded = list(end_of(self.body).operands)
        self.initial = list(loop.operands)[3:]
        self.ahead: dict[ir.Operation | None, int] = {one.op: one.ahead for one in placed}
        self.taken = [_taken(one) for one in placed]
        self._origins: dict[ir.Value, Origin] = {}
        self.yielded_ahead = [self.origin(item).ahead for item in self.yielded]
        self.needed = self._needed()

    def origin(self, operand: ir.Value) -> Origin:
        """Where an operand of the body comes from."""
        found = self._origins.get(operand)
        if found is None:
            found = self._origins[operand] = self._find_origin(operand)
        return found

    def _find_origin(self, operand: ir.Value) -> Origin:
        if operand in self.slots:
            return Origin(self.slots[operand], None, None)
        if isinstance(operand, ir.BlockArgument) and operand.owner == self.body:
            return Origin(None, operand.arg_number - 1, None)
        return Origin(None, None, self.ahead.get(maker_of(operand)))

    def producer_ahead(self, number: int) -> int:
        """How far ahead the operation runs whose result is handed on as carried value `number`."""
        return self.yielded_ahead[number] or 0

    def type_of(self, what: object) -> ir.Type:
        """The type of what a key names."""
        if isinstance(what, int):
            return self.initial[what].type
        assert isinstance(what, ir.Value)
        return what.type

    def _needed(self) -> list[Key]:
        """The values of earlier steps that a step uses itself, or has to pass on."""
        needed: dict[Key, None] = {}
        for one in self.taken:
            inside = (item for inner in one.inside for item in inner.operands)
            for operand in (*one.operands, *inside):
                self._note(needed, operand, one.placed.ahead)
        for number, item in enumerate(self.yielded):
            self._note_yield(needed, number, -self.producer_ahead(number))
            if self.yielded_ahead[number] is None:
                self._note(needed, item, 0)
        for what, step in list(needed):
            for later in range(step + 1, 0):
                needed[what, later] = None
        return list(needed)

    def _note(self, needed: dict[Key, None], operand: ir.Value, ahead: int) -> None:
        _, number, made = self.origin(operand)
        if number is not None and number >= 0:
            self._note_yield(needed, number, ahead - 1 - self.producer_ahead(number))
        elif made is not None and made > ahead:
            needed[operand, ahead - made] = None

    def _note_yield(self, needed: dict[Key, None], number: int, step: int) -> None:
        source = self.origin(self.yielded[number]).argument
        if step < 0:
            needed[number, step] = None
        elif source is not None and source >= 0:
            self._note_yield(needed, source, step - 1 - self.producer_ahead(source))


def _taken(placed: Placed) -> Taken:
    op = placed.op
    if len(op.regions):
        return Taken(placed, list(op.operands), list(op.results), list(nested(op)), op.name)
    return Taken(placed, operands_of(op), list(op.results), [], op.name)
