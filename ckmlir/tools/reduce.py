"""`ckmlir-reduce`: shrink a module while a pipeline, or any command, still fails in the same way.

    ckmlir-reduce reproducer.mlir -o small.mlir
    ckmlir-reduce kernel.mlir --pass-pipeline='ck-pipeline-loops,ck-allocate-lds' -o small.mlir
    ckmlir-reduce kernel.mlir --command 'ckmlir compile {} -o /dev/null' --match 'too few registers' -o small.mlir

What passes fail on begins with the command that runs them again, as a reproducer does.

Exit status: 0 done; 2 a bad request, or an input that does not fail.
"""

from __future__ import annotations

import argparse
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ckmlir.errors import CkmlirError
from ckmlir.files import check_writable, write_file
from ckmlir.tools.interrupts import prompt_interrupts
from ckmlir.tools.output import BAD_REQUEST, PrintingParser, with_standard_output
from ckmlir.tools.scripts import INTERRUPTED

if TYPE_CHECKING:
    from ckmlir.passes.reproducer import Replay

SECONDS = 120
_PLACES = re.compile(r"(?:\S+:\d+:\d+: )|\d+|'[^']*'|\"[^\"]*\"")
"""What changes in a message as a module shrinks: where, how many, and of what name."""


def build_parser() -> argparse.ArgumentParser:
    parser = PrintingParser(
        prog="ckmlir-reduce", description="Shrink an MLIR module while it still fails.", allow_abbrev=False,
        epilog="Without --pass-pipeline and --command, FILE is a reproducer, whose pass is run.",
    )  # fmt: skip
    add = parser.add_argument
    add("file", type=Path, metavar="FILE", help="a module in MLIR")
    add("-o", dest="output", type=Path, required=True, metavar="FILE", help="the smaller module")
    way = parser.add_mutually_exclusive_group()
    way.add_argument("--pass-pipeline", metavar="TEXT", help="passes that fail, as ckmlir-opt takes them")
    way.add_argument("--command", metavar="TEXT", help="a command that fails on {}, the file; run without a shell")
    add("--match", metavar="TEXT", help="what a failure prints [the same message; of a command, the same exit status]")
    add("--seconds", type=_seconds, default=SECONDS, metavar="N", help=f"that a command may take [{SECONDS}]")
    add("--quiet", action="store_true", help="say nothing of the progress")
    return parser


