"""`ckmlir timeline` writes a page and a Perfetto file of a real kernel; what it cannot do it says in a sentence."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from ckmlir.tools.cli import main

sys.path.insert(0, str(Path(__file__).parent.parent / "sim" / "timing"))
from browser import CHROMIUM, MISSING, open_page
from test_perfetto import problems

# Four waves, eight steps along K.
GEMM = ["timeline", "gemm", "m=128", "n=128", "k=512", "block=128x128x64", "--arch", "gfx942"]


def test_page_and_perfetto_file(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    page, trace = tmp_path / "page.html", tmp_path / "trace.json"
    assert main([*GEMM, "-o", str(page), "--perfetto", str(trace)]) == 0
    out = capsys.readouterr().out
    assert "gemm m=128 n=128 k=512 block=128x128x64 on gfx942" in out
    assert "waves 4" in out and "model, not hardware" in out
    text = page.read_text()
    assert len(text) < 3_000_000 and "mma 128x128 f32 (stage math)" in text and "loop_kernel.py:" in text
    document = json.loads(trace.read_text())
    assert problems(document) == []
    events = document["traceEvents"]
    assert sum(event["ph"] == "X" and event["cat"] == "MFMA" for event in events) == 4 * 8 * 32


def test_the_page_of_a_real_kernel_opens_fast(tmp_path: Path) -> None:
    if CHROMIUM is None:
        pytest.skip(MISSING)
    assert main([*GEMM, "-o", str(tmp_path / "gemm.html")]) == 0
    page = (tmp_path / "gemm.html").read_text()
    for _ in range(3):  # other processes may take the time of one
        said = open_page(tmp_path, page, "#search=v_mfma&path=1")
        if float(said["load-ms"]) < 2000:
            break
    assert "error" not in said and float(said["load-ms"]) < 2000
    assert int(said["matches"]) == 4 * 8 * 32 and int(said["lanes"]) == 4 * 6


def test_other_numbers_for_the_model(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    numbers, page = tmp_path / "numbers.toml", tmp_path / "page.html"
    cycles = []
    for latency in (64, 500):
        numbers.write_text(f"[lds]\nlatency = {latency}\n")
        assert main([*GEMM, "-o", str(page), "--timing-params", str(numbers)]) == 0
        words = capsys.readouterr().out.split()
        cycles.append(int(words[words.index("cycles") + 1].replace(",", "").strip(",")))
    assert cycles[1] > cycles[0] * 1.02


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("workgroups", "waves"), [("1", 4), ("3", 12), ("all", 4)])
def test_workgroups_of_a_compute_unit(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, workgroups: str, waves: int
) -> None:
    arguments = ["timeline", "gemm", "m=256", "n=256", "k=64", "block=64x64x32", "--arch", "gfx942"]
    assert main([*arguments, "-o", str(tmp_path / "page.html"), "--workgroups", workgroups]) == 0
    # 16 workgroups on 304 compute units: a sample has one.
    assert f"waves {waves}," in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ([], "nothing to write; give -o page.html"),
        (["-o", "nowhere/page.html"], "cannot write nowhere/page.html: there is no directory"),
        (["-o", "page.html", "--perfetto", "page.html"], "two results would be written to page.html"),
        (["-o", "page.html", "--workgroups", "2"], "2 workgroups cannot be modelled; the launch has 1"),
        (["-o", "page.html", "--workgroups", "0"], "0 is not a number of workgroups"),
        (["-o", "page.html", "--timing-params", "none.toml"], "cannot read the parameters in none.toml"),
    ],
)
def test_what_is_refused(
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    reason: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main([*GEMM, *arguments]) == 2
    assert reason in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_missing_package_is_named(tmp_path: Path) -> None:
    code = (
        "import sys\nsys.modules['numba'] = None\nfrom ckmlir.tools.cli import main\n"
        f"sys.exit(main({[*GEMM, '-o', str(tmp_path / 'page.html')]!r}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 2 and "pip install 'ckmlir[timing]'" in done.stderr, done.stderr
