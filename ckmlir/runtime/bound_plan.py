"""A plan (`ckmlir.ops.plan`) bound to a device: its kernels loaded, its launches prepared, to be queued with memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack

import numpy as np

from ckmlir.ops.dtypes import numpy_dtype
from ckmlir.ops.plan import FillStep, KernelStep, PackStep, Plan, PlanStep
from ckmlir.ops.steps import place_of
from ckmlir.runtime.device import Memory, MemoryPart, PreparedLaunch, Stream
from ckmlir.runtime.operator_kernels import OperatorKernels
from ckmlir.runtime.strided import elements

After = Callable[[PlanStep], None]
"""Called when a step has been queued."""


class BoundPlan:
    """See the module's text.

    Attributes:
        plan: what is queued.
    """

    def __init__(self, kernels: OperatorKernels, plan: Plan) -> None:
        """Raises what compiling, loading and preparing launches raise."""
        self.plan = plan
        self._kernels = kernels
        self._device = kernels.device
        self._launches = [self._prepared(step) for step in plan.steps]
        self._only: tuple[PreparedLaunch, tuple[str, ...]] | None = None
        if len(plan.steps) == 1 and not plan.workspaces:
            only, prepared = plan.steps[0], self._launches[0]
            if isinstance(only, KernelStep) and prepared is not None:
                self._only = prepared, only.arrays

    def _prepared(self, step: PlanStep) -> PreparedLaunch | None:
        return self._kernels.kernel(step).prepare(step.launch) if isinstance(step, KernelStep) else None

    def queue(self, buffers: Mapping[str, Memory], stream: Stream | None, after: After | None = None) -> None:
        """Queue all steps; `buffers` holds the arrays."""
        if self._only is not None and after is None:
            launch, names = self._only
            launch([buffers[name] for name in names], stream)
            return
        with ExitStack() as borrowed:
            everything = dict(buffers)
            for workspace in self.plan.workspaces:
                block = borrowed.enter_context(self._kernels.workspaces.borrow(workspace.nbytes, stream))
                everything[workspace.name] = MemoryPart(block, 0, workspace.nbytes)
            for step, prepared in zip(self.plan.steps, self._launches, strict=True):
                if isinstance(step, FillStep):
                    self._device.fill(everything[step.buffer], step.byte, step.nbytes, stream)
                elif isinstance(step, PackStep):
                    self._pack(step, everything, stream)
                elif prepared is not None:
                    prepared([everything[name] for name in step.arrays], stream)
                if after is not None:
                    after(step)

    def _pack(self, step: PackStep, buffers: Mapping[str, Memory], stream: Stream | None) -> None:
        """Copy the inputs to the host, call the function there, and copy what it packed to the device."""
        staging, device, target = self._kernels.staging, self._device, self._kernels.target
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
