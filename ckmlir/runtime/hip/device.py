"""A GPU as a `Device`, through hip-python.

HIP's current device belongs to the thread and is the user's: where there are several GPUs, every call makes this one
current and puts the former back.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any, cast

import numpy as np

from ckmlir.codeobject import CodeObject, CodeObjectError
from ckmlir.errors import CkmlirError
from ckmlir.runtime.device import (
    Argument,
    Array,
    DeviceError,
    DeviceProperties,
    Event,
    Extent,
    HostMemory,
    Memory,
    Module,
    PreparedLaunch,
    Stream,
)
from ckmlir.runtime.hip.binding import binding
from ckmlir.runtime.hip.discovery import Gpu
from ckmlir.runtime.hip.errors import InvalidCodeObject
from ckmlir.runtime.hip.host_functions import HostFunctions, in_host_function
from ckmlir.runtime.hip.memory import HipMemory, PinnedMemory
from ckmlir.runtime.hip.modules import HipKernel, HipLaunch, HipModule
from ckmlir.runtime.hip.resources import Resources
from ckmlir.runtime.hip.streams import HipEvent, HipStream, foreign_address
from ckmlir.runtime.launch_check import check_copy, check_target

_open: weakref.WeakSet[HipDevice] = weakref.WeakSet()


class HipDevice:
    """A `Device` on a GPU. HIP's errors are raised as the classes of `ckmlir.runtime.hip.errors`."""

    def __init__(self, gpu: Gpu, *, several: bool = False) -> None:
        self.gpu = gpu
        self.hip = binding()
        self.resources = Resources(self.hip)
        self.host_functions = HostFunctions(self.hip)
        self._properties = gpu.properties
        self._several = several
        self.launch_packed = self._launch_on_this_gpu if several else self.hip.launch
        self._is_closed = False
        _open.add(self)

    @property
    def properties(self) -> DeviceProperties:
        """What HIP says of the GPU."""
        return self._properties

    # -- calls ---------------------------------------------------------------------------------------------------------

    def call(self, function: str, *arguments: Any, what: str = "") -> Any:
        """Call a HIP function with this GPU current; see `Binding.call`."""
        self.check_usable()
        if not self._several:
            return self.hip.call(function, *arguments, what=what)
        with self._current():
            return self.hip.call(function, *arguments, what=what)

    def check_usable(self) -> None:
        """Raise DeviceError after the device was closed, and in host functions."""
        if self._is_closed:
            raise DeviceError(f"{self._properties.name} was closed")
        if in_host_function():
            raise DeviceError("a host function must not use a device")

    @contextlib.contextmanager
    def _current(self) -> Iterator[None]:
        former = self.hip.call("hipGetDevice")
        if former == self.gpu.ordinal:
            yield
            return
        self.hip.call("hipSetDevice", self.gpu.ordinal)
        try:
            yield
        finally:
            self.hip.call("hipSetDevice", former)

    def give_back(self, ticket: int) -> None:
        """Give back a resource, unless it or the whole device has been."""
        if self.resources.is_live(ticket):
            self.check_usable()
            self.resources.give_back(ticket)

    # -- memory --------------------------------------------------------------------------------------------------------

    def allocate(self, size: int) -> Memory:
        """See `Device`."""
        address = self._allocated(size, "hipMalloc", max(size, 1))
        memory = HipMemory(address, size, self.gpu.ordinal)
        memory.ticket = self.resources.add(memory, "hipFree", ctypes.c_void_p(address))
        return memory

    def allocate_host(self, size: int) -> HostMemory:
        """See `Device`."""
        address = self._allocated(size, "hipHostMalloc", max(size, 1), 0)
        memory = PinnedMemory(address, size)
        memory.ticket = self.resources.add(memory, "hipHostFree", ctypes.c_void_p(address))
        return memory

    def _allocated(self, size: int, function: str, *arguments: Any) -> int:
        if size < 0:
            raise DeviceError(f"cannot allocate {size} bytes")
        self.check_usable()
        self.resources.collect()
        return int(self.call(function, *arguments, what=f"{size} bytes of memory"))

    def free(self, memory: Memory | HostMemory) -> None:
        """See `Device`."""
        if not isinstance(memory, (HipMemory, PinnedMemory)):
            raise DeviceError(f"{type(memory).__name__} was not allocated by this device")
        address = memory.address  # refuses what was given back
        if not self.resources.is_live(memory.ticket):
            raise DeviceError(f"memory at 0x{address:x} is not of this device, or was given back")
        self.give_back(memory.ticket)
        memory.forget()

    def write(self, destination: Memory, source: Array, stream: Stream | None = None) -> None:
        """See `Device`."""
        check_copy(destination, source)
        self._copy(destination.address, source.ctypes.data, source.nbytes, "hipMemcpyHostToDevice", stream, wait=True)

    def read(self, destination: Array, source: Memory, stream: Stream | None = None) -> None:
        """See `Device`."""
        check_copy(source, destination)
        if not destination.flags.writeable:
            raise DeviceError("the array to read into is read-only")
        kind = "hipMemcpyDeviceToHost"
        self._copy(destination.ctypes.data, source.address, destination.nbytes, kind, stream, wait=True)

    def copy(
        self, destination: Memory | HostMemory, source: Memory | HostMemory, size: int, stream: Stream | None = None
    ) -> None:
        """See `Device`."""
        if size < 0 or size > min(destination.size, source.size):
            raise DeviceError(f"a copy of {size} bytes, from {source.size} to {destination.size} bytes of memory")
        places = ["Host" if isinstance(one, PinnedMemory) else "Device" for one in (source, destination)]
        addresses = [cast("Memory", one).address for one in (destination, source)]
        self._copy(addresses[0], addresses[1], size, f"hipMemcpy{places[0]}To{places[1]}", stream, wait=False)

    def _copy(self, to: int, start: int, size: int, kind: str, stream: Stream | None, *, wait: bool) -> None:
        if not size:
            return
        arguments = ctypes.c_void_p(to), ctypes.c_void_p(start), size, getattr(self.hip.hip.hipMemcpyKind, kind)
        if wait and stream is None:
            self.call("hipMemcpy", *arguments)
            return
        self.call("hipMemcpyAsync", *arguments, self.stream_handle(stream))
        if wait and stream is not None:
            stream.synchronize()

    def fill(self, destination: Memory, byte: int, size: int, stream: Stream | None = None) -> None:
        """See `Device`."""
        if not 0 <= byte <= 255 or not 0 <= size <= destination.size:
            raise DeviceError(f"cannot fill {size} of {destination.size} bytes with {byte}")
        if size:
            where = ctypes.c_void_p(destination.address)
            self.call("hipMemsetAsync", where, byte, size, self.stream_handle(stream))

    # -- code ----------------------------------------------------------------------------------------------------------

    def load(self, code_object: bytes) -> Module:
        """See `Device`."""
        try:
            parsed = CodeObject.parse(code_object)
        except CodeObjectError as error:
            raise DeviceError(str(error)) from error
        check_target(parsed, self._properties)
        self.resources.collect()
        try:
            handle = self.call("hipModuleLoadData", code_object)
        except InvalidCodeObject as error:
            ours = self._properties.target_id or self._properties.target
            text = f"{error}; the code object is for {parsed.target_id}, {self._properties.name} runs {ours}"
            raise InvalidCodeObject(text, error.code, error.call) from None
        module = HipModule(parsed, handle)
        module.ticket = self.resources.add(module, "hipModuleUnload", handle, keep=code_object)
        return module

    def unload(self, module: Module) -> None:
        """See `Device`."""
        self.give_back(self._own_module(module).ticket)

    def _own_module(self, module: Module) -> HipModule:
        if not isinstance(module, HipModule) or not self.resources.is_live(module.ticket):
            raise DeviceError(f"{type(module).__name__} was not loaded by this device, or was unloaded")
        return module

    def kernel(self, module: Module, name: str) -> HipKernel:
        """A kernel of a module, prepared once. Raises DeviceError where there is none of this name."""
        own = self._own_module(module)
        known = own.functions.get(name)
        if known is None:
            if name not in own.code_object.kernels:
                has = ", ".join(own.kernels) or "none"
                raise DeviceError(f"the code object has no kernel {name}; it has {has}")
            function = self.call("hipModuleGetFunction", own.handle, name.encode(), what=f"kernel {name}")
            known = own.functions[name] = HipKernel(own.code_object, name, function)
        return known

    def launch(
        self,
        module: Module,
        kernel: str,
        grid: Extent,
        block: Extent,
        arguments: Sequence[Argument],
        *,
        dynamic_lds: int = 0,
        stream: Stream | None = None,
    ) -> None:
        """See `Device`. The order of the checks is that of `launch_check`."""
        prepared = self.kernel(module, kernel)
        prepared.check(grid, block, dynamic_lds, self._properties)
        packed = prepared.pack(arguments)
        self.check_usable()
        handle = None if stream is None else self.stream_handle(stream)
        self.launch_packed(prepared.function, *grid, *block, dynamic_lds, handle, None, (packed,))

    def _launch_on_this_gpu(self, *arguments: Any) -> None:
        with self._current():
            self.hip.launch(*arguments)

    def prepare(
        self, module: Module, kernel: str, grid: Extent, block: Extent, arguments: Sequence[np.generic | None]
    ) -> PreparedLaunch:
        """See `Device`."""
        prepared = self.kernel(module, kernel)
        prepared.check(grid, block, 0, self._properties)
        example = HipMemory(0, 0, self.gpu.ordinal)
        prepared.pack([example if one is None else cast("Argument", one) for one in arguments])
        return HipLaunch(self, self._own_module(module), prepared, grid, block, arguments)

    # -- order ---------------------------------------------------------------------------------------------------------

    def call_on_host(self, function: Callable[[], None], stream: Stream | None = None) -> None:
        """See `Device`."""
        self.check_usable()
        handle = self.stream_handle(stream)
        with self._current() if self._several else contextlib.nullcontext():
            self.host_functions.queue(function, handle)

    def synchronize(self) -> None:
        """See `Device`."""
        self.call("hipDeviceSynchronize")
        self.host_functions.raise_failures()
        self.resources.collect()

    def create_stream(self) -> Stream:
        """See `Device`. It is a blocking stream: it keeps its order with HIP's default stream."""
        self.check_usable()
        self.resources.collect()
        return HipStream(self, self.call("hipStreamCreateWithFlags", 0))

    def stream_of(self, foreign: object) -> Stream | None:
        """See `Device`."""
        if foreign is None or isinstance(foreign, HipStream):
            return foreign
        address = foreign_address(foreign)
        return HipStream(self, address, foreign=True) if address else None

    def stream_handle(self, stream: Stream | None) -> Any:
        """What hip-python takes for a stream. Raises DeviceError for one of another device, or closed."""
        if stream is None:
            return None
        if not isinstance(stream, HipStream) or stream.device is not self:
            raise DeviceError(f"{type(stream).__name__} is no stream of this device; see stream_of")
        if stream.ticket and not self.resources.is_live(stream.ticket):
            raise DeviceError("the stream was closed")
        return stream.handle

    def create_event(self) -> Event:
        """See `Device`."""
        self.check_usable()
        self.resources.collect()
        return HipEvent(self, self.call("hipEventCreateWithFlags", 0))

    def event_handle(self, event: Event) -> Any:
        """What hip-python takes for an event. Raises DeviceError for one of another device, or closed."""
        if not isinstance(event, HipEvent) or event.device is not self:
            raise DeviceError(f"{type(event).__name__} is no event of this device")
        if not self.resources.is_live(event.ticket):
            raise DeviceError("the event was closed")
        return event.handle

    def close(self) -> None:
        """See `Device`. Where HIP refuses to take something back, its error is raised, and it may be tried again."""
        if self._is_closed:
            return
        try:
            self.call("hipDeviceSynchronize")
        finally:
            with self._current() if self._several else contextlib.nullcontext():
                self.resources.give_back_all()
        self._is_closed = True
        self.host_functions.raise_failures()


@atexit.register
def _close_all() -> None:
    """Python's callbacks must not be called, nor its memory be read, by a driver that outlives it."""
    for device in list(_open):
        with contextlib.suppress(CkmlirError):
            device.close()
