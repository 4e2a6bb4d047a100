"""Measuring an operator: times on a GPU, counts on the simulator, whose times would say nothing about a GPU's."""

from __future__ import annotations

import itertools
import statistics
from collections import Counter
from collections.abc import Mapping
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from ckmlir.ops.comparison import Array
from ckmlir.ops.operator import Operator
from ckmlir.ops.plan import KernelStep, PlanStep
from ckmlir.ops.request import RequestError
from ckmlir.ops.spec import Spec
from ckmlir.runtime.device import Device, Event, Memory
from ckmlir.runtime.executable import Executable
from ckmlir.runtime.strided import to_memory, untouched
from ckmlir.targets import Target

if TYPE_CHECKING:
    from ckmlir.compiled_kernel import CompiledKernel

LAST_LEVEL_CACHE_BYTES = 256 << 20
"""The Infinity Cache of MI300, which HIP does not tell of ("AMD CDNA 3 Architecture" white paper)."""

COLD = ("no", "rotate", "flush")
"""What caches hold: what the launch before left; of other arrays, which take turns; of something else altogether."""


class Times(Struct, frozen=True):
    """Seconds of every repeat, from events around all steps, or around one."""

    seconds: tuple[float, ...]

    @property
    def median(self) -> float:
        return statistics.median(self.seconds)

    @property
    def least(self) -> float:
        return min(self.seconds)

    @property
    def spread(self) -> float:
        """The middle half of the repeats lies within so many seconds."""
        if len(self.seconds) < 2:
            return 0.0
        quarters = statistics.quantiles(self.seconds, n=4, method="inclusive")
        return quarters[2] - quarters[0]


class StepMeasurement(Struct, frozen=True):
    """What was measured of a step: times on a GPU; on the simulator what its launch did, None of what launches nothing.

    Times of single steps come from runs of their own, with an event between every two steps, which costs a little: they
    add up to somewhat more than the whole.
    """

    step: PlanStep
    times: Times | None
    counts: Mapping[str, int] | None


class Measurement(Struct, frozen=True):
    """What was measured.

    Attributes:
        kernel: name of the operator's own kernel.
        flops: floating-point operations of the problem, None where they do not matter.
        nbytes: bytes of all its arrays, each counted once.
        times: on a GPU, else None.
        counts: on the simulator, else None: what one launch of every kernel did, by name.
        steps: the same of every step.
    """

    kernel: str
    flops: int | None
    nbytes: int
    times: Times | None
    counts: Mapping[str, int] | None
    steps: tuple[StepMeasurement, ...]

    @property
    def tflops(self) -> float | None:
        """10^12 operations a second by the median; None without times or operations."""
        return None if self.times is None or not self.flops else self.flops / self.times.median / 1e12

    @property
    def gigabytes_a_second(self) -> float | None:
        """10^9 bytes a second by the median; None without times."""
        return None if self.times is None else self.nbytes / self.times.median / 1e9


