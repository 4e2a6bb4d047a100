"""A kernel is verified when it is traced, once: what the dialect refuses, in words of the language, at the user's line.

MLIR finds values that are used where they need not exist, and regions without an end; passes rely on neither.
"""

from __future__ import annotations

import re

from ckmlir.diagnostics import Diagnostic, Position, collect
from ckmlir.lang.trace import TracingError
from ckmlir.mlir import ir

NAMES = {
    "map": "element by element", "make_view": "view", "make_window": "window", "move_window": "moved",
    "from_lds": "read", "splat": "full", "slice": "slice_tile", "insert": "insert_tile", "atomic_update": "atomic",
    "broadcast": "stretch",
}  # fmt: skip
"""Operations that the language calls otherwise."""

_OPERATION = re.compile(r"^'ck\.(\w+)' ")
_OUTSIDE = re.compile(r"does not dominate this use|defined outside the region")
_UNFINISHED = re.compile(r"must end in|non-empty block|terminator|expects region #\d+ to have")


def verify(module: ir.Module) -> None:
    """Raise TracingError for a kernel that is not valid, with its first error and the other places that it names."""
    with collect(module.context) as diagnostics:
        try:
            module.operation.verify()
        except ir.MLIRError:
            found = next(one for one in diagnostics if one.severity == "error")
        else:
            return
    raise TracingError(*_words(found))


def _words(found: Diagnostic) -> tuple[str, Position | None, list[tuple[str, Position | None]]]:
    message = _OPERATION.sub(lambda match: f"{NAMES.get(match[1], match[1])}: ", found.message)
    if _OUTSIDE.search(message):
        made = next((note for note in found.notes if "operand defined" in note.message), None)
        if made is not None and "parent region" in made.message:
            message = "the results of a loop or branch are there behind it; inside, use what it carries"
        else:
            message = (
                "a value is used where it does not exist: it was made inside a loop, a branch or the function of a "
                "reduction, which has ended; hand it on (a loop's carry, a branch's give) and use its results"
            )
        return message, found.position, [("it was made here", made.position)] if made else []
    if _UNFINISHED.search(message):
        message = (
            "what begins here has no end: it was not entered by `with`, or an exception inside was caught; what was "
            "traced there is not whole"
        )
    return message, found.position, []
