"""Code objects from modules of llvm and rocdl operations: what is in them, and how failures are told."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection

from ckmlir.lowering.codeobject import LEVEL, CodeGenerationError, CompiledObject, emit_code_object
from ckmlir.lowering.linker import LinkError
from ckmlir.lowering.occupancy import kernel_occupancy
from ckmlir.lowering.standard_error import captured_standard_error
from ckmlir.mlir import ir
from ckmlir.targets import UnsupportedTarget

ROOT = Path(__file__).resolve().parents[2]
CHIPS = ("gfx90a", "gfx942", "gfx950")
# EF_AMDGPU_MACH of the ELF header (LLVM AMDGPUUsage, "ELF Header e_flags").
MACHINES = {"gfx90a": 0x3F, "gfx942": 0x4C, "gfx950": 0x4F}

KERNEL = """
#file = loc("scale.py":1:1)
module {{
  gpu.module @kernels {targets} {{
    {globals}
    llvm.func @scale(%data: !llvm.ptr<1>, %factor: f32) attributes {{gpu.kernel, rocdl.kernel}} {{
      %lane = rocdl.workitem.id.x : i32 loc("scale.py":7:3)
      %place = llvm.getelementptr %data[%lane] : (!llvm.ptr<1>, i32) -> !llvm.ptr<1>, f32 loc("scale.py":8:5)
      %old = llvm.load %place : !llvm.ptr<1> -> f32 loc("scale.py":8:5)
      {body}
      %new = llvm.fmul %old, %factor : f32 loc("scale.py":9:5)
      llvm.store %new, %place : f32, !llvm.ptr<1> loc("scale.py":10:5)
      llvm.return loc("scale.py":11:3)
    }} loc("scale.py":6:1)
  }}
}}
"""


def kernel(context: ir.Context, targets: str = "", globals: str = "", body: str = "") -> ir.Module:
    return ir.Module.parse(KERNEL.format(targets=targets, globals=globals, body=body), context)


def symbols(compiled: CompiledObject) -> set[str]:
    table = ELFFile(io.BytesIO(compiled.hsaco)).get_section_by_name(".dynsym")
    assert isinstance(table, SymbolTableSection)
    return {symbol.name for symbol in table.iter_symbols() if symbol.name}


def lines(compiled: CompiledObject) -> set[tuple[str, int]]:
    elf = ELFFile(io.BytesIO(compiled.hsaco))
    if not elf.has_dwarf_info():
        return set()
    found = set()
    dwarf = elf.get_dwarf_info()
    for unit in dwarf.iter_CUs():
        program = dwarf.line_program_for_CU(unit)
        files = program.header["file_entry"]
        for entry in program.get_entries():
            if entry.state and not entry.state.end_sequence:
                index = entry.state.file - (program.header["version"] < 5)
                found.add((files[index].name.decode(), entry.state.line))
    return found


@pytest.mark.parametrize("chip", CHIPS)
def test_code_objects_of_every_chip(context: ir.Context, chip: str) -> None:
    compiled = emit_code_object(kernel(context), chip)
    elf = ELFFile(io.BytesIO(compiled.hsaco))
    assert elf["e_machine"] == "EM_AMDGPU"
    assert elf["e_type"] == "ET_DYN"
    assert elf["e_flags"] & 0xFF == MACHINES[chip]
    assert elf["e_ident"]["EI_ABIVERSION"] == 3  # code object format 5
    assert symbols(compiled) == {"scale", "scale.kd"}
    assert set(compiled.timings) == {"llvm", "link"}
    assert compiled.artifacts == {}


def test_locations_reach_the_line_table(context: ir.Context) -> None:
    found = lines(emit_code_object(kernel(context), "gfx942"))
    assert {("scale.py", 8), ("scale.py", 9), ("scale.py", 10)} <= found


def test_without_a_line_table(context: ir.Context) -> None:
    assert lines(emit_code_object(kernel(context), "gfx942", line_table=False)) == set()


def test_the_module_is_not_changed(context: ir.Context) -> None:
    module = kernel(context)
    before = str(module)
    emit_code_object(module, "gfx942")
    assert str(module) == before


def test_the_same_module_for_two_chips(context: ir.Context) -> None:
    module = kernel(context)
    assert emit_code_object(module, "gfx90a").hsaco != emit_code_object(module, "gfx950").hsaco
    assert emit_code_object(module, "gfx90a").hsaco == emit_code_object(module, "gfx90a").hsaco


def test_artifacts_that_are_kept(context: ir.Context) -> None:
    compiled = emit_code_object(kernel(context), "gfx942", keep={"rocdl", "llvm", "asm", "obj"})
    assert "llvm.fmul" in compiled.artifacts["rocdl"]
    assert "amdgpu_kernel void @scale" in compiled.artifacts["llvm"]
    assert "v_mul_f32" in compiled.artifacts["asm"]
    assert compiled.artifacts["obj"][:4] == b"\x7fELF"
    assert ELFFile(io.BytesIO(compiled.artifacts["obj"]))["e_type"] == "ET_REL"


def test_the_optimization_level_reaches_llvm(context: ir.Context) -> None:
    sizes = [len(emit_code_object(kernel(context), "gfx942", opt_level=level).hsaco) for level in (0, 3)]
    assert sizes[0] > sizes[1]


def test_the_code_object_is_parsed_when_asked_for(context: ir.Context) -> None:
    compiled = emit_code_object(kernel(context), "gfx942")
    assert compiled.code_object is compiled.code_object
    assert list(compiled.code_object.kernels) == ["scale"]


def test_the_occupancy_of_a_compiled_kernel(context: ir.Context) -> None:
    attributes = 'rocdl.flat_work_group_size = "512,512"'
    text = KERNEL.format(targets="", globals=TOO_MUCH_LDS.replace("70000", "32000"), body=USE_OF_LDS).replace(
        "rocdl.kernel}", f"rocdl.kernel, {attributes}}}"
    )
    compiled = emit_code_object(ir.Module.parse(text, context), "gfx942")
    found = kernel_occupancy(compiled.code_object)
    assert (found.workgroups, found.waves, found.limiter) == (2, 16, "LDS")
    assert kernel_occupancy(compiled.code_object, workgroup_size=256, dynamic_lds=20000).workgroups == 1
    with pytest.raises(ValueError, match="66000 bytes of LDS"):
        kernel_occupancy(compiled.code_object, dynamic_lds=34000)


TOO_MUCH_LDS = "llvm.mlir.global internal @lds() {addr_space = 3 : i32} : !llvm.array<70000 x i8>"
USE_OF_LDS = """%lds = llvm.mlir.addressof @lds : !llvm.ptr<3>
      llvm.store %old, %lds : f32, !llvm.ptr<3>
      %lds_again = llvm.load volatile %lds : !llvm.ptr<3> -> f32"""


def test_errors_that_llvm_only_prints_are_raised(context: ir.Context, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(CodeGenerationError, match=r"^scale.py:6:0: error: LLVM: local memory \(70000\) exceeds"):
        emit_code_object(kernel(context, globals=TOO_MUCH_LDS, body=USE_OF_LDS), "gfx942")
    assert capfd.readouterr().err == ""


def test_the_larger_lds_of_gfx950(context: ir.Context) -> None:
    emit_code_object(kernel(context, globals=TOO_MUCH_LDS, body=USE_OF_LDS), "gfx950")


def test_operations_that_are_not_lowered_are_named(context: ir.Context) -> None:
    module = kernel(context, body='%left = arith.addf %old, %old : f32 loc("scale.py":33:1)')
    with pytest.raises(CodeGenerationError, match=r"^scale.py:33:1: error: .*arith.addf[^\n]*$"):
        emit_code_object(module, "gfx942")


def test_calls_of_functions_that_nothing_defines(context: ir.Context) -> None:
    module = kernel(
        context, globals="llvm.func @missing(f32) -> f32", body="%x = llvm.call @missing(%old) : (f32) -> f32"
    )
    with pytest.raises(LinkError, match=r"undefined .*symbol: missing"):
        emit_code_object(module, "gfx942")


def test_a_kernel_may_want_another_level(context: ir.Context) -> None:
    def code(level: int | None, wanted: int | None) -> bytes:
        module = kernel(context)
        if wanted is not None:
            function = next(op for op in module.body.operations[0].regions[0].blocks[0])
            function.attributes[LEVEL] = ir.IntegerAttr.get(ir.IntegerType.get_signless(32, context), wanted)
        return emit_code_object(module, "gfx942", opt_level=level).hsaco

    assert code(None, 0) == code(0, None) != code(None, None)
    assert code(2, 0) == code(None, None)


def test_requests_that_make_no_sense(context: ir.Context) -> None:
    with pytest.raises(UnsupportedTarget, match="gfx1100"):
        emit_code_object(kernel(context), "gfx1100")
    with pytest.raises(CodeGenerationError, match=r"for gfx950: it cannot be compiled for gfx942"):
        emit_code_object(kernel(context, targets='[#rocdl.target<chip = "gfx950">]'), "gfx942")
    with pytest.raises(CodeGenerationError, match="features after the chip's name"):
        emit_code_object(kernel(context), "gfx942:xnack+")
    with pytest.raises(CodeGenerationError, match="no artifact is called 'ptx'; they are rocdl, llvm, asm, obj"):
        emit_code_object(kernel(context), "gfx942", keep={"ptx"})
    with pytest.raises(CodeGenerationError, match="optimization level 4"):
        emit_code_object(kernel(context), "gfx942", opt_level=4)
    with pytest.raises(CodeGenerationError, match=r"exactly one gpu\.module; this module has 0"):
        emit_code_object(ir.Module.parse("module {}", context), "gfx942")


def test_a_home_that_cannot_be_written_to(context: ir.Context, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/dev/null/nowhere")
    assert emit_code_object(kernel(context), "gfx942").hsaco[:4] == b"\x7fELF"


@pytest.mark.parametrize("in_memory", [True, False])
def test_standard_error_is_captured_and_given_back(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, in_memory: bool
) -> None:
    if not in_memory:
        monkeypatch.delattr(os, "memfd_create", raising=False)
    with captured_standard_error() as captured:
        os.write(2, b"inside\n")
    os.write(2, b"outside\n")
    assert captured == ["inside"]
    assert capfd.readouterr().err == "outside\n"


def test_an_abort_does_not_swallow_its_message() -> None:
    code = (
        "import os\n"
        "from ckmlir.lowering.standard_error import captured_standard_error\n"
        "with captured_standard_error():\n"
        "    os.write(2, b'LLVM ERROR: Cannot select\\n')\n"
        "    os.abort()\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, timeout=60)
    assert done.returncode == -6
    assert "LLVM ERROR: Cannot select" in done.stderr
