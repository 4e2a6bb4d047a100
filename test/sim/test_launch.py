"""Launching kernels: arguments, geometry, poison, errors with their place, several kernels, the cache of handlers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from llvm_kernels import compile_kernel, elementwise, replace_words

from ckmlir.codeobject import CodeObject, CodeObjectError
from ckmlir.sim import LaunchError, SimulationError, Simulator, UnsupportedInstruction

COPY = elementwise("  %r = add i32 %x, 0", "i32", "i32")


def copy_kernel() -> CodeObject:
    return compile_kernel(COPY)


# -- memory ----------------------------------------------------------------------------------------------------------


def test_memory_holds_arrays_of_any_dtype_and_shape() -> None:
    simulator = Simulator()
    array = np.arange(24, dtype=np.float16).reshape(2, 3, 4)
    memory = simulator.upload(array)
    assert memory.address % 256 == 0 and memory.size == 48
    np.testing.assert_array_equal(memory.read(np.float16, (2, 3, 4)), array)
    memory.write(np.array([7, 8], np.float16), offset=4)
    assert memory.read(np.float16, 2, offset=4).tolist() == [7, 8]


def test_limits_that_make_no_sense_are_refused() -> None:
    simulator = Simulator()
    memory = simulator.allocate(256)
    for action, message in (
        (lambda: Simulator(branch_budget=-1), "branch_budget -1: a launch needs at least 1 branch"),
        (lambda: Simulator(branch_budget=1.5), "branch_budget 1.5: a launch needs"),  # type: ignore[arg-type]
        (lambda: Simulator(branch_budget="x"), "branch_budget 'x': a launch needs"),  # type: ignore[arg-type]
        (lambda: Simulator(branch_budget=1 << 63), "branch_budget 9223372036854775808: .* at most 2\\^63 - 1"),
        (lambda: Simulator(patience="x"), "patience 'x': expected seconds, more than 0"),  # type: ignore[arg-type]
        (lambda: Simulator(patience=float("nan")), "patience nan: expected seconds, more than 0"),
        (lambda: Simulator(checks=5), "checks: expected names of checkers, not 5"),  # type: ignore[arg-type]
        (lambda: simulator.launch(b"code"), "a code object is launched .*, not bytes"),  # type: ignore[arg-type]
        (lambda: memory.read("x"), "elements of a NumPy type, such as 'f4'; there is none called 'x'"),
        (lambda: memory.read([]), "there is none called \\[\\]"),
        (lambda: Simulator(seed=-1), "seed -1: expected a whole number"),
        (lambda: Simulator(jobs=None), "jobs None: at least 1"),  # type: ignore[arg-type]
        (lambda: Simulator(checks="rece"), "checks: 'rece' is not a checker"),
        (lambda: simulator.allocate(2.5), "cannot allocate 2.5 bytes; expected a whole number"),  # type: ignore[arg-type]
        (lambda: simulator.upload([simulator]), "an array of Python's objects"),  # type: ignore[list-item]
        (lambda: simulator.allocate(1 << 60), "cannot allocate .* bytes: this machine has not that much memory"),
        (lambda: simulator.launch(copy_kernel(), arguments=[memory, memory], dynamic_lds=-1), "dynamic_lds -1"),
    ):
        with pytest.raises(LaunchError, match=message):
            action()


def test_memory_refuses_what_does_not_fit() -> None:
    memory = Simulator().allocate(16)
    for action in (
        lambda: memory.write(np.zeros(5, np.int32)),
        lambda: memory.read(np.int32, 5),
        lambda: memory.write(b"", offset=17),
    ):
        with pytest.raises(LaunchError, match="16 bytes"):
            action()
    memory.free()
    with pytest.raises(LaunchError, match="freed"):
        memory.read()


def test_new_memory_is_poisoned_by_the_seed() -> None:
    first, again, other = (Simulator(seed=seed).allocate(64).read().tolist() for seed in (1, 1, 2))
    assert first == again != other
    assert not Simulator(poison=False).allocate(64).read().any()


@pytest.mark.parametrize("what", ["vgpr", "lds"])
def test_registers_and_lds_start_poisoned(what: str) -> None:
    body = {
        "vgpr": "  %r = add i32 0, 324478056",
        "lds": "  %p = getelementptr i32, ptr addrspace(3) @l, i32 %tid\n  %r = load volatile i32, ptr addrspace(3) %p",
    }[what]
    code_object = compile_kernel(elementwise(body, "i32", "i32", "@l = internal addrspace(3) global [64 x i32] undef"))
    if what == "vgpr":  # v_mov_b32 vN, 0x13572468 becomes v_mov_b32 vN, v7 and s_nop
        moves = [item for item in Simulator().program(code_object).instructions if item.words[1:] == (0x13572468,)]
        code_object = replace_words(code_object, moves[0].words, (moves[0].words[0] & ~0x1FF | 0x107, 0xBF800000))
    results = []
    for seed in (1, 1, 2):
        simulator = Simulator(seed=seed)
        source, out = simulator.upload(np.zeros(64, np.int32)), simulator.allocate(256)
        simulator.launch(code_object, "k", arguments=[source, out])
        results.append(out.read(np.uint32))
    assert len(set(results[0].tolist())) > 60 and results[0].all()
    np.testing.assert_array_equal(results[0], results[1])
    assert (results[0] != results[2]).mean() > 0.9


# -- arguments -------------------------------------------------------------------------------------------------------


def test_scalar_arguments_of_every_size() -> None:
    text = (
        """
