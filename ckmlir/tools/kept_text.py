"""Text that takes long to make and depends on nothing but this package's files, kept from run to run."""

from __future__ import annotations

import contextlib
import hashlib
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from ckmlir import __version__
from ckmlir.digests import digest_of
from ckmlir.files import cache_directory, keeps_files, python_files, write_atomically

FOLDER = "texts"
ENDING = ".txt"


def kept_text(words: Sequence[str], make: Callable[[], str]) -> str:
    """The text of these words: as it was made before by these files of this package, else made now and kept.

    Where it may not be kept (`CKMLIR_CACHE=off`, `simulator`, a directory that cannot be written) it is made.
    """
    if not keeps_files():
        return make()
    state = _state()
    folder = cache_directory() / FOLDER
    name = digest_of("\0".join(words), 16)
    path = folder / f"{state}-{name}{ENDING}"
    with contextlib.suppress(OSError, UnicodeDecodeError):
        return path.read_text("utf-8")
    text = make()
    with contextlib.suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
        for old in folder.glob(f"*{ENDING}"):
            if not old.name.startswith(state):
                old.unlink(missing_ok=True)
        write_atomically(path, text.encode())
    return text


def _state() -> str:
    """A digest of the sizes and times of this package's files, and of the version of Python."""
    digest = hashlib.sha256(f"{__version__} {sys.version}".encode())
    for _, entry in python_files(Path(__file__).parent.parent):
        status = entry.stat()
        digest.update(f"{entry.path} {status.st_size} {status.st_mtime_ns}\0".encode())
    return digest.hexdigest()[:16]
