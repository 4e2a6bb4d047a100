"""`ckmlir schedule`: the loop of a kernel as a scheduling problem; schedules for it, found, read, checked, measured.

Without options it prints what is known of the loop: its schedule and lower bounds. Exit status 1: --check found the
schedule wrong.
"""

from __future__ import annotations

import argparse
import json
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ckmlir.errors import CkmlirError, counted
from ckmlir.files import check_writable, write_file
from ckmlir.tools.cli import DISAGREES, Parser
from ckmlir.tools.progress import progress
from ckmlir.tools.request import (
    add_operator_arguments,
    add_step_argument,
    at_step,
    chosen_text,
    read_request,
)

if TYPE_CHECKING:
    from ckmlir.dialect.schedule import Schedule
    from ckmlir.scheduling import Evaluation, Workbench
    from ckmlir.scheduling.evaluate import ModelTime


def add_arguments(parser: Parser) -> None:
    add_operator_arguments(parser)
    add_step_argument(parser)
    add = parser.add_argument
    chosen = parser.add_mutually_exclusive_group()
    chosen.add_argument("--use", metavar="FILE", type=Path, help="the schedule in a file instead of the kernel's")
    chosen.add_argument(
        "--scheduler", metavar="NAME",
        help=f"one that this scheduler finds: {', '.join(_schedulers())}, or module:Class (docs/plug_ins.md)",
    )  # fmt: skip
    add("--buffers", type=int, metavar="N", help="LDS buffers that the scheduler may use (default: the kernel's)")
    add("--groups", type=int, metavar="N", help="groups of waves out of phase to schedule for (default: the kernel's)")
    add("--seed", type=int, default=0, metavar="N", help="decides between equals")
    add("--export", metavar="FILE", type=Path, help="write the scheduling problem as JSON")
    add("--print", dest="printed", action="store_true", help="print the schedule, every fragment by itself")
    add("--check", action="store_true", help="prove the scheduled kernel right, or say what is wrong")
    add("--evaluate", action="store_true", help="compile it: registers, LDS, the loop, a model of time, the order kept")
    add("--json", action="store_true", help="the evaluation as one JSON object")


def execute(options: argparse.Namespace) -> int:
    from ckmlir.passes.framework import PassFailure
    from ckmlir.scheduling import Workbench

    request = at_step(read_request(options), options.step)
    operator, problem, target = request
    if options.export is not None:
        check_writable([options.export])
    spec = operator.spec(problem, target)
    bench = Workbench.of(operator, spec, target)
    try:
        return _report(options, bench, (operator, problem), chosen_text(request, spec, options))
    except PassFailure as failure:
        raise CkmlirError(str(failure)) from None


def _report(options: argparse.Namespace, bench: Workbench, request: tuple[Any, Any], chosen: str) -> int:
    from ckmlir.scheduling import evaluate, lower_bounds

    schedule, remark = _chosen(options, bench)
    if options.export is not None:
        write_file(options.export, bench.problem.to_json().encode())
    if options.printed:
        print(bench.listed(schedule).pretty, end="")
    status = 0
    if options.check:
        with progress("checking"):
            findings = bench.compile(schedule, code=False).findings
        print("\n".join(findings) if findings else f"schedule {schedule.name}: proved for every trip count")
        status = DISAGREES if findings else 0
    if options.evaluate or options.json:
        with progress("compiling"):
            evaluation = evaluate(bench, schedule, request if find_spec("numba") else None)
        print(json.dumps(evaluation.to_dict()) if options.json else _text(evaluation))
    if not (options.printed or options.check or options.evaluate or options.json):
        bounds = lower_bounds(bench.problem.with_buffers(schedule.buffers))
        units = ", ".join(f"{unit} {cycles}" for unit, cycles in bounds.by_unit.items())
        print(f"{bench.name} for {bench.target.name}: {schedule}")
        if chosen:
            print(chosen)
        print(f"{len(bench.problem.nodes)} operations, {len(bench.problem.fragments)} of them fragments")
        print(f"no step is shorter than {bounds.interval} cycles: {bounds.resource} of unit {bounds.unit} ({units}), "
              f"{bounds.recurrence} round the loop")  # fmt: skip
    if remark:
        print(remark, file=sys.stderr)
    return status


def _schedulers() -> list[str]:
    from ckmlir import plug_ins
    from ckmlir.scheduling.schedulers import SCHEDULERS

    return [*SCHEDULERS, *plug_ins.installed(plug_ins.SCHEDULERS)]


def _chosen(options: argparse.Namespace, bench: Workbench) -> tuple[Schedule, str]:
    """The schedule asked for, and what its scheduler remarks."""
    from ckmlir.dialect.schedule import Schedule
    from ckmlir.dialect.schedule_problems import MOST_GROUPS

    if options.scheduler is not None:
        buffers = bench.problem.buffers if options.buffers is None else options.buffers
        if not 1 <= buffers <= 8:
            raise CkmlirError(f"--buffers {buffers}: 1 to 8 make sense")
        groups = bench.problem.groups if options.groups is None else options.groups
        if not 1 <= groups <= MOST_GROUPS:
            raise CkmlirError(f"--groups {groups}: 1 to {MOST_GROUPS} make sense")
        with progress(f"{options.scheduler} scheduling"):
            solution = bench.solve(options.scheduler, buffers=buffers, groups=groups, seed=options.seed)
        found = "; ".join(filter(None, (f"{options.scheduler}: a step of {solution.interval} cycles", solution.remark)))
        return solution.schedule, found if solution.interval is not None else ""
    if options.use is None:
        return bench.schedule, ""
    try:
        return Schedule.parse(options.use.read_text("utf-8")), ""
    except OSError as error:
        raise CkmlirError(f"--use {options.use}: {error.strerror or error}") from None
    except (ValueError, UnicodeDecodeError) as error:
        raise CkmlirError(f"--use {options.use}: {error}") from None


def _time(time: ModelTime | None) -> str:
    if time is None:
        return "nothing is launched" if find_spec("numba") else "needs pip install 'ckmlir[timing]'"
    told = f"{time.launch:,.0f} cycles the launch"
    if time.step is None:
        return f"{told}, which has no loop"
    each = ", ".join(f"{cycles:,.0f} with {count}" for count, cycles in enumerate(time.by_residency, 1))
    return f"{told}, {time.step:,.0f} a step; a workgroup's step: {each} on a compute unit"


def _text(one: Evaluation) -> str:
    loop = ", ".join(f"{count} {kind}" for kind, count in one.loop.items() if count)
    return "\n".join([
        f"registers      {one.vector_registers} vector ({one.accumulation_registers} of them accumulation), "
        f"{one.scalar_registers} scalar, {one.spills} spilled",
        f"LDS            {one.lds_bytes} bytes; {counted(one.waves_per_simd, 'wave')} a SIMD",
        f"steady loop    {loop}; {one.drains} waits for all of memory",
        f"matrix share   {100 * one.matrix_share:.1f} % of the issue slots; no step is shorter than "
        f"{one.interval_bound} cycles",
        f"model          {_time(one.time)}",
        f"fidelity       {one.fidelity}",
        f"checker        {'; '.join(one.findings) or 'proved'}",
    ])  # fmt: skip
