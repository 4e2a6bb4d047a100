"""Files of records and of misses: nothing is lost or half-written, and what a device timed counts before a model."""

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
from msgspec.structs import replace

from ckmlir.dispatch import Dispatcher, Kernel, NoKernel, Registry, Space
from ckmlir.dispatch.json_lines import append, read
from ckmlir.dispatch.misses import Asked, MissLog, read_asked, read_misses
from ckmlir.dispatch.records import (
    DEVICE,
    MODEL,
    Record,
    append_records,
    ranked,
    read_records,
    tuned_registry,
    tuned_table,
)
from ckmlir.errors import CkmlirError
from ckmlir.ops import find_operator
from ckmlir.ops.request import RequestError
from ckmlir.targets import get_target

ROOT = Path(__file__).resolve().parents[2]
GFX942 = get_target("gfx942")
GEMM = find_operator("gemm")
KEYS = {"m": 100, "n": 70, "k": 72}
ASKED = Asked.of(GEMM, KEYS, GFX942)


def kernels() -> list[Kernel]:
    keys: dict[str, Any] = {name: (value,) for name, value in KEYS.items()}
    fields = {"block": ((32, 64, 64), (64, 64, 64), (128, 128, 64)), "mfma": ((16, 16, 16),), "pad": ("mnk",)}
    return Space(GEMM, (GFX942,), keys, fields).expand().kernels


def record(place: int, source: str, median: float | None, **more: Any) -> Record:
    by = "GPU 0 (MI300X, gfx942)" if source == DEVICE else "gfx942"
    return Record(ASKED, kernels()[place], source, by, median, **more)


# -- lines -------------------------------------------------------------------------------------------------------------


def test_lines_come_back(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    append(path, [{"schema": 1, "a": "µ\n"}])
    append(path, [{"schema": 1, "a": 2}, {"schema": 1}])
    assert [values for _, values in read(path)] == [{"schema": 1, "a": "µ\n"}, {"schema": 1, "a": 2}, {"schema": 1}]
    assert [where for where, _ in read(path)] == [f"{path}:{number}" for number in (1, 2, 3)]


@pytest.mark.parametrize("torn", [b'{"schema": 1, "a', b"x" * 200_000, b"{", b"\xff"])
@pytest.mark.parametrize("before", [b"", b'{"schema":1}\n', b'{"schema":1}\n' * 9000])
def test_what_a_killed_process_left_of_a_line_is_none(tmp_path: Path, before: bytes, torn: bytes) -> None:
    path = tmp_path / "lines"
    path.write_bytes(before + torn)
    assert len(list(read(path))) == before.count(b"\n")
    append(path, [{"schema": 1, "b": 1}])
    assert path.read_bytes() == before + b'{"schema":1,"b":1}\n'


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (b"{", "is not JSON"), (b"[]", "expected an object with a schema"), (b"{}", "no field schema"),
        (b'{"schema": 1, "a": 2, "a": 3}', 'is not JSON .an object gives the key "a" twice'),
        (b'{"schema": 2}', "schema=2 is newer than this version reads"), (b'{"schema": true}', "expected an object"),
    ],
)  # fmt: skip
def test_lines_that_are_none(tmp_path: Path, line: bytes, words: str) -> None:
    path = tmp_path / "lines"
    path.write_bytes(b'{"schema":1}\n' + line + b'\n{"schema":1}\n')
    with pytest.raises(RequestError, match=f"lines:2.*{words}"):
        list(read(path))


def test_files_that_cannot_be_written_or_read(tmp_path: Path) -> None:
    with pytest.raises(CkmlirError, match="is not a regular file"):
        append(Path("/dev/null"), [{"schema": 1}])
    with pytest.raises(CkmlirError, match=r"cannot write .*none/lines: No such file"):
        append(tmp_path / "none" / "lines", [{"schema": 1}])
    with pytest.raises(RequestError, match="cannot read"):
        list(read(tmp_path / "none"))


def test_writers_that_are_killed_lose_nothing_that_was_done(tmp_path: Path) -> None:
    """Three writers at once, one of them killed again and again: every line is whole, no finished one is missing."""
    path = tmp_path / "lines"
    code = """
import sys
from pathlib import Path
from ckmlir.dispatch.json_lines import append
for number in range(int(sys.argv[3])):
    append(Path(sys.argv[1]), [{"schema": 1, "who": sys.argv[2], "number": number, "text": "x" * 5000}])
    print(number, flush=True)
"""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}

    def start(who: str, count: int) -> subprocess.Popen[str]:
        command = [sys.executable, "-c", code, str(path), who, str(count)]
        return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)

    lasting = [start("a", 150), start("b", 150)]
    finished = {}
    for attempt in range(3):
        killed = start(f"killed{attempt}", 100_000)
        assert killed.stdout is not None
        killed.stdout.readline()
        time.sleep(0.05)
        killed.send_signal(signal.SIGKILL)
        finished[f"killed{attempt}"] = 1 + len(killed.communicate()[0].splitlines())
    for one in lasting:
        one.communicate()
    seen: dict[str, list[int]] = {}
    for _, values in read(path):
        assert len(values["text"]) == 5000
        seen.setdefault(values["who"], []).append(values["number"])
    assert seen["a"] == seen["b"] == list(range(150))
    for who, count in finished.items():
        assert seen[who] == list(range(len(seen[who]))) and len(seen[who]) in (count, count + 1)


# -- records -----------------------------------------------------------------------------------------------------------


