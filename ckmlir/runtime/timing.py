"""An operator's launch by the timing model: compile, record a few workgroups, simulate a compute unit, estimate."""

from __future__ import annotations

import math
from typing import Any

from ckmlir.compiler import CompiledKernel
from ckmlir.ops.operator import Operator, require_valid
from ckmlir.ops.request import RequestError
from ckmlir.runtime.recording import record_operator
from ckmlir.runtime.run import compile_kernel
from ckmlir.sim.timing.grid import Mode
from ckmlir.sim.timing.launch_model import LaunchModel, model_launch, workgroups_to_record
from ckmlir.sim.timing.occupancy import kernel_occupancy
from ckmlir.sim.timing.parameters import Parameters
from ckmlir.sim.timing.recording import Trace
from ckmlir.targets import Target


class OperatorModel:
    """An operator's launch, recorded once, to be modelled under any parameters of the chip.

    Attributes:
        trace: Of the workgroups that the model needs. shape: The grid as the kernel sees it.
        mode: "analytic", "sampled", or how many workgroups (`launch_model.model_launch`).

    Raises:
        RequestError: The chip cannot run the kernel, or there is nothing to launch.
        RecordingError: More executed instructions than a recording has room for.
        CkmlirError: A workgroup does not fit on a compute unit.
    """

    def __init__(
        self,
        operator: Operator[Any, Any],
        problem: Any,
        target: Target,
        parameters: Parameters,
        *,
        mode: Mode | int = "analytic",
        compiled: CompiledKernel | None = None,
        seed: int = 0,
    ) -> None:
        spec = operator.spec(problem, target)
        require_valid(operator, spec, target)
        launch = operator.launch(problem, spec)
        if launch.is_empty:
            raise RequestError(f"{operator.name}: nothing is launched for this problem, so there is no time to model")
        self.mode: Mode | int = mode
        self.shape = launch.shape or launch.grid
        kernel = compiled or compile_kernel(operator, spec, target)
        fitting = kernel_occupancy(kernel.code_object, kernel.kernel_name, parameters, math.prod(launch.block))
        numbers = workgroups_to_record(self.shape, parameters, fitting.workgroups, mode)
        self.trace: Trace = record_operator(operator, problem, target, compiled=kernel, workgroups=numbers, seed=seed)

    def under(self, parameters: Parameters) -> LaunchModel:
        """The launch with these numbers."""
        return model_launch(self.trace, parameters, self.mode, self.shape)
