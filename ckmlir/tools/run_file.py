"""A code object or MLIR module run on the simulator from a description of its launch, with or without checkers."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from ckmlir.codeobject.code_object import GENERIC
from ckmlir.errors import CkmlirError
from ckmlir.files import check_writable
from ckmlir.records import plain
from ckmlir.sim.checks import Finding
from ckmlir.targets import TARGETS, get_target
from ckmlir.tools.check_report import RunReport, run_lines
from ckmlir.tools.cli import DISAGREES
from ckmlir.tools.code_file import read_code_object
from ckmlir.tools.launch_description import LaunchDescription, read_launch
from ckmlir.tools.progress import progress

if TYPE_CHECKING:
    from ckmlir.codeobject import CodeObject
    from ckmlir.sim import Simulator
    from ckmlir.tools.launch_arrays import Passed


class FileRun(Struct):
    """What became of a run: its report, and its findings beside those of the code."""

    report: RunReport
    findings: list[Finding]


def run_file(options: argparse.Namespace) -> int:
    """`ckmlir run FILE --launch …`: the exit status, after a report on standard output."""
    for name, given in _for_operators(options).items():
        if given:
            raise CkmlirError(f"{name} is for operators; with --launch, {options.operator} and its launch say all")
    code_object = read_for_launch(Path(options.operator), options.arch)
    launch = read_launch(options.launch, code_object, options.kernel)
    run = run_launch(code_object, launch, options.check)
    faults = [one for one in run.findings if one.is_fault]
    if options.json:
        about = {"kernel": launch.kernel, "ok": not faults, "findings": [one.to_dict() for one in run.findings]}
        print(json.dumps({**about, "run": plain(run.report)}, allow_nan=False))
    else:
        where = f"{launch.kernel} of {options.operator} on the simulator of {code_object.target}"
        print("\n".join([where, *run_lines(run.report), *map(str, faults)]))
    return DISAGREES if faults else 0


def read_for_launch(path: Path, chip: str | None) -> CodeObject:
    """The code object of a file, for a chip that the simulator knows. Raises CkmlirError."""
    code_object = read_code_object(path, chip)
    if code_object.target in GENERIC:
        chips = "|".join(GENERIC[code_object.target])
        raise CkmlirError(f"{path}: made for {code_object.target}; say on which chip it runs: --arch {chips}")
    if code_object.target not in TARGETS:
        raise CkmlirError(f"{path}: made for {code_object.target}; expected {'|'.join(TARGETS)}")
    return code_object


def run_launch(code_object: CodeObject, launch: LaunchDescription, checks: frozenset[str]) -> FileRun:
    """Run a launch under checkers. Raises CkmlirError for what cannot be launched."""
    from ckmlir.sim import Simulator
    from ckmlir.tools.launch_arrays import pass_arguments

    target = get_target(code_object.target)
    simulator = Simulator(target.name, seed=launch.seed, checks=checks)
    passed = pass_arguments(launch, simulator, target)
    check_writable([one.save for one, _, _ in passed.arrays.values() if one.save is not None])
    with progress(f"running {launch.kernel}" + " under the checkers" * bool(checks)):
        return _run(simulator, code_object, launch, passed)


def _run(simulator: Simulator, code_object: CodeObject, launch: LaunchDescription, passed: Passed) -> FileRun:
    from ckmlir.sim import CheckFailure, SimulationError, UnsupportedInstruction

    findings: list[Finding] = []
    statistics = None
    try:
        statistics = simulator.launch(
            launch.told(code_object), launch.kernel, launch.grid, launch.block, passed.values, launch.dynamic_lds
        )
        findings = list(simulator.remarks)
    except UnsupportedInstruction:
        raise
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
    return FileRun(RunReport.of(launch.where, launch.grid, launch.block, ended, counts, arrays, saved), findings)


def _for_operators(options: argparse.Namespace) -> dict[str, object]:
    """Options of `ckmlir run` that a launch description makes no sense of, with what was given."""
    return {
        "key=value": options.keys, "--schedule": options.schedule, "--module": options.module,
        "--pass-after": options.pass_after,
        "--input": options.input, "--output": options.output, "--guard": options.guard, "--trace": options.trace,
        "--seed": options.seed, "--values": options.values != "ordinary", "--jobs": options.jobs != 1,
        "--no-check": options.no_check, f"--device {options.device}": options.device not in ("auto", "sim"),
    }  # fmt: skip
