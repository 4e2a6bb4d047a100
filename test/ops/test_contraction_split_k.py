"""Products whose sums are shared by workgroups: through a workspace and a second kernel, and by atomics."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from launch_orders import in_any_order
from operator_runner import CHIPS, agree

from ckmlir.compiler import compile_kernel
from ckmlir.dialect.schedule_items import MOST_AHEAD
from ckmlir.ops import find_operator
from ckmlir.ops.comparison import compare
from ckmlir.ops.contraction.contraction_spec import ContractionSpec
from ckmlir.ops.contraction.parts import default_parts
from ckmlir.ops.contraction.sum_parts import sum_over
from ckmlir.ops.plan import FillStep, KernelStep, make_plan
from ckmlir.ops.request import RequestError
from ckmlir.ops.tensors.expression import parse
from ckmlir.ops.tensors.linearity import is_linear
from ckmlir.records import replace
from ckmlir.runtime import open_device
from ckmlir.runtime.run import check_outputs, run_operator
from ckmlir.scheduling.workbench import Workbench
from ckmlir.targets import get_target

GEMM = find_operator("gemm")
GFX942 = get_target("gfx942")
SIZES = ((100, 72, 333), (37, 66, 190), (1, 1, 1), (64, 64, 128), (5, 130, 65))

WORKSPACE: tuple[tuple[str, dict[str, Any]], ...] = (
    ("gemm", {}),
    ("gemm", {"dtype": "i8", "layout": "CRR"}),
    ("gemm", {"dtype": "bf16", "op": "gelu(acc + d0) * d1 - d2 * d3", "d_kind": "row,column,full,scalar"}),
    ("gemm", {"dtype": "i8", "op": "acc * alpha", "out": "i8", "alpha": 0.001, "layout": "RRR"}),
    ("gemm", {"out": "f32", "layout": "CCR", "epilogue": "direct"}),
    ("gemm", {"schedule": "preshuffle"}),
    ("gemm_multi_d", {"d": "f32,f16"}),
    ("gated_gemm", {}),
    ("batched_gemm", {"batch": "2x3", "b_batch": 3, "op": "relu(acc + d0)", "d_kind": "row", "d0_batch": "2x1"}),
    ("batched_gemm", {"batch": 3, "ldc": 3 * 136, "c_batch_strides": 136}),
)
ATOMIC: tuple[tuple[str, dict[str, Any]], ...] = (
    ("gemm", {"out": "f32"}),
    ("gemm", {"out": "f32", "dtype": "bf16", "op": "(acc - acc * d0) / 2", "epilogue": "direct"}),
    ("gemm", {"dtype": "i8"}),
    ("gemm", {"layout": "CRR", "ldc": 138}),
    ("gemm", {"dtype": "bf16", "op": "alpha * acc", "alpha": 0.25}),
    ("gemm_multi_d", {}),
    ("gated_gemm", {"op": "gate - up * 2", "out": "f32"}),
    ("batched_gemm", {"batch": "2x2", "a_batch": 2, "ldc": 4 * 136, "c_batch_strides": "272x136"}),
)


@pytest.mark.one_in(16)
@pytest.mark.parametrize(("chip", "number"), list(itertools.product(CHIPS, range(len(WORKSPACE)))))
def test_parts_through_a_workspace(chip: str, number: int) -> None:
    """Ragged sizes, one size and number of parts each in turn; more parts than K has steps are fewer."""
    name, keys = WORKSPACE[number]
    place = number + CHIPS.index(chip)
    m, n, k = SIZES[place % len(SIZES)]
    agree(name, chip, m=m, n=n, k=k, split_k=(2, 3, 50)[place % 3], **keys)


@pytest.mark.one_in(16)
@pytest.mark.parametrize(("chip", "number"), list(itertools.product(CHIPS, range(len(ATOMIC)))))
def test_parts_by_atomics(chip: str, number: int) -> None:
    """The same, where the chip can; columns of 16 bits in pairs."""
    name, keys = ATOMIC[number]
    m, n, k = SIZES[(number + CHIPS.index(chip)) % len(SIZES)]
    if keys.get("dtype") == "bf16" and "out" not in keys and chip == "gfx90a":
        with pytest.raises(RequestError, match="gfx90a has no global packed bf16 atomic add"):
            agree(name, chip, m=m, n=n + n % 2, k=k, split_k=2, reduction="atomic", **keys)
        return
    agree(name, chip, m=m, n=n + n % 2, k=k, split_k=3, reduction="atomic", **keys)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("reduction", ["workspace", "atomic"])
@pytest.mark.parametrize("keys", [{"m": 0}, {"n": 0}, {"k": 0}, {"k": 1}, {"m": 0, "k": 0}])
def test_empty_products(reduction: str, keys: dict[str, int]) -> None:
    """Nothing to compute, and sums of nothing, which are zero also where C was not."""
    agree("gemm", "gfx942", **{"m": 5, "n": 6, "k": 7, "split_k": 4, "reduction": reduction, **keys})


def test_a_workspace_gives_the_same_bits_in_any_order() -> None:
    """Four runs with workgroups in different orders, in which atomics give other bits."""
    different = {}
    for reduction in ("workspace", "atomic"):
        problem = GEMM.problem(m=100, n=72, k=1000, split_k=5, out="f32", reduction=reduction)
        arrays, found = GEMM.inputs(problem, GFX942), set()
        for seed in range(4):
            with in_any_order(seed):
                result = run_operator(GEMM, problem, arrays, GFX942, open_device("sim", GFX942))
            found.add(result.outputs["c"].tobytes())
        different[reduction] = len(found)
    assert different == {"workspace": 1, "atomic": 4}


def test_parts_are_added_in_order() -> None:
    """Numbers of which only one order gives this sum."""
    operator = find_operator("sum_parts")
    problem = operator.problem(parts=4, shape=(3, 5), out="f32")
    parts = np.empty((4, 3, 5), np.float32)
    parts[:] = np.array([2.0**24, 1.0, 1.0, -(2.0**24)], np.float32)[:, None, None]
    run = run_operator(operator, problem, {"acc_parts": parts}, GFX942, open_device("sim", GFX942))
    assert (run.outputs["c"] == 0).all()  # from the end it would be 2


def test_shares_of_many_parts_are_added_behind_them() -> None:
    """Two shares have the even and the odd parts, each in order: numbers of which only that order gives this sum."""
    operator = find_operator("sum_parts")
    problem = operator.problem(parts=13, shape=(3, 5), out="f32")
    assert operator.spec(problem, GFX942).shares == 2
    parts = np.zeros((13, 3, 5), np.float32)
    parts[[0, 1, 2, 12]] = np.array([2.0**24, 1.0, 1.0, -(2.0**24)], np.float32)[:, None, None]
    run = run_operator(operator, problem, {"acc_parts": parts}, GFX942, open_device("sim", GFX942))
    assert (run.outputs["c"] == 1).all()  # one by one, and from the end, it would be 0 and 2


def test_how_many_shares_and_parts_on_their_way() -> None:
    """More of many parts, and no shares where C has enough workgroups by itself."""
    operator = find_operator("sum_parts")
    requests = [(4, 64), (5, 64), (6, 64), (11, 64), (12, 64), (47, 768), (48, 768), (48, 769)]
    specs = [operator.spec(operator.problem(parts=parts, shape=(rows, 64)), GFX942) for parts, rows in requests]
    found = [(one.shares, one.ahead) for one in specs]
    assert found == [(1, 4), (1, 8), (1, 8), (1, 8), (2, 8), (2, 8), (16, 8), (1, 8)]
    wrong = [replace(specs[0], shares=3), replace(specs[0], shares=128), replace(specs[0], ahead=MOST_AHEAD + 1)]
    refused = [[one.field for one in operator.validate(spec, GFX942)] for spec in wrong]
    assert refused == [["shares"], ["shares"], ["ahead"]]


def test_parts_that_one_address_does_not_reach_have_no_shares() -> None:
    """15 strides of 2^28 words are beyond 2 GiB; so is the problem for a kernel of shares."""
    operator = find_operator("sum_parts")
    near, far = (sum_over(60, (1, 64), "f32", (stride, 64, 1), "f32", (64, 1)) for stride in (2**20, 2**28))
    assert [operator.spec(one, GFX942).shares for one in (near, far)] == [16, 1]
    reasons = operator.mismatches(far, operator.spec(near, GFX942), GFX942)
    assert [(one.field, one.value) for one in reasons] == [("shares", 16)]


@pytest.mark.one_in(2)
@pytest.mark.parametrize("chip", CHIPS)
def test_shares_of_parts_that_lie_between_one_another(chip: str) -> None:
    """Neighbouring elements are of different parts, and what lies behind the last part is not added."""
    problem = sum_over(13, (37, 6), "f32", (1, 96, 16), "f32", (6, 1))
    operator, target = find_operator("sum_parts"), get_target(chip)
    arrays = operator.inputs(problem, target)
    run = run_operator(operator, problem, arrays, target, open_device("sim", target, checks="all"))
    assert all(one.ok for one in check_outputs(operator, problem, arrays, run.outputs, target))


SUMS: tuple[dict[str, Any], ...] = (
    {"parts": 1, "shape": "7"},
    {"parts": 9, "shape": "33x70", "out": "bf16"},
    {"parts": 2, "shape": "3x1x5", "strides": "40x40x7", "out": "f32"},
    {"parts": 5, "shape": "2x9x64", "op": "silu(acc + d0) * d1 + beta", "d0": "64", "d1": "2x1x1", "d": "f32,i8"},
    {"parts": 3, "shape": "65x3", "dtype": "i32"},
    {"parts": 2, "shape": "65x33", "dtype": "f64", "strides": "1x65"},
    {"parts": 3, "shape": "0x3"},
    {"parts": 13, "shape": "33x70", "op": "relu(acc + d0)", "d0": "70"},
    {"parts": 49, "shape": "7"},
    {"parts": 50, "shape": "5x64", "dtype": "i32"},
    {"parts": 61, "shape": "65x33", "dtype": "f64", "strides": "1x65"},
)


@pytest.mark.one_in(24)
@pytest.mark.parametrize(("chip", "number"), list(itertools.product(CHIPS, range(len(SUMS)))))
def test_sums_of_parts(chip: str, number: int) -> None:
    """The second kernel alone: shapes, strides, D tensors that broadcast."""
    agree("sum_parts", chip, **SUMS[number])


@pytest.mark.one_in(8)
@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize(("name", "keys"), [
    ("gemm", {"op": "gelu(acc + d0) + d1", "d": "f32,f16", "d_kind": "column,full"}),
    ("gemm", {"reduction": "atomic", "out": "f32"}),
    ("gated_gemm", {}),
    ("batched_gemm", {"batch": "2x2", "b_batch": 2}),
])  # fmt: skip
def test_checkers_find_nothing(chip: str, name: str, keys: dict[str, Any]) -> None:
    """Ragged sizes under all checkers of the simulator."""
    operator, target = find_operator(name), get_target(chip)
    problem = operator.problem(m=131, n=67, k=199, split_k=3, **keys)
    arrays = operator.inputs(problem, target)
    result = run_operator(operator, problem, arrays, target, open_device("sim", target, checks="all"))
    assert all(one.ok for one in check_outputs(operator, problem, arrays, result.outputs, target))


@pytest.mark.one_in(2)
@pytest.mark.parametrize("chip", CHIPS)
def test_both_kernels_are_proved_and_spill_nothing(chip: str) -> None:
    """The schedule of each loop, and its registers."""
    target = get_target(chip)
    for reduction in ("workspace", "atomic"):
        problem = GEMM.problem(m=28, n=384, k=1536, split_k=4, reduction=reduction, op="acc * d0")
        for step in make_plan(GEMM, problem, target).kernels:
            bench = Workbench.of(step.operator, step.spec, target)
            assert bench.compile(bench.schedule, code=False).findings == ()
            kernel = compile_kernel(step.operator, step.spec, target)
            found = kernel.code_object.kernel(kernel.kernel_name).metadata
            assert (found.vgpr_spill_count, found.sgpr_spill_count, found.private_segment_size) == (0, 0, 0)


def test_steps() -> None:
    """What is queued: partial sums and what adds them; or zeros, in C's elements alone, and what adds to them."""
    plan = make_plan(GEMM, GEMM.problem(m=100, n=70, k=768, split_k=3, op="relu(acc + d0)"), GFX942)
    first, second = plan.steps
    assert isinstance(first, KernelStep) and isinstance(second, KernelStep)
    assert first.arrays == ("a", "b", "acc_parts") and second.arrays == ("acc_parts", "d0", "c")
    assert first.launch.grid == (12, 1, 3)
    assert [one.nbytes for one in plan.workspaces] == [3 * 100 * 72 * 4]
    again = make_plan(GEMM, GEMM.problem(m=100, n=70, k=768, split_k=3, op="gelu(acc)"), GFX942)
    assert again.kernels[0].spec == first.spec  # the epilogue is not its own

    plan = make_plan(GEMM, GEMM.problem(m=100, n=70, k=768, split_k=3, reduction="atomic"), GFX942)
    assert isinstance(plan.steps[0], FillStep) and plan.kernels[0].is_own and not plan.workspaces
    plan = make_plan(GEMM, GEMM.problem(m=100, n=70, k=768, split_k=3, reduction="atomic", ldc=80), GFX942)
    assert [step.operator.name for step in plan.kernels] == ["elementwise", "gemm"]


