"""Requests that nobody wrote: drawn from every operator's keys, run between guard bytes, compared, a share of them
under all checkers. A failure is printed as the command that reproduces it.

The same TRIALS requests of each operator run by default, fewer the more operators there are. `make full` runs others
for an hour, from a seed that it prints; `make full FUZZ_SEED=…` repeats them.
"""

from __future__ import annotations

import os
import resource
import time
from collections import Counter
from collections.abc import Iterator
from random import Random

import pytest
from campaign import limit_memory
from drawing import minimal, run
from trial import FAILED, REFUSED, RIGHT

from ckmlir.ops import OPERATORS

SEED = 20
TRIALS = 2
"""Of each operator: all operators' take about two minutes of one core."""
MOST = 12
"""Of an operator, until enough have run."""
LEAST_RUN = 0.25
"""Share of the trials of an operator that have to run: a fuzz that refuses everything finds nothing."""


@pytest.fixture(autouse=True)
def memory_limit() -> Iterator[None]:
    """Requests are drawn with sizes of every kind, and references are not written to save memory."""
    before = resource.getrlimit(resource.RLIMIT_AS)
    limit_memory()
    yield
    resource.setrlimit(resource.RLIMIT_AS, before)


@pytest.mark.parametrize("operator", OPERATORS)
def test_requests_of(operator: str) -> None:
    """Right, or refused in words; at least some run."""
    counts: Counter[str] = Counter()
    failures = []
    number = 0
    # Of some operators most requests are too large to be run: more are drawn until enough have run.
    while number < TRIALS or (counts[RIGHT] < LEAST_RUN * TRIALS and number < MOST):
        trial, outcome, _ = run(operator, Random(f"{SEED} {operator} {number}"))
        number += 1
        counts[outcome.kind] += 1
        if outcome.kind == FAILED:
            failures.append(f"{trial.command()}\n    {outcome.reason}\n{outcome.traceback}")
    assert not failures, "\n".join(failures)
    assert counts[RIGHT] >= LEAST_RUN * TRIALS, counts


@pytest.mark.full
def test_an_hour_of_requests() -> None:
    """All operators in turn, from a seed of its own."""
    seed, seconds = os.environ.get("FUZZ_SEED", str(SEED)), float(os.environ.get("FUZZ_SECONDS", "3600"))
    end, number, names = time.monotonic() + seconds, 0, list(OPERATORS)
    counts: Counter[tuple[str, str]] = Counter()
    failures = []
    while time.monotonic() < end and len(failures) < 20:
        name = names[number % len(names)]
        trial, outcome, _ = run(name, Random(f"{seed} {number}"))
        number += 1
        counts[name, outcome.kind] += 1
        if outcome.kind == FAILED:
            trial, outcome = minimal(trial, outcome)
            failures.append(f"{trial.command()}\n    {outcome.reason}\n{outcome.traceback}")
    assert not failures, f"seed {seed}:\n" + "\n".join(failures)
    for name in names:
        tried = sum(counts[name, kind] for kind in (RIGHT, FAILED, REFUSED))
        assert counts[name, RIGHT] >= LEAST_RUN * tried, (name, counts)