def test_records_come_back(tmp_path: Path) -> None:
    path = tmp_path / "tuned.jsonl"
    made = [
        record(0, MODEL, 12.5, low_us=12.5, high_us=12.5, spread_us=0.0, samples=0, clock_mhz=2100.0),
        record(1, DEVICE, 11.0, low_us=10.9, high_us=11.2, spread_us=0.1, samples=80, checked=str(ASKED)),
        record(2, MODEL, None, refused="it spills: vector_spills=3"),
    ]
    append_records(path, made[:1])
    append_records(path, made[1:])
    assert read_records(path) == made
    append_records(path, [replace(made[0], median_us=9.0)])
    assert read_records(path) == [*made[1:], replace(made[0], median_us=9.0)]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"source": "guess"}, "source=guess: expected device|model"), ({"median_us": None}, "median_us"),
        ({"refused": "why"}, "expected either median_us or refused"), ({"speed": 3}, "unknown field speed"),
        ({"arch": "gfx1"}, "unknown target"), ({"op": "gem"}, "did you mean gemm"),
        ({"op": "softmax", "keys": {}}, "is a kernel of another operator or chip"),
        ({"keys": {"mm": "3"}}, "gemm has no key mm"), ({"keys": {"m": "many"}}, "m=many: expected a whole number"),
        ({"kernel": {}}, "kernel: no field schema"),
    ],
)  # fmt: skip
def test_records_that_are_none(tmp_path: Path, change: dict[str, Any], words: str) -> None:
    path = tmp_path / "tuned.jsonl"
    append(path, [{**record(0, MODEL, 1.0).to_dict(), **change}])
    append_records(path, [record(1, MODEL, 2.0)])
    with pytest.raises(RequestError) as caught:
        read_records(path)
    assert words in str(caught.value) and "tuned.jsonl:1" in str(caught.value)
    assert read_records(path, partial=True) == [record(1, MODEL, 2.0)]


def test_a_model_never_replaces_a_device() -> None:
    """Whenever it was asked, and however fast it says that others are."""
    device = [record(1, DEVICE, 30.0), record(2, DEVICE, 20.0)]
    model = [record(0, MODEL, 1.0), record(1, MODEL, 2.0), record(2, MODEL, 3.0)]
    request = ASKED.request
    for both in (device + model, model + device):
        assert ranked(both)[request] == device[::-1]
    assert ranked(model)[request] == model
    assert ranked([*model, record(0, DEVICE, None, refused="wrong numbers")])[request] == model[1:]
    elsewhere = replace(device[0], by="GPU 0 (MI300A, gfx942)", median_us=5.0)
    assert ranked([*device, elsewhere])[request][0] == elsewhere
    assert ranked([*device, elsewhere], device[0].by)[request] == device[::-1]


def test_the_tuned_table_is_a_policy() -> None:
    found = kernels()
    records = [record(2, MODEL, 1.0), record(1, MODEL, 2.0)]
    table = tuned_table(records)
    dispatcher = Dispatcher(Registry(found), GFX942, table)
    chosen = dispatcher.select("gemm", **KEYS)
    assert (chosen.kernel, chosen.rule) == (found[2], "tuned table")
    assert dispatcher.select("gemm", **{**KEYS, "m": 99}).rule == "first fit"
    without = Dispatcher(Registry(found[:2]), GFX942, table).select("gemm", **KEYS)
    assert (without.kernel, without.rule) == (found[1], "tuned table")  # the fastest that there is
    none = Dispatcher(Registry(found[:1]), GFX942, table).select("gemm", **KEYS)
    assert (none.kernel, none.rule, none.passed) == (found[0], "first fit", ("tuned table",))
    assert list(tuned_registry(records)) == [found[2]]


# -- misses ------------------------------------------------------------------------------------------------------------


def test_misses_of_every_operator_are_noted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "misses.jsonl"
    monkeypatch.setenv("CKMLIR_MISSES", str(path))
    dispatcher = Dispatcher(Registry(kernels()), GFX942, tuned_table([record(0, MODEL, 1.0)]))
    dispatcher.select("gemm", **KEYS)  # tuned
    for _ in range(2):
        dispatcher.select("softmax", m=3, n=8)  # no kernel
        dispatcher.select("gemm", m=100, n=70, k=80, dtype="f16", layout="RCR")  # no row in the table
    strict = Dispatcher(Registry(), GFX942, strict=True)
    with pytest.raises(NoKernel):
        strict.select("softmax", n=8, m=3)
    assert [str(one) for one in read_asked(path)] == [
        "softmax m=3 n=8 on gfx942", "gemm k=80 m=100 n=70 on gfx942"
    ]  # fmt: skip
    assert sorted(read_misses(path).values()) == [1, 2]
    again = Asked.of(*read_asked(path)[1])
    assert again.operator.problem(**again.keys) == GEMM.problem(m=100, n=70, k=80)


def test_nothing_is_noted_unless_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CKMLIR_MISSES", raising=False)
    monkeypatch.chdir(tmp_path)
    Dispatcher(Registry(), GFX942).select("softmax", m=3, n=8)
    assert list(tmp_path.iterdir()) == []
    log = MissLog(tmp_path / "misses.jsonl")
    Dispatcher(Registry(), GFX942, log=log).select("softmax", m=3, n=8)
    assert json.loads(log.path.read_text()) == {
        "schema": 1, "op": "softmax", "arch": "gfx942", "keys": {"m": "3", "n": "8"}
    }  # fmt: skip
