"""Kernels that were compiled before, in this process and in files.

A file is named by the SHA-256 of everything that its code depends on: the operator and its specification (the schedule
included), the chip, the sources of this package, the versions of Python's MLIR bindings and of the linker. It holds a
line of JSON and the code object, with the code object's own digest: a damaged file counts as none.

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
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ckmlir.errors import CkmlirError
from ckmlir.files import cache_directory, write_atomically
from ckmlir.targets import Target

if TYPE_CHECKING:
    from ckmlir.compiler import CompiledKernel
    from ckmlir.ops.operator import Operator

SWITCH, LIMIT = "CKMLIR_CACHE", "CKMLIR_CACHE_MEGABYTES"
SUFFIX = ".kernel"
DEFAULT_MEGABYTES = 512
KEPT_IN_MEMORY = 256
ABANDONED_SECONDS = 3600
"""A file that is being written for longer than this belongs to a process that died."""

WITHOUT_INFLUENCE = ("codeobject", "runtime", "sim", "tools")
"""Packages here that have no part in a kernel's code; the sources of all others are in the key."""

_memory: OrderedDict[tuple[str, Any, str], CompiledKernel] = OrderedDict()
_lock = threading.RLock()


@dataclass(frozen=True)
class Entry:
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
    if not is_on():
        from ckmlir.compiler import compile_kernel

        return compile_kernel(operator, spec, target)
    key = (operator.name, spec, target.name)
    with _lock:  # one compilation at a time: it would only compete with itself for Python
        known = _memory.get(key)
        if known is None:
            known = _from_file_or_compiler(operator, spec, target)
            _memory[key] = known
            if len(_memory) > KEPT_IN_MEMORY:
                _memory.popitem(last=False)
        _memory.move_to_end(key)
        return known


def forget() -> None:
    """Empty the memory; files stay."""
    with _lock:
        _memory.clear()


def _from_file_or_compiler(operator: Operator[Any, Any], spec: Any, target: Target) -> CompiledKernel:
    from ckmlir.compiler import compile_kernel

    limit = limit_bytes()
    start = time.perf_counter()
    path = directory() / f"{key_of(operator, spec, target)}{SUFFIX}"
    found = _read(path, start)
    if found is not None:
        return found
    compiled = compile_kernel(operator, spec, target)
    _write(path, operator.name, compiled, limit)
    return compiled


def is_on() -> bool:
    """Whether anything is kept. Raises CkmlirError for a value of the switch that means nothing."""
    value = os.environ.get(SWITCH, "on").lower()
    if value not in ("on", "1", "off", "0", ""):
        raise CkmlirError(f"{SWITCH}={value}: expected on or off")
    return value not in ("off", "0")


def limit_bytes() -> int:
    """How many bytes the files may take. Raises CkmlirError for a value that is no number."""
    value = os.environ.get(LIMIT) or str(DEFAULT_MEGABYTES)
    if not (value.isascii() and value.isdigit()):
        raise CkmlirError(f"{LIMIT}={value}: expected a whole number of megabytes")
    return int(value) << 20


def directory() -> Path:
    """Where the files are."""
    return cache_directory() / "kernels"


def key_of(operator: Operator[Any, Any], spec: Any, target: Target) -> str:
    """The name of a specification's file: a digest of everything that the code depends on."""
    from ckmlir.compiler import toolchain

    parts = {
        "operator": operator.name,
        "spec": spec.to_dict(),
        "schedule": getattr(spec, "schedule_text", ""),
        "target": target.name,
        "sources": sources_digest(),
        "toolchain": toolchain(),
    }
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


@functools.cache
def sources_digest() -> str:
    """Of this package's own files that decide the code: whoever works on them never gets yesterday's kernel."""
    root, digest = Path(__file__).parent.parent, hashlib.sha256()
    for file in sorted(root.rglob("*.py")):
        name = file.relative_to(root)
        if name.parts[0] not in WITHOUT_INFLUENCE:
            digest.update(f"{name}\0".encode())
            digest.update(file.read_bytes())
    return digest.hexdigest()


def _read(path: Path, start: float) -> CompiledKernel | None:
    from ckmlir.compiler import CompiledKernel

    try:
        header, content = _parse(path.read_bytes())
    except OSError:
        return None
    except ValueError:
        path.unlink(missing_ok=True)
        return None
    with contextlib.suppress(OSError):  # a directory that cannot be written to can still be read
        os.utime(path)
    seconds = time.perf_counter() - start
    return CompiledKernel(content, header["kernel"], header["target"], timings={"cache": seconds})


def _parse(data: bytes) -> tuple[dict[str, str], bytes]:
    """The first line and the code object of a file. Raises ValueError for anything that was not written here."""
    line, _, content = data.partition(b"\n")
    header = json.loads(line)
    if not isinstance(header, dict) or header.get("sha256") != hashlib.sha256(content).hexdigest():
        raise ValueError("damaged")
    return header, content


def _write(path: Path, operator: str, compiled: CompiledKernel, limit: int) -> None:
    header = {
        "operator": operator,
        "kernel": compiled.kernel_name,
        "target": compiled.target,
        "sha256": hashlib.sha256(compiled.hsaco).hexdigest(),
    }
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, json.dumps(header).encode() + b"\n" + compiled.hsaco)
        _shrink(limit)
    except OSError as error:
        warnings.warn(
            f"compiled kernels are not kept: {path.parent}: {error.strerror}; {SWITCH}=off stops trying", stacklevel=2
        )


def entries() -> list[Entry]:
    """The files of the cache, the least recently used first; damaged ones are left out."""
    found = []
    for path in directory().glob(f"*{SUFFIX}") if directory().is_dir() else ():
        try:
            status = path.stat()
            with path.open("rb") as file:
                header = json.loads(file.readline())
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
