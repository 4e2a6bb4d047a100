"""The chain of passes from tile IR to ROCDL as one table, and the driver that runs it or any other list of passes."""

from __future__ import annotations

import time
import traceback
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, TextIO

from msgspec import Struct, field

from ckmlir import plug_ins
from ckmlir.diagnostics import Diagnostic, collect
from ckmlir.dialect.context import exclusive
from ckmlir.digests import digest_of
from ckmlir.errors import CkmlirError
from ckmlir.files import user_directory, write_atomically
from ckmlir.mlir import ir
from ckmlir.passes.framework import Pass, PassFailure
from ckmlir.passes.ir_printing import IrPrinter
from ckmlir.passes.pass_statistics import Counted, operation_counts
from ckmlir.passes.reproducer import Replay
from ckmlir.passes.syntax import parse_pass
from ckmlir.passes.walk import check_arguments, forget_lists, has_control, lists_kept


class Step(NamedTuple):
    """One row of the pipeline: a pass (or its pipeline text), and the name of what the IR is after it, if it has one.

    The names in `produces` are those of `--keep` and of a compiled kernel's artifacts.
    """

    run: Pass | str
    produces: str = ""


TO_LLVM = (
    "gpu.module(cse,convert-vector-to-llvm,"
    "convert-to-llvm{allow-pattern-rollback=0 filter-dialects=arith,cf,math,ub},reconcile-unrealized-casts)"
)
"""Vectors come first: some of what they are made of is arithmetic. The other dialects are converted together, by a
driver that never takes back what a pattern did: .7 to .9 of the time that a pass for each takes, for the same code."""

PIPELINE: tuple[Step, ...] = (
    Step("ck-infer-divisors"),
    Step("ck-turn-reads"),
    Step("ck-choose-paths"),
    Step("ck-infer-distributions", "tile"),
    Step("ck-split-tiles"),
    Step("ck-note-accesses"),
    Step("ck-record-promises"),
    Step("ck-carry-digits", "fragments"),
    Step("ck-pipeline-loops", "pipelined"),
    Step("ck-allocate-lds"),
    Step("ck-insert-barriers"),
    Step("ck-place-sched-barriers", "scheduled"),
    Step("ck-split-at-carries"),
    Step("ck-split-at-edges"),
    Step("ck-lower-fragments"),
    Step(TO_LLVM),
    Step("ck-reload-arguments"),
    Step("ck-settle-scalars"),
    Step("ck-settle-loads", "rocdl"),
)
"""From tile IR to ROCDL: each row a pass, and the name of what the IR is after it. Every row leaves what it made, and
what rows behind it make, as it is, so that the whole chain may be run on IR of any stage."""

_ROWS = [str(step.run) for step in PIPELINE]
FRAGMENTING = PIPELINE[: _ROWS.index("ck-pipeline-loops")]
SCHEDULING = PIPELINE[_ROWS.index("ck-pipeline-loops") : _ROWS.index("ck-split-at-carries")]
LOWERING = PIPELINE[_ROWS.index("ck-split-at-carries") :]
"""The pipeline in three: a schedule decides what the second does; the schedule checker reads what is between them."""


START = "start"
"""Where passes are added before the first row: behind the traced kernel."""


def with_added(steps: Iterable[Step], added: Mapping[str, Sequence[str]]) -> list[Step]:
    """Rows of the pipeline with further passes, as text, behind those that `added` names, or behind `START`."""
    found = []
    for step in steps:
        if step is PIPELINE[0]:
            found += [Step(one) for one in added.get(START, ())]
        found += [step, *(Step(one) for one in added.get(str(step.run), ()))]
    return found


class PipelineRun(Struct):
    """What a successful run leaves besides the changed module."""

    timings: list[tuple[str, float]] = field(default_factory=list)
    """(pass as text, seconds) in the order run, verification included."""
    artifacts: dict[str, str] = field(default_factory=dict)
    """IR text after the steps whose `produces` was asked for."""
    diagnostics: list[Diagnostic] = field(default_factory=list)
    """Warnings and remarks."""
    counted: list[Counted] = field(default_factory=list)
    """Operations before and behind each pass, where that was asked for."""

    def timing_report(self) -> str:
        """A table of milliseconds and share, one line a pass, and the total."""
        total = sum(seconds for _, seconds in self.timings)
        rows = [*self.timings, ("total", total)]
        return "\n".join(f"{1e3 * t:9.2f} ms {100 * t / total if total else 0:5.1f} %  {name}" for name, t in rows)


class PipelineFailure(CkmlirError):
    """A pass refused the program, broke the IR, or stopped with an unexpected exception (then the cause is attached).

    `step` is the pass as text; `diagnostics` say why, the last of them where the reproducer is; `reproducer` is the
    file that replays the failure, None where not asked for or not possible.
    """

    def __init__(self, step: str, diagnostics: list[Diagnostic], reproducer: Path | None) -> None:
        self.step, self.diagnostics, self.reproducer = step, diagnostics, reproducer
        super().__init__("\n".join(map(str, diagnostics)))


