"""Recording what an operator's waves execute, for the timing model (`ckmlir.sim.timing`)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ckmlir.codeobject import CodeObject
from ckmlir.compiler import CompiledKernel
from ckmlir.ops.comparison import Array
from ckmlir.ops.operator import Operator, require_valid
from ckmlir.ops.request import RequestError
from ckmlir.runtime.device import Extent
from ckmlir.runtime.run import compile_kernel, run_operator
from ckmlir.runtime.simulator_device import SimulatorDevice
from ckmlir.sim import DeviceMemory
from ckmlir.sim.timing.recording import Trace, record
from ckmlir.targets import Target


class RecordingDevice(SimulatorDevice):
    """A simulator that records some workgroups of launches of one kernel; of these launches nothing else is run.

    Attributes:
        traces: one for each launch.
    """

    def __init__(self, target: Target, kernel: str, workgroups: Sequence[int], seed: int = 0) -> None:
        super().__init__(target, seed=seed)
        self._kernel, self._workgroups = kernel, workgroups
        self.traces: list[Trace] = []

    def _run(
        self,
        code_object: CodeObject,
        kernel: str,
        grid: Extent,
        block: Extent,
        arguments: Sequence[np.generic | DeviceMemory | int],
        dynamic_lds: int,
    ) -> None:
        if kernel != self._kernel:  # what prepares workspaces
            super()._run(code_object, kernel, grid, block, arguments, dynamic_lds)
            return
        simulator, chosen = self._simulator, self._workgroups
        self.traces.append(record(simulator, code_object, kernel, grid, block, arguments, dynamic_lds, chosen))


def record_operator(
    operator: Operator[Any, Any],
    problem: Any,
    target: Target,
    *,
    compiled: CompiledKernel | None = None,
    arrays: Mapping[str, Array] | None = None,
    workgroups: int | Sequence[int] = 1,
    seed: int = 0,
) -> Trace:
    """What the waves of some of an operator's workgroups execute.

    Args:
        compiled: the kernel of the problem's specification, possibly under another schedule; default: compiled here.
        arrays: inputs; default: those that the operator makes from `seed`.
        workgroups: how many, from number 0, or their numbers.

    Raises:
        RequestError: the chip cannot run it, there is nothing to launch, or there are fewer workgroups.
        RecordingError: more executed instructions than a recording has room for.
        KernelFault: the kernel went out of bounds.
    """
    spec = operator.spec(problem, target)
    require_valid(operator, spec, target)
    grid = operator.launch(problem, spec).grid
    count = math.prod(grid)
    if isinstance(workgroups, int) and not 1 <= workgroups <= count:
        raise RequestError(
            f"{operator.name}: {workgroups} workgroups cannot be recorded; the launch has {count}"
            + ("" if count else ", since there is nothing to compute")
        )
    numbers = range(workgroups) if isinstance(workgroups, int) else workgroups
    kernel = compiled or compile_kernel(operator, spec, target)
    device = RecordingDevice(target, kernel.kernel_name, numbers, seed)
    try:
        given = operator.inputs(problem, target, seed) if arrays is None else arrays
        run_operator(operator, problem, given, target, device, compiled=kernel)
    finally:
        device.close()
    return device.traces[-1]


def with_tile_operations(trace: Trace, operations: Mapping[tuple[str, int], str]) -> Trace:
    """The same trace, in which instructions know the tile operations of their source lines."""
    program = tuple(
        one._replace(tile_op=operations.get(one.source, one.tile_op) if one.source else one.tile_op)
        for one in trace.program
    )
    return replace(trace, program=program)
