"""Files that ckmlir writes: always whole or not at all, and in directories that only the user can write to.

Only regular files are replaced. Devices, pipes, sockets' files, links to them, `/dev/stdout` and what a shell
puts for `>(…)` are written to as they are. A link to a regular file stays, and what it points to is replaced.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import stat
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from ckmlir.errors import CkmlirError, from_json

CACHE_SWITCH = "CKMLIR_CACHE"

# -- results that the user names -------------------------------------------------------------------------------------


def check_writable(paths: Sequence[Path]) -> None:
    """Raise CkmlirError unless all `paths` can be written, no two of them the same file. Creates nothing."""
    for path in paths:
        try:
            reason = _unwritable(path)
        except OSError as error:  # a name that is too long, a directory that may not be searched
            reason = error.strerror or str(error)
        if reason:
            raise CkmlirError(f"cannot write {path}: {reason}")
        if not is_stream(path) and sum(os.path.realpath(path) == os.path.realpath(other) for other in paths) > 1:
            raise CkmlirError(f"two results would be written to {path}")


def _unwritable(path: Path) -> str:
    """Why a path cannot be written, if there is a reason. Raises OSError."""
    if path.is_dir():
        return "it is a directory"
    if is_stream(path):
        return ""
    whole = Path(os.path.realpath(path))
    if not whole.parent.is_dir():
        return f"there is no directory {whole.parent}"
    if not os.access(whole.parent, os.W_OK | os.X_OK):
        return f"the directory {whole.parent} is not writable"
    return "it is write-protected" if whole.exists() and not os.access(whole, os.W_OK) else ""


def write_file(path: Path, content: bytes) -> None:
    """Write a result: a regular file whole or not at all, anything else as it is. Raises CkmlirError."""
    try:
        if is_stream(path):
            _write_through(path, content)
        else:
            write_atomically(path, content)
    except OSError as error:
        raise CkmlirError(f"cannot write {path}: {error.strerror or error}") from None


def is_stream(path: Path) -> bool:
    """Whether a path leads to something that takes bytes but cannot be replaced by another file: a device, a pipe, a
    descriptor of a process."""
    try:
        if _descriptor(path) is not None:
            return True
        mode = path.stat().st_mode
    except OSError:
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))


def is_standard_output(path: Path) -> bool:
    """Whether a path leads to where this process prints: what is written there is not to be mixed with words."""
    try:
        return os.path.samestat(os.stat(path), os.fstat(1))
    except OSError:
        return False


def _descriptor(path: Path) -> Path | None:
    """The entry of /proc/…/fd that a path is, or is a link to: /dev/stdout, /dev/fd/63."""
    for _ in range(40):  # as many links as the kernel follows
        here = Path(os.path.realpath(path.parent), path.name)
        if re.fullmatch(r"/proc/\d+(/task/\d+)?/fd/\d+", str(here)):
            return here
        if not here.is_symlink():
            return None
        path = here.parent / os.readlink(here)
    return None


def _write_through(path: Path, content: bytes) -> None:
    entry = _descriptor(path)
    if entry is not None and entry.parts[2] == str(os.getpid()):
        # Behind what this process printed before, and not over the file that a shell has opened for it.
        sys.stdout.flush()
        sys.stderr.flush()
        opened = os.dup(int(entry.name))
    else:
        opened = os.open(path, os.O_WRONLY | os.O_NOCTTY)
    with os.fdopen(opened, "wb") as file:
        file.write(content)


def write_atomically(path: Path, content: bytes, *, executable: bool = False) -> None:
    """Write `content` to the regular or new file `path`: readers see the old file or the whole new one.

    An existing file's permissions stay. Raises OSError and leaves nothing.
    """
    import tempfile  # here, since it takes longer to import than most of what is read takes

    path = Path(os.path.realpath(path))
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
        os.chmod(temporary, _mode(path, 0o777 if executable else 0o666))
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def _mode(path: Path, new: int) -> int:
    """The permissions of an existing file, or those of a new one under the process's mask."""
    with contextlib.suppress(FileNotFoundError):
        return stat.S_IMODE(path.stat().st_mode)
    umask = os.umask(0)
    os.umask(umask)
    return new & ~umask


# -- files of the cache ----------------------------------------------------------------------------------------------


def write_with_digest(path: Path, header: dict[str, Any], content: bytes) -> None:
    """Write a line of JSON and a content, whole or not at all; `read_with_digest` knows damage. Raises OSError."""
    line = json.dumps({**header, "sha256": _digest(header, content)}).encode()
    write_atomically(path, line + b"\n" + content)


def read_with_digest(path: Path) -> tuple[dict[str, Any], bytes]:
    """The header and the content of a file. Raises OSError, and ValueError for all that was not written so."""
    line, _, content = path.read_bytes().partition(b"\n")
    header = from_json(line)
    if not isinstance(header, dict) or header.pop("sha256", None) != _digest(header, content):
        raise ValueError(f"{path} is damaged")
    return header, content


def _digest(header: dict[str, Any], content: bytes) -> str:
    digest = hashlib.sha256(json.dumps(header).encode())
    digest.update(content)
    return digest.hexdigest()


def keeps_files() -> bool:
    """Whether the cache may be used: `$CKMLIR_CACHE` is on. Raises CkmlirError for a value that means nothing."""
    return _cache_switch() == "on"


def keeps_machine_code() -> bool:
    """Whether the simulator's machine code may be kept: `$CKMLIR_CACHE` is on, or "simulator". Raises CkmlirError as
    `keeps_files` does.
    """
    return _cache_switch() != "off"


def _cache_switch() -> str:
    value = os.environ.get(CACHE_SWITCH, "on").lower()
    meaning = {"": "on", "1": "on", "0": "off"}.get(value, value)
    if meaning not in ("on", "off", "simulator"):
        raise CkmlirError(f"{CACHE_SWITCH}={value}: expected on, off or simulator")
    return meaning


def cache_directory() -> Path:
    """Where ckmlir keeps what it can make again: `$XDG_CACHE_HOME/ckmlir` or `~/.cache/ckmlir`. Not created here."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "ckmlir"


def user_directory(purpose: str) -> Path:
    """A directory for `purpose` among the temporary files, of this user alone. Created on first use.

    Raises CkmlirError when the name is taken by something that is not this user's own directory.
    """
    import tempfile

    path = Path(tempfile.gettempdir()) / f"ckmlir-{os.getuid()}"
    path.mkdir(mode=0o700, exist_ok=True)
    status = path.lstat()
    if status.st_uid != os.getuid() or not path.is_dir() or path.is_symlink():
        raise CkmlirError(f"{path} exists and is not a directory of this user's; remove it or set TMPDIR")
    return path / purpose


# -- files of the package --------------------------------------------------------------------------------------------


def python_files(root: Path, left_out: Sequence[str] = ()) -> Iterator[tuple[str, os.DirEntry[str]]]:
    """Python's files below `root` in an order that depends on their names alone, each with its name below `root`.

    Folders right below `root` that are `left_out` are not looked into. Entries of the system rather than paths: this is
    part of what every command waits for.
    """
    folders = [("", str(root))]
    while folders:
        prefix, folder = folders.pop()
        with os.scandir(folder) as entries:
            found = sorted(entries, key=lambda entry: entry.name)
        for entry in found:
            name = prefix + entry.name
            if entry.is_dir(follow_symlinks=False):
                if entry.name != "__pycache__" and name not in left_out:
                    folders.append((f"{name}/", entry.path))
            elif entry.name.endswith(".py"):
                yield name, entry