def test_parts_by_default() -> None:
    """Where few blocks and a large K leave compute units idle, and by the deterministic form alone."""

    def sink(**keys: object) -> tuple[str, int]:
        problem = GEMM.problem(**keys)
        spec = GEMM.spec(problem, GFX942)
        assert isinstance(spec, ContractionSpec)
        return spec.sink, GEMM.launch(problem, spec, GFX942).grid[2]

    assert sink(m=28, n=384, k=4096) == ("partial", 6)
    assert sink(m=16, n=1024, k=2048) == ("partial", 4)
    assert sink(m=28, n=384, k=1024) == ("store", 1)
    assert sink(m=16, n=1024, k=8192)[0] == "partial"
    assert sink(m=64, n=512, k=8192, dtype="f32") == ("partial", 19)
    assert sink(m=64, n=1024, k=4096, dtype="f32") == ("partial", 8)
    assert sink(m=64, n=4096, k=4096, dtype="f32") == ("partial", 2)
    assert sink(m=28, n=8192, k=1536, dtype="f32") == ("store", 1)
    assert sink(m=28, n=384, k=4096, split_k=1) == ("store", 1)
    assert sink(m=28, n=384, k=4096, reduction="atomic")[0] == "atomic"
    for keys in ({"m": 1024, "n": 1024, "k": 1024}, {"m": 64, "n": 64, "k": 512}, {"m": 4096, "n": 4096, "k": 8192}):
        assert sink(**keys) == ("store", 1)
    block = (64, 64)
    assert default_parts(block, 0, 1000, GFX942) > 1
    assert default_parts(block, 304, 1000, GFX942) == default_parts(block, 1, 0, GFX942) == 1
    problem = GEMM.problem(m=28, n=384, k=4096)
    assert GEMM.chosen(problem, GEMM.spec(problem, GFX942))["reduction"] == "workspace"


