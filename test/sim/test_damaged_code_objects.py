"""Damaged code objects never crash or hang the process: each ends in an error of the project, or runs within budget."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).parent / "damaged_code_objects.py"
ROOT = PROGRAM.parent.parent.parent


@pytest.mark.parametrize("count", [1000, pytest.param(60000, marks=pytest.mark.full)])
def test_thousands_of_damaged_code_objects(count: int) -> None:
    """From fixed seeds. Every end is seen: refused as damaged, or for its instructions, or while running; and run."""
    command = [sys.executable, str(PROGRAM), "0", str(count)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=1800, env=environment)
    assert done.returncode == 0, done.stderr[-3000:]
    ends = ast.literal_eval(done.stdout)
    assert sum(ends.values()) == count
    assert {"CodeObjectError", "UnsupportedInstruction", "SimulationError", "ran"} <= set(ends), ends
