"""Compiling the loops of the model: `compiled` is numba's njit for functions over NumPy arrays.

Machine code is kept on disk beside the sources. Numba looks only at the file of a function to see whether its code is
still right; as the functions here call each other over several files, all files of this package count.

NUMBA_DISABLE_JIT=1 runs the same functions as plain Python.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar, cast

try:
    import numba
except ImportError as error:
    raise ImportError("the timing model needs numba: pip install 'ckmlir[timing]'") from error

Function = TypeVar("Function", bound=Callable[..., Any])


@lru_cache(maxsize=1)
def _sources() -> str:
    """A digest of this package."""
    digest = hashlib.blake2b(digest_size=12)
    for path in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(path.name.encode() + path.read_bytes())
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
        add_to_stamp(result, _sources())
    return cast(Function, result)


def add_to_stamp(function: Any, stamp: str) -> None:
    """Let cached code of a function count only as long as `stamp` stays the same as well."""
    file = function._cache._cache_file
    file._source_stamp = (file._source_stamp, stamp)
