"""Files that ckmlir writes: always whole or not at all, and in directories that only the user can write to."""

import os
import tempfile
from pathlib import Path

from ckmlir.errors import CkmlirError


def write_atomically(path: Path, content: bytes, *, executable: bool = False) -> None:
    """Write `content` to `path`: readers see the old file or the whole new one. Raises OSError and leaves nothing."""
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(temporary, (0o777 if executable else 0o666) & ~umask)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def cache_directory() -> Path:
    """Where ckmlir keeps what it can make again: `$XDG_CACHE_HOME/ckmlir` or `~/.cache/ckmlir`. Not created here."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "ckmlir"


def user_directory(purpose: str) -> Path:
    """A directory for `purpose` among the temporary files, of this user alone. Created on first use.

    Raises CkmlirError when the name is taken by something that is not this user's own directory.
    """
    path = Path(tempfile.gettempdir()) / f"ckmlir-{os.getuid()}"
    path.mkdir(mode=0o700, exist_ok=True)
    status = path.lstat()
    if status.st_uid != os.getuid() or not path.is_dir() or path.is_symlink():
        raise CkmlirError(f"{path} exists and is not a directory of this user's; remove it or set TMPDIR")
    return path / purpose
