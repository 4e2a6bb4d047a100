"""Whatever decodes either gets a handler or is refused with a reason: no random instruction brings selection or
emission down."""

from __future__ import annotations

import llvmlite.binding as llvm
import pytest
from decode_words import random_instructions

from ckmlir.sim.chips import TARGETS
from ckmlir.sim.decode import UnknownInstruction, decode
from ckmlir.sim.handler import HandlerKey
from ckmlir.sim.library import compile_object, module_text
from ckmlir.sim.selected import Environment
from ckmlir.sim.selection import select, why_not

BATCH = 60


def handlers(target: str, count: int, seed: int) -> list[HandlerKey]:
    """The handlers that random instructions ask for, in an environment where everything is looked at."""
    environment = Environment(target, dynamic_mode=True, indexed=True, skips=True)
    keys: dict[HandlerKey, None] = {}
    for data in random_instructions(target, count, seed):
        try:
            instruction = decode(data, 0, target)
        except UnknownInstruction:
            continue
        selected = select(instruction, environment)
        if selected is None:
            reason = why_not(instruction, environment)
            assert reason and "no semantics" not in reason and "are expected" not in reason, instruction.text
        else:
            keys.setdefault(selected.key)
    return list(keys)


@pytest.mark.parametrize("target", TARGETS)
def test_random_instructions_have_valid_handlers_or_a_reason(target: str) -> None:
    keys = handlers(target, 1300, seed=7)
    assert len(keys) > 500
    for first in range(0, len(keys), BATCH):
        llvm.parse_assembly(module_text(keys[first : first + BATCH])).verify()


@pytest.mark.full
@pytest.mark.parametrize("target", TARGETS)
def test_handlers_of_random_instructions_compile(target: str) -> None:
    keys = handlers(target, 3000, seed=8)
    for first in range(0, len(keys), BATCH):
        assert compile_object(module_text(keys[first : first + BATCH]))
