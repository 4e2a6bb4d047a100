"""Compiling the loops of the model: `compiled` is numba's njit for functions over NumPy arrays.

Machine code is kept on disk beside the sources. Numba looks only at the file of a function to see whether its code is
still right; the functions here call each other over several files and have numbers of others compiled in, so the files
of this package that a file imports count as well, and what those import. Reports, pages and the like are none of them.

NUMBA_DISABLE_JIT=1 runs the same functions as plain Python.
"""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, TypeVar, cast

try:
    import numba
except ImportError as error:
    raise ImportError("the timing model needs numba: pip install 'ckmlir[timing]'") from error

Function = TypeVar("Function", bound=Callable[..., Any])


@lru_cache
def sources_of(path: Path) -> frozenset[Path]:
    """A file of this package and those that it imports when it is loaded, directly or not."""
    found, pending = {path}, [path]
    while pending:
        for node in ast.walk(_at_import(pending.pop())):
            if isinstance(node, ast.ImportFrom) and node.module:
                names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
                files = {_FOLDER / f"{name.removeprefix(_PACKAGE)}.py" for name in names if name.startswith(_PACKAGE)}
                new = {file for file in files if file.is_file()} - found
                found |= new
                pending += new
    return frozenset(found)


def _at_import(path: Path) -> ast.Module:
    """A file's statements without `if TYPE_CHECKING:`, and without functions and classes."""
    tree = ast.parse(path.read_bytes())
    tree.body = [node for node in tree.body if not isinstance(node, (ast.If, ast.FunctionDef, ast.ClassDef))]
    return tree


_PACKAGE: Final = __name__.rpartition(".")[0] + "."
_FOLDER: Final = Path(__file__).parent


@lru_cache
def _digest(path: Path) -> str:
    """A digest of a file and of what it imports."""
    digest = hashlib.blake2b(digest_size=12)
    for source in sorted(sources_of(path)):
        digest.update(source.name.encode() + source.read_bytes())
    return digest.hexdigest()


def compiled(function: Function) -> Function:
    """The function as machine code, compiled when it is first called.

    It must not make arrays: reference counts, which cost ten times what the loops here do themselves, are left out, and
    numba refuses what needs them. A division by zero does not raise.
    """
    return _compiled(function, _nrt=False, forceinline=True)


def compiled_with_arrays(function: Function) -> Function:
    """As `compiled`, for a function that makes arrays. Only Python and functions of the same kind may call it."""
    return _compiled(function)


def _compiled(function: Function, **options: bool) -> Function:
    njit: Any = numba.njit  # its type leaves out _nrt
    result = njit(cache=True, error_model="numpy", **options)(function)
    if result is not function:  # NUMBA_DISABLE_JIT leaves functions as they are
        add_to_stamp(result, _digest(Path(function.__code__.co_filename)))
        _take_numbers_for_any(result)
    return cast(Function, result)


def _take_numbers_for_any(function: Any) -> None:
    """Let calls with numbers that the caller's source names share the code for any numbers.

    Numba would compile the function for each such number, and for the one that a variable begins with, which stands
    where the variable is found to change: twice the work, for code that is inlined anyway.
    """
    template = function.get_call_template
    plain: Any = numba.types.unliteral  # untyped

    def for_any(arguments: tuple[Any, ...], by_name: dict[str, Any]) -> Any:
        return template(tuple(map(plain, arguments)), {name: plain(kind) for name, kind in by_name.items()})

    function.get_call_template = for_any


def add_to_stamp(function: Any, stamp: str) -> None:
    """Let cached code of a function count only as long as `stamp` stays the same as well."""
    file = function._cache._cache_file
    file._source_stamp = (file._source_stamp, stamp)