@pytest.mark.parametrize(("chip", "block", "blocks", "steps", "parts"), [
    ("gfx950", (64, 128), 64, 128, 8),  # two workgroups a compute unit, one loads while the other multiplies
    ("gfx942", (64, 128), 64, 128, 4),  # LDS holds one
    ("gfx950", (128, 128), 48, 64, 5),  # partial sums would be as much as what is read
    ("gfx950", (128, 128), 64, 128, 8),
    ("gfx950", (64, 128), 16, 128, 16),  # 32 parts take too long to add
    ("gfx950", (64, 64), 20, 24, 8),  # steps of two would be few
])  # fmt: skip
def test_parts_for_two_workgroups_a_unit(
    chip: str, block: tuple[int, int], blocks: int, steps: int, parts: int
) -> None:
    assert default_parts(block, blocks, steps, get_target(chip)) == parts


@pytest.mark.parametrize(("name", "keys", "words"), [
    ("gemm", {"op": "relu(acc)"}, "does not add up to op of their sum; expected reduction=workspace"),
    ("gemm", {"op": "acc + d0"}, "does not add up to op of their sum"),
    ("gated_gemm", {}, "does not add up to op of their sum"),
    ("gemm", {"op": "acc * 2", "out": "fp8"}, "memory does not add fp8; expected reduction=workspace, or out=f32"),
    ("gemm", {"n": 67}, "memory adds f16 in pairs, but rows have an odd length"),
    ("gemm", {"ldc": 513}, "memory adds f16 in pairs"),
    ("gemm", {"split_k": 0}, "expected a whole number from 1"),
    ("gemm", {"split_k": 100000}, "split_k=100000: expected at most 65535"),
    ("gemm", {"m": 30000, "n": 30000, "k": 0, "reduction": "workspace", "op": "acc", "dtype": "i8", "out": "i8"},
     "array acc_parts .* bytes; kernels address at most"),
    ("batched_gemm", {"batch": "100x1000", "m": 1000, "n": 1000, "k": 0, "reduction": "workspace"},
     "partial sums; kernels count to"),
    ("gemm", {"reduction": "tree"}, "expected workspace|atomic"),
])  # fmt: skip
def test_requests_that_are_refused(name: str, keys: dict[str, Any], words: str) -> None:
    """Each is one error that says what is wrong."""
    operator = find_operator(name)
    with pytest.raises(RequestError, match=words):
        problem = operator.problem(**{"split_k": 2, "reduction": "atomic", **keys})
        reasons = operator.validate(operator.spec(problem, GFX942), GFX942)
        if reasons:
            raise RequestError(str(reasons[0]))


