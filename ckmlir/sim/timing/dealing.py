"""Dealing workgroups of different length to the compute units of a device, in the order of the launch.

Workgroups go to the dies one after the other (AMD CDNA 3 white paper: to the XCDs round robin), whatever these have to
do. A die puts one on each of its compute units before any has two; from then on the next goes where one has ended. How
fast a workgroup is depends on how many are beside it: while r workgroups are on a compute unit, each does 1 / cycles[r]
of itself in a cycle.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ckmlir.sim.timing.compiled import compiled_with_arrays

Floats = npt.NDArray[np.float64]


class Dealt(NamedTuple):
    """cycles: until the last workgroup ends. filled: share of the places for workgroups that have one, until then."""

    cycles: float
    filled: float


def deal(lengths: Floats, known: Floats, cycles: Floats, *, compute_units: int, dies: int, start_delay: float) -> Dealt:
    """Deal out all workgroups.

    Args:
        lengths: Of the workgroups, in launch order.
        known: Ascending lengths of which times are known; between them times are linear.
        cycles: [len(known), together]: of a workgroup of each of these lengths with r - 1 others on its compute unit,
            of which there are at most together - 1.
        compute_units, dies: Of the device.
        start_delay: Cycles between the end of a workgroup and the start of another in its place.
    """
    end, used = _deal(lengths, known, np.ascontiguousarray(cycles), compute_units, dies, start_delay)
    places = min(compute_units * cycles.shape[1], max(1, len(lengths)))
    return Dealt(float(end), float(used / (places * end)) if end else 1.0)


@compiled_with_arrays
def _deal(
    lengths: Floats, known: Floats, cycles: Floats, units: int, dies: int, start_delay: float
) -> tuple[float, float]:
    together = cycles.shape[1]
    count = len(lengths)
    times = np.zeros((units, together, together))  # of the workgroup in a place, by how many are there
    left = np.zeros((units, together))  # of it, from 1 to 0; 0 where nobody is
    waits = np.zeros((units, together))  # cycles until it starts
    resident = np.zeros(units, np.int64)
    now = np.zeros(units)  # to which the compute unit's places are brought forward
    ends = np.full(units, np.inf)  # when the next of its workgroups ends or starts
    following = np.arange(dies)
    used = 0.0
    for place in range(together):
        for unit in range(units):
            number = following[unit % dies]
            if number < count:
                following[unit % dies] = number + dies
                _put(times[unit, place], lengths[number], known, cycles)
                left[unit, place] = 1.0
                resident[unit] += 1
    for unit in range(units):
        ends[unit] = _next(times[unit], left[unit], waits[unit], resident[unit])
    last = 0.0
    while True:
        unit = int(np.argmin(ends))
        if ends[unit] == np.inf:
            return last, used
        passed = ends[unit] - now[unit]
        now[unit] = last = ends[unit]
        beside = resident[unit]
        used += passed * beside
        for place in range(together):
            if left[unit, place] == 0.0 or not _ends(times[unit], left[unit], waits[unit], place, passed, beside):
                continue
            resident[unit] -= 1
            number = following[unit % dies]
            if number < count:
                following[unit % dies] = number + dies
                _put(times[unit, place], lengths[number], known, cycles)
                left[unit, place] = 1.0
                waits[unit, place] = start_delay
                resident[unit] += 1
        step = _next(times[unit], left[unit], waits[unit], resident[unit])
        ends[unit] = now[unit] + step


@compiled_with_arrays
def _ends(times: Floats, left: Floats, waits: Floats, place: int, passed: float, beside: int) -> bool:
    """Bring a place of a compute unit forward, and say whether its workgroup has ended."""
    if waits[place] > 0.0:
        waits[place] = max(0.0, waits[place] - passed)
        if waits[place] < 1e-6:
            waits[place] = 0.0
        return False
    left[place] -= passed / times[place, beside - 1]
    if left[place] > 1e-9:
        return False
    left[place] = 0.0
    return True


@compiled_with_arrays
def _put(times: Floats, length: float, known: Floats, cycles: Floats) -> None:
    """The times of a workgroup of a length."""
    for beside in range(len(times)):
        times[beside] = max(1.0, np.interp(length, known, cycles[:, beside]))


@compiled_with_arrays
def _next(times: Floats, left: Floats, waits: Floats, resident: int) -> float:
    """Cycles until something happens on a compute unit; infinity where nobody is."""
    soonest = np.inf
    for place in range(len(left)):
        if left[place] > 0.0:
            rest = waits[place] if waits[place] > 0.0 else left[place] * times[place, resident - 1]
            soonest = min(soonest, rest)
    return soonest
