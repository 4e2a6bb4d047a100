"""Conditions on one value that exclude paths together: comparisons that repeat, and the parity of a loop's turns.

How two scalars compared holds until one of them is written, so the same comparison goes the same way again. A counter
that goes up by a power of two from a constant to a bound, or down from a bound to 0, leaves its loop behind an even or
an odd number of turns; code that a loop of two halves jumps to from both asks which it was, as (bound + step - 1) /
step modulo 2. Followed is only what a kernel asks, and only where some way leads to the question. Counters and bounds
are taken not to overflow.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, Final, NamedTuple

from ckmlir.sim.analysis.blocks import Block, ControlFlow
from ckmlir.sim.analysis.effects import Effects
from ckmlir.sim.analysis.registers import SCALAR, SCALAR_REGISTERS, SCC
from ckmlir.sim.decode import Instruction, Operand

LESS, EQUAL, GREATER = 1, 2, 4
"""What a number may be to another one; several are a sum of these."""
_ANY: Final = LESS | EQUAL | GREATER
_TRUE: Final = {"lt": LESS, "le": LESS | EQUAL, "eq": EQUAL, "lg": LESS | GREATER, "ge": GREATER | EQUAL, "gt": GREATER}
_COMPARISON: Final = re.compile(r"s_cmp_(lt|le|eq|lg|ge|gt)_([iu])32")
_ADDITIONS: Final = ("s_addk_i32", "s_add_u32", "s_add_i32")
_SUBTRACTIONS: Final = ("s_sub_u32", "s_sub_i32")
_ZERO: Final = ("imm", 0)
_SGPRS: Final = 102

Number = tuple[str, int]
"""("s", the bit of a scalar register) or ("imm", a constant of 32 bits)."""
Pair = tuple[Number, Number, str]
"""What is compared, in the order of numbers, as signed ("i") or unsigned ("u") ones."""
Key = tuple[Any, ...]
Facts = frozenset[tuple[Key, Any]]
"""What is known, by keys: ("order", pair): what the first is to the second. ("turns", counter), and the bound that it
goes down from: whether its step was added an odd number of times, since 0 or the bound. ("before", counter, bound): one
step ago the loop went on. ("parity", bound, step): of the steps up to the bound. ("bit", register): one of its bits,
number and value. ("value", register): all of it. ("asked",): the pair that the SCC is about, and for which orders it
is 1."""


class Loop(NamedTuple):
    """A counter that goes up to a bound, or down from it to 0, both by the bits of their registers, where the parity of
    turns is asked.
    """

    counter: int
    bound: int
    step: int
    pair: Pair
    down: bool

    @property
    def added(self) -> tuple[int, int]:
        """What makes a turn: a register, and the constant that is added to it."""
        return self.counter, (-self.step if self.down else self.step) & 0xFFFF_FFFF

    @property
    def inside(self) -> int:
        """What the pair is while the loop goes on."""
        return LESS if self.pair[0] in (("s", self.counter), _ZERO) else GREATER

    @property
    def turns(self) -> Key:
        """The key of their parity."""
        return ("turns", self.counter, self.bound) if self.down else ("turns", self.counter)

    @property
    def parity(self) -> Key:
        """The key of what is asked."""
        return ("bit", self.bound) if self.step == 1 else ("parity", self.bound, self.step)


class Conditions:
    """What a kernel asks more than once, and what is known of it from one instruction to the next."""

    def __init__(self, flow: ControlFlow) -> None:
        every = {
            one.address: (one, effects)
            for block in flow.blocks.values()
            for one, effects in zip(block.instructions, block.effects, strict=True)
        }
        scalar = [one for one in every.values() if one[1].writes & (SCALAR_REGISTERS | SCC)]
        compared = Counter(found[0] for one, _ in scalar if (found := _compared(one)))
        self._loops = tuple(_loops(scalar, [*compared]))
        self._asked = {pair for pair, count in compared.items() if count > 1} | {one.pair for one in self._loops}
        self._telling = {one.address for one, _ in scalar if self._asked and self._tells(one)}
        self._live = self._liveness(flow) if self._asked else {}

    def __bool__(self) -> bool:
        return bool(self._asked)

    def wanted(self, start: int, facts: dict[Key, Any]) -> Facts:
        """Of what is known at the start of a block, what some way from there asks for."""
        live = self._live.get(start, frozenset())
        return frozenset(one for one in facts.items() if one[0] in live)

    def after(self, facts: dict[Key, Any], instruction: Instruction, effects: Effects) -> dict[Key, Any]:
        """What is known behind an instruction."""
        given = self._given(facts, instruction) if instruction.address in self._telling else {}
        if not facts:
            return given
        kept = {key: value for key, value in facts.items() if not effects.writes & _registers(key)}
        return {**kept, **given}

    def condition(self, facts: dict[Key, Any], instruction: Instruction) -> int | None:
        """The SCC that an instruction leaves, where that is known."""
        if instruction.address not in self._telling:
            return None
        compared, name = _compared(instruction), instruction.mnemonic
        if compared is not None:
            pair, true = compared
            order = _order(facts, pair)
            return 1 if not order & ~true else 0 if not order & true else None
        bit = _bit_asked(facts, instruction)
        return None if bit is None else bit ^ (name == "s_bitcmp0_b32")

    def along(self, facts: dict[Key, Any], branch: Instruction, taken: bool) -> dict[Key, Any] | None:
        """What is known on a way out of a block; None where what is known forbids it."""
        if ("asked",) not in facts or branch.mnemonic not in ("s_cbranch_scc0", "s_cbranch_scc1"):
            return facts
        pair, true = facts[("asked",)]
        order = _order(facts, pair) & (true if taken == branch.mnemonic.endswith("1") else _ANY ^ true)
        if not order:
            return None
        found = {**facts, ("order", pair): order}
        for loop in self._loops:
            last = order == EQUAL or ("before", loop.counter, loop.bound) in facts
            if loop.pair == pair and not order & loop.inside and last and loop.turns in facts:
                turns = facts[loop.turns]
                found[loop.parity] = (0, turns) if loop.step == 1 else turns
        return found

    def _tells(self, instruction: Instruction) -> bool:
        """Whether something may be known behind an instruction that was not known before."""
        compared = _compared(instruction)
        if compared is not None:
            return compared[0] in self._asked or bool(self._loops)
        return bool(self._loops)

    def _given(self, facts: dict[Key, Any], instruction: Instruction) -> dict[Key, Any]:
        """What an instruction makes known."""
        compared = _compared(instruction)
        if compared is not None:
            return {("asked",): compared} if compared[0] in self._asked else {}
        target = _register(instruction.destinations[0]) if instruction.destinations else None
        if target is None:
            return {}
        found: dict[Key, Any] = {}
        for loop in self._loops:
            if target == loop.counter:
                found |= _counted(facts, instruction, loop)
            if _added(instruction) == (loop.bound, loop.step - 1) and loop.parity in facts and loop.step > 1:
                found["bit", target] = loop.step.bit_length() - 1, facts[loop.parity]
        bit = _bit_asked(facts, instruction)
        if bit is not None:
            found["value", target] = bit * _mask(instruction)
        if instruction.mnemonic in ("s_lshr_b32", "s_ashr_i32"):
            source, by = instruction.sources
            number, value = facts.get(("bit", _register(source)), (-1, 0))
            if by.kind == "imm" and number >= by.index:
                found["bit", target] = number - by.index, value
        return found

    def _liveness(self, flow: ControlFlow) -> dict[int, frozenset[Key]]:
        """For each block what is asked from its start on, before it is written."""
        live: dict[int, frozenset[Key]] = dict.fromkeys(flow.blocks, frozenset())
        waiting = dict.fromkeys(reversed(flow.blocks))
        while waiting:
            start = next(iter(waiting))
            del waiting[start]
            block = flow.blocks[start]
            found = self._asked_in(block, frozenset().union(*(live[one] for one in block.successors)))
            if found != live[start]:
                live[start] = found
                waiting.update(dict.fromkeys(block.predecessors))
        return live

    def _asked_in(self, block: Block, live: frozenset[Key]) -> frozenset[Key]:
        found = set(live)
        for instruction, effects in zip(reversed(block.instructions), reversed(block.effects), strict=True):
            counts = _added(instruction)
            found = {
                key
                for key in found
                if not effects.writes & _registers(key) or (key[0] == "turns" and counts and counts[0] == key[1])
            }
            found.update(self._questions(instruction))
        return frozenset(found)

    def _questions(self, instruction: Instruction) -> Iterator[Key]:
        """The keys of what an instruction asks for."""
        compared, added = _compared(instruction), _added(instruction)
        if compared is not None and compared[0] in self._asked:
            yield "order", compared[0]
        for loop in self._loops:
            counts = added is not None and added == loop.added
            if counts or (compared is not None and compared[0] == loop.pair):
                yield loop.turns
                yield ("order", loop.pair) if counts else ("before", loop.counter, loop.bound)
            if _asks_parity(instruction, loop.bound, loop.step):
                yield loop.parity


@lru_cache(1 << 14)
def _registers(key: Key) -> int:
    """The registers that a key is about."""
    kind, *rest = key
    if kind == "asked":
        return SCC
    if kind == "order":
        return sum(1 << number for of, number in rest[0][:2] if of == "s")
    return sum(1 << one for one in rest[: 1 if kind == "parity" else 2])


def _loops(every: list[tuple[Instruction, Effects]], pairs: list[Pair]) -> Iterator[Loop]:
    """The loops whose parity is asked."""
    counting = lru_cache(None)(lambda counter: _counting(counter, every))
    for pair in pairs:
        for one, other in (pair[:2], pair[1::-1]):
            step, begins = counting(one[1]) if one[0] == "s" else (0, [])
            bounds: set[int] = set()
            if step > 0 and other[0] == "s" and all((_moved(begin) or 0) % step == 0 for begin in begins):
                bounds = {other[1]} if None not in map(_moved, begins) else set()
            elif step < 0 and other == _ZERO:
                copied = {_copied(begin) for begin in begins}
                bounds = {bound for bound in copied if bound is not None and len(copied) == 1}
            for bound in bounds:
                if any(_asks_parity(instruction, bound, abs(step)) for instruction, _ in every):
                    yield Loop(one[1], bound, abs(step), pair, step < 0)


def _counting(counter: int, every: list[tuple[Instruction, Effects]]) -> tuple[int, list[Instruction]]:
    """The power of two, or its negative, that is all that is ever added to a register (0: there is none), and what else
    writes it.
    """
    steps, begins = set(), []
    for instruction, effects in every:
        if not effects.writes >> counter & 1:
            continue
        added = _added(instruction)
        if added is not None and added[0] == counter:
            steps.add(added[1] - (added[1] >> 31 << 32))
        else:
            begins.append(instruction)
    step = steps.pop() if len(steps) == 1 else 0
    power = 0 < abs(step) < 1 << 16 and abs(step) & (abs(step) - 1) == 0
    return (step if power else 0), begins


def _counted(facts: dict[Key, Any], instruction: Instruction, loop: Loop) -> dict[Key, Any]:
    """What is known of a counter that is written."""
    begins, turns = _moved(instruction), facts.get(loop.turns)
    if begins is not None:
        return {loop.turns: begins // loop.step & 1}
    if _copied(instruction) == loop.bound and loop.down:
        return {loop.turns: 0}
    found: dict[Key, Any] = {} if turns is None else {loop.turns: turns ^ 1}
    if not _order(facts, loop.pair) & ~loop.inside:
        found["before", loop.counter, loop.bound] = True
    return found


def _compared(instruction: Instruction) -> tuple[Pair, int] | None:
    """What a comparison compares, and for which orders it gives 1."""
    match = _COMPARISON.fullmatch(instruction.mnemonic)
    if match is None:
        return None
    one, two = (_number(operand) for operand in instruction.sources)
    if one is None or two is None or one == two:
        return None
    true = _TRUE[match[1]]
    if one < two:
        return (one, two, match[2]), true
    return (two, one, match[2]), true & EQUAL | (GREATER if true & LESS else 0) | (LESS if true & GREATER else 0)


def _order(facts: dict[Key, Any], pair: Pair) -> int:
    """What may be known of a pair."""
    one, two = (number if of == "imm" else facts.get(("value", number)) for of, number in pair[:2])
    if one is None or two is None:
        never = GREATER if pair[0] == _ZERO and pair[2] == "u" else 0
        return int(facts.get(("order", pair), _ANY)) & ~never
    if pair[2] == "i":
        one, two = (number - (number >> 31 << 32) for number in (one, two))
    return LESS if one < two else EQUAL if one == two else GREATER


def _number(operand: Operand) -> Number | None:
    register = _register(operand)
    if register is not None:
        return "s", register
    return ("imm", operand.index & 0xFFFF_FFFF) if operand.kind == "imm" else None


def _register(operand: Operand) -> int | None:
    """The bit of one scalar register."""
    return SCALAR + operand.index if operand.kind == "s" and operand.count == 1 and operand.index < _SGPRS else None


def _moved(instruction: Instruction) -> int | None:
    """The constant that a register is set to."""
    constant = instruction.mnemonic in ("s_mov_b32", "s_movk_i32") and instruction.sources[0].kind == "imm"
    return instruction.sources[0].index & 0xFFFF_FFFF if constant else None


def _copied(instruction: Instruction) -> int | None:
    """The bit of the scalar register that another one is set to."""
    return _register(instruction.sources[0]) if instruction.mnemonic == "s_mov_b32" else None


def _added(instruction: Instruction) -> tuple[int, int] | None:
    """A register and the constant that is added to it."""
    if instruction.mnemonic in _SUBTRACTIONS:
        left, right = map(_number, instruction.sources)
        if left is None or right is None or (left[0], right[0]) != ("s", "imm"):
            return None
        return left[1], -right[1] & 0xFFFF_FFFF
    if instruction.mnemonic not in _ADDITIONS:
        return None
    short = instruction.mnemonic == "s_addk_i32"
    numbers = [_number(one) for one in (*instruction.destinations[:short], *instruction.sources)]
    if {one[0] for one in numbers if one} != {"s", "imm"} or len(numbers) != 2:
        return None
    constant, register = sorted(one for one in numbers if one)
    return register[1], constant[1]


def _mask(instruction: Instruction) -> int:
    """The only bit that an instruction asks a register for, as a number; 0: it asks for none, or more."""
    constant = next((one.index for one in instruction.sources if one.kind == "imm"), None)
    if constant is None or instruction.mnemonic not in ("s_and_b32", "s_bitcmp0_b32", "s_bitcmp1_b32"):
        return 0
    mask = constant if instruction.mnemonic == "s_and_b32" else 1 << (constant & 31)
    return mask if mask & (mask - 1) == 0 else 0


def _bit_asked(facts: dict[Key, Any], instruction: Instruction) -> int | None:
    """The bit that an instruction asks for, where it is known."""
    mask = _mask(instruction)
    for operand in instruction.sources if mask else ():
        number, value = facts.get(("bit", _register(operand)), (-1, 0))
        if number >= 0 and mask == 1 << number:
            return int(value)
    return None


def _asks_parity(instruction: Instruction, bound: int, step: int) -> bool:
    """Whether an instruction begins to ask for the parity of the steps up to a bound."""
    if step > 1:
        return _added(instruction) == (bound, step - 1)
    return _mask(instruction) == 1 and bound in map(_register, instruction.sources)