def _seconds(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text}: expected a whole number of at least 1")
    return int(text)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the tool with `arguments` (default: the process's); returns the exit status, messages go to stderr."""
    options = build_parser().parse_args(arguments)
    try:
        with prompt_interrupts("ckmlir-reduce"):
            return with_standard_output("ckmlir-reduce", lambda: _run(options))
    except CkmlirError as error:
        print(f"ckmlir-reduce: error: {error}", file=sys.stderr)
        return BAD_REQUEST
    except KeyboardInterrupt:
        print("ckmlir-reduce: interrupted", file=sys.stderr)
        return INTERRUPTED


def _run(options: argparse.Namespace) -> int:
    from ckmlir.diagnostics import collect
    from ckmlir.dialect.context import ck_context
    from ckmlir.mlir import ir
    from ckmlir.tools.reduction import reduce_module

    check_writable([options.output])
    try:
        given = options.file.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise CkmlirError(f"cannot read {options.file}: {getattr(error, 'strerror', None) or error}") from None
    context = ck_context()
    with context, collect(context) as found:
        try:
            text = str(ir.Module.parse(given, context)) + "\n"  # without comments and locations
        except ir.MLIRError:
            raise CkmlirError(f"{options.file}: {'; '.join(map(str, found)) or 'no MLIR'}") from None
    replay = None if options.command else _replay(options, given)
    outcome = _command(options) if replay is None else _passes(replay)
    first = outcome(text)
    if first is None:
        raise CkmlirError(f"{options.file} does not fail, so there is nothing to keep while it shrinks")
    if options.match is not None and options.match not in first:
        raise CkmlirError(f"{options.file} fails without printing --match {options.match}, but: {first.strip()[:300]}")

    def fails(smaller: str) -> bool:
        now = outcome(smaller)
        if now is None:
            return False
        if options.match is not None:
            return options.match in now
        return bool(options.command) or _PLACES.sub("", now) == _PLACES.sub("", first)

    def tell(line: str) -> None:
        if not options.quiet:
            print(f"ckmlir-reduce: {line}", file=sys.stderr)

    small = reduce_module(text, fails, context, tell)
    head = "" if replay is None else f"// {replay.command(options.output)}\n\n"
    write_file(options.output, (head + small).encode())
    print(f"{options.output}: {len(small.splitlines())} of {len(text.splitlines())} lines; it fails with")
    print((outcome(small) or "").strip())
    return 0


Outcome = Callable[[str], "str | None"]
"""What a module's failure prints; None where it does not fail."""


def _replay(options: argparse.Namespace, given: str) -> Replay:
    """The passes that fail: those of --pass-pipeline, or of a reproducer."""
    from ckmlir.passes.reproducer import Replay, read_replay

    if options.pass_pipeline is not None:
        return Replay(options.pass_pipeline, True, "")
    return read_replay(given, str(options.file))


def _passes(replay: Replay) -> Outcome:
    """Passes, run in a copy of this process: what aborts MLIR or LLVM is a failure like others."""
    from ckmlir.dialect.context import ck_context
    from ckmlir.lowering.child_process import ChildEnded, in_child_process
    from ckmlir.mlir import ir
    from ckmlir.passes.pipeline import PipelineFailure, run_pipeline
    from ckmlir.passes.syntax import parse_pipeline

    if replay.folder:
        sys.path.append(replay.folder)
    parse_pipeline(replay.pipeline, ck_context())  # what is wrong with it is not the module's failure

    def message(text: str) -> bytes:
        context = ck_context()
        with context:
            module = ir.Module.parse(text, context)
            try:
                steps = parse_pipeline(replay.pipeline, context)
                run_pipeline(module, steps, verify_each=replay.verify_each, dump_on_failure=False)
            except PipelineFailure as failure:
                errors = [str(one) for one in failure.diagnostics if one.severity == "error"]
                return f"{failure.step}: {errors[0].splitlines()[0]}".encode()
        return b""

    def outcome(text: str) -> str | None:
        try:
            return in_child_process(lambda: message(text)).content.decode() or None
        except ChildEnded as end:
            return "\n".join([str(end), *end.printed[:1]])

    return outcome


def _command(options: argparse.Namespace) -> Outcome:
    """A command: a failure is the exit status that it has with the first module asked for."""
    try:
        words = shlex.split(options.command)
    except ValueError as error:
        raise CkmlirError(f"--command {options.command}: {error}") from None
    if not any("{}" in word for word in words):
        raise CkmlirError(f"--command {options.command}: it names no {{}}, which stands for the module's file")
    statuses: list[int] = []
    folder = tempfile.TemporaryDirectory(prefix="ckmlir-reduce-")

    def outcome(text: str) -> str | None:
        file = Path(folder.name) / "module.mlir"  # in here, so that the folder lives as long as this function
        file.write_text(text, "utf-8")
        try:
            ran = subprocess.run(
                [word.replace("{}", str(file)) for word in words], capture_output=True, timeout=options.seconds
            )
        except subprocess.TimeoutExpired:
            if statuses:
                return None
            raise CkmlirError(f"--command: it took longer than --seconds {options.seconds} on {options.file}") from None
        except OSError as error:
            raise CkmlirError(f"--command {words[0]}: {error.strerror}") from None
        if ran.returncode == 0:
            return None
        statuses.append(ran.returncode)
        printed = (ran.stdout + ran.stderr).decode(errors="replace")
        return printed if ran.returncode == statuses[0] or options.match is not None else None

    return outcome


if __name__ == "__main__":
    sys.exit(main())
