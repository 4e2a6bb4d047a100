"""What pipelining costs at compile time: every named GEMM schedule against an unpipelined kernel of equal size.

    python benchmarks/compile_time_of_schedules.py [--repeats 5] [--arch gfx942]

A pipelined loop has a prologue, remainders and several steps, so its kernel has more instructions, which cost time
whatever made them. So each is compared with the unpipelined kernel unrolled to the nearest number of instructions, and
what difference is left is divided out: the ratio is that of the times for one instruction of the machine code. The aim
is at most 1.3. Times are processor time of this process (tracing, passes, LLVM; not the linker's process), the least of
several compilations after one that warms caches up. Prints a table and one JSON line.
"""

import argparse
import json
import time
from typing import NamedTuple

from ckmlir.compiler import compile_traced
from ckmlir.dialect.build import string
from ckmlir.dialect.loop import SCHEDULE
from ckmlir.ops import find_operator
from ckmlir.ops.schedules import GEMM
from ckmlir.passes.walk import loops_of
from ckmlir.sim.decode import disassemble
from ckmlir.targets import get_target

BLOCK = "64x64x64"
SCHEDULES = (
    "v1", "mem3", "mem6", "mem8", "compv3", "compv4", "compv6", "hot_loop", "async", "async_double", "async_wide",
    "straight",
)  # fmt: skip
MOST_UNROLLED = 8


class Cost(NamedTuple):
    """Seconds of one compilation and the instructions that came of it."""

    seconds: float
    instructions: int

    @property
    def each(self) -> float:
        """Microseconds for an instruction."""
        return 1e6 * self.seconds / self.instructions


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="compile time of schedules against the unpipelined kernel's")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--arch", default="gfx942")
    options = parser.parse_args()
    plain = {n: measure(f"schedule u 1; unroll {n}", "unpipelined", options) for n in range(1, MOST_UNROLLED + 1)}
    print(f"{'schedule':14}{'ms':>8}{'instructions':>14}{'unpipelined':>14}{'ms':>8}{'instructions':>14}{'ratio':>8}")
    ratios = {}
    for name in SCHEDULES:
        cost = measure(GEMM[name], name, options)
        steps = min(plain, key=lambda n: abs(plain[n].instructions - cost.instructions))
        other = plain[steps]
        ratios[name] = round(cost.each / other.each, 3)
        print(
            f"{name:14}{1e3 * cost.seconds:8.1f}{cost.instructions:14}{f'{steps} steps':>14}"
            f"{1e3 * other.seconds:8.1f}{other.instructions:14}{ratios[name]:8.2f}"
        )
    print(json.dumps({"arch": options.arch, "ratios": ratios}))


def measure(schedule: str, name: str, options: argparse.Namespace) -> Cost:
    """The cost of the kernel of a named schedule with this text for its loop."""
    operator, target = find_operator("gemm"), get_target(options.arch)
    problem = operator.problem(m=4096, n=4096, k=4096, block=BLOCK, schedule=name)
    spec = operator.spec(problem, target)
    best, instructions = float("inf"), 0
    for _ in range(options.repeats + 1):
        start = time.process_time()
        kernel = operator.build(spec, target)
        with kernel.module.context:
            loops_of(kernel.module)[-1].attributes[SCHEDULE] = string(schedule)
        compiled = compile_traced(kernel)
        best = min(best, time.process_time() - start)
        instructions = instructions or len(disassemble(compiled.code_object, compiled.kernel_name))
    return Cost(best, instructions)


if __name__ == "__main__":
    main()
