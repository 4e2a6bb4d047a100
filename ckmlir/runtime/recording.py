"""Recording what an operator's waves execute, for the timing model (`ckmlir.sim.timing`)."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from ckmlir.codeobject import CodeObject
from ckmlir.compiled_kernel import CompiledKernel
from ckmlir.ops.comparison import Array
from ckmlir.ops.operator import Operator, require_valid
from ckmlir.ops.plan import KernelStep, Plan, make_plan
from ckmlir.ops.request import RequestError
from ckmlir.ops.spec import Spec
from ckmlir.runtime.device import Extent
from ckmlir.runtime.run import run_operator
from ckmlir.runtime.simulator_device import SimulatorDevice
from ckmlir.sim import DeviceMemory
from ckmlir.sim.timing.lengths import Lengths, count_workgroups, survey
from ckmlir.sim.timing.recording import Trace, record
from ckmlir.sim.timing.sharing import surveyed_shape
from ckmlir.targets import Target

Choice = Callable[[Lengths | None], Sequence[int]]
"""Which workgroups to record, from the lengths of all, None where these are alike."""


class Recorded(Struct, frozen=True):
    """What is done with a launch: these workgroups are recorded, or those that are chosen once it is known how long all
    are; `runs`: beside that all of it is run as ever. `shape`: the grid as the kernel sees it, for the choice.
    `waits`: workgroups wait for each other: all are run before, so that those recorded find all flags set, and what the
    others leave for them.
    """

    workgroups: Sequence[int] | Choice
    runs: bool = False
    shape: Sequence[int] | None = None
    waits: bool = False


class RecordingDevice(SimulatorDevice):
    """A simulator that records some workgroups of some launches.

    Attributes:
        traces: one for each launch that was recorded, by the launch's number.
    """

    def __init__(self, target: Target, launches: Mapping[int, Recorded], seed: int = 0) -> None:
        """`launches`: what is recorded, by the launch's number from 0. The others run."""
        super().__init__(target, seed=seed, poison=False)  # to fill memory would take longer than a recording
        self._chosen, self._number = launches, 0
        self.traces: dict[int, Trace] = {}

    def _run(
        self,
        code_object: CodeObject,
        kernel: str,
        grid: Extent,
        block: Extent,
        arguments: Sequence[np.generic | DeviceMemory | int],
        dynamic_lds: int,
    ) -> None:
        number, self._number = self._number, self._number + 1
        chosen = self._chosen.get(number)
        if chosen is None:
            super()._run(code_object, kernel, grid, block, arguments, dynamic_lds)
            return
        if chosen.waits and chosen.workgroups:
            super()._run(code_object, kernel, grid, block, arguments, dynamic_lds)
        before = [(one, one.read()) for one in arguments if isinstance(one, DeviceMemory)] if chosen.runs else []
        given = (code_object, kernel, grid, block, arguments, dynamic_lds)
        if callable(chosen.workgroups):
            lengths = survey(surveyed_shape(chosen.shape, grid), partial(count_workgroups, self._simulator, *given))
            trace = record(self._simulator, *given, chosen.workgroups(lengths))
            self.traces[number] = replace(trace, lengths=lengths)
        elif chosen.workgroups:
            self.traces[number] = record(self._simulator, *given, chosen.workgroups)
        if chosen.runs:
            for memory, contents in before:
                memory.write(contents)
            super()._run(*given)


