"""The fuzz finds defects that there once were when they are put back, within a number of requests that is stated; the
same requests find nothing without them.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import pytest
from defects import DEFECTS, Defect, compiled_anew
from drawing import draw_call, run
from trial import FAILED, RIGHT, Outcome, Trial, attempt

from ckmlir.ops.tensors.functions import function_names

SEED = 20
QUICK = 16
"""Defects that are found within so many requests are put back by default."""
CALLS = 2
"""Requests of every function of expressions by default; with `full` thirty more."""


def requests(defect: Defect) -> Iterator[tuple[Trial, Outcome]]:
    """Those that are to find a defect, with what comes of them."""
    for number in range(defect.within):
        random = Random(f"{SEED} {defect.operator} {number}")
        if defect.calls:
            trial = draw_call(number, random)
            yield trial, attempt(trial)
        else:
            trial, outcome, _ = run(defect.operator, random)
            yield trial, outcome


@pytest.mark.parametrize(
    "defect",
    [
        pytest.param(one, id=f"{one.operator}: {one.name}", marks=[] if one.within <= QUICK else pytest.mark.full)
        for one in DEFECTS
    ],
)
def test_a_defect_is_found(defect: Defect) -> None:
    """Within its number of requests; and none of those up to there fails without it."""
    with pytest.MonkeyPatch.context() as patched:
        compiled_anew(patched)
        defect.put_back(patched)
        count, outcome = 0, Outcome(RIGHT)
        for _, outcome in requests(defect):
            count += 1
            if outcome.kind == FAILED:
                break
    assert outcome.kind == FAILED, f"{defect.within} requests find nothing"
    assert any(word in outcome.reason for word in defect.shows), outcome
    for _, (clean, sound) in zip(range(count), requests(defect), strict=False):
        assert sound.kind != FAILED, f"{clean.command()}\n    {sound.reason}\n{sound.traceback}"


@pytest.mark.parametrize(
    "turn", [*range(CALLS), *(pytest.param(turn, marks=pytest.mark.full) for turn in range(CALLS, CALLS + 30))]
)
def test_every_function_of_special_values(turn: int) -> None:
    """Of variables and numbers, each on a chip and a type that are drawn."""
    count = len(function_names())
    for number in range(turn * count, (turn + 1) * count):
        trial = draw_call(number, Random(f"{SEED} {number}"))
        outcome = attempt(trial)
        assert outcome.kind != FAILED, f"{trial.command()}\n    {outcome.reason}\n{outcome.traceback}"
