"""LLVM's tools that happen to be installed, for tests that compare with them.

What `PATH` has first is often a distribution's default, which may be ten versions old and know none of these chips. So
every candidate is asked for its version, and a test that finds none says which ones there were.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
from functools import cache
from pathlib import Path

import pytest

LEAST = 22
"""Tables and texts here follow LLVM 22; earlier versions lack instructions of gfx950, or print others otherwise."""


@cache
def _version(path: str) -> int:
    """The major version that a tool of LLVM states; 0 where it states none."""
    try:
        said = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return 0
    found = re.search(r"(?:LLVM version|clang version|LLD) (\d+)", said.stdout)
    return int(found[1]) if found else 0


def _candidates(name: str) -> list[str]:
    """All of that name in PATH, plain or with a version behind it."""
    found = []
    for directory in filter(None, os.environ.get("PATH", "").split(os.pathsep)):
        paths = [Path(directory, name), *Path(directory).glob(f"{name}-*")]
        found += [str(path) for path in paths if re.fullmatch(rf"{name}(-\d+)?", path.name) and shutil.which(path)]
    return found


def tool(name: str) -> tuple[str | None, str]:
    """The path of a tool that is new enough, or None and the reason."""
    candidates = _candidates(name)
    for path in candidates:
        if _version(path) >= LEAST:
            return path, ""
    seen = ", ".join(f"{path} is of version {_version(path) or 'unknown'}" for path in dict.fromkeys(candidates))
    return None, seen or f"{name} is not installed"


def path_of(name: str) -> str:
    """Of a tool that is there, for tests that `needs` lets run."""
    path, reason = tool(name)
    assert path is not None, reason
    return path


def needs(name: str, without: str) -> pytest.MarkDecorator:
    """Marks tests that compare with a tool; `without` says what is then not tested."""
    path, reason = tool(name)
    return pytest.mark.skipif(path is None, reason=f"{reason}; LLVM {LEAST} is needed: {without}")


def clang_with_linker() -> tuple[str | None, str]:
    """A clang that can link for AMDGPU: it takes an `ld.lld` from beside itself or from PATH."""
    path, reason = tool("clang")
    if path is None:
        return None, reason
    command = [path, "--target=amdgcn-amd-amdhsa", "-print-prog-name=ld.lld"]
    linker = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False).stdout.strip()
    found = shutil.which(linker)
    if found is None or _version(found) < LEAST:
        state = f"{found} is of version {_version(found) or 'unknown'}" if found else "there is no ld.lld"
        return None, f"{path} cannot link: {state}"
    return path, ""


def lld_command() -> tuple[str, ...]:
    """An `ld.lld` that lays files out as LLVM 22 does: of PATH, or of the package `ziglang`. Skips the test without."""
    path, reason = tool("ld.lld")
    if path is not None:
        return (path,)
    package = importlib.util.find_spec("ziglang")
    for directory in (package.submodule_search_locations or []) if package else []:
        zig = Path(directory, "zig")
        said = subprocess.run([zig, "ld.lld", "--version"], capture_output=True, text=True, timeout=60, check=False)
        found = re.search(r"LLD (\d+)", said.stdout)
        if found and int(found[1]) >= LEAST:
            return (str(zig), "ld.lld")
    pytest.skip(f"{reason}; LLD {LEAST} is needed: nothing is compared with lld's output")
