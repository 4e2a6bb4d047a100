"""`ckmlir check`: what is wrong with the kernels of a code object, from any compiler, or of an operator.

Without --launch the code alone is read: can it be decoded, does it wait for what it uses, does it keep the chip's
distances. With a launch description (docs/checking_your_kernels.md) the kernel also runs on the simulator under all
checkers. An operator runs on inputs of its own; what --schedule asks for is proved before.
Exit status 0: nothing found; 1: findings; 2: a bad request.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from msgspec.structs import replace

from ckmlir.codeobject import CodeObject
from ckmlir.errors import CkmlirError, suggest
from ckmlir.files import check_writable, write_file
from ckmlir.ops import OPERATORS
from ckmlir.sim.checks import CHECKERS, Finding
from ckmlir.tools.check_report import FORMATS, KernelReport, Report
from ckmlir.tools.cli import DISAGREES, Parser
from ckmlir.tools.code_file import is_code_file
from ckmlir.tools.launch_description import read_launch
from ckmlir.tools.own_kernel import add_own_kernel_arguments, own_kernel
from ckmlir.tools.progress import progress
from ckmlir.tools.request import add_operator_arguments, checks_of, read_request
from ckmlir.tools.run_file import read_for_launch, run_launch
from ckmlir.tools.timing_options import title_of

STATIC = ("wait", "copy_order", "hazard")
"""The checkers that need no launch."""
NOT_PROVEN = "not proven"


def add_arguments(parser: Parser) -> None:
    add = parser.add_argument
    add_operator_arguments(parser, or_file=True)
    add_own_kernel_arguments(parser)
    add(
        "--check", type=checks_of, default=checks_of("all"), metavar="all|name,…",
        help=f"which checkers: {', '.join(CHECKERS)} [all]; those but {', '.join(STATIC)} need --launch",
    )  # fmt: skip
    add("--format", choices=FORMATS, default="text", help="of the report; sarif is SARIF 2.1.0 [text]")
    add("-o", "--output", type=Path, metavar="FILE", help="write the report there [standard output]")


def execute(options: argparse.Namespace) -> int:
    if options.output is not None:
        check_writable([options.output])
    report = _of_operator(options) if options.operator in OPERATORS else _of_file(options)
    text = FORMATS[options.format](report)
    if options.output is None:
        print(text)
    else:
        write_file(options.output, text.encode() + b"\n")
    return 0 if report.is_clean else DISAGREES


def _of_file(options: argparse.Namespace) -> Report:
    """The kernels of a code object or MLIR module."""
    word: str = options.operator
    if not is_code_file(word) and "/" not in word and not Path(word).exists():
        raise CkmlirError(f"{word} is neither an operator nor a file; {suggest(word, OPERATORS)}")
    for name in ("keys", "schedule", "module", "pass_after"):
        if getattr(options, name):
            what = "key=value" if name == "keys" else f"--{name.replace('_', '-')}"
            raise CkmlirError(f"{what} is for operators, and {options.operator} is a file")
    code_object = read_for_launch(Path(options.operator), options.arch)
    if not code_object.kernels:
        raise CkmlirError(f"{options.operator}: there are no kernels in it")
    if options.launch is not None:
        kernels = [_launched(code_object, options)]
    else:
        names = list(code_object.kernels) if options.kernel is None else [_name(code_object, options)]
        with progress("reading the code"):
            kernels = [_read(code_object, name, options.check) for name in names]
    return Report(options.operator, code_object.target_id, tuple(kernels))


def _name(code_object: CodeObject, options: argparse.Namespace) -> str:
    """The kernel that --kernel names. Raises CkmlirError."""
    try:
        return code_object.kernel(options.kernel).name
    except ValueError as error:
        raise CkmlirError(f"--kernel {options.kernel}: {error}") from None


def _read(code_object: CodeObject, kernel: str, checks: frozenset[str]) -> KernelReport:
    """What the code alone shows."""
    from ckmlir.sim.checks.static import static_findings

    checked = [name for name in STATIC if name in checks]
    if not checked:
        raise CkmlirError(f"--check: {', '.join(sorted(checks))} watch a run; give --launch, or {'|'.join(STATIC)}")
    return KernelReport(kernel, ("decode", *checked), _decoding(static_findings(code_object, kernel, checked)))


def _decoding(findings: list[Finding]) -> tuple[Finding, ...]:
    """The findings, in which what cannot be followed, which every check of the code reports, is there once."""
    named = [
        replace(one, checker="decode") if not one.earlier and one.message.startswith(NOT_PROVEN) else one
        for one in findings
    ]
    return tuple(dict.fromkeys(named))


def _launched(code_object: CodeObject, options: argparse.Namespace) -> KernelReport:
    """What a run under the checkers shows, and the code where the run did not come."""
    from ckmlir.sim.analysis.missing_barriers import missing_barriers

    launch = read_launch(options.launch, code_object, None if options.kernel is None else _name(code_object, options))
    run = run_launch(code_object, launch, options.check)
    barriers = missing_barriers(code_object, launch.kernel, run.findings)
    return KernelReport(launch.kernel, _all_checked(options), _decoding(run.findings), run.report, tuple(barriers))


def _all_checked(options: argparse.Namespace) -> tuple[str, ...]:
    return "decode", *(name for name in CHECKERS if name in options.check)


def _of_operator(options: argparse.Namespace) -> Report:
    """An operator's kernels, run under the checkers on inputs of its own."""
    from ckmlir.ops.operator import require_valid
    from ckmlir.runtime import FindingsFault, open_device, run_operator

    if options.kernel is not None:
        raise CkmlirError(f"--kernel {options.kernel} is for files; an operator has its own kernel")
    request = read_request(options)
    operator, problem, target = request
    spec = operator.spec(problem, target)
    require_valid(operator, spec, target)
    compiled = own_kernel(request, options)
    device = open_device("sim", target, checks=options.check)
    findings: tuple[Finding, ...] = ()
    with progress(f"compiling and running {spec.name} under the checkers"):
        try:
            run_operator(operator, problem, operator.inputs(problem, target), target, device, compiled=compiled)
        except FindingsFault as fault:
            findings = _decoding(list(fault.findings))
    kernel = findings[0].kernel if findings else spec.name
    return Report(title_of(request, options), target.name, (KernelReport(kernel, _all_checked(options), findings),))
