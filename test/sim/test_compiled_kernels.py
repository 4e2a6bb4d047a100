"""Whole kernels from LLVM's back end: what its expansions of divisions, roots, loops, calls and stacks compute."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from llvm_kernels import compile_kernel, elementwise

from ckmlir.sim import RunStatistics, Simulator

Array = np.ndarray[Any, Any]
TARGETS = ("gfx90a", "gfx942", "gfx950")


def run_elementwise(
    text: str, inputs: list[Array], dtype: Any, target: str = "gfx942", optimisation: int = 2
) -> tuple[Array, RunStatistics]:
    code_object = compile_kernel(text, target, optimisation)
    simulator = Simulator(target, branch_budget=1 << 20)
    count = len(inputs[0])
    arguments = [simulator.upload(array) for array in inputs]
    output = simulator.allocate(count * np.dtype(dtype).itemsize)
    statistics = simulator.launch(code_object, "k", (count // 64, 1, 1), (64, 1, 1), [*arguments, output])
    return output.read(dtype), statistics


def special_floats(dtype: Any, count: int, seed: int) -> Array:
    """Random bit patterns, ordinary numbers, and all pairs of edge cases in the first lanes."""
    rng = np.random.default_rng(seed)
    info = np.finfo(dtype)
    unsigned = {2: np.uint16, 4: np.uint32, 8: np.uint64}[np.dtype(dtype).itemsize]
    numbers = rng.integers(0, np.iinfo(unsigned).max, count, unsigned, endpoint=True).view(dtype)
    numbers[::2] = rng.standard_normal(len(numbers[::2])).astype(dtype)
    edges = np.array(
        [
            0,
            -0.0,
            1,
            -1,
            info.max,
            -info.max,
            info.tiny,
            info.smallest_subnormal,
            np.inf,
            -np.inf,
            np.nan,
            info.tiny * 3,
            info.max / 2,
            3,
            7,
            1 / 3,
        ],
        dtype,
    )
    numbers[:256] = np.repeat(edges, 16) if seed == 0 else np.tile(edges, 16)
    return numbers


def assert_same(got: Array, expected: Array) -> None:
    same = got.view(np.uint64 if got.dtype == np.float64 else np.uint32) == expected.view(
        np.uint64 if got.dtype == np.float64 else np.uint32
    )
    same |= np.isnan(got) & np.isnan(expected)
    wrong = np.flatnonzero(~same)
    assert not len(wrong), f"{len(wrong)} differ, first at {wrong[0]}: {got[wrong[0]]!r}, not {expected[wrong[0]]!r}"


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("type,dtype", [("float", np.float32), ("double", np.float64)])
def test_division_is_correctly_rounded(type: str, dtype: Any, target: str) -> None:
    """v_div_scale, v_rcp, v_div_fmas and v_div_fixup together."""
    x, y = special_floats(dtype, 4096, 0), special_floats(dtype, 4096, 1)
    got, _ = run_elementwise(elementwise(f"  %r = fdiv {type} %x, %y", f"{type} {type}", type), [x, y], dtype, target)
    with np.errstate(all="ignore"):
        assert_same(got, x / y)


@pytest.mark.parametrize("type,dtype", [("float", np.float32), ("double", np.float64)])
def test_square_root_is_correctly_rounded(type: str, dtype: Any) -> None:
    suffix = "f32" if dtype is np.float32 else "f64"
    x = special_floats(dtype, 2048, 0)
    declaration = f"declare {type} @llvm.sqrt.{suffix}({type})"
    got, _ = run_elementwise(
        elementwise(f"  %r = call {type} @llvm.sqrt.{suffix}({type} %x)", type, type, declaration), [x], dtype
    )
    with np.errstate(all="ignore"):
        assert_same(got, np.sqrt(x))


@pytest.mark.parametrize(
    "name,reference",
    [("exp2", np.exp2), ("log2", np.log2), ("exp", np.exp), ("log", np.log), ("sin", np.sin), ("cos", np.cos)],
)
def test_compiled_transcendental_functions(name: str, reference: Any) -> None:
    rng = np.random.default_rng(4)
    x = (rng.standard_normal(4096) * 8).astype(np.float32)
    x = np.abs(x) if name.startswith("log") else x
    declaration = f"declare float @llvm.{name}.f32(float)"
    flags = "afn " if name in ("sin", "cos") else ""
    got, _ = run_elementwise(
        elementwise(f"  %r = call {flags}float @llvm.{name}.f32(float %x)", "float", "float", declaration),
        [x],
        np.float32,
    )
    tolerance = {"sin": (1e-5, 2e-6), "cos": (1e-5, 2e-6)}.get(name, (3e-7, 2e-7))
    np.testing.assert_allclose(got, reference(x.astype(np.float64)), *tolerance)


@pytest.mark.parametrize(
    "operation,dtype",
    [
        ("sdiv", np.int32),
        ("udiv", np.uint32),
        ("srem", np.int32),
        ("urem", np.uint32),
        ("sdiv", np.int64),
        ("urem", np.uint64),
        ("mul", np.int64),
    ],
)
@pytest.mark.parametrize("target", ["gfx90a", "gfx942"])
def test_integer_arithmetic(operation: str, dtype: Any, target: str) -> None:
    rng = np.random.default_rng(6)
    info = np.iinfo(dtype)
    x = rng.integers(info.min, info.max, 2048, dtype, endpoint=True)
    y = rng.integers(info.min, info.max, 2048, dtype, endpoint=True) >> rng.integers(0, info.bits - 1, 2048).astype(
        dtype
    )
    y[y == 0] = 3
    type = f"i{info.bits}"
    got, _ = run_elementwise(
        elementwise(f"  %r = {operation} {type} %x, %y", f"{type} {type}", type), [x, y], dtype, target
    )
    p, q = x.astype(object), y.astype(object)
    quotient = abs(p) // abs(q) * np.where((x < 0) != (y < 0), -1, 1) if operation[1:] != "mul" else None
    expected = {
        "sdiv": lambda: quotient,
        "udiv": lambda: p // q,
        "srem": lambda: p - quotient * q,
        "urem": lambda: p % q,
        "mul": lambda: p * q,
    }[operation]()
    wrapped = np.array([int(number) & (1 << info.bits) - 1 for number in expected], np.uint64)
    np.testing.assert_array_equal(got.astype(np.uint64) & np.uint64((1 << info.bits) - 1), wrapped)


@pytest.mark.parametrize("optimisation", [0, 2])
@pytest.mark.parametrize("target", TARGETS)
def test_divergent_loop_with_a_stack_and_a_call(target: str, optimisation: int) -> None:
    """The Collatz length by a function that is not inlined, with its counter in private memory (scratch, flat or
    buffer)."""
    text = """
