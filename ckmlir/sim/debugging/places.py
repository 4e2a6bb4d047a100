"""Which instructions of a kernel somebody means: by offset, by source line, by a pattern of their text."""

from __future__ import annotations

from fnmatch import fnmatchcase
from pathlib import PurePath

from ckmlir.sim.program import Program

Place = int | str


def instructions_at(program: Program, place: Place) -> list[int]:
    """Numbers (in `program.instructions`) of the instructions that a place names, ascending.

    Args:
        program: The kernel.
        place: A byte offset from the kernel's start, as findings print it; "file.py:line", the file by its name or the
            end of its path; or a pattern with * and ? for the mnemonic, or for the whole text ("v_mfma*",
            "s_waitcnt vmcnt(0)*").

    Raises:
        ValueError: The kernel has no such instruction.
    """
    instructions, kernel = program.instructions, program.kernel
    if isinstance(place, int):
        found = [number for number, one in enumerate(instructions) if one.address - kernel.address == place]
        reason = f"no instruction starts at offset 0x{place:x}"
    elif (line := _source_line(place)) is not None:
        lines = [program.line_of(one.address) for one in instructions]
        found = [number for number, at in enumerate(lines) if at is not None and _is_line(at, line)]
        known = sorted({at[1] for at in lines if at is not None and _is_file(at[0], line[0])})
        reason = f"no instruction comes from {place}; " + (
            f"lines of {line[0]} with instructions: {', '.join(map(str, known))}"
            if known
            else "its line table names " + (", ".join(sorted({at[0] for at in lines if at})) or "no file")
        )
    else:
        found = [
            number
            for number, one in enumerate(instructions)
            if fnmatchcase(one.mnemonic, place) or fnmatchcase(one.text, place)
        ]
        reason = f"no instruction's mnemonic or text matches {place!r}"
    if not found:
        raise ValueError(f"kernel {kernel.name}: {reason}")
    return found


def _source_line(place: str) -> tuple[str, int] | None:
    file, colon, line = place.rpartition(":")
    return (file, int(line)) if colon and file and line.isascii() and line.isdigit() else None


def _is_line(at: tuple[str, int], wanted: tuple[str, int]) -> bool:
    return at[1] == wanted[1] and _is_file(at[0], wanted[0])


def _is_file(path: str, wanted: str) -> bool:
    parts = PurePath(wanted).parts
    return PurePath(path).parts[-len(parts) :] == parts
