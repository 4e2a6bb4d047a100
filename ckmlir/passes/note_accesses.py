"""Note accesses to memory that are narrower than the array would allow, with the line of the kernel and the reason.

An array allows vectors that its alignment and the length of its rows are multiples of, up to 16 bytes and what a thread
holds. What becomes of that is decided by strides and transforms of the view, by where windows start, and by the tile's
distribution; whichever of these loses first is the reason. Nothing changes in the program: the note travels in the code
object (`dialect/notes.py`), one row for each kind of access of a line:

    [load | store, bytes of a lane, bytes that are possible, accesses, reason, file, line]

Atomic updates and copies to LDS have widths of their own, and are not looked at.
"""

from dataclasses import dataclass
from math import gcd
from typing import Any, ClassVar

from ckmlir.diagnostics import position_of
from ckmlir.dialect.build import integer_of, registers_of, text_of
from ckmlir.dialect.descriptor import Descriptor
from ckmlir.dialect.distribution import Distribution
from ckmlir.dialect.notes import ACCESSES, leave_note
from ckmlir.dialect.scalars import bits
from ckmlir.dialect.symbols import divisor
from ckmlir.dialect.transforms import Embed
from ckmlir.dialect.types import WindowType
from ckmlir.dialect.views import described_as
from ckmlir.mlir import ir
from ckmlir.passes.framework import Pass
from ckmlir.passes.split_memory import ACCESS_BITS
from ckmlir.passes.walk import functions, listed
from ckmlir.passes.window_vectors import Lengths, vector_lengths

WINDOWS = {"ck.load_fragment": 0, "ck.gather_fragment": 0, "ck.store_fragment": 1, "ck.scatter_fragment": 1}
"""The operand of an access that is its window."""


@dataclass(frozen=True)
class NoteAccesses(Pass):
    """Note loads and stores that are narrower than alignment and row length of their array allow."""

    name: ClassVar[str] = "ck-note-accesses"
    keeps_lists: ClassVar[bool] = True

    def apply(self, module: ir.Module) -> None:
        for function in functions(module):
            lengths: Lengths | None = None
            alike: dict[Any, list[ir.Operation]] = {}
            for op in listed(function):
                name = op.name
                if name in WINDOWS:
                    window = op.operands[WINDOWS[name]]
                    alike.setdefault((name, window, op.attributes["distribution"]), []).append(op)
            rows: list[list[Any]] = []
            for (_, window, _), accesses in alike.items():
                possible = _possible(accesses[0], window)
                if len(registers_of(accesses[0])) < possible:
                    lengths = lengths or vector_lengths(function)
                    rows.append(_row(accesses, window, possible, lengths))
            if rows:
                leave_note(function, ACCESSES, rows)


def _possible(op: ir.Operation, window: ir.Value) -> int:
    """Elements of the widest access that alignment and rows allow, and that a thread holds."""
    described = described_as(window.type, WindowType)
    descriptor = described.descriptor
    first = descriptor.steps[0].transform
    if not isinstance(first, Embed) or 1 not in first.strides:
        return 1
    row = first.strides.index(1)
    if "axis" in op.attributes:
        along_row = descriptor.dependents([descriptor.steps[0].uppers[row]])
        if descriptor.rank == 1 or integer_of(op, "axis") in along_row:
            return 1  # every element has an index of its own
    most = min(ACCESS_BITS // bits(described.element), Distribution.parse(text_of(op, "distribution")).registers)
    known = gcd(descriptor.alignment, divisor(first.lengths[row]))
    count = 1
    while 2 * count <= most and known % (2 * count) == 0:
        count *= 2
    return count


def _row(accesses: list[ir.Operation], window: ir.Value, possible: int, lengths: Lengths) -> list[Any]:
    op = accesses[0]
    described = described_as(window.type, WindowType)
    size = bits(described.element)
    place = position_of(op.location)
    kind = "load" if op.name in ("ck.load_fragment", "ck.gather_fragment") else "store"
    width = len(registers_of(op))
    reason = _reason(op, window, possible, lengths)
    where = [place.file, place.line] if place else ["", 0]
    return [kind, width * size // 8, possible * size // 8, len(accesses), reason, *where]


def _reason(op: ir.Operation, window: ir.Value, possible: int, lengths: Lengths) -> str:
    """What keeps an access from being `possible` elements wide, the first of what decides."""
    descriptor = described_as(window.type, WindowType).descriptor
    along = [dim for dim in range(descriptor.rank) if "axis" not in op.attributes or dim != integer_of(op, "axis")]
    seen = max(descriptor.vector_length(dim, possible) for dim in along)
    if seen < possible:
        return _stride_reason(descriptor, possible) or f"the view's transforms keep only {seen} neighbours together"
    started = max(lengths(window, dim, possible) for dim in along)
    if started < possible:
        return f"the window is known to start at a multiple of {started} elements only"
    return f"of {possible} neighbours the distribution gives a thread {len(registers_of(op))}"


def _stride_reason(descriptor: Descriptor, possible: int) -> str | None:
    first = descriptor.steps[0].transform
    assert isinstance(first, Embed)
    for stride, length in zip(first.strides, first.lengths, strict=True):
        if stride != 1 and length != 1 and divisor(stride) % possible:
            return f"a stride is known to be a multiple of {divisor(stride)} elements only, not of {possible}"
    return None
