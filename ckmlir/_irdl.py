"""Stand-in for upstream's `mlir.dialects.irdl`, for bindings that ship the IRDL dialect without its Python module.

Upstream's Python-defined dialects (`mlir.dialects.ext`) describe themselves as IRDL operations and then ask C++ to load
that description. Both halves exist in such bindings: the operations are built here in generic form, and the loader is
the exported C++ function `mlir::irdl::loadDialects` (mlir/Dialect/IRDL/IRDLLoading.h), called through ctypes.
"""

import ctypes
import enum
import importlib
import importlib.util
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

# `LogicalResult mlir::irdl::loadDialects(ModuleOp)` in the Itanium C++ ABI. ModuleOp is one pointer and is passed as
# such; LogicalResult is one bool.
LOAD_DIALECTS_SYMBOL = "_ZN4mlir4irdl12loadDialectsENS_8ModuleOpE"


class Variadicity(enum.IntEnum):
    """How many values one declared operand or result stands for; the names are those of `#irdl<variadicity ...>`."""

    single = 0
    optional = 1
    variadic = 2


class Definition:
    """An IRDL operation that defines something and holds its parts in `body`."""

    def __init__(self, operation: Any) -> None:
        self.operation = operation
        self.body = operation.regions[0].blocks.append()


class IrdlModule(ModuleType):
    """The part of `mlir.dialects.irdl` that `mlir.dialects.ext` uses, over the bindings in `package`."""

    def __init__(self, package: str) -> None:
        super().__init__(f"{package}.dialects.irdl", "Stand-in for the IRDL dialect's Python module.")
        self.Variadicity = Variadicity
        self._ir = importlib.import_module(f"{package}.ir")
        self._load = _find_loader(package)

    # Definitions: operations with a name and a body.
    def dialect(self, name: str) -> Definition:
        return self._define("dialect", name)

    def type_(self, name: str) -> Definition:
        return self._define("type", name)

    def attribute(self, name: str) -> Definition:
        return self._define("attribute", name)

    def operation_(self, name: str) -> Definition:
        return self._define("operation", name)

    # Parts of a definition.
    def operands_(self, args: Iterable[Any], names: Sequence[str], variadicity: Sequence[Variadicity]) -> Any:
        return self._create("operands", args, names=self._strings(names), variadicity=self._variadicity(variadicity))

    def results_(self, args: Iterable[Any], names: Sequence[str], variadicity: Sequence[Variadicity]) -> Any:
        return self._create("results", args, names=self._strings(names), variadicity=self._variadicity(variadicity))

    def parameters(self, args: Iterable[Any], names: Sequence[str]) -> Any:
        return self._create("parameters", args, names=self._strings(names))

    def attributes_(self, args: Iterable[Any], names: Sequence[str]) -> Any:
        return self._create("attributes", args, attributeValueNames=self._strings(names))

    def regions_(self, args: Iterable[Any], names: Sequence[str]) -> Any:
        return self._create("regions", args, names=self._strings(names))

    def region(self, entry_block_args: Sequence[Any] = ()) -> Any:
        constrained = self._ir.UnitAttr.get() if entry_block_args else None
        return self._create("region", entry_block_args, "!irdl.region", constrainedArguments=constrained)

    # Constraints: each is a value of type !irdl.attribute.
    def any(self) -> Any:
        return self._constraint("any")

    def is_(self, expected: Any) -> Any:
        return self._constraint("is", expected=expected)

    def any_of(self, args: Iterable[Any]) -> Any:
        return self._constraint("any_of", args)

    def base(self, base_ref: Sequence[str] | None = None, base_name: str | None = None) -> Any:
        return self._constraint(
            "base",
            base_ref=None if base_ref is None else self._ir.SymbolRefAttr.get(list(base_ref)),
            base_name=None if base_name is None else self._ir.StringAttr.get(base_name),
        )

    def parametric(self, base_type: Sequence[str], args: Iterable[Any]) -> Any:
        return self._constraint("parametric", args, base_type=self._ir.SymbolRefAttr.get(list(base_type)))

    def load_dialects(self, module: Any) -> None:
        """Register every dialect that `module` defines with the module's context.

        Raises RuntimeError if MLIR refuses the definitions (its diagnostics say why).
        """
        if not self._load(_capsule_pointer(module.operation._CAPIPtr)):
            raise RuntimeError("MLIR refused the dialect definitions in the module")

    def _define(self, kind: str, name: str) -> Definition:
        attributes = {"sym_name": self._ir.StringAttr.get(name)}
        return Definition(self._ir.Operation.create(f"irdl.{kind}", attributes=attributes, regions=1))

    def _constraint(self, kind: str, args: Iterable[Any] = (), **attributes: Any) -> Any:
        return self._create(kind, args, "!irdl.attribute", **attributes)

    def _create(self, kind: str, args: Iterable[Any], result: str | None = None, **attributes: Any) -> Any:
        """One IRDL operation without regions: its result when `result` names a type, else the operation."""
        operation = self._ir.Operation.create(
            f"irdl.{kind}",
            results=[self._ir.Type.parse(result)] if result else [],
            operands=list(args),
            attributes={name: value for name, value in attributes.items() if value is not None},
        )
        return operation.results[0] if result else operation

    def _strings(self, names: Sequence[str]) -> Any:
        return self._ir.ArrayAttr.get([self._ir.StringAttr.get(name) for name in names])

    def _variadicity(self, variadicity: Sequence[Variadicity]) -> Any:
        names = ", ".join(Variadicity(one).name for one in variadicity)
        return self._ir.Attribute.parse(f"#irdl<variadicity_array[ {names}]>")


def _find_loader(package: str) -> Callable[[int], bool]:
    """The C++ dialect loader of the bindings in `package`. Raises ImportError where no library exports it."""
    directory = Path(str(importlib.import_module(f"{package}._mlir_libs").__file__)).parent
    for library in sorted(directory.glob("lib*CAPI*.so*")):
        function = getattr(ctypes.CDLL(str(library)), LOAD_DIALECTS_SYMBOL, None)
        if function is not None:
            function.argtypes, function.restype = [ctypes.c_void_p], ctypes.c_bool
            return function  # type: ignore[no-any-return]  # ctypes calls its functions Any
    raise ImportError(f"the bindings {package} have neither dialects.irdl nor the C++ symbol {LOAD_DIALECTS_SYMBOL}")


def _capsule_pointer(capsule: object) -> int:
    """The C++ pointer inside one of the bindings' capsules."""
    get_name, get_pointer = ctypes.pythonapi.PyCapsule_GetName, ctypes.pythonapi.PyCapsule_GetPointer
    get_name.restype, get_name.argtypes = ctypes.c_char_p, [ctypes.py_object]
    get_pointer.restype, get_pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    pointer: int = get_pointer(capsule, get_name(capsule))
    return pointer


def install(package: str) -> None:
    """Make `<package>.dialects.irdl` importable: the bindings' own where it exists, else the stand-in."""
    name = f"{package}.dialects.irdl"
    if name not in sys.modules and importlib.util.find_spec(name) is None:
        module = IrdlModule(package)
        sys.modules[name] = module
        importlib.import_module(f"{package}.dialects").irdl = module  # type: ignore[attr-defined]
