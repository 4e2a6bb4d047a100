"""Files that stand for kernels: code objects, and MLIR modules of any stage, which are compiled on the way."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ckmlir.errors import CkmlirError
from ckmlir.tools.progress import progress

if TYPE_CHECKING:
    from collections.abc import Collection

    from ckmlir.codeobject import CodeObject
    from ckmlir.compiled_kernel import CompiledKernel
    from ckmlir.passes.ir_printing import IrPrinter

CODE_OBJECTS = (".hsaco", ".co", ".o")
MODULE = ".mlir"
"""How files are called; no operator's name ends so."""


def is_code_file(word: str) -> bool:
    """Whether a word of the command line names a code object or a module, not an operator."""
    return Path(word).suffix in (*CODE_OBJECTS, MODULE)


def read_code_object(path: Path, chip: str | None = None) -> CodeObject:
    """The code object in a file, of a bundle the one for `chip`, or that of a module in MLIR.

    Raises:
        CkmlirError: it cannot be read, or is not for `chip`; the text names the file.
    """
    from ckmlir.codeobject import CodeObject, CodeObjectError

    try:
        return CodeObject.parse(path if path.suffix != MODULE else compile_file(path).hsaco, chip or "")
    except CodeObjectError as error:
        text = str(error)
        raise CkmlirError(text if str(path) in text else f"{path}: {text}") from None


def compile_file(
    path: Path, *, begin: str = "", keep: Collection[str] = (), print_after: Collection[str] | IrPrinter = ()
) -> CompiledKernel:
    """Compile a module of any stage; `begin`, `keep`, `print_after` are those of `compiler.compile_module`.

    Raises:
        CkmlirError: it cannot be read, is no MLIR, or cannot be compiled; the text names the file.
    """
    from ckmlir.compiler import compile_module
    from ckmlir.diagnostics import collect
    from ckmlir.dialect.context import ck_context
    from ckmlir.mlir import ir

    context = ck_context()
    try:
        path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise CkmlirError(f"cannot read {path}: {getattr(error, 'strerror', None) or error}") from None
    with context, collect(context) as found:
        try:
            module = ir.Module.parseFile(str(path), context)
        except ir.MLIRError:
            raise CkmlirError("\n".join(map(str, found)) or f"{path}: no MLIR") from None
    try:
        with progress(f"compiling {path}", printing=bool(print_after)):
            return compile_module(module, begin=begin, keep=keep, print_after=print_after)
    except CkmlirError as error:
        raise CkmlirError(f"{path}: {error}") from None
