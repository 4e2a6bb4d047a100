"""Products of experts' matrices: numbers, what rows stand for, any lists, schedules, what is refused."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from checked_runs import compiled
from operator_runner import CHIPS, agree

from ckmlir.compiler import compile_kernel
from ckmlir.ops import find_operator
from ckmlir.ops.comparison import Array
from ckmlir.ops.moe.experts_reference import sorting
from ckmlir.ops.plan import FillStep, make_plan
from ckmlir.ops.request import RequestError
from ckmlir.runtime import open_device
from ckmlir.runtime.run import check_outputs, run_operator
from ckmlir.scheduling.machine_loop import steady_loop
from ckmlir.scheduling.workbench import Workbench
from ckmlir.targets import get_target

MOE_GEMM, SORTING = find_operator("moe_gemm"), find_operator("moe_sorting")
GFX942 = get_target("gfx942")
FIRST = {"op": "silu(gate) * up"}
SECOND = {"a_rows": "entry", "c_rows": "token", "op": "acc * d0", "d": "f32", "d_kind": "place"}
REQUESTS: tuple[dict[str, Any], ...] = (
    {"t": 17, "n": 96, "k": 72, "dtype": "bf16", **FIRST},
    {"t": 17, "n": 70, "k": 40, "e": 5, "topk": 3, **SECOND},
    {"t": 9, "n": 64, "k": 128, "unit": 16, **SECOND, "reduction": "atomic", "out": "f16"},
    {"t": 33, "n": 66, "k": 33, "dtype": "f32", **SECOND, "reduction": "atomic"},
    {"t": 40, "n": 72, "k": 80, "unit": 64, "layout": "RRR", "op": "gelu(gate + d0) * (up + d1)", "lda": 96},
    {"t": 3, "n": 64, "k": 96, "unit": 48, "a_rows": "place", "c_rows": "place", "dtype": "bf16", "out": "f32"},
    {"t": 20, "n": 80, "k": 128, "dtype": "fp8", "op": "acc * d0 * d1", "d": "f32,f32", "d_kind": "column,row"},
    {"t": 20, "n": 65, "k": 64, "dtype": "i8", "op": "silu(gate * d0 * d1) * (up * d0 * d2)", "out": "bf16",
     "d": "f32,f32,f32", "d_kind": "column,row,scalar"},
    {"t": 12, "n": 72, "k": 64, "dtype": "i8", "a_rows": "entry", "c_rows": "token", "reduction": "atomic"},
    {"t": 30, "n": 70, "k": 200, "schedule": "preshuffle", "dtype": "bf16", "unit": 32},
    {"t": 21, "n": 70, "k": 136, "shuffled": 16, **FIRST, "b_stride": 16000},
    {"t": 1, "n": 48, "k": 0, "topk": 1, "e": 1, "unit": 16, "b_stride": 64},
    {"t": 150, "n": 129, "k": 64, "unit": 128, "e": 2, "b_stride": 8320, **SECOND, "ldc": 136},
    {"t": 70, "n": 72, "k": 136, "unit": 64, "schedule": "async_narrow", "block": "64x64x64", "dtype": "bf16", **FIRST},
    {"t": 70, "n": 136, "k": 136, "unit": 64, "schedule": "async_single", "block": "64x128x64", "wave": "1x2"},
    {"t": 19, "n": 72, "k": 132, "unit": 16, "schedule": "async", "dtype": "i8", "a_rows": "entry", "lda": 140},
    {"t": 5, "n": 72, "k": 264, "unit": 16, "schedule": "mem4", "block": "16x32x64", "wave": "1x1", **SECOND},
    {"t": 17, "n": 70, "k": 40, "e": 5, "topk": 3, **SECOND, "entry_ids": 1},
    {"t": 9, "n": 67, "k": 64, "unit": 16, **SECOND, "dtype": "bf16", "entry_ids": 1, "reduction": "rounded"},
    {"t": 70, "n": 131, "k": 72, "unit": 64, "schedule": "async_single", "block": "64x128x64", "wave": "1x2", **SECOND},
    {"t": 321, "n": 264, "k": 136, "unit": 160, "e": 3, "topk": 1, "dtype": "bf16", **SECOND, "c_rows": "entry"},
    {"t": 170, "n": 70, "k": 200, "unit": 160, "e": 2, "dtype": "bf16", **FIRST},
)  # fmt: skip


def run(chip: str, given: dict[str, Array] | None = None, seed: int = 3, **keys: Any) -> dict[str, Array]:
    """Run a request under all checkers, between guard bytes, and compare; with some arrays `given`."""
    target = get_target(chip)
    problem = MOE_GEMM.problem(**keys)
    arrays = {**MOE_GEMM.inputs(problem, target, seed), **(given or {})}
    result = run_operator(MOE_GEMM, problem, arrays, target, open_device("sim", target, checks="all"), guarded=True)
    comparisons = check_outputs(MOE_GEMM, problem, arrays, result.outputs, target)
    assert all(one.ok for one in comparisons), "; ".join(map(str, comparisons))
    return result.outputs


def routed(ids: Array, **keys: Any) -> dict[str, Array]:
    """The lists of a routing, as `moe_sorting` makes them."""
    problem = sorting(MOE_GEMM.problem(**keys))
    weights = np.ones(ids.shape, np.float32)
    lists = SORTING.reference(problem, {"topk_ids": ids, "weights": weights})
    return {name: lists[name].astype(np.int32) for name in ("sorted_ids", "expert_ids", "totals")}


FEW = {("gfx90a", 3), ("gfx90a", 9), ("gfx942", 1), ("gfx942", 7), ("gfx950", 2), ("gfx950", 10), ("gfx950", 11),
       ("gfx942", 15), ("gfx950", 13), ("gfx950", 14), ("gfx950", 16), ("gfx942", 17), ("gfx950", 18), ("gfx950", 19),
       ("gfx950", 20), ("gfx950", 21)}


@pytest.mark.one_in(3)
@pytest.mark.parametrize(("chip", "number"), [
    pytest.param(chip, number, marks=[] if (chip, number) in FEW else [pytest.mark.full])
    for chip, number in itertools.product(CHIPS, range(len(REQUESTS)))
])  # fmt: skip
def test_rows_of_experts(chip: str, number: int) -> None:
    """Types, layouts, expressions, kinds of D tensors and of rows, under all checkers and between guard bytes."""
    keys = REQUESTS[number]
    if keys.get("dtype") == "fp8" and chip == "gfx90a":
        with pytest.raises(RequestError, match="gfx90a"):
            agree("moe_gemm", chip, **keys)
        return
    run(chip, **keys)


@pytest.mark.parametrize(("tokens", "choice"), [
    pytest.param(tokens, choice, marks=[] if (tokens, choice) in {(1, "one"), (17, "few"), (3, "none")} else
                 [pytest.mark.full])
    for tokens, choice in itertools.product((1, 3, 17), ("one", "few", "repeated", "none"))
])  # fmt: skip
def test_any_routing(tokens: int, choice: str) -> None:
    """All tokens to one expert, experts without tokens, tokens that name one twice, entries of no expert at all."""
    random = np.random.default_rng(tokens)
    ids = {
        "one": np.full((tokens, 2), 6),
        "few": random.choice([1, 5], (tokens, 2)),
        "repeated": np.repeat(random.integers(0, 7, (tokens, 1)), 2, axis=1),
        "none": np.where(random.random((tokens, 2)) < 0.5, -1, 9),
    }[choice]
    keys = {"t": tokens, "e": 7, "topk": 2, "unit": 16, "n": 64, "k": 32}
    reduction = "atomic" if choice == "few" else "workspace"
    found = run(CHIPS[tokens % 3], routed(ids, **keys), **keys, **SECOND, reduction=reduction, out="f32")
    assert found["c"].any() == (choice != "none")


@pytest.mark.parametrize(("chip", "rows"), [
    ("gfx942", ("entry", "token")), pytest.param("gfx90a", ("token", "entry"), marks=pytest.mark.full),
])  # fmt: skip
def test_lists_of_anything(chip: str, rows: tuple[str, str]) -> None:
    """Words that name no entry are padding, units of no expert are left out, totals beyond the list end with it:
    nothing is read or written outside.
    """
    random = np.random.default_rng(5)
    keys = {"t": 9, "e": 3, "topk": 2, "unit": 16, "n": 40, "k": 40, "a_rows": rows[0], "c_rows": rows[1]}
    problem = MOE_GEMM.problem(**keys)
    places = problem.units * problem.unit
    words = random.permutation(np.concatenate([
        np.arange(9) | 1 << 24, [9, -1, 1 << 23, 2 << 24, -(2**31), 2**31 - 1, 0x7F000000], random.integers(
            -(2**31), 2**31, places),
    ])[:places])  # fmt: skip
    for experts, total in (([1, -1, 2, 3], 2**31 - 1), ([0, 2**31 - 1, -(2**31), 2], 49), ([0, 1, 2, 0], -16)):
        lists = {
            "sorted_ids": words.astype(np.int32),
            "expert_ids": np.resize(np.array(experts), problem.units).astype(np.int32),
            "totals": np.array([total, 0], np.int32),
        }
        found = run(chip, lists, **keys)
        assert total > 0 or rows[1] == "entry" or not found["c"].any()


def test_nothing_is_written_for_entries_that_the_list_leaves_out() -> None:
    """Sums in a fixed order read the rows that the list names: no zeros are written to the others before."""
    steps = {}
    for given in (0, 1):
        problem = MOE_GEMM.problem(t=20, n=64, k=64, **SECOND, entry_ids=given)
        plan = make_plan(MOE_GEMM, problem, GFX942)
        filled = {step.buffer: step.nbytes for step in plan.steps if isinstance(step, FillStep)}
        steps[given] = filled, [step.operator.name for step in plan.kernels]
    assert steps[0] == ({"named": 4 * 40}, ["listed_entries", "moe_gemm", "embedding_bag"])
    assert steps[1] == ({}, ["moe_gemm", "embedding_bag"])


def test_a_fixed_order_gives_the_same_bits() -> None:
    found = []
    for seed in (1, 2):
        problem = MOE_GEMM.problem(t=20, e=4, topk=4, n=64, k=64, unit=16, **SECOND)
        arrays = MOE_GEMM.inputs(problem, GFX942)
        device = open_device("sim", GFX942, seed=seed)
        found.append(run_operator(MOE_GEMM, problem, arrays, GFX942, device).outputs["c"].tobytes())
    assert found[0] == found[1]


def test_units_behind_the_places_taken_end_at_once() -> None:
    """The grid is a bound; a block that has nothing to do executes a few instructions."""
    keys = {"t": 8, "e": 8, "topk": 1, "unit": 16, "n": 64, "k": 1024}
    counts = []
    for ids in (np.zeros((8, 1), int), np.arange(8).reshape(8, 1)):
        problem = MOE_GEMM.problem(**keys)
        arrays = {**MOE_GEMM.inputs(problem, GFX942), **routed(ids, **keys)}
        device = open_device("sim", GFX942)
        run_operator(MOE_GEMM, problem, arrays, GFX942, device)
        counts.append(device.last_statistics.wave_instructions)
    assert counts[0] < counts[1] / 4


@pytest.mark.parametrize(("chip", "keys"), [
    pytest.param("gfx90a", {"unit": 128, **SECOND}, marks=pytest.mark.full), ("gfx942", {"unit": 128, **FIRST}),
    ("gfx950", {"unit": 16, **FIRST}), pytest.param("gfx942", {"shuffled": 16}, marks=pytest.mark.full),
    ("gfx90a", {"unit": 16, "shuffled": 16, **FIRST}),
    *[pytest.param(chip, {"unit": unit, "shuffled": 16, **FIRST}, marks=pytest.mark.full)
      for chip in CHIPS for unit in (16, 32, 64, 128) if (chip, unit) != ("gfx90a", 16)],
])  # fmt: skip
def test_the_steady_loop_is_that_of_one_product(chip: str, keys: dict[str, Any]) -> None:
    """Rows by a list cost it nothing: no vector arithmetic, few scalar instructions, nothing spilled, and proved."""
    target = get_target(chip)
    spec = MOE_GEMM.spec(MOE_GEMM.problem(**keys), target)
    kernel = compile_kernel(MOE_GEMM, spec, target)
    found = kernel.code_object.kernel(kernel.kernel_name).metadata
    assert (found.vgpr_spill_count, found.sgpr_spill_count, found.private_segment_size) == (0, 0, 0)
    mix = steady_loop(kernel.code_object, kernel.kernel_name).mix
    assert mix["mfma"] and mix["valu"] == 0 and mix["salu"] <= 18
    bench = Workbench.of(MOE_GEMM, spec, target)
    assert bench.compile(bench.schedule, code=False).findings == ()


@pytest.mark.full
@pytest.mark.parametrize("chip", CHIPS)
def test_every_listed_kernel_is_proved(chip: str) -> None:
    target = get_target(chip)
    specs = MOE_GEMM.kernels(target)
    assert len(specs) > 50
    for spec in specs:
        bench = Workbench.of(MOE_GEMM, spec, target)
        assert bench.compile(bench.schedule, code=False).findings == (), spec.name


def test_blocks_follow_how_many_there_are() -> None:
    """As high as a unit; low ones small and many: those that need the shortest turns, and smaller ones where they are
    fewer than two a compute unit."""
    large = {"e": 64, "topk": 4, "n": 1024, "k": 2048, "dtype": "bf16"}
    requests: dict[str, dict[str, Any]] = {
        "high": {"unit": 128, "t": 999, "k": 8192}, "low": {"unit": 16, "t": 16, "n": 4096},
        "few": {"unit": 16, "t": 1}, "fewest": {"unit": 16, "t": 1, "n": 256, "k": 7168, **FIRST},
        "short": {"unit": 128, "t": 4096, "k": 512}, "padded": {"unit": 128, "t": 999},
        "alone": {"unit": 16, "t": 4}, "at once": {"unit": 16, "t": 16},
        "two turns": {"unit": 16, "t": 2, "topk": 8, "n": 7168, "k": 256},
        "full turns": {"unit": 16, "t": 8, "topk": 8, "n": 2048, "k": 1024},
    }  # fmt: skip
    found = {}
    for name, keys in requests.items():
        spec = MOE_GEMM.spec(MOE_GEMM.problem(**{**large, **keys}), GFX942)
        found[name] = (spec.block, spec.schedule)
    assert found == {
        "high": ((128, 128, 64), "compv4"), "low": ((16, 32, 64), "mem4"), "few": ((16, 16, 128), "mem4"),
        "fewest": ((16, 16, 128), "v4"), "short": ((128, 128, 64), "compv3"), "padded": ((128, 128, 64), "compv3"),
        "alone": ((16, 64, 64), "mem4"), "at once": ((16, 32, 64), "mem4"), "two turns": ((16, 64, 64), "compv3"),
        "full turns": ((16, 32, 64), "mem4"),
    }  # fmt: skip


@pytest.mark.parametrize(("chip", "tokens", "block", "schedule"), [
    ("gfx950", 4, (16, 64, 64), "compv3"),  # 12.6 blocks a compute unit, 16 at a time
    ("gfx950", 8, (16, 64, 64), "mem4"),  # 19: two turns of 10, not of 16
    ("gfx942", 8, (16, 64, 64), "compv3"),  # LDS holds six, whatever the registers
])  # fmt: skip
def test_loads_run_ahead_where_turns_are_fuller(
    chip: str, tokens: int, block: tuple[int, int, int], schedule: str
) -> None:
    keys = {"t": tokens, "e": 64, "topk": 8, "unit": 16, "n": 7168, "k": 256, "dtype": "bf16"}
    spec = MOE_GEMM.spec(MOE_GEMM.problem(**keys), get_target(chip))
    assert (spec.block, spec.schedule) == (block, schedule)


@pytest.mark.parametrize(("chip", "tokens", "block"), [
    ("gfx90a", 1, (16, 32, 128)),  # 64 for 104 compute units, where narrow ones are 128
    ("gfx90a", 2, (16, 16, 128)),
    ("gfx942", 4, (16, 32, 128)),
    ("gfx942", 8, (16, 16, 128)),
])  # fmt: skip
def test_few_blocks_are_one_for_each_compute_unit(chip: str, tokens: int, block: tuple[int, int, int]) -> None:
    keys = {"t": tokens, "e": 64, "topk": 8, "unit": 16, "dtype": "bf16", **FIRST, "n": 256, "k": 7168}
    spec = MOE_GEMM.spec(MOE_GEMM.problem(**keys), get_target(chip))
    assert (spec.block, spec.schedule) == (block, "mem4")


def test_no_tokens_take_low_blocks() -> None:
    keys = {"t": 0, "e": 64, "topk": 8, "unit": 16, "n": 7168, "k": 256, "dtype": "bf16"}
    assert MOE_GEMM.spec(MOE_GEMM.problem(**keys), GFX942).block[0] == 16


def test_buffers_follow_turns() -> None:
    """gfx950 runs three workgroups with one LDS buffer, and two with two: the way with fewer turns, one if equal; and
    smaller blocks that are copied to LDS where these leave less of a turn open.
    """
    common = {"t": 4096, "e": 8, "n": 1024, "k": 1024, "unit": 128, "dtype": "bf16"}
    requests: dict[str, dict[str, Any]] = {
        "fewer with three": {"topk": 2, "layout": "RRR"}, "fewer with two": {"topk": 3},
        "equal": {"topk": 2, "n": 896}, "equal and long": {"topk": 2, "n": 896, "k": 4096},
        "copied": {"topk": 2}, "units of 64": {"topk": 2, "unit": 64}, "few waves": {"topk": 2, "t": 2048},
        "gated": {"e": 32, "topk": 4, "n": 512, **FIRST},
        "gated and long": {"e": 32, "topk": 4, "n": 512, "k": 4096, **FIRST},
        "narrow rows": {"topk": 2, "k": 1020}, "short": {"e": 32, "topk": 4, "k": 512, **SECOND},
        "short, one turn": {"topk": 2, "n": 896, "k": 512}, "matrix cores": {"topk": 2, "dtype": "f32"},
        "registers": {"topk": 2, "op": "gelu(acc + d0) * d1", "d": "f32,f32", "d_kind": "row,column"},
    }  # fmt: skip
    found = {
        name: MOE_GEMM.spec(MOE_GEMM.problem(**{**common, **keys}), get_target("gfx950")).schedule
        for name, keys in requests.items()
    }
    assert found == {
        "fewer with three": "compv3", "fewer with two": "compv4", "equal": "compv3", "equal and long": "compv4",
        "copied": "async_single", "units of 64": "async_single", "few waves": "compv3", "gated": "async_narrow",
        "gated and long": "compv4", "narrow rows": "compv3", "short": "async_single",
        "short, one turn": "compv3", "matrix cores": "compv3", "registers": "compv3",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"unit": 24}, "unit=24: "),
        ({"unit": 48, "shuffled": 32}, "matrix instructions of 32 columns have as many rows, a unit has 48; expected"),
        ({"unit": 16, "schedule": "preshuffle", "mfma": "32x32x8"}, "expected shuffled=16, or units of a multiple"),
        ({"t": 1 << 24}, "t=16777216: a word has 24 bits for a token; expected less than 2^24"),
        ({"topk": 128}, "topk=128: a word has a byte for a slot; expected at most 127"),
        ({"unit": 32, "block": "64x64x64"}, "block: 64 rows do not divide unit=32; expected a divisor"),
        ({"reduction": "atomic"}, "reduction=atomic: rows of c by entry are not summed; expected nothing"),
        ({"entry_ids": 1}, "entry_ids=1: rows of c by entry are not summed; expected nothing"),
        ({"c_rows": "token", "reduction": "atomic", "entry_ids": 1}, "entry_ids=1: reduction=atomic reads no entries"),
        ({"c_rows": "token", "reduction": "rounded", "out": "f32", "entry_ids": 1}, "out=f32 is what sums are added"),
        ({"op": "acc * gate"}, "it names acc and gate or up; expected one sum, acc, or two, gate and up"),
        ({"c_rows": "token", "out": "fp8", "op": "acc"}, "out=fp8: entries of a token are summed; expected f16|bf16"),
        ({"op": "acc", "d": "f32"}, "d: 1 D tensor described, op=acc names 0"),
        ({"b_stride": 100}, "b_stride=100: an expert's matrix takes 65536; expected that at least"),
        ({"op": "acc + d0", "ldd": 100}, "ldd=100: d0 has 256 elements for each expert; expected that at least"),
        ({"t": 2**23, "topk": 8, "n": 64, "k": 1}, "array c of shape 67108864x64 takes 8589934592 bytes"),
        ({"t": 2**23, "topk": 127, "n": 1, "k": 1}, "array sorted_ids of shape"),
    ],
)
def test_requests_that_do_not_fit(keys: dict[str, Any], words: str) -> None:
    with pytest.raises(RequestError) as refused:
        MOE_GEMM.problem(**keys)
    assert words in str(refused.value)


def test_more_blocks_than_kernels_count_to() -> None:
    """Rows of C are those of tokens, so that C is small beside its blocks."""
    keys = {"t": 15, "topk": 127, "e": 1905, "unit": 16, "n": 2**26, "k": 1, "block": "16x16x64", "wave": "1x1"}
    problem = MOE_GEMM.problem(**keys, c_rows="token", reduction="atomic")
    with pytest.raises(RequestError, match="moe_gemm: 7990149120 blocks of C; kernels count to 2147483647"):
        MOE_GEMM.launch(problem, MOE_GEMM.spec(problem, GFX942), GFX942)


@pytest.mark.parametrize(
    ("chip", "keys", "words"),
    [
        ("gfx90a", {**SECOND, "dtype": "bf16", "reduction": "atomic"}, "has no global packed bf16 atomic add"),
        ("gfx942", {"schedule": "async", "k": 33}, "rows of A are aligned to 2 bytes, copies to LDS take"),
        ("gfx942", {**SECOND, "n": 65, "reduction": "atomic"}, "memory adds f16 in pairs"),
    ],
)
def test_what_a_chip_cannot_run(chip: str, keys: dict[str, Any], words: str) -> None:
    with pytest.raises(RequestError, match=words):
        make_plan(MOE_GEMM, MOE_GEMM.problem(**keys), get_target(chip))


MX = {"layout": "RRR", "a_scale": "mx", "b_scale": "mx"}
NARROW: list[tuple[str, dict[str, Any]]] = [
    ("gfx942", {"dtype": "fp8", "unit": 16, "t": 9}),
    ("gfx942", {"dtype": "f16", "unit": 128, "k": 31, "shuffled": 16}),
    ("gfx942", {"dtype": "i8", "unit": 32, "t": 9, "k": 257, "a_scale": "1x32", "b_scale": "1x64", "out": "f32",
                "shuffled": 32, **FIRST}),
    ("gfx950", {"dtype": "fp8", "unit": 64, "t": 20, "n": 257, "k": 64, "out": "f32", "d": "f32,f32,f32",
                "op": "silu(gate * d0 * d1) * (up * d0 * d2)", "d_kind": "column,row,row"}),
    ("gfx942", {"dtype": "i8", "unit": 64, "t": 40, "k": 64, "out": "f32", **SECOND, "reduction": "atomic",
                "op": "acc * d0 * d1 * d2", "d": "f32,f32,f32", "d_kind": "place,column,row"}),
    ("gfx90a", {"dtype": "i8", "unit": 64, "t": 20, "k": 33, "a_scale": "1x128", "b_scale": "1x128", "out": "f16",
                "shuffled": 16, **FIRST}),
    ("gfx942", {"dtype": "fp8", "unit": 128}),
    ("gfx942", {"dtype": "f16", "unit": 64, "op": "silu(gate) * up"}),
    ("gfx942", {"dtype": "fp8", "unit": 64, "a_scale": "mx", "b_scale": "mx"}),
    ("gfx950", {"dtype": "fp8", "unit": 64, "a_scale": "1x128", "b_scale": "128x128", "op": "silu(gate) * up"}),
    ("gfx950", {"dtype": "bf8", "unit": 128, "a_scale": "mx", "b_scale": "mx", "layout": "RRR"}),
    ("gfx90a", {"dtype": "i8", "unit": 128, "a_scale": "1x64", "b_scale": "1x64", "out": "f32"}),
    ("gfx90a", {"dtype": "bf16", "unit": 128, "k": 33, "shuffled": 32, "op": "silu(gate) * up"}),
    ("gfx942", {"dtype": "fp8", "unit": 32, "a_scale": "mx", "b_scale": "mx"}),
    ("gfx942", {"dtype": "fp8", "unit": 16, "t": 9, "k": 257, "a_scale": "1x128", "b_scale": "128x128", "shuffled": 16,
                "op": "silu(gate) * up"}),
    ("gfx950", {"dtype": "fp6", "unit": 128, "n": 68, "k": 68, **MX, **FIRST}),
    ("gfx950", {"dtype": "fp6", "unit": 128, "n": 80, "k": 160, **MX, **FIRST}),
    ("gfx942", {"dtype": "fp6", "unit": 64, "n": 128, "k": 128, **MX, **FIRST}),
    ("gfx950", {"dtype": "fp4", "unit": 32, "n": 66, "k": 130, **MX, **FIRST}),
    ("gfx90a", {"dtype": "i8", "unit": 64, "t": 20, "k": 33, "a_scale": "1x128", "b_scale": "1x128", "out": "f16",
                "shuffled": 32, **FIRST}),
    ("gfx950", {"dtype": "fp8", "unit": 32, "t": 20, "k": 257, "a_scale": "1x128", "b_scale": "128x128", "out": "f16",
                "shuffled": 32, **FIRST}),
]


def test_parts_of_a_block_whose_rows_a_list_tells() -> None:
    """Side by side where each wave has all rows: what tells them is loaded once."""
    keys = {"t": 4096, "e": 32, "topk": 4, "n": 1024, "k": 512, "unit": 128, "dtype": "bf16", **SECOND}
    parts = {chip: MOE_GEMM.spec(MOE_GEMM.problem(**keys), get_target(chip)) for chip in ("gfx942", "gfx950")}
    assert {chip: (spec.waves, spec.slices) for chip, spec in parts.items()} == {
        "gfx942": ((2, 2), (2, 1)), "gfx950": ((1, 2), (1, 4)),
    }  # fmt: skip


def test_units_of_160_have_blocks_as_high() -> None:
    """Where the chip copies whole vectors to LDS, n fills most of a block and scalar registers have room; parts of one
    are as wide as it, since what tells rows is then loaded once. Nothing is spilled."""
    target = get_target("gfx950")
    keys = {"t": 4096, "e": 32, "topk": 4, "n": 1024, "k": 512, "unit": 160, "dtype": "bf16"}
    entry = {**SECOND, "c_rows": "entry"}
    numbers = {"op": "acc * d0 * d1 * d2", "d": "f32,f32,f32", "d_kind": "place,column,row", "out": "f32"}
    added = {"c_rows": "token", "reduction": "atomic"}
    requests: dict[str, dict[str, Any]] = {
        "down": entry, "gated": FIRST, "narrow": {**entry, "n": 128}, "rows end": {**entry, "n": 1000},
        "units of 320": {**entry, "unit": 320}, "single elements": {**entry, "k": 510},
        "numbers": {**SECOND, **numbers, "c_rows": "entry", "n": 1000},
        "numbers added": {**SECOND, **numbers, **added, "n": 1000},
    }  # fmt: skip
    found = {}
    for name, more in requests.items():
        spec = MOE_GEMM.spec(MOE_GEMM.problem(**{**keys, **more}), target)
        found[name] = (spec.block[:2], spec.schedule)
        if spec.block[0] == 160:
            kernel = compile_kernel(MOE_GEMM, spec, target)
            metadata = kernel.code_object.kernel(kernel.kernel_name).metadata
            assert (metadata.vgpr_spill_count, metadata.sgpr_spill_count, metadata.private_segment_size) == (0, 0, 0)
    high, low = ((160, 256), "async_narrow"), ((32, 64), "compv3")
    assert found == {
        "down": high, "gated": ((160, 64), "async_late"), "narrow": low, "rows end": high,
        "units of 320": ((64, 128), "async_single"), "single elements": low, "numbers": high, "numbers added": low,
    }  # fmt: skip
    assert MOE_GEMM.spec(MOE_GEMM.problem(**keys, **entry), target).slices == (5, 1)
    assert MOE_GEMM.spec(MOE_GEMM.problem(**keys, **entry), GFX942).block[0] == 32


@pytest.mark.parametrize("op", [None, "silu(gate) * up"])
@pytest.mark.parametrize("dtype", ["bf16", "fp8"])
def test_rows_aligned_to_an_element_take_high_blocks(dtype: str, op: str | None) -> None:
    """As rows of whole vectors do, with 64 elements along K, of which a lane loads each by itself."""
    problem = MOE_GEMM.problem(t=4096, n=1024, k=1025, unit=128, dtype=dtype, op=op)
    assert MOE_GEMM.spec(problem, GFX942).block == (128, 128, 64)


GROUPS_OF_64 = {"dtype": "fp8", "b_dtype": "i4", "a_scale": "1x64", "b_scale": "1x64"}
SCALED: list[tuple[str, dict[str, Any]]] = [
    ("gfx950", {"t": 5, "e": 1, "topk": 1, "unit": 128, "k": 40, **GROUPS_OF_64}),
    ("gfx942", {"t": 9, "unit": 16, "k": 260, **GROUPS_OF_64, "b_scale": "1x128", "shuffled": 16, **FIRST}),
    ("gfx950", {"t": 9, "unit": 128, "k": 64, **GROUPS_OF_64, "b_dtype": "fp8", **FIRST}),
    ("gfx942", {"t": 9, "unit": 16, "k": 258, "dtype": "fp8", "a_scale": "1x64", "b_scale": "1x128", **FIRST}),
    ("gfx942", {"t": 9, "unit": 16, "k": 258, "dtype": "fp8", "a_scale": "mx", "b_scale": "mx"}),
    ("gfx90a", {"t": 9, "unit": 128, "k": 64, "dtype": "i8", "a_scale": "1x32", "b_scale": "1x32"}),
]


@pytest.mark.parametrize(
    ("chip", "keys"), [*SCALED[:2], *(pytest.param(*case, marks=pytest.mark.full) for case in SCALED[2:])]
)
def test_scales_leave_registers(chip: str, keys: dict[str, Any]) -> None:
    """Several groups in a step, and narrow loads of a lone wave, take more waves or smaller blocks: nothing is
    spilled, and defaults are right.
    """
    asked = {"n": 130, **keys}
    metadata = compiled("moe_gemm", tuple(asked.items()), chip).kernel.code_object.kernel().metadata
    assert (metadata.vgpr_spill_count, metadata.sgpr_spill_count, metadata.private_segment_size) == (0, 0, 0)
    agree("moe_gemm", chip, **asked)


@pytest.mark.parametrize(
    ("chip", "keys"), [*NARROW[:3], *(pytest.param(*case, marks=pytest.mark.full) for case in NARROW[3:])]
)
def test_rows_aligned_to_an_element_have_registers(chip: str, keys: dict[str, Any]) -> None:
    """Loads of one element, of rows that may not exist, each compared with the end of K, and packed elements that are
    turned; numbers of rows that a list tells beside single elements of C, or pairs that memory adds: defaults are
    right, and spill nothing."""
    asked = {"t": 150, "n": 130, "k": 333, **keys}
    metadata = compiled("moe_gemm", tuple(asked.items()), chip).kernel.code_object.kernel().metadata
    assert (metadata.vgpr_spill_count, metadata.sgpr_spill_count, metadata.private_segment_size) == (0, 0, 0)
    agree("moe_gemm", chip, **asked)
