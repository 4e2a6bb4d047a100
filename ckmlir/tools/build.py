"""`ckmlir build`: the kernels of a space, compiled into a library (docs/dispatch.md)."""

from __future__ import annotations

import argparse
import dataclasses
import sys
from pathlib import Path

from ckmlir.dispatch.building import build
from ckmlir.dispatch.space import Expansion, expand, read_spaces
from ckmlir.errors import CkmlirError
from ckmlir.files import check_writable
from ckmlir.runtime.processes import LOCAL, check_place
from ckmlir.tools.cli import Parser
from ckmlir.tools.request import find_target

SHOWN = 10
"""Reasons for dropped combinations that are printed."""


def add_arguments(parser: Parser) -> None:
    add = parser.add_argument
    add("space", metavar="SPACE.json", type=Path, help="a space, or a list of them")
    add("-o", dest="output", required=True, metavar="FILE", type=Path, help="the library")
    add("--arch", metavar="A,…", help="chips, in place of those of the spaces")
    add("--jobs", type=int, metavar="N", help="processes that compile; by default one for each processor")
    add("--on", default=LOCAL, metavar="local|dask://…", help="who compiles: this machine, or a Dask cluster")
    add("--partial", action="store_true", help="leave out kernels that cannot be compiled")
    add("--dry-run", action="store_true", help="say which kernels there are, compile nothing")


def execute(options: argparse.Namespace) -> int:
    if options.jobs is not None and options.jobs < 1:
        raise CkmlirError(f"--jobs {options.jobs}: expected 1 or more")
    check_place(options.on)
    spaces = read_spaces(options.space)
    if options.arch:
        targets = tuple(find_target(name) for name in options.arch.split(","))
        spaces = [dataclasses.replace(one, targets=targets) for one in spaces]
    found = expand(spaces)
    if not options.dry_run:
        check_writable([options.output])
    _print_dropped(found)
    if options.dry_run:
        for kernel in (*found.kernels, *found.others):
            print(kernel)
        return 0
    shows = sys.stderr.isatty()

    def progress(done: int, of: int) -> None:
        if shows:
            print(f"\r{done} of {of} kernels", end="" if done < of else "\n", file=sys.stderr, flush=True)

    kernels = (*found.kernels, *found.others)
    built = build(
        kernels, options.output, processes=options.jobs, on=options.on, partial=options.partial, progress=progress
    )
    for identifier, why in built.refused.items():
        print(f"left out: {identifier}: {why}")
    for identifier, findings in built.findings.items():
        print(f"static checks of {identifier}: {findings}")
    resumed = f", {built.resumed} of them from an earlier start" if built.resumed else ""
    print(f"{options.output}: {built.kernels} kernels{resumed}, {options.output.stat().st_size} bytes")
    return 0


def _print_dropped(found: Expansion) -> None:
    lines = str(found).splitlines()
    more = len(lines) - 1 - SHOWN
    print("\n".join(lines[: SHOWN + 1] + [f"          and {more} more reasons"] * (more > 0)))
