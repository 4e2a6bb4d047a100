"""The few constants that decide where control goes: which scalar registers hold 0, 1, all ones, or all active lanes.
And those that say which buffer of LDS is meant: numbers that a loop hands round scalar registers by moves.

Compilers carry "does the loop run?" and the like through merged paths as a mask of lanes or as a number, in scalar
registers, or in lanes of a VGPR where these do not suffice. Followed is what sets, copies, saves, combines and asks
such a constant; exec is known until it is written, since a wave starts with some lane.
"""

from __future__ import annotations

import re
from typing import Final

from ckmlir.sim.analysis.blocks import ControlFlow
from ckmlir.sim.analysis.effects import Effects
from ckmlir.sim.analysis.ranges import lane_of_operand, owner_of
from ckmlir.sim.analysis.registers import EXEC, SCALAR, SCC, registers_of
from ckmlir.sim.decode import Instruction, Operand

ONES: Final = 0xFFFF_FFFF
ACTIVE: Final = -1
"""Stands for one half of exec, whatever it is."""
_FOLLOWED: Final = (0, 1, ONES)
SCC_VALUE: Final = -1
_EXEC: Final = SCALAR + 126
_VCC: Final = SCALAR + 106
_M0: Final = SCALAR + 124
_READERS: Final = re.compile(
    r"s_(and|andn2|xor)_b64|s_cselect_b(32|64)|s_cmp_(lg|eq)_[iu]32|s_mov_b(32|64)|v_(read|write)lane_b32"
)

Constants = frozenset[tuple[int, int]]
"""(register, constant): a register's bit, a lane of a VGPR as `ranges` numbers them, or `SCC_VALUE`."""

AT_START: Final[Constants] = frozenset({(_EXEC, ACTIVE), (_EXEC + 1, ACTIVE)})
"""What is known when a wave starts."""


def asked_for(flow: ControlFlow) -> frozenset[int]:
    """The registers and lanes whose constants an instruction may ask for somewhere."""
    found = {SCC_VALUE, _VCC, _VCC + 1, _EXEC, _EXEC + 1}
    for block in flow.blocks.values():
        for instruction in block.instructions:
            if _READERS.fullmatch(instruction.mnemonic):
                found |= {at for operand in instruction.sources for at in _halves(operand)}
                found |= {lane for lane in [_lane(instruction, "read")] if lane is not None}
    return frozenset(found)


def handed_round(flow: ControlFlow) -> frozenset[int]:
    """The scalar registers that moves hand a number on to and get it back from: of these every constant is followed."""
    moves: dict[int, set[int]] = {}
    for block in flow.blocks.values():
        for instruction in block.instructions:
            if instruction.mnemonic == "s_mov_b32":
                (to, *_), (of, *_) = (_halves(one) or [-1] for one in (*instruction.destinations, *instruction.sources))
                if to >= 0 and of >= 0:
                    moves.setdefault(of, set()).add(to)
    return frozenset(one for one in moves if one in _reached(moves, one))


def _reached(moves: dict[int, set[int]], begin: int) -> set[int]:
    found, waiting = set[int](), [begin]
    while waiting:
        new = moves.get(waiting.pop(), set()) - found
        found |= new
        waiting += new
    return found


def chosen(flow: ControlFlow) -> frozenset[int]:
    """The scalar registers in which the ways into a block leave one number or another, of a kernel that copies from
    memory to LDS: the slots that a loop leaves behind, by the step that was its last. Not m0, which every copy sets.
    """
    if not any(one.lds is not None and one.lds.direct for block in flow.blocks.values() for one in block.effects):
        return frozenset()
    found: set[int] = set()
    left: dict[int, dict[int, int]] = {}
    for block in flow.blocks.values():
        ways = [left.get(one, {}) for one in block.predecessors] or [{}]
        common = {at: {way[at] for way in ways} for at in ways[0] if all(at in way for way in ways)}
        found |= {at for at, numbers in common.items() if len(numbers) > 1}
        known = {at: number for at, (number, *others) in common.items() if not others}
        for instruction, effects in zip(block.instructions, block.effects, strict=True):
            known = {at: number for at, number in known.items() if not effects.writes >> at & 1}
            known |= _number_set(instruction)
        left[block.start] = known
    return frozenset(found - {_M0})


def after(
    known: dict[int, int], instruction: Instruction, effects: Effects, turning: frozenset[int] = frozenset()
) -> dict[int, int]:
    """What is known behind an instruction; `turning` as `handed_round` gives it."""
    results = _results(instruction, known)
    results |= {at: number for at, number in _number_set(instruction).items() if at in turning}
    written, lane = effects.writes, _lane(instruction, "write")
    kept = {
        at: value
        for at, value in known.items()
        if not (written & SCC if at == SCC_VALUE else written >> owner_of(at) & 1 and (lane is None or at == lane))
        and not (value == ACTIVE and written & EXEC)
    }
    return {**kept, **{at: value for at, value in results.items() if value is not None}}


