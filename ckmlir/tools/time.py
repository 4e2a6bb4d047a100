"""`ckmlir time`: how long a kernel takes by the simulator's model of time, what it waits for, and what limits it.

Every number is the model's; no GPU is asked.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from ckmlir.errors import CkmlirError
from ckmlir.tools.request import add_operator_arguments, progress, read_request

if TYPE_CHECKING:
    from ckmlir.sim.timing.parameters import Parameters

MODES = ("analytic", "sampled")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_operator_arguments(parser)
    add = parser.add_argument
    add_parameter_arguments(parser)
    add(
        "--mode",
        choices=MODES,
        default="analytic",
        help="simulate one workgroup and carry it over, or as many as run on a compute unit at a time",
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
    operator, problem, target = read_request(options)
    parameters = read_parameters(options, target.name)
    try:
        from ckmlir.runtime.timing import OperatorModel
    except ImportError as error:
        raise CkmlirError(str(error)) from None
    from ckmlir.sim.timing.report import report

    with progress("compiling and recording"):
        model = OperatorModel(operator, problem, target, parameters, mode=options.mode, seed=options.seed)
    with progress("modelling"):
        launch = model.under(parameters)
    found = report(launch.timeline, launch.grid)
    print(found.to_json() if options.json else found.to_text())
    return 0
