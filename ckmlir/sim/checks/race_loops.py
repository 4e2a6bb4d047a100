"""Races that loops of compare and swap take into account: their first look is a plain load, and an old value only makes
them try again. LLVM writes atomic updates that a chip lacks so."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import islice
from typing import Final

from msgspec.structs import replace

from ckmlir.sim.checks.finding import Finding
from ckmlir.sim.decode.instruction import Instruction

_COMPARE_AND_SWAP: Final = re.compile(r"(global|flat|buffer)_atomic_f?cmpswap.*|ds_cmpst_.*")
_PLAIN_LOAD: Final = re.compile(r"(global|flat|buffer|s)_load_dword(x2)?|ds_read_b(32|64)")
_REACH: Final = 256
"""Instructions behind a load among which its compare-and-swap is looked for."""


def with_loops(findings: list[Finding], instructions: Sequence[Instruction], start: int) -> list[Finding]:
    """The findings, in which a race of a compare-and-swap with the load that its compared value comes from is advice.
    `start`: the kernel's address."""
    at = {one.address - start: number for number, one in enumerate(instructions)}
    return [_with_loop(one, instructions, at) if one.checker == "race" and one.is_fault else one for one in findings]


def _with_loop(finding: Finding, instructions: Sequence[Instruction], at: dict[int, int]) -> Finding:
    numbers = [at.get(address) for address in (finding.address, *finding.earlier)]
    pair = [instructions[number] for number in numbers if number is not None]
    loads = [number for number, one in zip(numbers, pair) if _PLAIN_LOAD.fullmatch(one.mnemonic)]
    swaps = [one for one in pair if _COMPARE_AND_SWAP.fullmatch(one.mnemonic)]
    if len(loads) != 1 or len(swaps) != 1 or loads[0] is None or not _is_compared(instructions, loads[0]):
        return finding
    message = f"{finding.message}; the load begins a loop of compare and swap, which tries again where it was too early"
    return replace(finding, message=message, grade="advisory")


def _is_compared(instructions: Sequence[Instruction], load: int) -> bool:
    """Whether what a load gives, or what is computed from it, is what a compare-and-swap behind it compares with."""
    from ckmlir.sim.analysis.effects import effects_of
    from ckmlir.sim.analysis.registers import SCALAR_REGISTERS, VECTOR_REGISTERS

    followed = VECTOR_REGISTERS | SCALAR_REGISTERS
    tracked = effects_of(instructions[load]).writes & followed
    for one in islice(instructions, load + 1, load + _REACH):
        if _COMPARE_AND_SWAP.fullmatch(one.mnemonic) and _compared(one) & tracked:
            return True
        effects = effects_of(one)
        written = effects.writes & followed
        tracked = tracked | written if effects.named_reads & tracked else tracked & ~written
    return False


def _compared(swap: Instruction) -> int:
    """The registers that a compare-and-swap compares memory with: of LDS an operand of its own, else the upper half of
    the data."""
    from ckmlir.sim.analysis.registers import registers_of

    vectors = [operand for operand in swap.sources if operand.kind in "va"]
    if swap.encoding == "DS":
        return registers_of(vectors[1])
    data = registers_of(vectors[0 if swap.encoding == "MUBUF" else 1])
    places = [place for place in range(data.bit_length()) if data >> place & 1]
    return sum(1 << place for place in places[len(places) // 2 :])
