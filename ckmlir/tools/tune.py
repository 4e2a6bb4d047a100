"""`ckmlir tune`: the fastest kernel of a request, looked for by the model of time and on a GPU (docs/dispatch.md).

Of several requests (--misses) those that cannot be tuned are named, and the exit status is 1.
"""

from __future__ import annotations

import argparse
import importlib
import json
import math
import sys
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from ckmlir.dispatch.identity import Kernel
from ckmlir.dispatch.json_lines import check_appendable
from ckmlir.dispatch.misses import Asked, read_asked
from ckmlir.dispatch.records import DEVICE, MODEL, Record, read_records
from ckmlir.dispatch.spaces import expand, read_spaces, space
from ckmlir.dispatch.tuning import FINALISTS, Tuned, Tuning, tunable
from ckmlir.errors import CkmlirError
from ckmlir.files import check_writable
from ckmlir.ops import find_operator
from ckmlir.ops.request import RequestError, parse_assignments
from ckmlir.runtime.calls import LOCAL, check_place, open_workers
from ckmlir.runtime.selection import open_device
from ckmlir.runtime.workers import Workers
from ckmlir.targets import TARGETS
from ckmlir.tools.cli import Parser
from ckmlir.tools.operator_help import operator_help
from ckmlir.tools.progress import progress
from ckmlir.tools.request import find_target

REFUSED = 1
"""The exit status where some of several requests cannot be tuned."""
SHOWN = 5
"""Kernels that are printed."""
MODEL_SHARE = 0.5
"""Of the time, where a GPU is asked too."""


def add_arguments(parser: Parser) -> None:
    add = parser.add_argument
    add("operator", nargs="?", metavar="OP", help="the operator, see below")
    add("keys", nargs="*", default=[], metavar="key=value", help="see below")
    add("--arch", metavar="A", help=f"the chip: {', '.join(TARGETS)}")
    add("--misses", type=Path, metavar="FILE", help="in place of OP: the requests of a file that CKMLIR_MISSES named")
    add("-o", dest="output", type=Path, default=Path("tuned.jsonl"), metavar="FILE", help="records [tuned.jsonl]")
    add("--device", choices=("hip", "model"), default="model", help="who times; hip: the best by the model [model]")
    budget = "seconds for each request, once its kernels are listed; 0 for no end [60]"
    add("--budget", type=_seconds, default=60.0, metavar="S", help=budget)
    add("--space", type=Path, metavar="FILE", help="kernels to choose from, in place of all that the operator has")
    add("--finalists", type=_finalists, default=FINALISTS, metavar="N", help=f"timed on a GPU [{FINALISTS}]")
    add("--jobs", type=int, metavar="N", help="processes; by default one for each processor")
    add("--on", default=LOCAL, metavar="local|dask://…", help="who compiles and models: this machine or a Dask cluster")
    add("--no-check", action="store_true", help="do not compare numbers on the simulator")
    add("--json", action="store_true", help="one JSON object a request on stdout")
    parser.epilog = operator_help(parser.prog, parser.words)


def execute(options: argparse.Namespace) -> int:
    if options.jobs is not None and options.jobs < 1:
        raise CkmlirError(f"--jobs {options.jobs}: expected 1 or more")
    check_place(options.on)
    check_writable([options.output])
    check_appendable(options.output)
    requests = _requests(options)
    if options.output.exists():
        read_records(options.output)  # before long work: is it one of records?
    modelled = _model_is_there(options.device)
    given = expand(read_spaces(options.space)).kernels if options.space else None
    refused = 0
    with open_workers(options.on, options.jobs) as workers:
        for asked in requests:
            try:
                _tune(options, asked, given, modelled, workers)
            except RequestError as error:  # of many requests one may mean nothing for its chip
                if options.misses is None:
                    raise
                print(f"ckmlir: {asked}: {error}", file=sys.stderr)
                refused += 1
    return REFUSED if refused else 0


def _requests(options: argparse.Namespace) -> list[Asked]:
    """What is to be tuned, read and found right."""
    if (options.operator is None) == (options.misses is None):
        raise CkmlirError("tune: expected either OP key=value … or --misses FILE")
    target = find_target(options.arch) if options.arch else None
    if options.misses is not None:
        found = [one for one in read_asked(options.misses) if target in (None, one.target)]
        if not found:
            chip = f" for {target.name}" if target else ""
            raise CkmlirError(f"{options.misses}: there is no request{chip} in it")
        return found
    if target is None:
        raise CkmlirError(f"the following arguments are required: --arch; expected {'|'.join(TARGETS)}")
    operator = find_operator(options.operator)
    keys = parse_assignments(options.keys)
    return [Asked.of(operator, keys, target)]


