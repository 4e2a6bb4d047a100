"""Grids of labelled cells, as text and as SVG: what all drawings of `ckmlir draw` are."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape

from msgspec import Struct

CHARACTER, LINE = 7, 20
"""Pixels of a character and a row."""
MARGIN = 10
GOLDEN = 137.5
"""Degrees between hues, which leaves neighbouring numbers unlike."""


class Cell(Struct, frozen=True):
    """A cell: its text, the number of its colour (None: without), and what a pointer over it shows."""

    label: str
    colour: int | None = None
    about: str = ""


class Grid(Struct, frozen=True):
    """A drawing.

    Attributes:
        title: its first line; `notes` are lines below it.
        corner: what rows and columns are.
        rows, columns: their labels, from the top and from the left.
        cells: by (row, column); where there is none the grid is empty. Equal neighbours in a row are drawn as one.
    """

    title: str
    corner: str
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    cells: Mapping[tuple[int, int], Cell]
    notes: tuple[str, ...] = ()

    def text(self) -> str:
        """For terminals: columns as wide as their widest cell."""
        wide = [max([len(label), *(len(self.cells[row, at].label) for row in range(len(self.rows)) if (row, at) in
                self.cells)]) for at, label in enumerate(self.columns)]  # fmt: skip
        first = max(len(self.corner), *map(len, self.rows), 0)
        lines = [self.title, *self.notes, ""]
        lines.append(" ".join([f"{self.corner:<{first}}", *(f"{one:>{w}}" for one, w in zip(self.columns, wide))]))
        for row, label in enumerate(self.rows):
            cells = (self.cells[row, at].label if (row, at) in self.cells else "." for at in range(len(self.columns)))
            lines.append(" ".join([f"{label:<{first}}", *(f"{one:>{w}}" for one, w in zip(cells, wide))]))
        return "\n".join(line.rstrip() for line in lines)

    def svg(self) -> str:
        """A picture, one file that refers to no other."""
        width = CHARACTER * max(2, *map(len, self.columns), *self._lengths()) + 6
        left = MARGIN + CHARACTER * max(len(self.corner), *map(len, self.rows), 0) + 6
        top = MARGIN + LINE * (2 + len(self.notes))
        right = max(left + width * len(self.columns), CHARACTER * max(map(len, (self.title, *self.notes)))) + MARGIN
        bottom = top + LINE * len(self.rows) + MARGIN
        parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{right}" height="{bottom}" '
            f'viewBox="0 0 {right} {bottom}" font-family="monospace" font-size="11">',
            f'<rect width="{right}" height="{bottom}" fill="white"/>',
        ]
        for number, line in enumerate((self.title, *self.notes)):
            weight = ' font-weight="bold"' if number == 0 else ""
            parts.append(f'<text x="{MARGIN}" y="{MARGIN + LINE * number + 10}"{weight}>{escape(line)}</text>')
        parts.append(f'<text x="{MARGIN}" y="{top - 6}" fill="#666">{escape(self.corner)}</text>')
        for at, label in enumerate(self.columns):
            x = left + width * at + width // 2
            parts.append(f'<text x="{x}" y="{top - 6}" text-anchor="middle" fill="#666">{escape(label)}</text>')
        for row, label in enumerate(self.rows):
            y = top + LINE * row
            parts.append(f'<text x="{MARGIN}" y="{y + 14}" fill="#666">{escape(label)}</text>')
            parts += self._row(row, left, y, width)
        return "\n".join([*parts, "</svg>", ""])

    def _lengths(self) -> list[int]:
        """Of what has to fit into one cell."""
        return [len(one.label) for (row, at), one in self.cells.items() if self.cells.get((row, at + 1)) != one
                and self.cells.get((row, at - 1)) != one] or [1]  # fmt: skip

    def _row(self, row: int, left: int, y: int, width: int) -> list[str]:
        parts, at = [], 0
        while at < len(self.columns):
            cell = self.cells.get((row, at))
            span = 1
            while cell is not None and at + span < len(self.columns) and self.cells.get((row, at + span)) == cell:
                span += 1
            if cell is not None:
                x, wide = left + width * at, width * span
                fill = "white" if cell.colour is None else f"hsl({cell.colour * GOLDEN % 360:.0f},60%,82%)"
                about = f"<title>{escape(cell.about)}</title>" if cell.about else ""
                parts.append(
                    f'<g>{about}<rect x="{x}" y="{y}" width="{wide}" height="{LINE}" fill="{fill}" stroke="#999"/>'
                    f'<text x="{x + wide // 2}" y="{y + 14}" text-anchor="middle">{escape(cell.label)}</text></g>'
                )
            at += span
        return parts
