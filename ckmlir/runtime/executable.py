"""An operator ready to run on a device: compiled, loaded, and called with arrays as often as needed.

    gemm = Executable(device, find_operator("gemm"), problem)
    gemm(a=a, b=b, c=c, stream=torch.cuda.current_stream())

A call checks every array against the problem, queues the preparation of workspaces and the kernel, and returns. What a
call finds right is remembered, so that the next one with arrays of the same kind only compares.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import Any

import numpy as np

from ckmlir.compiler import CompiledKernel
from ckmlir.ops.comparison import Array
from ckmlir.ops.dtypes import numpy_dtype
from ckmlir.ops.operator import ArraySpec, Operator, require_valid
from ckmlir.runtime.arguments import ALIGNMENT, ArrayView, check_kind, check_place, host_array, view_of
from ckmlir.runtime.compile_cache import compile_cached
from ckmlir.runtime.device import Device, DeviceError, Memory, MemoryPart, Stream
from ckmlir.runtime.pool import Pool
from ckmlir.runtime.preparation import Preparation
from ckmlir.runtime.strided import elements, to_memory
from ckmlir.targets import Target, get_target


class GpuArray:
    """Somebody else's memory of the GPU, as an argument of a launch."""

    __slots__ = ("address", "size")

    def __init__(self, address: int, size: int) -> None:
        self.address = address
        self.size = size


