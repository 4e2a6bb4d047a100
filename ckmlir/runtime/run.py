"""Running an operator on a device: compile, copy, launch, copy back; and comparing the outcome with the reference."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, closing
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from msgspec import Struct, field

from ckmlir.errors import as_annotated, counted
from ckmlir.ops.arrays import ArraySpec
from ckmlir.ops.comparison import Array, Comparison, compare
from ckmlir.ops.dtypes import numpy_dtype
from ckmlir.ops.operator import Operator, require_valid
from ckmlir.ops.plan import Plan
from ckmlir.ops.request import RequestError, show
from ckmlir.ops.shared_places import from_shared_places
from ckmlir.ops.spec import Spec
from ckmlir.runtime.arguments import is_masked
from ckmlir.runtime.device import Device, KernelFault
from ckmlir.runtime.executable import Executable
from ckmlir.runtime.places import Place
from ckmlir.runtime.strided import elements, given_bytes, touched_gap, untouched
from ckmlir.targets import Target

if TYPE_CHECKING:
    from ckmlir.compiled_kernel import CompiledKernel

P = TypeVar("P")
S = TypeVar("S", bound=Spec)


class RunResult(Struct, frozen=True):
    """What a run gives back.

    Attributes:
        outputs: the operator's output arrays by name.
        kernel: the operator's own kernel that ran; None when there was nothing of it to launch.
        compile_seconds: until all kernels were loaded; next to nothing when they were given or there were none.
        run_seconds: all steps, without copies.
        plan: all that ran.
    """

    outputs: dict[str, Array]
    kernel: CompiledKernel | None
    compile_seconds: float
    run_seconds: float
    plan: Plan = field(default_factory=lambda: Plan((), ()))

    def __repr__(self) -> str:
        """What there is, without elements and code."""
        outputs = ", ".join(f"{name}: {array.dtype} {list(array.shape)}" for name, array in self.outputs.items())
        return f"RunResult({outputs}; {self.kernel}; {counted(len(self.plan.steps), 'step')}, {self.run_seconds:.3g} s)"


@as_annotated(RequestError)
def run_operator(
    operator: Operator[P, S],
    problem: P,
    arrays: Mapping[str, Array],
    target: Target,
    device: Device,
    *,
    spec: S | None = None,
    compiled: CompiledKernel | None = None,
    guarded: bool = False,
    reads_outputs: bool = True,
) -> RunResult:
    """Run `operator` on input `arrays`, each with the shape and NumPy type that the problem asks for.

    Args:
        spec: of the operator's own kernel; by default what it chooses.
        compiled: the kernel of this specification if the caller has it already.
        guarded: arrays begin where they are no better aligned than the problem promises, between guard bytes that are
            compared after the run, and so are inputs.
        reads_outputs: whether outputs are copied back and checked; otherwise they begin undefined too.

    Raises:
        RequestError: the chip cannot run the kernel, or an array is missing or has the wrong shape or type.
        KernelFault: the kernel went out of bounds, wrote between the rows of an output, or around an array.
    """
    spec = operator.spec(problem, target) if spec is None else spec
    require_valid(operator, spec, target)
    specs = operator.arrays(problem)
    for array in specs:
        if array.role == "in":
            check_array(array, arrays.get(array.name), target)
    operator.check_inputs(problem, arrays)
    memories = {array.name: given_bytes(arrays[array.name], array) for array in specs if array.role == "in"}
    if reads_outputs:
        memories |= {array.name: untouched(array) for array in specs if array.role == "out"}
    start = time.perf_counter()

    def placed(addresses: Mapping[str, int]) -> Mapping[str, Array]:
        return operator.placed(problem, target, addresses)

    with closing(Executable(device, operator, problem, target=target, spec=spec, compiled=compiled)) as executable:
        compile_seconds = time.perf_counter() - start
        back = [array for array in specs if guarded or array.role == "out"] if reads_outputs else []
        run_seconds = _run(device, executable, specs, memories, placed, guarded, back) if executable.plan.steps else 0.0
        kernel, plan = executable.kernel, executable.plan
    results = {array.name: _output(memories[array.name], array, target) for array in back if array.role == "out"}
    return RunResult(results, kernel, compile_seconds, run_seconds, plan)


def compile_kernel(operator: Operator[P, S], spec: S, target: Target) -> CompiledKernel:
    """The kernel from the cache, or from the compiler, which is imported when it is first needed."""
    from ckmlir.runtime.compile_cache import compile_cached

    return compile_cached(operator, spec, target)


def _run(
    device: Device,
    executable: Executable,
    specs: Sequence[ArraySpec],
    memories: dict[str, Array],
    placed: Callable[[Mapping[str, int]], Mapping[str, Array]],
    guarded: bool,
    back: Sequence[ArraySpec],
) -> float:
    """Copy `memories` to the device, launch, and copy arrays `back` into them. Returns the seconds of the launch."""
    with ExitStack() as cleanup:
        places: dict[str, Place] = {}
        for spec in specs:
            places[spec.name] = Place(device, spec, memories.get(spec.name), guarded=guarded)
            cleanup.callback(places[spec.name].free)
        for name, contents in placed({name: place.memory.address for name, place in places.items()}).items():
            places[name].write(contents)
        device.synchronize()
        start = time.perf_counter()
        executable.launch({name: place.memory for name, place in places.items()})
        device.synchronize()
        seconds = time.perf_counter() - start
        for spec in back:
            memories[spec.name] = places[spec.name].contents()
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
    if not isinstance(array, np.ndarray):
        raise RequestError(f"array {spec.name}: expected one of NumPy, got {type(array).__name__}")
    dtype: Any = numpy_dtype(spec.dtype, target)
    if is_masked(array):
        raise RequestError(f"array {spec.name} is masked, and the mask would be ignored; pass its filled(value)")
    if array.shape != spec.shape:
        raise RequestError(f"array {spec.name} has shape {array.shape}; these keys ask for {spec.shape}")
    if array.dtype != dtype:
        raise RequestError(f"array {spec.name} has type {array.dtype}; dtype {spec.dtype} is {dtype}")
    held = from_shared_places(array, spec.strides)
    if held is not array and held.tobytes() != array.tobytes():
        raise RequestError(
            f"array {spec.name}: elements that share a place by strides {show(spec.strides)} differ"
        )


def _output(memory: Array, spec: ArraySpec, target: Target) -> Array:
    dtype = numpy_dtype(spec.dtype, target)
    place = touched_gap(memory, spec, dtype)
    if place is not None:
        raise KernelFault(f"the kernel wrote between the rows of array {spec.name}, {place} elements from its start")
    output: Array = elements(memory, spec, dtype).copy()
    return output
