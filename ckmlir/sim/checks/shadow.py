"""Shadow records: what stands before an instruction's own record when initialisation is checked.

Four kinds of shadow handlers: simple operations (`shadow_alu.py`); memory instructions and lane exchanges, whose own
emitters run under the shadow builder; conditional branches; and whatever is left (matrix instructions among it), whose
results are undefined throughout if an operand is undefined anywhere.

Most handlers end after a look at one byte a register: nothing is undefined, nothing will be.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from ckmlir.sim import state
from ckmlir.sim.alu_families import EmitterFamily
from ckmlir.sim.checks.layout import Kind
from ckmlir.sim.checks.observe import note, note_if_any
from ckmlir.sim.checks.shadow_alu import implicit_shadow, operation_shadow, plain_key
from ckmlir.sim.checks.shadow_builder import DATA_SLOTS, ShadowBuilder, data_slots
from ckmlir.sim.decode.instruction import Instruction, Operand
from ckmlir.sim.element import U32, U64
from ckmlir.sim.families import FAMILIES
from ckmlir.sim.handler import PROTOTYPE, HandlerBuilder, HandlerKey
from ckmlir.sim.operation import OPERATIONS
from ckmlir.sim.selected import Selected
from ckmlir.sim.state import register_offset, scalar_offset

_EMITTED = re.compile("|".join(pattern for pattern, _ in DATA_SLOTS))
_MEMORY = re.compile("ds_|global|flat|scratch|t?buffer|s_(buffer_|scratch_)?(load|store|atomic)_")
_CONDITIONS = {
    "s_cbranch_scc0": state.SCC, "s_cbranch_scc1": state.SCC,
    "s_cbranch_vccz": state.VCC, "s_cbranch_vccnz": state.VCC,
}  # fmt: skip
_EXEC = 126


class Range(NamedTuple):
    """Registers from a slot's on: "v" or "s", how many are written and read. Two operands may start at one register, as
    data and address of a load do: then the longest read is that of the data, the shortest that of the address."""

    kind: str
    written: int = 0
    longest_read: int = 0
    shortest_read: int = 0

    def with_operand(self, count: int, written: bool) -> Range:
        if written:
            return self._replace(written=max(self.written, count))
        shortest = min(self.shortest_read or count, count)
        return self._replace(longest_read=max(self.longest_read, count), shortest_read=shortest)

    @property
    def length(self) -> int:
        return max(self.written, self.longest_read)

    def encoded(self) -> int:
        return self.written << 16 | self.longest_read << 8 | self.shortest_read


def _is_register(operand: Operand) -> bool:
    return operand.kind in ("v", "a") or (operand.kind == "s" and scalar_offset(operand.index) is not None)


def _ranges(instruction: Instruction) -> dict[int, Range]:
    """What an instruction does with registers, by the byte offset of the first."""
    found: dict[int, Range] = {}
    for operands, written in ((instruction.destinations, True), (instruction.sources, False)):
        for operand in filter(_is_register, operands):
            offset = register_offset(operand)
            before = found.get(offset, Range("s" if operand.kind == "s" else "v"))
            found[offset] = before.with_operand(operand.count, written)
    return found


def shadow_record(instruction: Instruction, selected: Selected) -> Selected | None:
    """The record to put before an instruction's own, or None if it touches nothing that has a shadow."""
    name, ranges = instruction.mnemonic, _ranges(instruction)
    if name in _CONDITIONS:
        return Selected(HandlerKey("shadow_condition", (), (("register", _CONDITIONS[name]), ("shadow", 1))))
    if selected.key.mnemonic in ("no_operation", "s_sleep"):
        return None
    modelled = name in OPERATIONS and not OPERATIONS[name].has_blocks
    if modelled or _EMITTED.match(name):
        key, slots = selected.key, selected.slots
    elif ranges:
        slots = tuple(ranges)[: state.MAX_OPERANDS]
        key = HandlerKey("shadow_mixture", tuple(ranges[slot].kind for slot in slots))
    else:
        return None
    fields = {"shadow": 1}
    for index, (slot, code) in enumerate(zip(slots, key.operands)):
        if code[0] in "vs" and code not in ("vccz",) and slot in ranges:
            fields[f"range{index}"] = ranges[slot].encoded()
    if any(operand.kind == "s" and operand.index in (_EXEC, _EXEC + 1) for operand in instruction.destinations):
        fields["exec_result"] = 1
    modifiers = {name: number for name, number in key.modifiers if name != "checks"} | fields
    return Selected(key._replace(modifiers=tuple(sorted(modifiers.items()))), slots)


def _key_ranges(key: HandlerKey) -> dict[int, Range]:
    found = {}
    for index, code in enumerate(key.operands):
        if encoded := key.modifier(f"range{index}"):
            found[index] = Range(code[0], encoded >> 16, encoded >> 8 & 255, encoded & 255)
    return found


# -- handlers --------------------------------------------------------------------------------------------------------


