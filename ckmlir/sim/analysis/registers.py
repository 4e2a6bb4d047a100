"""Sets of registers as integers: one bit a 32-bit register, so that union, intersection and overlap are single
operations.

    VECTOR + n          v0 … v255
    ACCUMULATION + n    a0 … a255
    SCALAR + n          scalar registers by encoding number: SGPRs, flat_scratch, xnack_mask, vcc, m0, exec
    SCC, MODE           the scalar condition code, and the MODE register that s_setreg writes
"""

from __future__ import annotations

from typing import Final

from ckmlir.sim.decode.instruction import Operand
from ckmlir.sim.decode.operands import SPECIAL_PAIRS, register_text

VECTOR: Final = 0
ACCUMULATION: Final = 256
SCALAR: Final = 512
_SCC, _MODE = 640, 641

RegisterSet = int


def span(first: int, count: int) -> RegisterSet:
    """`count` registers from bit `first` on."""
    return (1 << count) - 1 << first


FLAT_SCRATCH: Final = span(SCALAR + 102, 2)
VCC: Final = span(SCALAR + 106, 2)
M0: Final = span(SCALAR + 124, 1)
EXEC: Final = span(SCALAR + 126, 2)
SCC: Final = span(_SCC, 1)
MODE: Final = span(_MODE, 1)
VECTOR_REGISTERS: Final = span(VECTOR, 512)
SCALAR_REGISTERS: Final = span(SCALAR, 128)

BASE: Final = {"v": VECTOR, "a": ACCUMULATION, "s": SCALAR}
"""The bit of the first register of a kind of operand."""
_STATUS = {251: VCC, 252: EXEC, 253: SCC, 254: M0}
"""Scalar operand numbers that are not registers but show one: vccz, execz, scc; lds_direct reads where M0 points."""
_SPECIAL = {
    102: "flat_scratch_lo", 103: "flat_scratch_hi", 104: "xnack_mask_lo", 105: "xnack_mask_hi", 106: "vcc_lo",
    107: "vcc_hi", 124: "m0", 126: "exec_lo", 127: "exec_hi", 128: "scc", 129: "mode",
}  # fmt: skip


def registers_of(operand: Operand) -> RegisterSet:
    """The registers an operand names; none for a constant."""
    if operand.kind not in BASE:
        return 0
    if operand.kind == "s" and operand.index > 127:
        return _STATUS.get(operand.index, 0)
    return span(BASE[operand.kind] + operand.index, operand.count)


def names(registers: RegisterSet) -> str:
    """The registers of a set as assembly writes them, neighbours joined: "v[4:7], s2, vcc"."""
    found: list[str] = []
    while registers:
        first = (registers & -registers).bit_length() - 1
        count = 1
        while registers >> first + count & 1 and _group(first + count) == _group(first):
            count += 1
        registers &= ~span(first, count)
        found.append(_range_name(first, count))
    return ", ".join(found)


def _group(number: int) -> int:
    """Registers of one group are named as a range: v0 …, a0 …, s0 …, and the pairs such as vcc."""
    return number // 256 if number < SCALAR + 102 else number // 2


def _range_name(first: int, count: int) -> str:
    if first < SCALAR:
        return register_text("va"[first // 256], first % 256, count)
    number = first - SCALAR
    if count == 2 and number in SPECIAL_PAIRS:
        return SPECIAL_PAIRS[number]
    if number in _SPECIAL:
        return _SPECIAL[number]
    return register_text("ttmp", number - 108, count) if number >= 108 else register_text("s", number, count)
