"""Scalars that a loop takes anew: the same numbers, computed in the loop and not before it."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from kernel_runner import CHIPS, Compiled, compile_traced

from ckmlir.dialect.distribution_builders import coalesced
from ckmlir.lang import Kernel, i32, kernel, load, loop, ptr, store, view
from ckmlir.targets import get_target

SIZE, TIMES = 64, 5
LIES = coalesced((SIZE,), 1, 0, 1)
ARGUMENTS = {"x": ptr("i32"), "y": ptr("i32"), "n": i32, "times": i32}


def summing(chip: str, *, anew: bool) -> Kernel:
    """y = the sum of (x ^ key) * i, where the key follows from n by steps that have no short form."""

    @kernel("summing", target=get_target(chip), waves=1, arguments=ARGUMENTS)
    def summing(given: Any) -> None:
        x, y = (view(one, (SIZE,), (1,)).window((SIZE,), (0,)) for one in (given.x, given.y))
        tile = load(x, LIES)
        with loop(0, given.times, 1, carry=[tile]) as step:
            (total,) = step.carried
            number = given.n.anew() if anew else given.n
            key = (number * 12345 + 7) * number + number // 3
            step.carry(total + (tile ^ key) * step.index)
        store(step.results[0], y)

    return summing


def check(compiled: Compiled, n: int) -> None:
    """Against NumPy, under all checkers."""
    x = np.arange(SIZE, dtype=np.int32)
    key = np.int32((n * 12345 + 7) * n + n // 3)
    expected = x + sum((x ^ key) * i for i in range(TIMES))
    _, y, *_ = compiled.run(x, np.zeros(SIZE, np.int32), n, TIMES, checks="all")
    assert np.array_equal(y, expected)


def in_the_loop(compiled: Compiled) -> int:
    """Multiplications of scalars between the loop's label and the branch back to it."""
    found = re.search(r"^(\.LBB\w+):.*?s_c?branch\w* \1$", compiled.assembly, re.MULTILINE | re.DOTALL)
    assert found
    return len(re.findall(r"\bs_mul_", found[0]))


@pytest.mark.parametrize("chip", CHIPS)
def test_what_follows_is_computed_in_the_loop(chip: str) -> None:
    """Where it is the same number, LLVM computes the key before the loop."""
    again, once = (compile_traced(summing(chip, anew=anew)) for anew in (True, False))
    assert (in_the_loop(again) > 0, in_the_loop(once)) == (True, 0)
    for compiled in (again, once):
        check(compiled, 41)
