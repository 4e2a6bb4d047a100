"""Where the commands begin as processes: an interrupt while they import what they need is one line too.

These imports take up to a tenth of a second, and Python would print a traceback of them at Ctrl-C. So this module
imports next to nothing itself. What comes before it, while Python starts, is out of reach.
"""

from importlib import import_module
from os import write

INTERRUPTED = 130  # as shells say it of what SIGINT ended
STANDARD_ERROR = 2


def ckmlir() -> None:
    """The command of that name."""
    leave(status_of("ckmlir", "ckmlir.tools.cli"))


def ckmlir_opt() -> None:
    """The command `ckmlir-opt`."""
    leave(status_of("ckmlir-opt", "ckmlir.tools.opt"))


def ckmlir_reduce() -> None:
    """The command `ckmlir-reduce`."""
    leave(status_of("ckmlir-reduce", "ckmlir.tools.reduce"))


def status_of(tool: str, module: str) -> int:
    """The exit status of the `main` of `module`, which is imported here; `tool` is what a message begins with."""
    try:
        status: int = import_module(module).main()
    except SystemExit as end:  # argparse's, behind help and versions; commands leave at once all the same
        if isinstance(end.code, str):
            raise
        return end.code or 0
    except KeyboardInterrupt:
        write(STANDARD_ERROR, f"{tool}: interrupted\n".encode())
        return INTERRUPTED
    return status


def leave(status: int) -> None:
    """End the process at once (`ckmlir.tools.output.leave`)."""
    import_module("ckmlir.tools.output").leave(status)
