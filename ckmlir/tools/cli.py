"""`ckmlir`: list the kernels, compile them, run and check them, look into code objects.

Exit status: 0 done, 1 a result that disagrees with its reference or a kernel that faulted, 2 a bad request. Every error
is one message on stderr, `ckmlir: error: …`; nothing is written to a file unless it is written whole.
"""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Sequence
from typing import NoReturn, Protocol

from ckmlir import __version__
from ckmlir.errors import CkmlirError, absent, suggest
from ckmlir.tools.interrupts import prompt_interrupts
from ckmlir.tools.output import BAD_REQUEST, PrintingParser, with_standard_output
from ckmlir.tools.progress import begin_silence
from ckmlir.tools.scripts import INTERRUPTED

DISAGREES = 1

COMMANDS = {
    "list": "operators, and their kernels, without compiling anything",
    "compile": "one kernel to a code object",
    "run": "compile a kernel, run it and compare the result with NumPy",
    "inspect": "what is in a code object",
    "check": "whether a code object, of any compiler, waits, synchronises and stays within its memory",
    "bench": "run a kernel repeatedly: times on a GPU, counts on the simulator",
    "cache": "the kernels that were compiled before: show or clear",
    "doctor": "what is installed, what is missing and how to get it",
    "time": "how long a kernel takes by a model, what it waits for and what limits it",
    "timeline": "when a kernel's waves issue what and wait for what, by a model: a page, and for Perfetto",
    "whatif": "what a kernel would cost with something changed, by a model, and its critical path",
    "calibrate": "fit the model of time to kernels that were timed on a GPU",
    "build": "many kernels, of a profile or a space, to a library",
    "tune": "the fastest kernel for a problem, by the model or on a GPU, kept in a file",
    "registry": "the kernels of libraries, registries and spaces: show, explain, compare, merge",
    "schedule": "a kernel's loop as a scheduling problem; schedules for it, checked and measured",
    "draw": "pictures: who holds which element, which banks LDS accesses touch, what runs ahead of what",
}
"""Name -> summary; the code is in the module of the same name beside this one."""


class Command(Protocol):
    """What the module of a command offers."""

    def add_arguments(self, parser: Parser) -> None:
        """Declare its arguments."""

    def execute(self, options: argparse.Namespace) -> int:
        """Do it; returns the exit status. Raises CkmlirError for bad requests."""


class Parser(PrintingParser):
    """argparse, with errors as exceptions and without guessing abbreviated options.

    Attributes:
        words: what it will parse, so that help can speak of what is named there.
    """

    def __init__(self, prog: str, description: str, epilog: str | None = None, words: Sequence[str] = ()) -> None:
        self.words = tuple(words)
        super().__init__(
            prog=prog,
            description=description,
            epilog=epilog,
            allow_abbrev=False,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )

    def error(self, message: str) -> NoReturn:
        raise CkmlirError(f"{message}; see {self.prog} --help")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the tool with `arguments` (default: the process's); returns the exit status."""
    begin_silence()
    words = sys.argv[1:] if arguments is None else list(arguments)
    return with_standard_output("ckmlir", lambda: _status(words))


def _status(words: list[str]) -> int:
    """The exit status of a run; errors become a message."""
    try:
        with prompt_interrupts("ckmlir"):
            return _run(words)
    except CkmlirError as error:
        from ckmlir.runtime.device import KernelFault

        print(f"ckmlir: error: {str(error).removeprefix('error: ')}", file=sys.stderr)
        return DISAGREES if isinstance(error, KernelFault) else BAD_REQUEST
    except ModuleNotFoundError as error:
        print(f"ckmlir: error: {absent(error)}", file=sys.stderr)
        return BAD_REQUEST
    except MemoryError:
        print("ckmlir: error: not enough memory for arrays of this size", file=sys.stderr)
        return BAD_REQUEST
    except KeyboardInterrupt:
        print("ckmlir: interrupted", file=sys.stderr)
        return INTERRUPTED


def _run(arguments: list[str]) -> int:
    commands = "\n".join(f"  {name:<10}{summary}" for name, summary in COMMANDS.items())
    top = Parser("ckmlir", "CK Tile operators for AMD gfx9 chips.", f"commands:\n{commands}")
    top.add_argument("--version", action="version", version=f"ckmlir {__version__}")
    top.add_argument("command", metavar="COMMAND")
    top.add_argument("arguments", nargs=argparse.REMAINDER, metavar="…", help="see ckmlir COMMAND --help")
    options = top.parse_args(arguments)
    if options.command not in COMMANDS:
        raise CkmlirError(f"unknown command {options.command!r}; {suggest(options.command, COMMANDS)}")
    command: Command = importlib.import_module(f"ckmlir.tools.{options.command}")
    summary = COMMANDS[options.command]
    description = summary[:1].upper() + summary[1:] + "."
    parser = Parser(f"ckmlir {options.command}", description, words=options.arguments)
    command.add_arguments(parser)
    # Intermixed: keys of an operator may stand before and after options.
    return command.execute(parser.parse_intermixed_args(options.arguments))


if __name__ == "__main__":
    sys.exit(main())
