"""Files of kernels that were compiled before.

A file is named by two digests of everything that its code depends on: the operator and its specification (the schedule
included), the chip, and the sources of this package; and behind a dash the versions of Python's MLIR bindings and of
the linker. It holds a line of JSON and the code object, with a digest of both: a damaged file counts as none.

Without bindings nothing can be compiled, and a kernel that any version of them made is right.

Files are written whole or not at all, under a name of their own first, so that processes may share the directory and
die at any moment. What was not used for longest goes first when the files exceed the limit.

| variable | meaning |
|---|---|
| `CKMLIR_CACHE` | `off` or `0`: every kernel is compiled anew, nothing is kept; `simulator`: nothing but its code |
| `CKMLIR_CACHE_MEGABYTES` | the limit, default 512 |
| `XDG_CACHE_HOME` | the directory is `$XDG_CACHE_HOME/ckmlir/kernels`, default `~/.cache/ckmlir/kernels` |
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import os
import time
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from ckmlir.digests import sha256
from ckmlir.errors import CkmlirError, from_json
from ckmlir.files import CACHE_SWITCH, cache_directory, python_files, read_with_digest, write_with_digest
from ckmlir.targets import Target

if TYPE_CHECKING:
    from ckmlir.compiled_kernel import CompiledKernel
    from ckmlir.ops.operator import Operator

LIMIT = "CKMLIR_CACHE_MEGABYTES"
SUFFIX = ".kernel"
DEFAULT_MEGABYTES = 512
ABANDONED_SECONDS = 3600
"""A file that is being written for longer than this belongs to a process that died."""

WITHOUT_INFLUENCE = ("codeobject", "runtime", "sim", "tools")
"""Packages here that have no part in a kernel's code; the sources of all others are in the key."""


class Entry(Struct, frozen=True):
    """A file of the cache: what its first line says, its bytes, and when it was last used (seconds since 1970)."""

    path: Path
    operator: str
    kernel: str
    target: str
    nbytes: int
    used: float


def kept(operator: Operator[Any, Any], spec: Any, target: Target) -> CompiledKernel | None:
    """The kernel of a specification from its file; None where there is none, or no bindings say which tools made it."""
    start = time.perf_counter()
    with contextlib.suppress(ImportError):
        return _read(directory() / f"{key_of(operator, spec, target)}{SUFFIX}", start)
    return None


def kept_or_compiled(operator: Operator[Any, Any], spec: Any, target: Target) -> CompiledKernel:
    """The kernel of a specification from its file, else compiled, and then kept. Raises what
    `ckmlir.compiler.compile_kernel` raises, and CkmlirError for settings that make no sense.
    """
    from ckmlir.compiler import compile_kernel

    limit = limit_bytes()
    start = time.perf_counter()
    try:
        path = directory() / f"{key_of(operator, spec, target)}{SUFFIX}"
    except ImportError:  # no bindings
        found = _of_any_tools(operator, spec, target, start)
        if found is not None:
            return found
        raise
    found = _read(path, start)
    if found is not None:
        return found
    compiled = compile_kernel(operator, spec, target)
    _write(path, operator.name, compiled, limit)
    return compiled


def limit_bytes() -> int:
    """How many bytes the files may take. Raises CkmlirError for a value that is not a number."""
    value = os.environ.get(LIMIT) or str(DEFAULT_MEGABYTES)
    if not (value.isascii() and value.isdigit()):
        raise CkmlirError(f"{LIMIT}={value}: expected a whole number of megabytes")
    return int(value) << 20


def directory() -> Path:
    """Where the files are."""
    return cache_directory() / "kernels"


def key_of(operator: Operator[Any, Any], spec: Any, target: Target) -> str:
    """The name of a specification's file: digests of what the code depends on, and of the tools that make it. Raises
    ImportError without bindings."""
    from ckmlir.compiler import toolchain

    return f"{_key_without_tools(operator, spec, target)}-{_digest(toolchain())[:16]}"


