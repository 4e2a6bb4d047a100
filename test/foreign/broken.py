"""Code objects of other compilers with one instruction changed."""

from __future__ import annotations

from ckmlir.codeobject import CodeObject
from ckmlir.sim.analysis.control_flow import control_flow
from ckmlir.sim.decode import Instruction

WITHOUT = {"vmcnt": 63, "expcnt": 7, "lgkmcnt": 15}
WAIT, NOP = 0xBF8C0000 | 63 & 15 | 63 >> 4 << 14 | 7 << 4 | 15 << 8, 0xBF800000
"""s_waitcnt that waits for nothing, and s_nop 0."""


def every(code_object: CodeObject, mnemonic: str, kernel: str | None = None) -> list[Instruction]:
    """The instructions of a kernel with this name."""
    flow = control_flow(code_object, code_object.kernel(kernel))
    found = [item for block in flow.blocks.values() for item in block.instructions if item.mnemonic == mnemonic]
    assert found
    return found


def patched(hsaco: bytes, instruction: Instruction, word: int) -> bytes:
    """The code object with another instruction of 32 bits in the place of one."""
    old, new = (number.to_bytes(4, "little") for number in (instruction.words[0], word))
    text = CodeObject.parse(hsaco).image.load(0)
    around = slice(max(instruction.address - 32, 0), instruction.address + 32)
    code = text[around]
    assert hsaco.count(code) == 1
    at = hsaco.index(code) + instruction.address - around.start
    assert hsaco[at : at + 4] == old
    return hsaco[:at] + new + hsaco[at + 4 :]
