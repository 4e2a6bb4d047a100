"""Measuring an operator: times on a GPU, counts on the simulator, whose times would say nothing about a GPU's."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from ckmlir.ops.comparison import Array
from ckmlir.ops.operator import Operator
from ckmlir.ops.request import RequestError
from ckmlir.runtime.device import Device, Event, Memory
from ckmlir.runtime.executable import Executable
from ckmlir.runtime.strided import to_memory, untouched
from ckmlir.targets import Target

LAST_LEVEL_CACHE_BYTES = 256 << 20
"""The Infinity Cache of MI300, which HIP does not tell of ("AMD CDNA 3 Architecture" white paper)."""

COLD = ("no", "rotate", "flush")
"""What caches hold: what the launch before left; of other arrays, which take turns; of something else altogether."""


@dataclass(frozen=True)
class Times:
    """Seconds of every repeat, from events around the launch; preparation of workspaces included."""

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


@dataclass(frozen=True)
class Measurement:
    """What was measured.

    Attributes:
        kernel: name of the kernel.
        flops: floating-point operations of the problem, None where they do not matter.
        nbytes: bytes of all its arrays, each counted once.
        times: on a GPU, else None.
        counts: on the simulator, else None: what one launch did, by name.
    """

    kernel: str
    flops: int | None
    nbytes: int
    times: Times | None
    counts: Mapping[str, int] | None

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
    warm_up: int = 10,
    repeats: int = 50,
    cold: str = "no",
) -> Measurement:
    """Run an operator on input `arrays` and measure: `repeats` times on a GPU, once on the simulator.

    Args:
        cold: one of `COLD`.

    Raises:
        RequestError: there is nothing to launch, or the chip cannot run it.
        DeviceError, KernelFault: as the device.
    """
    from ckmlir.runtime.simulator_device import SimulatorDevice

    with ExitStack() as cleanup:
        executable = Executable(device, operator, problem, target=target)
        cleanup.callback(executable.close)
        if executable.kernel is None:
            raise RequestError(f"{operator.name}: there is nothing to launch")
        nbytes = sum(spec.nbytes for spec in executable.arrays.values())
        is_simulated = isinstance(device, SimulatorDevice)
        copies = 1
        if cold == "rotate" and not is_simulated:
            copies = 1 + -(-_cache_bytes(device) // max(nbytes, 1))
        buffers = [_upload(executable, arrays, device, cleanup) for _ in range(min(copies, warm_up + repeats))]
        times, counts = None, None
        if isinstance(device, SimulatorDevice):
            executable.launch(buffers[0])
            device.synchronize()
            counts = _counts(device)
        else:
            times = _time(executable, buffers, device, warm_up, repeats, flush=cold == "flush")
        return Measurement(executable.kernel.kernel_name, operator.flops(problem), nbytes, times, counts)


def _cache_bytes(device: Device) -> int:
    """More than all caches hold."""
    return 2 * max(device.properties.cache_bytes, LAST_LEVEL_CACHE_BYTES)


def _upload(
    executable: Executable, arrays: Mapping[str, Array], device: Device, cleanup: ExitStack
) -> dict[str, Memory]:
    buffers = {}
    for name, spec in executable.arrays.items():
        memory = buffers[name] = device.allocate(spec.nbytes)
        cleanup.callback(device.free, memory)
        device.write(memory, to_memory(arrays[name], spec) if name in arrays else untouched(spec))
    return buffers


def _time(
    executable: Executable,
    buffers: list[dict[str, Memory]],
    device: Device,
    warm_up: int,
    repeats: int,
    *,
    flush: bool,
) -> Times:
    with ExitStack() as cleanup:
        other = device.allocate(_cache_bytes(device)) if flush else None
        if other is not None:
            cleanup.callback(device.free, other)
        stream = device.create_stream()
        cleanup.callback(stream.close)
        pairs: list[tuple[Event, Event]] = []
        for number, memories in zip(range(warm_up + repeats), itertools.cycle(buffers)):
            if other is not None:
                device.fill(other, number % 256, other.size, stream)
            start, end = device.create_event(), device.create_event()
            cleanup.callback(start.close)
            cleanup.callback(end.close)
            start.record(stream)
            executable.launch(memories, stream)
            end.record(stream)
            pairs.append((start, end))
        stream.synchronize()
        return Times(tuple(end.seconds_since(start) for start, end in pairs[warm_up:]))


def _counts(device: Any) -> dict[str, int]:
    """What the simulator counted in the launch of the operator's own kernel."""
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
