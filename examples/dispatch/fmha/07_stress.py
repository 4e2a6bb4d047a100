"""Every schedule and block that attention has for a problem; some are built into a library, and all of these run.

    python examples/dispatch/fmha/07_stress.py
"""

import tempfile
from pathlib import Path

from shown import run

from ckmlir.dispatch import Dispatcher, Library, Registry, space
from ckmlir.dispatch.building import build
from ckmlir.ops import find_operator
from ckmlir.targets import get_target


def main() -> None:
    fmha, gfx942 = find_operator("fmha_fwd"), get_target("gfx942")
    found = space(fmha, {"h": 1, "sq": 70, "sk": 64, "d": 32}, gfx942).expand()
    print(found)
    with tempfile.TemporaryDirectory() as directory:
        build(found.kernels[::40], Path(directory) / "attention.ckl")
        with Library.load(Path(directory) / "attention.ckl").attached() as library:
            for kernel in library.registry():
                dispatcher = Dispatcher(Registry([kernel]), gfx942, strict=True)
                run(dispatcher.select("fmha_fwd", h=1, sq=70, sk=64, d=32))
            print(len(library), "kernels are right")


if __name__ == "__main__":
    main()
