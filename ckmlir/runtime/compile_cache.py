"""Kernels that were compiled before, in this process and in files.

A file is named by two digests of everything that its code depends on: the operator and its specification (the schedule
included), the chip, and the sources of this package; and behind a dash the versions of Python's MLIR bindings and of
the linker. It holds a line of JSON and the code object, with a digest of both: a damaged file counts as none.

Where there are no bindings nothing can be compiled, and a kernel that any of them made is right.

Files are written whole or not at all, under a name of their own first, so that processes may share the directory and
die at any moment. What was not used for longest goes first when the files exceed the limit.

| variable | meaning |
|---|---|
| `CKMLIR_CACHE` | `off` or `0`: every kernel is compiled anew, nothing is kept |
| `CKMLIR_CACHE_MEGABYTES` | the limit, default 512 |
| `XDG_CACHE_HOME` | the directory is `$XDG_CACHE_HOME/ckmlir/kernels`, default `~/.cache/ckmlir/kernels` |
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import os
import threading
import time
import warnings
from collections import OrderedDict
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from ckmlir.errors import CkmlirError, from_json
from ckmlir.files import (
    CACHE_SWITCH,
    cache_directory,
    keeps_files,
    python_files,
    read_with_digest,
    write_with_digest,
)
from ckmlir.targets import Target

if TYPE_CHECKING:
    from ckmlir.compiler import CompiledKernel
    from ckmlir.ops.operator import Operator

LIMIT = "CKMLIR_CACHE_MEGABYTES"
SUFFIX = ".kernel"
DEFAULT_MEGABYTES = 512
KEPT_IN_MEMORY = 256
ABANDONED_SECONDS = 3600
"""A file that is being written for longer than this belongs to a process that died."""

WITHOUT_INFLUENCE = ("codeobject", "runtime", "sim", "tools")
"""Packages here that have no part in a kernel's code; the sources of all others are in the key."""

_memory: OrderedDict[tuple[str, Any, str], CompiledKernel] = OrderedDict()
_lock = threading.RLock()
_turns: dict[tuple[str, Any, str], threading.Lock] = {}
"""Who compiles a kernel that is not in memory holds its lock."""
_found = threading.Lock()
"""Stands for the turn at a kernel that is there; nobody takes it."""


Source = Callable[["Operator[Any, Any]", Any, Target], "CompiledKernel | None"]
"""Somebody else who may have the kernel of a specification."""
_sources: list[Source] = []


def consult(source: Source) -> None:
    """Ask somebody for kernels from now on, before memory, files and the compiler; the last one that came first."""
    with _lock:
        _sources.insert(0, source)


def consult_no_more(source: Source) -> None:
    """Do not ask any more; nothing where nobody did."""
    with _lock, contextlib.suppress(ValueError):
        _sources.remove(source)


def _of_others(operator: Operator[Any, Any], spec: Any, target: Target) -> CompiledKernel | None:
    for source in tuple(_sources):
        found = source(operator, spec, target)
        if found is not None:
            return found
    return None


class Entry(Struct, frozen=True):
    """A file of the cache: what its first line says, its bytes, and when it was last used (seconds since 1970)."""

    path: Path
    operator: str
    kernel: str
    target: str
    nbytes: int
    used: float


def compile_cached(operator: Operator[Any, Any], spec: Any, target: Target) -> CompiledKernel:
    """The kernel of a specification: from memory, else from its file, else compiled, and then kept in both.

    A kernel from a file has no timings but "cache", the seconds that reading took. Raises what
    `ckmlir.compiler.compile_kernel` raises, and CkmlirError for settings that make no sense.
    """
    others = _of_others(operator, spec, target)
    if others is not None:
        return others
    if not keeps_files():
        from ckmlir.compiler import compile_kernel

        return compile_kernel(operator, spec, target)
    key = (operator.name, spec, target.name)
    known, turn = _recall(key)
    if known is not None:
        return known
    with turn:  # threads that want one kernel compile it once; who wants another one does not wait
        known, _ = _recall(key)
        if known is None:
            known = _from_file_or_compiler(operator, spec, target)
            remember(operator, spec, target, known)
    return known


def lookup(operator: Operator[Any, Any], spec: Any, target: Target) -> CompiledKernel | None:
    """The kernel of a specification if it is in memory or in a file; None else, and where nothing is kept."""
    others = _of_others(operator, spec, target)
    if others is not None or not keeps_files():
        return others
    known, _ = _recall((operator.name, spec, target.name))
    if known is None:
        start = time.perf_counter()
        with contextlib.suppress(ImportError):  # no bindings: nothing could say which tools made a file
            known = _read(directory() / f"{key_of(operator, spec, target)}{SUFFIX}", start)
        if known is not None:
            remember(operator, spec, target, known)
    return known


def remember(operator: Operator[Any, Any], spec: Any, target: Target, kernel: CompiledKernel) -> None:
    """Keep a kernel in memory, which forgets what was not used for longest; files are not touched."""
    key = (operator.name, spec, target.name)
    with _lock:
        _memory[key] = kernel
        _memory.move_to_end(key)
        if len(_memory) > KEPT_IN_MEMORY:
            _memory.popitem(last=False)
        _turns.pop(key, None)


def _recall(key: tuple[str, Any, str]) -> tuple[CompiledKernel | None, threading.Lock]:
    """The kernel if it is in memory, and whose turn it is to compile it if it is not."""
    with _lock:
        known = _memory.get(key)
        if known is None:
            return None, _turns.setdefault(key, threading.Lock())
        _memory.move_to_end(key)
        return known, _found


def forget() -> None:
    """Empty the memory; files stay."""
    with _lock:
        _memory.clear()


def _from_file_or_compiler(operator: Operator[Any, Any], spec: Any, target: Target) -> CompiledKernel:
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
    ImportError where there are no bindings."""
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
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


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
    from ckmlir.compiler import CompiledKernel

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


def clear() -> int:
    """Remove all files, those that a process left unfinished too; how many kernels there were. Raises OSError."""
    forget()
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
