"""Arrays in .npy files: inputs that a run is given, and arrays that it is asked to write.

NumPy has no name for bf16, fp8 and bf8, so their arrays are written as unsigned integers of the same size: after
loading, `array.view(ml_dtypes.bfloat16)` gives the numbers. Inputs are accepted in that form, and as `numpy.save`
writes arrays of `ml_dtypes` (a void type of the same size).
"""

from __future__ import annotations

import io
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from ckmlir.errors import CkmlirError, suggest
from ckmlir.ops.arrays import ArraySpec
from ckmlir.ops.comparison import Array
from ckmlir.ops.dtypes import numpy_dtype, storage_dtype
from ckmlir.targets import Target

MAGIC = b"\x93NUMPY"


def read_assignments(option: str, words: Iterable[str], specs: Iterable[ArraySpec]) -> dict[str, Path]:
    """Files by array name from words of the form `name=file.npy`. Raises CkmlirError for names that no array has."""
    names = [spec.name for spec in specs]
    files: dict[str, Path] = {}
    for word in words:
        name, equals, file = word.partition("=")
        if not equals or not file:
            raise CkmlirError(f"{option} {word}: expected name=file.npy")
        if name not in names:
            raise CkmlirError(f"{option} {word}: there is no such array; {suggest(name, names)}")
        if name in files:
            raise CkmlirError(f"{option} {word}: {name} is given twice")
        files[name] = Path(file)
    return files


def read_array(path: Path, spec: ArraySpec, target: Target) -> Array:
    """The array of a .npy file, in the shape and type that `spec` asks for. Raises CkmlirError for anything else."""
    array = load_npy(path)
    dtype = numpy_dtype(spec.dtype, target)
    if array.shape != spec.shape:
        raise CkmlirError(f"{path}: array {spec.name} has shape {array.shape}; these keys ask for {spec.shape}")
    given = array.dtype.newbyteorder("=")
    stored = storage_dtype(dtype)
    if given not in (dtype, stored, np.dtype(f"V{dtype.itemsize}") if stored != dtype else dtype):
        raise CkmlirError(f"{path}: array {spec.name} has type {array.dtype}; dtype {spec.dtype} is {_form(dtype)}")
    return np.ascontiguousarray(array.astype(given)).view(dtype)


def npy_bytes(array: Array) -> bytes:
    """The content of a .npy file for an array of any of the operators' types."""
    content = io.BytesIO()
    np.save(content, np.ascontiguousarray(array).view(storage_dtype(array.dtype)), allow_pickle=False)
    return content.getvalue()


def load_npy(path: Path) -> Array:
    """The array of a .npy file of numbers. Raises CkmlirError."""
    try:
        with path.open("rb") as file:
            if file.read(len(MAGIC)) != MAGIC:
                raise CkmlirError(f"{path}: not a .npy file")
            file.seek(0)
            array: Array = np.load(file, allow_pickle=False)
            return array
    except OSError as error:
        raise CkmlirError(f"cannot read {path}: {error.strerror or error}") from None
    except (ValueError, EOFError, MemoryError, SyntaxError, OverflowError) as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise CkmlirError(f"{path}: not a whole .npy file of numbers: {reason}") from None


def _form(dtype: np.dtype[Any]) -> str:
    stored = storage_dtype(dtype)
    return str(dtype) if stored == dtype else f"{dtype}, or its bits as {stored}"
