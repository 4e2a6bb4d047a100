"""What a hazard rule is, and the predicates that the tables of rules are written with."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, NamedTuple

from ckmlir.sim.analysis import matrix_passes
from ckmlir.sim.analysis.effects import Category, Effects
from ckmlir.sim.analysis.registers import RegisterSet, registers_of
from ckmlir.sim.chips import TARGETS
from ckmlir.sim.decode import Instruction

GFX940: Final = ("gfx942", "gfx950")
TRANSCENDENTAL: Final = "v_(exp|log|rcp|rsq|sqrt|sin|cos)(_iflag|_legacy)?_f(16|32|64)"


class Described(NamedTuple):
    """An instruction with what rules ask about."""

    instruction: Instruction
    effects: Effects

    @property
    def name(self) -> str:
        """The mnemonic."""
        return self.instruction.mnemonic

    @property
    def is_vector(self) -> bool:
        """A vector ALU instruction other than a matrix instruction."""
        return self.effects.category is Category.VALU

    @property
    def is_matrix(self) -> bool:
        """A matrix instruction."""
        return self.effects.category is Category.MATRIX

    @property
    def is_memory(self) -> bool:
        """An instruction that reads vector registers on its way to memory or LDS."""
        return self.effects.category in (Category.VMEM, Category.LDS)

    @property
    def is_double(self) -> bool:
        """A matrix instruction on f64."""
        return self.is_matrix and matrix_passes.is_double(self.name)

    @property
    def is_xdl(self) -> bool:
        """A matrix instruction on the XDL pipeline."""
        return self.is_matrix and matrix_passes.runs_on_xdl(self.name, self.instruction.target)

    @property
    def passes(self) -> int:
        """Of a matrix instruction."""
        modifiers = self.instruction.modifiers
        fast = modifiers.get("cbsz", 0) > 1 and modifiers.get("blgp", 0) > 1
        return matrix_passes.passes(self.name, self.instruction.target, fast)

    @property
    def accumulator(self) -> RegisterSet:
        """The registers a matrix instruction adds to: operand C, or the destination of v_smfmac."""
        if self.name.startswith("v_smfmac"):
            return self.effects.writes
        return registers_of(self.instruction.sources[2])


Produces = Callable[[Described, "Described | None"], RegisterSet]
Consumes = Callable[[Described], RegisterSet]
States = Callable[[Described, Described], int]


class Rule(NamedTuple):
    """One hazard.

    Attributes:
        name: What it is, for reports.
        chips: Where it applies.
        window: The largest number of wait states it asks for.
        produces: Registers (or other resources) the first instruction leaves behind; its second argument is the
            instruction before it in its block.
        consumes: Those the second instruction must not touch yet.
        states: Wait states between the two.
        ends: Another write of the register ends the danger.
        advisory: Why a violation is advice and not a fault; "" for rules that are required.
    """

    name: str
    chips: tuple[str, ...]
    window: int
    produces: Produces
    consumes: Consumes
    states: States
    ends: bool = True
    advisory: str = ""


def fixed(
    name: str, states: int, produces: Consumes, consumes: Consumes, chips: tuple[str, ...] = TARGETS, ends: bool = True,
    advisory: str = "",
) -> Rule:  # fmt: skip
    """A rule with the same number of wait states for all pairs."""
    return Rule(name, chips, states, lambda one, _: produces(one), consumes, lambda one, two: states, ends, advisory)


def when(condition: Callable[[Described], bool], registers: Consumes) -> Consumes:
    return lambda one: registers(one) if condition(one) else 0


def reads(one: Described) -> RegisterSet:
    return one.effects.named_reads


def writes(one: Described) -> RegisterSet:
    return one.effects.writes


def touches(one: Described) -> RegisterSet:
    return one.effects.named_reads | one.effects.writes


def within(registers: RegisterSet, of: Consumes) -> Consumes:
    return lambda one: of(one) & registers


def is_vector(one: Described) -> bool:
    return one.is_vector


def is_vector_or_matrix(one: Described) -> bool:
    return one.is_vector or one.is_matrix


def named(pattern: str) -> Callable[[Described], bool]:
    compiled = re.compile(pattern)
    return lambda one: compiled.fullmatch(one.name) is not None


def form(encoding: str) -> Callable[[Described], bool]:
    return lambda one: one.instruction.encoding == encoding


def sources(one: Described) -> RegisterSet:
    found = 0
    for operand in one.instruction.sources:
        found |= registers_of(operand)
    return found
