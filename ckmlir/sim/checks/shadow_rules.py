"""How definedness goes through arithmetic: from the shadows of an instruction's operands to those of its results.

By default a result is undefined throughout if any operand has an undefined bit, of the part that the instruction reads.
Instructions that move bits, choose between operands, or whose operands mask each other are exact, since compilers build
values in parts with them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ckmlir.sim.builder import Builder, Value
from ckmlir.sim.element import MASK, TYPES, U32, ElementType
from ckmlir.sim.operation import Operation, Place

Values = Callable[[], list[Value]]
"""The operands themselves, fetched when a rule wants them."""


def bits_type(type: ElementType) -> ElementType:
    """The unsigned type of the same width; a mask is its own."""
    return type if type is MASK else TYPES[f"u{type.bits}"]


def bits_place(place: Place) -> Place:
    return Place(bits_type(place.type), place.implicit)


def any_undefined(b: Builder, shadows: Sequence[Value]) -> Value:
    """Where one of the shadows has a bit, as a mask."""
    total = b.false()
    for shadow in shadows:
        total = total | (shadow if shadow.type is MASK else shadow.ne(0))
    return total


def throughout(b: Builder, undefined: Value, type: ElementType) -> Value:
    """A shadow of a type that is all ones where the mask is set."""
    if type is MASK:
        return undefined
    return b.select(undefined, b.constant(type, -1), b.constant(type, 0))


def default_rule(b: Builder, operation: Operation, shadows: Sequence[Value]) -> list[Value]:
    undefined = any_undefined(b, shadows)
    return [throughout(b, undefined, bits_type(place.type)) for place in operation.results]


# -- logic -----------------------------------------------------------------------------------------------------------


def and_shadow(x: Value, y: Value, shadow_x: Value, shadow_y: Value) -> Value:
    """A bit of x & y is defined if both are, or one is a defined 0."""
    return (shadow_x | shadow_y) & (shadow_x | x) & (shadow_y | y)


def or_shadow(x: Value, y: Value, shadow_x: Value, shadow_y: Value) -> Value:
    return (shadow_x | shadow_y) & (shadow_x | ~x) & (shadow_y | ~y)


def _logic(name: str) -> Callable[[Value, Value, Value, Value], Value] | None:
    """The shadow of a two-operand logical operation by the middle of its mnemonic."""
    forms: dict[str, Callable[[Value, Value, Value, Value], Value]] = {
        "and": and_shadow,
        "nand": and_shadow,
        "or": or_shadow,
        "nor": or_shadow,
        "andn2": lambda x, y, p, q: and_shadow(x, ~y, p, q),
        "andn1": lambda x, y, p, q: and_shadow(~x, y, p, q),
        "orn2": lambda x, y, p, q: or_shadow(x, ~y, p, q),
        "orn1": lambda x, y, p, q: or_shadow(~x, y, p, q),
        "xor": lambda x, y, p, q: p | q,
        "xnor": lambda x, y, p, q: p | q,
    }
    return forms.get(name)


# -- moving bits -----------------------------------------------------------------------------------------------------

# "d": bits of the operand go to the result where evaluating the instruction on its shadow puts them; "c": the operand
# says how, and where it is undefined so is the result. What the instruction makes of zeros are bits of its own, which
# are defined: v_perm_b32 has ones where a selector is above 12.
_SHIFTS = "lshlrev_b32 lshrrev_b32 ashrrev_i32 lshlrev_b64 lshrrev_b64 ashrrev_i64 lshlrev_b16 lshrrev_b16 ashrrev_i16"
_MOVES: dict[str, str] = {
    **{f"v_{name}": "cd" for name in _SHIFTS.split()},
    **{f"v_pk_{name}": "cd" for name in ("lshlrev_b16", "lshrrev_b16", "ashrrev_i16")},
    **{f"s_{name}_{type}": "dc" for name in ("lshl", "lshr") for type in ("b32", "b64")},
    **{f"s_ashr_{type}": "dc" for type in ("i32", "i64")},
    **{f"s_bfe_{type}": "dc" for type in ("u32", "i32", "u64", "i64")},
    **{f"s_pack_{name}_b32_b16": "dd" for name in ("ll", "lh", "hh", "hl")},
    "v_lshl_or_b32": "dcd", "v_or3_b32": "ddd", "v_bfe_u32": "dcc", "v_bfe_i32": "dcc", "v_bfi_b32": "cdd",
    "v_perm_b32": "ddc", "v_alignbit_b32": "ddc", "v_alignbyte_b32": "ddc", "v_pack_b32_f16": "dd",
    "v_pk_mov_b32": "dd", "v_mov_b32": "d", "v_mov_b64": "d", "v_bfrev_b32": "d", "v_accvgpr_read_b32": "d",
    "v_accvgpr_write_b32": "d", "v_accvgpr_mov_b32": "d", "s_mov_b32": "d", "s_mov_b64": "d", "s_movk_i32": "d",
    "s_brev_b32": "d", "s_brev_b64": "d", "s_wqm_b64": "d", "s_sext_i32_i16": "d", "s_sext_i32_i8": "d",
    "v_swap_b32": "dd",
}  # fmt: skip


def _moved(
    b: Builder, operation: Operation, roles: str, shadows: Sequence[Value], values: Values, fields: dict[str, int]
) -> list[Value]:
    real = values() if "c" in roles else []

    def placed(moved: Sequence[Value]) -> list[Value]:
        operands = [
            real[k] if role == "c" else bits.bits(place.type)
            for k, (role, bits, place) in enumerate(zip(roles, moved, operation.operands))
        ]
        outcome = operation.evaluate(b, *operands, **fields)
        return [result for result in operation.outcomes(outcome) if isinstance(result, Value)]

    unknown = any_undefined(b, [shadow for role, shadow in zip(roles, shadows) if role == "c"])
    none = [b.constant(shadow.type, 0) for shadow in shadows]
    found = []
    for result, own in zip(placed(shadows), placed(none)):
        if result.type is MASK:
            found.append(result | unknown)
        else:
            type = bits_type(result.type)
            found.append((result.bits(type) & ~own.bits(type)) | throughout(b, unknown, type))
    return found


# Sums and products: an undefined bit spoils itself and all higher bits. Compilers widen 32-bit indices with whatever is
# in the next register and use the low half. "c" operands are shift amounts.
_SUMS: dict[str, str] = {
    **{f"v_{name}_u32": "dd" for name in ("add", "sub", "subrev", "mul_lo")},
    **{f"v_{name}_u16": "dd" for name in ("add", "sub", "subrev", "mul_lo")},
    **{f"v_{name}_co_u32": "dd" for name in ("add", "sub", "subrev")},
    **{f"s_{name}": "dd" for name in ("add_u32", "sub_u32", "add_i32", "sub_i32", "mul_i32")},
    **{f"s_lshl{amount}_add_u32": "dd" for amount in (1, 2, 3, 4)},
    "v_add3_u32": "ddd", "v_mad_u64_u32": "ddd", "v_lshl_add_u32": "dcd", "v_add_lshl_u32": "ddc",
    "v_lshl_add_u64": "dcd",
}  # fmt: skip


def _summed(b: Builder, operation: Operation, roles: str, shadows: Sequence[Value]) -> list[Value]:
    unknown = any_undefined(b, [shadow for role, shadow in zip(roles, shadows) if role == "c"])
    found = []
    for place in operation.results:
        if place.type is MASK:
            found.append(any_undefined(b, shadows))
            continue
        type = bits_type(place.type)
        total = throughout(b, unknown, type)
        for role, shadow in zip(roles, shadows):
            total = total | (shadow.to(type) if role == "d" else b.constant(type, 0))
        found.append(total | (b.constant(type, 0) - total))  # all bits from the lowest on
    return found


def _merged(
    b: Builder, operation: Operation, shadows: Sequence[Value], values: Values, fields: dict[str, int]
) -> list[Value]:
    """A result of which some bits come from the destination's old content: those that change with it."""
    old = next(k for k, place in enumerate(operation.operands) if place.implicit == "old")
    type = operation.operands[old].type
    real = values()
    outcomes = []
    for content in (0, -1):
        operands = [b.constant(type, content) if k == old else value for k, value in enumerate(real)]
        outcome = operation.evaluate(b, *operands, **fields)
        assert isinstance(outcome, Value)
        outcomes.append(outcome)
    kept = outcomes[0] ^ outcomes[1]
    new = throughout(b, any_undefined(b, [shadow for k, shadow in enumerate(shadows) if k != old]), U32)
    return [(new & ~kept) | (shadows[old] & kept)]


