"""`ckmlir cache [show|clear]`: what ckmlir keeps between runs: kernels, and what it makes to compile and run them."""

from __future__ import annotations

import argparse
import json
import shutil
import time
from pathlib import Path

from msgspec import Struct

from ckmlir.errors import CkmlirError, counted
from ckmlir.files import CACHE_SWITCH, cache_directory, keeps_files
from ckmlir.runtime import compile_cache, kernel_files

OTHERS = {
    "simulator": "machine code of the simulator",
    "texts": "what `ckmlir list` printed",
    "toolkit": "what stands for a linker",
}
"""Directories of the cache beside the kernels' -> what is in them. Nobody looks into them one by one."""


class Content(Struct, frozen=True):
    """A directory of the cache: how many files it has and how many bytes they take."""

    path: Path
    files: int
    nbytes: int


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("action", nargs="?", default="show", choices=("show", "clear"), help="default: show")
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout")
    parser.epilog = (
        f"{CACHE_SWITCH}=off: use no files, =simulator: none but the simulator's code; "
        f"{kernel_files.LIMIT}: the kernels' limit; XDG_CACHE_HOME: their place"
    )


def execute(options: argparse.Namespace) -> int:
    return _clear(options.json) if options.action == "clear" else _show(options.json)


def _show(as_json: bool) -> int:
    entries, limit, others = kernel_files.entries(), kernel_files.limit_bytes(), other_contents()
    if as_json:
        kernels = [
            {"op": one.operator, "kernel": one.kernel, "arch": one.target, "bytes": one.nbytes, "used": one.used}
            for one in entries
        ]
        report = {
            "directory": str(kernel_files.directory()), "on": keeps_files(), "limit_bytes": limit, "kernels": kernels,
            "others": {name: {"files": one.files, "bytes": one.nbytes} for name, one in others.items()},
        }  # fmt: skip
        print(json.dumps(report))
        return 0
    for entry in entries:
        used = time.strftime("%Y-%m-%d %H:%M", time.localtime(entry.used))
        print(f"{used}  {entry.nbytes:>9}  {entry.target}  {entry.kernel}")
    total = sum(entry.nbytes for entry in entries)
    state = "" if keeps_files() else f"; switched off by {CACHE_SWITCH}"
    print(f"{counted(len(entries), 'kernel')}, {total} of {limit} bytes, in {kernel_files.directory()}{state}")
    for name, one in others.items():
        print(f"{OTHERS.get(name, 'not known to this version')}: {one.nbytes} bytes in {one.path}")
    return 0


def _clear(as_json: bool) -> int:
    others = other_contents()
    try:
        count = compile_cache.clear()
        for one in others.values():
            shutil.rmtree(one.path)
    except OSError as error:
        raise CkmlirError(f"cannot clear {error.filename or cache_directory()}: {error.strerror}") from None
    freed = sum(one.nbytes for one in others.values())
    if as_json:
        removed = {"directory": str(kernel_files.directory()), "removed": count, "other_bytes": freed}
        print(json.dumps(removed))
    else:
        beside = f", and {freed} bytes beside them" if freed else ""
        print(f"{counted(count, 'kernel')} removed{beside}")
    return 0


def other_contents() -> dict[str, Content]:
    """The directories of the cache beside the kernels', by name; those of other versions of ckmlir among them."""
    root = cache_directory()
    found = {}
    for path in sorted(root.iterdir()) if root.is_dir() else ():
        if path.is_dir() and not path.is_symlink() and path != kernel_files.directory():
            sizes = [file.lstat().st_size for file in path.rglob("*") if not file.is_dir()]
            found[path.name] = Content(path, len(sizes), sum(sizes))
    return found
