"""`ckmlir compile`: the kernel that a problem needs, as a code object and in the forms on the way to it."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from ckmlir.compiler import IR_STAGES, compile_kernel
from ckmlir.errors import CkmlirError, suggest
from ckmlir.ops.operator import require_valid
from ckmlir.tools.request import add_operator_arguments, check_writable, chosen_text, progress, read_request, write_file

ENDINGS = {**{name: f".{name}.mlir" for name in IR_STAGES}, "llvm": ".ll", "asm": ".s", "obj": ".o"}
"""What --keep takes -> the ending of its file, in place of that of -o."""

REPORTS = ("lds",)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_operator_arguments(parser)
    parser.add_argument("-o", dest="output", required=True, metavar="FILE", type=Path, help="the code object")
    kept = ", ".join(f"{name} ({ending})" for name, ending in ENDINGS.items())
    parser.add_argument("--keep", default="", metavar="NAME,…", help=f"write beside FILE: {kept}")
    parser.add_argument(
        "--print-after", action="append", default=[], metavar="PASS", help="IR to stderr; all: every pass"
    )
    parser.add_argument("--report", choices=REPORTS, help="what a pass decided; lds: buffers, layouts, bank conflicts")
    parser.add_argument("--timing", action="store_true", help="print the seconds of each step to stderr")


def execute(options: argparse.Namespace) -> int:
    request = read_request(options)
    operator, problem, target = request
    kept = _kept(options.keep)
    output: Path = options.output
    artifacts = {name: output.with_suffix(ENDINGS[name]) for name in kept}
    check_writable([output, *artifacts.values()])
    spec = operator.spec(problem, target)
    require_valid(operator, spec, target)
    _check_passes(options.print_after)

    with progress(f"compiling {spec.name} for {target.name}"):
        compiled = compile_kernel(operator, spec, target, keep=kept, print_after=options.print_after)
    for name, path in artifacts.items():
        content = compiled.artifacts[name]
        write_file(path, content if isinstance(content, bytes) else content.encode())
    write_file(output, compiled.hsaco)
    if options.timing:
        for step, seconds in compiled.timings.items():
            print(f"{1e3 * seconds:9.2f} ms  {step}", file=sys.stderr)
    metadata = compiled.code_object.kernel(compiled.kernel_name).metadata
    print(
        f"{output}: {compiled.kernel_name} for {target.name}, {len(compiled.hsaco)} bytes, "
        f"{metadata.vgpr_count} vector registers ({metadata.vgpr_spill_count} spilled), "
        f"{metadata.sgpr_count} scalar registers, {metadata.group_segment_size} bytes of LDS"
    )
    if chosen := chosen_text(request, spec):
        print(chosen)
    if options.report == "lds":
        from ckmlir.scheduling import lds_report

        print(lds_report(operator, spec, target))
    return 0


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
