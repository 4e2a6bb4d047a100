"""The cache of compiled kernels: what it depends on, and that nothing that happens to its files does harm."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ckmlir import compiler
from ckmlir.compiled_kernel import CompiledKernel
from ckmlir.errors import CkmlirError
from ckmlir.files import cache_directory
from ckmlir.ops import find_operator
from ckmlir.ops.plan import make_plan
from ckmlir.records import replace
from ckmlir.runtime import compile_cache, kernel_files
from ckmlir.targets import get_target
from ckmlir.tools.cache import OTHERS
from ckmlir.tools.cli import main

ROOT = Path(__file__).parent.parent.parent
LAYERNORM = find_operator("layernorm2d")
GFX942 = get_target("gfx942")
SPEC = LAYERNORM.spec(LAYERNORM.problem(m=4, n=64), GFX942)


@pytest.fixture
def compiled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """An empty cache with a compiler that makes code at once; what it was asked for."""
    monkeypatch.setenv("CKMLIR_CACHE", "on")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    made: list[str] = []

    def compile_kernel(operator: Any, spec: Any, target: Any) -> CompiledKernel:
        made.append(spec.name)
        return CompiledKernel(b"code of " + spec.name.encode(), spec.name, target.name)

    monkeypatch.setattr(compiler, "compile_kernel", compile_kernel)
    compile_cache.forget()
    yield made
    compile_cache.forget()


def compile_anew(spec: Any = SPEC) -> CompiledKernel:
    """As another process would."""
    compile_cache.forget()
    return compile_cache.compile_cached(LAYERNORM, spec, GFX942)


def test_memory_then_files_then_the_compiler(compiled: list[str]) -> None:
    first = compile_cache.compile_cached(LAYERNORM, SPEC, GFX942)
    assert compile_cache.compile_cached(LAYERNORM, SPEC, GFX942) is first
    again = compile_anew()
    assert compiled == [SPEC.name]
    assert (again.hsaco, again.kernel_name, again.target) == (first.hsaco, first.kernel_name, first.target)
    assert set(again.timings) == {"cache"}
    (entry,) = kernel_files.entries()
    assert (entry.operator, entry.kernel, entry.target) == ("layernorm2d", SPEC.name, "gfx942")
    assert entry.path.parent == cache_directory() / "kernels"


def test_a_real_kernel_comes_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CKMLIR_CACHE", "on")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    made = compile_anew()
    assert SPEC.name in compile_anew().code_object.kernels
    assert compile_anew().hsaco == made.hsaco == compiler.compile_kernel(LAYERNORM, SPEC, GFX942).hsaco


def test_everything_that_the_code_depends_on_is_in_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each field of the specification, the operator, the chip, the schedule, the sources and the tools."""
    key = kernel_files.key_of(LAYERNORM, SPEC, GFX942)
    assert key == kernel_files.key_of(LAYERNORM, replace(SPEC), GFX942)
    keys = {key, kernel_files.key_of(LAYERNORM, SPEC, get_target("gfx950"))}
    for name, value in SPEC.to_dict().items():
        other = not value if isinstance(value, bool) else value + 1 if isinstance(value, int) else value + "x"
        keys.add(kernel_files.key_of(LAYERNORM, replace(SPEC, **{name: other}), GFX942))
    gemm = find_operator("gemm")
    spec = gemm.spec(gemm.problem(), GFX942)
    keys.add(kernel_files.key_of(gemm, spec, GFX942))
    monkeypatch.setattr(type(spec), "schedule_text", "schedule other 1")
    keys.add(kernel_files.key_of(gemm, spec, GFX942))
    tools = compiler.toolchain()
    for name in tools:
        monkeypatch.setattr(compiler, "toolchain", lambda name=name: {**tools, name: "other"})
        keys.add(kernel_files.key_of(LAYERNORM, SPEC, GFX942))
    monkeypatch.setattr(compiler, "toolchain", lambda: tools)
    monkeypatch.setattr(kernel_files, "sources_digest", lambda: "other")
    keys.add(kernel_files.key_of(LAYERNORM, SPEC, GFX942))
    assert len(keys) == 2 + len(SPEC.to_dict()) + 2 + len(tools) + 1


