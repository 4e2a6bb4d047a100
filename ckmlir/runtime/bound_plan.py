"""A plan (`ckmlir.ops.plan`) bound to a device: its kernels loaded, its launches prepared, to be queued with memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from typing import Any, Union

import numpy as np
from msgspec import Struct

from ckmlir.ops.dtypes import numpy_dtype
from ckmlir.ops.plan import FillStep, KernelStep, PackStep, Plan, PlanStep
from ckmlir.ops.steps import place_of
from ckmlir.runtime.device import Memory, MemoryPart, PreparedLaunch, Stream
from ckmlir.runtime.loaded import LoadedKernel
from ckmlir.runtime.operator_kernels import OperatorKernels
from ckmlir.runtime.strided import elements

After = Callable[[PlanStep], None]
"""Called when a step has been queued."""
BoundStep = Union[FillStep, PackStep, "BoundLaunch"]


class BoundLaunch(Struct, frozen=True):
    """A launch that is prepared.

    Attributes:
        names: what it is called with, in the kernel's order.
    """

    kernel: LoadedKernel
    step: KernelStep
    names: tuple[str, ...]
    prepared: PreparedLaunch


class _Form(Struct, frozen=True):
    """What a plan has in common with those of other sizes.

    Attributes:
        workspaces: their names.
        steps: the launches of an example, with its fills and its packing.
        sized: what makes a step's size of what `values_of` has of it.
        only: the launch, where there is nothing else.
    """

    kernels: OperatorKernels
    workspaces: tuple[str, ...]
    steps: tuple[BoundStep, ...]
    sized: tuple[Callable[..., Any], ...]
    only: BoundLaunch | None


class BoundPlan:
    """Prepared launches and fills, in the order in which they are queued."""

    __slots__ = ("_form", "_make_plan", "_plan", "_sizes", "_workspaces")

    def __init__(self, form: _Form, values: Any, plan: Callable[[], Plan]) -> None:
        """`values` as `values_of` has them; `plan` makes the plan that is bound, for who wants to see it. Raises what
        sizes of launches raise."""
        self._form, self._make_plan = form, plan
        self._plan: Plan | None = None
        self._workspaces, numbers = values
        self._sizes = [sized(*own) for sized, own in zip(form.sized, numbers)]

    @staticmethod
    def of(kernels: OperatorKernels, plan: Plan) -> BoundPlan:
        """A plan, bound. Raises what compiling, loading and preparing launches raise."""
        steps: list[BoundStep] = []
        sized: list[Callable[..., Any]] = []
        for step in plan.steps:
            if isinstance(step, KernelStep):
                kernel = kernels.kernel(step)
                prepared = kernel.prepare(step.launch)
                steps.append(BoundLaunch(kernel, step, step.arrays, prepared))
                sized.append(kernel.sizing(prepared, step.launch))
            else:
                steps.append(step)
                sized.append(_as_it_is)
        only = steps[0] if len(steps) == 1 and not plan.workspaces else None
        names = tuple([one.name for one in plan.workspaces])
        form = _Form(kernels, names, tuple(steps), tuple(sized), only if isinstance(only, BoundLaunch) else None)
        return BoundPlan(form, values_of(plan, plan), lambda: plan)

    def with_values(self, values: Any, plan: Callable[[], Plan]) -> BoundPlan:
        """The same with other sizes of workspaces, grids, scalars and sizes of fills, as `values_of` has them; they are
        those of `plan`. Raises what sizes of launches raise."""
        return BoundPlan(self._form, values, plan)

    @property
    def plan(self) -> Plan:
        """What is queued."""
        if self._plan is None:
            self._plan = self._make_plan()
        return self._plan

    def queue(self, buffers: Mapping[str, Memory], stream: Stream | None, after: After | None = None) -> None:
        """Queue all steps; `buffers` holds the arrays."""
        form = self._form
        only = form.only
        if only is not None and after is None:
            only.prepared([buffers[name] for name in only.names], stream, self._sizes[0])
            return
        kernels = form.kernels
        with ExitStack() as borrowed:
            everything = dict(buffers)
            for name, size in zip(form.workspaces, self._workspaces):
                block = borrowed.enter_context(kernels.workspaces.borrow(size, stream))
                everything[name] = MemoryPart(block, 0, size)
            for place, (step, size) in enumerate(zip(form.steps, self._sizes)):
                if type(step) is BoundLaunch:
                    step.prepared([everything[name] for name in step.names], stream, size)
                elif isinstance(step, FillStep):
                    kernels.device.fill(everything[step.buffer], step.byte, size, stream)
                else:
                    pack = self.plan.steps[place]  # this step may be that of an example
                    assert isinstance(pack, PackStep)
                    self._pack(pack, everything, stream)
                if after is not None:
                    after(self.plan.steps[place])

    def _pack(self, step: PackStep, buffers: Mapping[str, Memory], stream: Stream | None) -> None:
        """Copy the inputs to the host, call the function there, and copy what it packed to the device."""
        kernels = self._form.kernels
        staging, device, target = kernels.staging, kernels.device, kernels.target
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


def _values_of_step(step: PlanStep, example: PlanStep) -> tuple[Any, ...]:
    if isinstance(step, FillStep):
        return (step.nbytes,)
    if isinstance(step, PackStep):  # who packs is asked of the operator again, when it is time to pack
        return (None,)
    assert isinstance(example, KernelStep)
    launch = step.launch
    if step.spec != example.spec or launch.block != example.launch.block or step.arrays != example.arrays:
        raise ValueError("another kernel")
    return tuple(launch.grid), tuple(one.item() for one in launch.arguments if not isinstance(one, str))


def _as_it_is(size: Any) -> Any:
    """The size of a fill or a packing, for which nothing is prepared."""
    return size
