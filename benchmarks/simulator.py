"""Speed of the simulator: wave-instructions a second, on one core, of operators' default kernels.

    python benchmarks/simulator.py [--repeats 15] [--arch gfx942] [--check all]

Prints a table and one JSON line. `launch` is the processor time of the fastest of the repeats (on one core, since the
simulator runs in one thread here; other programs on the machine only ever add to it), and rates are of it. It contains
`prepare`, what a launch costs before its first instruction in a warm process: placing arguments and registers. It is a
speed of this program, not of any GPU.
"""

import argparse
import json
import time

import numpy as np

from ckmlir.codeobject import CodeObject
from ckmlir.compiler import compile_kernel
from ckmlir.ops import find_operator
from ckmlir.sim.checks import parse_checks
from ckmlir.sim.simulator import Simulator
from ckmlir.targets import get_target

KERNELS = {
    "gemm f16 1024^3": ("gemm", {"m": 1024, "n": 1024, "k": 1024}),
    "fmha_fwd f16 d128 s1024": ("fmha_fwd", {"b": 1, "h": 2, "sq": 1024, "d": 128}),
    "layernorm2d f16 1024x4096": ("layernorm2d", {"m": 1024, "n": 4096}),
}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="wave-instructions per second of the simulator")
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--arch", default="gfx942")
    parser.add_argument("--check", type=parse_checks, default=frozenset(), help="checkers that watch the run")
    options = parser.parse_args()
    results = {name: measure(name, options.repeats, options.arch, options.check) for name in KERNELS}
    print(f"{'kernel':28}{'wave-instructions':>20}{'million/s':>12}{'launch':>10}{'prepare':>10}")
    for name, row in results.items():
        print(
            f"{name:28}{row['wave_instructions']:20,.0f}{row['rate'] / 1e6:12.1f}{1e3 * row['launch_s']:7.1f} ms"
            f"{1e3 * row['prepare_s']:7.1f} ms"
        )
    print(json.dumps({"arch": options.arch, "check": sorted(options.check), "results": results}))


def measure(name: str, repeats: int, arch: str, checks: frozenset[str]) -> dict[str, float]:
    """Rate and times of the fastest of several launches, after one that compiles handlers."""
    operator_name, keys = KERNELS[name]
    operator, target = find_operator(operator_name), get_target(arch)
    problem = operator.problem(**keys)
    spec = operator.spec(problem, target)
    compiled = compile_kernel(operator, spec, target)
    code_object, launch = CodeObject.parse(compiled.hsaco), operator.launch(problem, spec, target)
    simulator = Simulator(target=arch, checks=checks)
    inputs = operator.inputs(problem, target)
    memories = {
        array.name: simulator.upload(
            inputs.get(array.name, np.zeros(array.nbytes, np.uint8)), array.name, read_only=array.role == "in"
        )
        for array in operator.arrays(problem)
    }
    arguments = [memories[one] if isinstance(one, str) else one for one in launch.arguments]
    rows = []
    for _ in range(repeats + 1):
        start, processor = time.perf_counter(), time.process_time()
        statistic = simulator.launch(code_object, compiled.kernel_name, launch.grid, launch.block, arguments)
        processor, elapsed = time.process_time() - processor, time.perf_counter() - start
        rows.append((statistic.wave_instructions, processor, elapsed - statistic.seconds))
    count = rows[0][0]
    launch_s = min(seconds for _, seconds, _ in rows[1:])
    return {
        "wave_instructions": count,
        "rate": count / launch_s,
        "launch_s": launch_s,
        "prepare_s": min(seconds for _, _, seconds in rows[1:]),
    }


if __name__ == "__main__":
    main()
