"""From an operator's specification to a code object: the whole chain in one call."""

import re
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ckmlir.compiled_kernel import CompiledKernel
from ckmlir.errors import CkmlirError, as_annotated
from ckmlir.targets import Target

if TYPE_CHECKING:
    from ckmlir.codeobject import CodeObject
    from ckmlir.dialect.schedule import Schedule
    from ckmlir.lang import Kernel
    from ckmlir.lowering.codeobject import CompiledObject
    from ckmlir.mlir import ir
    from ckmlir.ops.operator import Operator
    from ckmlir.passes.ir_printing import IrPrinter
    from ckmlir.passes.pipeline import PipelineRun

IR_STAGES = ("tile", "fragments", "pipelined", "scheduled", "rocdl")
OBJECT_STAGES = ("llvm", "asm", "obj")
KEEPABLE = (*IR_STAGES, *OBJECT_STAGES)
"""What can be kept of the way to a code object, in its order."""
# Where something lies; every access has them.
_PLACES = ("ck.make_view", "ck.make_window", "ck.move_window", "ck.with_digits")
_TILE = re.compile(r"!ck\.(?:tile|lds|window)<(?:[^\[]*, )?\[([^\]]*)\], (\w+)")


NAMED = 3
"""Findings that a refusal names."""


class ScheduleRefused(CkmlirError):
    """The schedule checker refutes a kernel; the text says why."""


@as_annotated(CkmlirError)
def compile_kernel(
    operator: "Operator[Any, Any]",
    spec: Any,
    target: Target,
    *,
    keep: Collection[str] = (),
    print_after: "Collection[str] | IrPrinter" = (),
    verify_each: bool = False,
) -> CompiledKernel:
    """Compile the kernel of a specification for a chip.

    Args:
        keep: names of `KEEPABLE` to return as artifacts.
        print_after: passes (or "all") after which the IR goes to standard error, or who is shown it behind every pass.
        verify_each: verify the IR after every pass; slower, for work on the compiler.

    Raises:
        CkmlirError: an argument is of another kind; the errors below are such errors too.
        RequestError: the chip cannot run it; the text gives every reason.
        PipelineFailure: a pass refuses the program.
        CodeGenerationError, LinkerNotFound, LinkError: from the backend and the linker.
    """
    from ckmlir.ops.operator import require_valid
    from ckmlir.passes.pipeline import PipelineFailure

    require_valid(operator, spec, target)
    start = time.perf_counter()
    kernel = operator.build(spec, target)
    traced = time.perf_counter() - start
    try:
        compiled = compile_traced(kernel, keep=keep, print_after=print_after, verify_each=verify_each)
    except PipelineFailure as failure:
        # Keeping every pass's input costs time, so it is done a second time only where there is something to replay.
        compile_traced(operator.build(spec, target), verify_each=verify_each, reproducer=True)
        raise failure  # it did not fail again
    compiled.timings = {"trace": traced, **compiled.timings}
    return compiled


@as_annotated(CkmlirError)
def compile_traced(
    kernel: "Kernel",
    *,
    keep: Collection[str] = (),
    print_after: "Collection[str] | IrPrinter" = (),
    verify_each: bool = False,
    reproducer: bool = False,
) -> CompiledKernel:
    """Compile a kernel that was traced with `ckmlir.lang`; its module is used up.

    With `reproducer`, a pass that refuses the kernel leaves its input and the command that replays it in a file. The
    other options and the errors are those of `compile_kernel`.
    """
    unknown = sorted(set(keep) - set(KEEPABLE))
    if unknown:
        raise CkmlirError(f"cannot keep {', '.join(unknown)}; there are {', '.join(KEEPABLE)}")

    from ckmlir.dialect.context import exclusive
    from ckmlir.lang import Kernel
    from ckmlir.passes.pipeline import PIPELINE, run_pipeline

    if not isinstance(kernel, Kernel):
        raise CkmlirError(f"a kernel is what @kernel(…) makes of a function, got {kernel!r:.80}")
    with exclusive(kernel.module.context):
        run = run_pipeline(
            kernel.module,
            PIPELINE,
            verify_each=verify_each,
            print_after=print_after,
            keep=keep,
            dump_on_failure=reproducer,
        )
        return finish(kernel.module, kernel.target.name, {kernel.name: kernel.arguments}, (run,), keep)


