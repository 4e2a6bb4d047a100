"""Pipeline text: from `ck-pipeline{policy=mem},builtin.module(canonicalize)` to passes.

pipeline ::= entry (`,` entry)*              around it, `builtin.module(` … `)` may stand
entry    ::= `ck-name` (`{` option (space option)* `}`)?      one of our passes, see passes.registry
           | `module:Class` or a plug-in's name, likewise     a pass of others, see ckmlir.plug_ins
           | anything else                                    MLIR's own pipeline syntax, for MLIR's passes
option   ::= name `=` (word | `"` text with \\" and \\\\ `"`)
"""

from __future__ import annotations

import functools
import re

from ckmlir.mlir import ir
from ckmlir.passes.framework import Pass, PipelineSyntaxError, UpstreamPass, make_pass
from ckmlir.passes.registry import PREFIX, find_pass, is_known

ANCHOR = "builtin.module"
_CLOSING = {"(": ")", "{": "}"}
_OUR_ENTRY = re.compile(r"(?P<name>[\w.:-]+)\s*(?:\{(?P<options>.*)\})?", re.DOTALL)
_OPTION = re.compile(r'\s*(?P<name>[\w-]+)=(?:"(?P<quoted>(?:[^"\\]|\\.)*)"|(?P<word>[^\s"{}]*))(?=\s|$)', re.DOTALL)
_OUR_NAME = re.compile(rf"(?<![\w-]){PREFIX}[\w-]+")


def parse_pass(text: str) -> Pass:
    """The one pass that `text` describes; the inverse of `str(pass)`.

    Raises PipelineSyntaxError for text that is not a pass of ours and that MLIR cannot read either.
    """
    text = text.strip()
    if text.startswith(PREFIX):
        return _our_pass(text)
    match = _OUR_ENTRY.fullmatch(text)
    if match and is_known(match["name"]):
        return make_pass(find_pass(match["name"]), _parse_options(match["name"], match["options"] or ""))
    nested = _OUR_NAME.search(text)
    if nested:
        raise PipelineSyntaxError(f"{nested[0]} runs on whole modules: it cannot stand inside {text!r}")
    return UpstreamPass(text)


@functools.cache
def _our_pass(text: str) -> Pass:
    """A pass of this package; passes are values, so that each text is read once."""
    match = _OUR_ENTRY.fullmatch(text)
    if match is None:
        raise PipelineSyntaxError(f"{text!r} is not of the form {PREFIX}name{{option=value …}}")
    return make_pass(find_pass(match["name"]), _parse_options(match["name"], match["options"] or ""))


def parse_pipeline(text: str, context: ir.Context) -> list[Pass]:
    """The passes of a pipeline in order. The passes of MLIR among them are checked with `context`.

    Raises PipelineSyntaxError naming the entry that is wrong.
    """
    body = text.strip()
    if body.startswith(ANCHOR) and len(_split(body)) == 1:
        inside = body[len(ANCHOR) :].strip()
        if not (inside.startswith("(") and inside.endswith(")")):
            raise PipelineSyntaxError(f"{text!r} is not of the form {ANCHOR}(…)")
        body = inside[1:-1]
    passes = [parse_pass(entry) for entry in _split(body)]
    for one in passes:
        if isinstance(one, UpstreamPass):
            one.check(context)
    return passes


def _split(text: str) -> list[str]:
    """The entries between top-level commas. Raises PipelineSyntaxError for unbalanced brackets and empty entries."""
    entries, start, expected = [], 0, []
    quoted = escaped = False
    for place, character in enumerate(text):
        if quoted:
            quoted = escaped or character != '"'
            escaped = character == "\\" and not escaped
        elif character == '"':
            quoted = True
        elif character in _CLOSING:
            expected.append(_CLOSING[character])
        elif character in _CLOSING.values():
            if not expected or expected.pop() != character:
                raise PipelineSyntaxError(f"unexpected {character!r} at column {place + 1} of {text!r}")
        elif character == "," and not expected:
            entries.append(text[start:place].strip())
            start = place + 1
    if quoted or expected:
        raise PipelineSyntaxError(f"missing {'closing quote' if quoted else repr(expected[-1])} at the end of {text!r}")
    entries.append(text[start:].strip())
    if entries == [""]:
        return []
    if "" in entries:
        raise PipelineSyntaxError(f"an entry of {text!r} is empty")
    return entries


def _parse_options(owner: str, text: str) -> dict[str, str]:
    options: dict[str, str] = {}
    place = 0
    while text[place:].strip():
        match = _OPTION.match(text, place)
        if match is None:
            raise PipelineSyntaxError(f"{owner}: {text[place:].strip()!r} is not of the form option=value")
        if match["name"] in options:
            raise PipelineSyntaxError(f"{owner}: option {match['name']} is given twice")
        quoted = match["quoted"]
        options[match["name"]] = match["word"] if quoted is None else re.sub(r"\\(.)", r"\1", quoted, flags=re.DOTALL)
        place = match.end()
    return options
