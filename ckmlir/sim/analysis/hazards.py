"""A static check that the wait states which `hazard_rules.py` asks for are there, on every path of a kernel.

For each rule and each first instruction the state holds which registers are in danger, and until which wait state on
any path.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import NamedTuple

from ckmlir.sim.analysis.blocks import ControlFlow
from ckmlir.sim.analysis.hazard_rule import Described, Rule
from ckmlir.sim.analysis.hazard_rules import rules_of, wait_states
from ckmlir.sim.analysis.registers import RegisterSet
from ckmlir.sim.decode import Instruction


class Hazard(NamedTuple):
    """Two instructions with too few wait states between.

    Attributes:
        first, second: The instructions.
        rule: The rule they violate.
        registers: What both touch (empty for resources other than registers).
        needed, present: Wait states.
    """

    first: Instruction
    second: Instruction
    rule: Rule
    registers: RegisterSet
    needed: int
    present: int


class _Danger(NamedTuple):
    """What a first instruction left behind, and until which wait state of the block that is looked at."""

    until: int
    registers: RegisterSet


_State = dict[tuple[int, int], _Danger]
"""By rule number and address of the first instruction."""


class _Step(NamedTuple):
    described: Described
    states: int
    writes: RegisterSet
    produces: tuple[tuple[int, RegisterSet], ...]
    consumes: tuple[tuple[int, RegisterSet], ...]


class _Roles(NamedTuple):
    produces: tuple[tuple[int, RegisterSet], ...]
    consumes: tuple[tuple[int, RegisterSet], ...]


_known_roles: dict[tuple[str, tuple[int, ...]], _Roles] = {}


class HazardAnalysis:
    """The rules of the chip applied to a kernel's control-flow graph."""

    def __init__(self, flow: ControlFlow) -> None:
        self.flow = flow
        target = next(iter(flow.blocks.values())).instructions[0].target if flow.blocks else "gfx90a"
        self.rules = rules_of(target)
        self.steps = self._describe()
        self.at = {step.described.instruction.address: step for steps in self.steps.values() for step in steps}
        self.found = self._solve()

    def _describe(self) -> dict[int, list[_Step]]:
        described = {
            start: [(one, self._roles(one)) for one in map(Described, block.instructions, block.effects)]
            for start, block in self.flow.blocks.items()
        }
        used = {number for block in described.values() for _, roles in block for number, _ in roles.consumes}
        return {start: list(self._steps(block, used)) for start, block in described.items()}

    def _steps(self, block: list[tuple[Described, _Roles]], used: set[int]) -> Iterator[_Step]:
        """Rules without a second instruction in the kernel need no first ones."""
        before: Described | None = None
        for one, roles in block:
            produces = tuple([item for item in roles.produces if item[0] in used])
            if one.is_double and before is not None:  # the one kind of first instruction that needs the one before
                again = ((number, self.rules[number].produces(one, before)) for number in used)
                produces = tuple(item for item in again if item[1])
            yield _Step(one, wait_states(one.instruction), one.effects.writes, produces, roles.consumes)
            before = one

    def _roles(self, one: Described) -> _Roles:
        """What an instruction is in each rule. That depends on its words alone, and kernels repeat words."""
        key = one.instruction.target, one.instruction.words
        roles = _known_roles.get(key)
        if roles is None:
            produces = ((number, rule.produces(one, None)) for number, rule in enumerate(self.rules))
            consumes = ((number, rule.consumes(one)) for number, rule in enumerate(self.rules))
            roles = _Roles(*(tuple(item for item in found if item[1]) for found in (produces, consumes)))
            if len(_known_roles) > 100_000:
                _known_roles.clear()
            _known_roles[key] = roles
        return roles

    def _solve(self) -> dict[int, list[Hazard]]:
        """The hazards of each block, as it was passed last: with all that may be in danger where it begins."""
        found: dict[int, list[Hazard]] = {}
        states: dict[int, _State] = {self.flow.entry: {}} if self.flow.blocks else {}
        order = {start: position for position, start in enumerate(self.flow.blocks)}
        waiting = set(states)
        while waiting:
            start = min(waiting, key=order.__getitem__)
            waiting.remove(start)
            found[start], state = self._pass(self.steps[start], states[start])
            for successor in self.flow.blocks[start].successors:
                known = states.get(successor)
                merged = state if known is None else _join(known, state)
                if merged != known:
                    states[successor] = merged
                    waiting.add(successor)
        return found

    def _pass(self, steps: list[_Step], entering: _State) -> tuple[list[Hazard], _State]:
        """The hazards of a block, and what is in danger behind it, of what is where it begins."""
        found: list[Hazard] = []
        state, now = dict(entering), 0
        for step in steps:
            if step.consumes and state:
                found += self._violated(state, step, now)
            now = self._advance(state, step, now)
        return found, {key: _Danger(danger.until - now, danger.registers) for key, danger in state.items()}

    def _advance(self, state: _State, step: _Step, now: int) -> int:
        """The wait state behind a step that begins at `now`. What is over leaves `state`, what the step leaves behind
        comes to it.
        """
        now += step.states
        over = []
        for key, danger in state.items():
            if danger.until <= now:
                over.append(key)
            elif danger.registers & step.writes and self.rules[key[0]].ends:
                registers = danger.registers & ~step.writes
                state[key] = _Danger(danger.until, registers)
                if not registers:
                    over.append(key)
        for key in over:
            del state[key]
        for number, registers in step.produces:
            state[number, step.described.instruction.address] = _Danger(now + self.rules[number].window, registers)
        return now

    def hazards(self) -> Iterator[Hazard]:
        """Every pair of instructions that is too close, block by block."""
        return itertools.chain.from_iterable(self.found.values())

    def _violated(self, state: _State, step: _Step, now: int) -> Iterator[Hazard]:
        consumes = dict(step.consumes)
        for (number, site), danger in state.items():
            shared = danger.registers & consumes.get(number, 0)
            if not shared:
                continue
            rule, first = self.rules[number], self.at[site].described
            needed, present = rule.states(first, step.described), rule.window - (danger.until - now)
            if present < needed:
                yield Hazard(first.instruction, step.described.instruction, rule, shared, needed, present)


def _join(left: _State, right: _State) -> _State:
    joined = dict(left)
    for key, danger in right.items():
        known = joined.get(key)
        if known is not None:
            danger = _Danger(max(known.until, danger.until), known.registers | danger.registers)
        joined[key] = danger
    return joined
