"""`ckmlir-opt`: run passes on MLIR text, alone or as a pipeline; the project's counterpart of `mlir-opt`.

    ckmlir-opt kernel.mlir --ck-allocate-lds='banks=32' --canonicalize
    ckmlir-opt kernel.mlir --pass-pipeline='builtin.module(ck-allocate-lds{banks=32},canonicalize)'

Exit status: 0 done; 1 `--verify-diagnostics` found other diagnostics than expected; 2 malformed input or request, or a
pass that failed. Nothing is written to the output unless everything succeeded.
"""

from __future__ import annotations

import argparse
import dataclasses
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from ckmlir import plug_ins
from ckmlir.errors import CkmlirError
from ckmlir.files import write_file
from ckmlir.passes.registry import PASSES, find_pass
from ckmlir.tools.interrupts import prompt_interrupts
from ckmlir.tools.output import BAD_REQUEST, PrintingParser, with_standard_output
from ckmlir.tools.scripts import INTERRUPTED

if TYPE_CHECKING:
    from ckmlir.diagnostics import Diagnostic
    from ckmlir.mlir import ir
    from ckmlir.passes.framework import Pass
    from ckmlir.passes.ir_printing import IrPrinter

SEPARATOR = re.compile(r"^// -----[ \t]*$", re.MULTILINE)


class Outcome(NamedTuple):
    """What became of one piece of the input: the output (None: failed) and every diagnostic on the way."""

    text: str | None
    diagnostics: list[Diagnostic]


