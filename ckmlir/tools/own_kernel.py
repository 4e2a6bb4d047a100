"""The options --schedule, --pass-after and --module: an operator's own kernel under another schedule, with passes of
others, or made of IR in a file.

Its other kernels, its arrays, its launch and what its results are compared with stay as they are.
"""

from __future__ import annotations

import argparse
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ckmlir.errors import CkmlirError, suggest
from ckmlir.ops.operator import Operator
from ckmlir.ops.spec import Spec
from ckmlir.tools.code_file import MODULE, compile_file
from ckmlir.tools.progress import progress

if TYPE_CHECKING:
    from ckmlir.compiled_kernel import CompiledKernel
    from ckmlir.dialect.schedule import Schedule
    from ckmlir.passes.ir_printing import IrPrinter
    from ckmlir.tools.requested import Request

CHANGED = "+"
"""What statements begin with that change the kernel's own schedule."""


def add_own_kernel_arguments(parser: argparse.ArgumentParser, *, modules: bool = True) -> None:
    """Declare the options, or without `modules` --schedule alone."""
    chosen = parser.add_mutually_exclusive_group()
    chosen.add_argument(
        "--schedule", metavar="NAME|FILE|TEXT|+STATEMENTS",
        help="the kernel's main loop under another schedule (docs/schedules.md), or its own with other statements "
        "('+waits drain'), which is proved",
    )  # fmt: skip
    if not modules:
        return
    chosen.add_argument(
        "--module", type=Path, metavar=f"FILE{MODULE}", help="the kernel of this MLIR, of any stage (--keep)"
    )
    parser.add_argument(
        "--pass-after", action="append", default=[], metavar="NAME=PASS",
        help="run a pass, ours or a plug-in's (docs/plug_ins.md), behind NAME of the pipeline, or `start`; "
        "the outcome is proved",
    )  # fmt: skip


def with_named_schedule(
    operator: Operator[Any, Any], keys: Mapping[str, object], text: str | None
) -> Mapping[str, object]:
    """An operator's keys, with the one for its schedule where --schedule gives a name. Raises CkmlirError."""
    if text is None or text not in named_schedules(operator):
        return keys
    if "schedule" in keys:
        raise CkmlirError(f"--schedule {text} and schedule={keys['schedule']} exclude each other; leave one out")
    return {**keys, "schedule": text}


def named_schedules(operator: Operator[Any, Any]) -> Collection[str]:
    """The names that an operator's key `schedule` takes; none where it has no such key."""
    key = next((key for key in operator.keys if key.name == "schedule"), None)
    found: Collection[str] = getattr(key, "choices", ())
    return found


def read_schedule(request: Request, text: str) -> Schedule:
    """The schedule in a file, or written out; or the kernel's own with statements behind a `+`.

    Raises CkmlirError where it is none of these.
    """
    from ckmlir.dialect.schedule import Schedule

    operator, problem, target = request
    if text.startswith(CHANGED):
        from ckmlir.scheduling import Workbench

        try:
            return Workbench.of(operator, operator.spec(problem, target), target).schedule.changed(text[1:])
        except ValueError as error:
            raise CkmlirError(f"--schedule {text}: {error}") from None
    try:
        is_file = Path(text).is_file()
    except OSError:  # too long for a name
        is_file = False
    try:
        return Schedule.parse(Path(text).read_text("utf-8") if is_file else text)
    except (ValueError, OSError, UnicodeDecodeError) as error:
        if is_file:
            raise CkmlirError(f"--schedule {text}: {error}") from None
        if not named_schedules(operator):
            raise CkmlirError(f"--schedule: {operator.name} has no loop with a schedule") from None
        raise CkmlirError(f"--schedule {text}: neither a schedule's name nor a file, and as text: {error}") from None


