"""An operator's kernels of one specification on one device: loaded once, for all problems that they cover."""

from __future__ import annotations

import threading
from functools import partial
from typing import Any

import msgspec

from ckmlir.compiled_kernel import CompiledKernel
from ckmlir.ops.operator import Operator, require_kinds, require_valid
from ckmlir.ops.plan import KernelStep, Plan, make_plan
from ckmlir.ops.request import RequestError
from ckmlir.ops.spec import Spec
from ckmlir.runtime.compile_cache import compile_cached, lookup
from ckmlir.runtime.device import Device, HostMemory, Memory
from ckmlir.runtime.lenders import Allocator, device_memory, drop, host_memory
from ckmlir.runtime.loaded import LoadedKernel, require_kernel_of, take
from ckmlir.runtime.pool import Pool
from ckmlir.runtime.scratch import require_registers
from ckmlir.targets import Target


class OperatorKernels:
    """The kernels of one specification on one device, compiled and loaded when a problem first needs them.

    Attributes:
        target: the chip that specifications are chosen for; `chip` is the same with the compute units that the device
            has, which launches depend on.
        spec: of the operator's own kernel.
        ordinal: the GPU's number, None where the device is none.
        workspaces, staging: memory of the device and of the host that steps borrow.
    """

    def __init__(
        self, device: Device, operator: Operator[Any, Any], spec: Spec, target: Target, compiled: CompiledKernel | None,
        allocators: tuple[Allocator | None, Allocator | None] = (None, None), asked: Any = None,
    ) -> None:  # fmt: skip
        """With the caller's own allocators for workspaces and for staging, if there are any, and the problem that is
        asked for first, if it is known.

        Raises RequestError for a chip that cannot run the kernel, and a compiled kernel of another specification.
        """
        require_kinds(operator, spec, target)
        self._asked = asked if compiled is None else None  # what the caller compiled is the caller's
        compiled = compiled or lookup(operator, spec, target)
        if compiled is None:
            require_valid(operator, spec, target)  # what is there was checked before it was compiled
        else:
            require_kernel_of(compiled, operator, spec, target)
        self.device, self.operator, self.spec, self.target = device, operator, spec, target
        self.ordinal: int | None = getattr(getattr(device, "gpu", None), "ordinal", None)
        units = device.properties.compute_units
        self.chip = target if units == target.compute_units else msgspec.structs.replace(target, compute_units=units)
        on_device, on_host = allocators
        self.workspaces: Pool[Memory] = (
            Pool(device, partial(device_memory, on_device), drop)
            if on_device
            else Pool(device, lambda size: device.allocate(size))
        )
        self.staging: Pool[HostMemory] = (
            Pool(device, partial(host_memory, on_host), drop)
            if on_host
            else Pool(device, lambda size: device.allocate_host(size))
        )
        self._loaded: dict[tuple[str, Spec], LoadedKernel] = {}
        self._own: LoadedKernel | None = None
        self._lock = threading.Lock()
        self._users = 0
        self._compiled = compiled

    def plan(self, problem: Any, *, chosen: bool = False) -> Plan:
        """What is queued for a problem; the specification may have been `chosen` for it. Raises RequestError for one
        that the specification does not cover."""
        reasons = [] if chosen else self.operator.mismatches(problem, self.spec, self.target)
        if reasons:
            raise RequestError(f"{self.operator.name}: kernel {self.spec.name}: " + " | ".join(map(str, reasons)))
        return make_plan(self.operator, problem, self.chip, self.spec)

    def kernel(self, step: KernelStep) -> LoadedKernel:
        """The kernel of a step, loaded. Raises what compiling and loading raise."""
        is_own = step.operator is self.operator and (step.spec is self.spec or step.spec == self.spec)
        if is_own and self._own is not None:  # specifications have many fields to be hashed
            return self._own
        key = (step.operator.name, step.spec)
        found = self._loaded.get(key)
        if found is None:
            given = self._compiled if is_own else None
            compiled = given or compile_cached(step.operator, step.spec, self.target)
            if is_own and self._asked is not None:
                require_registers(self.operator, self._asked, self.spec, compiled, self.target)
            with self._lock:
                found = self._loaded.get(key) or self._loaded.setdefault(key, take(self.device, compiled))
        if is_own:
            self._own = found
        return found

    def retain(self) -> None:
        """One more uses them."""
        with self._lock:
            self._users += 1

    def release(self) -> None:
        """One less uses them: the last one gives everything back, after waiting for it."""
        with self._lock:
            self._users -= 1
            if self._users:
                return
        self.workspaces.close()
        self.staging.close()
        while self._loaded:
            self._loaded.popitem()[1].release()