def test_parts_that_lie_too_far_apart_are_refused() -> None:
    with pytest.raises(RequestError, match=r"^sum_parts: shape=2x2147483647: parts lie 4294967294 elements apart; .*"):
        find_operator("sum_parts").problem(shape=(2, 2147483647))


def test_more_sums_of_a_part_than_kernels_count_are_refused_as_asked() -> None:
    """By the parts that were asked for, of which a short K has fewer."""
    conv = find_operator("conv_fwd")
    keys = {"n": 257, "g": 8192, "c": 63, "image": "10x32", "window": 1, "pads": 20, "strides": 2, "split_k": 1023}
    problem = conv.problem(**keys, reduction="workspace")
    with pytest.raises(RequestError, match=r"^conv_fwd: split_k=1023: a part's sums are \d+ .*; expected split_k=1"):
        make_plan(conv, problem, GFX942)


def test_a_kernel_serves_other_numbers_of_parts_and_no_other_form() -> None:
    """What a specification covers: parts and epilogues are the launch's, what becomes of the sums is the code's."""
    keys = {"m": 100, "n": 72, "k": 512}
    specs = {
        sink: GEMM.spec(GEMM.problem(**keys, **form), GFX942)
        for sink, form in (
            ("store", {"split_k": 1}),
            ("partial", {"split_k": 3}),
            ("atomic", {"split_k": 3, "reduction": "atomic"}),
        )
    }
    fitting = {
        "store": ({"split_k": 1}, {}),
        "partial": ({"split_k": 2}, {}, {"op": "relu(acc)", "split_k": 2}, {"reduction": "workspace"}),
        "atomic": ({"split_k": 2, "reduction": "atomic"}, {"reduction": "atomic"}),
    }
    for sink, spec in specs.items():
        assert spec.sink == sink
        for form in fitting[sink]:
            assert not GEMM.mismatches(GEMM.problem(**keys, **form), spec, GFX942), (sink, form)
    others = (
        ("store", {"split_k": 2}), ("partial", {"split_k": 1}), ("partial", {"split_k": 2, "reduction": "atomic"}),
        ("atomic", {"split_k": 2, "reduction": "workspace"}),
    )  # fmt: skip
    for sink, form in others:
        assert GEMM.mismatches(GEMM.problem(**keys, **form), specs[sink], GFX942), (sink, form)