def _model_is_there(device: str) -> bool:
    """Whether kernels can be modelled. Raises CkmlirError where nothing else would time them."""
    try:
        importlib.import_module("ckmlir.sim.timing.compute_unit")
    except ImportError as error:
        if device == "model":
            raise CkmlirError(str(error)) from None
        print(f"kernels are taken in the operator's order, not the model's: {error}", file=sys.stderr)
        return False
    return True


def _tune(
    options: argparse.Namespace, asked: Asked, given: Sequence[Kernel] | None, modelled: bool, workers: Workers
) -> None:
    tunable(asked)  # before its space, which takes seconds, and where reasons are of kernels
    shows = sys.stderr.isatty()

    def told(record: Record) -> None:
        if shows:
            what = record.refused or f"{record.median_us:.2f} µs"
            print(f"\r\033[K{record.kernel.spec.name[:70]}: {what[:40]}", end="", file=sys.stderr, flush=True)

    kernels = given
    if kernels is None:
        with progress(f"listing kernels of {asked.operator.name}"):
            kernels = space(asked.operator, asked.keys, asked.target).expand().kernels
    tuning = Tuning(asked, kernels, options.output, workers, budget=options.budget or math.inf, report=told)
    on_gpu = options.device == "hip"
    by = None
    if on_gpu:
        with closing(open_device("hip", asked.target)) as device:  # before long work: is there one?
            by = device.properties.name
            with progress(f"compiling and timing kernels of {asked.operator.name}", printing=shows):
                if modelled:
                    tuning.rank(check=False, share=MODEL_SHARE)
                tuning.race(device, modelled=modelled, most=options.finalists)
    else:
        with progress(f"compiling and modelling kernels of {asked.operator.name}", printing=shows):
            tuning.rank(check=not options.no_check)
    if shows:
        print("\r\033[K", end="", file=sys.stderr, flush=True)
    print(_json(tuning.found, by) if options.json else _text(tuning, by, options))


def _text(tuning: Tuning, by: str | None, options: argparse.Namespace) -> str:
    found = tuning.found
    looked = len(tuning.kernels) - found.left
    lines = [f"{found.asked}: {looked} of {len(tuning.kernels)} kernels were looked at"]
    if found.resumed:
        lines[0] += f", {found.resumed} records are of earlier starts"
    best = found.best(by)
    for record in best[:SHOWN]:
        mark = "  (the operator's choice)" if record.kernel == found.own else ""
        lines.append(f"{_time(record)}  {record.kernel}{mark}")
    own = next((one for one in best if one.kernel == found.own), None)
    if own is not None and own not in best[:SHOWN]:
        lines.append(f"{_time(own)}  {own.kernel}  (the operator's choice)")
    if not best:
        lines.append("no kernel was timed")
    unchecked = sum(one.checked is None for one in best)
    if unchecked:
        lines.append(f"numbers of {unchecked} kernels were not compared")
    lines += [f"refused: {one.kernel}: {one.refused}" for one in found.refused[:SHOWN]]
    if len(found.refused) > SHOWN:
        lines.append(f"and {len(found.refused) - SHOWN} more were refused")
    lines += [f"not found out: {name}: {why}" for name, why in list(found.unknown.items())[:SHOWN]]
    if best:
        source = {MODEL: "the model's; no GPU was asked", DEVICE: f"those of {best[0].by}"}[best[0].source]
        lines.append(f"times are {source}; all records are in {options.output}")
    return "\n".join(lines)


def _time(record: Record) -> str:
    text = f"{record.median_us:>12.2f} µs"
    if record.source == DEVICE:
        text += f" ({record.low_us:.2f} to {record.high_us:.2f})"
    return text


def _json(found: Tuned, by: str | None) -> str:
    best: list[dict[str, Any]] = [one.to_dict() for one in found.best(by)]
    report = {
        **found.asked.to_dict(), "own": found.own.identifier, "best": best, "left": found.left,
        "refused": {one.kernel.identifier: one.refused for one in found.refused},
        "unknown": found.unknown, "resumed": found.resumed,
    }  # fmt: skip
    return json.dumps(report, allow_nan=False)


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0 <= seconds < math.inf:
        raise argparse.ArgumentTypeError(f"{text} is not a number of seconds")
    return seconds


def _finalists(text: str) -> int:
    if not (text.isascii() and text.isdigit()) or not 1 <= int(text) <= 1000:
        raise argparse.ArgumentTypeError(f"{text} is not a whole number from 1 to 1000")
    return int(text)
