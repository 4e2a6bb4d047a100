"""Tuning by the model: what is looked at first, what is refused, and that a tuning goes on where it was ended."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from ckmlir.dispatch import Kernel, Space, examining, space, tuning
from ckmlir.dispatch.examining import Examined, Wanted, examine, smaller
from ckmlir.dispatch.misses import Asked
from ckmlir.dispatch.records import MODEL, read_records
from ckmlir.dispatch.tuning import Tuned, Tuning, nearest
from ckmlir.errors import CkmlirError
from ckmlir.ops import find_operator
from ckmlir.runtime.processes import OneByOne
from ckmlir.runtime.workers import WorkerError
from ckmlir.targets import get_target

ROOT = Path(__file__).resolve().parents[2]
GFX942 = get_target("gfx942")
FMHA = find_operator("fmha_fwd")
KEYS = {"sq": "70", "sk": "64", "d": "32", "h": "1"}
ASKED = Asked.of(FMHA, KEYS, GFX942)


def spaced() -> list[Kernel]:
    return space(FMHA, KEYS, GFX942).expand().kernels


class Script:
    """In place of `examine`: what kernels take is a rule, and each one that is asked about is noted."""

    def __init__(self, rule: Any) -> None:
        self.rule = rule
        self.asked: list[Kernel] = []

    def __call__(self, operator: Any, spec: Any, target: str, keys: Any, wanted: Wanted) -> Examined:
        kernel = Kernel(find_operator(operator), spec, get_target(target))
        self.asked.append(kernel)
        found = self.rule(kernel)
        if isinstance(found, Exception):
            raise found
        return Examined(found, 2100.0, "a small request") if found else Examined(None, None, None, "too long")


def run(path: Path, monkeypatch: pytest.MonkeyPatch, rule: Any, **options: Any) -> tuple[Tuned, list[Kernel]]:
    script = Script(rule)
    monkeypatch.setattr(tuning, "examine", script)
    one = Tuning(ASKED, spaced(), path, OneByOne(), **options)
    one.rank()
    return one.found, script.asked


def wide(kernel: Kernel) -> float:
    """The more queries and the fewer keys at a time the better."""
    queries, keys = kernel.spec.block  # type: ignore[attr-defined]
    return 100.0 - queries / 4 + keys / 16 + len(kernel.spec.schedule) / 100  # type: ignore[attr-defined]


def test_all_kernels_are_ranked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "tuned.jsonl"
    found, asked = run(path, monkeypatch, wide)
    assert len(asked) == len(set(asked)) and found.left == 0
    assert set(spaced()) <= set(asked)
    assert asked[0] == found.own
    best = found.best()
    assert [one.median_us for one in best] == sorted(wide(one) for one in asked)
    assert best[0].clock_mhz == 2100.0 and best[0].checked == "a small request" and best[0].source == MODEL
    assert read_records(path) == found.records


def test_the_likely_ones_come_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the time for a third of the space the best kernel by a smooth rule is found."""
    count = [0]
    monkeypatch.setattr(tuning.time, "monotonic", lambda: float(count[0]))

    def counted(kernel: Kernel) -> float:
        count[0] += 1
        return wide(kernel)

    budget = len(spaced()) // 3
    found, asked = run(tmp_path / "some.jsonl", monkeypatch, counted, budget=budget)
    assert len(asked) <= budget + 4 and found.left == len({*spaced(), *asked}) - len(asked)
    best = min(wide(one) for one in spaced())
    assert found.best()[0].median_us == best


def test_refusals_are_kept_and_what_says_nothing_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "tuned.jsonl"
    kernels = spaced()
    answers: dict[Kernel, Any] = {
        kernels[1]: CkmlirError("wrong numbers: o"), kernels[2]: WorkerError("the process ended"), kernels[3]: None
    }  # fmt: skip
    found, asked = run(path, monkeypatch, lambda kernel: answers.get(kernel, 5.0))
    assert [(one.kernel, one.refused) for one in found.refused] == [(kernels[1], "wrong numbers: o")]
    assert found.unknown == {kernels[2].identifier: "the process ended", kernels[3].identifier: "too long"}
    assert not {one.kernel for one in found.best()} & set(answers)
    found, again = run(path, monkeypatch, lambda kernel: 4.0)
    assert set(again) == {kernels[2], kernels[3]} and found.resumed == len(asked) - 2
    assert {one.kernel for one in found.best()[:2]} == {kernels[2], kernels[3]}


