"""Queues an operator's preparation (`ckmlir.ops.workspace`) on a stream."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from typing import Any, Protocol

from ckmlir.ops.dtypes import numpy_dtype
from ckmlir.ops.operator import ArraySpec, Operator, PackOnDevice, Step
from ckmlir.ops.workspace import Fill, PackOnHost
from ckmlir.runtime.device import Device, HostMemory, Memory, Stream
from ckmlir.runtime.pool import Pool
from ckmlir.runtime.strided import elements
from ckmlir.targets import get_target


class Loaded(Protocol):
    """Another operator, ready to run."""

    def launch(self, buffers: Mapping[str, Memory], stream: Stream | None = None) -> None:
        """Queue it."""

    def close(self) -> None:
        """Give it back."""


class Preparation:
    """The preparation of one problem on one device: staging memory and helpers are kept for the next time."""

    def __init__(
        self,
        device: Device,
        arrays: Mapping[str, ArraySpec],
        steps: Sequence[Step],
        load: Callable[[Operator[Any, Any], Any], Loaded],
    ) -> None:
        self._device = device
        self._arrays = arrays
        self._steps = steps
        self._staging: Pool[HostMemory] = Pool(device, device.allocate_host)
        self._target = get_target(device.properties.target)
        self._loaded = [load(one.operator, one.problem) if isinstance(one, PackOnDevice) else None for one in steps]

    def queue(self, buffers: Mapping[str, Memory], stream: Stream | None) -> None:
        """Queue all steps; `buffers` holds the arrays and workspaces."""
        for step, loaded in zip(self._steps, self._loaded, strict=True):
            if isinstance(step, Fill):
                buffer = buffers[step.buffer]
                array = self._arrays.get(step.buffer)
                self._device.fill(buffer, step.byte, buffer.size if array is None else array.nbytes, stream)
            elif isinstance(step, PackOnHost):
                self._pack_on_host(step, buffers, stream)
            else:
                assert loaded is not None
                loaded.launch({inner: buffers[outer] for inner, outer in step.arrays.items()}, stream)

    def _pack_on_host(self, step: PackOnHost, buffers: Mapping[str, Memory], stream: Stream | None) -> None:
        workspace = buffers[step.workspace]
        specs = [self._arrays[name] for name in step.inputs]
        with ExitStack() as borrowed:
            packed = borrowed.enter_context(self._staging.borrow(workspace.size, stream))
            inputs = [borrowed.enter_context(self._staging.borrow(spec.nbytes, stream)) for spec in specs]
            for spec, staged in zip(specs, inputs, strict=True):
                self._device.copy(staged, buffers[spec.name], spec.nbytes, stream)

            def pack() -> None:
                arrays = {
                    spec.name: elements(staged.bytes[: spec.nbytes], spec, numpy_dtype(spec.dtype, self._target))
                    for spec, staged in zip(specs, inputs, strict=True)
                }
                contents = packed.bytes[: workspace.size]
                contents[:] = 0
                step.function(arrays, contents)

            self._device.call_on_host(pack, stream)
            self._device.copy(workspace, packed, workspace.size, stream)

    def close(self) -> None:
        """Give everything back, after waiting for it."""
        self._staging.close()
        for loaded in self._loaded:
            if loaded is not None:
                loaded.close()
