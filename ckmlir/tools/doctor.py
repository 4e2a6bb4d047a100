"""`ckmlir doctor`: what ckmlir needs, what is found, what is missing and how to get it.

Exit status 0: kernels can be compiled and run, on the simulator at least; 2: not even that.
"""

from __future__ import annotations

import argparse
import json
import platform
from collections.abc import Callable, Iterator

from msgspec import Struct

from ckmlir import __version__
from ckmlir.errors import CkmlirError, counted
from ckmlir.records import plain
from ckmlir.tools.output import BAD_REQUEST


class Finding(Struct, frozen=True):
    """One thing that was looked at.

    Attributes:
        needed: without it nothing runs; otherwise only GPUs are out of reach.
        detail: what was found, or what is wrong.
        remedy: how to get it, where it is missing.
    """

    name: str
    ok: bool
    needed: bool
    detail: str
    remedy: str = ""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout")


def execute(options: argparse.Namespace) -> int:
    findings = list(examine())
    usable = all(one.ok for one in findings if one.needed)
    gpu = all(one.ok for one in findings)
    if options.json:
        print(json.dumps({"usable": usable, "gpu": gpu, "findings": [plain(one) for one in findings]}))
    else:
        width = max(len(one.name) for one in findings)
        for one in findings:
            state = "found  " if one.ok else "MISSING" if one.needed else "absent "
            print(f"{state}  {one.name:<{width}}  {one.detail}")
            if one.remedy:
                print(f"{'':<{width + 9}}  -> {one.remedy}")
        where = "GPUs and the simulator" if gpu else "the simulator" if usable else "nothing"
        print(f"\nKernels run on {where}.")
    return 0 if usable else BAD_REQUEST


def examine() -> Iterator[Finding]:
    """Everything there is to look at, one after another; GPUs only as far as what they need is there."""
    yield Finding("ckmlir", True, True, f"{__version__}, Python {platform.python_version()} on {platform.machine()}")
    yield _checked("MLIR bindings", True, _bindings)
    yield _checked("simulator", True, _simulator)
    yield _checked("linker", True, _linker)
    yield _checked("cache", True, _cache)
    gpu = _checked("hip-python", False, _hip_python)
    yield gpu
    if gpu.ok:
        driver = _checked("GPUs", False, _gpus)
        yield driver
        if driver.ok:
            yield _checked("HIP", False, _hip_versions)


def _checked(name: str, needed: bool, look: Callable[[], str]) -> Finding:
    try:
        return Finding(name, True, needed, look())
    except (CkmlirError, ImportError) as error:
        detail, _, remedy = str(error).partition("; ")
        return Finding(name, False, needed, detail, remedy)


def _bindings() -> str:
    from ckmlir.compiler import toolchain

    return toolchain()["bindings"]


def _simulator() -> str:
    import llvmlite
    import numpy

    return f"llvmlite {llvmlite.__version__}, NumPy {numpy.__version__}"


def _linker() -> str:
    from ckmlir.lowering.linker import describe

    return describe()


def _cache() -> str:
    from ckmlir.files import CACHE_SWITCH, keeps_files
    from ckmlir.runtime import kernel_files

    entries = kernel_files.entries()
    state = "on" if keeps_files() else f"switched off by {CACHE_SWITCH}"
    return f"{state}, {counted(len(entries), 'kernel')} in {kernel_files.directory()}"


def _hip_python() -> str:
    from ckmlir.runtime.hip.binding import binding

    return binding().version


def _gpus() -> str:
    from ckmlir.runtime.hip.discovery import find_gpus
    from ckmlir.targets import TARGETS

    described = []
    for gpu in find_gpus():
        properties = gpu.properties
        served = "" if properties.target in TARGETS else f", not served: ckmlir has {', '.join(TARGETS)}"
        described.append(
            f"{properties.name} {properties.target_id}, {properties.compute_units} compute units, "
            f"{properties.memory_bytes >> 30} GiB{served}"
        )
    return " | ".join(described)


def _hip_versions() -> str:
    from ckmlir.runtime.hip.binding import binding, mapped_library
    from ckmlir.runtime.hip.discovery import versions

    found = ", ".join(f"{name} {version}" for name, version in versions(binding()).items())
    return f"{found or 'versions unknown'}, {mapped_library() or 'library not seen in this process'}"
