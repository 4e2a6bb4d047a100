"""Some workgroups of a trace, as a trace."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from msgspec.structs import replace

from ckmlir.errors import CkmlirError
from ckmlir.sim.timing.recording import Trace


def part_of(trace: Trace, workgroups: Iterable[int]) -> Trace:
    """The waves of some of a trace's workgroups, in the order given, with no more accesses than theirs.

    Raises:
        CkmlirError: A workgroup that was not recorded, or none.
    """
    chosen = tuple(dict.fromkeys(workgroups))
    if missing := sorted(set(chosen) - set(trace.workgroups)):
        recorded = ", ".join(map(str, trace.workgroups))
        raise CkmlirError(f"{trace.kernel}: workgroup {missing[0]} was not recorded; recorded are {recorded}")
    if not chosen:
        raise CkmlirError(f"{trace.kernel}: no workgroup was chosen of those recorded")
    waves = [wave for number in chosen for wave in np.nonzero(trace.groups == number)[0].tolist()]
    steps = np.concatenate([trace.steps_of(wave) for wave in waves])
    lengths = [len(trace.steps_of(wave)) for wave in waves]
    steps["wave"] = np.repeat(np.arange(len(waves)), lengths)
    some = steps["accesses"] > 0
    first, count = steps["access"][some].astype(np.int64), steps["accesses"][some].astype(np.int64)
    starts = np.cumsum(count) - count
    rows = np.repeat(first - starts, count) + np.arange(int(count.sum()))
    steps["access"][some] = starts
    return replace(
        trace,
        steps=steps,
        wave_first=np.cumsum([0, *lengths]).astype(np.int64),
        groups=trace.groups[waves],
        accesses=trace.accesses[rows],
    )
