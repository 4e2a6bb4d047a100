"""`ckmlir check`: code objects of clang, Triton and an assembler, clean and broken on purpose; launch descriptions."""

from __future__ import annotations

import json
import re
import shlex
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ckmlir.lowering.assembler import assemble
from ckmlir.lowering.codeobject import CodeGenerationError
from ckmlir.tools.cli import main

ROOT = Path(__file__).parent.parent.parent
FOREIGN = ROOT / "examples" / "foreign"
SAXPY = str(ROOT / "examples" / "saxpy_gfx942.hsaco")
LAUNCH = {
    "grid": [4],
    "block": [256],
    "arguments": [
        {"shape": [1000], "dtype": "f32", "fill": "arange", "access": "read"},
        {"shape": [1000], "dtype": "f32", "fill": "zeros"},
        {"scalar": 0.5, "dtype": "f32"},
        1000,
    ],
}
Written = Callable[..., str]


@pytest.fixture
def written(tmp_path: Path) -> Written:
    """Writes the launch with some fields changed (None: left out), or some arguments by number; the file."""

    def write(changed: dict[int, Any] | None = None, /, **fields: Any) -> str:
        launch = {**json.loads(json.dumps(LAUNCH)), **fields}
        for number, value in (changed or {}).items():
            launch["arguments"][number] = value
        file = tmp_path / "launch.json"
        file.write_text(json.dumps({name: value for name, value in launch.items() if value is not None}))
        return str(file)

    return write


