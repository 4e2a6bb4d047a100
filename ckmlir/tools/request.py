"""What the commands share: operators, keys and chips from the command line; files, checked before long work."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from ckmlir.errors import CkmlirError, suggest
from ckmlir.files import write_atomically
from ckmlir.ops import OPERATORS, find_operator
from ckmlir.ops.operator import Operator
from ckmlir.ops.request import parse_assignments, show
from ckmlir.ops.spec import Spec
from ckmlir.targets import TARGETS, Target, UnsupportedTarget, get_target


class Request(NamedTuple):
    """An operator, a problem and a chip."""

    operator: Operator[Any, Any]
    problem: Any
    target: Target


def add_operator_arguments(parser: argparse.ArgumentParser) -> None:
    """OP, key=value … and --arch; the help lists every operator's keys."""
    parser.add_argument("operator", metavar="OP", help=", ".join(OPERATORS))
    parser.add_argument("keys", nargs="*", metavar="key=value", help="see below")
    parser.add_argument("--arch", required=True, metavar="A", help=f"the chip: {', '.join(TARGETS)}")
    lines = []
    for name in OPERATORS:
        operator = find_operator(name)
        lines += ["", f"{name}: {operator.summary}"]
        for key in operator.keys:
            default = "derived" if key.default is None else _text(key.default)
            lines.append(f"  {key.name:<16}{key.help} [{default}]; {key.form}")
    parser.epilog = "keys and their defaults:" + "\n".join(lines)


def read_request(options: argparse.Namespace) -> Request:
    """The operator, problem and chip that the arguments of `add_operator_arguments` name."""
    operator = find_operator(options.operator)
    target = find_target(options.arch)
    return Request(operator, operator.problem(**parse_assignments(options.keys)), target)


def chosen_text(request: Request, spec: Spec) -> str:
    """What the operator chose where the keys left it open, as a line: `chosen: schedule=compv4, …`; "" for nothing."""
    chosen = request.operator.chosen(request.problem, spec)
    return "chosen: " + ", ".join(f"{key}={show(value)}" for key, value in chosen.items()) if chosen else ""


def find_target(name: str) -> Target:
    """The chip called `name`. Raises CkmlirError when there is none."""
    try:
        return get_target(name)
    except UnsupportedTarget as error:
        hint = suggest(name, TARGETS)
        raise CkmlirError(f"--arch {name}: {error}" + (f"; {hint}" if hint.startswith("did") else "")) from None


def check_writable(paths: Sequence[Path]) -> None:
    """Raise CkmlirError unless all `paths` can be written as new or existing regular files, no two of them the same."""
    for path in paths:
        if path.exists() and not path.is_file():
            raise CkmlirError(f"cannot write {path}: it is no regular file")
        if not path.parent.is_dir():
            raise CkmlirError(f"cannot write {path}: there is no directory {path.parent}")
        if not os.access(path.parent, os.W_OK | os.X_OK):
            raise CkmlirError(f"cannot write {path}: the directory {path.parent} is not writable")
        if sum(os.path.abspath(path) == os.path.abspath(other) for other in paths) > 1:
            raise CkmlirError(f"two results would be written to {path}")


def write_file(path: Path, content: bytes) -> None:
    """Write a file whole or not at all. Raises CkmlirError."""
    try:
        write_atomically(path, content)
    except OSError as error:
        raise CkmlirError(f"cannot write {path}: {error.strerror or error}") from None


@contextmanager
def progress(text: str) -> Iterator[None]:
    """Show `text` on stderr while the block runs, if that is a terminal; silent in a pipe."""
    show = sys.stderr.isatty()
    if show:
        print(f"{text} …", end="", file=sys.stderr, flush=True)
    try:
        yield
    finally:
        if show:
            print("\r\033[K", end="", file=sys.stderr, flush=True)


def _text(value: object) -> str:
    return (
        str(int(value))
        if isinstance(value, bool)
        else "x".join(map(str, value))
        if isinstance(value, tuple)
        else str(value)
    )