define amdgpu_kernel void @k(i8 %a, i16 %b, i32 %c, i64 %d, half %e, float %f, double %g, ptr addrspace(1) %out) {
  %a1 = zext i8 %a to i64
  %b1 = sext i16 %b to i64
  %c1 = sext i32 %c to i64
  %e1 = fpext half %e to double
  %f1 = fpext float %f to double
  %e2 = fptosi double %e1 to i64
  %f2 = fptosi double %f1 to i64
  %g2 = fptosi double %g to i64
"""
        + "".join(
            f"  %p{n} = getelementptr i64, ptr addrspace(1) %out, i32 {n}\n"
            f"  store i64 %{name}, ptr addrspace(1) %p{n}\n"
            for n, name in enumerate(("a1", "b1", "c1", "d", "e2", "f2", "g2"))
        )
        + "  ret void\n}\n"
    )
    simulator = Simulator()
    out = simulator.allocate(64)
    simulator.launch(compile_kernel(text), arguments=[200, -3, np.int32(-70000), 1 << 40, 5.0, np.float32(6), 7.0, out])
    assert out.read(np.int64)[:7].tolist() == [200, -3, -70000, 1 << 40, 5, 6, 7]


@pytest.mark.parametrize(
    "arguments,message",
    [
        ([], "takes 2 arguments"),
        ([1, 2, 3], "3 were given"),
        ([1 << 64, 0], "too few for"),
        ([np.int32(1), 0], "has 8 bytes, but the value given has 4"),
        (["text", 0], "is a str"),
    ],
)
def test_wrong_arguments_are_refused(arguments: list[Any], message: str) -> None:
    with pytest.raises(LaunchError, match=message):
        Simulator().launch(copy_kernel(), "k", arguments=arguments)


def test_hidden_arguments_describe_the_launch() -> None:
    text = """
declare ptr addrspace(4) @llvm.amdgcn.implicitarg.ptr()
define amdgpu_kernel void @k(ptr addrspace(1) %out) #0 {
  %args = call ptr addrspace(4) @llvm.amdgcn.implicitarg.ptr()
  %blocks = load <3 x i32>, ptr addrspace(4) %args
  %sizes_p = getelementptr i8, ptr addrspace(4) %args, i32 12
  %sizes = load <3 x i16>, ptr addrspace(4) %sizes_p
  %dims_p = getelementptr i8, ptr addrspace(4) %args, i32 64
  %dims = load i16, ptr addrspace(4) %dims_p
  %wide = zext <3 x i16> %sizes to <3 x i32>
  %dims32 = zext i16 %dims to i32
  store <3 x i32> %blocks, ptr addrspace(1) %out
  %p = getelementptr i8, ptr addrspace(1) %out, i32 16
  store <3 x i32> %wide, ptr addrspace(1) %p
  %q = getelementptr i8, ptr addrspace(1) %out, i32 28
  store i32 %dims32, ptr addrspace(1) %q
  ret void
}
attributes #0 = { "amdgpu-flat-work-group-size"="1,256" }
!llvm.module.flags = !{!0}
!0 = !{i32 1, !"amdhsa_code_object_version", i32 500}
"""
    simulator = Simulator()
    out = simulator.allocate(32)
    simulator.launch(compile_kernel(text), "k", (5, 3, 1), (16, 4, 1), [out])
    assert out.read(np.uint32)[[0, 1, 2, 4, 5, 6, 7]].tolist() == [5, 3, 1, 16, 4, 1, 2]


# -- geometry --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "grid,block,dynamic_lds,message",
    [
        ((1, 1, 1), (2048, 1, 1), 0, "2048 work-items"),
        ((1, 1, 1), (0, 1, 1), 0, "0 work-items"),
        ((1, 1, 1), (64, 1, 1), 70000, "70000 bytes of LDS"),
        ((-1, 1, 1), (64, 1, 1), 0, "grid"),
        ((1, 1), (64, 1, 1), 0, "three sizes"),
        ((1 << 31, 1, 1), (64, 1, 1), 0, "too large"),
    ],
)
def test_impossible_geometry_is_refused(grid: Any, block: Any, dynamic_lds: int, message: str) -> None:
    simulator = Simulator()
    memory = simulator.allocate(256)
    with pytest.raises(LaunchError, match=message):
        simulator.launch(copy_kernel(), "k", grid, block, [memory, memory], dynamic_lds)


def test_an_empty_grid_runs_nothing() -> None:
    statistics = Simulator().launch(copy_kernel(), "k", (0, 4, 1), (64, 1, 1), [0, 0])
    assert statistics.wave_instructions == 0 == statistics.workgroups


def test_partial_last_wave() -> None:
    simulator = Simulator()
    source, out = simulator.upload(np.arange(100, dtype=np.int32)), simulator.upload(np.full(128, -1, np.int32))
    simulator.launch(copy_kernel(), "k", (1, 1, 1), (100, 1, 1), [source, out])
    assert out.read(np.int32).tolist() == [*range(100)] + [-1] * 28


def test_a_simulator_of_another_chip_and_an_unknown_kernel() -> None:
    with pytest.raises(LaunchError, match="is for gfx942; this simulator runs gfx950"):
        Simulator("gfx950").launch(copy_kernel(), arguments=[0, 0])
    with pytest.raises(LaunchError, match="does not know 'gfx1100'"):
        Simulator("gfx1100")
    with pytest.raises(CodeObjectError, match="no kernel 'other'"):
        Simulator().launch(copy_kernel(), "other")


# -- code objects of several kernels, versions 4, 5 and 6 ------------------------------------------------------------

LINKED = Path(__file__).parents[1] / "codeobject" / "data"


def linked(target: str) -> CodeObject:
    return CodeObject.parse(LINKED / f"kernels_{target}.hsaco")


@pytest.mark.parametrize("target", ["gfx90a", "gfx942", "gfx950"])
def test_kernels_of_a_linked_code_object(target: str) -> None:
    simulator, code_object = Simulator(target), linked(target)
    x, y = (np.random.default_rng(k).standard_normal(512).astype(np.float32) for k in (1, 2))
    x_memory, y_memory = simulator.upload(x), simulator.upload(y)
    simulator.launch(code_object, "scale_add", (2, 1, 1), (256, 1, 1), [x_memory, y_memory, 2.0, np.int32(500)])
    expected = y + np.float32(2) * x
    expected[500:] = y[500:]
    np.testing.assert_array_equal(y_memory.read(np.float32), expected)
    simulator.launch(code_object, "reverse", (1, 1, 1), (256, 1, 1), [x_memory])
    np.testing.assert_array_equal(x_memory.read(np.float32), np.concatenate([x[255::-1], x[256:]]))


def test_a_required_workgroup_size_is_kept() -> None:
    with pytest.raises(LaunchError, match=r"requires block \(256, 1, 1\), not \(64, 1, 1\)"):
        Simulator().launch(linked("gfx942"), "scale_add", arguments=[0, 0, 1.0, 0])


# -- errors ----------------------------------------------------------------------------------------------------------


def test_out_of_bounds_names_the_place() -> None:
    simulator = Simulator()
    source, out = simulator.upload(np.zeros(128, np.int32)), simulator.allocate(4 * 100)
    with pytest.raises(SimulationError) as caught:
        simulator.launch(copy_kernel(), "k", (2, 1, 1), (64, 1, 1), [source, out])
    message = str(caught.value)
    for part in (
        "access of 4 bytes",
        "0 bytes past the end of an allocation of 400 bytes",
        "kernel k, global_store_dword",
        "workgroup (1, 0, 0), wave 0, lane 36",
    ):
        assert part in message


def test_use_after_free_and_null_are_errors() -> None:
    simulator = Simulator()
    source, out = simulator.upload(np.zeros(64, np.int32)), simulator.allocate(256)
    address = source.address
    source.free()
    for bad in (address, 0):
        with pytest.raises(SimulationError, match="global_load_dword"):
            simulator.launch(copy_kernel(), "k", arguments=[bad, out])


def test_lds_out_of_bounds() -> None:
    text = elementwise(
        "  %p = getelementptr i32, ptr addrspace(3) @l, i32 %x\n  %r = load i32, ptr addrspace(3) %p", "i32", "i32",
        "@l = internal addrspace(3) global [16 x i32] undef",
    )  # fmt: skip
    simulator = Simulator()
    index = np.zeros(64, np.int32)
    index[9] = 16
    source, out = simulator.upload(index), simulator.allocate(256)
    with pytest.raises(SimulationError, match=r"LDS address 64 is outside of the workgroup's 64 bytes \(.*lane 9\)"):
        simulator.launch(compile_kernel(text), "k", arguments=[source, out])


def test_errors_name_the_source_line() -> None:
    simulator = Simulator()
    x, y = simulator.allocate(1024), simulator.allocate(1020)
    with pytest.raises(SimulationError, match=r"from /source/kernels\.py:13, workgroup \(0, 0, 0\), wave 3, lane 63"):
        simulator.launch(linked("gfx942"), "scale_add", (1, 1, 1), (256, 1, 1), [x, y, 1.0, 256])


def test_trap_and_endless_loop() -> None:
    trap = """declare void @llvm.trap()
