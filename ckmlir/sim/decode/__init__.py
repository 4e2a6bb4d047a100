"""Decoding gfx9 machine code: words to instructions with operands, and to LLVM's assembly text.

    from ckmlir.sim.decode import decode
    instruction = decode(bytes.fromhex("0102007e"), address=0, target="gfx942")  # v_mov_b32_e32 v0, s1

`instruction.py` says what an instruction is, `opcodes.py` reads the opcode table, `encodings.py` holds the bit
formats, `operands.py` the meaning of register numbers, `plans.py` joins the three, `decoder.py` applies them,
`text.py` writes assembly and `mix.py` counts instructions by category.
"""

from ckmlir.sim.decode.decoder import decode, decode_all, disassemble
from ckmlir.sim.decode.instruction import Instruction, Operand, UnknownInstruction
from ckmlir.sim.decode.mix import CATEGORIES, instruction_mix

__all__ = [
    "CATEGORIES",
    "Instruction",
    "Operand",
    "UnknownInstruction",
    "decode",
    "decode_all",
    "disassemble",
    "instruction_mix",
]
