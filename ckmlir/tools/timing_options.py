"""What `ckmlir timeline` and `ckmlir whatif` share: recording an operator, the parameters of the model, titles."""

from __future__ import annotations

import argparse
import importlib
from pathlib import Path
from typing import TYPE_CHECKING

from ckmlir.errors import CkmlirError
from ckmlir.tools.cli import Parser
from ckmlir.tools.progress import progress
from ckmlir.tools.request import (
    Request,
    add_operator_arguments,
    add_step_argument,
    at_step,
    read_request,
)

if TYPE_CHECKING:
    from ckmlir.compiler import CompiledKernel
    from ckmlir.sim.timing.edits import Case
    from ckmlir.sim.timing.parameters import Parameters


MOST_WORKGROUPS = 256


def add_timing_arguments(parser: Parser) -> None:
    """OP, key=value …, --arch; which workgroups are recorded; where the model's numbers come from."""
    add_operator_arguments(parser)
    add_step_argument(parser)
    add = parser.add_argument
    add(
        "--workgroups",
        type=_workgroups,
        default=1,
        metavar="N|all",
        help="simulate so many workgroups on one compute unit, or all that fit there at a time [1]",
    )
    add("--seed", type=int, default=0, metavar="N", help="of the input arrays")
    add("--timing-params", type=Path, metavar="FILE", help="TOML file with other numbers for the model")


def read_timing_request(options: argparse.Namespace) -> tuple[Request, Parameters]:
    """The operator, problem and chip, and the model's numbers for that chip.

    Raises:
        CkmlirError: as `read_request`; a file of parameters that cannot be used; packages that are not installed.
    """
    request = at_step(read_request(options), options.step)
    try:
        importlib.import_module("ckmlir.sim.timing.compute_unit")  # before long work: are its packages installed?
        from ckmlir.sim.timing.parameters import load
    except ImportError as error:
        raise CkmlirError(str(error)) from None
    return request, load(request.target.name, options.timing_params)


def record_request(
    request: Request, parameters: Parameters, options: argparse.Namespace, compiled: CompiledKernel | None = None
) -> Case:
    """The launch, recorded for the model, in which each instruction knows its tile operation.

    `compiled`: the kernel under another schedule; default: the one that the problem asks for.
    """
    from ckmlir.compiler import tile_operations
    from ckmlir.runtime.recording import with_tile_operations
    from ckmlir.runtime.timing import OperatorModel
    from ckmlir.sim.timing.edits import Case

    operator, problem, target = request
    with progress("compiling and recording"):
        model = OperatorModel(
            operator, problem, target, parameters, mode=options.workgroups, compiled=compiled, seed=options.seed
        )
        operations = tile_operations(operator, operator.spec(problem, target), target)
    return Case(with_tile_operations(model.trace, operations), parameters, model.mode, tuple(model.shape))


def title_of(request: Request, options: argparse.Namespace) -> str:
    """ "gemm m=512 n=512 k=512 on gfx942"."""
    words = [options.operator, *options.keys, *([] if options.step is None else [f"(step {options.step})"])]
    return f"{' '.join(words)} on {request.target.name}"


def _workgroups(text: str) -> int | str:
    """How many, or "sampled" for all that fit."""
    if text == "all":
        return "sampled"
    if not (text.isascii() and text.isdigit()) or not 1 <= int(text) <= MOST_WORKGROUPS:
        raise argparse.ArgumentTypeError(f"{text} is not a number of workgroups, 1 to {MOST_WORKGROUPS}, nor all")
    return int(text)
