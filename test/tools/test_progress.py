"""Commands say what takes long, and nothing of what does not."""

from __future__ import annotations

import io
import time
from pathlib import Path

import pytest

from ckmlir.dialect.context import ck_context
from ckmlir.mlir import ir
from ckmlir.tools import progress as module
from ckmlir.tools.cli import main
from ckmlir.tools.progress import progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_file_gets_a_line_of_what_takes_long(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(module, "SILENT_SECONDS", 0.05)
    with progress("making arrays"):
        time.sleep(0.3)
    assert capsys.readouterr().err == "ckmlir: making arrays …\n"


def test_steps_that_are_each_short_do_not_add_up_to_silence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(module, "SILENT_SECONDS", 1.0)
    module.begin_silence()
    with progress("making arrays"):
        time.sleep(0.7)
    with progress("computing the reference"):
        time.sleep(0.7)
    assert capsys.readouterr().err == "ckmlir: computing the reference …\n"
    with progress("writing"):  # there was a word just now
        time.sleep(0.3)
    assert capsys.readouterr().err == ""


def test_a_command_begins_with_silence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module._Silence, "since", 0.0)
    begin = time.monotonic()
    assert main(["cache", "show"]) == 0
    assert module._Silence.since is not None and module._Silence.since >= begin


def test_a_file_gets_nothing_of_what_is_short(capsys: pytest.CaptureFixture[str]) -> None:
    with progress("making arrays"):
        pass
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(("words", "lines"), [
    (["tune", "softmax", "m=5", "n=64", "--arch", "gfx942", "--jobs", "1", "--budget", "0.1"],
     ["listing kernels of softmax", "compiling and modelling kernels of softmax"]),
    (["build", "space.json", "-o", "few.ckl", "--jobs", "1"], ["listing kernels of space.json", "compiling 1 kernel"]),
])  # fmt: skip
def test_commands_of_many_kernels_are_not_silent(
    words: list[str], lines: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    Path("space.json").write_text('{"schema": 1, "op": "softmax", "arch": ["gfx942"], "keys": {"m": 5, "n": 64}}')
    monkeypatch.setattr(module, "SILENT_SECONDS", 0)
    assert main(words) == 0
    said = capsys.readouterr().err.splitlines()
    assert [line for line in said if line in {f"ckmlir: {one} …" for one in lines}] == [
        f"ckmlir: {one} …" for one in lines
    ]


def test_a_terminal_shows_it_with_the_seconds_and_wipes_it(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    with pytest.raises(KeyboardInterrupt), progress("making arrays"):
        time.sleep(1.3)
        raise KeyboardInterrupt
    assert terminal.getvalue() == "\rmaking arrays …\rmaking arrays … 1 s\r\033[K"


def test_it_costs_nothing() -> None:
    begin = time.perf_counter()
    for _ in range(100):
        with progress("nothing"):
            pass
    assert time.perf_counter() - begin < 1


def test_nothing_stands_between_what_is_printed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr(module, "SILENT_SECONDS", 0.001)
    printed = ["--print-after", "ck-split-tiles", "-o", str(tmp_path / "copy.hsaco")]
    assert main(["compile", "copy", "m=64", "n=64", "--arch", "gfx942", *printed]) == 0
    text = capsys.readouterr().err
    assert text.startswith("// -----// IR Dump")
    with ck_context():
        assert ir.Module.parse(text).operation.verify()
