"""Products whose steps along K workgroups share evenly: numbers, the same bits in any order, how work is dealt out."""

from __future__ import annotations

import itertools
from functools import partial
from math import prod
from typing import Any

import numpy as np
import pytest
from operator_runner import CHIPS

from ckmlir.compiler import compile_kernel
from ckmlir.ops import find_operator
from ckmlir.ops.comparison import Array
from ckmlir.ops.contraction.block_resources import workgroups_a_unit
from ckmlir.ops.contraction.contraction_spec import OUTPUTS
from ckmlir.ops.gemm.streamk_gemm import MOST_SHARERS, REDUCTIONS, Shares, sharers_that_pay
from ckmlir.ops.plan import FillStep, make_plan
from ckmlir.ops.request import RequestError
from ckmlir.runtime import open_device
from ckmlir.runtime.run import check_outputs, run_operator
from ckmlir.runtime.simulator_device import SimulatorDevice
from ckmlir.runtime.timing import OperatorModel
from ckmlir.scheduling.machine_loop import steady_loop
from ckmlir.scheduling.workbench import Workbench
from ckmlir.sim.analysis import check_waits
from ckmlir.sim.timing.parameters import load
from ckmlir.targets import get_target

STREAM = find_operator("streamk_gemm")
GFX942 = get_target("gfx942")
SMALL: dict[str, Any] = {"block": "64x64x64", "m": 130, "n": 200, "k": 333}
REQUESTS: tuple[dict[str, Any], ...] = (
    {**SMALL, "workgroups": 5},
    {**SMALL, "workgroups": 11, "dtype": "bf16", "layout": "RRR"},
    {**SMALL, "workgroups": 31, "op": "gelu(acc + d0) * d1", "d_kind": "row,full", "layout": "CRR"},
    {**SMALL, "workgroups": 7, "m": 1, "n": 65, "k": 1000, "out": "f32"},
    {**SMALL, "workgroups": 3, "k": 0, "op": "acc + d0", "d_kind": "scalar"},
    {**SMALL, "workgroups": 13, "dtype": "i8", "layout": "CCR"},
    {**SMALL, "workgroups": 10, "dtype": "fp8", "out": "bf16"},
    {**SMALL, "workgroups": 10, "dtype": "f64", "op": "acc * alpha", "alpha": 0.5},
    {**SMALL, "workgroups": 9, "dtype": "f32", "layout": "RRR"},
)


def outputs(chip: str, seed: int = 1, checks: str = "", **keys: object) -> Array:
    """C of a request, which agrees with the reference."""
    target = get_target(chip)
    problem = STREAM.problem(**keys)
    arrays = STREAM.inputs(problem, target, seed=3)
    device = open_device("sim", target, seed=seed, checks=checks)
    result = run_operator(STREAM, problem, arrays, target, device, guarded=True)
    comparisons = check_outputs(STREAM, problem, arrays, result.outputs, target)
    assert all(one.ok for one in comparisons), "; ".join(map(str, comparisons))
    return result.outputs["c"]


def cases() -> list[Any]:
    found = []
    for number, (chip, request, reduction) in enumerate(itertools.product(CHIPS, range(len(REQUESTS)), REDUCTIONS)):
        marks = [] if number % 7 == 0 else [pytest.mark.full]
        found.append(pytest.param(chip, request, reduction, marks=marks))
    return found


@pytest.mark.one_in(12)
@pytest.mark.parametrize(("chip", "number", "reduction"), cases())
def test_products_that_are_shared(chip: str, number: int, reduction: str) -> None:
    """Types, layouts and expressions, blocks of one workgroup and of many, under all checkers and between guard bytes;
    what memory does not add, or the chip not multiply, is refused.
    """
    keys: dict[str, Any] = {**REQUESTS[number], "reduction": reduction}
    problem, target = STREAM.problem(**keys), get_target(chip)
    reasons = STREAM.validate(STREAM.spec(problem, target), target)
    if reasons:
        assert reduction == "atomic" or keys.get("dtype") == "fp8", reasons
        with pytest.raises(RequestError):
            outputs(chip, **keys)
        return
    outputs(chip, checks="all", **keys)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("reduction", ["linear", "tree"])
