"""Running an operator on a device: compile, copy, launch, copy back; and comparing the outcome with the reference."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from ckmlir.ops.comparison import Array, Comparison, compare
from ckmlir.ops.dtypes import numpy_dtype
from ckmlir.ops.operator import ArraySpec, Operator, require_valid
from ckmlir.ops.request import RequestError
from ckmlir.ops.spec import Spec
from ckmlir.runtime.device import Device, KernelFault, LabelsMemory, Memory
from ckmlir.runtime.executable import Executable
from ckmlir.runtime.strided import elements, to_memory, touched_gap, untouched
from ckmlir.targets import Target

if TYPE_CHECKING:
    from ckmlir.compiler import CompiledKernel

P = TypeVar("P")
S = TypeVar("S", bound=Spec)


@dataclass(frozen=True)
class RunResult:
    """What a run gives back.

    Attributes:
        outputs: the operator's output arrays by name.
        kernel: what ran; None when there was nothing to launch.
        compile_seconds: 0 when the kernel was given or there was none.
        run_seconds: the launch, without copies.
    """

    outputs: dict[str, Array]
    kernel: CompiledKernel | None
    compile_seconds: float
    run_seconds: float


def run_operator(
    operator: Operator[P, S],
    problem: P,
    arrays: Mapping[str, Array],
    target: Target,
    device: Device,
    *,
    compiled: CompiledKernel | None = None,
) -> RunResult:
    """Run `operator` on input `arrays`, each with the shape and NumPy type that the problem asks for.

    `compiled` is the kernel of this problem's specification if the caller has it already.

    Raises:
        RequestError: the chip cannot run the kernel, or an array is missing or has the wrong shape or type.
        KernelFault: the kernel went out of bounds or wrote between the rows of an output.
    """
    spec = operator.spec(problem, target)
    require_valid(operator, spec, target)
    specs = operator.arrays(problem)
    for array in specs:
        if array.role == "in":
            check_array(array, arrays.get(array.name), target)
    memories = {
        array.name: to_memory(arrays[array.name], array) if array.role == "in" else untouched(array) for array in specs
    }
    compile_seconds = run_seconds = 0.0
    if operator.launch(problem, spec).is_empty:
        compiled = None
    else:
        if compiled is None:
            start = time.perf_counter()
            compiled = compile_kernel(operator, spec, target)
            compile_seconds = time.perf_counter() - start
        outputs = [array.name for array in specs if array.role == "out"]
        with closing(Executable(device, operator, problem, target=target, compiled=compiled)) as executable:
            run_seconds = _run(device, executable, memories, outputs)
    results = {array.name: _output(memories[array.name], array, target) for array in specs if array.role == "out"}
    return RunResult(results, compiled, compile_seconds, run_seconds)


def compile_kernel(operator: Operator[P, S], spec: S, target: Target) -> CompiledKernel:
    """The kernel from the cache, or from the compiler, which is imported when it is first needed."""
    from ckmlir.runtime.compile_cache import compile_cached

    return compile_cached(operator, spec, target)


def _run(device: Device, executable: Executable, memories: Mapping[str, Array], outputs: Sequence[str]) -> float:
    """Copy `memories` to the device, launch, and copy `outputs` back into them. Returns the seconds of the launch."""
    with ExitStack() as cleanup:
        buffers: dict[str, Memory] = {}
        for name, memory in memories.items():
            buffers[name] = device.allocate(memory.nbytes)
            cleanup.callback(device.free, buffers[name])
            device.write(buffers[name], memory)
            if isinstance(device, LabelsMemory):
                device.label(buffers[name], name, is_output=name in outputs)
        device.synchronize()
        start = time.perf_counter()
        executable.launch(buffers)
        device.synchronize()
        seconds = time.perf_counter() - start
        for name in outputs:
            device.read(memories[name], buffers[name])
    return seconds


def check_outputs(
    operator: Operator[P, S], problem: P, arrays: Mapping[str, Array], outputs: Mapping[str, Array], target: Target
) -> list[Comparison]:
    """Every output compared with the reference for a chip, in the order of the operator's arrays."""
    reference = operator.expected(problem, arrays, target)
    tolerances = operator.tolerances(problem, arrays, reference, target)
    return [compare(name, outputs[name], wanted, tolerances[name]) for name, wanted in reference.items()]


def check_array(spec: ArraySpec, array: Array | None, target: Target) -> None:
    """Raise RequestError unless `array` is what the problem asks for."""
    if array is None:
        raise RequestError(f"array {spec.name} is missing")
    dtype: Any = numpy_dtype(spec.dtype, target)
    if array.shape != spec.shape:
        raise RequestError(f"array {spec.name} has shape {array.shape}; these keys ask for {spec.shape}")
    if array.dtype != dtype:
        raise RequestError(f"array {spec.name} has type {array.dtype}; dtype {spec.dtype} is {dtype}")


def _output(memory: Array, spec: ArraySpec, target: Target) -> Array:
    dtype = numpy_dtype(spec.dtype, target)
    place = touched_gap(memory, spec, dtype)
    if place is not None:
        raise KernelFault(f"the kernel wrote between the rows of array {spec.name}, {place} elements from its start")
    output: Array = elements(memory, spec, dtype).copy()
    return output
