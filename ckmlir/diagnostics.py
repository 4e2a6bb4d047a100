"""MLIR's diagnostics as plain Python values, collected instead of printed.

with collect(context) as diagnostics:
    module = ir.Module.parse(text)        # may raise ir.MLIRError; `diagnostics` says why
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from msgspec import Struct

from ckmlir.mlir import ir

LONGEST_NOTE = 400


class Position(NamedTuple):
    """A place in a source file; line and column count from 1."""

    file: str
    line: int
    column: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


class Diagnostic(Struct, frozen=True):
    """One message of a verifier, parser or pass, with the notes attached to it.

    `severity` is "error", "warning", "remark" or "note".
    """

    severity: str
    position: Position | None
    message: str
    notes: tuple[Diagnostic, ...] = ()

    def __str__(self) -> str:
        """One line for the message and one for each note, as compilers print them: `file:line:column: error: text`.

        Notes are cut at LONGEST_NOTE characters: MLIR attaches whole modules to some.
        """
        where = f"{self.position}: " if self.position else ""
        text = " ".join(self.message[: 4 * LONGEST_NOTE].split() if self.severity == "note" else self.message.split())
        if self.severity == "note" and len(text) > LONGEST_NOTE:
            text = text[:LONGEST_NOTE] + " …"
        return "\n".join([f"{where}{self.severity}: {text}", *map(str, self.notes)])


# A file location at the start of a printed one. Printing is used because some versions of the bindings lack accessors
# for ranges; the file name is a quoted string with \\ and two-digit hexadecimal escapes of its UTF-8 bytes.
_FILE_LOCATION = re.compile(rb'"((?:[^"\\]|\\.)*)":(\d+):(\d+)')
_ESCAPE = re.compile(rb"\\([0-9A-Fa-f]{2}|.)")


def position_of(location: ir.Location | None) -> Position | None:
    """The first file position in `location`: of the innermost call site, of a named or of the first fused location."""
    match = _FILE_LOCATION.search(str(location).encode()) if location is not None else None
    if match is None:
        return None
    file, line, column = match.groups()
    return Position(_ESCAPE.sub(_unescape, file).decode(errors="replace"), int(line), int(column))


def _unescape(escape: re.Match[bytes]) -> bytes:
    text = escape.group(1)
    return bytes.fromhex(text.decode()) if len(text) == 2 else text


def _copy(diagnostic: ir.Diagnostic) -> Diagnostic:
    """A copy that outlives the handler call in which `diagnostic` is valid."""
    return Diagnostic(
        severity=diagnostic.severity.name.lower(),
        position=position_of(diagnostic.location),
        message=str(diagnostic.message),
        notes=tuple(map(_copy, diagnostic.notes)),
    )


@contextmanager
def collect(context: ir.Context) -> Iterator[list[Diagnostic]]:
    """Collect every diagnostic that `context` emits inside the `with` block; nothing is printed.

    Yields the list that fills up. While it is active, `ir.MLIRError` carries no text of its own.
    """
    collected: list[Diagnostic] = []

    def handle(diagnostic: ir.Diagnostic) -> bool:
        collected.append(_copy(diagnostic))
        return True

    emitted_before = context.emit_error_diagnostics
    context.emit_error_diagnostics = True  # else the bindings keep errors for the exception, away from handlers
    handler = context.attach_diagnostic_handler(handle)
    try:
        yield collected
    finally:
        handler.detach()
        context.emit_error_diagnostics = emitted_before
