"""A plan (`ckmlir.ops.plan`) bound to a device: its kernels loaded, its launches prepared, to be queued with memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from typing import Any, NamedTuple

import numpy as np

from ckmlir.ops.dtypes import numpy_dtype
from ckmlir.ops.plan import FillStep, KernelStep, PackStep, Plan, PlanStep
from ckmlir.ops.steps import place_of
from ckmlir.runtime.device import Memory, MemoryPart, PreparedLaunch, Stream
from ckmlir.runtime.loaded import LoadedKernel
from ckmlir.runtime.operator_kernels import OperatorKernels
from ckmlir.runtime.strided import elements

After = Callable[[PlanStep], None]
"""Called when a step has been queued."""


class BoundLaunch(NamedTuple):
    """A launch that is prepared.

    Attributes:
        names: what it is called with, in the kernel's order.
    """

    kernel: LoadedKernel
    step: KernelStep
    names: tuple[str, ...]
    prepared: PreparedLaunch


class BoundPlan:
    """Prepared launches and fills, in the order in which they are queued."""

    def __init__(
        self, kernels: OperatorKernels, workspaces: dict[str, int],
        steps: tuple[FillStep | PackStep | BoundLaunch, ...], plan: Callable[[], Plan],
    ) -> None:  # fmt: skip
        """`workspaces` are sizes in bytes by name; `plan` makes the plan that is bound, for who wants to see it."""
        self.workspaces, self.steps = workspaces, steps
        self._kernels, self._make_plan = kernels, plan
        self._plan: Plan | None = None
        only = steps[0] if len(steps) == 1 and not workspaces else None
        self._only = only if type(only) is BoundLaunch else None

    @staticmethod
    def of(kernels: OperatorKernels, plan: Plan) -> BoundPlan:
        """A plan, bound. Raises what compiling, loading and preparing launches raise."""
        steps: list[FillStep | PackStep | BoundLaunch] = []
        for step in plan.steps:
            if isinstance(step, KernelStep):
                kernel = kernels.kernel(step)
                steps.append(BoundLaunch(kernel, step, step.arrays, kernel.prepare(step.launch)))
            else:
                steps.append(step)
        sizes = {one.name: one.nbytes for one in plan.workspaces}
        return BoundPlan(kernels, sizes, tuple(steps), lambda: plan)

    def with_values(self, values: Any, plan: Callable[[], Plan]) -> BoundPlan:
        """The same with other sizes of workspaces, grids, scalars and sizes of fills, as `values_of` has them; they are
        those of `plan`. Raises what preparing launches raises."""
        sizes, numbers = values
        workspaces = dict(zip(self.workspaces, sizes))
        return BoundPlan(self._kernels, workspaces, tuple(map(_with_values, self.steps, numbers)), plan)

    @property
    def plan(self) -> Plan:
        """What is queued."""
        if self._plan is None:
            self._plan = self._make_plan()
        return self._plan

    def queue(self, buffers: Mapping[str, Memory], stream: Stream | None, after: After | None = None) -> None:
        """Queue all steps; `buffers` holds the arrays."""
        if self._only is not None and after is None:
            _, _, names, launch = self._only
            launch([buffers[name] for name in names], stream)
            return
        with ExitStack() as borrowed:
            everything = dict(buffers)
            for name, size in self.workspaces.items():
                block = borrowed.enter_context(self._kernels.workspaces.borrow(size, stream))
                everything[name] = MemoryPart(block, 0, size)
            for place, step in enumerate(self.steps):
                if isinstance(step, FillStep):
                    self._kernels.device.fill(everything[step.buffer], step.byte, step.nbytes, stream)
                elif type(step) is BoundLaunch:
                    step.prepared([everything[name] for name in step.names], stream)
                else:
                    pack = self.plan.steps[place]  # this step may be that of an example
                    assert isinstance(pack, PackStep)
                    self._pack(pack, everything, stream)
                if after is not None:
                    after(self.plan.steps[place])

    def _pack(self, step: PackStep, buffers: Mapping[str, Memory], stream: Stream | None) -> None:
        """Copy the inputs to the host, call the function there, and copy what it packed to the device."""
        staging, device, target = self._kernels.staging, self._kernels.device, self._kernels.target
        with ExitStack() as borrowed:
            packed = borrowed.enter_context(staging.borrow(step.nbytes, stream))
            inputs = [borrowed.enter_context(staging.borrow(spec.nbytes, stream)) for spec, _ in step.inputs]
            for (spec, name), staged in zip(step.inputs, inputs, strict=True):
                device.copy(staged, buffers[name], spec.nbytes, stream)

            places = {place_of(own): np.asarray(buffers[name].address, np.int64) for own, name in step.places}

            def pack() -> None:
                arrays = places | {
                    spec.name: elements(staged.bytes[: spec.nbytes], spec, numpy_dtype(spec.dtype, target))
                    for (spec, _), staged in zip(step.inputs, inputs, strict=True)
                }
                contents = packed.bytes[: step.nbytes]
                contents[:] = 0
                step.function(arrays, contents)

            device.call_on_host(pack, stream)
            device.copy(buffers[step.workspace], packed, step.nbytes, stream)


def values_of(plan: Plan, example: Plan) -> tuple[Any, ...]:
    """What distinguishes a plan from others with the same steps: sizes of workspaces, and of every step its own.

    Raises ValueError for a plan that has other steps than the example.
    """
    if [type(step) for step in plan.steps] != [type(step) for step in example.steps]:
        raise ValueError("a plan of other steps")
    return tuple(one.nbytes for one in plan.workspaces), tuple(map(_values_of_step, plan.steps, example.steps))


def _values_of_step(step: PlanStep, example: PlanStep) -> Any:
    if isinstance(step, FillStep):
        return step.nbytes
    if isinstance(step, PackStep):  # who packs is asked of the operator again, when it is time to pack
        return ()
    assert isinstance(example, KernelStep)
    launch = step.launch
    if step.spec != example.spec or launch.block != example.launch.block or step.arrays != example.arrays:
        raise ValueError("another kernel")
    return tuple(launch.grid), tuple(one.item() for one in launch.arguments if not isinstance(one, str))


def _with_values(step: FillStep | PackStep | BoundLaunch, values: Any) -> FillStep | PackStep | BoundLaunch:
    if type(step) is BoundLaunch:
        kernel, own, names, prepared = step
        return BoundLaunch(kernel, own, names, kernel.prepare_again(prepared, own.launch, *values))
    return FillStep(step.buffer, step.byte, values) if isinstance(step, FillStep) else step
