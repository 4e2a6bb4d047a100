"""What a launch costs before it reaches the driver: Python and hip-python, against a driver that does nothing; and what
it costs to take loaded kernels to another problem, of several operators.

    python benchmarks/launch_overhead.py [--repeats 9]

Times are of the thread, without what other programs take of a shared processor. Needs hip-python and neither ROCm nor a
GPU: the HIP library is the driver double of the tests, whose launch returns at once. Prints a table and one JSON line,
in microseconds a call: the median of the repeats, and the least.
"""

import argparse
import itertools
import json
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

sys.path[:0] = [str(Path(__file__).parent.parent / "test" / "runtime"), str(Path(__file__).parent.parent)]

import numpy as np
from driver_double import the_double

from ckmlir.ops import find_operator
from ckmlir.runtime import Device, open_device
from ckmlir.runtime.executable import Executable
from ckmlir.runtime.recent import MOST
from ckmlir.targets import get_target

CALLS = 2000


class Tensor:
    """As much of a PyTorch tensor as a launch looks at; PyTorch's own methods cost about as much."""

    def __init__(self, address: int, shape: tuple[int, ...]) -> None:
        self.dtype, self.device, self.shape = "torch.float16", SimpleNamespace(type="cuda", index=0), shape
        self._address, self._strides = address, (shape[1], 1)

    def data_ptr(self) -> int:
        return self._address

    def stride(self) -> tuple[int, ...]:
        return self._strides


BOUND: dict[str, tuple[str, Callable[[int], dict[str, object]]]] = {
    "gemm, any sizes": ("gemm", lambda i: {"m": 1001 + i, "n": 999, "k": 1003}),
    "gemm, 8 parts of K": ("gemm", lambda i: {"m": 1 + i % 64, "n": 64 * (1 + i // 64), "k": 8192, "split_k": 8}),
    "softmax": ("softmax", lambda i: {"m": 1 + i, "n": 1024}),
    "layernorm2d": ("layernorm2d", lambda i: {"m": 1 + i, "n": 1024}),
    "fmha_fwd": ("fmha_fwd", lambda i: {"sq": 1 + i, "sk": 1 + i, "h": 8}),
    "permute": ("permute", lambda i: {"shape": (64, 64, 1001 + i), "perm": (0, 2, 1)}),
    "img2col": ("img2col", lambda i: {"n": 2, "image": (8 * (2 + i % 32), 8 * (2 + i // 32))}),
    "reduce by two kernels": ("reduce", lambda i: {"shape": (4, 30_000 + 64 * i), "split": 3}),
    "moe_layer": ("moe_layer", lambda i: {"t": 512 + i}),
}
"""Problems of an operator by their number, which the kernels of the first compute, most of them."""


def measure(repeats: int) -> dict[str, list[float]]:
    """Microseconds a call of every kind, `repeats` times."""
    double = the_double()
    double.start(["gfx942:sramecc+:xnack-"])
    target = get_target("gfx942")
    device = open_device("hip", target)
    operator = find_operator("gemm")
    problem = operator.problem(m=256, n=256, k=256)
    gemm = Executable(device, operator, problem)
    specs = operator.arrays(problem)
    memories = {array.name: device.allocate(array.nbytes) for array in specs}
    tensors = {array.name: Tensor(memories[array.name].address, array.shape) for array in specs}
    stream = device.create_stream()
    gemm(**memories)
    double.settle()
    double.do_nothing("hipModuleLaunchKernel")

    launch = operator.launch(problem, operator.spec(problem, target), target)
    module, name = gemm.loaded.module, gemm.kernel.kernel_name
    arguments = [memories[one] if isinstance(one, str) else one for one in launch.arguments]
    hip, function = device.driver.hip.hip, device.kernel(module, name).function
    packed = device.kernel(module, name).pack(arguments)
    kinds: dict[str, Callable[[], object]] = {
        "hip-python alone": lambda: hip.hipModuleLaunchKernel(
            function, *launch.grid, *launch.block, 0, stream.handle, None, (packed,)
        ),
        "Device.launch": lambda: device.launch(module, name, launch.grid, launch.block, arguments, stream=stream),
        "Executable, device memory": lambda: gemm(stream=stream, **memories),
        "Executable, tensors": lambda: gemm(stream=stream, **tensors),
    }
    problems = [operator.problem(m=256 * (1 + number), n=256, k=256) for number in range(3 * MOST)]
    problems = [one for one in problems if not operator.mismatches(one, gemm.spec, target)]
    turns = itertools.cycle(problems)
    kinds["bind to another problem"] = lambda: gemm.bind(next(turns)).close()
    kinds["bind, and its first call"] = lambda: bound_and_called(gemm.bind(next(turns)), stream, memories)
    kinds["bind to one bound before"] = lambda: gemm.bind(problem).close()
    assert {type(one) for one in launch.arguments} == {str, np.int32}
    times: dict[str, list[float]] = {}
    for _ in range(repeats):
        for kind, call in kinds.items():
            start = time.thread_time()
            for _ in range(CALLS):
                call()
            times.setdefault(kind, []).append((time.thread_time() - start) / CALLS * 1e6)
    for kind, (name, keys) in BOUND.items():
        times[kind] = [bound(device, name, keys) for _ in range(repeats)]
    double.restore("hipModuleLaunchKernel")
    device.close()
    double.stop()
    return times


def bound(device: Device, name: str, keys: Callable[[int], dict[str, object]]) -> float:
    """Microseconds to bind the kernels of the first problem to one of the others, which was not bound before."""
    operator = find_operator(name)
    first = Executable(device, operator, operator.problem(**keys(0)))
    target = get_target(device.properties.target)
    problems = [operator.problem(**keys(number)) for number in range(1, 1 + 2 * MOST)]
    problems = [one for one in problems if not operator.mismatches(one, first.spec, target)]
    for one in problems:  # of the ways that these problems take, each is met once
        first.bind(one).close()
    start = time.thread_time()
    for one in problems:
        first.bind(one).close()
    seconds = time.thread_time() - start
    first.close()
    return seconds / len(problems) * 1e6


def bound_and_called(executable: Executable, stream: object, memories: dict[str, object]) -> None:
    """One call of a new size; the driver does not look at the memories."""
    executable.launch(memories, stream)
    executable.close()


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="microseconds from Python to the driver")
    parser.add_argument("--repeats", type=int, default=9)
    times = measure(parser.parse_args().repeats)
    print(f"{'call (gemm, nine arguments)':30}{'median':>10}{'least':>10}")
    for kind, values in times.items():
        print(f"{kind:30}{statistics.median(values):7.2f} µs{min(values):7.2f} µs")
    print(
        json.dumps(
            {kind: {"median": statistics.median(values), "least": min(values)} for kind, values in times.items()}
        )
    )


if __name__ == "__main__":
    main()
