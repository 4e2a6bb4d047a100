"""What instructions of a trace are called where people read them: pages, lists and traces."""

from __future__ import annotations

import linecache
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from ckmlir.sim.timing.recording import Trace


class Label(NamedTuple):
    """One instruction as text.

    Attributes:
        address: Byte offset from the kernel's start.
        mnemonic, operands: Its assembly.
        source: "folder/file.py:12", "" where unknown.
        tile_op: The operation of tile code that it came from, "" where unknown.
    """

    address: int
    mnemonic: str
    operands: str
    source: str
    tile_op: str

    @property
    def place(self) -> str:
        """The source line without its folders, or the address where there is none."""
        return self.source.rsplit("/", 1)[-1] or f"0x{self.address:x}"


def labels_of(trace: Trace) -> list[Label]:
    """The label of every instruction in `trace.program`."""
    found = []
    for entry in trace.program:
        mnemonic, _, operands = entry.instruction.text.strip().partition(" ")
        source = "{}:{}".format(*entry.source) if entry.source else ""
        found.append(Label(entry.address, mnemonic, operands.strip(), source, entry.tile_op or ""))
    return found


def source_text(source: str) -> str:
    """The line that "file.py:12" names, without indentation; "" where the file is not there."""
    file, _, line = source.rpartition(":")
    return linecache.getline(file, int(line)).strip() if file and line.isdigit() else ""
