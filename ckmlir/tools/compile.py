"""`ckmlir compile`: the kernels that a problem needs, as code objects and in the forms on the way to them.

An operator's own kernel goes to FILE, those of its other steps beside it: to x.step3.hsaco where FILE is x.hsaco.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from ckmlir.compiler import IR_STAGES, compile_kernel
from ckmlir.errors import CkmlirError, suggest
from ckmlir.files import check_writable, is_stream, write_file
from ckmlir.ops.operator import Operator, require_valid
from ckmlir.ops.plan import KernelStep, make_plan
from ckmlir.ops.spec import Spec
from ckmlir.targets import Target
from ckmlir.tools.cli import Parser
from ckmlir.tools.progress import progress
from ckmlir.tools.request import (
    Request,
    add_operator_arguments,
    add_step_argument,
    at_step,
    chosen_text,
    read_request,
)

ENDINGS = {**{name: f".{name}.mlir" for name in IR_STAGES}, "llvm": ".ll", "asm": ".s", "obj": ".o"}
"""What --keep takes -> the ending of its file, in place of that of -o."""

REPORTS = {
    "lds": "buffers, layouts, bank conflicts",
    "accesses": "loads and stores that are narrower than their arrays allow",
}


def add_arguments(parser: Parser) -> None:
    add_operator_arguments(parser)
    add_step_argument(parser)
    parser.add_argument("-o", dest="output", required=True, metavar="FILE", type=Path, help="the code object")
    kept = ", ".join(f"{name} ({ending})" for name, ending in ENDINGS.items())
    parser.add_argument("--keep", default="", metavar="NAME,…", help=f"write beside FILE: {kept}")
    parser.add_argument(
        "--print-after", action="append", default=[], metavar="PASS", help="IR to stderr; all: every pass"
    )
    listed = "; ".join(f"{name}: {what}" for name, what in REPORTS.items())
    parser.add_argument("--report", choices=tuple(REPORTS), help=f"what a pass decided; {listed}")
    parser.add_argument("--timing", action="store_true", help="print the seconds of each step to stderr")


def execute(options: argparse.Namespace) -> int:
    request = at_step(read_request(options), options.step)
    kept = _kept(options.keep)
    kernels = _kernels(request, options.output, alone=options.step is not None)
    if is_stream(options.output) and (kept or len(kernels) > 1):
        what = "--keep names" if kept else f"{len(kernels)} kernels need"
        raise CkmlirError(f"{what} files beside that of -o, and {options.output} is not a regular file")
    check_writable([path for output in kernels for path in (output, *_artifacts(output, kept).values())])
    _check_passes(options.print_after)
    for output, (operator, spec) in kernels.items():
        _compile(operator, spec, request.target, output, kept, options)
    if chosen := chosen_text(request, next(iter(kernels.values()))[1]):
        print(chosen)
    if options.report == "lds":
        from ckmlir.scheduling import lds_report

        for operator, spec in kernels.values():
            print(lds_report(operator, spec, request.target))
    return 0


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


def _compile(
    operator: Operator[Any, Any], spec: Spec, target: Target, output: Path, kept: list[str], options: argparse.Namespace
) -> None:
    """Compile one kernel, write its files, and say what it takes."""
    with progress(f"compiling {spec.name} for {target.name}"):
        compiled = compile_kernel(operator, spec, target, keep=kept, print_after=options.print_after)
    for name, path in _artifacts(output, kept).items():
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
        f"{output}: {compiled.kernel_name} for {target.name}, {len(compiled.hsaco)} bytes, "
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
