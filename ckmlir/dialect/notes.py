"""What the compiler says of a kernel besides its code: attributes of its function that end in the code object.

Each is text (JSON) that a pass leaves on the function. Lowering hands it on, and it becomes an entry of the kernel's
metadata, under a key with this package's name in front, as LLVM's AMDGPUUsage asks of keys that are not its own.
"""

from typing import Any

import msgspec

from ckmlir.dialect.build import string, text_of
from ckmlir.mlir import ir

PROMISES = "ck.promises"
"""What evaluates the promises that the kernel relies upon (`passes/record_promises.py`)."""
ACCESSES = "ck.accesses"
"""Accesses that are narrower than their arrays allow (`passes/note_accesses.py`)."""
NOTES = {PROMISES: "ckmlir.promises", ACCESSES: "ckmlir.accesses"}
"""Attribute of the function -> key in the metadata."""


def leave_note(function: ir.Operation, name: str, content: Any) -> None:
    """Leave what JSON can hold on a function, as one of NOTES."""
    function.attributes[name] = string(msgspec.json.encode(content).decode())


def notes_of(function: ir.Operation) -> dict[str, ir.Attribute]:
    """The notes on a function, to hand on to what takes its place."""
    return {name: function.attributes[name] for name in NOTES if name in function.attributes}


def take_notes(function: ir.Operation) -> dict[str, Any]:
    """The notes on a function by their keys in the metadata; they are on the function no more."""
    found = {}
    for name in notes_of(function):
        found[NOTES[name]] = msgspec.json.decode(text_of(function, name))
        del function.attributes[name]
    return found