@pytest.mark.parametrize(("op", "linear"), [
    ("acc", True), ("-acc * d0 / alpha", True), ("acc * 2 - acc", True), ("where(d0 > 0, acc, acc * 2)", True),
    ("exp(d0) * acc", True), ("acc + 1", False), ("acc * acc", False), ("1 / acc", False), ("d0", False),
    ("relu(acc)", False), ("where(acc > 0, acc, acc)", False), ("pow(acc, 2)", False), ("acc * d0 + d1", False),
])  # fmt: skip
def test_which_expressions_are_linear(op: str, linear: bool) -> None:
    assert is_linear(parse(op, ("acc", "d0", "d1", "alpha")), ("acc",)) == linear


def test_a_result_without_one_part_is_out_of_tolerance() -> None:
    """The tolerance of atomics in f16 is wider, not blind."""
    problem = GEMM.problem(m=64, n=64, k=512, split_k=8, reduction="atomic")
    arrays = GEMM.inputs(problem, GFX942)
    reference = GEMM.expected(problem, arrays, GFX942)
    tolerance = GEMM.tolerances(problem, arrays, reference, GFX942)
    without = reference["c"] - arrays["a"][:, :64].astype(np.float64) @ arrays["b"][:, :64].astype(np.float64).T
    assert compare("c", reference["c"].astype(np.float16), reference["c"], tolerance["c"]).ok
    assert not compare("c", without.astype(np.float16), reference["c"], tolerance["c"]).ok