def emit_shadow(key: HandlerKey, name: str) -> tuple[str, set[str]]:
    """The text of a shadow handler and the declarations it needs."""
    if key.mnemonic == "shadow_condition":
        b = ShadowBuilder(key, 0)
        _condition(b)
    elif key.mnemonic == "shadow_mixture":
        b = ShadowBuilder(key, 0)
        _begin(b)
        _mixture(b)
    elif key.mnemonic in OPERATIONS:
        operation = OPERATIONS[key.mnemonic]
        b = ShadowBuilder(plain_key(key), 64 if operation.is_vector else 0)
        _begin(b)
        _skip_if_defined(b, implicit_shadow(b, operation))
        operation_shadow(b, operation)
    else:
        b = _emitted(key)
    _end(b)
    body = "\n".join(b.text.lines)
    return f"define i32 @{name}({PROTOTYPE}) #0 {{\nentry:\n{body}\n}}\n", b.text.declarations


def _begin(b: ShadowBuilder) -> None:
    """Load in the entry block whatever later blocks share."""
    b.shadow_of_wave()
    for index in range(len(b.key.operands)):
        b.slot(index)
    b.exec_bits()


def _skip_if_defined(b: ShadowBuilder, total: str = "0") -> None:
    """Go to the end if no register of the instruction has an undefined bit."""
    for index, registers in _key_ranges(b.key).items():
        total = b.assign(f"or i64 {total}, {b.undefined_registers(index, registers.kind, registers.length)}")
    b.emit(f"br i1 {b.assign(f'icmp eq i64 {total}, 0')}, label %end, label %work")
    b.label("work")


def _end(b: ShadowBuilder) -> None:
    for index, registers in _key_ranges(b.key).items():
        if registers.written and registers.kind == "v":
            b.note_mixed(index, registers.written)
    b.emit("br label %end")
    b.label("end")
    HandlerBuilder.next(b)


def _mixture(b: ShadowBuilder) -> None:
    _skip_if_defined(b)
    total = "0"
    for index, registers in _key_ranges(b.key).items():
        if registers.longest_read:
            undefined = b.undefined_registers(index, registers.kind, registers.longest_read)
            total = b.assign(f"or i64 {total}, {undefined}")
    word = b.assign(f"sext i1 {b.assign(f'icmp ne i64 {total}, 0')} to i32")
    vectors = b.vectors()
    for index, registers in _key_ranges(b.key).items():
        for k in range(registers.written):
            step = state.VGPR_BYTES if registers.kind == "v" else 4
            offset = b.assign(f"add i64 {b.slot(index)}, {k * step}")
            if registers.kind == "v":
                vectors.store_register(offset, vectors.splat(U32, word), None)
            else:
                b.store_scalar(offset, word, U32)


def _condition(b: ShadowBuilder) -> None:
    """A conditional branch on SCC or VCC."""
    b.shadow_of_wave()
    register = b.key.modifier("register")
    type = U32 if register == state.SCC else U64
    bits = b.load_scalar(register, type)
    b.emit(f"br i1 {b.assign(f'icmp eq {b.element(type)} {bits}, 0')}, label %end, label %work")
    b.label("work")
    note(b, Kind.UNDEFINED_CONDITION, "0", "0")
    b.store_scalar(register, "0", type)


def _emitted(key: HandlerKey) -> ShadowBuilder:
    """A memory instruction or lane exchange: its own emitter on shadows."""
    data = data_slots(key.mnemonic)
    where = frozenset(index for index in range(state.MAX_OPERANDS) if index not in data)
    family, emitter = next(
        (family, emitter)
        for family in FAMILIES
        if isinstance(family, EmitterFamily) and (emitter := family.emitter(key)) is not None
    )
    b = ShadowBuilder(key, 0 if family.scalar else 64, None, where)
    _begin(b)
    if _MEMORY.match(key.mnemonic):
        _report_addresses(b, where)
    else:
        _skip_if_defined(b)
    emitter(b)
    return b


def _report_addresses(b: ShadowBuilder, where: frozenset[int]) -> None:
    """Undefined bits in registers that say where memory is accessed, in an active lane."""
    for index, registers in _key_ranges(b.key).items():
        if index not in where:
            continue
        total = b.undefined_registers(index, registers.kind, registers.shortest_read)
        found, join = b.new_label("undefined_address"), b.new_label("address_done")
        b.emit(f"br i1 {b.assign(f'icmp ne i64 {total}, 0')}, label %{found}, label %{join}")
        b.label(found)
        lanes = "1" if b.key.mnemonic.startswith("s_") else b.exec_bits()
        if registers.kind == "v":
            vectors, bits = b.vectors(), b.vectors().u32(0)
            for k in range(registers.shortest_read):
                offset = b.assign(f"add i64 {b.real_slot(index)}, {k * state.VGPR_BYTES}")
                bits = bits | vectors.load_register(offset, U32)
            lanes = b.assign(f"and i64 {lanes}, {vectors.bits_of_mask(bits.ne(0))}")
        note_if_any(b, Kind.UNDEFINED_ADDRESS, lanes, noted=False)
        b.emit(f"br label %{join}")
        b.label(join)
