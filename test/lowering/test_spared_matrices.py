"""Kernels without matrix instructions are compiled as for a chip that has none, unless they would spill."""

from __future__ import annotations

from typing import Any

import pytest

from ckmlir.codeobject.elf import ElfFile
from ckmlir.codeobject.metadata import unpack_metadata
from ckmlir.compiler import compile_kernel
from ckmlir.dialect.context import shared_context
from ckmlir.lowering import codeobject
from ckmlir.lowering.spared_matrices import FEATURES, can_spare
from ckmlir.mlir import ir
from ckmlir.ops import find_operator
from ckmlir.targets import get_target

KERNELS: dict[str, tuple[dict[str, Any], str]] = {
    "softmax": ({"m": 64, "n": 256}, FEATURES),
    "reduce": ({"shape": (64, 40000)}, FEATURES),  # a loop
    "gemm": ({"m": 256, "n": 256, "k": 256, "block": (64, 64, 32)}, ""),
}
"""By operator: keys of a kernel, and the features that it is compiled for."""
ACCUMULATORS = {"m": 512, "n": 512, "k": 256, "block": (256, 256, 32)}
"""Keys of a product whose matrix instructions are assembly."""


@pytest.fixture
def features(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What each compilation was told of the chip."""
    found: list[str] = []
    name_target = codeobject._name_target

    def noted(kernels: ir.OpView, target: str, opt_level: int | None, features: str) -> None:
        found.append(features)
        name_target(kernels, target, opt_level, features)

    monkeypatch.setattr(codeobject, "_name_target", noted)
    return found


def compiled(name: str, keys: dict[str, Any]) -> bytes:
    operator, target = find_operator(name), get_target("gfx942")
    return compile_kernel(operator, operator.spec(operator.problem(**keys), target), target).hsaco


@pytest.mark.parametrize("name", KERNELS)
def test_kernels_without_products_need_no_matrix_instructions(name: str, features: list[str]) -> None:
    compiled(name, KERNELS[name][0])
    assert set(features) == {KERNELS[name][1]}


def test_matrix_instructions_in_assembly_are_seen(features: list[str]) -> None:
    compiled("gemm", ACCUMULATORS)
    assert set(features) == {""}


def test_the_metadata_says_that_there_are_no_accumulators() -> None:
    notes = ElfFile(compiled("softmax", KERNELS["softmax"][0])).notes()
    [metadata] = [unpack_metadata(body) for owner, _, body in notes if owner == "AMDGPU"]
    [kernel] = metadata["amdhsa.kernels"]
    assert kernel[".agpr_count"] == 0
    assert list(kernel) == sorted(kernel)


def many_at_once(vectors: int) -> str:
    """A kernel of as many vectors of 16 bytes, all loaded before the first is stored."""
    place = "%p{0} = llvm.getelementptr %x[{1}] : (!llvm.ptr<1>) -> !llvm.ptr<1>, f32"
    load = "%v{0} = llvm.load volatile %p{0} : !llvm.ptr<1> -> vector<4xf32>"
    store = "llvm.store volatile %v{0}, %p{0} : vector<4xf32>, !llvm.ptr<1>"
    lines = [line.format(number, 4 * number) for number in range(vectors) for line in (place, load)]
    lines += [store.format(number) for number in reversed(range(vectors))]
    body = "\n".join(lines)
    return f"""
        module {{ gpu.module @kernels {{
          llvm.func @many(%x: !llvm.ptr<1>) attributes {{
            gpu.kernel, rocdl.kernel, rocdl.flat_work_group_size = "256,256"
          }} {{ {body} llvm.return }}
        }} }}"""


@pytest.mark.parametrize(("vectors", "expected"), [(20, [FEATURES]), (72, [FEATURES, ""])])
def test_what_would_spill_has_the_second_file(vectors: int, expected: list[str], features: list[str]) -> None:
    with shared_context() as context:
        made = codeobject.emit_code_object(ir.Module.parse(many_at_once(vectors), context), "gfx942")
    metadata = made.code_object.kernel("many").metadata
    assert features == expected
    assert metadata.vgpr_spill_count == 0
    assert (metadata.vgpr_count > 256) == (len(expected) > 1)


CALL = "llvm.call_intrinsic"


@pytest.mark.parametrize(("names", "assembly", "expected"), [
    (["llvm.load"], None, True),
    (["llvm.load", CALL], None, False),  # whose name may be that of a matrix instruction
    (["llvm.load"], ("v_mov_b32 $0, $1", "=v,v"), True),
    (["llvm.load"], ("s_nop 0", "={a1}"), False),
    (["llvm.load"], ("s_nop 0", "~{a[0:3]}"), False),
    (["llvm.load"], ("s_nop 0", "=a,v"), False),
    (["llvm.load"], ("global_store_dword v[0:1], a0, off", ""), False),
    (["llvm.load"], ("v_accvgpr_read_b32 $0, $1", "=v,v"), False),
])  # fmt: skip
def test_what_needs_the_second_file_is_seen(
    names: list[str], assembly: tuple[str, str] | None, expected: bool
) -> None:
    with shared_context() as context, ir.Location.unknown(context):
        found = []
        if assembly is not None:
            text, constraints = (ir.StringAttr.get(one) for one in assembly)
            attributes = {"asm_string": text, "constraints": constraints}
            found.append(ir.Operation.create("llvm.inline_asm", attributes=attributes))
        assert can_spare(names, found) == expected