def test_pairs_of_a_product_of_combined_operands() -> None:
    """Columns of C lie in pairs, whatever A and B are made of."""
    for chip, n in (("gfx950", 14), ("gfx942", 2)):
        agree("gemm_multi_abd", chip, m=104, n=n, k=264, split_k=4, reduction="atomic")


@pytest.mark.one_in(2)
@pytest.mark.parametrize("keys", [{}, {"op": "acc * alpha", "alpha": -3.0}])
def test_nothing_is_promised_of_parts_that_overflow(keys: dict[str, Any]) -> None:
    """Two parts of 1e5 and -1e5 cancel, but f16 has neither: only results that stay small are compared."""
    problem = GEMM.problem(m=64, n=64, k=128, split_k=2, reduction="atomic", **keys)
    arrays = GEMM.inputs(problem, GFX942)
    arrays["a"][5, :2], arrays["b"][:, :2] = 1000, 0
    arrays["a"][5, 64], arrays["b"][7, (0, 64)] = 1000, (100, -100)
    arrays["a"][9, 3] = np.nan
    reference = GEMM.expected(problem, arrays, GFX942)
    free = np.asarray(GEMM.tolerances(problem, arrays, reference, GFX942)["c"].unspecified)
    assert np.isfinite(reference["c"][5, 7]) and abs(reference["c"][5, 7]) < 1000
    assert free.shape == (64, 64) and free[5, 7] and not free[:5].any()
    assert keys or not free[9].any(), "NaN of a product is NaN in any order"
    result = run_operator(GEMM, problem, arrays, GFX942, open_device("sim", GFX942))
    assert not np.isfinite(result.outputs["c"][5, 7].astype(np.float64))
    assert all(one.ok for one in check_outputs(GEMM, problem, arrays, result.outputs, GFX942))
