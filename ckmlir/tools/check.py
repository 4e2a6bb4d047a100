"""`ckmlir check`: what is wrong with the kernels of a code object, whoever compiled it.

Without --launch the code alone is read: can it be decoded, does it wait for what it uses, does it keep the chip's
distances. With a launch description (docs/checking_your_kernels.md) the kernel also runs on the simulator under all
checkers. Exit status 0: nothing found; 1: findings; 2: a bad request.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from ckmlir.codeobject import CodeObject
from ckmlir.errors import CkmlirError
from ckmlir.files import check_writable, write_file
from ckmlir.sim.checks import CHECKERS, Finding, parse_checks
from ckmlir.targets import TARGETS, get_target
from ckmlir.tools.check_report import FORMATS, KernelReport, Report, RunReport
from ckmlir.tools.cli import DISAGREES, Parser
from ckmlir.tools.inspect import read_code_object
from ckmlir.tools.progress import progress

if TYPE_CHECKING:
    from ckmlir.sim import Simulator
    from ckmlir.tools.launch_arrays import Passed
    from ckmlir.tools.launch_description import LaunchDescription

STATIC = ("wait", "hazard")
"""The checkers that need no launch."""
NOT_PROVEN = "not proven"


def add_arguments(parser: Parser) -> None:
    add = parser.add_argument
    add("file", metavar="FILE", type=Path, help="a code object for gfx90a, gfx942 or gfx950 (.hsaco, .co, .o)")
    add("--kernel", metavar="K", help="one of its kernels; without --launch all of them are checked")
    add("--launch", metavar="launch.json", type=Path, help="a launch to run under the checkers")
    add(
        "--check", type=_checks, default=parse_checks("all"), metavar="all|name,…",
        help=f"which checkers: {', '.join(CHECKERS)} [all]; those but {' and '.join(STATIC)} need --launch",
    )  # fmt: skip
    add("--format", choices=FORMATS, default="text", help="of the report; sarif is SARIF 2.1.0 [text]")
    add("-o", "--output", type=Path, metavar="FILE", help="write the report there [standard output]")


def execute(options: argparse.Namespace) -> int:
    if options.output is not None:
        check_writable([options.output])
    code_object = read_code_object(options.file)
    if code_object.target not in TARGETS:
        raise CkmlirError(f"{options.file}: made for {code_object.target}; expected {'|'.join(TARGETS)}")
    if not code_object.kernels:
        raise CkmlirError(f"{options.file}: there are no kernels in it")
    if options.launch is not None:
        kernels = [_launched(code_object, options)]
    else:
        names = list(code_object.kernels) if options.kernel is None else [_name(code_object, options)]
        with progress("reading the code"):
            kernels = [_read(code_object, name, options.check) for name in names]
    report = Report(str(options.file), code_object.target_id, tuple(kernels))
    text = FORMATS[options.format](report)
    if options.output is None:
        print(text)
    else:
        write_file(options.output, text.encode() + b"\n")
    return 0 if report.is_clean else DISAGREES


def _checks(text: str) -> frozenset[str]:
    try:
        return parse_checks(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


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


@dataclass
class _Run:
    """What became of a run: its report, and its findings beside those of the code."""

    report: RunReport
    findings: list[Finding]


def _launched(code_object: CodeObject, options: argparse.Namespace) -> KernelReport:
    """What a run under the checkers shows, and the code where the run did not come."""
    from ckmlir.sim import Simulator
    from ckmlir.tools.launch_arrays import pass_arguments
    from ckmlir.tools.launch_description import read_launch

    launch = read_launch(options.launch, code_object, None if options.kernel is None else _name(code_object, options))
    target = get_target(code_object.target)
    simulator = Simulator(target.name, seed=launch.seed, checks=options.check)
    passed = pass_arguments(launch, simulator, target)
    check_writable([one.save for one, _, _ in passed.arrays.values() if one.save is not None])
    with progress(f"running {launch.kernel} under the checkers"):
        run = _run(simulator, code_object, launch, passed)
    checked = ("decode", *(name for name in CHECKERS if name in options.check))
    return KernelReport(launch.kernel, checked, _decoding(run.findings), run.report)


def _run(simulator: Simulator, code_object: CodeObject, launch: LaunchDescription, passed: Passed) -> _Run:
    from ckmlir.sim import CheckFailure, SimulationError, UnsupportedInstruction

    findings: list[Finding] = []
    statistics = None
    try:
        statistics = simulator.launch(
            code_object, launch.kernel, launch.grid, launch.block, passed.values, launch.dynamic_lds
        )
        findings = list(simulator.remarks)
    except UnsupportedInstruction as error:
        raise CkmlirError(" ".join(str(error).split())) from None
    except CheckFailure as failure:
        findings, statistics = [*failure.findings, *failure.remarks], failure.statistics
    except SimulationError as error:
        findings = [Finding("memory", " ".join(str(error).split()), launch.kernel, 0, "")]
    ended = statistics is not None
    saved = passed.save() if ended else []
    arrays = {name: passed.contents(name) for name in passed.arrays} if ended else {}
    counts = {} if statistics is None else {
        "workgroups": statistics.workgroups,
        "wave_instructions": statistics.wave_instructions,
        "bytes_read": statistics.bytes_read,
        "bytes_written": statistics.bytes_written,
    }  # fmt: skip
    return _Run(RunReport.of(launch.where, launch.grid, launch.block, ended, counts, arrays, saved), findings)
