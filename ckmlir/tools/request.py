"""What the commands share: operators, keys and chips from the command line; files, checked before long work."""

from __future__ import annotations

import argparse
from pathlib import Path

from ckmlir.errors import CkmlirError
from ckmlir.ops import find_operator
from ckmlir.ops.plan import KernelStep, Plan, make_plan
from ckmlir.ops.request import parse_assignments, show
from ckmlir.ops.spec import Spec
from ckmlir.targets import TARGETS, Target, UnsupportedTarget, get_target
from ckmlir.tools.cli import Parser
from ckmlir.tools.code_file import is_code_file
from ckmlir.tools.own_kernel import chosen_keys, with_named_schedule
from ckmlir.tools.requested import Request


def checks_of(text: str) -> frozenset[str]:
    """The checkers that the text of --check names. Raises ArgumentTypeError."""
    from ckmlir.sim.checks import parse_checks

    try:
        return parse_checks(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def add_operator_arguments(
    parser: Parser, *, or_file: bool = False, or_module: bool = False, or_text: bool = False
) -> None:
    """OP, key=value … and --arch; the help describes the operator that is named, or says which there are.

    `or_file`: a code object or MLIR module may stand for the operator, with --launch in place of keys and --arch.
    `or_module`: an MLIR module may. `or_text`: the text of a distribution may.
    """
    place = "OP|FILE" if or_file else "OP|FILE.mlir" if or_module else "OP|TEXT" if or_text else "OP"
    about = "the operator, see below" + ("; or a code object or MLIR module, with --launch" if or_file else "")
    parser.add_argument("operator", metavar=place, help=about)
    parser.add_argument("keys", nargs="*", default=[], metavar="key=value", help="see below")
    required = not (or_file or or_module or or_text)
    parser.add_argument("--arch", required=required, metavar="A", help=f"the chip: {', '.join(TARGETS)}")
    if or_file:
        parser.add_argument("--launch", type=Path, metavar="launch.json", help="the launch of a file's kernel")
        parser.add_argument("--kernel", metavar="K", help="of a file with several")
    if not {"-h", "--help"}.isdisjoint(parser.words):  # the text takes longer than everything else here
        from ckmlir.tools.operator_help import operator_help

        parser.epilog = operator_help(parser.prog, parser.words)


def read_request(options: argparse.Namespace) -> Request:
    """The operator, problem and chip that the arguments of `add_operator_arguments` name."""
    if is_code_file(options.operator):
        raise CkmlirError(f"{options.operator}: a file needs --launch launch.json, which describes its launch")
    if options.arch is None:
        raise CkmlirError(f"the following arguments are required: --arch; expected {'|'.join(TARGETS)}")
    operator = find_operator(options.operator)
    target = find_target(options.arch)
    given = with_named_schedule(operator, parse_assignments(options.keys), getattr(options, "schedule", None))
    return Request(operator, operator.problem(**given), target)


def add_step_argument(parser: argparse.ArgumentParser) -> None:
    """--step, for commands that look at one kernel."""
    parser.add_argument(
        "--step", type=int, metavar="N", help="of an operator of several kernels the one in step N, as `list` counts"
    )


def at_step(request: Request, number: int | None) -> Request:
    """The request whose own kernel is that of a step of another, numbered from 1; None: the same request.

    Raises CkmlirError for a step that does not exist or launches no kernel.
    """
    if number is None:
        return request
    steps = make_plan(request.operator, request.problem, request.target).steps
    kernels = [place for place, step in enumerate(steps, 1) if isinstance(step, KernelStep)]
    if number not in kernels:
        what = f"is not a kernel but: {steps[number - 1]}" if 1 <= number <= len(steps) else "does not exist"
        right = f"expected {'|'.join(map(str, kernels))}" if kernels else "there is nothing to launch"
        raise CkmlirError(f"--step {number}: step {number} of {request.operator.name} {what}; {right}")
    step = steps[number - 1]
    assert isinstance(step, KernelStep)
    return Request(step.operator, step.problem, request.target)


def steps_text(plan: Plan) -> str:
    """The steps, a line each, numbered; "" where there is only a kernel."""
    if len(plan.steps) < 2:
        return ""
    return "\n".join(f"step {number}: {step}" for number, step in enumerate(plan.steps, 1))


def chosen_text(request: Request, spec: Spec, options: argparse.Namespace) -> str:
    """What the operator chose where the keys left it open, as a line: `chosen: schedule=compv4, …`; "" for nothing."""
    chosen = chosen_keys(request, spec, options)
    return "chosen: " + ", ".join(f"{key}={show(value)}" for key, value in chosen.items()) if chosen else ""


def find_target(name: str) -> Target:
    """The chip called `name`. Raises CkmlirError when there is none."""
    try:
        return get_target(name)
    except UnsupportedTarget as error:
        raise CkmlirError(f"--arch {name}: {error}") from None
