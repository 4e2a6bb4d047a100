"""The page of the IR pass by pass: what it has of every pass, of one that fails, and that it is a well-formed file."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from ckmlir.passes.pipeline import PIPELINE
from ckmlir.tools import cli, opt

LOOP = """module { func.func @f(%n: index, %m: memref<?xi32>) {
  %c0 = arith.constant 0 : index %c1 = arith.constant 1 : index %x = arith.constant 3 : i32
  scf.for %i = %c0 to %n step %c1 { memref.store %x, %m[%i] : memref<?xi32> }
    {ck.schedule = "schedule mine 1; ahead load 1; buffers 2"}
  return } }
"""
VOID = {"meta", "br"}


class Balance(HTMLParser):
    """Fails where elements do not end in the order in which they begin."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def read(path: Path) -> str:
    text = path.read_text()
    parser = Balance()
    parser.feed(text)
    parser.close()
    assert parser.open == [] and "http" not in text and "<script" not in text
    return text


def test_passes_with_what_they_changed(tmp_path: Path) -> None:
    (tmp_path / "x.mlir").write_text(LOOP)
    page = tmp_path / "page.html"
    words = [str(tmp_path / "x.mlir"), "--cse", "--lower-affine", "--convert-scf-to-cf", "-o", str(tmp_path / "y.mlir")]
    assert opt.main([*words, "--html", str(page)]) == 0
    text = read(page)
    headings = re.findall(r"<h2>(.*?)</h2>", text)
    assert headings == ["cse", "lower-affine", "convert-scf-to-cf"]
    said = re.findall(r'<p class="quiet">(.*?), [\d.]+ ms</p>', text)
    assert said[:2] == ["no change", "no change"] and re.fullmatch(r"\+\d+ −\d+", said[2])
    assert '<span class="gone">-    scf.for' in text and "memref&lt;?xi32&gt;" in text
    assert text.count("schedule mine 1\nahead load 1\nbuffers 2</pre>") == 2  # the third pass takes the loop apart


def test_a_pass_that_fails_leaves_what_came_before_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "x.mlir").write_text(LOOP)
    page = tmp_path / "page.html"
    words = [str(tmp_path / "x.mlir"), "--cse", "--ck-pipeline-loops", "--reproducers=none"]
    assert opt.main([*words, "--html", str(page)]) == 2
    assert re.findall(r"<h2>(.*?)</h2>", read(page)) == ["cse"]
    assert "error" in capsys.readouterr().err


def test_kernels_have_the_whole_pipeline(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    request = ["softmax", "--arch", "gfx942", "-o", str(tmp_path / "x.hsaco"), "--html", str(page)]
    assert cli.main(["compile", *request]) == 0
    text = read(page)
    assert text.count("<section") == len(PIPELINE) and "<title>softmax</title>" in text
    assert "<h2>ck-lower-fragments</h2>" in text


def test_one_module_a_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "x.mlir").write_text(LOOP)
    assert opt.main([str(tmp_path / "x.mlir"), "--split-input-file", "--html", str(tmp_path / "page.html")]) == 2
    assert "--html shows one module; leave out --split-input-file" in capsys.readouterr().err
    assert not (tmp_path / "page.html").exists()
