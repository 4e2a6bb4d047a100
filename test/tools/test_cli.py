"""`ckmlir` list and compile, and what every bad request comes to: one line on stderr, exit 2, no file."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ckmlir.ops import OPERATORS, find_operator
from ckmlir.targets import TARGETS, get_target
from ckmlir.tools import compile as compile_command
from ckmlir.tools.cli import COMMANDS, main


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """The one line that a bad request is answered with."""
    assert main(list(arguments)) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("ckmlir: error: ")
    assert err.count("\n") == 1
    return err


def test_list_names_every_kernel_of_every_chip(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert [operator["name"] for operator in listed["operators"]] == list(OPERATORS)
    for operator in listed["operators"]:
        assert {key["name"] for key in operator["keys"]} == {key.name for key in find_operator(operator["name"]).keys}
    kernels = listed["kernels"]
    # Matrices of which half is zero are multiplied from gfx942 on.
    lacking = {("gfx90a", "gemm_sparse")}
    every = {(chip, name) for chip in TARGETS for name in OPERATORS}
    assert {(kernel["arch"], kernel["op"]) for kernel in kernels} == every - lacking
    for kernel in kernels:
        spec = find_operator(kernel["op"]).spec_type.from_dict(kernel["spec"])
        assert spec.name == kernel["name"]

    assert main(["list", "--arch", "gfx950"]) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines() if line.startswith("  ")]
    assert sorted(map(tuple, lines)) == sorted(("gfx950", k["name"]) for k in kernels if k["arch"] == "gfx950")


def test_list_names_every_operator_and_what_it_computes(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list"]) == 0
    lines = capsys.readouterr().out.split("\n\n")[0].splitlines()
    assert lines == [f"{name}: {entry.summary}" for name, entry in OPERATORS.items()]
    assert all(find_operator(name).summary == entry.summary for name, entry in OPERATORS.items())

    assert main(["list", "topk", "--arch", "gfx942"]) == 0
    assert capsys.readouterr().out.startswith(f"topk: {OPERATORS['topk'].summary}\n  gfx942  topk_")


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    ("arguments", "without"),
    [
        ("'list', '--arch', 'gfx942'", ("mlir", "flydsl", "llvmlite")),
        ("'list'", ("numpy", "ckmlir.ops.operator", "mlir", "flydsl", "llvmlite")),  # .05 s, and .07 with NumPy
    ],
)
def test_list_imports_only_what_it_needs(arguments: str, without: tuple[str, ...]) -> None:
    program = (
        f"import sys; from ckmlir.tools.cli import main; main([{arguments}]); "
        f"sys.exit(', '.join(name for name in {without} if name in sys.modules) or None)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("command", COMMANDS)
def test_help(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main([command, "--help"])
    assert stop.value.code == 0
    text = capsys.readouterr().out
    assert f"ckmlir {command}" in text
    if command in ("compile", "run"):
        assert all(f"  {name} " in text for name in OPERATORS)


@pytest.mark.parametrize("name", OPERATORS)
def test_help_of_an_operator_names_its_keys_and_arrays(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main(["run", name, "--help"])
    assert stop.value.code == 0
    text = capsys.readouterr().out
    operator = find_operator(name)
    for key in operator.keys:
        assert f"\n  {key.name} " in text and key.form in text
    for array in operator.arrays(operator.problem()):
        assert f"\n  {array.name} " in text
    assert not any(f"\n  {other} " in text for other in set(OPERATORS) - {key.name for key in operator.keys})


def test_the_example_of_a_help_text_is_a_request(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    for name in OPERATORS:
        with pytest.raises(SystemExit):
            main(["run", name, "--help"])
        example = capsys.readouterr().out.split("example: ")[1].split()
        assert example[:3] == ["ckmlir", "run", name] and example[-2:] == ["--arch", "gfx942"]
        find_operator(name).problem(**dict(word.split("=") for word in example[3:-2]))


def test_help_shows_the_arrays_of_the_keys_given(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["run", "gemm", "m=7", "n=24", "k=8", "--help"])
    assert "arrays of these keys:\n  a                in  f16   shape 7x8," in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("", "required: COMMAND"),
        ("lst", "unknown command 'lst'; did you mean list?"),
        ("list --arch gfx924", "unknown target 'gfx924'"),
        ("list --arch gfx924", "did you mean gfx942?"),
        ("list --arch gfx900", "it has no matrix instructions; there are gfx90a (MI200), gfx942 (MI300)"),
        ("list --arch gfx1100", "it is of the RDNA family"),
        ("run GEMM --arch gfx942", "unknown operator 'GEMM'; did you mean gemm?"),
        ("list --arc gfx942", "unrecognized arguments"),
        ("run gem --arch gfx942", "unknown operator 'gem'; did you mean gemm?"),
        ("run gemm", "required: --arch"),
        ("run gemm m --arch gfx942", "'m' is not of the form key=value"),
        ("run gemm m= --arch gfx942", "'m=' is not of the form key=value"),
        ("run gemm m=1 --arch gfx942 m=2", "m=2: m is given twice"),
        ("run gemm kk=1 --arch gfx942", "gemm: kk=1: unknown key; did you mean k?"),
        ("run batched_gated_gemm_quant b_batch_strides=0 --arch gfx942", "one of a_batch_strides, c_batch_strides, "),
        ("run gemm m=nan --arch gfx942", "m=nan: expected a whole number"),
        ("run gemm m=1e999 --arch gfx942", "m=1e999"),
        ("run gemm m=99999999999999999999999 --arch gfx942", "expected a whole number from 0 to 2147483647"),
        ("run gemm m=2000000000 --arch gfx942", "kernels address at most"),
        ("run gemm dtype=f8 --arch gfx942", "dtype=f8: expected f16|bf16|fp8|bf8|i8"),
        ("run gemm dtype=fp8 --arch gfx90a", "gfx90a has no fp8 MFMA"),
        ("run fmha_fwd dtype=fp8 --arch gfx90a", "dtype=fp8: gfx90a has no fp8 MFMA (fp8 matrix"),
        ("run gemm mfma=32x32x16 --arch gfx942", "gfx942 has no 32x32x16 MFMA for f16"),
        ("run gemm block=512x256x64 --arch gfx942", "needs 98304 bytes of LDS; gfx942 has 65536"),
        ("run gemm block=512x256x8 wave=4x2 epilogue=direct --arch gfx942", "registers a work-item"),
        ("run fmha_fwd mask=causal --arch gfx942", "mask=causal: expected none|top_left"),
        ("run gemm --device gpu --arch gfx942", "unknown device 'gpu'; expected sim|hip|auto"),
        ("run gemm --seed -1 --arch gfx942", "seed"),
        ("run gemm --input d=x.npy --arch gfx942", "--input d=x.npy: there is no such array; known: a, b"),
        ("run gemm --input c=x.npy --arch gfx942", "--input c=x.npy: there is no such array"),
        (
            "run grouped_gemm m=64,64 table=device --input table=x.npy --arch gfx942",
            "--input table=x.npy: array table holds addresses, so it is made when arrays have them",
        ),
        ("run gemm --input a --arch gfx942", "--input a: expected name=file.npy"),
        ("run gemm --output x=x.npy --arch gfx942", "there is no such array; known: a, b, c"),
        ("run gemm --output c=/nowhere/c.npy --arch gfx942", "cannot write /nowhere/c.npy: there is no directory"),
        ("compile gemm --arch gfx942", "required: -o"),
        ("compile gemm --arch gfx942 -o /nowhere/k.hsaco", "there is no directory /nowhere"),
        ("compile gemm --arch gfx942 -o k.o --keep obj", "two results would be written to k.o"),
        ("compile gemm --arch gfx942 -o k.hsaco --keep tlie", "--keep tlie: unknown form; did you mean tile?"),
        ("compile gemm --arch gfx942 -o k.hsaco --print-after ck-split-tile", "did you mean ck-split-tiles?"),
        ("inspect /nowhere/k.hsaco", "cannot read /nowhere/k.hsaco: No such file or directory"),
    ],
)
def test_bad_requests(
    arguments: str, words: str, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert words in refused(capsys, *arguments.split())
    assert list(tmp_path.iterdir()) == []


def test_running_out_of_memory_is_one_line(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def exhausted(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr("ckmlir.tools.list.find_operator", exhausted)
    assert "not enough memory" in refused(capsys, "list", "softmax", "m=4")


@pytest.fixture
def compiler(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """A compiler that returns fixed bytes; what it was asked for."""
    asked: list[dict[str, Any]] = []
    metadata = SimpleNamespace(vgpr_count=9, vgpr_spill_count=0, sgpr_count=8, group_segment_size=7)

    def compile_kernel(operator: Any, spec: Any, target: Any, **options: Any) -> SimpleNamespace:
        asked.append({"op": operator.name, "spec": spec, "target": target.name, **options})
        texts = {name: b"object" if name == "obj" else f"text of {name}" for name in options["keep"]}
        kernel = SimpleNamespace(kernel=lambda name: SimpleNamespace(metadata=metadata))
        return SimpleNamespace(
            hsaco=b"code", kernel_name=spec.name, target=target.name, artifacts=texts, timings={"llvm": 0.25},
            code_object=kernel,
        )  # fmt: skip

    monkeypatch.setattr(compile_command, "compile_kernel", compile_kernel)
    return asked


def test_compile_writes_the_code_object_and_what_is_kept(
    compiler: list[dict[str, Any]], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    output = tmp_path / "gemm.hsaco"
    words = ["compile", "gemm", "m=100", "--arch", "gfx942", "n=200", "-o", str(output)]
    assert main([*words, "--keep", "tile,asm,obj", "--timing", "--print-after", "all", "layout=CRR"]) == 0
    out, err = capsys.readouterr()
    written = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert written == {
        "gemm.hsaco": b"code",
        "gemm.tile.mlir": b"text of tile",
        "gemm.s": b"text of asm",
        "gemm.o": b"object",
    }
    (asked,) = compiler
    gemm = find_operator("gemm")
    assert asked["spec"] == gemm.spec(gemm.problem(m=100, n=200, layout="CRR"), get_target("gfx942"))
    assert asked["target"] == "gfx942"
    assert list(asked["print_after"]) == ["all"]
    assert asked["spec"].name in out
    assert "9 vector registers (0 spilled)" in out
    assert "250.00 ms  llvm" in err


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", ["/dev/stdout", "/proc/self/fd/1"])
def test_a_code_object_on_standard_output_is_not_mixed_with_words(name: str, tmp_path: Path) -> None:
    words = ["compile", "copy", "--arch", "gfx942", "--report", "accesses", "-o"]
    done = subprocess.run([sys.executable, "-m", "ckmlir", *words, name], capture_output=True, timeout=120)
    (tmp_path / "copy.hsaco").write_bytes(done.stdout)
    subprocess.run([sys.executable, "-m", "ckmlir", *words, tmp_path / "beside.hsaco"], check=True, timeout=120)
    assert done.stdout == (tmp_path / "beside.hsaco").read_bytes()
    assert b"scalar registers" in done.stderr and b"no access is narrower" in done.stderr


def test_a_failed_compilation_leaves_an_old_file_alone(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ckmlir.errors import CkmlirError

    def fail(*_: object, **__: object) -> None:
        raise CkmlirError("no linker")

    monkeypatch.setattr("ckmlir.runtime.compile_cache.compile_cached", fail)
    output = tmp_path / "gemm.hsaco"
    output.write_bytes(b"old")
    assert "no linker" in refused(capsys, "compile", "gemm", "--arch", "gfx942", "-o", str(output))
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {"gemm.hsaco": b"old"}


@pytest.mark.parametrize("module", ["ckmlir", "ckmlir.tools.cli"])
def test_the_installed_tool_exits_with_2(module: str) -> None:
    program = [sys.executable, "-m", module, "run", "gemm", "m=x", "--arch", "gfx942"]
    done = subprocess.run(program, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    assert done.stderr == "ckmlir: error: gemm: m=x: expected a whole number from 0 to 2147483647\n"
    assert done.stdout == ""


@pytest.mark.one_in(2)
@pytest.mark.parametrize("program", ["cli list --json", "opt --list-passes"])
def test_a_reader_that_goes_away_ends_the_tool_as_sigpipe_would(program: str) -> None:
    # The reader closes its end before the tool can have written anything.
    command = f"set -o pipefail; {{ sleep 1; {sys.executable} -m ckmlir.tools.{program}; }} | true"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (141, "")


@pytest.mark.one_in(4)
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
@pytest.mark.parametrize("program", ["cli list --json", "cli --help", "opt --list-passes", "opt --help"])
def test_output_that_finds_no_room_is_one_line(program: str) -> None:
    command = [sys.executable, "-m", *f"ckmlir.tools.{program}".split()]
    with open("/dev/full", "wb") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, timeout=60, check=False)
    assert done.returncode == 2
    assert done.stderr.endswith("error: cannot write the output: No space left on device\n")
    assert done.stderr.count("\n") == 1


@pytest.mark.one_in(2)
@pytest.mark.parametrize("program", ["cli list gemm", "cli run gemm --help", "opt --help"])
@pytest.mark.parametrize(
    "settings", [{"PYTHONIOENCODING": "ascii"}, {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}]
)
def test_output_may_lack_characters(program: str, settings: dict[str, str]) -> None:
    command = [sys.executable, "-m", *f"ckmlir.tools.{program}".split()]
    done = subprocess.run(command, env={**os.environ, **settings}, capture_output=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"?" in done.stdout


@pytest.mark.one_in(2)
@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&- >&- 2>&-"])
def test_streams_may_be_closed(closed: str) -> None:
    run = f"{sys.executable} -m ckmlir.tools.cli run softmax m=3 n=8 --arch gfx942"
    command = ["bash", "-c", f"CKMLIR_CACHE=off {run} {closed}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    said = [line for line in done.stderr.splitlines() if not line.endswith("…")]  # a slow machine says what takes long
    assert (done.returncode, said) == (0, [])


def test_bindings_that_do_not_exist_are_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CKMLIR_BINDINGS", "foo")
    monkeypatch.setenv("CKMLIR_CACHE", "off")
    command = [sys.executable, "-m", "ckmlir.tools.cli", *["run", "softmax", "m=1", "n=8", "--arch", "gfx942"]]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    assert done.stderr == "ckmlir: error: CKMLIR_BINDINGS=foo: expected one of mlir, flydsl\n"
