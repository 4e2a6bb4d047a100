"""Files to which processes append objects, a line of JSON each, and which survive what ends these processes.

Whoever appends holds the file's lock, so that lines never mix. What a process that was ended half-way left of a line is
no line: readers pass over it, and the next one to append removes it.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from ckmlir.dispatch.reading import check_schema
from ckmlir.errors import CkmlirError, from_json
from ckmlir.files import is_stream
from ckmlir.ops.request import RequestError

BLOCK = 1 << 16


def check_appendable(path: Path) -> None:
    """Raise CkmlirError for what no objects can be read back from: a device, a pipe."""
    if is_stream(path):
        raise CkmlirError(f"{path} is not a regular file; expected the path of one, new or old")


def append(path: Path, values: Iterable[Mapping[str, Any]]) -> None:
    """Append objects, all of them on disk when this returns. Raises CkmlirError where that cannot be done."""
    check_appendable(path)
    content = b"".join(json.dumps(one, separators=(",", ":"), allow_nan=False).encode() + b"\n" for one in values)
    try:
        with path.open("ab+", buffering=0) as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            os.ftruncate(file.fileno(), _whole(file.fileno()))
            os.lseek(file.fileno(), 0, os.SEEK_END)
            left = memoryview(content)
            while left:
                left = left[file.write(left) or 0 :]
            os.fsync(file.fileno())
    except OSError as error:
        raise CkmlirError(f"cannot write {path}: {error.strerror or error}") from None


def _whole(descriptor: int) -> int:
    """How many bytes of a file are whole lines."""
    end = os.fstat(descriptor).st_size
    while end:
        start = max(end - BLOCK, 0)
        found = os.pread(descriptor, end - start, start).rfind(b"\n")
        if found >= 0:
            return start + found + 1
        end = start
    return 0


def read(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """The objects of a file's whole lines, each with the place where it stands, for messages.

    Raises:
        RequestError: the file cannot be read, a line is not JSON or not an object, its schema is missing or newer.
    """
    try:
        lines = path.read_bytes().split(b"\n")[:-1]
    except OSError as error:
        raise RequestError(f"cannot read {path}: {error.strerror or error}") from None
    for number, line in enumerate(lines, 1):
        where = f"{path}:{number}"
        try:
            values = from_json(line)
        except ValueError as error:
            raise RequestError(f"{where} is not JSON ({error})") from None
        if not isinstance(values, dict) or isinstance(values.get("schema"), bool):
            raise RequestError(f"{where}: expected an object with a schema")
        if not isinstance(values.get("schema"), int):
            raise RequestError(f"{where}: no field schema; expected a whole number")
        check_schema(values["schema"], where)
        yield where, values
