"""From a decoded instruction to its handler: the first family that knows the mnemonic takes it."""

from __future__ import annotations

from msgspec.structs import replace

from ckmlir.sim import step_recording, wave_turns
from ckmlir.sim.alu_families import Emitted
from ckmlir.sim.checks.shadow import emit_shadow
from ckmlir.sim.checks.wait_handlers import PREFIX as WAIT_PREFIX
from ckmlir.sim.checks.wait_handlers import emit_wait
from ckmlir.sim.decode.instruction import Instruction
from ckmlir.sim.families import FAMILIES
from ckmlir.sim.handler import HandlerKey
from ckmlir.sim.refused import refusal
from ckmlir.sim.selected import Environment, Selected, Unsupported

_VECTOR_ENCODINGS = frozenset((
    "VOP1", "VOP2", "VOPC", "VOP3", "VOP3P", "SDWA", "DPP", "MFMA", "DS", "FLAT", "GLOBAL", "SCRATCH", "MUBUF", "MTBUF",
))  # fmt: skip


def select(instruction: Instruction, environment: Environment) -> Selected | None:
    """The handler and slots of an instruction, or None if the simulator does not execute it (`why_not` says why)."""
    try:
        return _select(instruction, environment)
    except Unsupported:
        return None


def why_not(instruction: Instruction, environment: Environment) -> str:
    """Why `select` finds no handler for an instruction."""
    try:
        selected = _select(instruction, environment)
    except Unsupported as error:
        return str(error)
    return "it has no semantics here" if selected is None else "it branches to where no instruction starts"


def _select(instruction: Instruction, environment: Environment) -> Selected | None:
    if reason := refusal(instruction):
        raise Unsupported(reason)
    for family in FAMILIES:
        if (selected := family.select(instruction, environment)) is not None:
            if environment.skips and instruction.encoding in _VECTOR_ENCODINGS:
                modifiers = tuple(sorted((*selected.key.modifiers, ("skips", 1))))
                return replace(selected, key=selected.key._replace(modifiers=modifiers))
            return selected
    return None


def emit(key: HandlerKey, name: str) -> Emitted:
    """The text of a handler as function `name`."""
    if key.modifier("shadow"):
        return emit_shadow(key, name)
    if key == step_recording.RUN:
        return step_recording.emit_run(name)
    if key == wave_turns.TURN:
        return wave_turns.emit_turn(name)
    if key.mnemonic.startswith(WAIT_PREFIX):
        return emit_wait(key, name)
    for family in FAMILIES:
        if (emitted := family.emit(key, name)) is not None:
            return emitted
    raise ValueError(f"no family emits {key}")


TRAP = HandlerKey("s_trap", ("i",))
"""What closes an array of records."""
