"""`ckmlir compile`: the kernels that a problem needs, as code objects and in the forms on the way to them.

An operator's own kernel goes to FILE, those of its other steps beside it: to x.step3.hsaco where FILE is x.hsaco.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Collection
from contextlib import nullcontext, redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ckmlir.compiled_kernel import CompiledKernel
from ckmlir.compiler import IR_STAGES, compile_kernel
from ckmlir.errors import CkmlirError, suggest
from ckmlir.files import check_writable, is_standard_output, is_stream, write_file
from ckmlir.ops.operator import Operator, require_valid
from ckmlir.ops.plan import KernelStep, make_plan
from ckmlir.ops.spec import Spec
from ckmlir.runtime.scratch import require_registers
from ckmlir.targets import Target
from ckmlir.tools.cli import Parser
from ckmlir.tools.code_file import MODULE, compile_file
from ckmlir.tools.own_kernel import add_own_kernel_arguments, own_kernel
from ckmlir.tools.progress import progress
from ckmlir.tools.request import (
    add_operator_arguments,
    add_step_argument,
    at_step,
    chosen_text,
    read_request,
)
from ckmlir.tools.requested import Request

if TYPE_CHECKING:
    from ckmlir.passes.ir_printing import IrPrinter

ENDINGS = {**{name: f".{name}.mlir" for name in IR_STAGES}, "llvm": ".ll", "asm": ".s", "obj": ".o"}
"""What --keep takes -> the ending of its file, in place of that of -o."""

REPORTS = {
    "lds": "buffers, layouts, bank conflicts",
    "accesses": "loads and stores that are narrower than their arrays allow",
}


def add_arguments(parser: Parser) -> None:
    add_operator_arguments(parser, or_module=True)
    add_step_argument(parser)
    add_own_kernel_arguments(parser)
    parser.add_argument(
        "--from", dest="begin", metavar="PASS", default="",
        help="of a module: begin with this pass, what comes before it is taken as it stands [whatever is left to do]",
    )  # fmt: skip
    parser.add_argument("-o", dest="output", required=True, metavar="FILE", type=Path, help="the code object")
    kept = ", ".join(f"{name} ({ending})" for name, ending in ENDINGS.items())
    parser.add_argument("--keep", default="", metavar="NAME,…", help=f"write beside FILE: {kept}")
    parser.add_argument(
        "--print-after", action="append", default=[], metavar="PASS", help="IR to stderr; all: every pass"
    )
    parser.add_argument(
        "--html", type=Path, metavar="FILE", help="a page of the kernel's IR, pass by pass: what changed, and schedules"
    )
    listed = "; ".join(f"{name}: {what}" for name, what in REPORTS.items())
    parser.add_argument("--report", choices=tuple(REPORTS), help=f"what a pass decided; {listed}")
    parser.add_argument("--timing", action="store_true", help="compile anew and print the seconds of each step")


def execute(options: argparse.Namespace) -> int:
    with redirect_stdout(sys.stderr) if is_standard_output(options.output) else nullcontext():
        return _compile_module(options) if Path(options.operator).suffix == MODULE else _compile_operator(options)


def _compile_operator(options: argparse.Namespace) -> int:
    """What a request queues, or one step of it."""
    if options.begin:
        raise CkmlirError(f"--from {options.begin}: passes can be left out of a module, not of {options.operator}")
    request = at_step(read_request(options), options.step)
    kept = _kept(options.keep)
    kernels = _kernels(request, options.output, alone=options.step is not None)
    if is_stream(options.output) and (kept or len(kernels) > 1):
        what = "--keep names" if kept else f"{len(kernels)} kernels need"
        raise CkmlirError(f"{what} files beside that of -o, and {options.output} is not a regular file")
    beside = [] if options.html is None else [options.html]
    check_writable([*beside, *(path for output in kernels for path in (output, *_artifacts(output, kept).values()))])
    _check_passes(options.print_after)
    shown = _shown(options)
    own = own_kernel(request, options, keep=kept, print_after=shown)
    for output, (operator, spec) in kernels.items():
        is_own = output == options.output
        compiled = own if own and is_own else _compiled(
            operator, spec, request.target, kept, options, shown if is_own else options.print_after
        )  # fmt: skip
        if is_own and not own:
            require_registers(operator, request.problem, spec, compiled, request.target)
        _write(compiled, output, kept, options)
    _write_page(options, shown)
    if chosen := chosen_text(request, next(iter(kernels.values()))[1], options):
        print(chosen)
    if options.report == "lds":
        from ckmlir.scheduling import lds_report

        for operator, spec in kernels.values():
            print(lds_report(operator, spec, request.target))
    return 0


def _shown(options: argparse.Namespace) -> Collection[str] | IrPrinter:
    """Who is shown the IR behind every pass: --html's page, or the passes of --print-after."""
    after: list[str] = options.print_after
    if options.html is None:
        return after
    from ckmlir.passes.ir_page import IrPage

    return IrPage(after)


