"""The line table: from a code address to the source position it was compiled from (DWARF .debug_line)."""

import io
import posixpath
from bisect import bisect_right
from typing import Any, NamedTuple

from ckmlir.codeobject.errors import CodeObjectError


class SourceLine(NamedTuple):
    """A source position: file path, line from 1, column from 1 (0 when not recorded)."""

    file: str
    line: int
    column: int


class LineTable:
    """Source positions by address. It is empty for code without debug information."""

    def __init__(self, rows: list[tuple[int, SourceLine | None]]) -> None:
        """Rows of an address and the position that holds from there on (None: no position)."""
        self._rows = sorted(rows, key=lambda row: row[0])
        self._addresses = [address for address, _ in self._rows]

    def __len__(self) -> int:
        return len(self._rows)

    def lookup(self, address: int) -> SourceLine | None:
        """The position of the instruction at `address` (in the image's addresses, from 0), None when unknown."""
        index = bisect_right(self._addresses, address) - 1
        return self._rows[index][1] if index >= 0 else None

    def rows(self) -> list[tuple[int, SourceLine | None]]:
        """All rows in order of address."""
        return list(self._rows)


def read_line_table(data: bytes) -> LineTable:
    """Reads the line table of an ELF file; empty when it has none.

    Raises:
        CodeObjectError: The debug information is damaged.
    """
    from elftools.elf.elffile import ELFFile  # 40 ms to import, and seldom needed

    rows: list[tuple[int, SourceLine | None]] = []
    try:
        elf = ELFFile(io.BytesIO(data))
        if not elf.has_dwarf_info():
            return LineTable([])
        dwarf = elf.get_dwarf_info(relocate_dwarf_sections=False)
        for unit in dwarf.iter_CUs():
            program = dwarf.line_program_for_CU(unit)
            if program is not None:
                rows += _unit_rows(program)
    except Exception as error:  # pyelftools lets any exception out when a table is damaged
        raise CodeObjectError(f"damaged code object: its debug lines cannot be read ({error})") from error
    return LineTable(rows)


def _unit_rows(program: Any) -> list[tuple[int, SourceLine | None]]:
    files = _file_names(program)
    rows: list[tuple[int, SourceLine | None]] = []
    for entry in program.get_entries():
        state = entry.state
        if state is None:
            continue
        if state.end_sequence or not state.line:  # line 0: the instruction comes from no source line
            rows.append((state.address, None))
        else:
            rows.append((state.address, SourceLine(files.get(state.file, ""), state.line, state.column)))
    return _last_of_each_address(rows)


def _last_of_each_address(rows: list[tuple[int, SourceLine | None]]) -> list[tuple[int, SourceLine | None]]:
    """Of several rows for one address the last one holds; a position takes precedence over none."""
    found: dict[int, SourceLine | None] = {}
    for address, position in rows:
        if position is not None or address not in found:
            found[address] = position
    return list(found.items())


def _file_names(program: Any) -> dict[int, str]:
    """File numbers of a line program to paths; numbers start at 0 in DWARF 5 and at 1 before."""
    header = program.header
    first = 0 if header.version >= 5 else 1
    directories = [_as_text(item) for item in header.include_directory]
    names: dict[int, str] = {}
    for number, entry in enumerate(header.file_entry, first):
        index = entry.dir_index - (0 if header.version >= 5 else 1)
        directory = directories[index] if 0 <= index < len(directories) else ""
        names[number] = posixpath.join(directory, _as_text(entry.name))
    return names


def _as_text(value: object) -> str:
    return value.decode("utf-8", errors="replace") if isinstance(value, bytes) else str(value)