def own_kernel(
    request: Request,
    options: argparse.Namespace,
    *,
    keep: Collection[str] = (),
    print_after: Collection[str] | IrPrinter = (),
) -> CompiledKernel | None:
    """The kernel that --schedule or --module ask for; None where the operator's own schedule decides.

    Raises:
        CkmlirError: the schedule or the module cannot be used; or the module is for another kernel or chip.
    """
    operator, problem, target = request
    if getattr(options, "library", None) is not None and (options.module or options.schedule or options.pass_after):
        raise CkmlirError("--library takes kernels as they are; leave out --schedule, --pass-after and --module")
    if options.module is not None:
        if options.pass_after:
            raise CkmlirError("--pass-after begins with the operator's kernel; leave out --module, or use ckmlir-opt")
        spec = operator.spec(problem, target)
        compiled = compile_file(options.module, keep=keep, print_after=print_after)
        if (compiled.kernel_name, compiled.target) != (spec.name, target.name):
            raise CkmlirError(
                f"--module {options.module}: {compiled.kernel_name} for {compiled.target}; these keys take {spec.name} "
                f"for {target.name}"
            )
        return compiled
    schedule, added = own_schedule(request, options), added_passes(options.pass_after)
    if schedule is None and not added:
        return None
    return scheduled_kernel(request, schedule, added=added, keep=keep, print_after=print_after)


def added_passes(texts: Sequence[str]) -> dict[str, list[str]]:
    """What --pass-after says: pass of the pipeline -> what runs behind it. Raises CkmlirError."""
    if not texts:
        return {}
    from ckmlir.passes.pipeline import PIPELINE, START
    from ckmlir.passes.syntax import parse_pass

    rows = [START, *(str(step.run) for step in PIPELINE)]
    found: dict[str, list[str]] = {}
    for text in texts:
        name, equals, added = text.partition("=")
        if not equals or not added:
            form = f"NAME=PASS, such as {rows[4]}=module:Class{{option=value}}"
            raise CkmlirError(f"--pass-after {text}: expected {form}")
        if name not in rows:
            raise CkmlirError(f"--pass-after {text}: no pass {name} in the pipeline; {suggest(name, rows)}")
        parse_pass(added)
        found.setdefault(name, []).append(added)
    return found


def own_schedule(request: Request, options: argparse.Namespace) -> Schedule | None:
    """The schedule that --schedule gives as a file or text; None where the operator's own decides.

    Raises CkmlirError.
    """
    if options.schedule is None or options.schedule in named_schedules(request.operator):
        return None
    return read_schedule(request, options.schedule)


def chosen_keys(request: Request, spec: Spec, options: argparse.Namespace) -> dict[str, object]:
    """What the operator chose where keys leave it open, but for what --schedule and --module decide."""
    chosen = request.operator.chosen(request.problem, spec)
    schedule, module = getattr(options, "schedule", None), getattr(options, "module", None)
    if module is not None:
        return {"module": str(module)}
    if schedule is None or schedule in named_schedules(request.operator):
        return chosen
    if schedule.startswith(CHANGED):
        return {**chosen, "schedule": f"{chosen.get('schedule', '')} {schedule}".strip()}
    return {**chosen, "schedule": read_schedule(request, schedule).name}


def scheduled_kernel(
    request: Request,
    schedule: Schedule | None,
    *,
    added: Mapping[str, Sequence[str]] | None = None,
    keep: Collection[str] = (),
    print_after: Collection[str] | IrPrinter = (),
) -> CompiledKernel:
    """An operator's own kernel under a schedule, or with further passes, proved. Raises CkmlirError where it is refused
    or refuted.
    """
    from ckmlir.compiler import compile_scheduled

    operator, problem, target = request
    spec = operator.spec(problem, target)
    what = f"compiling under {schedule.name}" if schedule else f"compiling {spec.name} with further passes"
    with progress(what, printing=bool(print_after)):
        return compile_scheduled(
            operator, spec, target, schedule, added=added, keep=keep, print_after=print_after
        )