def _write_page(options: argparse.Namespace, shown: Collection[str] | IrPrinter) -> None:
    if options.html is not None:
        page: Any = shown
        write_file(options.html, page.render(" ".join([options.operator, *options.keys])).encode())


def _kernels(request: Request, output: Path, *, alone: bool) -> dict[Path, tuple[Operator[Any, Any], Spec]]:
    """The file of every kernel that the request takes: the operator's own, and beside it, unless that is wanted alone,
    those of its other steps, each once, with the number of the step in its name.
    """
    operator, problem, target = request
    spec = operator.spec(problem, target)
    require_valid(operator, spec, target)
    found: dict[Path, tuple[Operator[Any, Any], Spec]] = {output: (operator, spec)}
    if alone:
        return found
    for number, step in enumerate(make_plan(operator, problem, target, spec).steps, 1):
        if isinstance(step, KernelStep) and (step.operator, step.spec) not in found.values():
            found[output.with_suffix(f".step{number}{output.suffix}")] = (step.operator, step.spec)
    return found


def _artifacts(output: Path, kept: list[str]) -> dict[str, Path]:
    return {name: output.with_suffix(ENDINGS[name]) for name in kept}


def _compile_module(options: argparse.Namespace) -> int:
    """A module of any stage."""
    refused = {"key=value": options.keys, "--arch": options.arch, "--step": options.step,
               "--schedule": options.schedule, "--module": options.module, "--pass-after": options.pass_after,
               "--report lds": options.report == "lds"}  # fmt: skip
    for name, given in refused.items():
        if given:
            raise CkmlirError(f"{name} is for operators; {options.operator} is a module, which says all")
    kept = _kept(options.keep)
    if is_stream(options.output) and kept:
        raise CkmlirError(f"--keep names files beside that of -o, and {options.output} is not a regular file")
    check_writable([options.output, *_artifacts(options.output, kept).values()])
    _check_passes(options.print_after)
    file = Path(options.operator)
    if file in _artifacts(options.output, kept).values():
        raise CkmlirError(f"--keep would write over {file}; choose another name for -o")
    shown = _shown(options)
    compiled = compile_file(file, begin=options.begin, keep=kept, print_after=shown)
    _write(compiled, options.output, kept, options)
    _write_page(options, shown)
    return 0


def _compiled(
    operator: Operator[Any, Any],
    spec: Spec,
    target: Target,
    kept: list[str],
    options: argparse.Namespace,
    shown: Collection[str] | IrPrinter,
) -> CompiledKernel:
    """The kernel, from the cache where nothing is asked for that only compiling gives."""
    with progress(f"compiling {spec.name} for {target.name}", printing=bool(shown)):
        if kept or shown or options.timing:
            return compile_kernel(operator, spec, target, keep=kept, print_after=shown)
        from ckmlir.runtime.compile_cache import compile_cached

        return compile_cached(operator, spec, target)


def _write(compiled: CompiledKernel, output: Path, kept: list[str], options: argparse.Namespace) -> None:
    """Write the files of a kernel, and say what it takes."""
    for name, path in _artifacts(output, kept).items():
        if name not in compiled.artifacts:
            raise CkmlirError(f"--keep {name}: {options.operator} is beyond that stage")
        content = compiled.artifacts[name]
        write_file(path, content if isinstance(content, bytes) else content.encode())
    write_file(output, compiled.hsaco)
    if options.report == "accesses":
        print("\n".join(map(str, compiled.remarks)) or "no access is narrower than its array allows")
    if options.timing:
        for step, seconds in compiled.timings.items():
            print(f"{1e3 * seconds:9.2f} ms  {step}", file=sys.stderr)
    metadata = compiled.code_object.kernel(compiled.kernel_name).metadata
    print(
        f"{output}: {compiled.kernel_name} for {compiled.target}, {len(compiled.hsaco)} bytes, "
        f"{metadata.vgpr_count} vector registers ({metadata.vgpr_spill_count} spilled), "
        f"{metadata.sgpr_count} scalar registers, {metadata.group_segment_size} bytes of LDS"
    )


def _kept(text: str) -> list[str]:
    names = [name for name in text.split(",") if name]
    for name in names:
        if name not in ENDINGS:
            raise CkmlirError(f"--keep {name}: unknown form; {suggest(name, ENDINGS)}")
    return list(dict.fromkeys(names))


def _check_passes(names: list[str]) -> None:
    """Refuse names of which nothing would ever be printed."""
    if not names:
        return
    from ckmlir.passes.pipeline import PIPELINE
    from ckmlir.passes.registry import PASSES

    known = {"all", *PASSES, *(str(step.run) for step in PIPELINE)}
    for name in names:
        if name not in known:
            raise CkmlirError(f"--print-after {name}: unknown pass; {suggest(name, known)}")
