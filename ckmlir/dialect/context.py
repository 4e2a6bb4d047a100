"""MLIR contexts that know the ck dialect."""

import importlib
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from weakref import WeakKeyDictionary

from ckmlir.dialect.dialect import Ck
from ckmlir.mlir import ir, make_context

OPERATION_MODULES = (
    "types", "views", "digits", "memory", "compute", "regions", "loop", "control", "promise", "anew", "synchronization",
    "fragment", "fragment_lds", "fragment_compute", "lds_indexed", "packed", "repack", "dequantize", "rescale", "cut",
)  # fmt: skip

_thread = threading.local()
_loading = threading.Lock()
"""Loading a Python-defined dialect goes through state of its classes."""
_owners: WeakKeyDictionary[ir.Context, threading.RLock] = WeakKeyDictionary()


def load(context: ir.Context) -> None:
    """Load the dialect into a context that is entered."""
    for module in OPERATION_MODULES:
        importlib.import_module(f"ckmlir.dialect.{module}")
    if not context.is_dialect_loaded("ck"):
        Ck.load()


def ck_context() -> ir.Context:
    """A new context with the ck dialect. Costs about 10 ms; `shared_context` is free after the first call."""
    with _loading:
        return make_context(load)


def shared_context() -> ir.Context:
    """The calling thread's own long-lived context, made on first use. Types and attributes stay cached in it.

    It ends with the thread and the last module in it. A module that another thread made may be compiled, but by one
    thread at a time: `exclusive`.
    """
    context: ir.Context | None = getattr(_thread, "context", None)
    if context is None:
        context = _thread.context = ck_context()
    return context


@contextmanager
def exclusive(context: ir.Context) -> Iterator[None]:
    """Enter a context, alone: other threads wait with what they want to do in it.

    Whatever changes IR or collects diagnostics stands inside, so that a module may be made by one thread and compiled
    by another.
    """
    with _loading:
        owner = _owners.setdefault(context, threading.RLock())
    with owner, context:
        yield
