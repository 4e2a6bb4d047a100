"""`ckmlir inspect`: what it says of a code object, and of files that are none."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ckmlir.lowering.codeobject import emit_code_object
from ckmlir.mlir import ir
from ckmlir.sim.decode import UnknownInstruction
from ckmlir.tools import inspect as inspect_command
from ckmlir.tools.cli import main

KERNELS = """
module {
  gpu.module @kernels {
    llvm.mlir.global internal @tile() {addr_space = 3 : i32, alignment = 16 : i64} : !llvm.array<256 x f32>
    llvm.func @scale(%data: !llvm.ptr<1>, %factor: f32) attributes {gpu.kernel, rocdl.kernel} {
      %lane = rocdl.workitem.id.x : i32
      %place = llvm.getelementptr %data[%lane] : (!llvm.ptr<1>, i32) -> !llvm.ptr<1>, f32
      %old = llvm.load %place : !llvm.ptr<1> -> f32
      %base = llvm.mlir.addressof @tile : !llvm.ptr<3>
      %cell = llvm.getelementptr %base[%lane] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, f32
      llvm.store %old, %cell : f32, !llvm.ptr<3>
      rocdl.barrier
      %back = llvm.load volatile %cell : !llvm.ptr<3> -> f32
      %new = llvm.fmul %back, %factor : f32
      llvm.store %new, %place : f32, !llvm.ptr<1>
      llvm.return
    }
    llvm.func @nothing() attributes {gpu.kernel, rocdl.kernel} {
      llvm.return
    }
  }
}
"""


@pytest.fixture
def hsaco(context: ir.Context, tmp_path: Path) -> Path:
    path = tmp_path / "two kernels.hsaco"
    path.write_bytes(emit_code_object(ir.Module.parse(KERNELS, context), "gfx942").hsaco)
    return path


def test_json(hsaco: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", str(hsaco), "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["target"].startswith("gfx942")
    assert report["code_object_version"] == 5
    assert report["bytes"] == hsaco.stat().st_size
    kernels = {kernel["name"]: kernel for kernel in report["kernels"]}
    assert set(kernels) == {"scale", "nothing"}
    scale = kernels["scale"]
    assert [(argument["offset"], argument["size"], argument["kind"]) for argument in scale["arguments"][:2]] == [
        (0, 8, "global_buffer"), (8, 4, "by_value")
    ]  # fmt: skip
    assert scale["lds_bytes"] == 1024
    assert kernels["nothing"]["lds_bytes"] == 0
    assert scale["vector_registers"] >= 2
    assert (scale["vector_spills"], scale["scalar_spills"], scale["scratch_bytes"]) == (0, 0, 0)
    assert scale["occupancy"]["waves_per_simd"] == 8
    mix = scale["instructions"]
    assert mix["barrier"] == 1
    assert mix["lds"] == 2
    assert mix["vmem"] == 2
    assert mix["valu"] >= 1
    assert kernels["nothing"]["instructions"].get("valu", 0) == 0


def test_text(hsaco: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", str(hsaco)]) == 0
    out = capsys.readouterr().out
    assert out.startswith("gfx942")
    for words in ("scale: ", "nothing: ", "1024 bytes of LDS", "global_buffer", "waves a SIMD", "1 barrier"):
        assert words in out


def test_a_chip_that_is_not_described_is_still_inspected(hsaco: Path, capsys: pytest.CaptureFixture[str]) -> None:
    content = bytearray(hsaco.read_bytes().replace(b"amdhsa-unknown-gfx942", b"amdhsa-unknow-gfx1100"))
    content[48] = 0x41  # e_flags: gfx1100, of another family
    hsaco.write_bytes(content)
    assert main(["inspect", str(hsaco), "--json"]) == 0
    (scale, _) = json.loads(capsys.readouterr().out)["kernels"]
    assert (scale["instructions"], scale["occupancy"]) == (None, None)
    assert "gfx1100" in scale["instructions_missing"]
    assert main(["inspect", str(hsaco)]) == 0
    assert "unknown: " in capsys.readouterr().out


@pytest.mark.parametrize(
    "content",
    [b"", b"some text\n", b"\x7fELF", b"\x7fELF\x02\x01\x01" + bytes(57)],
    ids=["empty", "text", "magic only", "no machine"],
)
def test_files_that_are_no_code_object(content: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "x.hsaco"
    path.write_bytes(content)
    assert main(["inspect", str(path)]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"ckmlir: error: {path}: ")
    assert err.count("\n") == 1


def test_truncated_code_objects(hsaco: Path, capsys: pytest.CaptureFixture[str]) -> None:
    whole = hsaco.read_bytes()
    for size in range(0, len(whole), 97):
        hsaco.write_bytes(whole[:size])
        status = main(["inspect", str(hsaco), "--json"])
        out, err = capsys.readouterr()
        assert status in (0, 2)  # cutting off what nobody needs is not damage
        assert (err.count("\n"), out == "") == ((1, True) if status else (0, False))


def test_a_directory_and_this_python(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import sys

    for path in (tmp_path, Path(sys.executable).resolve()):
        assert main(["inspect", str(path)]) == 2
        assert capsys.readouterr().err.count("\n") == 1


def test_code_that_does_not_decode(
    hsaco: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def unknown(*_: object) -> None:
        raise UnknownInstruction(64, (0xFFFFFFFF,), "gfx942", "unknown encoding")

    monkeypatch.setattr(inspect_command, "disassemble", unknown)
    assert main(["inspect", str(hsaco), "--json"]) == 0
    (scale, _) = json.loads(capsys.readouterr().out)["kernels"]
    assert scale["instructions"] is None
    assert "ffffffff" in scale["instructions_missing"]


def test_narrow_accesses_are_counted_and_listed(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Accumulators give lanes less of their rows than 16 bytes: the compiler says so, with the line."""
    path = tmp_path / "a.hsaco"
    keys = ["fmha_fwd", "b=1", "h=1", "sq=64", "sk=64", "d=64"]
    assert main(["compile", *keys, "--arch", "gfx942", "-o", str(path), "--report", "accesses"]) == 0
    listed = [line for line in capsys.readouterr().out.splitlines() if "are possible" in line]
    assert any("bytes a lane where 16 are possible: of 8 neighbours the distribution gives" in line for line in listed)
    assert all(line.split(":")[0].endswith("_kernel.py") for line in listed)
    assert main(["inspect", str(path), "--json"]) == 0
    (kernel,) = json.loads(capsys.readouterr().out)["kernels"]
    narrow = kernel["narrow_accesses"]
    assert len(narrow) == len(listed) > 0 and all(one["bytes"] < one["possible"] for one in narrow)
    assert main(["inspect", str(path)]) == 0
    assert f"{sum(one['count'] for one in narrow)} in {len(narrow)} places" in capsys.readouterr().out


def test_wide_accesses_leave_nothing_to_report(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Said too, so that silence is not taken for it."""
    path = tmp_path / "a.hsaco"
    assert main(["compile", "copy", "m=64", "n=256", "--arch", "gfx942", "-o", str(path), "--report", "accesses"]) == 0
    assert "no access is narrower than its array allows" in capsys.readouterr().out
    assert main(["inspect", str(path)]) == 0
    assert "narrow accesses   none" in capsys.readouterr().out