def _number_set(instruction: Instruction) -> dict[int, int]:
    """The scalar register that an instruction sets to a number of its own, and the number."""
    if instruction.mnemonic not in ("s_mov_b32", "s_movk_i32") or instruction.sources[0].kind != "imm":
        return {}
    return dict.fromkeys(_halves(instruction.destinations[0]), instruction.sources[0].index)


def branch_taken(known: dict[int, int], branch: Instruction) -> bool | None:
    """Whether a conditional branch is taken; None where that is not known, or it is none."""
    name = branch.mnemonic
    if name in ("s_cbranch_scc0", "s_cbranch_scc1"):
        value = known.get(SCC_VALUE)
        return None if value is None else bool(value) == name.endswith("1")
    for mask, at in (("vcc", _VCC), ("exec", _EXEC)):
        if name in (f"s_cbranch_{mask}z", f"s_cbranch_{mask}nz"):
            full = _full((known.get(at), known.get(at + 1)))
            return None if full is None else full == name.endswith("nz")
    return None


def _results(instruction: Instruction, known: dict[int, int]) -> dict[int, int | None]:
    """The constants that an instruction gives registers; None: one that is not known."""
    name, sources = instruction.mnemonic, instruction.sources
    at = _halves(instruction.destinations[0]) if instruction.destinations else []
    words = [_words(operand, known) for operand in sources]
    if name in ("s_mov_b64", "s_mov_b32"):
        return _set(at, words[0])
    if name in ("s_cselect_b64", "s_cselect_b32"):
        return _set(at, words[0 if known[SCC_VALUE] else 1]) if SCC_VALUE in known else {}
    if name in ("s_and_b64", "s_andn2_b64", "s_xor_b64"):
        value = _combined(name, sources, [_full(one) for one in words], words)
        return {**_set(at, (value, value)), SCC_VALUE: None if value is None else int(value != 0)}
    if name in ("s_cmp_lg_u32", "s_cmp_eq_u32", "s_cmp_lg_i32", "s_cmp_eq_i32"):
        (one,), (two,) = words
        sure = one in _FOLLOWED and two in _FOLLOWED
        return {SCC_VALUE: int((one == two) == ("_eq_" in name))} if sure else {}
    if name == "v_writelane_b32":
        lane = _lane(instruction, "write")
        return {lane: words[0][0]} if lane is not None else {}
    if name == "v_readlane_b32":
        lane = _lane(instruction, "read")
        return _set(at, (known.get(lane),)) if lane is not None else {}
    return {}


def _set(at: list[int], words: tuple[int | None, ...]) -> dict[int, int | None]:
    """The registers with these words; exec has some lane only if all of it is set."""
    if at and at[0] == _EXEC:
        words = (ACTIVE, ACTIVE) if _full(words) else (None, None)
    return dict(zip(at, words, strict=True)) if len(at) == len(words) else {}


def _combined(
    name: str, sources: tuple[Operand, ...], full: list[bool | None], words: list[tuple[int | None, ...]]
) -> int | None:
    """A half of a mask and exec, of exec without a mask, or of the reverse of a mask. Exec is taken for not empty."""
    is_exec = [_halves(one)[:1] == [_EXEC] for one in sources]
    if name == "s_and_b64" and any(is_exec):
        value = full[is_exec.index(False)] if not all(is_exec) else True
        return None if value is None else ACTIVE if value else 0
    if name == "s_andn2_b64" and is_exec == [True, False]:
        return None if full[1] is None else 0 if full[1] else ACTIVE
    if name == "s_xor_b64" and words[1] == (ONES, ONES):
        return 0 if words[0] == (ONES, ONES) else ONES if words[0] == (0, 0) else None
    return None


def _full(words: tuple[int | None, ...]) -> bool | None:
    """Whether a mask holds all active lanes (True) or none (False); None: not known."""
    if words == (0, 0):
        return False
    return True if len(words) == 2 and all(one in (ONES, ACTIVE) for one in words) else None


def _words(operand: Operand, known: dict[int, int]) -> tuple[int | None, ...]:
    """What is known of an operand, by words of 32 bits."""
    if operand.kind == "imm":
        words = [operand.index >> 32 * number & ONES for number in range(operand.count)]
        return tuple(one if one in _FOLLOWED else None for one in words)
    return tuple(known.get(at) for at in _halves(operand)) or (None,) * operand.count


def _halves(operand: Operand) -> list[int]:
    """The bits of a scalar operand's registers; none for another."""
    found = registers_of(operand) if operand.kind == "s" else 0
    first = (found & -found).bit_length() - 1
    return [first + number for number in range(operand.count)] if found else []


def _lane(instruction: Instruction, way: str) -> int | None:
    """The lane of a VGPR that v_readlane_b32 reads or v_writelane_b32 writes; None where that is not known."""
    if instruction.mnemonic != f"v_{way}lane_b32":
        return None
    register = instruction.sources[0] if way == "read" else instruction.destinations[0]
    return lane_of_operand(register, instruction.sources[1])
