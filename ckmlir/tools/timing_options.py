"""What `ckmlir timeline` and `ckmlir whatif` share: recording an operator, the parameters of the model, titles."""

from __future__ import annotations

import argparse
import importlib
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from ckmlir.errors import CkmlirError
from ckmlir.tools.cli import Parser
from ckmlir.tools.own_kernel import own_kernel
from ckmlir.tools.progress import progress
from ckmlir.tools.request import add_operator_arguments, add_step_argument, at_step, read_request
from ckmlir.tools.requested import Request

if TYPE_CHECKING:
    from ckmlir.compiled_kernel import CompiledKernel
    from ckmlir.sim.timing.edits import Case
    from ckmlir.sim.timing.parameters import Parameters

MOST_WORKGROUPS = 256


def add_timing_arguments(parser: Parser) -> None:
    """OP, key=value …, --arch; which workgroups are recorded; where the model's numbers come from."""
    add_operator_arguments(parser, or_file=True)
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


class Subject(Struct, frozen=True):
    """What a command of the model is about.

    Attributes:
        request: the operator, problem and chip; None for a code object of the user's.
        parameters: the model's numbers for the chip.
        title: "gemm m=512 n=512 k=512 on gfx942".
        record: the launch, recorded for the model.
    """

    request: Request | None
    parameters: Parameters
    title: str
    record: Callable[[], Case]


def read_subject(options: argparse.Namespace) -> Subject:
    """The operator that the arguments of `add_timing_arguments` name, or the launch of a code object.

    Raises:
        CkmlirError: as `read_timing_request` and `launch_description.read_launch`.
    """
    if options.launch is None:
        request, parameters = read_timing_request(options)
        title = title_of(request, options)

        def record() -> Case:
            # `whatif` has changes of its own in place of these options.
            compiled = own_kernel(request, options) if hasattr(options, "module") else None
            return record_request(request, parameters, options, compiled)

        return Subject(request, parameters, title, record)
    from ckmlir.tools.foreign_timing import read_foreign, record_foreign

    code_object, launch = read_foreign(options)
    numbers = _load(code_object.target, options)
    title = f"{options.operator} under {launch.where} on {code_object.target}"
    return Subject(None, numbers, title, lambda: record_foreign(code_object, launch, numbers, options.workgroups))


def read_timing_request(options: argparse.Namespace) -> tuple[Request, Parameters]:
    """The operator, problem and chip, and the model's numbers for that chip.

    Raises:
        CkmlirError: as `read_request`; a file of parameters that cannot be used; packages that are not installed.
    """
    request = at_step(read_request(options), options.step)
    return request, _load(request.target.name, options)


def _load(target: str, options: argparse.Namespace) -> Parameters:
    """The model's numbers for a chip. Raises CkmlirError, also where packages are not installed."""
    try:
        importlib.import_module("ckmlir.sim.timing.compute_unit")  # before long work: are its packages installed?
        from ckmlir.sim.timing.parameters import load
    except ImportError as error:
        raise CkmlirError(str(error)) from None
    return load(target, options.timing_params)


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
    step = getattr(options, "step", None)
    words = [options.operator, *options.keys, *([] if step is None else [f"(step {step})"])]
    under = getattr(options, "schedule", None) or getattr(options, "module", None)
    return f"{' '.join(words)} on {request.target.name}" + (f" under {under}" if under else "")


def _workgroups(text: str) -> int | str:
    """How many, or "sampled" for all that fit."""
    if text == "all":
        return "sampled"
    if not (text.isascii() and text.isdigit()) or not 1 <= int(text) <= MOST_WORKGROUPS:
        raise argparse.ArgumentTypeError(f"{text} is not a number of workgroups, 1 to {MOST_WORKGROUPS}, nor all")
    return int(text)
