"""Tuning on a GPU behind hip-python, which is the driver double: what is checked, timed, noted, and kept of a fault."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from ckmlir.dispatch import Dispatcher, Kernel, Registry, Space
from ckmlir.dispatch import tuning as module
from ckmlir.dispatch.misses import Asked
from ckmlir.dispatch.records import DEVICE, MODEL, Record, append_records, read_records, tuned_table
from ckmlir.dispatch.tuning import Tuned, Tuning
from ckmlir.ops import find_operator
from ckmlir.runtime import interleaved, open_device
from ckmlir.runtime.device import KernelFault
from ckmlir.runtime.processes import OneByOne
from ckmlir.targets import get_target
from ckmlir.tools.cli import main

GFX942 = get_target("gfx942")
GEMM = find_operator("gemm")
KEYS = {"m": "70", "n": "64", "k": "64"}
ASKED = Asked.of(GEMM, KEYS, GFX942)


@pytest.fixture(autouse=True)
def _few_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interleaved, "LEAST_ROUNDS", 2)
    monkeypatch.setattr(interleaved, "MOST_ROUNDS", 3)


def kernels() -> list[Kernel]:
    fields: dict[str, Any] = {"block": ((32, 64, 64), (64, 64, 64)), "schedule": ("v1", "compv3")}
    keys: dict[str, Any] = {name: (int(value),) for name, value in KEYS.items()}
    return Space(GEMM, (GFX942,), keys, fields).expand().kernels


def second() -> Kernel:
    """What the operator would take if it did not take the first."""
    return Kernel(GEMM, GEMM.candidates(GEMM.problem(m=70, n=64, k=64), GFX942)[1], GFX942)


def race(path: Path, **options: Any) -> Tuned:
    with closing(open_device("hip", GFX942)) as device:
        tuning = Tuning(ASKED, kernels(), path, OneByOne())
        tuning.race(device, modelled=False, **options)
    return tuning.found


def test_kernels_are_timed_and_the_table_knows(driver: Any, tmp_path: Path) -> None:
    path = tmp_path / "tuned.jsonl"
    found = race(path)
    records = read_records(path)
    assert {one.source for one in records} == {DEVICE} and found.own in {one.kernel for one in records}
    for one in records:
        assert one.median_us and one.low_us and one.high_us and one.spread_us is not None
        assert 0 < one.low_us <= one.median_us <= one.high_us
        assert one.samples in (2 * interleaved.LAUNCHES, 3 * interleaved.LAUNCHES)
        assert (one.by, one.clock_mhz, one.checked) == ("GPU 0 (Double 0, gfx942)", 2100.0, str(ASKED))
    best = found.best()[0]
    dispatcher = Dispatcher(Registry(one.kernel for one in records), GFX942, tuned_table(records))
    assert dispatcher.select("gemm", **KEYS).kernel == best.kernel
    again = race(path)  # nothing is left to do
    assert read_records(path) == records and again.resumed == len(records)


def test_the_best_by_the_model_and_the_operators_choice_are_timed(driver: Any, tmp_path: Path) -> None:
    path = tmp_path / "tuned.jsonl"
    own = Kernel(GEMM, GEMM.spec(GEMM.problem(**KEYS), GFX942), GFX942)
    others = [one for one in kernels() if one != own]
    by_model = [Record(ASKED, one, MODEL, "gfx942", float(9 - place)) for place, one in enumerate(others)]
    append_records(path, [*by_model, Record(ASKED, others[-1], MODEL, "gfx942", refused="wrong numbers")])
    with closing(open_device("hip", GFX942)) as device:
        tuning = Tuning(ASKED, kernels(), path, OneByOne())
        tuning.race(device, most=2)
    timed = [one.kernel for one in tuning.found.best()]
    assert set(timed) == {own, others[-2]}  # the last one, the fastest by the model, was refused


def test_wrong_numbers_on_the_gpu_are_never_taken(
    driver: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong, run = second(), module.run_operator

    def spoiled(*given: Any, **options: Any) -> Any:
        result = run(*given, **options)
        if options["spec"] == wrong.spec:
            result.outputs["c"][3, 4] += 1
        return result

    monkeypatch.setattr(module, "run_operator", spoiled)
    path = tmp_path / "tuned.jsonl"
    found = race(path)
    assert [(one.kernel, one.source) for one in found.refused] == [(wrong, DEVICE)]
    assert "c: 1 of 4480 elements disagree" in str(found.refused[0].refused)
    assert wrong not in {one.kernel for one in found.best()}
    append_records(path, [Record(ASKED, wrong, MODEL, "gfx942", 0.001)])
    assert wrong.identifier not in tuned_table(read_records(path)).rows[ASKED.request]


def test_a_fault_is_noted_and_the_next_start_does_without(
    driver: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bad, run = second(), module.run_operator

    def faulty(*given: Any, **options: Any) -> Any:
        if options["spec"] == bad.spec:
            raise KernelFault("an illegal memory access")
        return run(*given, **options)

    monkeypatch.setattr(module, "run_operator", faulty)
    path = tmp_path / "tuned.jsonl"
    with pytest.raises(KernelFault):
        race(path)
    assert [one.refused for one in read_records(path)] == ["it faults: an illegal memory access"]
    found = race(path)
    assert bad not in {one.kernel for one in found.best()} and len(found.best()) > 1


def test_the_command_on_a_gpu(
    driver: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    words = ["tune", "softmax", "m=5", "n=64", "--arch", "gfx942", "--device", "hip", "--jobs", "1"]
    assert main(words) == 0
    out = capsys.readouterr().out
    assert "times are those of GPU 0 (Double 0, gfx942); all records are in tuned.jsonl" in out
    assert "(the operator's choice)" in out
    assert main([*words, "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert [one["source"] for one in report["best"]] == [DEVICE] and report["resumed"] == 2