class Executable:
    """An operator's kernel for one problem, loaded on one device.

    Attributes:
        arrays: what the problem asks for, by name.
        kernel: what was compiled, None where there is nothing to launch.
    """

    def __init__(
        self,
        device: Device,
        operator: Operator[Any, Any],
        problem: Any,
        *,
        target: Target | None = None,
        compiled: CompiledKernel | None = None,
    ) -> None:
        """Compile and load.

        Args:
            target: the device's chip, which it must be.
            compiled: the kernel of this problem's specification if the caller has it already; default: through the
                cache.

        Raises:
            RequestError: the chip cannot run the problem.
            DeviceError: the device refuses the code object.
        """
        self._device = device
        self._target = target or get_target(device.properties.target)
        self.arrays = {array.name: array for array in operator.arrays(problem)}
        spec = operator.spec(problem, self._target)
        require_valid(operator, spec, self._target)
        self._launch = operator.launch(problem, spec)
        self._pointers = [one for one in self._launch.arguments if isinstance(one, str)]
        self._sizes = {name: array.nbytes for name, array in self.arrays.items()}
        self.kernel: CompiledKernel | None = None
        self._cleanup = ExitStack()
        self._remembered: dict[str, tuple[Any, tuple[Any, ...]]] = {}
        self._ordinal = getattr(getattr(device, "gpu", None), "ordinal", None)
        if self._launch.is_empty:
            return
        self.kernel = compiled or compile_cached(operator, spec, self._target)
        with ExitStack() as cleanup:
            self._module = device.load(self.kernel.hsaco)
            cleanup.callback(device.unload, self._module)
            self._prepared = device.prepare(
                self._module,
                self.kernel.kernel_name,
                self._launch.grid,
                self._launch.block,
                [None if isinstance(one, str) else one for one in self._launch.arguments],
            )
            self._workspaces = operator.workspaces(problem, spec)
            self._preparation: Preparation | None = None
            if self._workspaces or operator.preparation(problem, spec):
                self._pool: Pool[Memory] = Pool(device, device.allocate)
                cleanup.callback(self._pool.close)
                steps = operator.preparation(problem, spec)
                self._preparation = Preparation(device, self.arrays, steps, functools.partial(Executable, device))
                cleanup.callback(self._preparation.close)
            self._cleanup = cleanup.pop_all()

    # -- launches ------------------------------------------------------------------------------------------------------

    def launch(self, buffers: Mapping[str, Memory], stream: Stream | None = None) -> None:
        """Queue everything on memory of the device, by array name; nothing is checked but the launch itself."""
        if self.kernel is None:
            return
        if self._preparation is None:
            self._launch_kernel(buffers, stream)
            return
        with ExitStack() as borrowed:
            everything = dict(buffers)
            for workspace in self._workspaces:
                block = borrowed.enter_context(self._pool.borrow(workspace.nbytes, stream))
                everything[workspace.name] = MemoryPart(block, 0, workspace.nbytes)
            self._preparation.queue(everything, stream)
            self._launch_kernel(everything, stream)

    def _launch_kernel(self, buffers: Mapping[str, Memory], stream: Stream | None) -> None:
        self._prepared([buffers[name] for name in self._pointers], stream)

    def __call__(self, stream: object = None, **arrays: Any) -> None:
        """Queue the operator on arrays by name, inputs and outputs.

        Memory of the device, and arrays of other libraries on the GPU, are passed as they are, and the call returns at
        once. NumPy's arrays, on the simulator all arrays of the host, are copied to the device, and what is written is
        copied back before the call returns; their strides may be any.

        Args:
            stream: one of the device, or the user's own (`Device.stream_of`).

        Raises:
            DeviceError: an array is missing, unknown, of another shape, type, stride, alignment or device.
            KernelFault: as the device.
        """
        own = stream if stream is None else self._device.stream_of(stream)
        if len(arrays) != len(self.arrays):
            self._check_names(arrays)
        buffers: dict[str, Memory] = {}
        copied: list[tuple[ArraySpec, Array]] = []
        for name, size in self._sizes.items():
            try:
                array = arrays[name]
            except KeyError:
                self._check_names(arrays)
                raise
            memory = self._like_before(array, name, size) or self._passed_as_it_is(array, self.arrays[name])
            if memory is None:
                copied.append((self.arrays[name], self._host_array(array, self.arrays[name])))
            else:
                buffers[name] = memory
        if copied:
            self._launch_with_copies(buffers, copied, own)
        else:
            self.launch(buffers, own)

    def _check_names(self, arrays: Mapping[str, object]) -> None:
        missing, unknown = self.arrays.keys() - arrays.keys(), arrays.keys() - self.arrays.keys()
        names = ", ".join(self.arrays)
        if missing or unknown:
            what = f"array {min(missing)} is missing" if missing else f"there is no array {min(unknown)}"
            raise DeviceError(f"{what}; the arrays are {names}")

    # -- arrays --------------------------------------------------------------------------------------------------------

    def _like_before(self, array: Any, name: str, size: int) -> Memory | None:
        """Memory of a tensor that differs from one that was found right in nothing but its address, if it is one."""
        kind = self._remembered.get(name)
        if kind is None or kind[0] is not type(array):
            return None
        if (array.dtype, array.device, array.shape, array.stride()) != kind[1]:
            return None
        address = array.data_ptr()
        return None if address % ALIGNMENT else GpuArray(address, size)

    def _passed_as_it_is(self, array: Any, spec: ArraySpec) -> Memory | None:
        """Memory of the device for an array, or None for one of the host that is copied."""
        if isinstance(array, np.ndarray):
            return None
        address = getattr(array, "address", None)
        if address is not None:
            return self._own_memory(array, address, spec)
        view = view_of(array)
        check_kind(view, spec, self._target)
        if not view.on_gpu:
            return None
        self._check_there_is_a_gpu(spec)
        check_place(view, spec, self._ordinal)
        if hasattr(array, "data_ptr"):
            kind = array.dtype, array.device, array.shape, array.stride()
            self._remembered[spec.name] = (type(array), kind)
        return GpuArray(view.address, spec.nbytes)

    def _own_memory(self, memory: Memory, address: int, spec: ArraySpec) -> Memory:
        if memory.size < self._sizes[spec.name]:
            raise DeviceError(f"array {spec.name} takes {spec.nbytes} bytes, its memory has {memory.size}")
        if address % ALIGNMENT and spec.nbytes:
            raise DeviceError(f"array {spec.name} starts at 0x{address:x}; kernels need a multiple of {ALIGNMENT}")
        if getattr(memory, "ordinal", self._ordinal) != self._ordinal:
            raise DeviceError(f"array {spec.name} is {memory!r}, the kernel runs on GPU {self._ordinal}")
        return memory

    def _check_there_is_a_gpu(self, spec: ArraySpec) -> None:
        if self._ordinal is None:
            raise DeviceError(f"array {spec.name} is memory of a GPU; {self._device.properties.name} cannot reach it")

    def _host_array(self, array: Any, spec: ArraySpec) -> Array:
        """An array of the host, of the right kind, as NumPy's."""
        view: ArrayView = view_of(array)
        check_kind(view, spec, self._target)
        if self._ordinal is not None and not isinstance(array, np.ndarray):
            raise DeviceError(
                f"array {spec.name} is on the host, {self._device.properties.name} is not: move it there, or pass a "
                "NumPy array, which is copied"
            )
        return host_array(view, numpy_dtype(spec.dtype, self._target))

    def _launch_with_copies(
        self, buffers: dict[str, Memory], copied: Sequence[tuple[ArraySpec, Array]], stream: Stream | None
    ) -> None:
        device = self._device
        with ExitStack() as cleanup:
            for spec, array in copied:
                if spec.role == "out" and not array.flags.writeable:
                    raise DeviceError(f"array {spec.name} is read-only and would be written")
                memory = device.allocate(spec.nbytes)
                cleanup.callback(device.free, memory)
                device.write(memory, to_memory(array, spec), stream)
                buffers[spec.name] = memory
            self.launch(buffers, stream)
            for spec, array in copied:
                if spec.role == "out":
                    contents = np.empty(spec.nbytes, np.uint8)
                    device.read(contents, buffers[spec.name], stream)
                    array[...] = elements(contents, spec, array.dtype)

    def close(self) -> None:
        """Give the module and the workspaces back, after waiting for them. Again: nothing."""
        self._cleanup.close()
