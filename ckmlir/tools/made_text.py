"""Parts of documents that a program makes: between two marks, renewed in place."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

from msgspec import Struct


class MadeText(Struct, frozen=True):
    """A part of a document.

    Attributes:
        what: it is, in one word, for its marks.
        module: that makes it: `python -m MODULE FILE` renews it.
        make: its text.
    """

    what: str
    module: str
    make: Callable[[], str]

    def renewed(self, document: str) -> str:
        """A document with the part between its two marks renewed. Raises ValueError when it does not have them."""
        begin, end = f"<!-- {self.what}: made by {self.module} -->", f"<!-- end of {self.what} -->"
        before, first, rest = document.partition(begin)
        _, last, after = rest.partition(end)
        if not first or not last:
            raise ValueError(f"no place for the {self.what}: expected the lines {begin} and {end}")
        return f"{before}{begin}\n{self.make()}\n{end}{after}"

    def main(self) -> None:
        """Renew the part in the file named on the command line, or print it."""
        if len(sys.argv) == 1:
            print(self.make())
            return
        path = Path(sys.argv[1])
        path.write_text(self.renewed(path.read_text()))