@pytest.fixture(scope="module")
def assembled(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """doubled.s, and the same without the wait for its load."""
    folder, text = tmp_path_factory.mktemp("assembled"), (FOREIGN / "doubled.s").read_text()
    texts = {"doubled": text, "hasty": text.replace("  s_waitcnt vmcnt(0)\n", "")}
    assert texts["hasty"] != text
    for name, source in texts.items():
        (folder / f"{name}.hsaco").write_bytes(assemble(source, "gfx942").hsaco)
    return {name: str(folder / f"{name}.hsaco") for name in texts}


def test_the_page_is_true(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Every command of docs/checking_your_kernels.md ends as it says, and prints the lines that stand below it."""
    shutil.copytree(FOREIGN, tmp_path / "foreign")
    shutil.copy(SAXPY, tmp_path)
    monkeypatch.chdir(tmp_path / "foreign")
    page = (ROOT / "docs" / "checking_your_kernels.md").read_text()
    assert (FOREIGN / "saxpy_launch.json").read_text() in page
    commands = 0
    for language, block in re.findall(r"^```(\w+)\n(.*?)^```", page, re.MULTILINE | re.DOTALL):
        if language == "python":
            exec(compile(block, "checking_your_kernels.md", "exec", dont_inherit=True), {})
        for part in block.split("$ ckmlir ")[1:] if language == "console" else []:
            command, *expected = part.splitlines()
            status = main(shlex.split(command, comments=True))
            assert status == (1 if "# exit status 1" in command else 0), command
            printed = capsys.readouterr().out
            for line in expected:
                assert line in printed, (command, printed)
            commands += 1
    assert commands == 8


def test_json_keeps_the_numbers(written: Written, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kept = {"shape": [1000], "dtype": "f32", "fill": "zeros", "save": "y.npy"}
    assert main(["check", SAXPY, "--launch", written({1: kept}), "--format", "json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["target"], report["ok"]) == ("gfx942", True)
    (kernel,) = report["kernels"]
    assert kernel["findings"] == [] and "race" in kernel["checked"] and kernel["run"]["ended"]
    assert kernel["run"]["arrays"]["arguments[1]"] == {
        "dtype": "float32", "shape": [1000], "least": 0.0, "largest": 499.5, "not_finite": 0
    }  # fmt: skip
    np.testing.assert_array_equal(np.load(tmp_path / "y.npy"), np.arange(1000, dtype=np.float32) / 2)


def test_files_offsets_and_shared_arrays(written: Written, tmp_path: Path) -> None:
    """y[2:] += 1.0 · y[:998] of a file's numbers: an array that two arguments point into."""
    numbers = np.random.default_rng(1).standard_normal(1000).astype(np.float32)
    np.save(tmp_path / "in.npy", numbers)
    array = {"shape": [1000], "dtype": "f32", "file": "in.npy", "offset": 2, "save": "out.npy"}
    given = {0: {"same_as": "arguments[1]"}, 1: array, 2: 1.0, 3: 1}
    assert main(["check", SAXPY, "--launch", written(given), "-o", str(tmp_path / "report")]) == 0
    expected = numbers.copy()
    expected[2] += numbers[0]
    np.testing.assert_array_equal(np.load(tmp_path / "out.npy"), expected)


def test_what_a_run_finds(written: Written, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", SAXPY, "--launch", written({3: 1001})]) == 1
    assert "past the end of arguments[0] of 4000 bytes" in capsys.readouterr().out
    undefined = {"shape": [1000], "dtype": "f32", "access": "write"}
    assert main(["check", SAXPY, "--launch", written({1: undefined})]) == 1
    assert "initialisation: an undefined value is stored" in capsys.readouterr().out
    protected = {"shape": [1000], "dtype": "f32", "access": "read"}
    assert main(["check", SAXPY, "--launch", written({1: protected}), "--check", "memory"]) == 1
    assert "write to read-only memory" in capsys.readouterr().out


def test_sarif(assembled: dict[str, str], tmp_path: Path) -> None:
    """The parts that SARIF 2.1.0 requires of a log, a run, a result and a location; and source lines where known."""
    file = tmp_path / "report.sarif"
    assert main(["check", assembled["hasty"], "--format", "sarif", "-o", str(file)]) == 1
    log = json.loads(file.read_text())
    assert log["version"] == "2.1.0" and log["$schema"].endswith("sarif-schema-2.1.0.json")
    (run,) = log["runs"]
    rules = run["tool"]["driver"]["rules"]
    (result,) = run["results"]
    assert rules[result["ruleIndex"]]["id"] == result["ruleId"] == "wait"
    assert result["level"] == "error" and "s_waitcnt vmcnt(0) or less is needed" in result["message"]["text"]
    (location,) = result["locations"]
    assert location["physicalLocation"]["artifactLocation"]["uri"].startswith("file:///")
    assert location["physicalLocation"]["address"]["offsetFromParent"] == 0x18
    assert location["logicalLocations"][0]["fullyQualifiedName"] == "doubled"
    triton = [str(FOREIGN / f"triton_{name}") for name in ("softmax_gfx942.hsaco", "without_lds.json")]
    assert main(["check", triton[0], "--launch", triton[1], "--format", "sarif", "-o", str(file)]) == 1
    (result,) = json.loads(file.read_text())["runs"][0]["results"]
    assert result["locations"][0]["physicalLocation"]["region"]["startLine"] > 0


def test_all_kernels_or_one(capsys: pytest.CaptureFixture[str]) -> None:
    file = str(ROOT / "test" / "codeobject" / "data" / "kernels_gfx950.hsaco")
    assert main(["check", file]) == 0
    assert capsys.readouterr().out.count("nothing found (decode, wait, hazard)") == 2
    assert main(["check", file, "--kernel", "reverse", "--check", "hazard"]) == 0
    assert capsys.readouterr().out.endswith("reverse: nothing found (decode, hazard)\n")


def test_words_that_are_no_instructions(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = (FOREIGN / "doubled.s").read_text().replace("  s_endpgm\n", "  .long 0xffffffff\n  s_endpgm\n")
    (tmp_path / "damaged.hsaco").write_bytes(assemble(text, "gfx942").hsaco)
    assert main(["check", str(tmp_path / "damaged.hsaco")]) == 1
    printed = capsys.readouterr().out
    assert printed.count("ffffffff") == 1 and "decode: not proven" in printed


def test_arguments_by_name(assembled: dict[str, str], written: Written, capsys: pytest.CaptureFixture[str]) -> None:
    array = {"shape": [64], "dtype": "f32", "fill": "arange"}
    named = {"grid": [1], "block": [64], "arguments": {"x": array}}
    assert main(["check", assembled["doubled"], "--launch", written(**named)]) == 0
    assert "x: float32 [64], 0 to 126" in capsys.readouterr().out
    assert main(["check", assembled["doubled"], "--launch", written(**{**named, "arguments": {"y": array}})]) == 2
    assert "arguments.y: doubled takes no such argument; it takes: x" in capsys.readouterr().err
    assert main(["check", assembled["doubled"], "--launch", written(**{**named, "arguments": {}})]) == 2
    assert "arguments.x: missing" in capsys.readouterr().err
    assert main(["check", assembled["doubled"], "--launch", written(**{**named, "arguments": {}, "others": 0})]) == 1
    assert "memory: access of 4 bytes" in capsys.readouterr().out


X = {"shape": [1000], "dtype": "f32"}
BAD: list[tuple[dict[str, Any], dict[int, Any], str]] = [
    ({"grid": None}, {}, "no field grid; expected a list"),
    ({"grid": [1, 2, 3, 4]}, {}, "grid=[1, 2, 3, 4]: expected one to three sizes"),
    ({"block": [0]}, {}, "block[0]=0: expected a whole number from 1 to 4294967295"),
    ({"grid": [1 << 32]}, {}, "grid[0]=4294967296: expected a whole number from 1 to 4294967295"),
    ({"blocks": [1]}, {}, "unknown field blocks; did you mean block?"),
    ({"dynamic_lds": -1}, {}, "dynamic_lds=-1: expected 0 to"),
    ({"order": [3]}, {}, "order=[3]: its product is 3; expected the 4 workgroups of the grid"),
    ({"arguments": 3}, {}, "arguments=3: expected a list, or an object by name"),
    ({"arguments": [1, 2]}, {}, "arguments: 2 are given; saxpy takes 4"),
    ({"kernel": "daxpy"}, {}, "kernel: no kernel 'daxpy'; the code object has: saxpy"),
    ({}, {0: {"shape": [1000]}}, "arguments[0]: no field dtype; expected text"),
    ({}, {0: {**X, "dtype": "f31"}}, "arguments[0].dtype=f31: unknown; did you mean f32?"),
    ({}, {0: {**X, "shape": [-1]}}, "arguments[0].shape[0]=-1: expected a whole number from 0 to 4294967295"),
    ({}, {0: {**X, "fill": "ones"}}, "arguments[0].fill=ones: expected zeros|random|arange|undefined"),
    ({}, {0: {**X, "fill": "zeros", "file": "x.npy"}}, "arguments[0]: fill and file exclude each other"),
    ({}, {0: {**X, "file": "nowhere.npy"}}, "arguments[0].file: cannot read"),
    ({}, {0: {**X, "access": "rw"}}, "arguments[0].access=rw: expected read|write|readwrite"),
    ({}, {0: {**X, "offset": 1001}}, "arguments[0].offset=1001: expected 0 to the 1000 elements"),
    ({}, {0: {"same_as": "z"}}, "arguments[0].same_as=z: no such array; known: arguments[1]"),
    ({}, {0: {}}, "arguments[0]: expected exactly one of the fields shape, scalar"),
    ({}, {0: {"bytes": "0g"}}, "arguments[0].bytes=0g: expected pairs of hexadecimal digits"),
    ({}, {0: {"bytes": "00"}}, "arguments[0].bytes: 1 bytes are given; this argument has 8"),
    ({}, {3: X}, "arguments[3]: an array's address takes 8 bytes; this argument has 4"),
    ({}, {3: 1 << 40}, "arguments[3]=1099511627776: does not fit into the argument's 4 bytes"),
    ({}, {3: {"scalar": 1.5, "dtype": "i32"}}, "arguments[3].scalar=1.5: expected a whole number from"),
    ({}, {3: {"scalar": 1, "dtype": "f64"}}, "arguments[3].dtype=f64: 8 bytes; the argument has 4"),
    ({}, {0: {"null": "yes"}}, 'arguments[0]: null="yes": expected true or false'),
    ({}, {3: "many"}, "arguments[3]=many: expected a number or an object"),
    ({"block": [64]}, {}, "kernel saxpy requires block (256, 1, 1), not (64, 1, 1)"),
]


@pytest.mark.parametrize(("fields", "arguments", "message"), BAD, ids=[message for *_, message in BAD])
def test_bad_descriptions_name_the_field(
    fields: dict[str, Any],
    arguments: dict[int, Any],
    message: str,
    written: Written,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["check", SAXPY, "--launch", written(arguments, **fields)]) == 2
    error = capsys.readouterr().err
    assert message in error and error.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("check /nowhere.hsaco", "cannot read /nowhere.hsaco"),
        ("check gem m=8", "gem is neither an operator nor a file; did you mean gemm?"),
        ("check {saxpy} --kernel daxpy", "--kernel daxpy: no kernel 'daxpy'"),
        ("check {saxpy} --check race", "give --launch, or wait|copy_order|hazard"),
        ("check {saxpy} --launch /nowhere.json", "cannot read /nowhere.json"),
        ("time {saxpy}", "needs --launch launch.json"),
        ("time {saxpy} --launch {launch} --arch gfx950", "a code object for gfx942, not for gfx950"),
        ("timeline {saxpy} m=3 --launch {launch} -o page.html", "key=value is for operators"),
        ("whatif {saxpy} --launch {launch} --buffers 2", "compile an operator again; a code object stays as it is"),
        ("whatif {saxpy} --launch {launch} --workgroups 9", "--workgroups 9: the launch of"),
        ("time gemm", "required: --arch; expected gfx90a|gfx942|gfx950"),
    ],
)
def test_bad_requests(
    arguments: str, message: str, written: Written, capsys: pytest.CaptureFixture[str], tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    words = arguments.format(saxpy=SAXPY, launch=written()).split()
    assert main(words) == 2
    assert message in capsys.readouterr().err


def test_the_order_of_workgroups_reaches_the_model(written: Written, capsys: pytest.CaptureFixture[str]) -> None:
    """Workgroups along an axis share inputs; the sampled launch is told apart by its shape only."""
    from ckmlir.tools.cli import Parser
    from ckmlir.tools.timing_options import add_timing_arguments, read_subject

    parser = Parser("ckmlir timeline", "")
    add_timing_arguments(parser)
    given = parser.parse_args([SAXPY, "--launch", written(order=[2, 2])])
    assert read_subject(given).record().shape == (2, 2)
    assert main(["time", SAXPY, "--launch", written(order=[2, 2]), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["kernel"] == "saxpy"


def test_assembly_that_is_none() -> None:
    text = (FOREIGN / "doubled.s").read_text()
    with pytest.raises(CodeGenerationError, match="invalid instruction"):
        assemble(text.replace("v_add_f32_e32", "v_add_ü"), "gfx942")
    with pytest.raises(CodeGenerationError, match="has no kernel"):
        assemble("", "gfx942")
