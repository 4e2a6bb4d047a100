"""What commands import and keep: a kernel from the cache needs no bindings, a listing no operators."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from ckmlir.runtime import compile_cache
from ckmlir.tools import kept_text
from ckmlir.tools.cli import main

ROOT = Path(__file__).parent.parent.parent
GEMM = ["compile", "gemm", "m=64", "n=64", "k=128", "block=64x64x32", "--arch", "gfx942"]
LOADED = "import sys, json; from ckmlir.tools.cli import main; status = main(sys.argv[1:]); "
LOADED += "peak = next(line.split()[1] for line in open('/proc/self/status') if line.startswith('VmHWM')); "
LOADED += "print('LOADED', json.dumps([int(peak), sorted(sys.modules)]), file=sys.stderr); sys.exit(status)"
FIRST_CALL = """
import json, sys
import numpy
before = set(sys.modules)
texts = []
sys.addaudithook(lambda event, values: event == "compile" and values[1] == "<string>" and texts.append(values))
sys.path.append("benchmarks")
from first_call import child
child(sys.argv[1])
print(json.dumps([len(texts), sorted(set(sys.modules) - before)]))
"""


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("CKMLIR_CACHE", raising=False)
    compile_cache.forget()
    return tmp_path / "cache" / "ckmlir"


def modules(*words: str) -> set[str]:
    """What a run of its own has loaded at its end, within 250 MB of memory."""
    ran = subprocess.run([sys.executable, "-c", LOADED, *words], capture_output=True, text=True, env=dict(os.environ))
    assert ran.returncode == 0, ran.stderr
    peak, loaded = json.loads(ran.stderr.rpartition("LOADED ")[2])
    assert peak < 250_000  # kilobytes of memory
    return set(loaded)


def test_a_kernel_from_the_cache_needs_no_bindings(cache: Path, tmp_path: Path) -> None:
    first, second = tmp_path / "first.hsaco", tmp_path / "second.hsaco"
    compiling = modules(*GEMM, "-o", str(first))
    assert "ckmlir.mlir" in compiling
    assert not {"importlib.metadata", "multiprocessing", "torch", "llvmlite", "numba"} & compiling
    loaded = modules(*GEMM, "-o", str(second))
    assert first.read_bytes() == second.read_bytes()
    assert not [name for name in loaded if name.startswith(("flydsl._mlir._mlir_libs", "ckmlir.mlir", "ckmlir.lang"))]
    assert not [name for name in loaded if name.startswith(("ckmlir.passes", "ckmlir.dispatch", "numba", "llvmlite"))]
    assert not {"subprocess", "email", "importlib.metadata", "fractions"} & loaded
    operators = {name.split(".")[2] for name in loaded if name.startswith("ckmlir.ops.") and name.count(".") == 3}
    assert operators == {"contraction", "gemm", "tensors"}  # those of other operators are not read


def first_call(folder: Path) -> tuple[int, list[str]]:
    """Of a library of one kernel: how many texts are compiled to make classes or to read annotations, what is loaded.
    """
    space = {"schema": 1, "op": "gemm", "arch": ["gfx942"], "keys": {"m": 64, "n": 64, "k": 128},
             "algorithm": {"block": [[64, 64, 32]], "schedule": ["v1"], "pad": ["mnk"]}}  # fmt: skip
    (folder / "space.json").write_text(json.dumps(space))
    assert main(["build", str(folder / "space.json"), "-o", str(folder / "one.ckl"), "--jobs", "1"]) == 0
    words = [sys.executable, "-c", FIRST_CALL, str(folder / "one.ckl")]
    ran = subprocess.run(words, capture_output=True, text=True, cwd=ROOT)
    assert ran.returncode == 0, ran.stderr
    texts, loaded = json.loads(ran.stdout.splitlines()[-1])
    return texts, loaded


def test_the_first_call_of_a_library_loads_its_operator_alone(cache: Path, tmp_path: Path) -> None:
    """Neither MLIR nor the simulator, nothing that compiles, starts processes or writes files, nor what takes long to
    load and is not needed."""
    _, loaded = first_call(tmp_path)
    unwanted = ("flydsl", "llvmlite", "numba", *(f"ckmlir.{name}" for name in ("sim", "lang", "passes", "lowering")))
    assert not [name for name in loaded if name.startswith(unwanted)]
    assert not {"subprocess", "tempfile", "email", "importlib.metadata", "multiprocessing", "fractions"} & set(loaded)
    heavy = {"ml_dtypes", "numpy.ma", "numpy.typing", "random", "difflib", "fcntl", "hashlib", "pathlib", "urllib"}
    assert not (heavy | {"dataclasses", "copy"}) & set(loaded)
    operators = {name.split(".")[2] for name in loaded if name.startswith("ckmlir.ops.") and name.count(".") == 3}
    assert operators == {"contraction", "gemm", "tensors"}
    # What is there was chosen and checked before it was compiled, and is not compared; the schedules' language is not
    # read, and neither are expressions, scales and tiles in fragment order, of which there are none, the table of
    # matrix instructions and the cache of files.
    parts = ("choosing", "defaults", "expected", "validity", "scaling", "shuffle")
    contraction = {f"ckmlir.ops.contraction.{name}" for name in parts}
    ops = {f"ckmlir.ops.{name}" for name in ("comparison", "packing", "precision", "tensors.expression")}
    others = {"ckmlir.compiler", "ckmlir.dialect.distribution", "ckmlir.dialect.schedule", "ckmlir.files"}
    others |= {"ckmlir.runtime.kernel_files", "ckmlir.targets.mfma"}
    assert not (contraction | ops | others) & set(loaded)


def test_the_first_call_of_a_library_loads_and_compiles_little(cache: Path, tmp_path: Path) -> None:
    """Modules, and texts that are compiled, are counted: they are most of its time. Files are not."""
    texts, loaded = first_call(tmp_path)
    assert len([name for name in loaded if name.startswith("ckmlir")]) <= 67
    assert texts <= 8


def test_functions_on_arrays_load_no_operator_before_they_are_called() -> None:
    asked = "import json, sys, ckmlir.nn; print(json.dumps(sorted(sys.modules)))"
    ran = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True)
    loaded = json.loads(ran.stdout)
    operators = {name for name in loaded if name.startswith("ckmlir.ops.") and name.count(".") == 3}
    constants = ("contraction.shuffle", "contraction.sparsity", "mhc.kinds", "moe.routing")
    assert operators <= {f"ckmlir.ops.{name}" for name in constants}
    assert not [name for name in loaded if name.startswith(("flydsl", "torch", "numba", "llvmlite", "ckmlir.lowering"))]


def test_what_has_to_be_compiled_is(
    cache: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = ["-o", str(tmp_path / "g.hsaco")]
    assert main([*GEMM, *output]) == 0
    assert main([*GEMM, *output, "--timing", "--keep", "tile"]) == 0
    assert "ck-split-tiles" in capsys.readouterr().err and (tmp_path / "g.tile.mlir").exists()


def test_a_listing_is_kept_until_files_change(
    cache: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ["list", "softmax", "--arch", "gfx942"]
    assert main(words) == 0
    text = capsys.readouterr().out
    (kept,) = (cache / "texts").iterdir()
    assert text == kept.read_text() + "\n" and "softmax: " in text
    kept.write_text("kept")
    assert main(words) == 0 and capsys.readouterr().out == "kept\n"
    assert main([*words, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["operators"][0]["name"] == "softmax"
    monkeypatch.setattr(kept_text, "_state", lambda: "other")
    assert main(words) == 0 and capsys.readouterr().out == text
    assert [one.name.startswith("other") for one in (cache / "texts").iterdir()] == [True]
    monkeypatch.setenv("CKMLIR_CACHE", "off")
    (next((cache / "texts").iterdir())).write_text("kept")
    assert main(words) == 0 and capsys.readouterr().out == text


def test_a_kept_listing_loads_no_operators(cache: Path) -> None:
    words = ("list", "softmax", "--arch", "gfx942")
    assert "numpy" in modules(*words)
    assert not {"numpy", "ckmlir.ops.operator", "ckmlir.codeobject"} & modules(*words)


@pytest.mark.parametrize("words, message", [
    (["list", "sofmax"], "did you mean softmax?"), (["list", "--arch", "gfx94"], "--arch gfx94: "),
])  # fmt: skip
def test_unknown_names(capsys: pytest.CaptureFixture[str], words: list[str], message: str) -> None:
    assert main(words) == 2
    assert message in capsys.readouterr().err
