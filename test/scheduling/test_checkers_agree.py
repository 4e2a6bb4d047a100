"""What the schedule checker refuses the simulator's checkers find, and what it accepts is clean and right.

Every named schedule is broken in every place: barriers, waits and fences removed, waits weakened, accesses to LDS moved
before a barrier. `broken_schedules.py` says how both judge the same waits; docs/schedules.md has the counts, made by
`count_broken_schedules.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from broken_schedules import KINDS, Subject, subjects, tally

DEFAULT = ("gemm compv3", "gemm async_double", "gemm ping_pong", "fmha_fwd qr_async")
FP8 = [Subject("fmha_fwd", "gfx950", name, "fp8") for name in ("qr_async_pinned", "qr_async_ping_pong")]
"""K and V in registers of their own, and two groups of waves that share K's buffer; not in the counts."""
MOST = 1
"""Changes of a kind that are tried by default."""


def cases() -> Iterator[Any]:
    """Every schedule and kind of change; by default one change of each kind of four schedules."""
    for subject in (*subjects(), *FP8):
        for kind in KINDS:
            if subject.name in DEFAULT:
                yield pytest.param(subject, kind, MOST, id=f"{subject}-{kind}-some")
            yield pytest.param(subject, kind, None, id=f"{subject}-{kind}", marks=pytest.mark.full)


@pytest.mark.one_in(48)
@pytest.mark.parametrize(("subject", "kind", "most"), list(cases()))
def test_checkers_agree(subject: Subject, kind: str, most: int | None) -> None:
    print(subject, kind, dict(tally(subject, kind, most)))
