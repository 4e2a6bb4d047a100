"""Vector ALU instructions: how operands are fetched and results written around the semantic functions.

Encodings VOP1, VOP2, VOPC, VOP3, VOP3P (packed), SDWA and DPP: AMD CDNA3 ISA, chapters 6 and 12.9.
"""

from __future__ import annotations

from collections.abc import Sequence

from ckmlir.sim import state
from ckmlir.sim.builder import Builder, Value
from ckmlir.sim.element import F32, MASK, U32, U64, ElementType
from ckmlir.sim.handler import HandlerBuilder, HandlerKey, output_denormals
from ckmlir.sim.operation import Operation, Place, Semantics
from ckmlir.sim.register_index import DESTINATION, NOT_INDEXED, destination_register, source_register
from ckmlir.sim.semantics.floating import IEEE_MODE, exponent_field

DX10_CLAMP = 8  # bit of MODE: clamping turns NaN into 0

# -- data-parallel primitives (DPP) ----------------------------------------------------------------------------------


def dpp_source_lanes(control: int) -> list[int | None]:
    """For each lane, the lane whose source operand it takes, or None where that is out of bounds (ISA, table
    "DPP_CTRL")."""
    lanes = range(state.LANES)

    def within_row(lane: int, source: int) -> int | None:
        return source if source // 16 == lane // 16 and source >= 0 else None

    amount = control & 15
    if control < 0x100:  # quad_perm
        return [lane & ~3 | (control >> 2 * (lane & 3)) & 3 for lane in lanes]
    if 0x101 <= control <= 0x10F:  # row_shl
        return [within_row(lane, lane + amount) for lane in lanes]
    if 0x111 <= control <= 0x11F:  # row_shr
        return [within_row(lane, lane - amount) for lane in lanes]
    if 0x121 <= control <= 0x12F:  # row_ror
        return [lane & ~15 | (lane - amount) & 15 for lane in lanes]
    if 0x150 <= control <= 0x15F:  # row_newbcast
        return [lane & ~15 | amount for lane in lanes]
    fixed: dict[int, list[int | None]] = {
        0x130: [lane + 1 if lane < 63 else None for lane in lanes],  # wave_shl:1
        0x134: [(lane + 1) & 63 for lane in lanes],  # wave_rol:1
        0x138: [lane - 1 if lane > 0 else None for lane in lanes],  # wave_shr:1
        0x13C: [(lane - 1) & 63 for lane in lanes],  # wave_ror:1
        0x140: [lane ^ 15 for lane in lanes],  # row_mirror
        0x141: [lane ^ 7 for lane in lanes],  # row_half_mirror
        0x142: [lane // 16 * 16 - 1 if lane >= 16 else None for lane in lanes],  # row_bcast:15
        0x143: [31 if lane >= 32 else None for lane in lanes],  # row_bcast:31
    }
    if control not in fixed:
        raise ValueError(f"DPP control 0x{control:x} is not defined")
    return fixed[control]


class DppLanes:
    """One DPP modifier: shuffles the first source, and decides which lanes are written."""

    def __init__(self, b: HandlerBuilder) -> None:
        key = b.key
        sources = dpp_source_lanes(key.modifier("dpp_ctrl"))
        self.bound_ctrl = key.modifier("bound_ctrl")
        self.order = tuple(lane if lane is not None else 0 for lane in sources)
        rows, banks = key.modifier("row_mask", 15), key.modifier("bank_mask", 15)
        in_bounds = sum(1 << lane for lane, source in enumerate(sources) if source is not None)
        written = sum(1 << lane for lane in range(64) if rows >> lane // 16 & 1 and banks >> (lane >> 2 & 3) & 1)
        active = b.active()
        # A source lane that EXEC disables counts as out of bounds on gfx9 (ISA, "DPP").
        self.valid = b.shuffle(active, self.order) & b.mask_of_bits(str(in_bounds))
        self.write = active & b.mask_of_bits(str(written))
        if not self.bound_ctrl:
            self.write = self.write & self.valid

    def apply(self, b: HandlerBuilder, x: Value) -> Value:
        moved = b.shuffle(x, self.order)
        return b.select(self.valid, moved, b.constant(x.type, 0)) if self.bound_ctrl else moved


# -- parts of registers ----------------------------------------------------------------------------------------------

_DWORD = 6  # SDWA selection of the whole register; 0..3 are bytes, 4 and 5 words


def sdwa_field(selection: int) -> tuple[int, int]:
    """(first bit, bits) of an SDWA selection."""
    return (8 * selection, 8) if selection < 4 else (16 * (selection - 4), 16) if selection < _DWORD else (0, 32)


def narrow(b: Builder, word: Value, type: ElementType) -> Value:
    """The low bits of a u32 as a type of at most 32 bits."""
    return word.to(ElementType("u", type.bits)).bits(type) if type.is_float else word.to(type)


def widen(b: Builder, x: Value) -> Value:
    """The bit pattern of a value of at most 32 bits, as u32."""
    return x.bits(ElementType("u", x.type.bits)).to(U32)


def change_sign(b: Builder, x: Value, absolute: bool, negate: bool) -> Value:
    """Input modifiers act on the sign bit of whatever the operand is (v_cndmask and v_mov take them too)."""
    if not (absolute or negate):
        return x
    if x.type.is_float:
        x = b.absolute(x) if absolute else x
        return -x if negate else x
    sign = 1 << (x.type.bits - 1)
    bits = x.bits()
    bits = bits & (sign - 1) if absolute else bits
    return (bits ^ sign if negate else bits).bits(x.type)


# -- operands --------------------------------------------------------------------------------------------------------


def fetch_word(b: HandlerBuilder, index: int, code: str, type: ElementType, role: int = NOT_INDEXED) -> Value:
    """An operand's 32 or 64 bits in every lane, as an unsigned or float type of that width. `role` says which operand
    it is to VGPR indexing."""
    kind = code.rstrip("-|x")
    if kind == "v":
        return b.load_register(source_register(b, index, role, type.registers), type)
    if kind in ("vccz", "execz"):
        bits = b.load_scalar(state.VCC if kind == "vccz" else state.EXEC, U64)
        flag = b.assign(f"zext i1 {b.assign(f'icmp eq i64 {bits}, 0')} to i{type.bits}")
        return b.splat(ElementType("u", type.bits), flag).bits(type)
    if kind == "s":
        scalar = b.load_scalar(b.slot(index), type)
    else:
        scalar = b.slot(index)
        if type.bits == 32:
            scalar = b.assign(f"trunc i64 {scalar} to i32")
        if type.is_float:
            scalar = b.assign(f"bitcast i{type.bits} {scalar} to {b.element(type)}")
    return b.splat(type, scalar)


def fetch_mask(b: HandlerBuilder, index: int, code: str) -> Value:
    return b.mask_of_bits(b.slot(index) if code == "i" else b.load_scalar(b.slot(index), U64))


def fetch_block(b: HandlerBuilder, index: int, position: int, place: Place) -> list[Value]:
    """The registers of a block operand."""
    first = source_register(b, index, position, place.registers)
    return [
        b.load_register(b.assign(f"add i64 {first}, {number * state.VGPR_BYTES}"), place.type)
        for number in range(place.count)
    ]


def fetch(b: HandlerBuilder, index: int, position: int, place: Place, dpp: DppLanes | None) -> Value:
    """Operand slot `index`, the instruction's source number `position`, as the type the operation wants."""
    code, key, type = b.key.operands[index], b.key, place.type
    if type is MASK:
        return fetch_mask(b, index, code)
    selection = key.modifier(f"src{position}_sel", _DWORD)
    if type.bits >= 32 and selection == _DWORD:
        value = fetch_word(b, index, code, type, position)
    else:
        word = fetch_word(b, index, code, U32, position)
        first, bits = sdwa_field(selection)
        if key.modifier("op_sel") >> position & 1 and type.bits == 16:
            first, bits = 16, 16
        word = word >> first if first else word
        if bits < 32:
            word = b.sign_extend(word, bits) if "x" in code else word & ((1 << bits) - 1)
        value = narrow(b, word, type)
    if dpp and position == 0:
        value = dpp.apply(b, value)
    return change_sign(b, value, "|" in code, "-" in code)


def fetch_implicit(b: HandlerBuilder, operation: Operation, place: Place) -> Value:
    """An operand that the assembly text does not show."""
    if place.implicit == "vcc":
        return b.mask_of_bits(b.load_scalar(state.VCC, U64))
    if place.implicit == "lanes":
        return b.active()
    assert place.implicit == "old", f"{operation.mnemonic}: {place}"
    if place.type.bits < 32:
        return narrow(b, fetch_word(b, 0, "v", U32, DESTINATION), place.type)
    return fetch_word(b, 0, "v", place.type, DESTINATION)


def named(places: Sequence[Place]) -> int:
    """How many of these have an operand in the assembly text."""
    return sum(not place.implicit for place in places)


def fetch_all(b: HandlerBuilder, operation: Operation, dpp: DppLanes | None) -> list[Value | list[Value]]:
    index, position = named(operation.results), 0
    values: list[Value | list[Value]] = []
    for place in operation.operands:
        if place.count > 1:
            values.append(fetch_block(b, index, position, place))
            index, position = index + 1, position + 1
            continue
        if place.implicit:
            value = fetch_implicit(b, operation, place)
        else:
            value = fetch(b, index, position, place, dpp)
            index, position = index + 1, position + 1
        values.append(value if operation.raw else b.flushed_by_mode(value, result=False))
    return values


# -- results ---------------------------------------------------------------------------------------------------------


def scaled_and_clamped(b: HandlerBuilder, result: Value) -> Value:
    """Output modifiers of float results: omod (1: times 2, 2: times 4, 3: half), then clamp to [0, 1].

    The hardware ignores omod in IEEE mode, which the default mode is, and where output denormals are kept; otherwise it
    makes denormals and -0 +0 (AMD CDNA3 ISA, section 6.2.2; LLVM, SIFoldOperands::isOMod).
    """
    omod = b.key.modifier("omod")
    if omod and b.dynamic_mode:
        applies = ~b.mode_flag(IEEE_MODE) & ~b.mode_flag(output_denormals(result.type))
        scaled = result * {1: 2.0, 2: 4.0, 3: 0.5}[omod]
        scaled = b.select(exponent_field(scaled).eq(0), b.constant(result.type, 0.0), scaled)
        result = b.select(applies, scaled, result)
    result = b.flushed_by_mode(result, result=True)
    if b.key.modifier("clamp"):
        low, high = b.constant(result.type, 0.0), b.constant(result.type, 1.0)
        clamped = b.select(result > 0.0, b.select(result < 1.0, result, high), low)
        result = b.select(b.is_nan(result) & ~b.mode_flag(DX10_CLAMP), result, clamped)
    return result


def write_part(b: HandlerBuilder, offset: str, result: Value, mask: Value, keeps_high: bool) -> None:
    """A result narrower than its register, or with an SDWA or op_sel destination."""
    key = b.key
    word = widen(b, result)
    selection = key.modifier("dst_sel", _DWORD)
    kept = 0  # bits of the old content that stay
    if selection != _DWORD:
        first, bits = sdwa_field(selection)
        unused = key.modifier("dst_unused")  # 0 zeros, 1 sign extension upwards, 2 preserve
        part = word & ((1 << bits) - 1)
        if unused == 1:
            part = b.sign_extend(part, bits)
        elif unused == 2:
            kept = ~(((1 << bits) - 1) << first) & 0xFFFFFFFF
        word = part << first
    elif result.type.bits == 16 and key.modifier("op_sel") & 8:
        word, kept = word << 16, 0xFFFF
    elif result.type.bits == 16 and keeps_high:
        kept = 0xFFFF0000
    if kept:
        b.merge_register(offset, word | (b.load_register(offset, U32) & kept), mask)
    else:
        b.store_register(offset, word, mask)


def write_all(b: HandlerBuilder, operation: Operation, results: Sequence[Value | list[Value]], mask: Value) -> None:
    index = 0
    for place, result in zip(operation.results, results):
        if isinstance(result, list):
            offset, written = destination_register(b, index, place.registers, mask)
            for number, value in enumerate(result):
                b.store_register(b.assign(f"add i64 {offset}, {number * state.VGPR_BYTES}"), value, written)
        elif place.type is MASK:
            bits = b.bits_of_mask(result & mask)  # lanes that DPP disables are like inactive ones
            b.store_scalar(state.EXEC if place.implicit == "lanes" else b.slot(index), bits, U64)
        else:
            offset, written = destination_register(b, index, place.registers, mask)
            if result.type.bits < 32 or (result.type.bits == 32 and "dst_sel" in dict(b.key.modifiers)):
                write_part(b, offset, result, written, operation.keeps_high)
            elif operation.merges_old:
                b.merge_register(offset, result.bits(U32), written)
            else:
                b.store_register(offset, result, written)
        index += not place.implicit


# -- packed ----------------------------------------------------------------------------------------------------------


def packed_element(b: HandlerBuilder, index: int, position: int, half: int, type: ElementType) -> Value:
    """The element of a source that half `half` of the result reads."""
    key, code = b.key, b.key.operands[index]
    chosen = key.modifier("op_sel_hi" if half else "op_sel", 7 * half) >> position & 1
    if type is F32:
        if code == "v":
            offset = source_register(b, index, position, 2)
            value = b.load_register(b.assign(f"add i64 {offset}, {chosen * state.VGPR_BYTES}"), F32)
        elif code == "s":
            value = b.splat(F32, b.load_scalar(b.assign(f"add i64 {b.slot(index)}, {4 * chosen}"), F32))
        else:  # an inline constant serves both halves
            value = fetch_word(b, index, code, F32)
    else:
        word = fetch_word(b, index, code, U32, position)
        value = narrow(b, word >> 16 if chosen else word, type)
    return change_sign(b, value, False, bool(key.modifier("neg_hi" if half else "neg_lo") >> position & 1))


def evaluate_packed(b: HandlerBuilder, operation: Operation, semantics: Semantics) -> Value:
    halves = []
    for half in range(2):
        elements = [packed_element(b, 1 + k, k, half, place.type) for k, place in enumerate(operation.operands)]
        elements = [b.flushed_by_mode(element, result=False) for element in elements]
        result = semantics(b, *elements)
        assert isinstance(result, Value)
        halves.append(scaled_and_clamped(b, result) if result.type.is_float else result)
    low, high = halves
    if low.type is F32:
        return b.join(low.bits(), high.bits())
    return widen(b, low) | (widen(b, high) << 16)


# -- the handler -----------------------------------------------------------------------------------------------------


def emit_vector(key: HandlerKey, operation: Operation, name: str) -> tuple[str, set[str]]:
    """The text of a vector ALU handler and the declarations it needs."""
    b = HandlerBuilder(key)
    dpp = DppLanes(b) if "dpp_ctrl" in dict(key.modifiers) else None
    mask = dpp.write if dpp else b.active()
    clamps = key.modifier("clamp") and operation.saturated is not None
    semantics = operation.saturated if clamps else operation.evaluate
    assert semantics is not None
    if operation.packed:
        result = evaluate_packed(b, operation, semantics)
        offset, mask = destination_register(b, 0, result.type.registers, mask)
        b.store_register(offset, result, mask)
    else:
        operands = fetch_all(b, operation, dpp)
        fields = {field: key.modifier(field) for field in operation.modifiers}
        results = operation.outcomes(semantics(b, *operands, **fields))
        if not operation.raw:
            results = [
                scaled_and_clamped(b, result) if isinstance(result, Value) and result.type.is_float else result
                for result in results
            ]
        write_all(b, operation, results, mask)
    if b.dynamic_mode:
        return b.function_with_rounding(name, rounding_field(operation)), b.text.declarations
    b.next()
    return b.function(name), b.text.declarations


def rounding_field(operation: Operation) -> int:
    """First bit of the MODE field that rounds this operation: f32, or f64 and f16 together."""
    floats = [place.type for place in operation.results + operation.operands if place.type.is_float]
    return 0 if floats and floats[0] is F32 else 2
