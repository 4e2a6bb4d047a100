"""From a decoded instruction to its handler: the first family that knows the mnemonic takes it."""

from __future__ import annotations

from ckmlir.sim.alu_families import AluFamily, ControlFamily, CrossLaneFamily, Emitted, MatrixFamily
from ckmlir.sim.decode.instruction import Instruction
from ckmlir.sim.handler import HandlerKey
from ckmlir.sim.memory_families import BufferFamily, FlatFamily, LdsFamily, ScalarMemoryFamily
from ckmlir.sim.selected import Environment, Selected, Unsupported

Family = (
    AluFamily
    | ControlFamily
    | CrossLaneFamily
    | MatrixFamily
    | ScalarMemoryFamily
    | LdsFamily
    | FlatFamily
    | BufferFamily
)
FAMILIES: tuple[Family, ...] = (
    AluFamily(),
    ControlFamily(),
    CrossLaneFamily(),
    MatrixFamily(),
    ScalarMemoryFamily(),
    LdsFamily(),
    FlatFamily(),
    BufferFamily(),
)


def select(instruction: Instruction, environment: Environment) -> Selected | None:
    """The handler and slots of an instruction, or None if the simulator has no semantics for it."""
    try:
        for family in FAMILIES:
            if (selected := family.select(instruction, environment)) is not None:
                return selected
    except Unsupported:
        pass
    return None


def emit(key: HandlerKey, name: str) -> Emitted:
    """The text of a handler as function `name`."""
    for family in FAMILIES:
        if (emitted := family.emit(key, name)) is not None:
            return emitted
    raise ValueError(f"no family emits {key}")


TRAP = HandlerKey("s_trap", ("i",))
"""What closes an array of records."""
