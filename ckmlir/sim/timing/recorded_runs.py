"""From the straight runs of a recording to single steps, wave by wave."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from ckmlir.sim.timing.compiled import compiled

STEP: Final = np.dtype(
    [("wave", "<u4"), ("instruction", "<u4"), ("lanes", "u1"), ("accesses", "u1"), ("access", "<i4")]
)
"""One executed instruction: wave (index in the trace), instruction (index in `Trace.program`), active lanes, how many
accesses it made and the row of the first in `Trace.accesses` (-1 without any)."""

Integers = npt.NDArray[np.int64]


def steps_of_runs(
    runs: npt.NDArray[Any], waves: int, waves_a_group: int, starts: Integers, makers: Integers
) -> tuple[npt.NDArray[Any], Integers]:
    """STEP rows, those of a wave in program order and one wave after the other, and where each wave begins.

    Args:
        runs: RUN_ROWs of one workgroup after the other.
        waves: All that were recorded.
        starts: Instructions that begin a run, and behind them how many instructions there are.
        makers: For each access, the instruction that made it.
    """
    ends = np.repeat(starts[1:], np.diff(starts))
    first = np.zeros(waves + 1, np.int64)
    count_steps(runs, waves_a_group, ends, first)
    first = np.cumsum(first)
    steps = np.empty(int(first[-1]), STEP)
    known = unfold_runs(runs, waves_a_group, ends, makers, first.copy(), steps)
    assert known == len(makers), "an access that no step made"
    return steps, first


@compiled
def count_steps(runs: npt.NDArray[Any], waves_a_group: int, ends: Integers, counts: Integers) -> None:
    """How many steps each wave makes, in the entry behind its own."""
    before = 0  # waves of earlier workgroups
    for row in range(len(runs)):
        if row > 0 and runs[row]["group"] != runs[row - 1]["group"]:
            before += waves_a_group
        number = runs[row]["instruction"]
        counts[before + runs[row]["wave"] + 1] += ends[number] - number


@compiled
def unfold_runs(
    runs: npt.NDArray[Any], waves_a_group: int, ends: Integers, makers: Integers, places: Integers,
    steps: npt.NDArray[Any],
) -> int:  # fmt: skip
    """Write the steps of each run where its wave is; `places` are counted up. Returns how many accesses they made."""
    before, known = 0, 0
    for row in range(len(runs)):
        run = runs[row]
        if row > 0 and run["group"] != runs[row - 1]["group"]:
            before += waves_a_group
        wave = before + run["wave"]
        access = run["accesses_before"]
        end_of_accesses = runs[row + 1]["accesses_before"] if row + 1 < len(runs) else len(makers)
        place = places[wave]
        for number in range(run["instruction"], ends[run["instruction"]]):
            first = access
            while access < end_of_accesses and makers[access] == number:
                access += 1
            step = steps[place]
            step["wave"], step["instruction"], step["lanes"] = wave, number, run["lanes"]
            step["accesses"] = access - first
            known += access - first
            step["access"] = first if access > first else -1
            place += 1
        places[wave] = place
    return int(known)
