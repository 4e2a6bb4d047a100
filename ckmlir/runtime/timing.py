"""An operator's launches by the timing model: compile, record a few workgroups, simulate a compute unit, estimate."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from ckmlir.compiled_kernel import CompiledKernel
from ckmlir.ops.comparison import Array
from ckmlir.ops.operator import Launch, Operator, require_valid
from ckmlir.ops.plan import KernelStep, make_plan
from ckmlir.ops.request import RequestError
from ckmlir.ops.spec import Spec
from ckmlir.runtime.recording import Choice, record_kernels, record_operator
from ckmlir.runtime.run import compile_kernel
from ckmlir.sim.timing.grid import Mode
from ckmlir.sim.timing.launch_model import LaunchModel, model_launch, workgroups_to_record
from ckmlir.sim.timing.occupancy import kernel_occupancy
from ckmlir.sim.timing.parameters import Parameters
from ckmlir.sim.timing.recording import Trace
from ckmlir.targets import Target


class KernelModel(Struct, frozen=True):
    """A kernel of a plan, recorded once, to be modelled under any parameters of the chip.

    Attributes:
        step: the launch.
        trace: of the workgroups that the model needs.
        mode: "analytic", "sampled", or how many workgroups (`launch_model.model_launch`).
    """

    step: KernelStep
    trace: Trace
    mode: Mode | int

    @property
    def is_own(self) -> bool:
        """Whether it is the operator's own kernel."""
        return self.step.is_own

    def under(self, parameters: Parameters) -> LaunchModel:
        """The launch with these numbers."""
        return model_launch(self.trace, parameters, self.mode, _shape(self.step.launch))


def model_kernels(
    operator: Operator[Any, Any],
    problem: Any,
    target: Target,
    parameters: Parameters,
    *,
    spec: Spec | None = None,
    mode: Mode | int = "sampled",
    compiled: CompiledKernel | None = None,
    seed: int = 0,
) -> list[KernelModel]:
    """Every kernel that a problem takes, in order. Fills and what is packed on the host have no model.

    Args:
        spec: of the operator's own kernel; by default what it chooses.
        compiled: the kernel of this specification if the caller has it already.

    Raises:
        RequestError: The chip cannot run a kernel, or there is nothing to launch.
        RecordingError: More executed instructions than a recording has room for.
        CkmlirError: A workgroup does not fit on a compute unit.
    """
    if not make_plan(operator, problem, target, spec).kernels:
        raise _nothing(operator)

    def numbers(step: KernelStep) -> Choice:
        kernel = compiled if step.is_own and compiled else compile_kernel(step.operator, step.spec, target)
        return _numbers(step.launch, kernel, parameters, mode)

    recorded = record_kernels(operator, problem, target, numbers, spec=spec, compiled=compiled, seed=seed)
    return [KernelModel(step, trace, mode) for step, trace in recorded]


class OperatorModel:
    """The launch of an operator's own kernel, recorded once, to be modelled under any parameters of the chip.

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
        mode: Mode | int = "sampled",
        compiled: CompiledKernel | None = None,
        arrays: Mapping[str, Array] | None = None,
        seed: int = 0,
    ) -> None:
        """Args:
        compiled: the kernel of the problem's specification, possibly under another schedule; default: the operator's.
        arrays: inputs; default: those that the operator makes from `seed`.
        """
        spec = operator.spec(problem, target)
        require_valid(operator, spec, target)
        launch = operator.launch(problem, spec, target)
        if launch.is_empty:
            raise _nothing(operator)
        self.mode: Mode | int = mode
        self.shape = _shape(launch)
        kernel = compiled or compile_kernel(operator, spec, target)
        numbers = _numbers(launch, kernel, parameters, mode)
        self.trace: Trace = record_operator(
            operator, problem, target, compiled=kernel, arrays=arrays, workgroups=numbers, seed=seed
        )

    def under(self, parameters: Parameters) -> LaunchModel:
        """The launch with these numbers."""
        return model_launch(self.trace, parameters, self.mode, self.shape)


def _shape(launch: Launch) -> tuple[int, ...]:
    return launch.shape or launch.grid


def _numbers(launch: Launch, kernel: CompiledKernel, parameters: Parameters, mode: Mode | int) -> Choice:
    """The workgroups that the model wants."""
    fitting = kernel_occupancy(kernel.code_object, kernel.kernel_name, parameters, math.prod(launch.block)).workgroups
    count = math.prod(launch.grid)
    return lambda lengths: workgroups_to_record(_shape(launch), parameters, fitting, mode, lengths, count)


def _nothing(operator: Operator[Any, Any]) -> RequestError:
    return RequestError(f"{operator.name}: nothing is launched for this problem, so there is no time to model")
