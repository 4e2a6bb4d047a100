"""A whole launch by the model, from a recording of a few of its workgroups."""

from __future__ import annotations

import math
from collections.abc import Sequence

from msgspec import Struct

from ckmlir.errors import CkmlirError
from ckmlir.sim.timing.compute_unit import simulate
from ckmlir.sim.timing.events import Timeline
from ckmlir.sim.timing.grid import GridEstimate, Mode, estimate_grid
from ckmlir.sim.timing.lengths import Lengths
from ckmlir.sim.timing.memory_shares import Sharing, device_units, new_memory
from ckmlir.sim.timing.occupancy import trace_occupancy
from ckmlir.sim.timing.parameters import Parameters
from ckmlir.sim.timing.recording import Trace
from ckmlir.sim.timing.sharing import measure_sharing, neighbours
from ckmlir.sim.timing.trace_parts import part_of
from ckmlir.sim.timing.varied_grid import SampleTimes, choose_samples, estimate_varied_grid


class LaunchModel(Struct, frozen=True):
    """The compute unit that was simulated, the launch that it stands for, and what its workgroups share."""

    timeline: Timeline
    grid: GridEstimate
    sharing: Sharing


def workgroups_to_record(
    shape: Sequence[int],
    parameters: Parameters,
    workgroups_a_unit: int,
    mode: Mode | int,
    lengths: Lengths | None = None,
    count: int | None = None,
) -> tuple[int, ...]:
    """The workgroups that `model_launch` wants of a grid: neighbours, and for a sample those of one compute unit; of
    workgroups that are not alike samples of several lengths. `count`: of all, where the shape is cut off."""
    count = math.prod(shape) if count is None else count
    if lengths is None:
        beside = neighbours(shape, count=count)
        return tuple(dict.fromkeys((*residents(count, parameters, workgroups_a_unit, mode), *beside)))
    samples = choose_samples(lengths, _together(lengths, parameters, workgroups_a_unit))
    wanted = _named(count, parameters, workgroups_a_unit, mode)
    return tuple(dict.fromkeys((*wanted, *samples.workgroups, *neighbours(shape, samples.base, count))))


def residents(count: int, parameters: Parameters, workgroups_a_unit: int, mode: Mode | int) -> tuple[int, ...]:
    """The workgroups of a launch of `count` that run on the first compute unit: one in analytic mode; in a sample those
    that a dispatcher puts there at a time that goes round all compute units (assumed); or so many of those that it puts
    there one after another, and of others where it puts fewer.

    Raises:
        CkmlirError: The launch has fewer workgroups.
    """
    units = device_units(parameters)
    if isinstance(mode, int):
        if not 1 <= mode <= count:
            raise CkmlirError(f"{mode} workgroups cannot be modelled; the launch has {count}")
        return tuple(number * min(units, count // mode) for number in range(mode))
    together = min(workgroups_a_unit, math.ceil(count / units)) if mode == "sampled" else 1
    return tuple(unit * units for unit in range(together))


def _named(count: int, parameters: Parameters, workgroups_a_unit: int, mode: Mode | int) -> tuple[int, ...]:
    """Workgroups that a number of them as mode asks for: one alone may be any, so the typical one is taken."""
    return residents(count, parameters, workgroups_a_unit, mode) if isinstance(mode, int) and mode > 1 else ()


def _together(lengths: Lengths, parameters: Parameters, workgroups_a_unit: int) -> int:
    """How many workgroups are on a compute unit at a time."""
    return min(workgroups_a_unit, math.ceil(math.prod(lengths.shape) / device_units(parameters)))


def model_launch(
    trace: Trace, parameters: Parameters, mode: Mode | int = "analytic", shape: Sequence[int] | None = None
) -> LaunchModel:
    """Simulate what one compute unit has of a launch, with its share of memory, and carry it over to the launch.

    Args:
        trace: Of the workgroups `workgroups_to_record(…)`; without neighbours nothing is taken to be shared.
        mode: "analytic": one workgroup is simulated. "sampled": as many as are on a compute unit at a time. Or how
            many; those that do not fit wait until others have ended.
        shape: The grid as the kernel sees it, fastest axis first; the launch's own by default.

    Raises:
        CkmlirError: A workgroup that is needed was not recorded, or does not fit on a compute unit.
    """
    if trace.lengths is not None:
        return _model_varied(trace, trace.lengths, parameters, mode, shape)
    count = math.prod(trace.grid)
    fitting = trace_occupancy(trace, parameters).workgroups
    chosen = residents(count, parameters, fitting, mode)
    units = device_units(parameters)
    together = min(fitting, math.ceil(count / units))
    part = part_of(trace, chosen)
    sharing = measure_sharing(trace, parameters, together, shape, chosen)
    memory = new_memory(parameters, 1, busy=min(units, count), sharing=sharing)
    timeline = simulate(part, parameters, memory=memory)
    rest = count % (units * together)
    tail = None
    if mode == "sampled" and rest > 0 and math.ceil(rest / units) < len(chosen):
        memory = new_memory(parameters, 1, busy=min(units, rest), sharing=sharing)
        tail = simulate(part_of(trace, chosen[: math.ceil(rest / units)]), parameters, memory=memory)
    return LaunchModel(timeline, estimate_grid(timeline, tail=tail), sharing)


def _model_varied(
    trace: Trace, lengths: Lengths, parameters: Parameters, mode: Mode | int, shape: Sequence[int] | None
) -> LaunchModel:
    """The same of workgroups that are not alike. The launch comes from samples in every mode: how much workgroups hold
    each other up is what most depends on their length. The mode says which compute unit is shown."""
    count, fitting = math.prod(trace.grid), trace_occupancy(trace, parameters).workgroups
    together = _together(lengths, parameters, fitting)
    samples = choose_samples(lengths, together)

    def simulated(numbers: Sequence[int]) -> tuple[Timeline, Sharing]:
        sharing = measure_sharing(trace, parameters, together, shape, numbers, samples.base)
        memory = new_memory(parameters, 1, busy=min(device_units(parameters), count), sharing=sharing)
        return simulate(part_of(trace, numbers), parameters, memory=memory), sharing

    times, shared = [], []
    for sample in samples.samples:
        alone, sharing = simulated(sample.workgroups[:1])
        full, sharing = simulated(sample.workgroups) if len(sample.workgroups) > 1 else (alone, sharing)
        times.append(SampleTimes(alone, full))
        shared.append(sharing)
    grid = estimate_varied_grid(lengths, samples, times, parameters, together)
    shown = times[samples.typical]
    timeline, sharing = shown.together if mode == "sampled" else shown.alone, shared[samples.typical]
    if named := _named(count, parameters, fitting, mode):
        timeline, sharing = simulated(named)
    return LaunchModel(timeline, grid, sharing)