def build_parser() -> argparse.ArgumentParser:
    parser = PrintingParser(
        prog="ckmlir-opt",
        description="Run passes on MLIR text.",
        epilog="--NAME or --NAME='option=value …' appends the pass NAME: ours (see --list-passes), MLIR's own, or a "
        "plug-in's (docs/plug_ins.md), by its name or as module:Class.",
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("file", nargs="?", default="-", help="input file; - is stdin (default)")
    add("-o", dest="output", default="-", metavar="FILE", help="output file; - is stdout (default)")
    add("--pass-pipeline", metavar="TEXT", help="builtin.module(pass{option=value …},…)")
    add("--verify-each", action="store_true", help="verify the module after every pass")
    add("--print-ir-before", action="append", default=[], metavar="PASS", help="print the IR before this pass, or all")
    add("--print-ir-after-all", action="store_true", help="print the IR to stderr after every pass")
    add("--print-ir-after", action="append", default=[], metavar="PASS", help="print the IR after this pass, or all")
    add("--print-ir-after-change", action="store_true", help="print the IR after passes that changed something")
    add("--print-ir-diff", action="store_true", help="print the lines that each pass changed instead of all IR")
    add("--html", metavar="FILE", help="write a page of the IR pass by pass: what changed, and schedules")
    add("--run-reproducer", action="store_true", help="run the pass that the file, a reproducer, names in its head")
    add("--timing", action="store_true", help="print the time of each pass to stderr")
    add("--pass-statistics", action="store_true", help="print which operations came and went with each pass to stderr")
    add("--split-input-file", action="store_true", help="process the parts between // ----- lines one by one")
    add("--verify-diagnostics", action="store_true", help="compare diagnostics with expected-… comments")
    add("--mlir-print-debuginfo", action="store_true", help="print source locations")
    add("--mlir-print-op-generic", action="store_true", help="print operations in generic form")
    add("--reproducers", metavar="DIR", help="where a failing pass's input and replay command go; none: nowhere")
    add("--traceback", action="store_true", help="show where ckmlir itself failed, for defects of ckmlir")
    add("--list-passes", action="store_true", help="list ours, plug-ins' and those named, with their options, and exit")
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the tool with `arguments` (default: the process's); returns the exit status, messages go to stderr."""
    parser = build_parser()
    own, pass_texts = _split_arguments(parser, sys.argv[1:] if arguments is None else arguments)
    options = parser.parse_args(own)
    try:
        with prompt_interrupts("ckmlir-opt"):
            return with_standard_output("ckmlir-opt", lambda: _run(options, pass_texts))
    except CkmlirError as error:
        print(f"ckmlir-opt: error: {error}", file=sys.stderr)
        return BAD_REQUEST
    except KeyboardInterrupt:
        print("ckmlir-opt: interrupted", file=sys.stderr)
        return INTERRUPTED
    except MemoryError:
        print("ckmlir-opt: error: not enough memory for a module of this size", file=sys.stderr)
        return BAD_REQUEST
    except Exception as error:  # whatever it is becomes one line, unless asked otherwise
        if options.traceback:
            raise
        what = f"{type(error).__name__}: {error}"
        print(f"ckmlir-opt: error: {what}; this is a defect of ckmlir, --traceback shows where", file=sys.stderr)
        return BAD_REQUEST


def _split_arguments(parser: argparse.ArgumentParser, arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """The tool's own arguments, and the text of the passes among `arguments` in pipeline syntax, in order."""
    own, passes = [], []
    known = parser._option_string_actions  # argparse has no public list of its options
    for argument in arguments:
        name, equals, value = argument.partition("=")
        if not name.startswith("--") or name == "--" or name in known:
            own.append(argument)
        else:
            passes.append(name[2:] + (f"{{{value}}}" if equals else ""))
    return own, passes


def list_passes(named: Sequence[str] = ()) -> str:
    """One paragraph a pass, of ours, of those that installed packages have and of plug-ins `named`: name, summary,
    options with their defaults. A plug-in that cannot be used is listed with the reason."""
    lines = []
    others = sorted({*plug_ins.installed(plug_ins.PASSES), *filter(plug_ins.is_place, named)})
    for name in [*sorted(PASSES), *others]:
        try:
            cls = find_pass(name)
        except plug_ins.PlugInError as error:
            lines.append(f"{name}: cannot be used: {error}")
            continue
        lines.append(f"{name}: {cls.summary()}" + " (a plug-in)" * (name in others))
        for field in dataclasses.fields(cls):
            default = "required" if field.default is dataclasses.MISSING else f"default {field.default}"
            kind = getattr(field.type, "__name__", field.type)
            lines.append(f"    {field.name}: {kind} ({default})")
    return "\n".join(lines)


def _run(options: argparse.Namespace, pass_texts: list[str]) -> int:
    from ckmlir.dialect.context import ck_context
    from ckmlir.passes.syntax import parse_pipeline

    if options.list_passes:
        print(list_passes([text.partition("{")[0] for text in pass_texts]))
        return 0
    if options.pass_pipeline is not None and pass_texts:
        raise CkmlirError("--pass-pipeline and single passes exclude each other; put them all into the pipeline")
    pipeline = ",".join(pass_texts) if options.pass_pipeline is None else options.pass_pipeline
    text = _read(options.file)
    if options.run_reproducer:
        if pipeline:
            raise CkmlirError("--run-reproducer: the file names its pass; leave out others")
        pipeline = _replayed(options, text)
    context = ck_context()
    passes = parse_pipeline(pipeline, context)
    pieces = _split_input(text) if options.split_input_file else [text]
    if options.html is not None and options.split_input_file:
        raise CkmlirError("--html shows one module; leave out --split-input-file")
    outcomes = [_process(piece, passes, context, options) for piece in pieces]

    status = 0
    if options.verify_diagnostics:
        from ckmlir.tools.expected_diagnostics import compare

        name = _display_name(options.file)
        complaints = [line for piece, (_, found) in zip(pieces, outcomes) for line in compare(piece, name, found)]
        status = 1 if complaints else 0
    else:
        complaints = [str(diagnostic) for outcome in outcomes for diagnostic in outcome.diagnostics]
        status = 2 if any(outcome.text is None for outcome in outcomes) else 0
    for complaint in complaints:
        print(complaint, file=sys.stderr)
    if status == 0:
        _write(options.output, "// -----\n".join(text for text, _ in outcomes if text is not None))
    return status


def _process(piece: str, passes: list[Pass], context: ir.Context, options: argparse.Namespace) -> Outcome:
    """Parse one piece of the input, run the passes, verify and print."""
    from ckmlir.diagnostics import collect
    from ckmlir.mlir import ir
    from ckmlir.passes.ir_page import IrPage
    from ckmlir.passes.pipeline import PipelineFailure, run_pipeline

    name = _display_name(options.file)
    with collect(context) as found:
        try:
            whole_file = options.file != "-" and not options.split_input_file
            # Parsed from its file, the module's locations carry the file's name; parsed from text, they say "-".
            module = ir.Module.parseFile(options.file, context) if whole_file else ir.Module.parse(piece, context)
        except ir.MLIRError:
            return Outcome(None, _named(found, name))
    printer = _printer(options)
    try:
        run = run_pipeline(
            module,
            passes,
            verify_each=options.verify_each,
            print_after=printer,
            dump_on_failure=_reproducers(options),
            count=options.pass_statistics,
        )
    except PipelineFailure as failure:
        return Outcome(None, _named(found + failure.diagnostics, name))
    finally:  # of a pass that fails the page has what came before it
        if isinstance(printer, IrPage):
            _write(options.html, printer.render(name))
    if options.timing:
        print(run.timing_report(), file=sys.stderr)
    if options.pass_statistics:
        from ckmlir.passes.pass_statistics import statistics_report

        print(statistics_report(run.counted), file=sys.stderr)
    found += run.diagnostics
    with collect(context) as last:
        try:
            module.operation.verify()
        except ir.MLIRError:
            return Outcome(None, _named(found + last, name))
    printed = module.operation.get_asm(
        enable_debug_info=options.mlir_print_debuginfo, print_generic_op_form=options.mlir_print_op_generic
    )
    return Outcome(printed.rstrip("\n") + "\n", _named(found, name))


def _printer(options: argparse.Namespace) -> IrPrinter:
    """What is printed between passes; --print-ir-after-change and --print-ir-diff mean all unless passes are named."""
    from ckmlir.passes.ir_page import IrPage
    from ckmlir.passes.ir_printing import IrPrinter

    kind = IrPrinter if options.html is None else IrPage
    compares = options.print_ir_after_change or options.print_ir_diff
    every = options.print_ir_after_all or (compares and not options.print_ir_after)
    after = ["all"] if every else options.print_ir_after
    return kind(after, options.print_ir_after_change, options.print_ir_diff, before=options.print_ir_before)


def _replayed(options: argparse.Namespace, text: str) -> str:
    """The pipeline of a reproducer; its other settings become options."""
    from ckmlir.passes.reproducer import read_replay

    replay = read_replay(text, _display_name(options.file))
    options.verify_each |= replay.verify_each
    if replay.folder:
        sys.path.append(replay.folder)
    return replay.pipeline


def _named(diagnostics: list[Diagnostic], name: str) -> list[Diagnostic]:
    """The diagnostics with MLIR's name of parsed text, "-", replaced by the input's."""
    return [
        msgspec.structs.replace(
            one,
            position=one.position and (one.position._replace(file=name) if one.position.file == "-" else one.position),
            notes=tuple(_named(list(one.notes), name)),
        )
        for one in diagnostics
    ]


def _reproducers(options: argparse.Namespace) -> bool | Path:
    if options.reproducers == "none" or (options.verify_diagnostics and not options.reproducers):
        return False  # failures that are asked for leave nothing behind
    return Path(options.reproducers) if options.reproducers else True


def _display_name(file: str) -> str:
    return "<stdin>" if file == "-" else file


def _split_input(text: str) -> list[str]:
    """The pieces between separators, each padded with empty lines so that line numbers are those of the whole input."""
    pieces, line = [], 0
    for piece in SEPARATOR.split(text):
        pieces.append("\n" * line + piece)
        line += piece.count("\n")
    return pieces


def _read(file: str) -> str:
    try:
        data = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
        return data.decode()
    except OSError as error:
        raise CkmlirError(f"cannot read {file}: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise CkmlirError(f"{_display_name(file)} is not MLIR text: byte {error.start} is not UTF-8") from None


def _write(file: str, text: str) -> None:
    if file == "-":
        sys.stdout.write(text)
        sys.stdout.flush()
        return
    write_file(Path(file), text.encode())


if __name__ == "__main__":
    sys.exit(main())
