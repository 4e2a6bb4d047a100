"""Basic blocks of machine code, and the graph of a kernel's blocks; `control_flow.py` finds them."""

from __future__ import annotations

from msgspec import Struct, field

from ckmlir.sim.analysis.effects import Effects
from ckmlir.sim.decode import Instruction


class Block(Struct):
    """Instructions that always execute one after the other.

    Attributes:
        start: Address of the first.
        instructions: In order.
        effects: Of each instruction.
        successors, predecessors: Addresses of the blocks that may follow and precede.
        arrangement: Of a copy (`flags.unfold`): which numbers, from 1 on, are in the registers that a loop hands round.
    """

    start: int
    instructions: list[Instruction]
    effects: list[Effects] = field(default_factory=list)
    successors: list[int] = field(default_factory=list)
    predecessors: list[int] = field(default_factory=list)
    arrangement: int = 0

    def site(self, instruction: Instruction) -> int:
        """The name of an instruction here: where a loop hands slots of LDS round, it touches others in each copy."""
        return instruction.address + (self.arrangement << 48)


class ControlFlow(Struct):
    """The blocks reached from a kernel's first instruction.

    Attributes:
        entry: Address of the first block.
        blocks: By address, in reverse postorder from the entry: a block comes after its predecessors, back edges of
            loops excepted.
        unresolved: Address and reason of every place where control leaves what is known; empty when complete.
    """

    entry: int
    blocks: dict[int, Block]
    unresolved: dict[int, str]
