"""Conditions of lanes: what bounds ask of an index, joined."""

from __future__ import annotations

from ckmlir.lowering.parts import Values
from ckmlir.mlir import ir


class Predicate:
    """A condition that differs between lanes, as an i1 value."""

    __slots__ = ("emitter", "value")

    def __init__(self, condition: ir.Value, emitter: Values) -> None:
        self.value = condition
        self.emitter = emitter

    @staticmethod
    def never(emitter: Values) -> Predicate:
        """What no lane fulfils."""
        return Predicate(emitter.constant(0, 1), emitter)

    def __and__(self, other: Predicate | bool) -> Predicate:
        if isinstance(other, bool):
            return self if other else Predicate.never(self.emitter)
        return Predicate(self.emitter.binary("andi", self.value, other.value), self.emitter)

    __rand__ = __and__
