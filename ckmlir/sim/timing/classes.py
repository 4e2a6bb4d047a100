"""What the model knows of each instruction of a program: unit, cycles, registers that matter, counters.

Registers and counters come from `sim.analysis.effects`, matrix instructions from `matrix_passes` and the wait states of
`matrix_hazards`; what is here is the step from those to cycles. A wave issues one instruction a turn of its SIMD, so
results that are there after a turn never hold anything up. Only those of slow instructions (matrix and
transcendental ones above all) are followed, in groups of registers that these instructions always write together.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from ckmlir.sim.analysis.effects import Category, Counter, Effects, Kind, effects_of
from ckmlir.sim.analysis.hazard_rule import TRANSCENDENTAL, Described
from ckmlir.sim.analysis.matrix_hazards import result_states
from ckmlir.sim.analysis.registers import VECTOR_REGISTERS, RegisterSet, registers_of
from ckmlir.sim.decode import Instruction
from ckmlir.sim.decode.operands import WAIT_COUNTS
from ckmlir.sim.timing.events import Unit

if TYPE_CHECKING:
    from ckmlir.sim.timing.parameters import Parameters
    from ckmlir.sim.timing.recording import TracedInstruction

Integers: TypeAlias = npt.NDArray[np.int64]
Program: TypeAlias = "tuple[TracedInstruction, ...]"


class Role:
    """How an instruction uses a register that a slow one wrote."""

    OTHER, FACTOR, ACCUMULATOR = 0, 1, 2


class Action:
    """What an instruction does to its wave besides using a unit."""

    NONE, WAIT, PAUSE, BARRIER, END, PRIORITY = 0, 1, 2, 3, 4, 5


NO_WAIT: Final = 1 << 20
"""What an s_waitcnt allows of a counter that it does not name."""
VM, LGKM_LDS, LGKM_SMEM = 1, 2, 4  # bits of Code.counts


class Code(NamedTuple):
    """All instructions of a program, an entry of each array an instruction; cycles count from issue.

    Attributes:
        unit: A `Unit`.
        busy: Cycles that the unit takes no other instruction (of LDS and memory, what is known without addresses).
        holds_valu: Cycles that the SIMD issues no other vector instruction.
        ready: Cycles until a result may be read, [0]; be factor A or B, [1]; be added to in the same registers, [2], or
            in others that overlap, [3].
        written, added: The first register and number of those a matrix instruction writes, and adds to; -1 otherwise.
        uses_first, uses, roles: Groups of registers that it has to wait for, from uses_first[i] to uses_first[i + 1].
        writes_first, writes: Groups that it writes, if it is slow.
        action, amount: An `Action`, and cycles (PAUSE) or the priority.
        vm, lgkm: What an s_waitcnt allows.
        counts: Counters it increments: VM | LGKM_LDS | LGKM_SMEM.
        address, size: In the code.
        groups: How many groups of registers there are.
    """

    unit: Integers
    busy: Integers
    holds_valu: Integers
    ready: Integers
    written: Integers
    added: Integers
    uses_first: Integers
    uses: Integers
    roles: Integers
    writes_first: Integers
    writes: Integers
    action: Integers
    amount: Integers
    vm: Integers
    lgkm: Integers
    counts: Integers
    address: Integers
    size: Integers
    groups: int


_TRANSCENDENTAL: Final = re.compile(TRANSCENDENTAL)
_INTEGER_PRODUCT: Final = re.compile(r"v_mul_(lo|hi)_[iu]32|v_mad_(u64_u32|i64_i32)")
"""LLVM SISchedule.td: WriteTrans32 and WriteTrans64; WriteIntMul."""
_UNITS: Final = {
    Category.VALU: Unit.VALU, Category.MATRIX: Unit.MFMA, Category.SALU: Unit.SALU, Category.SMEM: Unit.SMEM,
    Category.VMEM: Unit.VMEM, Category.LDS: Unit.LDS, Category.CONTROL: Unit.INTERNAL,
}  # fmt: skip


def unit_of(instruction: Instruction) -> Unit:
    """The unit that executes an instruction. Flat accesses go to memory."""
    category = effects_of(instruction).category
    if category is Category.VALU and _TRANSCENDENTAL.fullmatch(instruction.mnemonic):
        return Unit.TRANS
    if category is Category.CONTROL:
        if instruction.branch_target is not None or "pc_b64" in instruction.mnemonic:
            return Unit.BRANCH
        return Unit.MESSAGE if instruction.mnemonic.startswith("s_sendmsg") else Unit.INTERNAL
    return _UNITS[category]


class _Times(NamedTuple):
    busy: int
    holds_valu: int
    ready: tuple[int, int, int, int]


def _times(one: Described, unit: Unit, parameters: Parameters) -> _Times:
    """Cycles of an instruction, by its name."""
    turn = parameters.integer("compute_unit.turn")
    if unit is Unit.MFMA:
        busy = one.passes * parameters.integer("mfma.pass")
        states = result_states(one)
        read, factor, same, overlapping = ((count + 1) * turn for count in states)
        return _Times(busy, turn if one.is_xdl else busy, (read, factor, same, overlapping))
    if unit is Unit.TRANS:
        busy = parameters.integer("trans.cycles")
        return _Times(busy, parameters.integer("trans.holds_valu"), (busy,) * 4)
    if unit is Unit.VALU:
        product = _INTEGER_PRODUCT.fullmatch(one.name) is not None
        busy = parameters.integer("valu.integer_product_cycles" if product else "valu.cycles")
        return _Times(busy, busy, (max(busy, parameters.integer("valu.latency")),) * 4)
    name = {Unit.SALU: "salu.cycles", Unit.SMEM: "smem.interval", Unit.MESSAGE: "message.cycles"}.get(unit)
    return _Times(parameters.integer(name) if name else turn, 0, (turn,) * 4)


def _action(instruction: Instruction, turn: int) -> tuple[int, int]:
    """The Action of an instruction and its amount."""
    name, operand = instruction.mnemonic, instruction.sources[0].index if instruction.sources else 0
    if name == "s_waitcnt":
        return Action.WAIT, 0
    if name == "s_nop":
        return Action.PAUSE, turn * ((operand & 15) + 1)
    if name == "s_sleep":  # about 64 * SIMM16[6:0] cycles (CDNA3 ISA, S_SLEEP)
        return Action.PAUSE, max(turn, 64 * (operand & 127))
    if name == "s_barrier":
        return Action.BARRIER, 0
    if name.startswith("s_endpgm"):
        return Action.END, 0
    return (Action.PRIORITY, operand & 3) if name == "s_setprio" else (Action.NONE, 0)


def _counts(effects: Effects) -> int:
    """The counters that an instruction increments."""
    found = 0
    for counter, kind in effects.events:
        if counter is Counter.VM:
            found |= VM
        elif counter is Counter.LGKM:
            found |= LGKM_SMEM if kind in (Kind.SMEM, Kind.MESSAGE) else LGKM_LDS
    return found


def _range(registers: RegisterSet) -> int:
    """A number for a run of registers: the first and how many."""
    return (registers & -registers).bit_length() << 16 | registers.bit_count() if registers else -1


def _uses(one: Described) -> Iterator[tuple[RegisterSet, int]]:
    """Vector registers that an instruction needs, by Role. What it overwrites it has to wait for as well."""
    if one.is_matrix:
        factors = 0
        for position, operand in enumerate(one.instruction.sources):
            if position != 2 or one.name.startswith("v_smfmac"):
                factors |= registers_of(operand)
        yield factors & VECTOR_REGISTERS, Role.FACTOR
        yield one.accumulator & VECTOR_REGISTERS, Role.ACCUMULATOR
    else:
        yield (one.effects.named_reads | one.effects.writes) & VECTOR_REGISTERS, Role.OTHER


def _register_groups(written: Sequence[RegisterSet]) -> list[RegisterSet]:
    """The coarsest sets of registers of which each of `written` takes all or none."""
    groups: list[RegisterSet] = []
    for registers in dict.fromkeys(written):
        split = []
        for group in groups:
            split += [part for part in (group & registers, group & ~registers) if part]
            registers &= ~group
        groups = split + ([registers] if registers else [])
    return groups


def _lists(rows: Sequence[Sequence[int]]) -> tuple[Integers, Integers]:
    """Rows of different lengths as one array, and where each starts."""
    starts = np.cumsum([0, *(len(row) for row in rows)])
    return np.array([item for row in rows for item in row], np.int64), starts.astype(np.int64)


_known: Final[dict[object, tuple[Program, Code]]] = {}
"""The programs described last, since one is often simulated many times with changes elsewhere."""
_MOST_KNOWN: Final = 16
_READ: Final = ("compute_unit.turn", "mfma.", "trans.", "valu.", "salu.", "smem.interval", "message.")


def describe(program: Program, parameters: Parameters) -> Code:
    """The arrays of the program of a trace. Nobody may change them."""
    numbers = tuple(one.value for name, one in sorted(parameters.items()) if name.startswith(_READ))
    key = (parameters.target, numbers, id(program))  # which nobody else has as long as it is kept here
    if key not in _known:
        if len(_known) >= _MOST_KNOWN:
            _known.pop(next(iter(_known)))
        _known[key] = program, _describe([one.instruction for one in program], parameters)
    return _known[key][1]


def _describe(instructions: Sequence[Instruction], parameters: Parameters) -> Code:
    turn = parameters.integer("compute_unit.turn")
    described = [Described(one, effects_of(one)) for one in instructions]
    units = [unit_of(one) for one in instructions]
    times = [_times(*pair, parameters) for pair in zip(described, units)]
    slow = [max(one.ready) > turn for one in times]
    written = [one.effects.writes & VECTOR_REGISTERS if is_slow else 0 for one, is_slow in zip(described, slow)]
    groups = _register_groups([registers for registers in written if registers])
    members = [[number for number, group in enumerate(groups) if group & registers] for registers in written]
    found = [
        [(number, role) for registers, role in _uses(one) for number, group in enumerate(groups) if group & registers]
        for one in described
    ]
    uses, uses_first = _lists([[number for number, _ in row] for row in found])
    roles, _ = _lists([[role for _, role in row] for row in found])
    writes, writes_first = _lists(members)
    actions = [_action(one, turn) for one in instructions]

    def array(values: Sequence[Any]) -> Integers:
        return np.array(values, np.int64)

    def allowed(one: Instruction, counter: str) -> int:
        most = WAIT_COUNTS[counter]
        count = one.modifiers.get(counter, most) if one.mnemonic == "s_waitcnt" else most
        return NO_WAIT if count >= most else count

    return Code(
        unit=array(units),
        busy=array([one.busy for one in times]),
        holds_valu=array([one.holds_valu for one in times]),
        ready=array([one.ready for one in times]).reshape(-1, 4),
        written=array([_range(registers) for registers in written]),
        added=array([_range(one.accumulator & VECTOR_REGISTERS) if one.is_matrix else -1 for one in described]),
        uses_first=uses_first,
        uses=uses,
        roles=roles,
        writes_first=writes_first,
        writes=writes,
        action=array([action for action, _ in actions]),
        amount=array([amount for _, amount in actions]),
        vm=array([allowed(one, "vmcnt") for one in instructions]),
        lgkm=array([allowed(one, "lgkmcnt") for one in instructions]),
        counts=array([_counts(one.effects) for one in described]),
        address=array([one.address for one in instructions]),
        size=array([one.size for one in instructions]),
        groups=len(groups),
    )
