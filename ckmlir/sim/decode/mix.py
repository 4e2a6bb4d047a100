"""What a piece of code consists of: its instructions counted by category."""

from collections.abc import Iterable
from typing import Final

from ckmlir.sim.decode.instruction import Instruction

CATEGORIES: Final = (
    "mfma", "valu", "salu", "vmem", "lds", "smem", "branch", "wait", "barrier", "nop", "accvgpr_move", "vmov",
)  # fmt: skip
"""In the order of reports. `vmov` and `accvgpr_move` are register moves, which `valu` does not count again."""

_BY_ENCODING = {
    "MFMA": "mfma",
    "DS": "lds",
    "SMEM": "smem",
    "FLAT": "vmem",
    "GLOBAL": "vmem",
    "SCRATCH": "vmem",
    "MUBUF": "vmem",
    "MTBUF": "vmem",
}
_BY_MNEMONIC = {
    "s_waitcnt": "wait",
    "s_barrier": "barrier",
    "s_nop": "nop",
    "v_nop": "nop",
    "s_setpc_b64": "branch",
    "s_swappc_b64": "branch",
    "s_endpgm": "branch",
    "v_mov_b32": "vmov",
    "v_mov_b64": "vmov",
    "v_pk_mov_b32": "vmov",
    "v_accvgpr_read_b32": "accvgpr_move",
    "v_accvgpr_write_b32": "accvgpr_move",
    "v_accvgpr_mov_b32": "accvgpr_move",
}


def category(instruction: Instruction) -> str:
    """The category of an instruction, one of CATEGORIES. A DPP or SDWA move computes, so it is `valu`."""
    if instruction.encoding in ("DPP", "SDWA"):
        return "valu"
    known = _BY_MNEMONIC.get(instruction.mnemonic) or _BY_ENCODING.get(instruction.encoding)
    if known:
        return known
    if instruction.branch_target is not None:
        return "branch"
    return "salu" if instruction.encoding.startswith("SO") else "valu"


def instruction_mix(instructions: Iterable[Instruction]) -> dict[str, int]:
    """Number of instructions of each category, all categories named."""
    counts = dict.fromkeys(CATEGORIES, 0)
    for instruction in instructions:
        counts[category(instruction)] += 1
    return counts
