"""What a launch did: counts of executed instructions and of bytes moved."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

from ckmlir.sim.control import NO_OPERATION
from ckmlir.sim.decode.instruction import Instruction

_SCALAR = ("SOP1", "SOP2", "SOPC", "SOPK")
_MEMORY = {
    "FLAT": "vmem",
    "GLOBAL": "vmem",
    "SCRATCH": "vmem",
    "MUBUF": "vmem",
    "MTBUF": "vmem",
    "DS": "lds",
    "SMEM": "smem",
}


def category_of(instruction: Instruction) -> str:
    """mfma, valu, salu, vmem, lds, smem, branch, barrier, wait or other."""
    name, encoding = instruction.mnemonic, instruction.encoding
    if encoding == "MFMA":
        return "mfma"
    if encoding in _MEMORY:
        return _MEMORY[encoding]
    if name in ("s_branch", "s_setpc_b64", "s_swappc_b64", "s_call_b64") or name.startswith("s_cbranch"):
        return "branch"
    if name == "s_barrier":
        return "barrier"
    if name.startswith("s_waitcnt"):
        return "wait"
    if name in NO_OPERATION or encoding == "SOPP":
        return "other"
    return "salu" if encoding in _SCALAR else "valu"


@dataclass(frozen=True)
class RunStatistics:
    """Counts of one launch.

    Attributes:
        wave_instructions: Instructions executed, counted once a wave.
        categories: The same by category (see `category_of`).
        mfma: Matrix instructions among them.
        bytes_read, bytes_written: Of global memory and buffers, by active lanes whose access is in range; the same
            bytes count as often as they are accessed, since no cache is modelled.
        scalar_bytes_read: By scalar loads (kernel arguments and the like).
        lds_bytes_read, lds_bytes_written: Of LDS.
        workgroups: Workgroups run.
        seconds: Time in compiled code.
        profile: Executions of each instruction, by its address in the image.
    """

    wave_instructions: int = 0
    categories: dict[str, int] = field(default_factory=dict)
    mfma: int = 0
    bytes_read: int = 0
    bytes_written: int = 0
    scalar_bytes_read: int = 0
    lds_bytes_read: int = 0
    lds_bytes_written: int = 0
    workgroups: int = 0
    seconds: float = 0.0
    profile: dict[int, int] = field(default_factory=dict, repr=False)


def total(parts: Sequence[RunStatistics], workgroups: int, seconds: float) -> RunStatistics:
    """The counts of a launch from those of its runners."""
    if len(parts) == 1:
        return replace(parts[0], workgroups=workgroups, seconds=seconds)
    sums: dict[str, Any] = {"workgroups": workgroups, "seconds": seconds}
    for item in fields(RunStatistics):
        if item.name not in sums:
            values = [getattr(part, item.name) for part in parts]
            sums[item.name] = dict(sum(map(Counter, values), Counter())) if isinstance(values[0], dict) else sum(values)
    return RunStatistics(**sums)
