"""Instructions that the simulator refuses on purpose, with the reason. Everything else in the opcode table executes."""

from __future__ import annotations

import re

from ckmlir.sim.decode.instruction import Instruction
from ckmlir.sim.decode.operands import HARDWARE_REGISTERS

_NO_WAVE_SYNC = "global wave sync needs a resource that the driver sets up for waves of several workgroups"
_TRAP_HANDLER = "belongs to trap handlers, which the simulator does not run; a trap is an error"
_REASONS: dict[str, str] = {
    r"ds_gws_\w+": _NO_WAVE_SYNC,
    r"s_rfe_b64|s_rfe_restore_b64": _TRAP_HANDLER,
    r"v_screen_partition_4se_b32": "graphics; the table it looks up is not published for these chips",
    r"s_sendmsghalt": "halts the wave until a debugger or the driver resumes it",
}
_INTERRUPT = 1
MODE = 1  # number of the hardware register


def refusal(instruction: Instruction) -> str | None:
    """Why an instruction cannot be simulated, or None if nothing speaks against it."""
    for pattern, reason in _REASONS.items():
        if re.fullmatch(pattern, instruction.mnemonic):
            return reason
    value = instruction.modifiers.get("simm16", 0)
    if instruction.mnemonic == "s_sendmsg" and value != _INTERRUPT:
        return f"message {value & 15} goes to graphics hardware or the driver; only an interrupt can be ignored"
    if instruction.mnemonic == "s_sethalt" and value & 1:
        return _REASONS["s_sendmsghalt"]
    register = next((item.index & 63 for item in instruction.sources if item.text.startswith("hwreg")), MODE)
    if register not in HARDWARE_REGISTERS:
        return f"hardware register {register} is none of these chips"
    if instruction.encoding == "DS" and instruction.modifiers.get("gds"):
        return "global data share, which these chips do not have"
    return None