def measure(
    operator: Operator[Any, Any],
    problem: Any,
    arrays: Mapping[str, Array],
    target: Target,
    device: Device,
    *,
    spec: Spec | None = None,
    warm_up: int = 10,
    repeats: int = 50,
    cold: str = "no",
    compiled: CompiledKernel | None = None,
) -> Measurement:
    """Run an operator on input `arrays` and measure: `repeats` times on a GPU, once on the simulator.

    Args:
        spec: of the operator's own kernel; by default what it chooses.
        cold: one of `COLD`.
        compiled: the operator's own kernel if the caller has it already.

    Raises:
        RequestError: there is nothing to launch, or the chip cannot run it.
        DeviceError, KernelFault: as the device.
    """
    from ckmlir.runtime.simulator_device import SimulatorDevice

    with ExitStack() as cleanup:
        executable = Executable(device, operator, problem, target=target, spec=spec, compiled=compiled)
        cleanup.callback(executable.close)
        steps = executable.plan.steps
        if not executable.plan.kernels:
            raise RequestError(f"{operator.name}: there is nothing to launch")
        nbytes = sum(spec.nbytes for spec in executable.arrays.values())
        is_simulated = isinstance(device, SimulatorDevice)
        copies = 1
        if cold == "rotate" and not is_simulated:
            copies = 1 + -(-_cache_bytes(device) // max(nbytes, 1))
        options = (executable, operator, target, arrays, device, cleanup)
        buffers = [upload(*options) for _ in range(min(copies, warm_up + repeats))]
        times: Times | None = None
        counts: Counter[str] | None = None
        if isinstance(device, SimulatorDevice):
            found = _counted(executable, buffers[0], device)
            counts = Counter[str]()
            for one in found:
                counts.update(one.counts or {})
        else:
            series = (executable, buffers, device, warm_up, repeats)
            (times,) = _time(*series, flush=cold == "flush")
            each = _time(*series, flush=cold == "flush", by_step=True) if len(steps) > 1 else [times]
            found = [StepMeasurement(step, seconds, None) for step, seconds in zip(steps, each, strict=True)]
        return Measurement(executable.spec.name, operator.flops(problem), nbytes, times, counts, tuple(found))


def _cache_bytes(device: Device) -> int:
    """More than all caches hold."""
    return 2 * max(device.properties.cache_bytes, LAST_LEVEL_CACHE_BYTES)


def upload(
    executable: Executable,
    operator: Operator[Any, Any],
    target: Target,
    arrays: Mapping[str, Array],
    device: Device,
    cleanup: ExitStack,
) -> dict[str, Memory]:
    """Memory of the device for all arrays of an executable, inputs written to it; given back with `cleanup`."""
    buffers: dict[str, Memory] = {}
    for name, spec in executable.arrays.items():
        memory = buffers[name] = device.allocate(spec.nbytes)
        cleanup.callback(device.free, memory)
        device.write(memory, to_memory(arrays[name], spec) if name in arrays else untouched(spec))
    addresses = {name: memory.address for name, memory in buffers.items()}
    for name, contents in operator.placed(executable.problem, target, addresses).items():
        device.write(buffers[name], contents)
    return buffers


def _time(
    executable: Executable,
    buffers: list[dict[str, Memory]],
    device: Device,
    warm_up: int,
    repeats: int,
    *,
    flush: bool,
    by_step: bool = False,
) -> list[Times]:
    """Times of all steps together, or of each."""
    with ExitStack() as cleanup:
        other = device.allocate(_cache_bytes(device)) if flush else None
        if other is not None:
            cleanup.callback(device.free, other)
        stream = device.create_stream()
        cleanup.callback(stream.close)
        repeated: list[list[Event]] = []

        def mark() -> None:
            event = device.create_event()
            cleanup.callback(event.close)
            event.record(stream)
            repeated[-1].append(event)

        for number, memories in zip(range(warm_up + repeats), itertools.cycle(buffers)):
            if other is not None:
                device.fill(other, number % 256, other.size, stream)
            repeated.append([])
            mark()
            executable.launch(memories, stream, after=(lambda _: mark()) if by_step else None)
            if not by_step:
                mark()
        stream.synchronize()
        spans = [[later.seconds_since(one) for one, later in itertools.pairwise(events)] for events in repeated]
        return [Times(seconds) for seconds in zip(*spans[warm_up:], strict=True)]


def _counted(executable: Executable, memories: Mapping[str, Memory], device: Device) -> list[StepMeasurement]:
    """What the simulator counts in one launch of every kernel."""
    found: list[StepMeasurement] = []

    def note(step: PlanStep) -> None:
        device.synchronize()
        found.append(StepMeasurement(step, None, _counts(device) if isinstance(step, KernelStep) else None))

    executable.launch(memories, after=note)
    return found


def _counts(device: Any) -> dict[str, int]:
    """What the simulator counted in the last launch."""
    found = device.last_statistics
    return {
        "wave_instructions": found.wave_instructions,
        **dict(sorted(found.categories.items())),
        "bytes_read": found.bytes_read,
        "bytes_written": found.bytes_written,
        "lds_bytes_read": found.lds_bytes_read,
        "lds_bytes_written": found.lds_bytes_written,
        "workgroups": found.workgroups,
    }