def _key_without_tools(operator: Operator[Any, Any], spec: Any, target: Target) -> str:
    return _digest({
        "operator": operator.name,
        "spec": spec.to_dict(),
        "schedule": getattr(spec, "schedule_text", ""),
        "target": target.name,
        "sources": sources_digest(),
    })  # fmt: skip


def _digest(parts: Mapping[str, object]) -> str:
    return sha256(json.dumps(parts, sort_keys=True).encode())


def _of_any_tools(operator: Operator[Any, Any], spec: Any, target: Target, start: float) -> CompiledKernel | None:
    """The kernel of a specification from the latest of its files, whichever tools made it."""
    files = directory().glob(f"{_key_without_tools(operator, spec, target)}-*{SUFFIX}") if directory().is_dir() else ()
    for path in sorted(files, key=lambda path: path.stat().st_mtime, reverse=True):
        found = _read(path, start)
        if found is not None:
            return found
    return None


@functools.cache
def sources_digest() -> str:
    """Of this package's own files that decide the code: whoever works on them never gets yesterday's kernel."""
    digest = hashlib.sha256()
    for name, entry in python_files(Path(__file__).parent.parent, WITHOUT_INFLUENCE):
        digest.update(f"{name}\0".encode())
        with open(entry.path, "rb", buffering=0) as file:
            digest.update(file.read())
    return digest.hexdigest()


def _read(path: Path, start: float) -> CompiledKernel | None:
    from ckmlir.compiled_kernel import CompiledKernel

    try:
        header, content = read_with_digest(path)
    except OSError:
        return None
    except ValueError:
        path.unlink(missing_ok=True)
        return None
    with contextlib.suppress(OSError):  # a directory that cannot be written to can still be read
        os.utime(path)
    seconds = time.perf_counter() - start
    return CompiledKernel(content, header["kernel"], header["target"], timings={"cache": seconds})


def _write(path: Path, operator: str, compiled: CompiledKernel, limit: int) -> None:
    header = {
        "operator": operator,
        "kernel": compiled.kernel_name,
        "target": compiled.target,
    }
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_with_digest(path, header, compiled.hsaco)
        _shrink(limit)
    except OSError as error:
        warnings.warn(
            f"compiled kernels are not kept: {path.parent}: {error.strerror}; {CACHE_SWITCH}=off stops trying",
            stacklevel=2,
        )


def entries() -> list[Entry]:
    """The files of the cache, the least recently used first; damaged ones are left out."""
    found = []
    for path in directory().glob(f"*{SUFFIX}") if directory().is_dir() else ():
        try:
            status = path.stat()
            with path.open("rb") as file:
                header = from_json(file.readline())
            found.append(
                Entry(path, header["operator"], header["kernel"], header["target"], status.st_size, status.st_mtime)
            )
        except (OSError, ValueError, KeyError, TypeError):
            continue
    return sorted(found, key=lambda entry: entry.used)


def remove() -> int:
    """Remove all files, those that a process left unfinished too; how many kernels there were. Raises OSError."""
    count = 0
    for path in list(directory().glob("*")) + list(directory().glob(".*")) if directory().is_dir() else []:
        if path.is_file():
            path.unlink(missing_ok=True)
            count += path.suffix == SUFFIX and not path.name.startswith(".")
    return count


def _shrink(limit: int) -> None:
    """Remove what was not used for longest until three quarters of the limit are left, and what writers left behind."""
    files: list[tuple[float, int, Path]] = []
    for path in directory().iterdir():
        with contextlib.suppress(FileNotFoundError):  # another process is as busy as this one
            status = path.stat()
            if path.name.startswith("."):
                if time.time() - status.st_mtime > ABANDONED_SECONDS:
                    path.unlink(missing_ok=True)
            elif path.suffix == SUFFIX:
                files.append((status.st_mtime, status.st_size, path))
    total = sum(size for _, size, _ in files)
    if total <= limit:
        return
    for _, size, path in sorted(files):
        if total <= limit * 3 // 4:
            break
        path.unlink(missing_ok=True)
        total -= size
