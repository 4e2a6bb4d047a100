"""What workgroups that run at the same time read in common, from the addresses of a few of them.

The lines of memory that a recorded workgroup shares with its neighbour along an axis of the grid are taken to be shared
along the whole axis: the rows of A along one axis of a product's tiles, the columns of B along the other. Workgroups
are dealt to the dies one after the other (AMD CDNA 3 white paper: to the XCDs round robin), so an axis may reach
workgroups of the same die, of others, or both.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ckmlir.errors import CkmlirError
from ckmlir.sim.step_recording import NO_ADDRESS
from ckmlir.sim.timing.access_patterns import AccessKind, Lanes
from ckmlir.sim.timing.memory_shares import Sharing, device_dies, device_units
from ckmlir.sim.timing.parameters import Parameters

if TYPE_CHECKING:
    from ckmlir.sim.timing.recording import Trace


def neighbours(shape: Sequence[int], base: int = 0, count: int | None = None) -> tuple[int, ...]:
    """Workgroups to record for `measure_sharing`: one, and its neighbour along each axis that has one.

    Args:
        count: Of all workgroups; by default the places of the shape.
    """
    count = math.prod(shape) if count is None else count
    steps, places = np.cumprod([1, *shape[:-1]]).tolist(), map(int, np.unravel_index(base, tuple(shape), order="F"))
    found = [base]
    for step, at, extent in zip(steps, places, shape):
        beside = base + step if at + 1 < extent and base + step < count else base - step
        if extent > 1 and 0 <= beside < count:
            found.append(beside)
    return tuple(found)


def is_cut(shape: Sequence[int], count: int) -> bool:
    """Whether a shape has more places than there are workgroups: the last ones along its last axis are none, as where
    so many workgroups as a chip holds take the tiles of a product, row by row.
    """
    return math.prod(shape[:-1]) * (shape[-1] - 1) < count < math.prod(shape)


def surveyed_shape(shape: Sequence[int] | None, grid: Sequence[int]) -> Sequence[int]:
    """The shape over which lengths of workgroups are counted: the grid itself where there is none, or it is cut off."""
    return grid if shape is None or is_cut(shape, math.prod(grid)) else shape


def measure_sharing(
    trace: Trace,
    parameters: Parameters,
    workgroups_a_unit: int,
    shape: Sequence[int] | None = None,
    simulated: Sequence[int] = (),
    base: int | None = None,
) -> Sharing:
    """How many workgroups of a die, and how many dies, want each line that one workgroup reads at about the same time.

    Args:
        trace: Of the workgroups `neighbours(shape, base)`; along an axis without a recorded neighbour nothing is
            shared.
        parameters: Of the chip.
        workgroups_a_unit: That run on a compute unit at a time.
        simulated: Workgroups of the trace that will be simulated together; what these share is found by the simulation
            and left out here.
        shape: The grid as the kernel sees it, fastest axis first: for a product with a grid of one axis, its tiles
            along N and M. The launch's own grid by default. Its last axis may be cut off (`is_cut`).
        base: The workgroup that is compared with its neighbours; by default the first that was recorded.

    Raises:
        CkmlirError: The shape has another number of workgroups than the grid.
    """
    shape = tuple(trace.grid if shape is None else shape)
    count = math.prod(trace.grid)
    if math.prod(shape) != count and not is_cut(shape, count):
        raise CkmlirError(f"{trace.kernel}: a shape of {shape} has {math.prod(shape)} workgroups, the grid has {count}")
    read = lines_read(trace, parameters.integer("memory.l2.line"))
    base = min(read) if base is None else base
    shared = np.zeros(len(read[base]), np.int64)  # for each line, a bit for each axis
    for axis, neighbour in _recorded_neighbours(base, shape, read):
        shared |= np.isin(read[base], read[neighbour]).astype(np.int64) << axis
    masks, lines = np.unique(shared, return_counts=True)

    units, dies = device_units(parameters), device_dies(parameters)
    running = np.arange(min(count, units * workgroups_a_unit))
    places = np.array(np.unravel_index(running, shape, order="F"))
    wanted = float(len(running) * lines.sum())
    on_dies = sum(_distinct(places[:, die::dies], masks, lines) for die in range(dies))
    everywhere = _distinct(places, masks, lines)
    if not wanted or not on_dies or not everywhere:
        return Sharing()
    own = [read[group] for group in simulated]
    overlap = sum(map(len, own)) / max(1, len(np.unique(np.concatenate(own)))) if own else 1.0
    return Sharing(l2=max(1.0, wanted / on_dies / max(1.0, overlap)), mall=max(1.0, on_dies / everywhere))


def lines_read(trace: Trace, line_size: int) -> dict[int, npt.NDArray[np.int64]]:
    """For each recorded workgroup, the distinct lines of memory that its vector loads read, sorted."""
    made = np.repeat(trace.steps["wave"], trace.steps["accesses"])
    group_of = np.zeros(len(trace.accesses), np.int64)
    group_of[_rows_of_steps(trace)] = trace.groups[made]
    loads = (trace.accesses["kind"] == AccessKind.MEMORY) & (trace.accesses["store"] == 0)
    return {
        group: _lines(trace.accesses[loads & (group_of == group)], trace.patterns, line_size)
        for group in trace.workgroups
    }


def _rows_of_steps(trace: Trace) -> npt.NDArray[np.int64]:
    """The rows of trace.accesses, in the order of the steps that made them."""
    some = trace.steps[trace.steps["accesses"] > 0]
    first, number = some["access"].astype(np.int64), some["accesses"].astype(np.int64)
    return np.repeat(first - np.cumsum(number) + number, number) + np.arange(number.sum())


def _lines(accesses: npt.NDArray[Any], patterns: Lanes, line_size: int) -> npt.NDArray[np.int64]:
    """The distinct lines that accesses touch, sorted. Accesses of one pattern and width that start alike within a line
    touch the same lines, counted from the one that they start in."""
    lines, starts = np.divmod(accesses["base"], np.uint64(line_size))
    widths = accesses["bytes"].astype(np.uint64) << np.uint64(16)
    kinds = accesses["pattern"].astype(np.uint64) << np.uint64(32) | widths | starts
    touched = [np.zeros(0, np.uint64)]
    for kind in np.unique(kinds).tolist():
        lanes = patterns[kind >> 32]
        offsets = lanes[lanes != NO_ADDRESS] + np.uint64(kind & 0xFFFF)
        ends = offsets + np.uint64((kind >> 16 & 0xFFFF) - 1)
        apart = np.unique(np.concatenate([offsets, ends]) // np.uint64(line_size))
        touched.append((lines[kinds == np.uint64(kind)][:, None] + apart).ravel())
    return np.unique(np.concatenate(touched)).astype(np.int64)


def _recorded_neighbours(
    base: int, shape: Sequence[int], read: dict[int, npt.NDArray[np.int64]]
) -> Iterable[tuple[int, int]]:
    """(axis, workgroup) for recorded workgroups that differ from the base in one axis only."""
    origin = np.array(np.unravel_index(base, shape, order="F"))
    for group in read:
        differs = np.nonzero(np.array(np.unravel_index(group, shape, order="F")) != origin)[0]
        if len(differs) == 1:
            yield int(differs[0]), group


def _distinct(places: npt.NDArray[np.int64], masks: npt.NDArray[np.int64], lines: npt.NDArray[np.int64]) -> float:
    """Distinct lines that workgroups at some places read, when each reads `lines` of each class and a class is the
    same along the axes of its mask."""
    total = 0.0
    for mask, number in zip(masks.tolist(), lines.tolist()):
        own = [axis for axis in range(len(places)) if not mask >> axis & 1]
        total += number * (len(np.unique(places[own], axis=1).T) if own else min(1, places.shape[1]))
    return total
