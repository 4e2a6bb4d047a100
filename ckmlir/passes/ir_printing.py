"""What is printed of the IR while a pipeline runs: all of it, only where a pass changed it, or what changed."""

from __future__ import annotations

import sys
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import TextIO

from ckmlir.errors import CkmlirError, check_fields
from ckmlir.mlir import ir
from ckmlir.passes.framework import Pass
from ckmlir.passes.ir_difference import difference


@dataclass
class IrPrinter:
    """Prints the IR before and after passes.

    Attributes:
        after, before: names of passes, or "all".
        changed: only where a pass changed something; of the others one line says so.
        diff: the lines that changed, not the whole.
        stream: where to; None: standard error.
    """

    after: Collection[str] = ()
    changed: bool = False
    diff: bool = False
    stream: TextIO | None = None
    before: Collection[str] = ()
    _before: str = field(default="", init=False)

    def __post_init__(self) -> None:
        check_fields(self, CkmlirError)

    def begin(self, current: Pass, module: ir.Module) -> None:
        """Print what is wanted before a pass, and remember what it begins with, where that matters."""
        if _is_among(current, self.before):
            print(f"// -----// IR Dump Before {current} //----- //\n{module}", file=self.stream or sys.stderr)
        if self.after and (self.changed or self.diff) and not self._before:
            self._before = str(module)

    def end(self, current: Pass, module: ir.Module) -> None:
        """Print what is wanted after a pass."""
        if not self.after:
            return
        wanted = _is_among(current, self.after)
        compares = self.changed or self.diff
        if not wanted and not compares:
            return
        text, before = str(module), self._before
        if compares:
            self._before = text
        if not wanted:
            return
        if compares and text == before:
            print(f"// -----// No Change By {current} //----- //", file=self.stream or sys.stderr)
            return
        shown = "\n".join(("--- before", "+++ after", *difference(before, text))) if self.diff else text
        print(f"// -----// IR Dump After {current} //----- //\n{shown}", file=self.stream or sys.stderr)


def _is_among(current: Pass, names: Collection[str]) -> bool:
    return bool(names) and ("all" in names or current.name in names or str(current) in names)
