"""Code objects for tests, made from OpenCL C by clang 22 and its linker: kernels of another compiler."""

from __future__ import annotations

import subprocess
from functools import cache
from pathlib import Path

import installed_tools
import pytest

from ckmlir.codeobject import CodeObject

SOURCES = Path(__file__).parent / "opencl"
CLANG, _WHY_NOT = installed_tools.clang_with_linker()
needs_clang = pytest.mark.skipif(CLANG is None, reason=f"{_WHY_NOT}: no other compiler's code is run")


@cache
def compiled(name: str, target: str, level: int, options: tuple[str, ...] = ()) -> CodeObject:
    """The code object of opencl/<name>.cl at an optimisation level."""
    command = [
        str(CLANG), "-x", "cl", "-cl-std=CL2.0", "--target=amdgcn-amd-amdhsa", f"-mcpu={target}", "-nogpulib",
        f"-O{level}", "-g", *options, str(SOURCES / f"{name}.cl"), "-o", "/dev/stdout",
    ]  # fmt: skip
    return CodeObject.parse(subprocess.run(command, check=True, capture_output=True).stdout)
