"""Arrays of the host in any form give the same numbers, masked ones are refused, damaged files of the cache cost time
only; and what once was wrong of it is found when it is put back.
"""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
from outside import call_on_host, draw_form, run_on_damaged_files, small
from trial import FAILED, Outcome

from ckmlir.ops.arrays import ArraySpec
from ckmlir.ops.comparison import Array
from ckmlir.runtime import executable
from ckmlir.targets import TARGETS

SEED = 20
CALLS, DAMAGED = 24, 8
UNCHECKED = """
import json
from ckmlir import files
def read(path):
    line, _, content = path.read_bytes().partition(b"\\n")
    header = json.loads(line)
    header.pop("sha256", None)
    return header, content
files.read_with_digest = read
"""
"""Files are taken for what was written."""


def called(number: int) -> tuple[str, Outcome]:
    """What comes of a call that is drawn, and the call."""
    random = Random(f"{SEED} {number}")
    trial, form = small(random, random.choice(tuple(TARGETS))), draw_form(random)
    return f"{trial.command()}, inputs {form['in']}, outputs {form['out']}", call_on_host(trial, form)


def test_arrays_of_the_host_in_any_form() -> None:
    for number in range(CALLS):
        call, outcome = called(number)
        assert outcome.kind != FAILED, f"{call}: {outcome.reason}"


def test_bytes_in_another_order_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where arrays are taken for this machine's."""
    to_memory = executable.to_memory

    def taken(array: Array, spec: ArraySpec) -> Array:
        return to_memory(array.view(array.dtype.newbyteorder("=")), spec)

    monkeypatch.setattr(executable, "to_memory", taken)
    assert any(called(number)[1].kind == FAILED for number in range(CALLS))


def test_masked_arrays_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where nobody asks for a mask."""
    monkeypatch.setattr("ckmlir.runtime.arguments.is_masked", lambda array: False)
    assert any(called(number)[1].kind == FAILED for number in range(CALLS))


def damaged(number: int, cache: Path, before: str = "") -> Outcome:
    """What comes of files that are damaged in a way that is drawn."""
    random = Random(f"{SEED} {number}")
    return run_on_damaged_files(small(random, random.choice(tuple(TARGETS))), cache, random, before)


@pytest.mark.full
@pytest.mark.parametrize("number", range(DAMAGED))
def test_damaged_files_cost_time_only(number: int, tmp_path: Path) -> None:
    outcome = damaged(number, tmp_path)
    assert outcome.kind != FAILED, outcome.reason


@pytest.mark.full
def test_damage_is_found(tmp_path: Path) -> None:
    """Where digests are not compared: the process ends, or numbers are wrong."""
    assert any(damaged(number, tmp_path / str(number), UNCHECKED).kind == FAILED for number in range(DAMAGED))
