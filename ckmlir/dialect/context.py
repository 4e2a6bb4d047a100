"""MLIR contexts that know the ck dialect."""

import importlib
import threading

from ckmlir.dialect.dialect import Ck
from ckmlir.mlir import ir, make_context

OPERATION_MODULES = (
    "types", "views", "memory", "compute", "regions", "loop", "synchronization", "fragment",
    "fragment_lds", "fragment_compute",
)  # fmt: skip

_thread = threading.local()


def load(context: ir.Context) -> None:
    """Load the dialect into a context that is entered."""
    for module in OPERATION_MODULES:
        importlib.import_module(f"ckmlir.dialect.{module}")
    if not context.is_dialect_loaded("ck"):
        Ck.load()


def ck_context() -> ir.Context:
    """A new context with the ck dialect. Costs about 10 ms; `shared_context` is free after the first call."""
    return make_context(load)


def shared_context() -> ir.Context:
    """The calling thread's own long-lived context, made on first use. Types and attributes stay cached in it."""
    context: ir.Context | None = getattr(_thread, "context", None)
    if context is None:
        context = _thread.context = ck_context()
    return context
