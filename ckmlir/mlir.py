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
| `gpu_objects` | the types and attributes of the gpu dialect, without its operations' classes |
| `operations_without_classes()` | how a Python-defined dialect is loaded quickly |
| `make_context(*loaders)` | a context with threading off; `ckmlir.dialect.context` makes those with the ck dialect |
"""

import functools
import importlib
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import TYPE_CHECKING, Any

from ckmlir import _irdl
from ckmlir.bindings import PACKAGES, BindingsError, choose
from ckmlir.interrupts import interrupts_wait

if TYPE_CHECKING:
    from flydsl._mlir import ir, passmanager
    from flydsl._mlir._mlir_libs import _mlirDialectsGPU as gpu_objects
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
PYTHON_DIALECT = "ck"

__all__ = [
    "BINDINGS",
    "DIALECTS",
    "BindingsError",
    "PassManager",
    "arith",
    "builtin",
    "cf",
    "exchange_backend_option",
    "ext",
    "func",
    "gpu",
    "gpu_objects",
    "ir",
    "llvm",
    "make_context",
    "math",
    "memref",
    "operations_without_classes",
    "passmanager",
    "rocdl",
    "scf",
    "set_backend_option",
    "vector",
]

DialectLoader = Callable[[Any], None]


BINDINGS = choose()
_package = PACKAGES[BINDINGS]

if not TYPE_CHECKING:
    with interrupts_wait():
        ir = importlib.import_module(f"{_package}.ir")
        passmanager = importlib.import_module(f"{_package}.passmanager")
        PassManager = passmanager.PassManager
        _irdl.install(_package)
        ext = importlib.import_module(f"{_package}.dialects.ext")

# The bindings look for a Python module of a dialect's name each time they meet one of its types, and a failing import
# is not remembered; an empty module makes verification and rewriting 8 to 20 times faster.
sys.modules.setdefault(f"{_package}.dialects.{PYTHON_DIALECT}", ModuleType(f"{_package}.dialects.{PYTHON_DIALECT}"))


def _skip_classes(package: str) -> None:
    """Let the bindings find an empty module where they would import an upstream dialect's Python module by themselves.

    They do when they first meet one of its operations or types, once; it takes 70 ms to make a class for each operation
    of llvm and rocdl, and every walk longer. Of those classes only a module's is used here (`builtin`), which has a
    body; who wants others imports the dialect's module, which works as before.
    """
    look = getattr(importlib.import_module(f"{package}._mlir_libs._mlir").globals, "_check_dialect_module_loaded", None)
    for name in DIALECTS:
        module = f"{package}.dialects.{name}"
        if look is not None and name != "builtin" and module not in sys.modules:
            sys.modules[module] = ModuleType(module)
            try:
                look(name)
            finally:
                del sys.modules[module]


with interrupts_wait():
    _skip_classes(_package)


def __getattr__(name: str) -> Any:
    """The Python module of an upstream dialect, imported when first asked for."""
    with interrupts_wait():
        if name in DIALECTS:
            module = importlib.import_module(f"{_package}.dialects.{name}")
            globals()[name] = module
            return module
        if name == "gpu_objects":
            return importlib.import_module(f"{_package}._mlir_libs._mlirDialectsGPU")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


@contextmanager
def operations_without_classes() -> Iterator[None]:
    """Inside, dialects that Python defines are loaded without making their classes known for their operations.

    The bindings would make an object of such a class each time they list an operation or say what a value comes from,
    for four times the price of the class that all other operations have. Verifiers are attached all the same.
    """
    module: Any = ext
    registry = module._cext
    try:
        module._cext = _WithoutClasses(registry)
        yield
    finally:
        module._cext = registry


class _WithoutClasses:
    """The bindings' registry, as their module of dialects in Python sees it, that takes no classes of operations. It
    stands in that module alone: another thread may import an upstream dialect meanwhile, whose classes are kept.
    """

    def __init__(self, registry: Any) -> None:
        self._registry = registry

    def __getattr__(self, name: str) -> Any:
        return getattr(self._registry, name)

    @staticmethod
    def register_operation(*_: object, **__: object) -> Callable[[Any], Any]:
        return lambda one: one

    register_op_adaptor = register_operation


def make_context(*loaders: DialectLoader) -> "ir.Context":
    """A new context: every upstream dialect registered, threading off, unknown dialects refused.

    `loaders` load Python-defined dialects into it; each is called with the context, which is entered. Threading has to
    be off before anything is parsed: Python verifiers would deadlock against the pool's threads. So a context and all
    IR in it belong to one thread at a time; different threads use different contexts.
    """
    context = ir.Context()
    context.enable_multithreading(False)
    context.allow_unregistered_dialects = False
    with context:
        for loader in loaders:
            loader(context)
    return context


def exchange_backend_option(name: str, value: bool) -> bool | None:
    """Set one of LLVM's options, for this process and all that it compiles from now on; what it was before.

    None where nothing was set: these bindings have no way to, or their LLVM no such option. What it was is wrong for
    the few options that LLVM keeps in a variable of its own (`cl::location`).
    """
    try:
        return bool(_option_setter()(name, value))
    except (ImportError, AttributeError, RuntimeError, ValueError):
        return None


@functools.cache
def _option_setter() -> Callable[[str, bool], bool]:
    """What sets an option of LLVM's and gives what it was. Raises ImportError and AttributeError where nothing does."""
    options = importlib.import_module(f"{_package}._mlir_libs._mlirDialectsFly")
    setter: Callable[[str, bool], bool] = options.set_llvm_option_bool
    return setter


def set_backend_option(name: str, value: bool) -> bool:
    """As `exchange_backend_option`; whether anything was set."""
    return exchange_backend_option(name, value) is not None
