"""What the compiler of a code object remarked of its accesses to memory."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from ckmlir.codeobject.errors import CodeObjectError


class NarrowAccess(Struct, frozen=True):
    """Loads or stores of a line that are narrower than their array's alignment and row length would allow.

    Attributes:
        kind: "load" or "store".
        bytes, possible: of a lane, as it is and as it could be.
        count: accesses of the kernel's text, each once for a loop.
        reason: what made them narrow.
        file, line: of the kernel's source; "" and 0 where not known.
    """

    kind: str
    bytes: int
    possible: int
    count: int
    reason: str
    file: str
    line: int

    def __str__(self) -> str:
        where = f"{self.file}:{self.line}: " if self.file else ""
        times = f"{self.count} {self.kind}s" if self.count > 1 else f"a {self.kind}"
        return f"{where}{times} of {self.bytes} bytes a lane where {self.possible} are possible: {self.reason}"


def narrow_accesses(notes: Mapping[str, Any]) -> list[NarrowAccess]:
    """The narrow accesses that a kernel's notes list. Raises CodeObjectError for a list that is damaged."""
    try:
        return [NarrowAccess(*row) for row in notes.get("accesses", ())]
    except TypeError as error:
        raise CodeObjectError(f"damaged code object: its remarks cannot be read ({error})") from error