def test_workgroups_that_do_not_share_do_nothing_more(reduction: str) -> None:
    """Of as many as the chip holds, where few pay for a block: behind their whole blocks the others have no step."""
    target = get_target("gfx950")
    problem = STREAM.problem(m=32 * 17, n=32 * 32, k=64 * 16, block="32x32x64", wave="1x1", reduction=reduction)
    spec = STREAM.spec(problem, target)
    shares = STREAM.shares(problem, spec, target)
    assert (shares.workgroups, shares.whole, shares.sharers) == (512, 512, 128)
    device = SimulatorDevice(target)
    arrays = STREAM.inputs(problem, target, seed=1)
    result = run_operator(STREAM, problem, arrays, target, device)
    assert all(one.ok for one in check_outputs(STREAM, problem, arrays, result.outputs, target))
    assert device.last_statistics is not None
    assert device.last_statistics.mfma == prod((problem.m, problem.n, problem.k)) // prod(spec.mfma)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("reduction", ["linear", "tree"])
def test_the_same_bits_in_any_order(reduction: str) -> None:
    """Workgroups begin in an order that depends on the seed."""
    keys = {**SMALL, "workgroups": 17, "out": "f32", "reduction": reduction}
    assert len({outputs("gfx942", seed, **keys).tobytes() for seed in range(4)}) == 1


def test_how_sums_are_put_together() -> None:
    """One block of 4 steps for 4 workgroups, of numbers of which the order decides: ((a + b) + c) + d, or
    (a + b) + (c + d).
    """
    terms = [2.0**24, 1.0, 1.0, 1.0]
    a = np.zeros((64, 256), np.float16)
    b = np.zeros((64, 256), np.float16)
    for step, term in enumerate(terms):
        a[:, 64 * step], b[:, 64 * step] = np.sqrt(term), np.sqrt(term)
    found = {}
    for reduction in ("linear", "tree"):
        problem = STREAM.problem(m=64, n=64, k=256, block="64x64x64", workgroups=4, out="f32", reduction=reduction)
        result = run_operator(STREAM, problem, {"a": a, "b": b}, GFX942, open_device("sim", GFX942))
        found[reduction] = set(result.outputs["c"].reshape(-1).tolist())
    assert found == {"linear": {2.0**24}, "tree": {2.0**24 + 2}}


def test_sums_are_added_by_pairs_unless_a_request_says_otherwise() -> None:
    assert STREAM.spec(STREAM.problem(m=256, n=256, k=256), GFX942).sink == "tree"


@pytest.mark.parametrize("chip", [
    pytest.param("gfx90a", marks=pytest.mark.full), "gfx942", pytest.param("gfx950", marks=pytest.mark.full),
])  # fmt: skip
def test_kernels_are_proved_and_spill_nothing(chip: str) -> None:
    """The loop, in the loop over shares, between waits for others; no vector arithmetic in the steady loop."""
    target = get_target(chip)
    for reduction in REDUCTIONS:
        spec = STREAM.spec(STREAM.problem(m=256, n=256, k=256, out="f32", reduction=reduction), target)
        bench = Workbench.of(STREAM, spec, target)
        assert bench.compile(bench.schedule, code=False).findings == ()
        kernel = compile_kernel(STREAM, spec, target)
        found = kernel.code_object.kernel(kernel.kernel_name).metadata
        assert (found.vgpr_spill_count, found.sgpr_spill_count, found.private_segment_size) == (0, 0, 0)
        mix = steady_loop(kernel.code_object, kernel.kernel_name).mix
        assert mix["valu"] == 0 and mix["salu"] <= 10


@pytest.mark.parametrize(("chip", "dtype"), [
    pytest.param(chip, dtype, marks=[] if (chip, dtype) == ("gfx90a", "i8") else [pytest.mark.full])
    for chip in CHIPS for dtype in OUTPUTS
])  # fmt: skip
def test_odd_sizes_spill_nothing(chip: str, dtype: str) -> None:
    """What finds a workgroup's blocks stays in scalar registers beside what loads are compared for."""
    target = get_target(chip)
    spec = STREAM.spec(STREAM.problem(m=1001, n=1003, k=999, dtype=dtype, layout="CRR"), target)
    if STREAM.validate(spec, target):
        assert not target.mfmas(dtype)
        return
    kernel = compile_kernel(STREAM, spec, target)
    found = kernel.code_object.kernel(kernel.kernel_name).metadata
    assert (found.vgpr_spill_count, found.sgpr_spill_count, found.private_segment_size) == (0, 0, 0)