def test_the_sources_in_the_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of passes and whatever is new count, those of tools do not."""
    monkeypatch.setattr(kernel_files, "__file__", str(tmp_path / "runtime" / "kernel_files.py"))
    digests = set()
    for name in ("mlir.py", "passes/a.py", "passes/b/c.py", "new/d.py", "tools/e.py", "runtime/f.py", "passes/note.md"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("code")
        digests.add(kernel_files.sources_digest.__wrapped__())
    assert len(digests) == 4
    (tmp_path / "passes" / "a.py").write_text("changed")
    digests.add(kernel_files.sources_digest.__wrapped__())
    assert len(digests) == 5


@pytest.mark.parametrize("damage", ["cut", "flipped", "empty", "not JSON", "list"])
def test_a_damaged_file_counts_as_none(compiled: list[str], damage: str) -> None:
    first = compile_anew()
    (entry,) = kernel_files.entries()
    data = entry.path.read_bytes()
    entry.path.write_bytes({
        "cut": data[:-3], "flipped": data[:-1] + bytes([data[-1] ^ 1]), "empty": b"", "not JSON": b"\xff\n" + data,
        "list": b"[]\n" + data,
    }[damage])  # fmt: skip
    assert compile_anew().hsaco == first.hsaco
    assert len(compiled) == 2
    assert compile_anew().hsaco == first.hsaco
    assert len(compiled) == 2


def test_the_least_recently_used_go_first(compiled: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """A hit counts as a use, and three quarters of the limit remain."""
    monkeypatch.setattr(kernel_files, "limit_bytes", lambda: 1200)
    specs = [replace(SPEC, rows=2**number) for number in range(6)]
    for age, spec in enumerate(specs[:4]):
        compile_anew(spec)
        os.utime(kernel_files.entries()[-1].path, (1000 + age, 1000 + age))
    compile_anew(specs[0])
    compile_anew(specs[4])
    kept = {entry.kernel for entry in kernel_files.entries()}
    assert specs[0].name in kept and specs[4].name in kept
    assert specs[1].name not in kept
    assert sum(entry.nbytes for entry in kernel_files.entries()) <= 900


def test_unfinished_files_of_the_dead_are_swept(compiled: list[str]) -> None:
    compile_anew()
    old, young = (kernel_files.directory() / name for name in (".old.kernel.x", ".young.kernel.x"))
    old.touch()
    young.touch()
    os.utime(old, (1, 1))
    compile_anew(replace(SPEC, rows=1))
    assert (old.exists(), young.exists()) == (False, True)
    assert compile_cache.clear() == 2
    assert list(kernel_files.directory().iterdir()) == []


@pytest.mark.parametrize("setting", ["off", "simulator"])
def test_off_keeps_nothing(setting: str, compiled: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor are kernels kept where only the simulator's machine code is."""
    monkeypatch.setenv("CKMLIR_CACHE", setting)
    for _ in range(2):
        compile_cache.compile_cached(LAYERNORM, SPEC, GFX942)
    assert len(compiled) == 2
    assert not kernel_files.directory().exists()


