"""The shadow handlers of ALU instructions: operands and results as `vector_alu.py` and `scalar_alu.py` find them."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from ckmlir.sim import state
from ckmlir.sim.builder import Value
from ckmlir.sim.checks.layout import Kind
from ckmlir.sim.checks.observe import note
from ckmlir.sim.checks.shadow_builder import ShadowBuilder
from ckmlir.sim.checks.shadow_rules import (
    any_undefined,
    bits_place,
    bits_type,
    default_rule,
    result_shadows,
    throughout,
)
from ckmlir.sim.element import MASK, U32, U64
from ckmlir.sim.handler import HandlerBuilder, HandlerKey
from ckmlir.sim.operation import Operation, Place
from ckmlir.sim.scalar_alu import fetch_scalar, load_scc
from ckmlir.sim.vector_alu import DppLanes, fetch, fetch_implicit, fetch_word, named, packed_element, widen, write_all

_UNTRACKED = ("exec", "lanes", "m0")
_NUMBERS = ("neg_lo", "neg_hi", "omod", "mode")


def plain_key(key: HandlerKey) -> HandlerKey:
    """A key without what changes numbers but not where bits come from: signs, and vccz and execz."""
    operands = tuple(
        "i" if code in ("vccz", "execz") else code.replace("-", "").replace("|", "") for code in key.operands
    )
    modifiers = tuple((name, 0 if name in _NUMBERS else number) for name, number in key.modifiers)
    return key._replace(operands=operands, modifiers=modifiers)


def implicit_shadow(b: ShadowBuilder, operation: Operation) -> str:
    """Whether SCC or VCC, where an operation uses them without naming them, has undefined bits (an i64)."""
    total = "0"
    used = {place.implicit for place in operation.operands + operation.results}
    if "scc" in used:
        total = b.assign(f"zext i32 {b.load_scalar(state.SCC, U32)} to i64")
    if "vcc" in used:
        total = b.assign(f"or i64 {total}, {b.load_scalar(state.VCC, U64)}")
    return total


def operation_shadow(b: ShadowBuilder, operation: Operation) -> None:
    """Emit what an operation does to the shadows of its results."""
    if operation.is_vector:
        _vector(b, operation)
    else:
        _scalar(b, operation)


# -- vector ----------------------------------------------------------------------------------------------------------


def _vector(b: ShadowBuilder, operation: Operation) -> None:
    dpp = DppLanes(b) if "dpp_ctrl" in dict(b.key.modifiers) else None
    mask = dpp.write if dpp else b.active()
    if operation.packed:
        b.store_register(b.slot(0), _packed(b, operation), mask)
        return
    shadows = _vector_operands(b, operation, operation.operands, dpp)
    if b.key.modifier("clamp"):
        results = default_rule(b, operation, shadows)
    elif dpp:
        results = _moved_by_dpp(b, operation, shadows)
    else:
        real = HandlerBuilder(b.key, b.lanes, b.text)
        fields = {field: b.key.modifier(field) for field in operation.modifiers}
        results = result_shadows(
            b, operation, shadows, lambda: _vector_values(real, operation, operation.operands), fields
        )
    _write_vector(b, operation, results, mask)


def _moved_by_dpp(b: ShadowBuilder, operation: Operation, shadows: Sequence[Value]) -> list[Value]:
    if operation.mnemonic == "v_mov_b32":
        return list(shadows)
    return default_rule(b, operation, shadows)


def _vector_operands(
    b: ShadowBuilder, operation: Operation, places: Sequence[Place], dpp: DppLanes | None
) -> list[Value]:
    index, position, found = named(operation.results), 0, []
    for place in map(bits_place, places):
        if place.implicit in _UNTRACKED:
            found.append(b.constant(bits_type(place.type), 0))
        elif place.implicit:
            found.append(fetch_implicit(b, operation, place))
        else:
            found.append(fetch(b, index, position, place, dpp))
            index, position = index + 1, position + 1
    return found


def _vector_values(b: HandlerBuilder, operation: Operation, places: Sequence[Place]) -> list[Value]:
    index, position, found = named(operation.results), 0, []
    for place in places:
        if place.implicit:
            found.append(fetch_implicit(b, operation, place))
        else:
            found.append(fetch(b, index, position, place, None))
            index, position = index + 1, position + 1
    return found


def _packed(b: ShadowBuilder, operation: Operation) -> Value:
    halves = []
    for half in range(2):
        elements = [
            packed_element(b, 1 + k, k, half, place.type).bits(bits_type(place.type))
            for k, place in enumerate(operation.operands)
        ]
        halves.append(throughout(b, any_undefined(b, elements), bits_type(operation.results[0].type)))
    low, high = halves
    if low.type.bits == 32:
        return b.join(low, high)
    return widen(b, low) | (widen(b, high) << 16)


def _write_vector(b: ShadowBuilder, operation: Operation, results: Sequence[Value], mask: Value) -> None:
    kept, places = [], []
    for place, result in zip(operation.results, results):
        if place.implicit == "lanes" or (place.type is MASK and b.key.modifier("exec_result")):
            _report_exec(b, b.bits_of_mask(result & b.active()))
        else:
            kept.append(result)
            places.append(bits_place(place))
    write_all(b, replace(operation, results=tuple(places)), kept, mask)


# -- scalar ----------------------------------------------------------------------------------------------------------


def _scalar(b: ShadowBuilder, operation: Operation) -> None:
    shadows, index = [], named(operation.results)
    for place in operation.operands:
        shadows.append(_scalar_operand(b, operation, index, place))
        index += not place.implicit
    real = HandlerBuilder(b.key, 0, b.text)
    results = result_shadows(b, operation, shadows, lambda: _scalar_values(real, operation), {})
    index = 0
    for place, result in zip(operation.results, results):
        if place.implicit == "scc":
            b.store_scalar(state.SCC, b.assign(f"zext i1 {result.handle} to i32"), U32)
        elif place.implicit == "exec" or (not place.implicit and b.key.modifier("exec_result")):
            _report_exec(b, result.handle if result.type.bits == 64 else b.assign(f"zext i32 {result.handle} to i64"))
        elif not place.implicit:
            b.store_scalar(b.slot(index), result.handle, U64 if result.type.bits == 64 else U32)
        index += not place.implicit


def _scalar_operand(b: ShadowBuilder, operation: Operation, index: int, place: Place) -> Value:
    if place.implicit in _UNTRACKED:
        return b.constant(bits_type(place.type), 0)
    if place.implicit == "scc":
        return load_scc(b)
    if place.implicit == "old":
        return fetch_word(b, 0, "s", bits_type(place.type))
    return fetch_word(b, index, b.key.operands[index], bits_type(place.type))


def _scalar_values(b: HandlerBuilder, operation: Operation) -> list[Value]:
    found, index = [], named(operation.results)
    for place in operation.operands:
        found.append(fetch_scalar(b, operation, index, place))
        index += not place.implicit
    return found


def _report_exec(b: ShadowBuilder, bits: str) -> None:
    """Undefined bits in EXEC: the wave goes on with lanes that nobody chose."""
    found, join = b.new_label("undefined_exec"), b.new_label("exec_done")
    b.emit(f"br i1 {b.assign(f'icmp ne i64 {bits}, 0')}, label %{found}, label %{join}")
    b.label(found)
    note(b, Kind.UNDEFINED_EXEC, bits, "0")
    b.emit(f"br label %{join}")
    b.label(join)
