"""What the schedule checker refuses, and what the simulator's checkers find in the machine code of the same kernel.

They agree on every removed barrier, and on waits but for one kind of difference, stated here and tested: a wait for LDS
(`lds = 0`) that is missing before a barrier may be made up for by LLVM, which waits before a value that was read is
used. The schedule checker asks for it nevertheless, since nothing keeps that use in front of the barrier. The barrier's
need is still there in the machine code, and LLVM's own waits meet it.

What the schedule checker accepts after a change is clean in the machine code too, and the numbers stay right.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from broken_schedules import KINDS, Broken, Subject, barriers_in_need, broken, changes, seen_reading, seen_running

CHIPS = ("gfx90a", "gfx942", "gfx950")
GEMM = (
    "unpipelined", "v1", "v2", "mem2", "mem3", "mem3_interwave", "compv3", "compv4", "compv6", "hot_loop", "async",
    "async_double", "straight", "async_wide",
)  # fmt: skip
ATTENTION = ("unpipelined", "qr", "qr_async", "qr_async_trload", "qr_async_pinned")
DEFAULT = {("gemm", "compv3"), ("gemm", "async_double"), ("fmha_fwd", "qr")}
MOST = 2
"""Changes of a kind that are tried by default."""


def subjects() -> Iterator[Any]:
    """Every schedule with changing chips; by default three, of which every kind of change is tried a few times."""
    names = [("gemm", name) for name in GEMM] + [("fmha_fwd", name) for name in ATTENTION]
    for number, (operator, schedule) in enumerate(names):
        chip = "gfx950" if schedule == "qr_async_trload" else CHIPS[number % 3]
        subject = Subject(operator, chip, schedule)
        for kind in KINDS:
            if (operator, schedule) in DEFAULT:
                yield pytest.param(subject, kind, MOST, id=f"{subject}-{kind}-some")
            yield pytest.param(subject, kind, None, id=f"{subject}-{kind}", marks=pytest.mark.full)


STEPS = range(1, 8)
"""Numbers of steps that go through prologue, steady loop and every remainder."""


@pytest.mark.parametrize(("subject", "kind", "most"), list(subjects()))
def test_checkers_agree(subject: Subject, kind: str, most: int | None) -> None:
    clean = broken(subject, None)
    assert clean.refusals == () and not seen_reading(clean.kernel)
    assert seen_running(subject, clean.kernel, STEPS) == ""
    every = changes(subject, kind)
    some = every if most is None else every[:: max(1, len(every) // most)]
    counts: dict[str, int] = {}
    for change in some:
        verdict = judged(subject, kind, change, clean)
        counts[verdict] = counts.get(verdict, 0) + 1
    assert sum(counts.values()) == len(some)
    print(subject, kind, counts)


def judged_without_barrier(subject: Subject, made: Broken) -> str:
    """The same for a barrier that is missing."""
    seen = seen_running(subject, made.kernel, STEPS)
    if not made.refusals:
        assert seen == "" and "interwave" in subject.schedule, "in a last step nothing is written that it could protect"
        return "both accept"
    if made.refusals == ("wait",):
        assert "async" in subject.schedule, "an earlier barrier lies between, but before the wait for copies"
        return "both refuse" if seen else "the simulator's copies have ended"
    assert "hazard" in made.refusals
    assert seen, "the simulator does not see the missing barrier"
    return "both refuse"


def judged(subject: Subject, kind: str, change: Any, clean: Any) -> str:
    """How the checkers' verdicts of one change fit together; raises AssertionError where they do not."""
    made = broken(subject, change.apply)
    if kind == "barrier removed":
        return judged_without_barrier(subject, made)
    found = seen_reading(made.kernel)
    if not made.refusals:
        assert change.counters == ("lds",), "only copies are under way there"
        assert not found and seen_running(subject, made.kernel, STEPS) == ""
        return "both accept"
    assert made.refusals == ("wait",)
    if found:
        return "both refuse"
    assert "lds" in change.counters, "a wait for copies is missing, and nothing is found in the machine code"
    assert barriers_in_need(made.kernel) == barriers_in_need(clean.kernel)
    return "LLVM waits"