@pytest.mark.parametrize(("chip", "keys", "each"), [
    ("gfx950", {"m": 4096, "n": 4097, "k": 1024, "dtype": "fp8", "out": "bf16"}, 2),
    *(pytest.param(*case, marks=pytest.mark.full) for case in (
        ("gfx950", {"m": 3072, "n": 4097, "k": 1000, "dtype": "f32", "layout": "CCR"}, 2),
        ("gfx90a", {"m": 4097, "n": 4097, "k": 1004, "dtype": "f64", "layout": "CRR"}, 1),
    )),
])  # fmt: skip
def test_a_device_holds_the_grid_by_default(chip: str, keys: dict[str, Any], each: int) -> None:
    """Kernels of which a compute unit held one workgroup where it was given two: 32 addresses of single elements of C
    lay in registers through the loop, and sums of others beside those of f64 took more than was counted."""
    target = get_target(chip)
    problem = STREAM.problem(**keys)
    spec = STREAM.spec(problem, target)
    kernel, launch = compile_kernel(STREAM, spec, target), STREAM.launch(problem, spec, target)
    assert workgroups_a_unit(spec, target) == each
    assert prod(launch.grid) <= target.compute_units * kernel.workgroups_a_unit(prod(launch.block))
    found = kernel.code_object.kernel(kernel.kernel_name).metadata
    assert (found.vgpr_spill_count, found.sgpr_spill_count, found.private_segment_size) == (0, 0, 0)


@pytest.mark.parametrize(("blocks", "depth", "workgroups"), [
    (1, 1, 1), (1, 8, 4), (5, 8, 4), (8, 8, 4), (342, 64, 304), (3, 1, 304), (304, 5, 304), (2, 7, 16), (9, 0, 4),
])  # fmt: skip
def test_all_steps_are_dealt_out_evenly(blocks: int, depth: int, workgroups: int) -> None:
    """Whole blocks and steps together are all there are; no two workgroups differ by more than a step."""
    depth = max(depth, 1)
    shares = Shares.of(blocks, depth, workgroups)
    assert shares.whole * depth + shares.sharers * shares.steps + shares.longer == blocks * depth
    assert shares.longer < shares.workgroups <= workgroups
    if shares.steps:
        assert shares.whole % shares.workgroups == 0 and blocks - shares.whole < shares.workgroups == shares.sharers
    else:
        assert shares.longer == 0 and shares.workgroups == min(blocks, workgroups)


@pytest.mark.parametrize(("blocks", "depth", "workgroups", "most", "units", "wanted"), [
    (16, 64, 512, 4, 256, 64), (16, 64, 512, 16, 256, 256), (64, 64, 512, 16, 256, 512), (38, 64, 304, 4, 304, 152),
    (64, 16, 512, 16, 256, 256),  # four steps each
    (16, 61, 512, 4, 256, 64), (1, 8, 2, 4, 304, 2), (1, 2, 2, 4, 304, 0),  # no equal parts
])  # fmt: skip
def test_how_many_share(blocks: int, depth: int, workgroups: int, most: int, units: int, wanted: int) -> None:
    """As many of a block as have equal parts of it, that many for a compute unit or all."""
    assert sharers_that_pay(blocks, depth, workgroups, most, units, 0.02) == wanted


@pytest.mark.parametrize(("blocks", "moved", "wanted"), [
    (138, 0.02, 0),  # 276 would be two on some compute units and one on others; 512 read more than memory gives
    (342, 0.02, 0), (138, 0.001, 512), (300, 0.01, 512), (300, 0.02, 0),
])  # fmt: skip
def test_blocks_are_taken_whole_where_memory_would_take_longer(blocks: int, moved: float, wanted: int) -> None:
    """Of 64 steps, by 512 workgroups with parts that are not equal."""
    found = partial(sharers_that_pay, workgroups=512, most=16, units=256, moved=moved)
    assert found(blocks, 64) == wanted
    shares = Shares.of(512 + blocks, 64, 512, found)
    assert (shares.whole, shares.sharers) == ((512, wanted) if wanted else (512 + blocks, 0))


@pytest.mark.parametrize(("chip", "sizes", "sharers"), [
    ("gfx950", (3328, 3200), 0), ("gfx950", (2304, 2432), 0), ("gfx950", (3072, 3072), 512),
    ("gfx90a", (1536, 1792), 110), ("gfx942", (3072, 2560), 304),
])  # fmt: skip
def test_more_than_half_of_a_round(chip: str, sizes: tuple[int, int], sharers: int) -> None:
    """No number of workgroups has equal parts of what is left, of 26 x 25 blocks say."""
    target, problem = get_target(chip), STREAM.problem(m=sizes[0], n=sizes[1], k=4096)
    spec = STREAM.spec(problem, target)
    assert STREAM.shares(problem, spec, target).sharers == sharers
    assert STREAM.launch(problem, spec, target).resident == (sharers > 0)


