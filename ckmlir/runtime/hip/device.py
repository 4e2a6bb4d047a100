"""A GPU as a `Device`, through hip-python."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np

from ckmlir.codeobject import CodeObject, CodeObjectError
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
    is_of_host,
    remember,
)
from ckmlir.runtime.hip.discovery import Gpu
from ckmlir.runtime.hip.driver import Driver
from ckmlir.runtime.hip.errors import InvalidCodeObject
from ckmlir.runtime.hip.memory import HipMemory, PinnedMemory
from ckmlir.runtime.hip.modules import HipKernel, HipLaunch, HipModule
from ckmlir.runtime.hip.streams import HipEvent, HipStream, foreign_address, stream_handle
from ckmlir.runtime.launch_check import (
    check_destination,
    check_fill,
    check_move,
    check_size,
    check_target,
    source_of_copy,
)


class HipDevice:
    """A `Device` on a GPU. HIP's errors are raised as the classes of `ckmlir.runtime.hip.errors`."""

    def __init__(self, gpu: Gpu, *, several: bool = False) -> None:
        self.gpu = gpu
        self.driver = Driver(gpu, several=several)

    @property
    def properties(self) -> DeviceProperties:
        """What HIP says of the GPU."""
        return self.gpu.properties

    # -- memory --------------------------------------------------------------------------------------------------------

    def allocate(self, size: int) -> Memory:
        """See `Device`."""
        address = self._allocated(size, "hipMalloc")
        memory = HipMemory(address, size, self.gpu.ordinal)
        memory.ticket = self.driver.resources.add(memory, "hipFree", ctypes.c_void_p(address))
        return memory

    def allocate_host(self, size: int) -> HostMemory:
        """See `Device`."""
        address = self._allocated(size, "hipHostMalloc", 0)
        memory = PinnedMemory(address, size)
        memory.ticket = self.driver.resources.add(memory, "hipHostFree", ctypes.c_void_p(address))
        return memory

    def _allocated(self, size: int, function: str, *arguments: Any) -> int:
        check_size(size)
        self.driver.check_usable()
        self.driver.resources.collect()
        return int(self.driver.call(function, max(size, 1), *arguments, what=f"{size} bytes of memory"))

    def free(self, memory: Memory | HostMemory) -> None:
        """See `Device`."""
        if not isinstance(memory, (HipMemory, PinnedMemory)):
            raise DeviceError(f"{type(memory).__name__} was not allocated by this device")
        address = memory.address  # refuses what was given back
        if not self.driver.resources.is_live(memory.ticket):
            raise DeviceError(f"memory at 0x{address:x} is not of this device, or was given back")
        self.driver.give_back(memory.ticket)
        memory.forget()

    def write(self, destination: Memory, source: Array, stream: Stream | None = None) -> None:
        """See `Device`."""
        given = source_of_copy(destination, source)
        self._copy(destination.address, given.ctypes.data, given.nbytes, "hipMemcpyHostToDevice", stream, wait=True)
        remember(destination, given.dtype.name)

    def read(self, destination: Array, source: Memory, stream: Stream | None = None) -> None:
        """See `Device`."""
        check_destination(source, destination)
        kind = "hipMemcpyDeviceToHost"
        self._copy(destination.ctypes.data, source.address, destination.nbytes, kind, stream, wait=True)

    def copy(
        self, destination: Memory | HostMemory, source: Memory | HostMemory, size: int, stream: Stream | None = None
    ) -> None:
        """See `Device`."""
        check_move(destination, source, size)
        places = ["Host" if is_of_host(one) else "Device" for one in (source, destination)]
        addresses = [cast("Memory", one).address for one in (destination, source)]
        remember(destination, None)
        self._copy(addresses[0], addresses[1], size, f"hipMemcpy{places[0]}To{places[1]}", stream, wait=False)

    def _copy(self, to: int, start: int, size: int, kind: str, stream: Stream | None, *, wait: bool) -> None:
        if not size:
            return
        arguments = ctypes.c_void_p(to), ctypes.c_void_p(start), size, getattr(self.driver.hip.hip.hipMemcpyKind, kind)
        if wait and stream is None:
            self.driver.call("hipMemcpy", *arguments)
            return
        self.driver.call("hipMemcpyAsync", *arguments, stream_handle(self.driver, stream))
        if wait and stream is not None:
            stream.synchronize()

    def fill(self, destination: Memory, byte: int, size: int, stream: Stream | None = None) -> None:
        """See `Device`."""
        check_fill(destination, byte, size)
        if size:
            where = ctypes.c_void_p(destination.address)
            remember(destination, None)
            self.driver.call("hipMemsetAsync", where, byte, size, stream_handle(self.driver, stream))

    # -- code ----------------------------------------------------------------------------------------------------------

    def load(self, code_object: bytes) -> Module:
        """See `Device`."""
        try:
            parsed = CodeObject.parse(code_object)
        except CodeObjectError as error:
            raise DeviceError(str(error)) from error
        check_target(parsed, self.properties)
        self.driver.resources.collect()
        try:
            handle = self.driver.call("hipModuleLoadData", code_object)
        except InvalidCodeObject as error:
            ours = self.properties.target_id or self.properties.target
            text = f"{error}; the code object is for {parsed.target_id}, {self.properties.name} runs {ours}"
            raise InvalidCodeObject(text, error.code, error.call) from None
        module = HipModule(parsed, handle)
        module.ticket = self.driver.resources.add(module, "hipModuleUnload", handle, keep=code_object)
        return module

    def unload(self, module: Module) -> None:
        """See `Device`."""
        self.driver.give_back(self._own_module(module).ticket)

    def _own_module(self, module: Module) -> HipModule:
        if not isinstance(module, HipModule) or not self.driver.resources.is_live(module.ticket):
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
            function = self.driver.call("hipModuleGetFunction", own.handle, name.encode(), what=f"kernel {name}")
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
        prepared.check(grid, block, dynamic_lds, self.properties)
        packed = prepared.pack(arguments)
        for argument in arguments:
            if type(argument) is HipMemory:
                argument.dtype = None  # the kernel may write anything
        self.driver.check_usable()
        handle = None if stream is None else stream_handle(self.driver, stream)
        self.driver.launch(prepared.function, *grid, *block, dynamic_lds, handle, None, (packed,))

    def prepare(
        self, module: Module, kernel: str, grid: Extent, block: Extent, arguments: Sequence[np.generic | None]
    ) -> PreparedLaunch:
        """See `Device`."""
        own = self._own_module(module)
        prepared = own.functions.get(kernel) or self.kernel(own, kernel)
        prepared.check(grid, block, 0, self.properties)
        return HipLaunch(self.driver, own, prepared, grid, block, arguments)

    # -- order ---------------------------------------------------------------------------------------------------------

    def call_on_host(self, function: Callable[[], None], stream: Stream | None = None) -> None:
        """See `Device`."""
        self.driver.check_usable()
        self.driver.call_on_host(function, stream_handle(self.driver, stream))

    def synchronize(self) -> None:
        """See `Device`."""
        self.driver.call("hipDeviceSynchronize")
        self.driver.host_functions.raise_failures()
        self.driver.resources.collect()

    def create_stream(self) -> Stream:
        """See `Device`. It is a blocking stream: it keeps its order with HIP's default stream."""
        self.driver.check_usable()
        self.driver.resources.collect()
        return HipStream(self.driver, self.driver.call("hipStreamCreateWithFlags", 0))

    def stream_of(self, foreign: object) -> Stream | None:
        """See `Device`."""
        if foreign is None or isinstance(foreign, HipStream):
            return foreign
        address = foreign_address(foreign)
        return HipStream(self.driver, address, foreign=True) if address else None

    def create_event(self) -> Event:
        """See `Device`."""
        self.driver.check_usable()
        self.driver.resources.collect()
        return HipEvent(self.driver, self.driver.call("hipEventCreateWithFlags", 0))

    def close(self) -> None:
        """See `Device`. Where HIP refuses to take something back, its error is raised, and it may be tried again."""
        self.driver.close()
