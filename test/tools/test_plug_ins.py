"""Plug-ins: the tutorials of docs/plug_ins.md as they stand there, and what goes wrong in plug-ins called theirs."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ckmlir import plug_ins
from ckmlir.compiler import compile_scheduled
from ckmlir.ops import find_operator
from ckmlir.passes.pipeline import START
from ckmlir.scheduling import Workbench
from ckmlir.targets import get_target
from ckmlir.tools import cli, opt
from ckmlir.tools.own_kernel import added_passes

ROOT = Path(__file__).parent.parent.parent
EXAMPLES = ROOT / "examples" / "plug_ins"
PAGE = (ROOT / "docs" / "plug_ins.md").read_text()
MODULE = "module { func.func @f() { return } }\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The working directory, with the examples in it; what is imported from it is forgotten."""
    for file in EXAMPLES.glob("*.py"):
        shutil.copy(file, tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    known = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - known:
        if str(tmp_path) in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]


def test_the_page_shows_the_files() -> None:
    for file in EXAMPLES.glob("*[!g].py"):
        text = file.read_text()
        assert f"```python\n{text}```" in PAGE and len(text.splitlines()) <= 40
    assert f"```mlir\n{(EXAMPLES / 'more_buffers.mlir').read_text()}```" in PAGE


def test_the_commands_of_the_page_run(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tools = {"ckmlir": cli.main, "ckmlir-opt": opt.main}
    commands = re.findall(r"^\$ (.*)\n((?:[^$`].*\n)*)", PAGE, re.MULTILINE)
    assert len(commands) == 10
    for command, expected in commands:
        command, _, output = command.partition(" > ")
        tool, *words = shlex.split(command)
        assert tools[tool](words) == 0, capsys.readouterr().err
        out = capsys.readouterr().out
        assert expected in out
        if output:
            Path(output).write_text(out)


def test_the_lit_test_of_the_page_passes() -> None:
    ran = subprocess.run([sys.executable, "-c", "import lit.main; lit.main.main()", EXAMPLES], capture_output=True)
    assert ran.returncode == 0, ran.stdout.decode()


def test_the_workbench_knows_schedulers_of_others(folder: Path) -> None:
    gemm, target = find_operator("gemm"), get_target("gfx942")
    bench = Workbench.of(gemm, gemm.spec(gemm.problem(m=64, n=64, k=128, block="64x64x32"), target), target)
    solution = bench.solve("as_soon_as_possible:AsSoonAsPossible")
    assert solution.schedule.name == "as_soon_as_possible"
    assert not bench.compile(solution.schedule, code=False).findings


SCHEDULER = """
from ckmlir.scheduling import SchedulingError, Solution
from ckmlir.dialect.schedule import Schedule
class Mine:
    def solve(self, problem, seed=0):
        {}
class NoSolve:
    pass
thing = 3
"""


@pytest.mark.parametrize(
    "called, body, message",
    [
        ("mine:Mine", "return problem.nothing", "stopped with AttributeError: "),
        ("mine:Mine", "raise SystemExit(0)", "it stopped with SystemExit: 0; this is a defect of the plug-in"),
        ("mine:Mine", "return 3", "solve gave int, expected a Solution with a Schedule; this is a defect of the plug"),
        ("mine:Mine", "return Solution(Schedule('x'))", "the schedule that it found is not legal: "),
        ("mine:Mine", "raise SchedulingError('too hard')", "scheduler mine:Mine: too hard"),
        ("mine:NoSolve", "pass", "it has no method solve(problem, seed=0)"),
        ("mine:thing", "pass", "expected a class, got int"),
        ("mine:Other", "pass", "has no attribute 'Other'"),
        ("absent:Mine", "pass", "scheduler absent:Mine: there is no such module"),
        ("mine:Mine", "import no_such_thing", "this is a defect of the plug-in"),
        ("mine:Mine", "(", "its module stops with SyntaxError"),
    ],
)
def test_errors_of_schedulers_are_theirs(
    folder: Path, capsys: pytest.CaptureFixture[str], called: str, body: str, message: str
) -> None:
    (folder / "mine.py").write_text(SCHEDULER.format(body))
    words = ["gemm", "m=64", "n=64", "k=128", "block=64x64x32", "--arch", "gfx942", "--scheduler", called]
    assert cli.main(["schedule", *words]) == 2
    err = capsys.readouterr().err
    assert message in err and called in err


PASS = """
from dataclasses import dataclass
from ckmlir.mlir import ir
from ckmlir.passes.framework import Pass, fail
@dataclass(frozen=True)
class Mine(Pass):
    '''Does things.'''
    name = {name}
    count: int = 1
    def apply(self, module):
        {body}
class Loose(Pass):
    name = "mine-loose"
class Other:
    pass
"""
INVALID = "module.body.operations[0].regions[0].blocks[0].operations[0].erase()"


@pytest.mark.parametrize(
    "called, name, body, message",
    [
        ("mine:Mine", "'mine'", "1 / 0", "stopped with ZeroDivisionError: division by zero; this is a defect of the"),
        ("mine:Mine", "'mine'", "raise SystemExit(0)", "stopped with SystemExit: 0; this is a defect of the"),
        ("mine:Mine", "'mine'", INVALID, "this is a defect of the plug-in mine:Mine"),
        ("mine:Mine", "'ck-mine'", "pass", "does not begin with ck-"),
        ("mine:Loose", "'mine'", "pass", "expected a frozen dataclass"),
        ("mine:Other", "'mine'", "pass", "expected a subclass of ckmlir.passes.framework.Pass"),
        ("mine:Mine=count=x", "'mine'", "pass", "option count=x has to be an integer"),
        ("mine:Mine=number=2", "'mine'", "pass", "has no option 'number'"),
    ],
)
def test_errors_of_passes_are_theirs(
    folder: Path, capsys: pytest.CaptureFixture[str], called: str, name: str, body: str, message: str
) -> None:
    (folder / "mine.py").write_text(PASS.format(name=name, body=body))
    (folder / "in.mlir").write_text(MODULE)
    assert opt.main(["in.mlir", f"--{called}", "--reproducers", "kept"]) == 2
    err = capsys.readouterr().err
    assert message in err and "defect of ckmlir" not in err
    for kept in (folder / "kept").glob("*.mlir") if (folder / "kept").exists() else ():
        replay = re.search(r"^// PYTHONPATH=(\S+) ckmlir-opt (.*)$", kept.read_text(), re.MULTILINE)
        assert replay is not None and replay[1] == str(folder)
        assert opt.main(shlex.split(replay[2])) == 2
        assert message in capsys.readouterr().err


def test_names_that_packages_give(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    names = {plug_ins.PASSES: {"acme-buffers": "more_buffers:MoreBuffers", "acme-lost": "absent:Lost"},
             plug_ins.SCHEDULERS: {"acme": "as_soon_as_possible:AsSoonAsPossible"}}  # fmt: skip
    monkeypatch.setattr(plug_ins, "installed", names.__getitem__)
    (folder / "in.mlir").write_text(MODULE)
    assert opt.main(["--list-passes"]) == 0
    listed = capsys.readouterr().out
    assert "acme-buffers: Give every scheduled loop a number of LDS buffers. (a plug-in)\n    count: int" in listed
    assert "acme-lost: cannot be used: " in listed
    assert opt.main(["in.mlir", "--acme-buffers=count=2", "--cse"]) == 0
    assert opt.main(["in.mlir", "--acme-buffers=count=9", "--reproducers=none"]) == 2
    words = ["gemm", "--arch", "gfx942", "m=64", "n=64", "block=64x64x32", "--scheduler", "acme"]
    assert cli.main(["schedule", *words]) == 0
    with pytest.raises(SystemExit):
        cli.main(["schedule", "--help"])
    assert "ping_pong, exact, acme, or" in re.sub(r"\s+", " ", capsys.readouterr().out)


STRIPPING = """
from dataclasses import dataclass
from typing import ClassVar
from ckmlir.passes.framework import Pass
from ckmlir.passes.walk import functions, operations

@dataclass(frozen=True)
class Strip(Pass):
    \"\"\"Take barriers away.\"\"\"
    name: ClassVar[str] = "strip"
    def apply(self, module):
        for function in functions(module):
            for op in [op for op in operations(function) if op.name == "ck.barrier"]:
                op.erase()
"""


def test_what_an_added_pass_breaks_is_refused(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "stripping.py").write_text(STRIPPING)
    request = ["compile", "gemm", "schedule=compv3", "--arch", "gfx942", "-o", "gemm.hsaco"]
    assert cli.main([*request, "--pass-after", "ck-insert-barriers=stripping:Strip"]) == 2
    assert "what the added passes made is not correct" in capsys.readouterr().err
    assert not (folder / "gemm.hsaco").exists()


@pytest.mark.parametrize(("text", "words"), [
    ("ck-insert-barrier=canonicalize", "no pass ck-insert-barrier in the pipeline; did you mean ck-insert-barriers?"),
    ("ck-insert-barriers", "expected NAME=PASS"),
    ("ck-insert-barriers=nothing:There", "there is no such module"),
    ("ck-record-promises=more_buffers:MoreBuffers{count=9}", "count=9: schedules have 1 to 8 buffers"),
])  # fmt: skip
def test_added_passes_that_are_refused(
    text: str, words: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["compile", "gemm", "--arch", "gfx942", "-o", "gemm.hsaco", "--pass-after", text]) == 2
    assert words in capsys.readouterr().err


def test_a_pass_before_the_first_row() -> None:
    """It sees tile code as it was traced; what it does is part of what the kernel means."""
    operator, target = find_operator("gemm"), get_target("gfx942")
    spec = operator.spec(operator.problem(m=64, n=64, k=64, block="64x64x32"), target)
    added = {START: ["cse", "canonicalize"], "ck-infer-divisors": ["cse"]}
    compiled = compile_scheduled(operator, spec, target, added=added)
    assert list(compiled.timings)[:4] == ["trace", "cse", "canonicalize", "ck-infer-divisors"]
    assert added_passes(["start=cse"]) == {START: ["cse"]}


def test_added_passes_and_modules_exclude_each_other(capsys: pytest.CaptureFixture[str]) -> None:
    request = ["run", "gemm", "--arch", "gfx942", "--module", "x.mlir", "--pass-after", "ck-split-tiles=canonicalize"]
    assert cli.main(request) == 2
    assert "leave out --module" in capsys.readouterr().err
