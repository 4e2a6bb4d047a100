"""gemm_multi_abd, flatmm and shuffle_b through their real code objects, against their references.

A case names the chip first, so that `-k gfx950` selects.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from operator_runner import agree

from ckmlir.compiler import compile_kernel
from ckmlir.ops import find_operator
from ckmlir.ops.comparison import compare
from ckmlir.ops.contraction.contraction_spec import ContractionSpec
from ckmlir.ops.contraction.shuffle import shuffle_b, unshuffle_b
from ckmlir.ops.dtypes import numpy_dtype
from ckmlir.ops.request import RequestError
from ckmlir.runtime import open_device
from ckmlir.runtime.run import check_outputs, run_operator
from ckmlir.scheduling.machine_loop import steady_loop
from ckmlir.targets import all_targets, get_target

ABD = find_operator("gemm_multi_abd")
SMALL = {"m": 67, "n": 70, "k": 71}
NUMBERED = "a0 * 1.5 + a1 * 2.5 - a2 * 3.25 + a3 * 0.125 - 1.75"
COMBINED: tuple[tuple[str, dict[str, Any]], ...] = (
    ("gfx942", {"m": 128, "n": 128, "k": 64}),
    ("gfx90a", {"layout": "RRR", "a_op": "relu(a0) + a1", "a_kind": "full,scalar", "b_op": "b0", "dtype": "bf16"}),
    (
        "gfx950",
        {"layout": "CRR", "a_op": "(a0 + a1 * 2) / (a2 * a2 + 1)", "a_types": "f32,f16,bf16", "a_kind": "full,k,m"},
    ),
    ("gfx942", {"a_op": "silu(a0) * a1", "b_layout": "C,R", "dtype": "fp8", "lda": "80x90"}),
    ("gfx950", {"a_op": "a0 * a1 + 1", "b_op": "b0 / b1", "b_kind": "full,n", "dtype": "f64", "op": "acc + d0"}),
    ("gfx942", {"a_op": "a0 * a1", "a_types": "i8,i32", "dtype": "i8", "op": "acc * alpha", "alpha": 0.5}),
    ("gfx90a", {"m": 20, "k": 700, "split_k": 3, "b_op": "b0 * b1 * b2 + b3", "b_kind": "k,full,n,scalar"}),
    ("gfx942", {"m": 1, "n": 1, "k": 1, "dtype": "xf32"}),
    ("gfx950", {"m": 5, "k": 0}),
)


@pytest.mark.one_in(8)
@pytest.mark.parametrize(("chip", "keys"), COMBINED)
def test_combined_operands(chip: str, keys: dict[str, Any]) -> None:
    """Types, kinds, layouts and strides of the arrays that A and B are made of. What is beyond k counts as zero, also
    where the expression of nothing is something."""
    agree("gemm_multi_abd", chip, **{**SMALL, **keys})


@pytest.mark.parametrize(
    "chip", ["gfx90a", *(pytest.param(chip, marks=pytest.mark.full) for chip in ("gfx942", "gfx950"))]
)
def test_checkers_find_nothing(chip: str) -> None:
    """Under all checkers of the simulator."""
    target = get_target(chip)
    problem = ABD.problem(**SMALL, a_op="a0 + a1", a_kind="full,k")
    arrays = ABD.inputs(problem, target)
    result = run_operator(ABD, problem, arrays, target, open_device("sim", target, checks="all"))
    assert all(one.ok for one in check_outputs(ABD, problem, arrays, result.outputs, target))


def test_the_reference_against_a_loop() -> None:
    """By brute force, and what is in LDS is rounded."""
    target = get_target("gfx942")
    problem = ABD.problem(
        m=4, n=5, k=6, a_op="a0 * a1 + a2", a_kind="full,m,k", a_layout="C,R,R", b_op="b0 * b1", b_kind="full,n",
        op="acc + d0", layout="RRR",
    )  # fmt: skip
    arrays = ABD.inputs(problem, target)
    wide = {name: array.astype(np.float64) for name, array in arrays.items()}
    assert [wide[name].shape for name in ("a0", "a1", "a2", "b0", "b1")] == [(6, 4), (4,), (6,), (6, 5), (5,)]
    a = np.array([[wide["a0"][k, m] * wide["a1"][m] + wide["a2"][k] for k in range(6)] for m in range(4)])
    b = np.array([[wide["b0"][k, n] * wide["b1"][n] for n in range(5)] for k in range(6)])
    np.testing.assert_allclose(ABD.reference(problem, arrays)["c"], a @ b + wide["d0"], rtol=1e-12)
    a, b = (values.astype(np.float16).astype(np.float64) for values in (a, b))
    np.testing.assert_allclose(ABD.expected(problem, arrays, target)["c"], a @ b + wide["d0"], rtol=1e-12)


def test_tolerances_do_not_pass_another_rounding() -> None:
    """Operands that are not rounded, or rounded toward zero, are out of tolerance."""
    target = get_target("gfx942")
    problem = ABD.problem(m=64, n=64, k=64, out="f32", op="acc")
    arrays = ABD.inputs(problem, target)
    reference = ABD.expected(problem, arrays, target)["c"]
    tolerance = ABD.tolerances(problem, arrays, {"c": reference}, target)["c"]
    assert compare("c", reference.astype(np.float32), reference, tolerance).ok
    exact = ABD.reference(problem, arrays)["c"]
    assert not compare("c", exact.astype(np.float32), reference, tolerance).ok


@pytest.mark.one_in(3)
@pytest.mark.parametrize("target", all_targets(), ids=str)
def test_default_kernels_do_not_spill(target: Any) -> None:
    """The largest listed kernels; the loads of both operands are full vectors."""
    spec = ABD.kernels(target)[1]
    kernel = compile_kernel(ABD, spec, target)
    metadata = kernel.code_object.kernel(kernel.kernel_name).metadata
    assert (metadata.vgpr_spill_count, metadata.sgpr_spill_count, metadata.private_segment_size) == (0, 0, 0)
    loop = steady_loop(kernel.code_object, kernel.kernel_name)
    assert {one.mnemonic for one in loop.instructions if "load" in one.mnemonic} == {"buffer_load_dwordx4"}


@pytest.mark.one_in(10)
@pytest.mark.parametrize(("chip", "keys"), [
    ("gfx942", {"a_op": "silu(a0)", "b_op": "b0"}),  # groups of waves that take turns load a step at once
    ("gfx942", {"a_op": "+".join(["a0"] * 300), "b_op": "b0"}),
    ("gfx950", {"a_op": "+".join(["a0"] * 9), "b_op": "b0", "dtype": "i8", "out": "f16", "op": "acc"}),
    ("gfx90a", {"a_op": "a0 * a1 + a2", "b_op": "b0 * b1 + b2", "dtype": "i8", "out": "f16", "op": "acc", "k": 333}),
    ("gfx942", {"a_op": "a0 * a1 + a2", "dtype": "i8", "out": "f16", "op": "acc", "layout": "CRR", "k": 333}),
    ("gfx950", {"a_op": "a0 + a1 + a2 + a3", "b_op": "b0 + b1 + b2 + b3", "dtype": "fp8", "layout": "CRR", "k": 333}),
    ("gfx90a", {"a_op": "a0 * a1 + a2 * a3", "b_op": "b0 * b1 + b2 * b3", "layout": "CRR", "n": 511, "k": 511}),
    ("gfx950", {"a_op": "a0 * a1 + a2 * a3", "b_op": "b0 * b1 + b2 * b3", "dtype": "bf16", "layout": "CCR", "k": 508}),
    ("gfx942", {"a_op": "a0 * a1 + a2 * a3", "b_op": "b0 * b1 + b2 * b3", "dtype": "bf16", "layout": "RRR", "m": 508,
                "n": 508, "k": 508}),
    ("gfx90a", {"a_op": NUMBERED, "b_op": "b0 * b1 + b2 * b3", "dtype": "f32", "layout": "CRR", "k": 508}),
    ("gfx950", {"a_op": NUMBERED, "b_op": "b0 + b1 + b2 + b3", "dtype": "f32", "layout": "CCR"}),
    # A number for each k beside single elements across K: each load of both has a distance in a scalar register.
    ("gfx942", {"b_op": "b0 + b1 + b2", "b_kind": "full,n,k", "dtype": "i8", "layout": "RRR", "n": 511, "k": 511}),
    ("gfx942", {"a_op": NUMBERED, "a_kind": "full,m,k,scalar", "b_op": "b0 * b1", "b_kind": "full,k", "dtype": "f32",
                "layout": "CRR", "m": 511, "n": 511, "k": 511}),
    ("gfx942", {"a_op": "a0 * a1 * a2 * a3", "b_op": "b0 * b1 * b2 * b3", "dtype": "bf16", "layout": "RRR", "k": 508}),
    ("gfx90a", {"a_op": "a0 + a1 + a2", "b_op": "b0 + b1 + b2", "a_layout": "R,C,C", "layout": "RRR",
                "m": 1000, "n": 488}),
    # Single elements of a matrix that lies otherwise than the others.
    ("gfx950", {"a_op": "a0 * a1 * a2 * a3", "b_op": "b0 + b1 + b2 + b3", "a_layout": "C,C,R,C", "b_layout": "R,C,C,R",
                "dtype": "bf16", "k": 504}),
    ("gfx950", {"a_op": "a0 + a1 + a2 + a3", "a_kind": "full,m,scalar,full", "a_types": "f32,fp8,bf16,f32",
                "a_layout": "C,R,C,R", "b_op": "b0 + b1 + b2 + b3", "b_layout": "C,C,R,R", "dtype": "fp8", "m": 488}),
    ("gfx90a", {"a_op": "a0 + a1 + a2", "a_kind": "full,k,scalar", "b_op": "b0 + b1 + b2", "b_kind": "full,n,k",
                "dtype": "i8", "layout": "CRR", "m": 511, "n": 511, "k": 511}),
    # The first array lies otherwise than most.
    ("gfx942", {"a_op": "a0 * a1 * a2 * a3", "b_op": "b0 + b1 + b2", "b_layout": "C,R,R", "dtype": "bf8",
                "layout": "CRR", "k": 1016}),
    # A number for each row beside single bytes, each of which is of another row.
    ("gfx942", {"b_op": "b0 + b1 + b2", "b_kind": "full,n,k", "dtype": "i8", "layout": "CCR", "k": 333}),
    # Single bytes of many arrays.
    ("gfx942", {"a_op": "a0 + a1 + a2", "a_layout": "R,R,C", "b_op": "b0 * b1 * b2", "dtype": "bf8", "layout": "RRR",
                "m": 1023, "n": 1016, "k": 513}),
    ("gfx950", {"a_op": "a0 + a1 + a2 + a3", "a_layout": "R,R,C,C", "b_op": "sigmoid(b0 + b1 + b2 + b3)", "m": 500,
                "n": 1000, "k": 333}),
])  # fmt: skip
def test_what_is_computed_on_its_way_leaves_registers_by_default(chip: str, keys: dict[str, Any]) -> None:
    """Blocks and schedules count with elements as they are computed, and there is a block for each request. Where the
    loop reads six to eight arrays, arguments are read again around it.
    """
    target = get_target(chip)
    spec = ABD.spec(ABD.problem(**{"m": 4096, "n": 4096, "k": 512, **keys}), target)
    kernel = compile_kernel(ABD, spec, target)
    metadata = kernel.code_object.kernel(kernel.kernel_name).metadata
    assert (metadata.vgpr_spill_count, metadata.sgpr_spill_count, metadata.private_segment_size) == (0, 0, 0)


@pytest.mark.parametrize(("keys", "layout"), [
    ({"a_layout": "C,R,R"}, "RRR"),
    ({"a_layout": "C,C,R", "b_layout": "C,R,C"}, "CCR"),
    ({"a_layout": "C,R,R", "a_kind": "full,full,m"}, "CRR"),  # as many lie either way: A's of layout
    ({"b_layout": "C,R,R", "b_kind": "full,n,k"}, "CCR"),
])  # fmt: skip
def test_operands_are_loaded_as_most_of_their_matrices_lie(keys: dict[str, str], layout: str) -> None:
    """Whichever comes first: the others are loaded one by one, which blocks count with."""
    target = get_target("gfx942")
    plain = {"m": 256, "n": 256, "k": 128, "layout": "CRR", "a_op": "a0 + a1 + a2", "b_op": "b0 + b1 + b2"}
    spec = ABD.spec(ABD.problem(**{**plain, **keys}), target)
    assert isinstance(spec, ContractionSpec) and spec.layout == layout
    kernel = compile_kernel(ABD, spec, target)
    loop = steady_loop(kernel.code_object, kernel.kernel_name)
    counts = Counter(one.mnemonic for one in loop.instructions)
    assert counts["buffer_load_dwordx4"] and counts["buffer_load_ushort"] < counts.total() / 4  # of one matrix at most


EITHER = {"a_op": "a0 + a1", "b_op": "b0 + b1", "a_layout": "R,C", "b_layout": "C,R", "m": 4096, "n": 4096, "k": 1024}
SEVEN = {"a_op": "a0 + a1 + a2", "a_types": "f32,bf16,f16", "a_layout": "R,C,C", "b_layout": None,
         "b_op": "b0 + b1 + b2 + b3", "b_types": "f32,f16,f32,bf16", "dtype": "bf16"}  # fmt: skip
THREE = {"a_op": "a0 + a1 + a2", "a_types": "f32,fp8,bf16", "b_op": "b0 + b1 + b2", "b_types": "f32,fp8,bf16"}


@pytest.mark.parametrize(("chip", "keys", "block"), [
    ("gfx942", {**EITHER, "dtype": "fp8"}, (128, 128, 64)),
    ("gfx950", EITHER, (128, 128, 32)),
    # Counted as full vectors, these had room in 128 x 128, and spilled.
    ("gfx950", {**THREE, "a_layout": "R,C,R", "b_layout": "C,R,C", "m": 488, "n": 1000, "k": 488, "dtype": "fp8"},
     (64, 64, 128)),
    # Of seven arrays one such operand of 16 bits is enough, of six it is not.
    ("gfx942", {**EITHER, **SEVEN}, (128, 128, 32)),
    ("gfx942", {**EITHER, **SEVEN, "b_op": "b0 + b1 + b2", "b_types": "f32,f16,f32"}, (128, 128, 64)),
])  # fmt: skip
def test_single_elements_of_matrices_that_lie_otherwise_take_registers(
    chip: str, keys: dict[str, Any], block: tuple[int, int, int]
) -> None:
    """Many of them leave 128 x 128 room for half a step: by the model f16 takes .62 of the cycles on gfx950 so, and fp8
    of four and three arrays on gfx942 .58 of those by 64 x 64."""
    target = get_target(chip)
    assert ABD.spec(ABD.problem(**keys), target).block == block


@pytest.mark.parametrize(("keys", "block"), [
    ({"m": 1024, "n": 1032, "k": 1012, "layout": "CCR"}, (64, 64, 128)),
    ({"m": 2048, "n": 2036, "k": 1000}, (128, 128, 64)),  # blocks of 128 x 128 for more than half of the compute units
    ({"m": 1024, "n": 1032, "k": 1012, "b_op": "b0 + b1 - b2", "b_types": "f16,f32,fp8"}, (128, 128, 128)),
])  # fmt: skip
def test_temporaries_of_many_arrays_count(keys: dict[str, Any], block: tuple[int, int, int]) -> None:
    """Of four arrays of B, along K, 91 registers were in scratch memory in blocks of 128 x 128 x 128."""
    given = {"dtype": "fp8", "a_op": "a0", "b_op": "b0 + b1 - b2 + b3", "b_types": "f16,f32,f32,fp8", "op": "acc"}
    target = get_target("gfx950")
    assert ABD.spec(ABD.problem(**{**given, **keys}), target).block == block


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("chip", "size", "block"), [
    ("gfx90a", 1024, (128, 128, 32)), ("gfx942", 2048, (128, 128, 32)), ("gfx942", 1024, (64, 64, 64)),
])  # fmt: skip
def test_half_a_step_comes_before_a_smaller_block(chip: str, size: int, block: tuple[int, int, int]) -> None:
    """Where registers have no room for a whole step of 128 x 128: .6 of the cycles of 64 x 64, by the model, if there
    are blocks for more than half of the compute units. Nothing is spilled."""
    target = get_target(chip)
    keys = {"m": size, "n": size, "k": 512, "layout": "RRR", "a_op": "a0 * a1 + a2 - a3", "a_types": "f32,f32,f32,f32",
            "b_op": "b0 + b1 + b2 + b3", "b_types": "f32,f32,f32,f32"}  # fmt: skip
    spec = ABD.spec(ABD.problem(**keys), target)
    assert spec.block == block
    kernel = compile_kernel(ABD, spec, target)
    metadata = kernel.code_object.kernel(kernel.kernel_name).metadata
    assert (metadata.vgpr_spill_count, metadata.sgpr_spill_count) == (0, 0)


@pytest.mark.one_in(8)
@pytest.mark.parametrize(("chip", "keys", "depth"), [
    ("gfx90a", {}, 64), ("gfx942", {}, 64), ("gfx942", {"a_op": "gelu(a0)", "b_op": "b0", "dtype": "fp8"}, 64),
    ("gfx942", {"a_op": "a0 + a1 + a2", "b_op": "b0 + b1 + b2"}, 64), ("gfx942", {"k": 1016}, 64),
    ("gfx950", {}, 128), ("gfx942", {"layout": "RRR"}, 128), ("gfx942", {"layout": "CRR"}, 128),
])  # fmt: skip
def test_one_workgroup_computes_bytes_while_another_multiplies(chip: str, keys: dict[str, Any], depth: int) -> None:
    """Half a step in blocks of 128 x 128 leaves LDS of gfx90a and gfx942 two workgroups; not where that is read across
    K. Nothing is spilled."""
    given = {"m": 4096, "n": 4096, "k": 1024, "dtype": "i8", "op": "acc", "a_op": "a0 + a1", "b_op": "b0 + b1"}
    target = get_target(chip)
    spec = ABD.spec(ABD.problem(**given | keys), target)
    assert spec.block == (128, 128, depth)
    if depth == 64:
        kernel = compile_kernel(ABD, spec, target)
        found = kernel.code_object.kernel(kernel.kernel_name).metadata
        assert (found.vgpr_spill_count, found.sgpr_spill_count, found.private_segment_size) == (0, 0, 0)
        assert found.vgpr_count <= 256 and 2 * found.group_segment_size <= target.lds_bytes


@pytest.mark.one_in(2)
@pytest.mark.parametrize("target", all_targets(), ids=str)
def test_integers_of_a_byte_are_taken_out_of_words(target: Any) -> None:
    """The loop has 6 1/4 vector instructions for each element of A and B that two arrays make: one to convert either,
    one to add two pairs, three to round, convert and limit, three to put four bytes together. None compares.
    """
    problem = ABD.problem(m=4096, n=4096, k=1024, dtype="i8", op="acc", a_op="a0 + a1", b_op="b0 + b1")
    spec = ABD.spec(problem, target)
    kernel = compile_kernel(ABD, spec, target)
    elements = 2 * (spec.block[0] + spec.block[1]) * spec.block[2] // (spec.wave_count * target.wave_size)  # two steps
    loop = steady_loop(kernel.code_object, kernel.kernel_name)
    assert loop.mix["valu"] <= 6.25 * elements


@pytest.mark.parametrize(("keys", "words"), [
    ({"a_op": "a1"}, "a_op=a1: it does not name a0; number arrays from a0 on"),
    ({"a_op": "2"}, "a_op=2: it does not name a0"),
    ({"a_kind": "k,m"}, "a_kind: no array of A is a matrix; expected one that is full"),
    ({"a_types": "f16"}, "a_types: 1 arrays are described, a_op=a0 . a1 names 2"),
    ({"lda": "7x0"}, "lda=7: rows of a0 have 512 elements; expected at least that, or 0"),
    ({"a_types": "f64,f64"}, "a0 is f64, and a_op is computed in f32; expected f32"),
    ({"dtype": "f64", "a_op": "exp(a0)", "op": "acc"}, "exp is computed in f32 only"),
    ({"schedule": "async"}, "arrays are combined in registers, and this schedule goes past them"),
    ({"schedule": "preshuffle"}, "arrays are combined in registers, and this schedule goes past them"),
])  # fmt: skip
def test_requests_that_are_refused(keys: dict[str, Any], words: str) -> None:
    """Each is one line that says what is wrong."""
    target = get_target("gfx942")
    with pytest.raises(RequestError, match=words):
        problem = ABD.problem(**keys)
        reasons = ABD.validate(ABD.spec(problem, target), target)
        if reasons:
            raise RequestError(str(reasons[0]))


SHUFFLED = (
    ("gfx942", {"n": 128, "k": 256}),
    ("gfx90a", {"n": 131, "k": 71, "layout": "R", "columns": 16}),
    ("gfx950", {"n": 70, "k": 300, "dtype": "fp8", "ldb": 320}),
    ("gfx942", {"n": 1, "k": 1, "dtype": "f64"}),
    ("gfx942", {"n": 33, "k": 65, "dtype": "bf8", "layout": "R", "ldb": 47}),
    ("gfx950", {"n": 0, "k": 5}),
)


@pytest.mark.parametrize(("chip", "keys"), SHUFFLED)
def test_shuffles(chip: str, keys: dict[str, Any]) -> None:
    """The operator gives what the NumPy function gives."""
    agree("shuffle_b", chip, **keys)


FLAT: tuple[tuple[str, dict[str, Any]], ...] = (
    ("gfx942", {"layout": "CCR", "dtype": "fp8", "op": "gelu(acc + d0)", "columns": "16"}),
    ("gfx950", {"m": 7, "k": 1271, "dtype": "bf8", "split_k": 2}),
    ("gfx90a", {"dtype": "bf16", "mfma": "16x16x16"}),
    ("gfx942", {"schedule": "straight", "m": 130}),
)


@pytest.mark.one_in(3)
@pytest.mark.parametrize(("chip", "keys"), FLAT)
def test_flatmm(chip: str, keys: dict[str, Any]) -> None:
    """B in fragment order, with epilogues and parts of the sums."""
    agree("flatmm", chip, **{**SMALL, **keys})


def test_shuffled_on_the_device_then_multiplied() -> None:
    """What `shuffle_b` writes is what `flatmm` takes."""
    target, device = get_target("gfx942"), open_device("sim", get_target("gfx942"))
    shuffle, flat = find_operator("shuffle_b"), find_operator("flatmm")
    random = np.random.default_rng(1)
    b = random.standard_normal((40, 36)).astype(numpy_dtype("f16", target))
    order = shuffle.problem(n=40, k=36)
    shuffled = run_operator(shuffle, order, {"b": b}, target, device).outputs["shuffled"]
    np.testing.assert_array_equal(shuffled, shuffle_b(b))
    np.testing.assert_array_equal(unshuffle_b(shuffled, 40, 36), b)
    a = random.standard_normal((33, 36)).astype(b.dtype)
    c = run_operator(flat, flat.problem(m=33, n=40, k=36), {"a": a, "b": shuffled}, target, device).outputs["c"]
    np.testing.assert_allclose(c.astype(np.float64), a.astype(np.float64) @ b.astype(np.float64).T, atol=2e-2)


def test_flatmm_takes_no_plain_matrix() -> None:
    """Layouts with B across k, and other schedules."""
    for keys in ({"layout": "RRR"}, {"schedule": "compv4"}, {"columns": "8"}):
        with pytest.raises(RequestError):
            find_operator("flatmm").problem(**keys)
    with pytest.raises(RequestError, match="columns=8: expected 16 or 32"):
        find_operator("shuffle_b").problem(columns=8)


def test_what_fills_tiles_up_has_to_be_numbers() -> None:
    """Nothing is promised of columns whose tiles have none beyond k; all others are compared."""
    flat, target = find_operator("flatmm"), get_target("gfx942")
    for op in (None, "relu(acc)"):
        problem = flat.problem(m=8, n=40, k=5, op=op)
        arrays = flat.inputs(problem, target)
        tiles = arrays["b"].reshape(2, -1)
        tiles[0, 3 * 8 + 5] = np.nan  # column 3, element 5 along k
        result = run_operator(flat, problem, arrays, target, open_device("sim", target))
        comparison = check_outputs(flat, problem, arrays, result.outputs, target)[0]
        assert (comparison.ok, comparison.unspecified) == (True, 8)
