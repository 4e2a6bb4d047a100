"""Which instructions of a kernel somebody means: by offset, by source line, by a pattern of their text."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import PurePath
from typing import NamedTuple

from ckmlir.sim.decode import Instruction
from ckmlir.sim.program import Program

Place = int | str


class Listed(NamedTuple):
    """An instruction that a place may name: byte offset from the kernel's start, itself, file and line."""

    offset: int
    instruction: Instruction
    source: tuple[str, int] | None


def instructions_at(program: Program, place: Place) -> list[int]:
    """Numbers (in `program.instructions`) of the instructions that a place names, ascending.

    Args:
        program: The kernel.
        place: As for `numbers_at`.

    Raises:
        ValueError: The kernel has no such instruction.
    """
    kernel = program.kernel
    line_of = program.code_object.line_of
    listing = [Listed(one.address - kernel.address, one, line_of(one.address)) for one in program.instructions]
    return numbers_at(kernel.name, listing, place)


def numbers_at(kernel: str, listing: Sequence[Listed], place: Place) -> list[int]:
    """Numbers (in `listing`) of the instructions that a place names, ascending.

    Args:
        kernel: Its name, for messages.
        listing: Its instructions.
        place: A byte offset from the kernel's start, as findings print it; "file.py:line", the file by its name or the
            end of its path; or a pattern with * and ? for the mnemonic, or for the whole text ("v_mfma*",
            "s_waitcnt vmcnt(0)*").

    Raises:
        ValueError: There is no such instruction.
    """
    if isinstance(place, int):
        found = [number for number, one in enumerate(listing) if one.offset == place]
        reason = f"no instruction starts at offset 0x{place:x}"
    elif (line := _source_line(place)) is not None:
        found = [number for number, one in enumerate(listing) if one.source is not None and _is_line(one.source, line)]
        sources = {one.source for one in listing if one.source is not None}
        known = sorted({source[1] for source in sources if _is_file(source[0], line[0])})
        reason = f"no instruction comes from {place}; " + (
            f"lines of {line[0]} with instructions: {', '.join(map(str, known))}"
            if known
            else "its line table names " + (", ".join(sorted({source[0] for source in sources})) or "no file")
        )
    else:
        found = [
            number
            for number, one in enumerate(listing)
            if fnmatchcase(one.instruction.mnemonic, place) or fnmatchcase(one.instruction.text, place)
        ]
        reason = f"no instruction's mnemonic or text matches {place!r}"
    if not found:
        raise ValueError(f"kernel {kernel}: {reason}")
    return found


def _source_line(place: str) -> tuple[str, int] | None:
    file, colon, line = place.rpartition(":")
    return (file, int(line)) if colon and file and line.isascii() and line.isdigit() else None


def _is_line(at: tuple[str, int], wanted: tuple[str, int]) -> bool:
    return at[1] == wanted[1] and _is_file(at[0], wanted[0])


def _is_file(path: str, wanted: str) -> bool:
    parts = PurePath(wanted).parts
    return PurePath(path).parts[-len(parts) :] == parts