@as_annotated(CkmlirError)
def compile_scheduled(
    operator: "Operator[Any, Any]",
    spec: Any,
    target: Target,
    schedule: "Schedule | None" = None,
    *,
    added: Mapping[str, Sequence[str]] | None = None,
    keep: Collection[str] = (),
    print_after: "Collection[str] | IrPrinter" = (),
) -> CompiledKernel:
    """Compile the kernel of a specification with its main loop under another schedule, or by further passes, and prove
    what becomes of it right.

    Args:
        schedule: of the main loop; by default the kernel's own.
        added: pass of the pipeline, or `pipeline.START` -> what runs behind it, as text: ours, MLIR's, or plug-ins
            (`docs/plug_ins.md`).
            What passes do before `ck-pipeline-loops` is taken for what the kernel means; the schedule checker compares
            with that what the kernel is before it is lowered.
        keep, print_after: as `compile_kernel`.

    Raises:
        RequestError: the chip cannot run it.
        ScheduleRefused: it has no loop, or the schedule checker refutes what was made.
        PipelineFailure: a pass refuses the schedule, or an added one fails.
        CodeGenerationError, LinkerNotFound, LinkError: from the backend and the linker.
    """
    from ckmlir.dialect.context import exclusive
    from ckmlir.mlir import ir
    from ckmlir.ops.operator import require_valid
    from ckmlir.passes.check_schedule import check_module
    from ckmlir.passes.pipeline import FRAGMENTING, LOWERING, SCHEDULING, run_pipeline, with_added

    require_valid(operator, spec, target)
    start = time.perf_counter()
    kernel = operator.build(spec, target)
    traced = time.perf_counter() - start
    module, context = kernel.module, kernel.module.context
    runs = []
    with exclusive(context):
        if schedule is not None:
            put_schedule(kernel, spec.main_loop, schedule)
        for part in (FRAGMENTING, SCHEDULING, LOWERING):
            text = module.operation.get_asm(enable_debug_info=True) if part is SCHEDULING else ""
            reference = ir.Module.parse(text) if text else None
            steps = with_added(part, added or {})
            runs.append(run_pipeline(module, steps, print_after=print_after, keep=keep, dump_on_failure=False))
            if reference is not None and (findings := check_module(module, reference)):
                what = f"schedule {schedule.name}" if schedule else "what the added passes made"
                more = [f"and {len(findings) - NAMED} more findings"] if len(findings) > NAMED else []
                raise ScheduleRefused(f"{what} is not correct: {'; '.join([*map(str, findings[:NAMED]), *more])}")
        compiled = finish(module, target.name, {kernel.name: kernel.arguments}, runs, keep)
    compiled.timings = {"trace": traced, **compiled.timings}
    return compiled


def put_schedule(kernel: "Kernel", loop: int, schedule: "Schedule") -> None:
    """Give a loop of a traced kernel, by its place among all, another schedule; its context is entered.

    Raises:
        ScheduleRefused: the kernel has no loop.
    """
    from ckmlir.dialect.build import string
    from ckmlir.dialect.loop import SCHEDULE
    from ckmlir.passes.walk import loops_of

    loops = loops_of(kernel.module)
    if not loops:
        raise ScheduleRefused(f"{kernel.name} has no loop to schedule")
    loops[loop].attributes[SCHEDULE] = string(str(schedule))


@as_annotated(CkmlirError)
def compile_module(
    module: "ir.Module",
    *,
    begin: str = "",
    keep: Collection[str] = (),
    print_after: "Collection[str] | IrPrinter" = (),
) -> CompiledKernel:
    """Compile the kernels of a module at any stage of the pipeline; the module is used up.

    What the module has already is left as it is, what it lacks (distributions, waits, barriers) is added; `begin` names
    the pass to begin with instead, for IR that is to be taken as it stands.

    Args:
        keep, print_after: as `compile_kernel`.

    Raises:
        CkmlirError: the module has no kernel or names no chip, or `begin` is not a row of the pipeline.
        PipelineFailure: a pass refuses the program.
        CodeGenerationError, LinkerNotFound, LinkError: from the backend and the linker.
    """
    from ckmlir.dialect.context import exclusive
    from ckmlir.errors import suggest
    from ckmlir.passes.pipeline import PIPELINE, run_pipeline
    from ckmlir.passes.walk import argument_names, kernel_names, named_chip

    rows = [str(step.run) for step in PIPELINE]
    named = [row for row in rows if row.startswith("ck-")]
    if begin and begin not in named:
        raise CkmlirError(f"{begin}: no pass of the pipeline; {suggest(begin, named)}")
    with exclusive(module.context):
        chip, names = named_chip(module), kernel_names(module)
        if chip is None:
            raise CkmlirError('no chip is named: expected one gpu.module with #rocdl.target<chip = "…">')
        if not names:
            raise CkmlirError("its gpu.module has no kernel")
        arguments = argument_names(module)
        steps = PIPELINE[rows.index(begin) if begin else 0 :]
        run = run_pipeline(module, steps, print_after=print_after, keep=keep, dump_on_failure=False)
        return finish(module, chip.name, {name: arguments.get(name, ()) for name in names}, (run,), keep)