def record_operator(
    operator: Operator[Any, Any],
    problem: Any,
    target: Target,
    *,
    compiled: CompiledKernel | None = None,
    arrays: Mapping[str, Array] | None = None,
    workgroups: int | Sequence[int] | Choice = 1,
    seed: int = 0,
) -> Trace:
    """What the waves of some workgroups of an operator's own kernel execute. The steps before it run, kernels behind it
    do not.

    Args:
        compiled: the kernel of the problem's specification, possibly under another schedule; default: compiled here.
        arrays: inputs; default: those that the operator makes from `seed`.
        workgroups: how many, from number 0, or their numbers, or who chooses them by the lengths of all.

    Raises:
        RequestError: the chip cannot run it, there is nothing to launch, or there are fewer workgroups.
        RecordingError: more executed instructions than a recording has room for.
        KernelFault: the kernel went out of bounds.
    """
    spec = operator.spec(problem, target)
    require_valid(operator, spec, target)
    launch = operator.launch(problem, spec, target)
    count = math.prod(launch.grid)
    if isinstance(workgroups, int) and not 1 <= workgroups <= count:
        raise RequestError(
            f"{operator.name}: {workgroups} workgroups cannot be recorded; the launch has {count}"
            + ("" if count else ", since there is nothing to compute")
        )
    numbers = range(workgroups) if isinstance(workgroups, int) else workgroups
    plan = make_plan(operator, problem, target, spec)
    own = own_number(plan)
    behind = range(own + 1, len(plan.kernels))
    recorded = Recorded(numbers, shape=launch.shape, waits=launch.resident)
    chosen = {own: recorded, **dict.fromkeys(behind, Recorded(()))}
    given = operator.inputs(problem, target, seed) if arrays is None else arrays
    return _traces(operator, problem, target, chosen, spec, compiled, given, seed)[own]


def record_kernels(
    operator: Operator[Any, Any],
    problem: Any,
    target: Target,
    workgroups: Callable[[KernelStep], Sequence[int] | Choice],
    *,
    spec: Spec | None = None,
    compiled: CompiledKernel | None = None,
    seed: int = 0,
) -> list[tuple[KernelStep, Trace]]:
    """What the waves of some workgroups of every kernel of an operator's plan execute, in the plan's order.

    The kernels before the operator's own are also run, so that it finds what they prepare. Those behind it, whose
    inputs would take a whole run, are recorded by themselves, on inputs that their operators make.

    Args:
        workgroups: numbers of the workgroups to record of a kernel, or who chooses them.
        spec: of the operator's own kernel; by default what it chooses.
        compiled, seed: as `record_operator`, as are the errors.
    """
    plan = make_plan(operator, problem, target, spec)
    own = own_number(plan)
    chosen = {
        number: Recorded(
            workgroups(step) if number <= own else (),
            runs=number < own,
            shape=step.launch.shape,
            waits=step.launch.resident,
        )
        for number, step in enumerate(plan.kernels)
    }
    given = operator.inputs(problem, target, seed)
    traces = _traces(operator, problem, target, chosen, spec, compiled, given, seed)
    for number, step in list(enumerate(plan.kernels))[own + 1 :]:
        numbers = workgroups(step)
        traces[number] = record_operator(step.operator, step.problem, target, workgroups=numbers, seed=seed)
    return [(step, traces[number]) for number, step in enumerate(plan.kernels)]


def own_number(plan: Plan) -> int:
    """The number of the operator's own kernel among those of its plan; how many there are if it is not launched."""
    return next((number for number, step in enumerate(plan.kernels) if step.is_own), len(plan.kernels))


def _traces(
    operator: Operator[Any, Any],
    problem: Any,
    target: Target,
    chosen: Mapping[int, Recorded],
    spec: Spec | None,
    compiled: CompiledKernel | None,
    arrays: Mapping[str, Array],
    seed: int,
) -> dict[int, Trace]:
    device = RecordingDevice(target, chosen, seed)
    try:
        run_operator(operator, problem, arrays, target, device, spec=spec, compiled=compiled, reads_outputs=False)
    finally:
        device.close()
    return device.traces


def with_tile_operations(trace: Trace, operations: Mapping[tuple[str, int], str]) -> Trace:
    """The same trace, in which instructions know the tile operations of their source lines."""
    program = tuple(
        one._replace(tile_op=operations.get(one.source, one.tile_op) if one.source else one.tile_op)
        for one in trace.program
    )
    return replace(trace, program=program)