define internal i32 @collatz(i32 %start) noinline {
entry:
  %steps = alloca i32, addrspace(5)
  store i32 0, ptr addrspace(5) %steps
  br label %head
head:
  %n = phi i32 [ %start, %entry ], [ %next, %body ]
  %done = icmp ule i32 %n, 1
  br i1 %done, label %exit, label %body
body:
  %half = lshr i32 %n, 1
  %odd = and i32 %n, 1
  %is_odd = icmp ne i32 %odd, 0
  %triple = mul i32 %n, 3
  %up = add i32 %triple, 1
  %next = select i1 %is_odd, i32 %up, i32 %half
  %old = load volatile i32, ptr addrspace(5) %steps
  %new = add i32 %old, 1
  store volatile i32 %new, ptr addrspace(5) %steps
  br label %head
exit:
  %result = load volatile i32, ptr addrspace(5) %steps
  ret i32 %result
}
""" + elementwise("  %r = call i32 @collatz(i32 %x)", "i32", "i32")
    numbers = np.arange(1, 257, dtype=np.int32)

    def length(n: int) -> int:
        steps = 0
        while n > 1:
            n, steps = (3 * n + 1 if n % 2 else n // 2), steps + 1
        return steps

    got, _ = run_elementwise(text, [numbers], np.int32, target, optimisation)
    np.testing.assert_array_equal(got, [length(int(n)) for n in numbers])


def test_indirect_call_through_a_flat_pointer_to_private_memory() -> None:
    text = """
define internal void @bump(ptr %p) noinline {
  %v = load i32, ptr %p
  %w = add i32 %v, 5
  store i32 %w, ptr %p
  ret void
}
""" + elementwise(
        """  %slot = alloca i32, addrspace(5)
  store i32 %x, ptr addrspace(5) %slot
  %flat = addrspacecast ptr addrspace(5) %slot to ptr
  call void @bump(ptr %flat)
  %r = load i32, ptr addrspace(5) %slot""",
        "i32",
        "i32",
    )
    numbers = np.arange(128, dtype=np.int32)
    for target in TARGETS:
        got, _ = run_elementwise(text, [numbers], np.int32, target, 0)
        np.testing.assert_array_equal(got, numbers + 5)


REDUCTION = """
@shared = internal addrspace(3) global [256 x i32] undef
define amdgpu_kernel void @reduce(ptr addrspace(1) %in, ptr addrspace(1) %out) #0 {
entry:
  %tid = call i32 @llvm.amdgcn.workitem.id.x()
  %wg = call i32 @llvm.amdgcn.workgroup.id.x()
  %base = mul i32 %wg, 256
  %id = add i32 %base, %tid
  %ia = getelementptr i32, ptr addrspace(1) %in, i32 %id
  %x = load i32, ptr addrspace(1) %ia
  %mine = getelementptr [256 x i32], ptr addrspace(3) @shared, i32 0, i32 %tid
  store i32 %x, ptr addrspace(3) %mine
  br label %loop
loop:
  %stride = phi i32 [ 128, %entry ], [ %half, %next ]
  fence syncscope("workgroup") release
  BARRIER
  fence syncscope("workgroup") acquire
  %in_range = icmp ult i32 %tid, %stride
  br i1 %in_range, label %add, label %next
