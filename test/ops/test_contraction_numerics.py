"""Products with epilogues, gated and batched ones, through their real code objects, against their references.

A case names the chip first, so that `-k gfx950` selects.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from operator_runner import CHIPS, agree

from ckmlir.compiler import compile_kernel
from ckmlir.ops import find_operator
from ckmlir.ops.comparison import compare
from ckmlir.ops.contraction.side import KINDS
from ckmlir.ops.request import RequestError
from ckmlir.runtime import open_device
from ckmlir.runtime.run import check_outputs, run_operator
from ckmlir.targets import get_target

GEMM = find_operator("gemm")
OPERATIONS = (
    "relu(acc)", "gelu(acc)", "gelu_tanh(acc)", "silu(acc)", "sigmoid(acc)", "tanh(acc)", "clamp(acc, -1, 2)",
    "alpha * acc + beta * d0", "acc * d0 + d1", "gelu(acc + d0) + d1", "acc + d0 * d1 - d2 * d3",
)  # fmt: skip
SIZES = {"fits": (128, 128, 64), "one": (1, 1, 1), "primes": (131, 67, 71), "below": (127, 257, 63)}


def epilogue_cases() -> list[tuple[str, str, str, str]]:
    """Each expression at one size, types and chips in turn; each size on each chip."""
    cases = []
    for number, op in enumerate(OPERATIONS):
        chip, dtype = CHIPS[number % 3], ("f16", "bf16")[number % 2]
        cases.append((chip, dtype, op, list(SIZES)[number % 4]))
    cases += [(chip, "f16", "gelu(acc + d0) + d1", size) for chip, size in itertools.product(CHIPS, SIZES)]
    return cases


@pytest.mark.one_in(16)
@pytest.mark.parametrize(("chip", "dtype", "op", "size"), epilogue_cases())
def test_epilogues(chip: str, dtype: str, op: str, size: str) -> None:
    """The value of an expression, within a bound that follows from its arithmetic."""
    m, n, k = SIZES[size]
    numbers = {"alpha": 0.5, "beta": -2.0} if "alpha" in op else {}
    agree("gemm", chip, m=m, n=n, k=k, dtype=dtype, op=op, **numbers)


@pytest.mark.one_in(6)
@pytest.mark.parametrize(
    "chip", [pytest.param(chip, marks=() if chip == "gfx942" else pytest.mark.full) for chip in CHIPS]
)
@pytest.mark.parametrize("kind", KINDS)
def test_side_tensors_of_every_kind(chip: str, kind: str) -> None:
    """A matrix with gaps between its rows, a row, a strided column, one number; each of a type of its own."""
    m, n, k = 100, 72, 40
    pitch = {"full": 83, "column": 3}.get(kind, 0)
    for dtype in ("f32", "f16", "i8", "i32") + (("fp8",) if chip != "gfx90a" else ()):
        agree("gemm", chip, m=m, n=n, k=k, op="acc * 0.5 + d0", d=[dtype], d_kind=[kind], ldd=[pitch])


@pytest.mark.one_in(4)
@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize(("m", "n"), [(128, 64), (70, 16), (130, 96)])
def test_slices_behind_the_last_column_write_nothing(chip: str, m: int, n: int) -> None:
    """C's rows are whole slices of 16 columns, and no whole blocks: nothing gets into the next row, which begins there.
    """
    plan = {"block": "128x80x16", "wave": "4x1", "schedule": "compv3"}
    agree("gemm", chip, m=m, n=n, k=16, op="acc + d0", out="i8", **plan)


@pytest.mark.one_in(32)
@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("out", ["f16", "bf16", "f32", "fp8", "bf8", "i8"])
@pytest.mark.parametrize("dtype", ["f16", "i8"])
def test_outputs_are_rounded_and_saturate(chip: str, out: str, dtype: str) -> None:
    """Values far beyond the range of narrow types: the largest numbers there, no infinities."""
    if out in ("fp8", "bf8") and chip == "gfx90a":
        with pytest.raises(RequestError):
            agree("gemm", chip, m=64, n=64, k=64, dtype=dtype, out=out, op="acc * alpha")
        return
    agree("gemm", chip, m=70, n=66, k=96, dtype=dtype, out=out, op="acc * alpha", alpha=4096.0 if dtype == "f16" else 1)


@pytest.mark.full
@pytest.mark.parametrize("chip", CHIPS)
def test_an_epilogue_in_slices(chip: str) -> None:
    """256 x 256 by eight waves: the accumulators do not fit into LDS at once, nor an expression beside all of them."""
    target = get_target(chip)
    keys = {"op": "gelu(acc + d0) + d1", "d": "f32,f16", "d_kind": "row,full"}
    problem = GEMM.problem(m=300, n=500, k=136, block="256x256x64", wave="2x4", schedule="compv3", **keys)
    spec = GEMM.spec(problem, target)
    assert np.prod(spec.slices) > 1
    kernel = compile_kernel(GEMM, spec, target)
    metadata = kernel.code_object.kernel(kernel.kernel_name).metadata
    assert (metadata.vgpr_spill_count, metadata.sgpr_spill_count, metadata.private_segment_size) == (0, 0, 0)
    agree("gemm", chip, m=300, n=500, k=136, block="256x256x64", wave="2x4", schedule="compv3", **keys)


@pytest.mark.one_in(48)
@pytest.mark.parametrize("schedule", [None, "v1", "mem3", "compv3", "compv4"])
@pytest.mark.parametrize("epilogue", ["direct", "cshuffle"])
@pytest.mark.parametrize("chip", CHIPS)
def test_steady_loop_does_not_know_the_epilogue(chip: str, epilogue: str, schedule: str | None) -> None:
    """The loop of a product is the same machine code with an epilogue and without."""
    from ckmlir.scheduling.machine_loop import steady_loop

    target = get_target(chip)
    mixes = []
    for op in (None, "gelu(acc + d0) * d1"):
        keys = {"epilogue": epilogue, "schedule": schedule}
        spec = GEMM.spec(GEMM.problem(m=1024, n=1024, k=1024, op=op, **keys), target)
        kernel = compile_kernel(GEMM, spec, target)
        mixes.append(steady_loop(kernel.code_object, kernel.kernel_name).mix)
    assert mixes[0] == mixes[1]


@pytest.mark.one_in(8)
@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("size", SIZES)
def test_gated(chip: str, size: str) -> None:
    """Both products in one loop, types in turn."""
    m, n, k = SIZES[size]
    dtype = ("f16", "bf16", "i8")[list(SIZES).index(size) % 3]
    agree("gated_gemm", chip, m=m, n=n, k=k, dtype=dtype, op="silu(gate * alpha) * up + d0", alpha=0.01)


BATCHES: tuple[dict[str, Any], ...] = (
    {"batch": 3},
    {"batch": "2x3", "b_batch": 3},
    {"batch": "2x2x3", "a_batch": "2x1x3", "b_batch": 1},
    {"batch": "2x3", "op": "relu(acc + d0) * d1", "d_kind": "row,full", "d0_batch": "2x1", "d1_batch": 3},
    # Products of a batch that lie side by side in the rows of A and C.
    {"batch": 3, "lda": 3 * 40, "a_batch_strides": 40, "ldc": 3 * 72, "c_batch_strides": 72},
    {"batch": "2x2", "b_batch_strides": "9000x4000", "layout": "RRR"},
    {"batch": "2x3", "a_batch_strides": "4000x0", "op": "acc + d0", "d0_batch_strides": "0x8000"},
)


@pytest.mark.one_in(12)
@pytest.mark.parametrize(("chip", "number"), list(itertools.product(CHIPS, range(len(BATCHES)))))
def test_batches(chip: str, number: int) -> None:
    """Dimensions, broadcasting and strides of a batch."""
    agree("batched_gemm", chip, m=100, n=72, k=40, dtype=("f16", "bf16")[number % 2], **BATCHES[number])


def test_inputs_of_a_batch_repeat_by_a_stride_of_nothing() -> None:
    """As by lengths of their own."""
    operator, sizes = find_operator("batched_gemm"), {"batch": "2x3", "m": 100, "n": 72, "k": 40}
    strided = operator.problem(**sizes, a_batch_strides="4000x0", b_batch_strides="0x0")
    assert strided == operator.problem(**sizes, a_batch="2x1", b_batch=1)


@pytest.mark.parametrize("keys", [
    {"batch": 0}, {"batch": "3x0"}, {"batch": 2, "m": 0}, {"batch": 2, "n": 0}, {"batch": 2, "k": 0},
    {"batch": 0, "m": 512, "n": 512, "k": 512}, {"batch": "3x0", "a_batch": "1x0", "b_batch": 0},
])  # fmt: skip
def test_empty_batches(keys: dict[str, Any]) -> None:
    """Nothing to compute, and sums of nothing."""
    agree("batched_gemm", "gfx942", **{"m": 5, "n": 6, "k": 7, **keys})


@pytest.mark.one_in(8)
@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize(("name", "keys"), [
    ("gemm", {"op": "gelu(acc + d0) + d1", "d": "f32,f16", "d_kind": "column,full"}),
    ("gemm_multi_d", {}),
    ("gated_gemm", {}),
    ("batched_gemm", {"batch": "2x2", "b_batch": 2}),
])  # fmt: skip
def test_checkers_find_nothing(chip: str, name: str, keys: dict[str, Any]) -> None:
    """Ragged sizes under all checkers of the simulator."""
    operator, target = find_operator(name), get_target(chip)
    problem = operator.problem(m=131, n=67, k=71, **keys)
    arrays = operator.inputs(problem, target)
    result = run_operator(operator, problem, arrays, target, open_device("sim", target, checks="all"))
    assert all(one.ok for one in check_outputs(operator, problem, arrays, result.outputs, target))


def test_reference_of_a_batch_against_a_loop() -> None:
    """The reference by brute force: broadcasting, kinds of D tensors, the numbers."""
    operator, target = find_operator("batched_gemm"), get_target("gfx942")
    problem = operator.problem(
        batch="2x3", b_batch=3, d0_batch="2x1", m=4, n=5, k=6, op="alpha * acc * d1 + beta * d0", d="f32,f32",
        d_kind="row,column", alpha=0.5, beta=3.0, out="f32",
    )  # fmt: skip
    arrays = operator.inputs(problem, target)
    a, b, d0, d1 = (arrays[name].astype(np.float64) for name in ("a", "b", "d0", "d1"))
    assert [one.shape for one in (a, b, d0, d1)] == [(2, 3, 4, 6), (1, 3, 5, 6), (2, 1, 5), (2, 3, 4)]
    wanted = np.empty((2, 3, 4, 5))
    for i, j in np.ndindex(2, 3):
        wanted[i, j] = 0.5 * (a[i, j] @ b[0, j].T) * d1[i, j][:, None] + 3.0 * d0[i, 0]
    found = operator.reference(problem, arrays)["c"]
    np.testing.assert_allclose(found, wanted, rtol=1e-12)


def test_tolerances_do_not_pass_another_epilogue() -> None:
    """A result without the bias, or rounded toward zero, is out of tolerance."""
    operator, target = find_operator("gemm"), get_target("gfx942")
    problem = operator.problem(m=64, n=64, k=64, op="acc + d0", d_kind="row")
    arrays = operator.inputs(problem, target)
    reference = operator.expected(problem, arrays, target)
    tolerance = operator.tolerances(problem, arrays, reference, target)["c"]
    right = reference["c"].astype(np.float16)
    assert compare("c", right, reference["c"], tolerance).ok
    assert not compare("c", (reference["c"] - arrays["d0"]).astype(np.float16), reference["c"], tolerance).ok
    truncated = np.where(np.abs(right) > np.abs(reference["c"]), np.nextafter(right, np.float16(0)), right)
    assert not compare("c", truncated, reference["c"], tolerance).ok


@pytest.mark.parametrize(("name", "keys", "words"), [
    ("gemm", {"op": "relu(x)"}, "there is no array 'x' in the expression"),
    ("gemm", {"op": "d0 + 1"}, "it does not depend on the product; expected acc in it"),
    ("gemm", {"op": "acc + d1"}, "it names d1 but not d0; number them from d0 on"),
    ("gemm", {"alpha": 2}, "alpha=2.0: no op names it; expected an op with it, or nothing"),
    ("gemm_quant", {"beta": 2}, "beta=2.0: op=acc does not name it; expected an op with it, or nothing"),
    ("conv_fwd", {"d": "f16"}, "d: 1 D tensor described, and no op names them; expected an op with it"),
    ("moe_gemm", {"ldd": "2x5x1"}, "ldd: 3 D tensors described, and no op names them; expected an op with it"),
    ("grouped_gemm", {"m": "8,8", "alpha": "1,3"}, "product 1: alpha=3.0: no op names it"),
    ("sum_parts", {"op": "acc + alpha", "beta": 0}, "beta=0.0: op=acc + alpha does not name it"),
    ("sum_parts", {"op": "acc + d0", "d1": "64x1"}, "d1=64x1: no op names it; expected an op with it, or nothing"),
    ("gemm", {"op": "acc + d0", "d": "f16,f16"}, "2 D tensors described, op=acc + d0 names 1"),
    ("gemm", {"op": "acc + d0", "ldd": "7"}, "rows of d0 have 512 elements; expected at least that, or 0"),
    ("gemm", {"out": "fp8"}, "dtype=f16 gives f16 or f32; with an expression, such as op=acc,"),
    ("gemm", {"op": "acc", "out": "i32", "dtype": "i8"}, "of dtype=i8 an expression is computed in f32"),
    ("gemm", {"op": "acc if acc else 1"}, "expected arrays, numbers, + - * /"),
    ("gated_gemm", {"op": "acc"}, "there is no array 'acc' in the expression"),
    ("batched_gemm", {"batch": "2x3", "b_batch": "2"}, "b_batch=1x2: does not broadcast to batch=2x3"),
    ("batched_gemm", {"batch": "2", "a_batch_strides": "5"}, "would share a place"),
    ("batched_gemm", {"batch": "2", "c_batch_strides": "0"}, "would share a place"),
    ("batched_gemm", {"batch": "2x3", "b_batch": "2", "b_batch_strides": "9000x0"}, "b_batch=1x2: does not broadcast"),
    ("batched_gemm", {"d0_batch": "4"}, "d0_batch: op=acc has no D tensor d0"),
    ("batched_gated_gemm_quant", {"zero_up_batch": "4"}, "this request has no array zero_up; leave it out"),
    ("gemm", {"wave": "1x1", "schedule": "ping_pong", "m": 1}, "a workgroup of 1x1 waves makes no 2 equal groups"),
    ("gemm", {"op": "acc + d0", "block": "256x256x64", "wave": "2x2", "epilogue": "cshuffle", "schedule": "compv4"},
     "needs"),
])  # fmt: skip
def test_requests_that_are_refused(name: str, keys: dict[str, Any], words: str) -> None:
    """Each is one error that says what is wrong."""
    operator, target = find_operator(name), get_target("gfx942")
    with pytest.raises(RequestError, match="(?s)" + words.replace("+", r"\+").replace("*", r"\*").replace("[", r"\[")):
        problem = operator.problem(**keys)
        reasons = operator.validate(operator.spec(problem, target), target)
        if reasons:
            raise RequestError(str(reasons[0]))


def test_a_kernel_serves_other_sizes_and_refuses_other_epilogues() -> None:
    """What a specification covers."""
    operator, target = find_operator("gemm"), get_target("gfx942")
    spec = operator.spec(operator.problem(m=100, n=72, k=40, op="acc + d0"), target)
    assert not operator.mismatches(operator.problem(m=999, n=136, k=8, op="acc + d0"), spec, target)
    for keys in ({"op": "acc - d0"}, {"op": "acc + d0", "d": "f32"}, {"op": "acc + d0", "d_kind": "row"}, {}):
        assert operator.mismatches(operator.problem(m=100, n=72, k=40, **keys), spec, target), keys


@pytest.mark.one_in(6)
@pytest.mark.parametrize(("name", "keys"), [
    ("gemm", {"m": 3, "n": 64, "k": 64, "ldc": 1 << 25}),
    ("streamk_gemm", {"m": 3, "n": 64, "k": 64, "ldc": 1 << 25}),
    ("grouped_gemm", {"m": "3,40", "n": "64,64", "k": "64,64", "ldc": f"{1 << 25},64"}),
    ("shuffle_b", {"n": 3, "k": 64, "ldb": 1 << 25}),
])  # fmt: skip
def test_rows_behind_the_last_do_not_come_back(name: str, keys: dict[str, Any]) -> None:
    """Rows as far apart as offsets of 32 bits allow for a whole block; further apart they are refused."""
    operator, target = find_operator(name), get_target("gfx942")
    agree(name, "gfx942", **keys)
    further = {key: value if key[:2] != "ld" else str(value).replace(str(1 << 25), str((1 << 25) + 8))
               for key, value in keys.items()}  # fmt: skip
    problem = operator.problem(**further)
    with pytest.raises(RequestError, match="expected at most 33554432"):
        operator.launch(problem, operator.spec(problem, target), target)