def run_pipeline(
    module: ir.Module,
    steps: Iterable[Step | Pass | str],
    *,
    verify_each: bool = False,
    print_after: Collection[str] | IrPrinter = (),
    keep: Collection[str] = (),
    dump_on_failure: bool | Path = True,
    stream: TextIO | None = None,
    count: bool = False,
) -> PipelineRun:
    """Run `steps` on `module`, in place, with its context entered.

    verify_each: verify the whole module after every pass.
    print_after: names of passes, or "all", after which the IR is printed to `stream` (stderr by default); or who prints
        instead, for example only what a pass changed.
    keep: names of `Step.produces` whose IR text is wanted.
    dump_on_failure: write the failing pass's input and replay command into this directory; True is the user's own
        directory of temporary files. Costs one clone of the module a pass.
    count: count the operations behind each pass.

    Raises PipelineFailure. After that the module is not to be used.
    """
    run = PipelineRun()
    context, checked, control = module.context, False, None
    prints = print_after if isinstance(print_after, IrPrinter) else IrPrinter(print_after, stream=stream)
    counts = operation_counts(module) if count else Counter[str]()
    # Entered once: to enter a context and to hand it what takes diagnostics costs as much as a small pass.
    with exclusive(context), collect(context) as collected, lists_kept():
        for step in steps:
            row = step if isinstance(step, Step) else Step(step)
            current = parse_pass(row.run) if isinstance(row.run, str) else row.run
            before = module.operation.clone() if dump_on_failure else None
            prints.begin(current, module)
            start = time.perf_counter()
            # What passes of others leave is always verified.
            verify, check = verify_each or bool(current.called), current.is_own and not checked
            if current.of_control and control is None:
                control = has_control(module)
            cause = _attempt(current, module, verify, check=check, spared=current.of_control and not control)
            if not current.is_own:
                control = None  # passes of ours make no loops where there are none
            checked = current.is_own
            run.timings.append((str(current), time.perf_counter() - start))
            if cause or any(one.severity == "error" for one in collected):
                raise _failure(current, collected, cause, before, verify_each, dump_on_failure) from cause
            run.diagnostics += collected
            collected.clear()
            if row.produces and row.produces in keep:
                run.artifacts[row.produces] = str(module)
            if count:
                run.counted.append(Counted(str(current), counts, counts := operation_counts(module)))
            prints.end(current, module)
    return run


def _attempt(
    current: Pass, module: ir.Module, verify: bool, *, check: bool, spared: bool
) -> Exception | SystemExit | None:
    """Apply one pass; the exception that stopped it, or None. `check`: it is the first to see what others made;
    `spared`: the module has nothing that it looks at."""
    try:
        if check:
            check_arguments(module)
        if not spared:
            current.apply(module)
            if not current.keeps_lists:
                forget_lists()
    except (Exception, SystemExit) as error:  # whatever it is becomes a PipelineFailure that keeps the input
        return error
    if verify:
        try:
            module.operation.verify()
        except ir.MLIRError:
            return InvalidAfterPass(f"the IR is not valid after {current}")
    return None


class InvalidAfterPass(Exception):
    """The pass returned, and left a module that does not verify; diagnostics say why."""


def _failure(
    current: Pass,
    diagnostics: list[Diagnostic],
    cause: Exception | SystemExit | None,
    before: ir.Operation | None,
    verify_each: bool,
    dump: bool | Path,
) -> PipelineFailure:
    reasons = list(diagnostics)
    if isinstance(cause, PassFailure):
        reasons.append(cause.diagnostic)
    elif isinstance(cause, InvalidAfterPass):
        whose = f"; this is a defect of the plug-in {current.called}" if current.called else ""
        reasons.append(Diagnostic("note", None, f"{cause}{whose}"))
    elif isinstance(cause, CkmlirError):
        reasons.append(Diagnostic("error", None, str(cause)))
    elif cause is not None and not isinstance(cause, ir.MLIRError):
        what = f"{type(cause).__name__}: {cause}"
        whose = f"the plug-in {current.called}" if current.called else "ckmlir"
        reasons.append(Diagnostic("error", None, f"{current} stopped with {what}; this is a defect of {whose}"))
    if not any(one.severity == "error" for one in reasons):
        reasons.append(Diagnostic("error", None, f"{current} failed and MLIR gave no reason"))
    path = None
    if before is not None:
        try:
            directory = dump if isinstance(dump, Path) else user_directory("reproducers")
            path = _reproduce(current, reasons, cause, before, verify_each, directory)
            note = f"{current} failed; its input and the command that replays it are in {path}"
        except (OSError, CkmlirError) as error:
            note = f"{current} failed; its input could not be written: {error}"
        reasons.append(Diagnostic("note", None, note))
    return PipelineFailure(str(current), reasons, path)


def _reproduce(
    current: Pass,
    reasons: list[Diagnostic],
    cause: Exception | SystemExit | None,
    before: ir.Operation,
    verify_each: bool,
    directory: Path,
) -> Path:
    """Write the file that replays a failure. The name follows from the content, so a failure met again adds no file."""
    ir_text = before.get_asm(enable_debug_info=True)
    digest = digest_of(f"{current}\n{ir_text}", 12)
    path = directory / f"{current.name.replace('/', '-')}-{digest}.mlir"
    folder = plug_ins.folder_of(current.called) if plug_ins.is_place(current.called) else ""
    replay = Replay(f"builtin.module({current})", verify_each, folder)
    lines = [f"Input of {current}, which failed. Replay it with", "", replay.command(path), ""]
    lines += [line for one in reasons for line in str(one).splitlines()]
    if cause is not None and not isinstance(cause, (CkmlirError, ir.MLIRError, InvalidAfterPass)):
        lines += [line for entry in traceback.format_exception(cause) for line in entry.splitlines()]
    header = "".join(f"// {line}".rstrip() + "\n" for line in lines)
    directory.mkdir(parents=True, exist_ok=True)
    write_atomically(path, (header + "\n" + ir_text).encode())
    return path
