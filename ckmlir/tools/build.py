"""`ckmlir build`: the kernels of a profile, a space, a registry or of tuning, compiled into a library
(docs/dispatch.md).
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec

from ckmlir.dispatch.building import build
from ckmlir.dispatch.profiles import profiles, read_profile
from ckmlir.dispatch.reading import read_json
from ckmlir.dispatch.spaces import Expansion, Space, expand, read_spaces
from ckmlir.errors import CkmlirError, counted
from ckmlir.files import check_writable
from ckmlir.ops import find_operator
from ckmlir.runtime.calls import LOCAL, check_place
from ckmlir.targets import Target
from ckmlir.tools.cli import Parser
from ckmlir.tools.progress import progress
from ckmlir.tools.registry import RECORDS, open_registry
from ckmlir.tools.request import find_target

SHOWN = 10
"""Reasons for dropped combinations that are printed."""


def add_arguments(parser: Parser) -> None:
    add = parser.add_argument
    add("what", metavar="PROFILE|FILE", help="a profile, see below; spaces, a registry or records (.jsonl)")
    add("-o", dest="output", required=True, metavar="FILE", type=Path, help="the library")
    add("--arch", metavar="A,…", help="chips, in place of those of the spaces; of a registry or records only these")
    add("--op", metavar="OP", help="only kernels of this operator, and those that they take too")
    add("--jobs", type=int, metavar="N", help="processes that compile; by default one for each processor")
    add("--on", default=LOCAL, metavar="local|dask://…", help="who compiles: this machine, or a Dask cluster")
    add("--partial", action="store_true", help="leave out kernels that cannot be compiled")
    add("--dry-run", action="store_true", help="say which kernels there are, compile nothing")
    parser.epilog = "profiles:\n" + "\n".join(f"  {name:<16}{what}" for name, what in profiles().items())


def execute(options: argparse.Namespace) -> int:
    if options.jobs is not None and options.jobs < 1:
        raise CkmlirError(f"--jobs {options.jobs}: expected 1 or more")
    check_place(options.on)
    with progress(f"listing kernels of {options.what}"):
        found = _kernels(options)
    if not found.kernels:
        why = "".join(f": {reason}" for reason, _ in found.dropped.most_common(1))
        raise CkmlirError(f"{options.what}: no kernel is left to build{why}")
    if not options.dry_run:
        check_writable([options.output])
    _print_dropped(found)
    if options.dry_run:
        for kernel in (*found.kernels, *found.others):
            print(kernel)
        return 0
    shows = sys.stderr.isatty()

    def told(done: int, of: int) -> None:
        if shows:
            print(f"\r{done} of {of} kernels", end="" if done < of else "\n", file=sys.stderr, flush=True)

    kernels = (*found.kernels, *found.others)
    with progress(f"compiling {counted(len(kernels), 'kernel')}", printing=shows):
        built = build(
            kernels, options.output, processes=options.jobs, on=options.on, partial=options.partial, progress=told
        )
    for identifier, why in built.refused.items():
        print(f"left out: {identifier}: {why}")
    for identifier, findings in built.findings.items():
        print(f"static checks of {identifier}: {findings}")
    resumed = f", {built.resumed} of them from an earlier start" if built.resumed else ""
    print(f"{options.output}: {counted(built.kernels, 'kernel')}{resumed}, {options.output.stat().st_size} bytes")
    return 0


def _kernels(options: argparse.Namespace) -> Expansion:
    """What is to be built. Raises CkmlirError for what is neither a profile nor a file that can be read."""
    path = Path(options.what)
    targets = tuple(find_target(name) for name in options.arch.split(",")) if options.arch else None
    operator = find_operator(options.op).name if options.op else None
    if not path.is_file() and path.suffix not in (".json", RECORDS):
        return _expanded(options, read_profile(options.what), targets, operator)
    if path.suffix == RECORDS or _is_registry(path):
        names = None if targets is None else {target.name for target in targets}
        whole = open_registry(path)
        listed = [one for one in whole.filter(operator=operator) if names is None or one.target.name in names]
        _check_any_left(options, listed, (f"{one.operator.name} for {one.target.name}" for one in whole))
        return Expansion(kernels=listed, combinations=len(listed))
    return _expanded(options, read_spaces(path), targets, operator)


def _is_registry(path: Path) -> bool:
    values = read_json(path)
    return isinstance(values, dict) and "kernels" in values


def _expanded(
    options: argparse.Namespace, spaces: Sequence[Space], targets: tuple[Target, ...] | None, operator: str | None
) -> Expansion:
    chosen = [one for one in spaces if operator in (None, one.operator.name)]
    _check_any_left(options, chosen, (one.operator.name for one in spaces))
    if targets is not None:
        chosen = [msgspec.structs.replace(one, targets=targets) for one in chosen]
    return expand(chosen)


def _check_any_left(options: argparse.Namespace, chosen: Sequence[object], there: Iterable[str]) -> None:
    """Refuses --op and --arch that leave nothing, and says of which operators there is something."""
    if not chosen:
        asked = " ".join(f"--{name} {value}" for name in ("op", "arch") if (value := getattr(options, name)))
        kinds = ", ".join(dict.fromkeys(there))
        if not kinds:
            raise CkmlirError(f"{options.what}: it has no kernels; expected at least one")
        raise CkmlirError(f"{options.what}: {asked} leaves no kernel; there are some of {kinds}")


def _print_dropped(found: Expansion) -> None:
    lines = str(found).splitlines()
    more = len(lines) - 1 - SHOWN
    print("\n".join(lines[: SHOWN + 1] + [f"          and {more} more reasons"] * (more > 0)))