define amdgpu_kernel void @k() {
  call void @llvm.trap()
  unreachable
}
"""
    with pytest.raises(SimulationError, match=r"s_trap 2|ran past the end"):
        Simulator().launch(compile_kernel(trap))
    loop = """define amdgpu_kernel void @k(ptr addrspace(1) %p) {
  br label %l
l:
  store volatile i32 1, ptr addrspace(1) %p
  br label %l
}
"""
    simulator = Simulator(branch_budget=1000)
    memory = simulator.allocate(4)
    with pytest.raises(SimulationError, match="more than 1000 branches"):
        simulator.launch(compile_kernel(loop), arguments=[memory])


def test_the_simulator_goes_on_after_an_error() -> None:
    simulator = Simulator()
    source, out = simulator.upload(np.arange(64, dtype=np.int32)), simulator.allocate(256)
    with pytest.raises(SimulationError):
        simulator.launch(copy_kernel(), "k", arguments=[0, out])
    simulator.launch(copy_kernel(), "k", arguments=[source, out])
    np.testing.assert_array_equal(out.read(np.int32), np.arange(64))


def test_instructions_without_semantics_are_listed_before_anything_runs() -> None:
    body = "  call void @llvm.amdgcn.s.sleep(i32 5)\n  call void @llvm.amdgcn.s.sleep(i32 6)\n  %r = add i32 %x, 0"
    code_object = compile_kernel(elementwise(body, "i32", "i32", "declare void @llvm.amdgcn.s.sleep(i32)"))
    s_sendmsg, s_rfe_b64 = 0xBF900002, 0xBE801F00
    code_object = replace_words(replace_words(code_object, (0xBF8E0005,), (s_sendmsg,)), (0xBF8E0006,), (s_rfe_b64,))
    simulator = Simulator()
    out = simulator.upload(np.full(64, 5, np.int32))
    with pytest.raises(UnsupportedInstruction) as caught:
        simulator.launch(code_object, "k", arguments=[out, out])
    assert [item.text.split()[0] for item in caught.value.missing] == ["s_sendmsg", "s_rfe_b64"]
    assert "message 2 goes to graphics" in str(caught.value) and "belongs to trap handlers" in str(caught.value)
    assert "encoding 0xbf90" in str(caught.value) and "kernel k has 2 instructions that" in str(caught.value)
    assert (out.read(np.int32) == 5).all()
