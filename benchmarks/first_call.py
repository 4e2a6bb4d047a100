"""What the first call of a library costs a cold process: milliseconds of processor time, by part.

    python benchmarks/first_call.py [LIBRARY] [--repeats 15]

Without a library one of eight kernels is built. Each repeat is a process of its own, which imports NumPy, loads the
library, chooses a kernel for a GEMM of 256, binds it and calls it on arrays of the host. The device only accounts: it
takes memory, modules and launches, and does nothing. Prints the least of every part, which need not add up to the least
whole, and one JSON line. Python's compiled modules have to be in place, so PYTHONDONTWRITEBYTECODE is taken away.
"""

from __future__ import annotations

import itertools
import json
import sys
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

PARTS = ("Python", "NumPy", "ckmlir", "manifest", "kernels", "choice", "bind", "call", "all")
SPACE = {
    "schema": 1, "op": "gemm", "arch": ["gfx942"], "keys": {"m": 100, "n": 72, "k": 130},
    "algorithm": {"block": [[64, 64, 64]], "schedule": ["v1", "v2", "compv3", "compv4"],
                  "epilogue": ["cshuffle", "direct"], "pad": ["mnk"]},
}  # fmt: skip


def main() -> None:
    import argparse  # here, since the first call does without
    import os
    import subprocess
    import tempfile
    from pathlib import Path

    parser = argparse.ArgumentParser(description="the first call of a library, from a cold process")
    parser.add_argument("library", nargs="?", type=Path)
    parser.add_argument("--repeats", type=int, default=15)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        library = arguments.library or built(Path(directory))
        words = [sys.executable, "-c", "import sys; from first_call import child; child(sys.argv[1])", str(library)]
        environment = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
        folders = [str(Path(__file__).parent), str(Path(__file__).parent.parent), environment.get("PYTHONPATH")]
        environment["OPENBLAS_NUM_THREADS"] = "1"  # or threads that wait for NumPy's products count as processor time
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, folders))
        rows = []
        for _ in range(arguments.repeats + 1):  # the first compiles modules
            ran = subprocess.run(words, capture_output=True, text=True, check=True, env=environment)
            rows.append(json.loads(ran.stdout))
    least = {part: min(values) for part, values in zip(PARTS, zip(*rows[1:], strict=True), strict=True)}
    for part, milliseconds in least.items():
        print(f"{part:>9} {milliseconds:6.1f} ms")
    print(json.dumps(least))


def built(directory: Path) -> Path:
    """A library of a few kernels."""
    from ckmlir.tools.cli import main as ckmlir

    space, library = directory / "space.json", directory / "few.ckl"
    space.write_text(json.dumps(SPACE))
    if ckmlir(["build", str(space), "-o", str(library), "--jobs", "1"]):
        raise SystemExit("the library could not be built")
    return library


def child(library: str) -> None:
    """The first call, and what its parts took."""
    times = [time.process_time()]

    def passed() -> None:
        times.append(time.process_time())

    import numpy as np

    passed()
    from ckmlir.dispatch import Dispatcher, Library
    from ckmlir.targets import get_target

    passed()
    loaded = Library.load(library)
    loaded.attach()
    passed()
    dispatcher = Dispatcher(loaded.registry(), get_target("gfx942"), strict=True)
    passed()
    chosen = dispatcher.select("gemm", m=256, n=256, k=256)
    passed()
    device = accounting()
    gemm = chosen.executable(device)
    passed()
    a, b, c = (np.zeros((256, 256), np.float16) for _ in range(3))
    gemm(a=a, b=b, c=c)
    passed()
    assert device.launches == 1
    parts = [times[0], *(after - before for before, after in itertools.pairwise(times)), times[-1]]
    print(json.dumps([1e3 * one for one in parts]))


def accounting() -> Any:
    """A device that takes everything and does nothing."""
    from types import SimpleNamespace

    from ckmlir.runtime.device import DeviceProperties

    class Accounting(SimpleNamespace):
        __hash__ = object.__hash__
        properties = DeviceProperties("nothing", "gfx942", 304, 64, 65536, 1024)
        launches = 0

        def allocate(self, size: int) -> SimpleNamespace:
            return SimpleNamespace(address=4096, size=size)

        def load(self, code_object: bytes) -> object:
            return object()

        def prepare(self, *launch: object) -> object:
            return self

        def __call__(self, memories: object, stream: object = None, size: object = None) -> None:
            self.launches += 1

        def sized(self, grid: object, scalars: object) -> None: ...

        def stream_of(self, foreign: object) -> None:
            return None

        def free(self, memory: object) -> None: ...
        def write(self, destination: object, source: object, stream: object = None) -> None: ...
        def read(self, destination: object, source: object, stream: object = None) -> None: ...
        def synchronize(self) -> None: ...
        def unload(self, module: object) -> None: ...

    return Accounting()


if __name__ == "__main__":
    main()
