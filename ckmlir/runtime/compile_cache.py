"""Kernels that were compiled before: of libraries, in this process, and in files (`ckmlir.runtime.kernel_files`).

Whoever has a library needs no files; what reads them is imported when they are looked for.
"""

from __future__ import annotations

import contextlib
import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ckmlir.targets import Target

if TYPE_CHECKING:
    from ckmlir.compiled_kernel import CompiledKernel
    from ckmlir.ops.operator import Operator

KEPT_IN_MEMORY = 256

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


def compile_cached(operator: Operator[Any, Any], spec: Any, target: Target) -> CompiledKernel:
    """The kernel of a specification: from memory, else from its file, else compiled, and then kept in both.

    A kernel from a file has no timings but "cache", the seconds that reading took. Raises what
    `ckmlir.compiler.compile_kernel` raises, and CkmlirError for settings that make no sense.
    """
    others = _of_others(operator, spec, target)
    if others is not None:
        return others
    from ckmlir.files import keeps_files
    from ckmlir.runtime.kernel_files import kept_or_compiled

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
            known = kept_or_compiled(operator, spec, target)
            remember(operator, spec, target, known)
    return known


def lookup(operator: Operator[Any, Any], spec: Any, target: Target) -> CompiledKernel | None:
    """The kernel of a specification if it is in memory or in a file; None else, and where nothing is kept."""
    others = _of_others(operator, spec, target)
    if others is not None:
        return others
    from ckmlir.files import keeps_files
    from ckmlir.runtime.kernel_files import kept

    if not keeps_files():
        return None
    known, _ = _recall((operator.name, spec, target.name))
    if known is None:
        known = kept(operator, spec, target)
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


def clear() -> int:
    """Empty the memory and remove all files; how many kernels these were. Raises OSError."""
    from ckmlir.runtime import kernel_files

    forget()
    return kernel_files.remove()
