"""The steady loop in machine code: where it is, and what it consists of."""

from collections.abc import Sequence

from msgspec import Struct

from ckmlir.codeobject import CodeObject
from ckmlir.sim.decode import CATEGORIES, Instruction, disassemble, instruction_mix
from ckmlir.sim.decode.mix import category


class MachineLoop(Struct, frozen=True):
    """A loop of machine code.

    Attributes:
        mix: instructions by category of `sim.decode.mix`.
        drains: waits for all accesses to memory (`vmcnt(0)`).
    """

    instructions: tuple[Instruction, ...]
    mix: dict[str, int]
    drains: int

    @property
    def matrix_share(self) -> float:
        """Share of the issue slots that matrix instructions take, from 0 to 1."""
        return self.mix["mfma"] / len(self.instructions) if self.instructions else 0.0


def steady_loop(code_object: CodeObject, kernel: str) -> MachineLoop:
    """The loop with the most matrix instructions, or of those with none the one with the most accesses to memory."""
    code = disassemble(code_object, kernel)
    loops = list(_loops(code))
    best: list[Instruction] = max(loops, key=_weight, default=[])
    drains = sum(one.mnemonic == "s_waitcnt" and one.modifiers.get("vmcnt") == 0 for one in best)
    mix = instruction_mix(best) if best else dict.fromkeys(CATEGORIES, 0)
    return MachineLoop(tuple(best), mix, drains)


def steps_a_turn(matrix_instructions: int, loop: MachineLoop) -> float:
    """Steps of a schedule, of so many matrix instructions each, that one turn of the machine code's loop is."""
    return loop.mix["mfma"] / max(1, matrix_instructions) or 1.0


def _weight(loop: Sequence[Instruction]) -> tuple[int, int]:
    kinds = [category(one) for one in loop]
    return kinds.count("mfma"), kinds.count("vmem") + kinds.count("lds")


def _loops(code: Sequence[Instruction]) -> list[list[Instruction]]:
    """From the target of every backward branch to the branch; loops that hold others are left out."""
    place = {instruction.address: number for number, instruction in enumerate(code)}
    found = list[tuple[int, int]]()
    for number, instruction in enumerate(code):
        target = instruction.branch_target
        if target is not None and target <= instruction.address and target in place:
            found.append((place[target], number))
    return [list(code[first : last + 1]) for first, last in innermost(found)]


def innermost(ranges: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The loops that hold no others, as places of their first and last part: of ranges from where a branch goes back to
    to that branch.
    """
    found = _joined(ranges)
    return [one for one in found if not any(one != two and one[0] <= two[0] and two[1] <= one[1] for two in found)]


def _joined(ranges: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Ranges of which none overlaps another without holding it, or begins where another does: such are one loop that
    goes back by several branches.
    """
    for one in ranges:
        for other in ranges:
            if one != other and one[0] <= other[0] <= one[1] and (one[0] == other[0] or one[1] < other[1]):
                rest = [each for each in ranges if each not in (one, other)]
                return _joined([*rest, (one[0], max(one[1], other[1]))])
    return ranges