add:
  %other_id = add i32 %tid, %stride
  %theirs = getelementptr [256 x i32], ptr addrspace(3) @shared, i32 0, i32 %other_id
  %p = load i32, ptr addrspace(3) %mine
  %q = load i32, ptr addrspace(3) %theirs
  %s = add i32 %p, %q
  store i32 %s, ptr addrspace(3) %mine
  br label %next
next:
  %half = lshr i32 %stride, 1
  %more = icmp ne i32 %half, 0
  br i1 %more, label %loop, label %finish
finish:
  %first = icmp eq i32 %tid, 0
  br i1 %first, label %write, label %end
write:
  %total = load i32, ptr addrspace(3) %mine
  %o = getelementptr i32, ptr addrspace(1) %out, i32 %wg
  store i32 %total, ptr addrspace(1) %o
  br label %end
end:
  ret void
}
attributes #0 = { "amdgpu-flat-work-group-size"="256,256" }
"""


def reduce(text: str, seed: int) -> tuple[Array, Array, RunStatistics]:
    simulator = Simulator(seed=seed)
    data = np.random.default_rng(1).integers(0, 1000, 1024).astype(np.int32)
    source, sums = simulator.upload(data), simulator.allocate(16)
    statistics = simulator.launch(compile_kernel(text), "reduce", (4, 1, 1), (256, 1, 1), [source, sums])
    return sums.read(np.int32), data.reshape(4, 256).sum(axis=1), statistics


def test_lds_reduction_with_barriers_in_any_order_of_waves() -> None:
    text = REDUCTION.replace("BARRIER", "call void @llvm.amdgcn.s.barrier()")
    for seed in range(4):
        got, expected, statistics = reduce(text, seed)
        np.testing.assert_array_equal(got, expected)
    assert statistics.workgroups == 4
    assert statistics.categories["barrier"] == 4 * 4 * 8
    assert statistics.bytes_read >= 4096 and statistics.bytes_written == 16
    assert statistics.lds_bytes_written == 4 * 4 * (256 + 255)
    assert statistics.wave_instructions == sum(statistics.categories.values()) == sum(statistics.profile.values())


def test_a_missing_barrier_shows_through_the_order_of_waves_and_poison() -> None:
    wrong = [not np.array_equal(*reduce(REDUCTION.replace("BARRIER", ""), seed)[:2]) for seed in range(4)]
    assert any(wrong)


def test_atomics_from_all_workgroups() -> None:
    text = elementwise(
        '  %r = atomicrmw add ptr addrspace(1) %yp, i32 %x syncscope("agent") monotonic', "i32 i32", "i32"
    )
    numbers = np.arange(640, dtype=np.int32)
    counter = np.zeros(640, np.int32)
    code_object = compile_kernel(text)
    simulator = Simulator()
    x, total, before = simulator.upload(numbers), simulator.upload(counter), simulator.allocate(numbers.nbytes)
    simulator.launch(code_object, "k", (10, 1, 1), (64, 1, 1), [x, total, before])
    assert total.read(np.int32)[0] == numbers.sum()
    assert len(set(before.read(np.int32).tolist())) == 639  # partial sums; adding 0 repeats one


def test_workgroup_and_workitem_numbers() -> None:
    text = """
define amdgpu_kernel void @k(ptr addrspace(1) %out, i32 %columns) #0 {
  %tx = call i32 @llvm.amdgcn.workitem.id.x()
  %ty = call i32 @llvm.amdgcn.workitem.id.y()
  %gx = call i32 @llvm.amdgcn.workgroup.id.x()
  %gy = call i32 @llvm.amdgcn.workgroup.id.y()
  %gz = call i32 @llvm.amdgcn.workgroup.id.z()
  %a = mul i32 %gy, 3
  %row0 = add i32 %a, %ty
  %c = mul i32 %gx, 40
  %column = add i32 %c, %tx
  %d = mul i32 %gz, 6
  %row = add i32 %row0, %d
  %e = mul i32 %row, %columns
  %index = add i32 %e, %column
  %p = getelementptr i32, ptr addrspace(1) %out, i32 %index
  store i32 %index, ptr addrspace(1) %p
  ret void
}
attributes #0 = { "amdgpu-flat-work-group-size"="120,120" }
"""
    for target in TARGETS:
        simulator = Simulator(target, branch_budget=1 << 20)
        out = simulator.allocate(12 * 80 * 4)
        simulator.launch(compile_kernel(text, target), "k", (2, 2, 2), (40, 3, 1), [out, np.int32(80)])
        np.testing.assert_array_equal(out.read(np.int32), np.arange(12 * 80))


def test_kernel_argument_preload() -> None:
    """`inreg` arguments come in user SGPRs, and execution starts behind the code that would load them."""
    plain = "(ptr addrspace(1) %xp, ptr addrspace(1) %out)"
    text = elementwise("  %r = add i32 %x, 1", "i32", "i32").replace(plain, plain.replace("(1)", "(1) inreg"))
    code_object = compile_kernel(text)
    assert code_object.kernel("k").descriptor.kernarg_preload_length >= 4
    numbers = np.arange(128, dtype=np.int32)
    got, _ = run_elementwise(text, [numbers], np.int32)
    np.testing.assert_array_equal(got, numbers + 1)