def test_sharers_of_a_request() -> None:
    """In order four of a block, by pairs up to sixteen; all that a request names, and all where memory adds."""
    keys: dict[str, Any] = {"m": 2304, "n": 2432, "k": 4096}
    for more, wanted in (({"reduction": "linear"}, 152), ({}, 304), ({"reduction": "atomic"}, 304),
                         ({"reduction": "linear", "workgroups": 300}, 300)):  # fmt: skip
        problem = STREAM.problem(**keys, **more)
        assert STREAM.shares(problem, STREAM.spec(problem, GFX942), GFX942).sharers == wanted


@pytest.mark.one_in(2)
@pytest.mark.parametrize("reduction", ["linear", "tree"])
def test_sums_of_others_are_on_their_way_while_the_next_are_waited_for(reduction: str) -> None:
    """In the loop that adds them: loads, then the wait for a flag, then additions."""
    spec = STREAM.spec(STREAM.problem(m=256, n=256, k=256, reduction=reduction), GFX942)
    text = str(compile_kernel(STREAM, spec, GFX942, keep=("tile",)).artifacts["tile"])
    _, _, loop = text.rpartition("scf.while")
    places = [loop.index(word) for word in ("ck.load", "ck.await_flag", "arith.addf", "ck.release")]
    assert places == sorted(places)


def test_b_goes_past_lds_as_in_gemm() -> None:
    target = get_target("gfx950")
    spec = STREAM.spec(STREAM.problem(m=3072, n=3072, k=4096), target)
    assert (spec.schedule, spec.waves, spec.block) == ("straight", (1, 4), (128, 128, 64))


@pytest.mark.full
@pytest.mark.parametrize("reduction", ["linear", "tree"])
def test_fewer_cycles_than_a_workgroup_for_each_block(reduction: str) -> None:
    """Of 1.1 blocks for each workgroup that gfx950 holds, by the model."""
    parameters, target = load("gfx950"), get_target("gfx950")

    def cycles(name: str, **keys: object) -> float:
        operator = find_operator(name)
        problem = operator.problem(m=3072, n=3072, k=4096, **keys)
        return OperatorModel(operator, problem, target, parameters, mode="sampled").under(parameters).grid.cycles

    assert cycles("streamk_gemm", reduction=reduction) < 0.85 * cycles("gemm", split_k=1)


def test_what_is_queued() -> None:
    """Flags are zero before; C where memory adds to it. Workgroups that wait have to run at a time."""
    for reduction, spaces in (("linear", ["flags", "sums"]), ("atomic", [])):
        problem = STREAM.problem(**SMALL, workgroups=5, reduction=reduction)
        plan = make_plan(STREAM, problem, GFX942)
        assert isinstance(plan.steps[0], FillStep) and [one.name for one in plan.workspaces] == spaces
        (step,) = plan.kernels
        assert step.launch.grid == (5, 1, 1) and step.launch.resident == bool(spaces)
    whole = STREAM.problem(m=128, n=128, k=64, block="64x64x64", workgroups=2)
    assert not STREAM.launch(whole, STREAM.spec(whole, GFX942), GFX942).resident
    assert not make_plan(STREAM, STREAM.problem(m=0), GFX942).steps


@pytest.mark.parametrize(("keys", "words"), [
    ({"workgroups": 0}, "workgroups=0: expected a whole number from 1"),
    ({"workgroups": 5000}, "streamk_gemm: workgroups=5000: they wait for each other, and gfx942 holds 304"),
    ({"reduction": "workspace"}, "expected linear|tree|atomic"),
    ({"reduction": "atomic", "op": "relu(acc)"}, "does not add up to op of their sum"),
    ({"reduction": "atomic", "n": 67}, "memory adds f16 in pairs"),
])  # fmt: skip
def test_requests_that_are_refused(keys: dict[str, Any], words: str) -> None:
    """Each is one error that says what is wrong."""
    with pytest.raises(RequestError, match=words):
        make_plan(STREAM, STREAM.problem(**keys), GFX942)


