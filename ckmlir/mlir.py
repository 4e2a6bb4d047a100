"""The only door to the MLIR Python bindings; no other module of ckmlir imports them.

The genuine `mlir` package is used when it is importable and complete, else the same upstream bindings inside the pinned
`flydsl` wheel, with a stand-in for the one module that the wheel lacks. `CKMLIR_BINDINGS=mlir|flydsl` forces a choice.

    from ckmlir.mlir import ir, arith, rocdl, make_context

| name | what it is |
|---|---|
| `BINDINGS` | "mlir" or "flydsl": which package was taken |
| `ir`, `passmanager`, `PassManager` | the bindings' core |
| `ext` | `mlir.dialects.ext`, Python-defined dialects |
| `arith`, `math`, `scf`, … (`DIALECTS`) | the dialects' Python modules, imported when first asked for |
| `make_context()`, `shared_context()` | contexts with threading off and the ck dialect loaded |
| `register_dialect_loader(loader)` | how a Python-defined dialect gets into every context |
"""

import importlib
import importlib.util
import os
import sys
import threading
from collections.abc import Callable
from types import ModuleType
from typing import TYPE_CHECKING, Any

from ckmlir import _irdl

if TYPE_CHECKING:
    from flydsl._mlir import ir, passmanager
    from flydsl._mlir.dialects import (
        arith,
        builtin,
        cf,
        ext,
        func,
        gpu,
        llvm,
        math,
        memref,
        rocdl,
        scf,
        vector,
    )
    from flydsl._mlir.passmanager import PassManager

DIALECTS = ("arith", "builtin", "cf", "func", "gpu", "llvm", "math", "memref", "rocdl", "scf", "vector")
PACKAGES = {"mlir": "mlir", "flydsl": "flydsl._mlir"}
PYTHON_DIALECT = "ck"

__all__ = [
    "BINDINGS",
    "DIALECTS",
    "PassManager",
    "arith",
    "builtin",
    "cf",
    "ext",
    "func",
    "gpu",
    "ir",
    "llvm",
    "make_context",
    "math",
    "memref",
    "passmanager",
    "register_dialect_loader",
    "rocdl",
    "scf",
    "shared_context",
    "vector",
]

DialectLoader = Callable[[Any], None]


class _Deferred(ModuleType):
    """A package whose own module runs when something of it is asked for, not when a package inside is imported."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name != "__version__":  # asked for by import and inspection
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        object.__setattr__(self, "__class__", ModuleType)
        assert self.__spec__ is not None and self.__spec__.loader is not None
        self.__spec__.loader.exec_module(self)
        return getattr(self, name)


def _defer_wheel(package: str) -> None:
    """Have the wheel's package around the bindings run late: flydsl's imports PyTorch, which takes seconds."""
    wheel, _, inside = package.partition(".")
    spec = importlib.util.find_spec(wheel) if inside and wheel not in sys.modules else None
    if spec is not None and spec.loader is not None:
        module = sys.modules[wheel] = importlib.util.module_from_spec(spec)
        module.__class__ = _Deferred


def _is_complete(package: str) -> bool:
    """Whether `package` has the modules that ckmlir needs, judged without importing the big ones."""
    needed = ("ir", "passmanager", "dialects.ext", "dialects.rocdl", "dialects.gpu", "dialects.llvm")
    try:
        return all(importlib.util.find_spec(f"{package}.{module}") is not None for module in needed)
    except ModuleNotFoundError:
        return False


def _choose_bindings() -> str:
    forced = os.environ.get("CKMLIR_BINDINGS")
    if forced is not None and forced not in PACKAGES:
        raise ImportError(f"CKMLIR_BINDINGS={forced}: there is no such choice; it is one of {', '.join(PACKAGES)}")
    for name in [forced] if forced else PACKAGES:
        _defer_wheel(PACKAGES[name])
        if _is_complete(PACKAGES[name]):
            return name
    raise ImportError(
        f"no MLIR Python bindings found (looked for {', '.join([PACKAGES[forced]] if forced else PACKAGES.values())}); "
        "`pip install flydsl==0.4.2` provides them"
    )


BINDINGS = _choose_bindings()
_package = PACKAGES[BINDINGS]

if not TYPE_CHECKING:
    ir = importlib.import_module(f"{_package}.ir")
    passmanager = importlib.import_module(f"{_package}.passmanager")
    PassManager = passmanager.PassManager
    _irdl.install(_package)
    ext = importlib.import_module(f"{_package}.dialects.ext")

# The bindings look for a Python module of a dialect's name each time they meet one of its types, and a failing import
# is not remembered; an empty module makes verification and rewriting 8 to 20 times faster.
sys.modules.setdefault(f"{_package}.dialects.{PYTHON_DIALECT}", ModuleType(f"{_package}.dialects.{PYTHON_DIALECT}"))


def __getattr__(name: str) -> Any:
    """The Python module of an upstream dialect, imported when first asked for."""
    if name in DIALECTS:
        module = importlib.import_module(f"{_package}.dialects.{name}")
        globals()[name] = module
        return module
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


_loaders: list[DialectLoader] = []
_thread = threading.local()


def register_dialect_loader(loader: DialectLoader) -> None:
    """Have `loader(context)` called, with `context` entered, for every context made from now on.

    A package of a Python-defined dialect calls this once, at the end of its module `loader`. Registering the same
    loader again changes nothing.
    """
    if loader not in _loaders:
        _loaders.append(loader)


def make_context() -> "ir.Context":
    """A new context: every upstream dialect registered, the ck dialect loaded, threading off, unknown dialects refused.

    Threading has to be off before anything is parsed: Python verifiers would deadlock against the pool's threads. So a
    context and all IR in it belong to one thread at a time; different threads use different contexts.
    Costs about 10 ms; `shared_context` is free after the first call.
    """
    importlib.import_module("ckmlir.dialect.loader")  # registers its loader; deferred, since it imports this module
    context = ir.Context()
    context.enable_multithreading(False)
    context.allow_unregistered_dialects = False
    with context:
        for loader in _loaders:
            loader(context)
    return context


def shared_context() -> "ir.Context":
    """The calling thread's own long-lived context, made on first use. Types and attributes stay cached in it."""
    context = getattr(_thread, "context", None)
    if context is None:
        context = _thread.context = make_context()
    return context
