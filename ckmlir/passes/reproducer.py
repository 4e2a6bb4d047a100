"""What a reproducer, the file that a failing pass leaves, says of itself."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import NamedTuple

from ckmlir.errors import CkmlirError

_COMMAND = re.compile(r"^// (?:PYTHONPATH=(?P<folder>\S+) )?ckmlir-opt (?P<words>--pass-pipeline=.*)$", re.MULTILINE)


class Replay(NamedTuple):
    """How a failure is replayed.

    Attributes:
        pipeline: the pass that failed, as pipeline text.
        verify_each: whether IR was verified after every pass.
        folder: where the module of a plug-in was; "" for none.
    """

    pipeline: str
    verify_each: bool
    folder: str

    def command(self, file: Path) -> str:
        """The command that replays it, of a file."""
        found = f"PYTHONPATH={shlex.quote(self.folder)} " if self.folder else ""
        options = " --verify-each" if self.verify_each else ""
        return f"{found}ckmlir-opt --pass-pipeline={shlex.quote(self.pipeline)}{options} {shlex.quote(str(file))}"


def read_replay(text: str, name: str) -> Replay:
    """The command in a reproducer. Raises CkmlirError for another file; `name` is what messages call it."""
    match = _COMMAND.search(text)
    if match is None:
        raise CkmlirError(f"{name}: not a reproducer: it names no command such as // ckmlir-opt --pass-pipeline=…")
    words = shlex.split(match["words"])
    folder = shlex.split(match["folder"])[0] if match["folder"] else ""
    return Replay(words[0].partition("=")[2], "--verify-each" in words, folder)