def _is_merge(operation: Operation) -> bool:
    has_old = any(place.implicit == "old" for place in operation.operands)
    return has_old and operation.results[0].type is U32 and "op_sel" in operation.modifiers


def _selected(b: Builder, mask: Value, x: Value, y: Value, unknown: Value) -> Value:
    """x where the mask is set, else y; undefined where the mask is."""
    return throughout(b, unknown, x.type) | b.select(mask, x, y)


# -- all of them -----------------------------------------------------------------------------------------------------


def result_shadows(
    b: Builder, operation: Operation, shadows: Sequence[Value], values: Values, fields: dict[str, int]
) -> list[Value]:
    """The shadows of an operation's results. `fields` are the modifiers that `evaluate` takes."""
    name = operation.mnemonic
    parts = name.split("_")
    if name in _MOVES and len(shadows) == len(_MOVES[name]):
        return _moved(b, operation, _MOVES[name], shadows, values, fields)
    if name in _SUMS and len(shadows) == len(_SUMS[name]):
        return _summed(b, operation, _SUMS[name], shadows)
    if name == "v_cndmask_b32":
        return [_selected(b, values()[2], shadows[1], shadows[0], shadows[2])]
    if parts[:2] in (["s", "cselect"], ["s", "cmov"], ["s", "cmovk"]):
        scc = next(k for k, place in enumerate(operation.operands) if place.implicit == "scc")
        x, y = (shadow for k, shadow in enumerate(shadows) if k != scc)
        return [_selected(b, values()[scc], x, y, shadows[scc])]
    if _is_merge(operation):
        return _merged(b, operation, shadows, values, fields)
    logic = _logic(parts[1]) if parts[-1] in ("b32", "b64") and len(shadows) == 2 else None
    if logic is None or any(place.type.is_float for place in operation.operands):
        if parts[1] == "not" and len(shadows) == 1:
            return [shadows[0], *(any_undefined(b, shadows) for _ in operation.results[1:])]
        return default_rule(b, operation, shadows)
    x, y = (value.bits(shadow.type) for value, shadow in zip(values(), shadows))
    first = logic(x, y, *shadows)
    if "saveexec" in name:  # the first result is the old EXEC, the second the combination
        return [shadows[1], first, first.ne(0)]
    return [first if place.type is not MASK else first.ne(0) for place in operation.results]
