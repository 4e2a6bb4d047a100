"""What dispatch costs: validating a space, finding kernels among ten thousand, choosing again what was chosen before.

    python benchmarks/dispatch.py
"""

from __future__ import annotations

import hashlib
import json
import tempfile
import time
import timeit
from collections.abc import Callable
from functools import partial
from pathlib import Path

from ckmlir.dispatch import Dispatcher, FirstFit, Kernel, Library, Query, Registry, SizeBuckets, space
from ckmlir.ops import find_operator
from ckmlir.targets import get_target

REQUEST = {"m": 1024, "n": 1024, "k": 1024}


def each(function: Callable[[], object], number: int) -> float:
    """Microseconds of a call, the least of several measurements."""
    return min(timeit.repeat(function, number=number, repeat=3, timer=time.process_time)) / number * 1e6


def manifest_of(kernels: list[Kernel], path: Path) -> Path:
    """A library of these kernels without their code."""
    left = {"symbol": "", "offset": 0, "size": 0, "sha256": "0" * 64, "resources": {}, "checks": {}}
    rows = [{"kernel": kernel.to_dict(), **left} for kernel in kernels]
    text = json.dumps({"toolchain": {}, "kernels": rows}, separators=(",", ":")).encode()
    digest = hashlib.sha256(text).hexdigest()
    line = {"ckmlir library": 1, "manifest": len(text), "content": 0, "sha256": digest}
    path.write_bytes(json.dumps(line).encode() + b"\n" + text)
    return path


def main() -> None:
    gemm, gfx942 = find_operator("gemm"), get_target("gfx942")
    start = time.process_time()
    found = space(gemm, REQUEST, gfx942).expand()
    seconds = time.process_time() - start
    print(f"{found.combinations} combinations validated in {seconds:.2f} s, {len(found.kernels)} kernels")
    start = time.process_time()
    registry = Registry(found.kernels[:10_000])
    print(f"a registry of {len(registry)} made in {time.process_time() - start:.2f} s")
    with tempfile.TemporaryDirectory() as directory:
        path = manifest_of(found.kernels[:10_000], Path(directory) / "many.ckl")
        print(f"a manifest of {len(Library.load(path))} loaded: {each(lambda: Library.load(path), 1) / 1e3:.0f} ms")
    name = found.kernels[5000].identifier
    print(f"a kernel by its identifier: {each(lambda: registry.get(name), 10_000):.2f} µs")
    problem = gemm.problem(**REQUEST)
    print(f"all that compute a problem: {each(lambda: registry.fitting(gemm, problem, gfx942), 1) / 1e3:.0f} ms")
    first = each(lambda: next(iter(registry.search(gemm, problem, gfx942))), 100)
    print(f"the first that computes a problem: {first:.0f} µs")
    other = gemm.problem(**REQUEST, dtype="bf16")
    print(f"none that computes it: {each(lambda: registry.fitting(gemm, other, gfx942), 100):.0f} µs")
    for policy in (FirstFit(), SizeBuckets("m")):
        dispatcher = Dispatcher(registry, gfx942, policy)
        query = Query(gemm, problem, gfx942, REQUEST)
        dispatcher.choose(query)
        print(f"a selection that is new, by {policy.name}: {each(partial(dispatcher.choose, query), 30):.0f} µs")
    again = each(lambda: dispatcher.select("gemm", m=1024, n=1024, k=1024), 10_000)
    print(f"a selection that was made before: {again:.2f} µs")


if __name__ == "__main__":
    main()
