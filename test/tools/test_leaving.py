"""Commands end at once: nothing is taken apart; what was printed arrives, and what waits for the end is called."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = """
import atexit, sys
class Heavy:
    def __del__(self):
        print("taken apart")
heavy = Heavy()
sys.modules["kept"] = heavy
atexit.register(print, "called at the end", file=sys.stderr)
"""


@pytest.mark.one_in(4)
@pytest.mark.parametrize(
    ("tool", "words", "status"),
    [
        ("cli", ["list", "copy", "--arch", "gfx90a"], 0),
        ("cli", ["lst"], 2),
        ("opt", ["--list-passes"], 0),
        ("reduce", ["--help"], 0),
    ],
    ids=str,
)
def test_a_command_leaves_at_once(tool: str, words: list[str], status: int) -> None:
    function = {"cli": "ckmlir", "opt": "ckmlir_opt", "reduce": "ckmlir_reduce"}[tool]
    imports = f"from ckmlir.tools.{tool} import main\nfrom ckmlir.tools import scripts\n"
    begin = f"{HEAVY}\nsys.argv[1:] = {words!r}\n{imports}"
    at_once, as_python = (
        subprocess.run([sys.executable, "-c", f"{begin}{end}"], capture_output=True, text=True)
        for end in (f"scripts.{function}()", "sys.exit(main())")
    )
    assert at_once.returncode == as_python.returncode == status
    assert "taken apart" not in at_once.stdout and "taken apart" in as_python.stdout
    assert at_once.stdout == as_python.stdout.replace("taken apart\n", "")
    assert at_once.stderr == as_python.stderr and "called at the end\n" in at_once.stderr
