"""From the backend's relocatable object to a loadable code object: in this process, or with some `ld.lld`.

`ckmlir.lowering.linking` links what this project's kernels are made of, to the bytes that LLVM's linker makes of it.
Other objects need that linker, and `CKMLIR_LINKER=lld` asks for it in all cases, as naming one in `CKMLIR_LLD` does;
`CKMLIR_LINKER=internal` is the default. AMDGPU objects are linked by LLVM's own linker only. It is looked for, in this
order, in

1. `$CKMLIR_LLD`, the path of an `ld.lld`;
2. ROCm: `$ROCM_PATH/llvm/bin/ld.lld`, else `/opt/rocm/llvm/bin/ld.lld`;
3. `PATH`: `ld.lld`, else the newest `ld.lld-NN`;
4. the Python package `ziglang`, whose `zig ld.lld` is the same linker.

One that is too old to know code objects of version 5 is passed over: a distribution's LLVM 14 is in nobody's way.
"""

from __future__ import annotations

import functools
import importlib.util
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from ckmlir.errors import CkmlirError

HOW_TO_GET_ONE = (
    "get one in any of three ways: `pip install ziglang` (or `ckmlir[lld]`); install LLVM's lld, such as "
    "`apt install lld`; or install ROCm. CKMLIR_LLD=/path/to/ld.lld names one in another place"
)
TIMEOUT_SECONDS = 60
LEAST_VERSION = 15
"""Of LLD: 14 calls code objects of version 5 an "unknown abi version"; 15, 16, 19 and 22 link them."""
SWITCH = "CKMLIR_LINKER"
INTERNAL, LLD = "internal", "lld"


class LinkerNotFound(CkmlirError):
    """There is no such linker, or no usable `ld.lld`; the text tells what there is and how to get one."""


class LinkError(CkmlirError):
    """The linker refused an object; the text is what it said."""


class Linker(Struct, frozen=True):
    """A command that behaves as `ld.lld`, and where it was found."""

    command: tuple[str, ...]
    origin: str

    def link(self, relocatable: bytes) -> bytes:
        """The shared object (`.hsaco`) made of one relocatable object.

        Raises LinkError when the linker fails, as for symbols that nothing defines, and LinkerNotFound when it cannot
        be run at all.
        """
        import subprocess  # here: most processes only ask which linker it is
        import tempfile

        with tempfile.TemporaryDirectory(prefix="ckmlir-link-") as directory:
            source, result = Path(directory, "kernel.o"), Path(directory, "kernel.hsaco")
            source.write_bytes(relocatable)
            command = [*self.command, "-shared", "--no-undefined", str(source), "-o", str(result)]
            try:
                done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_SECONDS)
            except OSError as error:
                raise LinkerNotFound(f"cannot run the linker {self} ({error.strerror}); {HOW_TO_GET_ONE}") from None
            except subprocess.TimeoutExpired:
                raise LinkError(f"the linker {self} did not finish within {TIMEOUT_SECONDS} s") from None
            if done.returncode != 0 or not result.exists():
                said = " ".join((done.stderr or done.stdout).replace(f"{source}:", "").split())
                raise LinkError(f"the linker {self} failed with status {done.returncode}: {said or 'it said nothing'}")
            return result.read_bytes()

    def too_old(self) -> str:
        """What it says of itself where that is an LLD of too low a version; empty for all others."""
        import subprocess

        try:
            said = subprocess.run([*self.command, "--version"], capture_output=True, text=True, timeout=TIMEOUT_SECONDS)
        except (OSError, subprocess.TimeoutExpired):
            return ""
        version = re.search(r"\bLLD (\d+)[\d.]*", said.stdout)
        return version[0] if version and int(version[1]) < LEAST_VERSION else ""

    def __str__(self) -> str:
        return f"{' '.join(self.command)} ({self.origin})"


