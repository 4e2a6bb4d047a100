"""An operator ready to run on a device: compiled, loaded, and called with arrays as often as needed.

    gemm = Executable(device, find_operator("gemm"), problem)
    gemm(a=a, b=b, c=c, stream=torch.cuda.current_stream())

    larger = gemm.bind(gemm_operator.problem(m=8192, n=4096, k=4096))

A call checks every array against the problem, queues the operator's steps, and returns. What a call finds right is
remembered, so that the next one with arrays of the same kind only compares. Kernels depend on a specification, not on a
problem: `bind` takes them to another problem that the specification covers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec import Struct

from ckmlir.compiled_kernel import CompiledKernel
from ckmlir.ops.arrays import ArraySpec
from ckmlir.ops.dtypes import numpy_dtype
from ckmlir.ops.operator import Operator, require_operator, require_problem
from ckmlir.ops.plan import Plan
from ckmlir.ops.request import RequestError
from ckmlir.ops.spec import Spec
from ckmlir.runtime.arguments import (
    ArrayView,
    check_alignment,
    check_kind,
    check_place,
    host_array,
    may_overlap,
    view_of,
)
from ckmlir.runtime.bound_plan import After, BoundPlan
from ckmlir.runtime.bound_plans import BoundPlans
from ckmlir.runtime.device import Allocation, Device, DeviceError, Memory, MemoryPart, Stream
from ckmlir.runtime.device_array import DeviceArray
from ckmlir.runtime.lenders import Allocator
from ckmlir.runtime.loaded import LoadedKernel
from ckmlir.runtime.operator_kernels import OperatorKernels
from ckmlir.runtime.strided import elements, to_memory
from ckmlir.targets import Target, get_target

if TYPE_CHECKING:
    from ckmlir.ops.comparison import Array


class GpuArray:
    """Somebody else's memory of the GPU, as an argument of a launch."""

    __slots__ = ("address", "size")

    def __init__(self, address: int, size: int) -> None:
        self.address = address
        self.size = size


class _Checked(Struct, frozen=True):
    """What a call compares an array with.

    Attributes:
        kind: its element type as NumPy calls it.
        accepted: what may have been written to bare memory of an input: its type, or bits of the same size.
    """

    name: str
    spec: ArraySpec
    size: int
    kind: str
    accepted: frozenset[str] | None

    @staticmethod
    def of(spec: ArraySpec, target: Target) -> _Checked:
        kind = numpy_dtype(spec.dtype, target)
        accepted = frozenset((kind.name, "uint8", f"uint{8 * kind.itemsize}")) if spec.role == "in" else None
        return _Checked(spec.name, spec, spec.nbytes, kind.name, accepted)


