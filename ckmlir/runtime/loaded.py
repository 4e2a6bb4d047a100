"""Kernels that a device has loaded, each once. Problems that a specification covers are launched from here."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Sequence
from typing import Any
from weakref import WeakKeyDictionary, WeakValueDictionary

from ckmlir.compiled_kernel import CompiledKernel
from ckmlir.ops.operator import Launch, Operator
from ckmlir.ops.request import RequestError
from ckmlir.ops.spec import Spec
from ckmlir.runtime.device import Device, DeviceError, PreparedLaunch
from ckmlir.targets import Target

_lock = threading.Lock()
_loaded: WeakKeyDictionary[Device, WeakValueDictionary[bytes, LoadedKernel]] = WeakKeyDictionary()


class LoadedKernel:
    """A kernel that a device has loaded.

    It is unloaded when as many have released it as took it; when nobody remembers it, the device does so.
    """

    def __init__(self, device: Device, compiled: CompiledKernel) -> None:
        self.compiled = compiled
        self._device = device
        self._module = device.load(compiled.hsaco)
        self._users = 0

    @property
    def module(self) -> Any:
        """What the device knows it by."""
        return self._module

    def prepare(self, launch: Launch) -> PreparedLaunch:
        """The launch with everything fixed but its memory.

        Raises DeviceError for a launch that the device refuses, one that does not fit on it at a time among them.
        """
        if launch.resident:
            self._check_resident(launch.grid, launch.block)
        arguments = [None if isinstance(one, str) else one for one in launch.arguments]
        return self._device.prepare(self._module, self.compiled.kernel_name, launch.grid, launch.block, arguments)

    def sizing(self, prepared: PreparedLaunch, launch: Launch) -> Callable[..., Any]:
        """What makes other sizes of the `launch` that was prepared, as `PreparedLaunch.sized`; it raises what `prepare`
        raises."""
        if not launch.resident:
            return prepared.sized

        def sized(grid: tuple[int, int, int], scalars: Sequence[int | float]) -> Any:
            self._check_resident(grid, launch.block)
            return prepared.sized(grid, scalars)

        return sized

    def _check_resident(self, grid: tuple[int, int, int], block: tuple[int, int, int]) -> None:
        units = self._device.properties.compute_units
        held = units * self.compiled.workgroups_a_unit(math.prod(block))
        count = math.prod(grid)
        if count > held:
            raise DeviceError(
                f"{self.compiled.kernel_name}: its {count} workgroups wait for each other, and the {units} compute "
                f"units of {self._device.properties.name} hold {held} of them at a time"
            )

    def release(self) -> None:
        """Unload it unless others use it; none of its launches may be running then."""
        with _lock:
            self._users -= 1
            if self._users:
                return
            _loaded.get(self._device, WeakValueDictionary()).pop(self.compiled.hsaco, None)
        self._device.unload(self._module)


def take(device: Device, compiled: CompiledKernel) -> LoadedKernel:
    """A kernel on a device, loaded unless it is there already; to be released. Raises DeviceError as `Device.load`."""
    with _lock:
        kernels = _loaded.setdefault(device, WeakValueDictionary())
        found = kernels.get(compiled.hsaco)
        if found is None:
            found = kernels[compiled.hsaco] = LoadedKernel(device, compiled)
        found._users += 1
        return found


def require_kernel_of(compiled: CompiledKernel, operator: Operator[Any, Any], spec: Spec, target: Target) -> None:
    """Raise RequestError unless `compiled` is the kernel of this specification for this chip."""
    if not isinstance(compiled, CompiledKernel):
        raise RequestError(
            f"{operator.name}: a compiled kernel is what compile_kernel gives, not of {type(compiled).__name__}"
        )
    if compiled.kernel_name != spec.name or compiled.target != target.name:
        raise RequestError(
            f"{operator.name}: the compiled kernel is {compiled.kernel_name} for {compiled.target}; the problem takes "
            f"{spec.name} for {target.name}: compile its specification, or leave the kernel out"
        )