def test_a_tuning_that_is_interrupted_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "tuned.jsonl"
    asked: list[Kernel] = []

    def interrupted(kernel: Kernel) -> Any:
        if len(asked) == 7:
            raise KeyboardInterrupt
        asked.append(kernel)
        return wide(kernel)

    with pytest.raises(KeyboardInterrupt):
        run(path, monkeypatch, interrupted)
    found, more = run(path, monkeypatch, wide)
    assert found.resumed == 7 and not set(asked) & set(more)
    whole, _ = run(tmp_path / "whole.jsonl", monkeypatch, wide)
    assert found.best()[0] == whole.best()[0]
    assert {one.key for one in found.records} == {one.key for one in whole.records}


def test_nearest_kernels_differ_in_one_field_and_by_little() -> None:
    own = next(one for one in spaced() if one.spec.block == (64, 64))  # type: ignore[attr-defined]
    order = nearest(own, spaced(), 100)
    assert order[0] == own
    roles = own.spec.roles()

    def differing(other: Kernel) -> int:
        return sum(getattr(own.spec, name) != getattr(other.spec, name) for name in roles)

    counts = [differing(one) for one in order]
    assert counts[1] == 1 and counts[-1] > 1


# -- what is found out about a kernel ----------------------------------------------------------------------------------


def test_a_kernel_is_compiled_modelled_and_compared() -> None:
    kernel = spaced()[0]
    found = examine("fmha_fwd", kernel.spec, "gfx942", KEYS, Wanted(True, True, False))
    assert found.microseconds and found.clock_mhz and found.without_model is None
    assert found.checked == str(ASKED)
    none = examine("fmha_fwd", kernel.spec, "gfx942", KEYS, Wanted(False, False, False))
    assert none == Examined(None, None, None)


def test_wrong_numbers_and_spills_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = spaced()[0]
    used = examining.resources_of
    monkeypatch.setattr(examining, "resources_of", lambda one: {**used(one), "vector_spills": 3})
    with pytest.raises(CkmlirError, match="it spills: vector_spills=3"):
        examine("fmha_fwd", kernel.spec, "gfx942", KEYS, Wanted(False, False, False))
    examine("fmha_fwd", kernel.spec, "gfx942", KEYS, Wanted(False, False, True))
    monkeypatch.undo()
    right = type(FMHA).expected
    monkeypatch.setattr(
        type(FMHA), "expected", lambda *given: {name: one + 1 for name, one in right(*given).items()}
    )
    with pytest.raises(CkmlirError, match=r"wrong numbers: o: .* disagree"):
        examine("fmha_fwd", kernel.spec, "gfx942", KEYS, Wanted(False, True, False))


@pytest.mark.parametrize(
    ("name", "keys", "expected"),
    [
        ("gemm", {"m": "4096", "n": "4095", "k": "1025"}, {"m": 512, "n": 767, "k": 513}),
        ("gemm", {"m": "64", "n": "64", "k": "64"}, {"m": "64", "n": "64", "k": "64"}),
        ("fmha_fwd", {"b": "8", "h": "32", "hk": "8", "sq": "2048", "sk": "2048", "d": "128"},
         {"b": 2, "h": 2, "hk": 2, "sq": 512, "sk": 512, "d": "128"}),
        ("elementwise", {"shape": "4096x4100"}, {"shape": (4096, 516)}),
    ],
)  # fmt: skip
def test_numbers_are_compared_for_small_requests(name: str, keys: dict[str, str], expected: dict[str, Any]) -> None:
    """What lies to the blocks as what is asked for."""
    operator = find_operator(name)
    kernel = Kernel(operator, operator.spec(operator.problem(**keys), GFX942), GFX942)
    found = smaller(kernel, keys)
    assert found == expected
    assert not kernel.against(operator.problem(**found))


# -- processes that are killed -----------------------------------------------------------------------------------------


def test_a_killed_tuning_loses_nothing(tmp_path: Path) -> None:
    path, axes = tmp_path / "tuned.jsonl", tmp_path / "space.json"
    values: dict[str, Any] = {
        "schema": 1, "op": "softmax", "arch": "gfx942", "keys": {"m": 4, "n": 1024}, "algorithm": {"row_waves": [1, 2]}
    }  # fmt: skip
    axes.write_text(json.dumps(values))
    command = [
        sys.executable, "-m", "ckmlir.tools.cli", "tune", "softmax", "m=4", "n=1024", "--arch", "gfx942", "--jobs", "1",
        "--space", str(axes), "-o", str(path),
    ]  # fmt: skip
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    killed = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE)
    while killed.poll() is None and not (path.exists() and b"\n" in path.read_bytes()):
        time.sleep(0.01)
    killed.send_signal(signal.SIGKILL)
    killed.communicate()
    before = read_records(path)
    assert before
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    after = read_records(path)
    assert after[: len(before)] == before
    assert len(after) == len(Space.from_dict(values).expand().kernels) == 2
    assert f", {len(before)} records are of earlier starts" in done.stdout