def test_settings_without_meaning(compiled: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CKMLIR_CACHE", "maybe")
    with pytest.raises(CkmlirError, match="CKMLIR_CACHE=maybe: expected on, off or simulator"):
        compile_anew()
    monkeypatch.setenv("CKMLIR_CACHE", "on")
    monkeypatch.setenv("CKMLIR_CACHE_MEGABYTES", "-1")
    with pytest.raises(CkmlirError, match="CKMLIR_CACHE_MEGABYTES=-1: expected a whole number"):
        compile_anew()
    assert compiled == []


def test_where_nothing_can_be_written_a_warning_says_so(compiled: list[str]) -> None:
    cache_directory().mkdir()
    kernel_files.directory().write_text("in the way")
    with pytest.warns(UserWarning, match=r"compiled kernels are not kept.*CKMLIR_CACHE=off stops trying"):
        compile_anew()
    assert compiled == [SPEC.name]


def test_threads_compile_once(compiled: list[str]) -> None:
    found: list[bytes] = []
    threads = [
        threading.Thread(
            target=lambda: found.append(compile_cache.compile_cached(LAYERNORM, SPEC, GFX942).hsaco), name=str(number)
        )
        for number in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert compiled == [SPEC.name]
    assert len(found) == 8 and len(set(found)) == 1


FILLER = """
import sys, time
from ckmlir import compiler
from ckmlir.compiled_kernel import CompiledKernel
from ckmlir.ops import find_operator
from ckmlir.ops.plan import make_plan
from ckmlir.records import replace
from ckmlir.runtime import compile_cache
from ckmlir.targets import get_target
operator, target = find_operator("layernorm2d"), get_target("gfx942")
base = operator.spec(operator.problem(m=4, n=64), target)
def compile_kernel(operator, spec, target):
    return CompiledKernel(bytes([spec.rows % 251]) * (4 << 20), spec.name, target.name)
compiler.compile_kernel = compile_kernel
rounds = range(int(sys.argv[1]))
print("ready", flush=True)
for round in rounds:
    for number in range(1, 9):
        compile_cache.forget()
        spec = replace(base, rows=number)
        found = compile_cache.compile_cached(operator, spec, target)
        assert found.hsaco == bytes([number]) * (4 << 20) and found.kernel_name == spec.name, "torn"
"""
"""Fills the cache with eight kernels of 4 MiB, again and again; their total is above the limit."""


def start_filler(tmp_path: Path, rounds: int, megabytes: int) -> subprocess.Popen[str]:
    environment = {
        **os.environ, "XDG_CACHE_HOME": str(tmp_path), "CKMLIR_CACHE": "on", "CKMLIR_CACHE_MEGABYTES": str(megabytes),
        "PYTHONPATH": str(ROOT),
    }  # fmt: skip
    command = [sys.executable, "-c", FILLER, str(rounds)]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_processes_share_the_directory(tmp_path: Path) -> None:
    """While they write the same files and remove each other's, everything that is read is whole."""
    fillers = [start_filler(tmp_path, 8, 20) for _ in range(2)]
    for filler in fillers:
        _, errors = filler.communicate(timeout=120)
        assert filler.returncode == 0, errors
    files = list((tmp_path / "ckmlir" / "kernels").iterdir())
    assert sum(file.stat().st_size for file in files) <= 28 << 20
    assert all(file.suffix == ".kernel" and not file.name.startswith(".") for file in files)


def test_a_writer_that_is_killed_leaves_nothing_torn(tmp_path: Path) -> None:
    """Killed at many moments; the next process reads only whole files and goes on."""
    for attempt in range(5):
        filler = start_filler(tmp_path, 10_000, 20)
        assert filler.stdout is not None and filler.stdout.readline() == "ready\n"
        time.sleep(0.05 + 0.037 * attempt)
        filler.send_signal(signal.SIGKILL)
        filler.communicate()
    last = start_filler(tmp_path, 1, 64)
    _, errors = last.communicate(timeout=60)
    assert last.returncode == 0, errors
    directory = tmp_path / "ckmlir" / "kernels"
    assert len([file for file in directory.glob("*.kernel") if not file.name.startswith(".")]) == 8


def test_the_command(compiled: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cache"]) == 0
    assert "0 kernels, 0 of 536870912 bytes" in capsys.readouterr().out
    compile_anew()
    assert main(["cache", "show"]) == 0
    assert SPEC.name in capsys.readouterr().out
    assert main(["cache", "--json"]) == 0
    (kernel,) = json.loads(capsys.readouterr().out)["kernels"]
    assert kernel["op"] == "layernorm2d" and kernel["bytes"] == kernel_files.entries()[0].nbytes
    assert main(["cache", "clear"]) == 0
    assert capsys.readouterr().out == "1 kernel removed\n"
    assert main(["cache", "clear", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["removed"] == 0
    assert main(["cache", "burn"]) == 2


def test_no_warnings_in_ordinary_use(compiled: list[str]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        compile_anew()


def test_all_that_is_kept_is_shown_and_cleared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Runs in processes of their own leave kernels, handlers, the linker's stand-in and listings, and nothing else."""
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path), "CKMLIR_CACHE": "on", "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "ckmlir.tools.cli", "run", "layernorm2d", "m=4", "n=64", "--arch", "gfx942"]
    for words in (command, [*command[:3], "list", "softmax"]):
        subprocess.run(words, env=environment, check=True, capture_output=True, timeout=300)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("CKMLIR_CACHE", "on")
    assert {path.name for path in cache_directory().iterdir()} == {"kernels", *OTHERS}
    assert [path.name for path in tmp_path.iterdir()] == ["ckmlir"]
    assert main(["cache"]) == 0
    shown = capsys.readouterr().out
    assert all(f"{what}: " in shown and str(cache_directory() / name) in shown for name, what in OTHERS.items())
    assert main(["cache", "--json"]) == 0
    others = json.loads(capsys.readouterr().out)["others"]
    assert others["simulator"]["bytes"] > 10_000 and others["toolkit"]["files"] == 1
    (cache_directory() / "of-yesterday").mkdir()
    assert main(["cache", "clear"]) == 0
    assert "1 kernel removed, and " in capsys.readouterr().out
    assert [path for path in cache_directory().rglob("*") if path.is_file()] == []
    assert [path.name for path in cache_directory().iterdir()] == ["kernels"]
    subprocess.run(command, env=environment, check=True, capture_output=True, timeout=300)


def test_clearing_while_a_process_compiles_does_no_harm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What stands for a linker is made again."""
    monkeypatch.setenv("CKMLIR_CACHE", "on")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    first = compile_anew()
    assert main(["cache", "clear"]) == 0
    assert compile_anew().hsaco == first.hsaco


WITHOUT_BINDINGS = """
import sys
sys.modules["mlir"] = sys.modules["flydsl"] = None
from ckmlir.errors import CkmlirError
from ckmlir.ops import find_operator
from ckmlir.runtime import check_outputs, open_device, run_operator
from ckmlir.runtime.compile_cache import compile_cached
from ckmlir.targets import get_target

target = get_target("gfx942")
fmha, reduce, gemm = (find_operator(name) for name in ("fmha_fwd", "reduce", "gemm"))
print(compile_cached(fmha, fmha.spec(fmha.problem(), target), target).kernel_name)
problem = reduce.problem(shape=(2, 9000), split=3)
arrays = reduce.inputs(problem, target)
result = run_operator(reduce, problem, arrays, target, open_device("sim", target))
print(all(one.ok for one in check_outputs(reduce, problem, arrays, result.outputs, target)))
try:
    compile_cached(gemm, gemm.spec(gemm.problem(), target), target)
except CkmlirError as error:
    print(error)
assert not any(module.startswith(("mlir.", "flydsl.")) for module in sys.modules)
"""


def test_what_was_compiled_runs_without_the_bindings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Operators of several kernels too; what was not compiled says what is missing."""
    monkeypatch.setenv("CKMLIR_CACHE", "on")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    compile_cache.forget()
    fmha, reduce = find_operator("fmha_fwd"), find_operator("reduce")
    kept = [*make_plan(fmha, fmha.problem(), GFX942).kernels]
    kept += make_plan(reduce, reduce.problem(shape=(2, 9000), split=3), GFX942).kernels
    for step in kept:
        compile_cache.compile_cached(step.operator, step.spec, GFX942)
    compile_cache.forget()
    done = subprocess.run([sys.executable, "-c", WITHOUT_BINDINGS], capture_output=True, text=True, check=False)
    name, ok, missing = done.stdout.splitlines() or [done.stderr]
    assert (name, ok) == (kept[0].spec.name, "True")
    assert missing.startswith("no MLIR Python bindings found")
