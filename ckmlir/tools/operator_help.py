"""What `--help` says of operators: all of them by name, or the one that is named with its keys and arrays."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

from ckmlir.errors import CkmlirError
from ckmlir.ops import OPERATORS, find_operator
from ckmlir.ops.list_keys import Lengths, Numbers
from ckmlir.ops.operator import Operator
from ckmlir.ops.request import Integer, Key, parse_assignments
from ckmlir.targets import TARGETS

WIDTH = 17
"""Of names, at least."""
EXAMPLE_KEYS = 4
"""Of the keys that are sizes, how many the example shows."""


def operator_help(command: str, words: Sequence[str]) -> str:
    """The text below a command's options; `words` is its command line."""
    named = next((word for word in words if word in OPERATORS), None)
    if named is None:
        width = max(map(len, OPERATORS)) + 1
        lines = [f"  {name:<{width}}{entry.summary}" for name, entry in OPERATORS.items()]
        return "\n".join(["operators:", *lines, "", f"{command} OP --help lists an operator's keys and arrays."])
    return "\n".join(_described(command, find_operator(named), words))


def _described(command: str, operator: Operator[Any, Any], words: Sequence[str]) -> Iterator[str]:
    yield f"{operator.name}: {operator.summary}"
    yield from ("", "keys [default]; values:")
    wide = max(WIDTH, *(len(key.name) + 1 for key in operator.keys))
    for key in operator.keys:
        yield f"  {key.name:<{wide}}{key.help} [{_default(key)}]; {key.form}"
    problem, of = _problem(operator, words)
    yield from ("", f"arrays{of}:")
    for array in operator.arrays(problem):
        shape = "x".join(map(str, array.shape))
        strides = "x".join(map(str, array.strides))
        yield f"  {array.name:<{wide}}{array.role:<4}{array.dtype:<5} shape {shape}, strides {strides} elements"
    sizes = [key for key in operator.keys if isinstance(key, (Integer, Lengths, Numbers)) and key.default is not None]
    shown = "".join(f" {key.name}={_default(key)}" for key in itertools.islice(sizes, EXAMPLE_KEYS))
    needs = " -o kernel.hsaco" if command.endswith(" compile") else ""
    yield from ("", f"example: {command} {operator.name}{shown} --arch {TARGETS[1]}{needs}")


def _problem(operator: Operator[Any, Any], words: Sequence[str]) -> tuple[Any, str]:
    """The problem of the keys on the command line, where they are right, else of the defaults; and which it is."""
    given = [word for word in words if "=" in word and not word.startswith("-")]
    try:
        return operator.problem(**parse_assignments(given)), " of these keys" if given else " by default"
    except CkmlirError:
        return operator.problem(), " by default"


def _default(key: Key) -> str:
    """A key's default as the command line writes it."""
    value = key.default
    if value is None:
        return "derived"
    if isinstance(value, bool):
        return str(int(value))
    separator = "x" if isinstance(key, (Lengths, Numbers)) else ","
    return separator.join(map(str, value)) if isinstance(value, tuple) else str(value)
