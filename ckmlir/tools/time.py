"""`ckmlir time`: how long a kernel takes by the simulator's model of time, what it waits for, and what limits it.

Every number is the model's; no GPU is asked.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ckmlir.errors import CkmlirError
from ckmlir.tools.cli import Parser
from ckmlir.tools.own_kernel import add_own_kernel_arguments, own_kernel
from ckmlir.tools.progress import progress
from ckmlir.tools.request import add_operator_arguments, read_request

if TYPE_CHECKING:
    from ckmlir.sim.timing.parameters import Parameters
    from ckmlir.sim.timing.report import Report

MODES = ("sampled", "analytic")


def add_arguments(parser: Parser) -> None:
    add_operator_arguments(parser, or_file=True)
    add_own_kernel_arguments(parser)
    add = parser.add_argument
    add_parameter_arguments(parser)
    add(
        "--mode",
        choices=MODES,
        default="sampled",
        help="simulate as many workgroups as run on a compute unit at a time, or one and carry it over [sampled]",
    )
    add("--seed", type=int, default=0, metavar="N", help="of the input arrays")
    add("--json", action="store_true", help="one JSON object on stdout")


def add_parameter_arguments(parser: argparse.ArgumentParser) -> None:
    """--timing-params and --set."""
    add = parser.add_argument
    add("--timing-params", type=Path, metavar="FILE", help="TOML file with other numbers for the model")
    add(
        "--set",
        nargs="+",
        action="extend",
        default=[],
        metavar="NAME=VALUE",
        help="another value of one number, such as memory.hbm.latency=900",
    )


def read_parameters(options: argparse.Namespace, target: str) -> Parameters:
    """The model's numbers for a chip. Raises CkmlirError, also where packages are not installed."""
    try:
        from ckmlir.sim.timing.parameters import load
    except ImportError as error:
        raise CkmlirError(str(error)) from None
    return load(target, options.timing_params, options.set)


def execute(options: argparse.Namespace) -> int:
    if options.launch is not None:
        return _foreign(options)
    request = read_request(options)
    operator, problem, target = request
    parameters = read_parameters(options, target.name)
    try:
        from ckmlir.runtime.timing import model_kernels
    except ImportError as error:
        raise CkmlirError(str(error)) from None
    from ckmlir.sim.timing.report import report

    compiled = own_kernel(request, options)
    with progress("compiling and recording"):
        models = model_kernels(
            operator, problem, target, parameters, mode=options.mode, compiled=compiled, seed=options.seed
        )
    with progress("modelling"):
        launches = [model.under(parameters) for model in models]
    reports = [report(launch.timeline, launch.grid) for launch in launches]
    own = next((number for number, model in enumerate(models) if model.is_own), 0)
    print(_json(reports, own) if options.json else _text(reports))
    return 0


def _foreign(options: argparse.Namespace) -> int:
    """A launch of a code object."""
    from ckmlir.tools.foreign_timing import read_foreign, record_foreign

    code_object, launch = read_foreign(options)
    parameters = read_parameters(options, code_object.target)
    try:
        from ckmlir.sim.timing.launch_model import model_launch
    except ImportError as error:
        raise CkmlirError(str(error)) from None
    from ckmlir.sim.timing.report import report

    case = record_foreign(code_object, launch, parameters, options.mode)
    with progress("modelling"):
        modelled = model_launch(*case)
    reports = [report(modelled.timeline, modelled.grid)]
    print(_json(reports, 0) if options.json else _text(reports))
    return 0


def _text(reports: Sequence[Report]) -> str:
    """Every kernel's report and, of several kernels, the sum."""
    texts = [one.to_text() for one in reports]
    if len(reports) > 1:
        parts = [f"  {one.grid.cycles:.0f} cycles, {one.grid.microseconds:.1f} µs: {one.kernel}" for one in reports]
        cycles, microseconds = _sums(reports)
        left_out = "fills, packing on the host and the time between launches are not modelled"
        total = f"  {cycles:.0f} cycles, {microseconds:.1f} µs together; {left_out}"
        texts.append("\n".join([f"{len(reports)} kernels one after another, by the model", *parts, total]))
    return "\n\n".join(texts)


def _json(reports: Sequence[Report], own: int) -> str:
    """The report of the operator's own kernel; with it those of all kernels in order, and the sum."""
    cycles, microseconds = _sums(reports)
    found = reports[own].to_dict()
    kernels = [one.to_dict() for one in reports]
    return json.dumps(
        {**found, "kernels": kernels, "sum": {"cycles": cycles, "microseconds": microseconds}}, allow_nan=False
    )


def _sums(reports: Sequence[Report]) -> tuple[float, float]:
    """Cycles and microseconds."""
    return sum(one.grid.cycles for one in reports), sum(one.grid.microseconds for one in reports)
