"""How much sooner several processes compile a registry of kernels than one does.

    python benchmarks/compile_many.py [--processes 2] [--arch gfx942] [--repeats 1]

A registry is what a program may want at its start, here of 44 kernels: GEMM under several schedules and blocks,
attention, row and tensor operators, each in two types. All is compiled by one process, then by several, each started
anew, without the cache; their imports count. On a machine that is not idle the wall clock says little: `processor` is
what all processes used, divided by their number, as a share of what one used, which is the ratio on as many idle cores.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import time
from typing import Any

from ckmlir.errors import CkmlirError
from ckmlir.ops import find_operator
from ckmlir.runtime.compile_many import Request, compile_named
from ckmlir.runtime.processes import SideBySide
from ckmlir.runtime.workers import Task
from ckmlir.targets import get_target

KERNELS: list[tuple[str, dict[str, Any]]] = [
    *(("gemm", {"m": 1024, "n": 1024, "k": 1024, "block": block, "schedule": schedule, "dtype": dtype})
      for block in ((64, 64, 64), (64, 128, 64), (128, 64, 64), (128, 128, 64))
      for schedule in ("compv3", "compv4", "mem3") for dtype in ("f16", "bf16")),
    *(("fmha_fwd", {"sq": 256, "sk": 256, "d": d, "dtype": dtype}) for d in (64, 128) for dtype in ("f16", "bf16")),
    *((name, {"m": 64, "n": n, "dtype": dtype})
      for name in ("layernorm2d", "rmsnorm2d", "softmax") for n in (1024, 4096) for dtype in ("f16", "bf16")),
    *(("transpose2d", {"m": 100, "n": 100, "dtype": dtype}) for dtype in ("f16", "f32")),
    *(("copy", {"m": 100, "n": 100, "dtype": dtype}) for dtype in ("f16", "f32")),
]  # fmt: skip


def main() -> None:
    """Measure, print a line each and one of JSON."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--arch", default="gfx942")
    parser.add_argument("--repeats", type=int, default=1)
    options = parser.parse_args()
    os.environ["CKMLIR_CACHE"] = "off"
    requests = [_request(name, keys, options.arch) for name, keys in KERNELS]
    rows = []
    for _ in range(options.repeats):
        one, several = _seconds(requests, 1), _seconds(requests, options.processes)
        rows.append({
            "one": one[0], "several": several[0], "wall": several[0] / one[0],
            "processor": several[1] / options.processes / one[1],
        })  # fmt: skip
        print("  ".join(f"{name} {value:.2f}" for name, value in rows[-1].items()))
    print(json.dumps({"arch": options.arch, "kernels": len(requests), "processes": options.processes, "runs": rows}))


def _request(name: str, keys: dict[str, Any], arch: str) -> Request:
    operator, target = find_operator(name), get_target(arch)
    return Request(operator, operator.spec(operator.problem(**keys), target), target)


def _seconds(requests: list[Request], processes: int) -> tuple[float, float]:
    """On the clock, and of processors."""
    start, before = time.perf_counter(), _processor()
    tasks = [Task(compile_named, (one.operator.name, one.spec, one.target.name), one.spec.name) for one in requests]
    with SideBySide(processes) as workers:
        answers = workers.call(tasks)
    took = time.perf_counter() - start, _processor() - before
    for request, answer in zip(requests, answers, strict=True):
        if isinstance(answer, CkmlirError):
            raise SystemExit(f"{request.spec.name}: {answer}")
    return took


def _processor() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


if __name__ == "__main__":
    main()