def finish(
    module: "ir.Module",
    target: str,
    kernels: Mapping[str, Sequence[str]],
    runs: "Sequence[PipelineRun]",
    keep: Collection[str] = (),
) -> CompiledKernel:
    """The code object of a module behind the pipeline, whose context is entered.

    Args:
        kernels: the names of each kernel's arguments; the first kernel gives the result its name.
        runs: of the pipeline, for their artifacts and timings.

    Raises:
        CodeGenerationError, LinkerNotFound, LinkError: from the backend and the linker.
    """
    from ckmlir.lowering.accumulator_form import has_accumulator_form
    from ckmlir.lowering.codeobject import emit_code_object
    from ckmlir.lowering.forgotten_states import doubtful
    from ckmlir.lowering.held_workgroups import emitted_as_held
    from ckmlir.lowering.resident_waves import spilled, wished, withdraw
    from ckmlir.lowering.whole_turns import emitted_with_room

    kept = set(keep) & set(OBJECT_STAGES)

    def emit() -> "CompiledObject":
        return emit_code_object(module, target, keep=kept, argument_names=kernels)

    compiled = emitted_with_room(module, emit)
    if wished(module) and spilled(compiled.code_object):
        withdraw(module)
        compiled = emit()
    compiled = emitted_as_held(module, emit, compiled)
    places = doubtful(module) if compiled.multiplies else None
    states = _missing_states(compiled.code_object, kernels) if places else 0
    if places and states:
        places.wait(states)
        compiled = emit()
    if states or has_accumulator_form(module):
        for name in kernels:
            _check_distances(compiled.code_object, name)
    timings: dict[str, float] = {}
    artifacts: dict[str, str | bytes] = {}
    for run in runs:
        timings.update(run.timings)
        artifacts.update(run.artifacts)
    artifacts |= compiled.artifacts
    return CompiledKernel(compiled.hsaco, next(iter(kernels)), target, artifacts, {**timings, **compiled.timings})


def _missing_states(code_object: "CodeObject", kernels: Iterable[str]) -> int:
    """The most wait states that are missing anywhere in these kernels."""
    from ckmlir.sim.analysis import missing_states

    return max((missing_states(code_object, name) for name in kernels), default=0)


def _check_distances(code_object: "CodeObject", kernel: str) -> None:
    """Raise CodeGenerationError where instructions lie closer together than the chip allows.

    LLVM inserts wait states, but not around the inline assembly that accumulators in registers of their own take, and
    not all of them behind branches.
    """
    from ckmlir.lowering.codeobject import CodeGenerationError
    from ckmlir.sim.analysis import check_hazards

    found = [one for one in check_hazards(code_object, kernel) if one.is_fault]
    if found:
        raise CodeGenerationError(
            f"LLVM placed instructions closer together than the chip allows, in {len(found)} places; "
            f"use a smaller block. The first: {found[0]}"
        )


def toolchain() -> dict[str, str]:
    """What code depends on besides the specification and this package's sources: versions, and the linker."""
    from ckmlir import __version__
    from ckmlir.bindings import choose, version
    from ckmlir.lowering.linker import identity

    bindings = choose()
    return {"ckmlir": __version__, "bindings": f"{bindings} {version(bindings)}", "linker": identity()}


def tile_operations(operator: "Operator[Any, Any]", spec: Any, target: Target) -> dict[tuple[str, int], str]:
    """The tile operations of each line of a kernel, (file, line) -> text such as "load 128x64 f16 (stage load)".

    Instructions of a code object know their lines, and so the operations that they come from. Nothing is compiled.

    Raises:
        RequestError: the chip cannot run it.
    """
    from ckmlir.diagnostics import position_of
    from ckmlir.dialect.context import exclusive
    from ckmlir.ops.operator import require_valid
    from ckmlir.passes.walk import functions, operations

    require_valid(operator, spec, target)
    kernel = operator.build(spec, target)
    found: dict[tuple[str, int], dict[str, None]] = {}
    with exclusive(kernel.module.context):
        for function in functions(kernel.module):
            for op in operations(function):
                place = position_of(op.location)
                if place is not None and op.name.startswith("ck.") and op.name not in _PLACES:
                    found.setdefault((place.file, place.line), {})[_described(op)] = None
    return {place: "; ".join(texts) for place, texts in found.items()}


def _described(op: Any) -> str:
    """An operation of the ck dialect with the shape and element type of what it makes or, making none, takes."""
    types = [str(value.type) for value in (*op.results, *op.operands)]
    tile = next(filter(None, map(_TILE.match, types)), None)
    shape = f" {tile[1].replace(', ', 'x')} {tile[2]}" if tile else ""
    stage = f" (stage {op.attributes['ck.stage'].value})" if "ck.stage" in op.attributes else ""
    return f"{op.name.removeprefix('ck.')}{shape}{stage}"