def test_workgroups_by_default() -> None:
    """As many as the chip holds, and no more than there is work for, or than pay to share it."""
    for size, wanted in ((4096, 304), (512, 16)):
        problem = STREAM.problem(m=size, n=size, k=64)
        spec = STREAM.spec(problem, GFX942)
        assert STREAM.launch(problem, spec, GFX942).grid[0] == wanted
    long = STREAM.problem(m=128, n=128, k=304 * 64)
    assert STREAM.launch(long, STREAM.spec(long, GFX942), GFX942).grid[0] == MOST_SHARERS["tree"]


@pytest.mark.parametrize("chip", ["gfx90a", *(pytest.param(chip, marks=pytest.mark.full) for chip in CHIPS[1:])])
def test_distances_between_loads_of_pairs_spill_nothing(chip: str) -> None:
    """Each four of 16 loads of a tile have theirs in scalar registers, beside what finds a workgroup's blocks."""
    target = get_target(chip)
    kernel = compile_kernel(STREAM, STREAM.spec(STREAM.problem(m=2048, n=2048, k=2050), target), target)
    assert kernel.code_object.kernel(kernel.kernel_name).metadata.sgpr_spill_count == 0


@pytest.mark.one_in(2)
@pytest.mark.parametrize("schedule", ["async", "async_late"])
def test_copies_to_lds_leave_scalar_registers(schedule: str) -> None:
    """Turns read arguments again around a loop that copies to LDS, where blocks do not divide the sizes."""
    target = get_target("gfx950")
    problem = STREAM.problem(m=300, n=500, k=1032, schedule=schedule)
    kernel = compile_kernel(STREAM, STREAM.spec(problem, target), target)
    assert kernel.code_object.kernel(kernel.kernel_name).metadata.sgpr_spill_count == 0


def test_sums_by_pairs_leave_scalar_registers() -> None:
    """Turns read arguments again where there are D tensors; kept through the loop, three were in lanes."""
    target = get_target("gfx90a")
    problem = STREAM.problem(m=56, n=2056, k=1464, dtype="bf16", op="alpha * acc + beta * d0", reduction="tree")
    kernel = compile_kernel(STREAM, STREAM.spec(problem, target), target)
    assert kernel.code_object.kernel(kernel.kernel_name).metadata.sgpr_spill_count == 0


@pytest.mark.parametrize("layout", [pytest.param("RCR", marks=pytest.mark.full), "RRR"])
@pytest.mark.parametrize("chip", ["gfx90a", pytest.param("gfx942", marks=pytest.mark.full)])
def test_full_matrices_beside_single_elements_leave_scalar_registers(chip: str, layout: str) -> None:
    """The numbers of wave and workgroup are computed anew behind the steady loop, who sets a flag is found there, and
    GELU chooses no sign: 23 to 31 scalar registers were in lanes."""
    target = get_target(chip)
    op = "gelu(acc + d0) * d1 + d2"
    problem = STREAM.problem(m=1000, n=1023, k=4096, dtype="bf16", layout=layout, op=op)
    kernel = compile_kernel(STREAM, STREAM.spec(problem, target), target)
    assert kernel.code_object.kernel(kernel.kernel_name).metadata.sgpr_spill_count == 0


def test_sums_of_others_have_room_beside_a_block() -> None:
    """Sums that are added to a block's are in registers beside it: 170 would be in scratch memory with 128 x 128."""
    keys = {"m": 512, "n": 512, "k": 512, "dtype": "f64", "wave": (2, 1)}
    assert STREAM.spec(STREAM.problem(**keys), GFX942).block == (64, 128, 16)
    assert STREAM.spec(STREAM.problem(**keys, reduction="atomic", out="f64"), GFX942).block == (128, 128, 16)


def test_a_block_beside_which_sums_of_others_have_no_room_is_refused() -> None:
    problem = STREAM.problem(m=511, n=511, k=256, block=(160, 256, 32), wave=(2, 2))
    why = "block=160x256x32: its sums, 160 a work-item, have no room beside those of other workgroups; expected a"
    with pytest.raises(RequestError, match=why):
        make_plan(STREAM, problem, GFX942)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("schedule", ["async_wide_carried", "async_wide_last"])
def test_slots_are_told_apart_without_a_run(schedule: str) -> None:
    """Six arrangements of slots, in a loop within the loop over blocks: a launch of one step clears no other."""
    problem, target = STREAM.problem(m=64, n=64, k=128, dtype="i8", schedule=schedule), get_target("gfx950")
    kernel = compile_kernel(STREAM, STREAM.spec(problem, target), target)
    assert not check_waits(kernel.code_object, kernel.kernel_name)