def link(relocatable: bytes) -> bytes:
    """The shared object (`.hsaco`) made of one relocatable object by the linker that the environment asks for.

    Raises LinkError when a linker refuses it, and LinkerNotFound where it needs an `ld.lld` and finds none, or for an
    unknown linker.
    """
    if chosen() == LLD:
        return find_linker().link(relocatable)
    from ckmlir.lowering.linking.link import link_object
    from ckmlir.lowering.linking.relocatable import NotCovered

    try:
        return link_object(relocatable)
    except NotCovered as reason:
        try:
            linker = find_linker()
        except LinkerNotFound as absent:
            raise LinkerNotFound(f"this object needs an ld.lld because of {reason}: {absent}") from None
        return linker.link(relocatable)


def chosen() -> str:
    """INTERNAL or LLD, as the environment says. Raises LinkerNotFound for another word."""
    word = os.environ.get(SWITCH) or (LLD if os.environ.get("CKMLIR_LLD") else INTERNAL)
    if word not in (INTERNAL, LLD):
        raise LinkerNotFound(f"{SWITCH}={word}: there is no such linker; it is one of {INTERNAL}, {LLD}")
    return word


def describe() -> str:
    """The linker in use, for reports. Raises LinkerNotFound where that is an `ld.lld` and there is none."""
    return str(find_linker()) if chosen() == LLD else f"{INTERNAL} (in this process)"


def identity() -> str:
    """What names the linker in use, for caches: one that is replaced in its place shows by its size and time.

    Raises no error where there is none.
    """
    try:
        if chosen() == INTERNAL:  # part of this package's sources
            return INTERNAL
        linker = find_linker()
        status = os.stat(linker.command[0])
    except (LinkerNotFound, OSError):
        return "none"
    return f"{linker} {status.st_size} {status.st_mtime_ns}"


def find_linker() -> Linker:
    """The first linker of the list in the module's text. Raises LinkerNotFound.

    Looked for once per value of the environment variables that matter.
    """
    variables = ("CKMLIR_LLD", "ROCM_PATH", "PATH")
    return _find(*(os.environ.get(variable, "") for variable in variables))


@functools.cache
def _find(named: str, rocm: str, path: str) -> Linker:
    if named:
        if not _is_executable(Path(named)):
            raise LinkerNotFound(f"CKMLIR_LLD={named} is not an executable file; {HOW_TO_GET_ONE}")
        linker = Linker((named,), "CKMLIR_LLD")
        if version := linker.too_old():
            raise LinkerNotFound(f"CKMLIR_LLD={named} is {version}; {LEAST_VERSION} or later is needed")
        return linker
    passed_over = []
    for linker in _candidates(rocm, path):
        if not (version := linker.too_old()):
            return linker
        passed_over.append(f"{linker} is {version}, {LEAST_VERSION} or later is needed")
    reason = "".join(f" ({one})" for one in passed_over)
    raise LinkerNotFound(f"no ld.lld found to link code objects{reason}; {HOW_TO_GET_ONE}")


def _candidates(rocm: str, path: str) -> Iterator[Linker]:
    in_rocm = Path(rocm or "/opt/rocm", "llvm/bin/ld.lld")
    if _is_executable(in_rocm):
        yield Linker((str(in_rocm),), "ROCm")
    if plain := shutil.which("ld.lld", path=path):
        yield Linker((plain,), "PATH")
    numbered = {
        int(match[1]): file
        for directory in reversed(path.split(os.pathsep))
        for file in Path(directory or ".").glob("ld.lld-*")
        if (match := re.fullmatch(r"ld\.lld-(\d+)", file.name)) and _is_executable(file)
    }
    for version in sorted(numbered, reverse=True):
        yield Linker((str(numbered[version]),), "PATH")
    package = importlib.util.find_spec("ziglang")
    for directory in (package.submodule_search_locations or []) if package else []:
        zig = Path(directory, "zig")
        if _is_executable(zig):
            yield Linker((str(zig), "ld.lld"), "ziglang")


def _is_executable(file: Path) -> bool:
    return file.is_file() and os.access(file, os.X_OK)
