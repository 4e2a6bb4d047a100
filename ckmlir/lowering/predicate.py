"""Conditions of lanes: what bounds ask of an index, joined."""

from __future__ import annotations

from ckmlir.lowering.parts import Values
from ckmlir.mlir import ir


class Predicate:
    """A condition that may differ between lanes, as an i1 value.

    Attributes:
        same_in_quad: whether the lanes of a quad are known to agree on it.
        parts: what it is joined of.
    """

    __slots__ = ("emitter", "parts", "same_in_quad", "value")

    def __init__(
        self, condition: ir.Value, emitter: Values, *, same_in_quad: bool = False, parts: tuple[ir.Value, ...] = ()
    ) -> None:
        self.value = condition
        self.emitter = emitter
        self.same_in_quad = same_in_quad
        self.parts = parts or (condition,)

    @staticmethod
    def never(emitter: Values) -> Predicate:
        """What no lane fulfils."""
        return Predicate(emitter.constant(0, 1), emitter, same_in_quad=True)

    def __and__(self, other: Predicate | bool) -> Predicate:
        if isinstance(other, bool):
            return self if other else Predicate.never(self.emitter)
        both = self.emitter.binary("andi", self.value, other.value)
        same, parts = self.same_in_quad and other.same_in_quad, (*self.parts, *other.parts)
        return Predicate(both, self.emitter, same_in_quad=same, parts=parts)

    __rand__ = __and__