class Executable:
    """An operator bound to one problem on one device, its kernels loaded.

    Attributes:
        problem: what it computes.
        spec: of the operator's own kernel.
        arrays: what the problem asks for, by name.
        plan: what a call queues.
        loaded, kernel: the operator's own kernel as the device and as the compiler knows it; None where nothing is
            launched of it.
    """

    def __init__(
        self,
        device: Device,
        operator: Operator[Any, Any],
        problem: Any,
        *,
        target: Target | None = None,
        spec: Spec | None = None,
        compiled: CompiledKernel | None = None,
        allocate: Allocator | None = None,
        allocate_host: Allocator | None = None,
    ) -> None:
        """Compile and load, each only where nobody has yet.

        Args:
            target: the device's chip, which it must be.
            spec: of the operator's own kernel, which must cover the problem; default: what the operator chooses.
            compiled: the kernel of that specification if the caller has it already; default: through the cache.
            allocate, allocate_host: functions of a size in bytes that give memory of the GPU for workspaces, and pinned
                memory of the host, as arrays of bytes: `lambda size: torch.empty(size, dtype=torch.uint8,
                pin_memory=True)`. They are kept until the stream has passed what uses them, also where this executable
                is gone. Default: the device's own memory.

        Raises:
            RequestError: the chip cannot run the problem, or `spec` or `compiled` are for another one.
            DeviceError: the device refuses the code object.
        """
        require_operator(operator)
        if not hasattr(device, "properties"):
            raise RequestError(f"a device is what open_device('sim', 'gfx942') gives, got {device!r:.80}")
        require_problem(operator, problem)
        target = get_target(device.properties.target) if target is None else target
        chosen = operator.spec(problem, target) if spec is None else spec
        kernels = OperatorKernels(device, operator, chosen, target, compiled, (allocate, allocate_host), problem)
        plans = BoundPlans(kernels)
        self._bind(kernels, problem, plans, partial(plans.first, chosen=spec is None))

    def bind(self, problem: Any) -> Executable:
        """The same kernels for another problem of the operator: nothing is compiled or loaded that is there already.

        Both have to be closed, in any order.

        Raises:
            RequestError: the kernel's specification does not cover the problem; the text says why.
        """
        if not isinstance(problem, type(self.problem)):
            require_problem(self._kernels.operator, problem)
        other = object.__new__(type(self))
        other._bind(self._kernels, problem, self._plans, self._plans.of)
        return other

    def _bind(
        self, kernels: OperatorKernels, problem: Any, plans: BoundPlans, bind: Callable[[Any], BoundPlan]
    ) -> None:
        self._plans = plans
        self._kernels, self._device, self._target = kernels, kernels.device, kernels.target
        self.problem, self.spec = problem, kernels.spec
        self._arrays: dict[str, ArraySpec] = {}
        self._checked: list[_Checked] | None = None
        self._remembered: dict[str, tuple[Any, tuple[Any, ...]]] = {}
        self._ordinal = kernels.ordinal
        self._is_closed = False
        kernels.retain()
        try:
            self._bound = bind(problem)
        except BaseException:
            kernels.release()
            raise

    @property
    def arrays(self) -> Mapping[str, ArraySpec]:
        """See the class."""
        if not self._arrays:  # made when a call first checks against them: launches do not need them
            self._arrays = {array.name: array for array in self._kernels.operator.arrays(self.problem)}
        return self._arrays

    @property
    def plan(self) -> Plan:
        """See the class."""
        return self._bound.plan

    @property
    def loaded(self) -> LoadedKernel | None:
        """See the class."""
        own = next((step for step in self.plan.kernels if step.is_own), None)
        return None if own is None else self._kernels.kernel(own)

    @property
    def kernel(self) -> CompiledKernel | None:
        """See the class."""
        return None if self.loaded is None else self.loaded.compiled

    # -- launches ------------------------------------------------------------------------------------------------------

    def launch(self, buffers: Mapping[str, Memory], stream: Stream | None = None, after: After | None = None) -> None:
        """Queue everything on memory of the device, by array name; nothing is checked but the launch itself.

        `after` is called with every step of the plan when it has been queued.
        """
        self._bound.queue(buffers, stream, after)

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
        if self._checked is None:
            self._checked = [_Checked.of(spec, self._target) for spec in self.arrays.values()]
        if len(arrays) != len(self._checked):
            self._check_names(arrays)
        buffers: dict[str, Memory] = {}
        copied: list[tuple[ArraySpec, Array]] = []
        written: list[tuple[Allocation, str]] = []
        for checked in self._checked:
            name, spec = checked.name, checked.spec
            try:
                array = arrays[name]
            except KeyError:
                self._check_names(arrays)
                raise
            if isinstance(array, Allocation):
                buffers[name] = self._own_memory(array, checked)
                if checked.accepted is None:
                    written.append((array, checked.kind))
                continue
            memory = self._like_before(array, spec, checked.size) or self._passed_as_it_is(array, checked)
            if memory is None:
                copied.append((spec, self._host_array(array, spec)))
            else:
                buffers[name] = memory
        if copied:
            self._launch_with_copies(buffers, copied, own)
        else:
            self.launch(buffers, own)
        for allocation, kind in written:
            allocation.dtype = kind

    @contextmanager
    def aligned(self, name: str, array: Any, stream: object = None) -> Iterator[Memory]:
        """A copy of an array of the device, elements and gaps, that begins where kernels take it; copies are queued.
        What is written to that of an output is copied back when the `with` block is left.

        Args:
            stream: that of the call inside the block.

        Raises:
            DeviceError: an array that the call would refuse wherever it began: by shape, type, strides or device.
        """
        spec, own = self.arrays[name], stream if stream is None else self._device.stream_of(stream)
        view = self._own_view(array) if isinstance(array, DeviceArray) else view_of(array)
        check_kind(view, spec, self._target)
        check_place(view, spec, self._ordinal)
        memory = array if isinstance(array, DeviceArray) else GpuArray(view.address, spec.nbytes)
        with self._kernels.workspaces.borrow(spec.nbytes, own) as block:
            copied = MemoryPart(block, 0, spec.nbytes)
            self._device.copy(copied, memory, spec.nbytes, own)
            yield copied
            if spec.role == "out":
                self._device.copy(memory, copied, spec.nbytes, own)

    def _check_names(self, arrays: Mapping[str, object]) -> None:
        missing, unknown = self.arrays.keys() - arrays.keys(), arrays.keys() - self.arrays.keys()
        names = ", ".join(self.arrays)
        if missing or unknown:
            what = f"array {min(missing)} is missing" if missing else f"there is no array {min(unknown)}"
            raise DeviceError(f"{what}; the arrays are {names}")

    # -- arrays --------------------------------------------------------------------------------------------------------

    def _like_before(self, array: Any, spec: ArraySpec, size: int) -> Memory | None:
        """Memory of a tensor that differs from one that was found right in nothing but its address, if it is one."""
        kind = self._remembered.get(spec.name)
        if kind is None or kind[0] is not type(array):
            return None
        if (array.dtype, array.device, array.shape, array.stride()) != kind[1]:
            return None
        address = array.data_ptr()
        return None if address % spec.align else GpuArray(address, size)

    def _passed_as_it_is(self, array: Any, checked: _Checked) -> Memory | None:
        """Memory of the device for an array, or None for one of the host that is copied."""
        spec, size = checked.spec, checked.size
        if isinstance(array, np.ndarray):
            return None
        if getattr(array, "address", None) is not None:
            return self._own_memory(array, checked)
        view = view_of(array)
        check_kind(view, spec, self._target)
        if not view.on_gpu:
            return None
        self._check_there_is_a_gpu(spec)
        check_place(view, spec, self._ordinal)
        check_alignment(view.address, spec)
        if hasattr(array, "data_ptr"):
            kind = array.dtype, array.device, array.shape, array.stride()
            self._remembered[spec.name] = (type(array), kind)
        return GpuArray(view.address, size)

    def _own_memory(self, memory: Any, checked: _Checked) -> Memory:
        spec, size, accepted, address = checked.spec, checked.size, checked.accepted, memory.address
        if isinstance(memory, DeviceArray):
            view = self._own_view(memory)
            check_kind(view, spec, self._target)
            check_place(view, spec, self._ordinal)
        elif accepted is not None and isinstance(memory, Allocation):
            written = memory.dtype
            if written is not None and written not in accepted:
                raise DeviceError(
                    f"array {spec.name}: {written} was written to its memory; the problem's {spec.dtype} is "
                    f"{checked.kind}: pass MemoryPart(memory, 0, memory.size) if its bytes are meant"
                )
        if memory.size < size:
            raise DeviceError(f"array {spec.name} takes {size} bytes, its memory has {memory.size}")
        check_alignment(address, spec)
        if getattr(memory, "ordinal", self._ordinal) != self._ordinal:
            raise DeviceError(f"array {spec.name} is {memory!r}, the kernel runs on GPU {self._ordinal}")
        own: Memory = memory
        return own

    def _own_view(self, array: DeviceArray) -> ArrayView:
        return ArrayView(array.address, array.shape, array.strides, array.dtype, True, self._ordinal, array)

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
                if spec.role == "out" and may_overlap(array):
                    raise DeviceError(
                        f"array {spec.name} would be written, and elements of it share a place: shape {array.shape}, "
                        f"strides of {array.strides} bytes; pass one of its own"
                    )
                memory = device.allocate(spec.nbytes)
                cleanup.callback(device.free, memory)
                device.write(memory, to_memory(array, spec), stream)
                buffers[spec.name] = memory
            self.launch(buffers, stream)
            for spec, array in copied:
                if spec.role == "out":
                    contents = np.empty(spec.nbytes, np.uint8)
                    device.read(contents, buffers[spec.name], stream)
                    array[...] = elements(contents, spec, array.dtype.newbyteorder("="))

    def close(self) -> None:
        """Give the kernels and the workspaces back, after waiting for them, unless others that were bound use them.
        Again: nothing."""
        if not self._is_closed:
            self._is_closed = True
            self._kernels.release()
