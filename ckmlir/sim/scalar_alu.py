"""Scalar ALU instructions: how operands are fetched and results written around the semantic functions."""

from __future__ import annotations

from ckmlir.sim import state
from ckmlir.sim.builder import Value
from ckmlir.sim.element import MASK, U32, U64
from ckmlir.sim.handler import HandlerBuilder, HandlerKey
from ckmlir.sim.operation import Operation, Place
from ckmlir.sim.vector_alu import fetch_word, named

_REGISTER = {"exec": state.EXEC, "m0": state.M0}


def load_scc(b: HandlerBuilder) -> Value:
    return Value(b, MASK, b.assign(f"icmp ne i32 {b.load_scalar(state.SCC, U32)}, 0"))


def fetch_scalar(b: HandlerBuilder, operation: Operation, index: int, place: Place) -> Value:
    if place.implicit == "scc":
        return load_scc(b)
    if place.implicit == "old":
        return fetch_word(b, 0, "s", place.type)
    if place.implicit:
        return Value(b, place.type, b.load_scalar(_REGISTER[place.implicit], place.type))
    return fetch_word(b, index, b.key.operands[index], place.type)


def emit_scalar(key: HandlerKey, operation: Operation, name: str) -> tuple[str, set[str]]:
    """The text of a scalar ALU handler and the declarations it needs."""
    b = HandlerBuilder(key, lanes=0)
    index, operands = named(operation.results), []
    for place in operation.operands:
        operands.append(fetch_scalar(b, operation, index, place))
        index += not place.implicit
    results = operation.outcomes(operation.evaluate(b, *operands))
    index = 0
    for place, result in zip(operation.results, results):
        assert isinstance(result, Value)
        if place.implicit == "scc":
            b.store_scalar(state.SCC, b.assign(f"zext i1 {result.handle} to i32"), U32)
        else:
            offset = _REGISTER[place.implicit] if place.implicit else b.slot(index)
            b.store_scalar(offset, result.handle, U64 if result.type.bits == 64 else U32)
        index += not place.implicit
    b.next()
    return b.function(name), b.text.declarations
