"""A static check that the wait states which `hazard_rules.py` asks for are there, on every path of a kernel.

For each rule and each first instruction the state holds the fewest wait states that can have passed since, over all
paths, and the registers that are still in danger.
"""

from __future__ import annotations

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
    """What a first instruction left behind, and the wait states since."""

    since: int
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
        self.states = self._solve()

    def _describe(self) -> dict[int, list[_Step]]:
        described = {
            start: [Described(*pair) for pair in zip(block.instructions, block.effects)]
            for start, block in self.flow.blocks.items()
        }
        used = {number for block in described.values() for one in block for number, _ in self._roles(one).consumes}
        return {start: list(self._steps(block, used)) for start, block in described.items()}

    def _steps(self, block: list[Described], used: set[int]) -> Iterator[_Step]:
        """Rules without a second instruction in the kernel need no first ones."""
        before: Described | None = None
        for one in block:
            roles = self._roles(one)
            produces = tuple(item for item in roles.produces if item[0] in used)
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

    def _solve(self) -> dict[int, _State]:
        states: dict[int, _State] = {self.flow.entry: {}} if self.flow.blocks else {}
        order = {start: position for position, start in enumerate(self.flow.blocks)}
        waiting = set(states)
        while waiting:
            start = min(waiting, key=order.__getitem__)
            waiting.remove(start)
            state = dict(states[start])
            for step in self.steps[start]:
                state = self._advance(state, step)
            for successor in self.flow.blocks[start].successors:
                known = states.get(successor)
                merged = state if known is None else _join(known, state)
                if merged != known:
                    states[successor] = merged
                    waiting.add(successor)
        return states

    def _advance(self, state: _State, step: _Step) -> _State:
        after: _State = {}
        for key, danger in state.items():
            rule = self.rules[key[0]]
            since = danger.since + step.states
            registers = danger.registers & ~step.writes if rule.ends else danger.registers
            if since < rule.window and registers:
                after[key] = _Danger(since, registers)
        for number, registers in step.produces:
            after[number, step.described.instruction.address] = _Danger(0, registers)
        return after

    def hazards(self) -> Iterator[Hazard]:
        """Every pair of instructions that is too close, in order of blocks."""
        for start, state in self.states.items():
            for step in self.steps[start]:
                if step.consumes and state:
                    yield from self._violated(state, step)
                state = self._advance(state, step)

    def _violated(self, state: _State, step: _Step) -> Iterator[Hazard]:
        consumes = dict(step.consumes)
        for (number, site), danger in state.items():
            shared = danger.registers & consumes.get(number, 0)
            if not shared:
                continue
            rule, first = self.rules[number], self.at[site].described
            needed = rule.states(first, step.described)
            if danger.since < needed:
                yield Hazard(first.instruction, step.described.instruction, rule, shared, needed, danger.since)


def _join(left: _State, right: _State) -> _State:
    joined = dict(left)
    for key, danger in right.items():
        known = joined.get(key)
        if known is not None:
            danger = _Danger(min(known.since, danger.since), known.registers | danger.registers)
        joined[key] = danger
    return joined
