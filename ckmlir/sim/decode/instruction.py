"""What the decoder delivers: instructions, their operands, and the error for words that are none."""

from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from ckmlir.errors import CkmlirError

if TYPE_CHECKING:
    from ckmlir.sim.decode.opcodes import Opcode


class Operand(Struct, frozen=True):
    """One register range or constant that an instruction reads or writes.

    Attributes:
        kind: "v" vector register, "a" accumulation vector register, "s" scalar register by its encoding number
            (0-101 SGPRs, 102/103 flat_scratch, 104/105 xnack_mask, 106/107 vcc, 108-123 ttmp, 124 m0, 126/127 exec,
            235-239 apertures, 251 vccz, 252 execz, 253 scc, 254 lds_direct), "imm" a constant, "off" no register.
        index: The first register's number. For "imm" the bit pattern the instruction reads: 32 bits, or 64 bits
            when `count` is 2; inline floats have the operand's own type (so 1.0 of an f16 operand is 0x3C00).
        count: Registers (dwords) of the range; 1 or 2 for "imm", 0 for "off".
        text: How LLVM writes the operand, without modifiers.
        negate: The source is negated (after `absolute`).
        absolute: The source's sign bit is cleared.
        sext: The SDWA part of the source is sign extended rather than zero extended.
        literal: The constant is the 32-bit literal that follows the instruction, not an inline constant.
    """

    kind: str
    index: int
    count: int = 1
    text: str = ""
    negate: bool = False
    absolute: bool = False
    sext: bool = False
    literal: bool = False

    def replace(self, **changes: Any) -> "Operand":
        """The operand with some attributes changed."""
        return replace(self, **changes)


class Instruction(NamedTuple):
    """One decoded instruction.

    Attributes:
        address: Byte address of its first word.
        size: Bytes.
        mnemonic: LLVM's name without _e32, _e64, _sdwa or _dpp.
        encoding: SOP1, SOP2, SOPC, SOPK, SOPP, SMEM, VOP1, VOP2, VOPC, VOP3, VOP3P, MFMA, SDWA, DPP, DS, FLAT,
            GLOBAL, SCRATCH, MUBUF or MTBUF.
        destinations: Registers written that the assembly text names (so not scc, nor exec of a saveexec).
        sources: Operands read that the assembly text names, in its order, and the data of an atomic that returns
            into the same register. Registers that are read because they are the destination (v_fmac, v_mac,
            s_addk) are not repeated.
        modifiers: Every other field of the encoding by name, as the unsigned number in the word, except that
            memory offsets are signed. A name is absent when the encoding has no such field. The cache bits are sc0,
            nt and sc1 on every chip (gfx90a's glc, slc and scc). s_waitcnt has vmcnt, expcnt and lgkmcnt.
        words: All dwords, with the literal or the SDWA/DPP word.
        target: The chip, for example "gfx942".
        branch_target: Byte address a branch goes to, else None.
        opcode: The row of the table it was decoded with; None for an instruction made by hand.
    """

    address: int
    size: int
    mnemonic: str
    encoding: str
    destinations: tuple[Operand, ...]
    sources: tuple[Operand, ...]
    modifiers: dict[str, int]
    words: tuple[int, ...]
    target: str = ""
    branch_target: int | None = None
    opcode: "Opcode | None" = None

    @property
    def text(self) -> str:
        """The instruction in LLVM's assembly syntax; a branch target is the word offset, as in `llvm-mc`."""
        from ckmlir.sim.decode.text import assembly  # formatting is not needed to run

        return assembly(self)


class UnknownInstruction(CkmlirError, ValueError):
    """The words at an address are not an instruction of the target.

    Attributes:
        address: Byte address of the first word.
        words: The dwords looked at (one or two).
        target: The chip, for example "gfx942".
    """

    def __init__(self, address: int, words: tuple[int, ...], target: str, reason: str) -> None:
        self.address = address
        self.words = words
        self.target = target
        encoding = " ".join(f"{word:08x}" for word in words)
        super().__init__(f"{target}: {reason}: {encoding or 'no words'} at address 0x{address:x}")
