"""Diagnostics compared with comments in the input that announce them, as in `mlir-opt --verify-diagnostics`.

    // expected-error@+1 {{a tile of 3 rows}}        the next line; @-2, @above, @below, @unknown; none: this line
    // expected-note@+4 {{text that the message contains}}
    // expected-warning-re {{[0-9]+ bank conflicts}}  a regular expression

A comment stands for exactly one diagnostic, and every error and warning needs one; remarks and notes that no comment
announces are let pass.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from msgspec import Struct

from ckmlir.diagnostics import Diagnostic

_EXPECTATION = re.compile(
    r"expected-(?P<severity>error|warning|remark|note)(?P<regex>-re)?\s*"
    r"(?:@(?P<place>[+-]\d+|above|below|unknown))?\s*\{\{(?P<text>.*?)\}\}"
)
_MUST_BE_EXPECTED = ("error", "warning")
_NAMED_PLACES = {"above": -1, "below": 1}


class Expectation(Struct, frozen=True):
    """One announced diagnostic: on `line` (None: at no known place), of `severity`, with `pattern` in its text."""

    severity: str
    line: int | None
    pattern: re.Pattern[str]
    written_on: int
    text: str

    def meets(self, found: Diagnostic, file: str) -> bool:
        line = found.position.line if found.position and found.position.file == file else None
        return (found.severity, line) == (self.severity, self.line) and bool(self.pattern.search(found.message))


def compare(text: str, file: str, diagnostics: Iterable[Diagnostic]) -> list[str]:
    """What differs between the comments in `text` and the diagnostics of processing it, one line each.

    `file` is the name that positions within `text` carry.
    """
    complaints: list[str] = []
    expected = list(_expectations(text, file, complaints))
    for found in _flatten(diagnostics):
        match = next((one for one in expected if one.meets(found, file)), None)
        if match is not None:
            expected.remove(match)
        elif found.severity in _MUST_BE_EXPECTED:
            where = found.position or f"{file}:unknown location"
            complaints.append(f"{where}: error: unexpected {found.severity}: {' '.join(found.message.split())}")
    for one in expected:
        complaints.append(f"{file}:{one.written_on}:1: error: expected {one.severity} was not produced: {one.text}")
    return complaints


def _expectations(text: str, file: str, complaints: list[str]) -> Iterable[Expectation]:
    for number, line in enumerate(text.splitlines(), start=1):
        for match in _EXPECTATION.finditer(line):
            place = match["place"]
            at = None if place == "unknown" else number + _NAMED_PLACES.get(place or "", 0)
            if place and place[0] in "+-":
                at = number + int(place)
            try:
                pattern = re.compile(match["text"] if match["regex"] else re.escape(match["text"]))
            except re.error as error:
                complaints.append(f"{file}:{number}:1: error: {match['text']!r} is not a regular expression: {error}")
                continue
            yield Expectation(match["severity"], at, pattern, number, match["text"])


def _flatten(diagnostics: Iterable[Diagnostic]) -> Iterable[Diagnostic]:
    for one in diagnostics:
        yield one
        yield from _flatten(one.notes)
