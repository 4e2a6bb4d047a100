"""Which package the MLIR Python bindings are taken from, found without importing them: that takes a while.

`ckmlir.mlir` is the door through which they come.
"""

import functools
import importlib.util
import os
import sys
from types import ModuleType
from typing import Any

from ckmlir.errors import CkmlirError

PACKAGES = {"mlir": "mlir", "flydsl": "flydsl._mlir"}
DISTRIBUTIONS = {"mlir": "mlir-python-bindings", "flydsl": "flydsl"}
"""The packages -> what they are called where they are installed from."""


class BindingsError(CkmlirError, ImportError):
    """The MLIR bindings are missing, or `CKMLIR_BINDINGS` names none."""


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


@functools.cache
def choose() -> str:
    """The name of the package, a key of PACKAGES. Raises BindingsError where there is none."""
    forced = os.environ.get("CKMLIR_BINDINGS")
    if forced is not None and forced not in PACKAGES:
        raise BindingsError(f"CKMLIR_BINDINGS={forced}: expected one of {', '.join(PACKAGES)}")
    for name in [forced] if forced else PACKAGES:
        _defer_wheel(PACKAGES[name])
        if _is_complete(PACKAGES[name]):
            return name
    raise BindingsError(
        f"no MLIR Python bindings found (looked for {', '.join([PACKAGES[forced]] if forced else PACKAGES.values())}); "
        "`pip install flydsl==0.4.2` provides them"
    )


def version(name: str) -> str:
    """The version of a package, a key of PACKAGES; "unknown" where the installation does not say it.

    It stands in the name of the folder beside the package that describes the installation (packaging.python.org,
    "Binary distribution format"). `importlib.metadata` reads the description, with a parser of letters that takes
    longer to import than a kernel to be found in the cache.
    """
    spec = importlib.util.find_spec(PACKAGES[name].partition(".")[0])
    distribution = DISTRIBUTIONS[name]
    if spec is not None and spec.submodule_search_locations:
        beside = os.path.dirname(next(iter(spec.submodule_search_locations)))
        start, end = distribution.replace("-", "_") + "-", ".dist-info"
        names = [one for one in os.listdir(beside) if one.startswith(start) and one.endswith(end)]
        if len(names) == 1:
            return names[0][len(start) : -len(end)]
    from importlib import metadata

    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return "unknown"
