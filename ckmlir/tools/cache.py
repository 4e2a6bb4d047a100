"""`ckmlir cache [show|clear]`: the kernels that were compiled before."""

from __future__ import annotations

import argparse
import json
import time

from ckmlir.errors import CkmlirError
from ckmlir.runtime import compile_cache


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("action", nargs="?", default="show", choices=("show", "clear"), help="default: show")
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout")
    parser.epilog = (
        f"{compile_cache.SWITCH}=off: use no files; {compile_cache.LIMIT}: their limit; XDG_CACHE_HOME: their place"
    )


def execute(options: argparse.Namespace) -> int:
    where = compile_cache.directory()
    if options.action == "clear":
        try:
            count = compile_cache.clear()
        except OSError as error:
            raise CkmlirError(f"cannot clear {where}: {error.strerror}") from None
        print(json.dumps({"directory": str(where), "removed": count}) if options.json else f"{count} kernels removed")
        return 0
    entries, limit = compile_cache.entries(), compile_cache.limit_bytes()
    if options.json:
        kernels = [
            {"op": one.operator, "kernel": one.kernel, "arch": one.target, "bytes": one.nbytes, "used": one.used}
            for one in entries
        ]
        report = {"directory": str(where), "on": compile_cache.is_on(), "limit_bytes": limit, "kernels": kernels}
        print(json.dumps(report))
        return 0
    for entry in entries:
        used = time.strftime("%Y-%m-%d %H:%M", time.localtime(entry.used))
        print(f"{used}  {entry.nbytes:>9}  {entry.target}  {entry.kernel}")
    total = sum(entry.nbytes for entry in entries)
    state = "" if compile_cache.is_on() else f"; switched off by {compile_cache.SWITCH}"
    print(f"{len(entries)} kernels, {total} of {limit} bytes, in {where}{state}")
    return 0
