"""A launch of any code object by the model, in one call: record some of its workgroups, simulate a compute unit."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from msgspec.structs import replace

from ckmlir.sim.timing.launch_model import LaunchModel, model_launch, workgroups_to_record
from ckmlir.sim.timing.lengths import count_workgroups, survey
from ckmlir.sim.timing.occupancy import kernel_occupancy
from ckmlir.sim.timing.parameters import Parameters, load
from ckmlir.sim.timing.recording import RecordsLaunches, Trace, record
from ckmlir.sim.timing.sharing import surveyed_shape

if TYPE_CHECKING:
    from ckmlir.codeobject import CodeObject
    from ckmlir.sim.launch import Dimensions, KernelArgument
    from ckmlir.sim.timing.grid import Mode


def measure(
    simulator: RecordsLaunches,
    code_object: CodeObject,
    kernel: str | None = None,
    grid: Dimensions = (1, 1, 1),
    block: Dimensions = (64, 1, 1),
    arguments: Sequence[KernelArgument] = (),
    dynamic_lds: int = 0,
    *,
    parameters: Parameters | None = None,
    mode: Mode = "sampled",
    shape: Sequence[int] | None = None,
) -> LaunchModel:
    """What the model says of a launch. Only the workgroups that it needs are run; what they write is in memory.

    Args:
        simulator: Whose memory the arguments point to.
        code_object, kernel, grid, block, arguments, dynamic_lds: As for `Simulator.launch`.
        parameters: Of the chip; by default the ones that come with the package.
        mode: "analytic" simulates one workgroup, "sampled" as many as a compute unit has at a time.
        shape: The grid as the kernel sees it, fastest axis first; workgroups along an axis share inputs.

    Raises:
        CkmlirError: A workgroup does not fit on a compute unit, or the shape is not that of the grid.
        LaunchError, UnsupportedInstruction, SimulationError: As `Simulator.launch`.
    """
    parameters = parameters or load(code_object.target)
    launch = (simulator, code_object, kernel, grid, block, arguments, dynamic_lds)
    trace = record_launch(*launch, parameters=parameters, mode=mode, shape=shape)
    return model_launch(trace, parameters, mode, shape)


def record_launch(
    simulator: RecordsLaunches,
    code_object: CodeObject,
    kernel: str | None,
    grid: Dimensions,
    block: Dimensions,
    arguments: Sequence[KernelArgument],
    dynamic_lds: int,
    *,
    parameters: Parameters,
    mode: Mode | int,
    shape: Sequence[int] | None,
) -> Trace:
    """The workgroups of a launch that the model needs in a mode, recorded. Arguments and errors as for `measure`.

    Where waves pause, as where they wait for another workgroup, all workgroups before those run too.
    """
    name = code_object.kernel(kernel).name
    fitting = kernel_occupancy(code_object, name, parameters, math.prod(block))
    launch = (simulator, code_object, name, grid, block, arguments, dynamic_lds)
    with simulator.counting_runner(*launch[1:]) as runner:
        waits = runner.program.pauses
    lengths = survey(surveyed_shape(shape, grid), partial(count_workgroups, *launch, in_order=waits))
    numbers = workgroups_to_record(shape or grid, parameters, fitting.workgroups, mode, lengths, math.prod(grid))
    return replace(record(*launch, numbers, in_order=waits), lengths=lengths)
