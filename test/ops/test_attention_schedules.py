"""Attention's schedules in machine code, and the one that pins the next K tile's LDS read between the products: its
racing orders are refused. `test_schedule_grid.py` proves and runs them all.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import pytest
from checked_runs import compiled, usual_way
from operator_runner import outcome

from ckmlir.codeobject import CodeObject
from ckmlir.compiler import compile_kernel
from ckmlir.dialect.schedule import Schedule, ScheduleError
from ckmlir.mlir import ir
from ckmlir.ops import find_operator
from ckmlir.ops.schedules import ATTENTION
from ckmlir.passes.check_schedule import check_module
from ckmlir.passes.loop_body import stage_of
from ckmlir.passes.pipeline import PipelineFailure
from ckmlir.passes.walk import functions
from ckmlir.runtime import check_outputs, run_operator
from ckmlir.runtime.simulator_device import SimulatorDevice
from ckmlir.scheduling import Workbench
from ckmlir.scheduling.machine_loop import steady_loop
from ckmlir.sim.checks.finding import parse_checks
from ckmlir.targets import get_target

FMHA = find_operator("fmha_fwd")


def bench(chip: str, dtype: str, schedule: str, d: int = 128) -> Workbench:
    target = get_target(chip)
    return Workbench.of(FMHA, FMHA.spec(FMHA.problem(d=d, dtype=dtype, schedule=schedule), target), target)


@pytest.mark.parametrize(("chip", "dtype", "why"), [
    ("gfx942", "f16", "gfx942 has no reads of LDS that transpose"),
    ("gfx90a", "bf16", "gfx90a has no reads of LDS that transpose"),
    ("gfx942", "fp8", "gfx942 has no reads of LDS that transpose fp8"),
    ("gfx950", "f32", "gfx950 has no reads of LDS that transpose f32"),
])  # fmt: skip
def test_copies_of_v_are_refused(chip: str, dtype: str, why: str) -> None:
    """Where V cannot be transposed on its way from LDS, the reason says so and names what can be had."""
    target = get_target(chip)
    spec = FMHA.spec(FMHA.problem(dtype=dtype, schedule="qr_async_trload"), target)
    (reason,) = FMHA.validate(spec, target)
    assert reason.field == "schedule" and why in reason.why and "qr_async" in reason.right


@pytest.mark.parametrize(("chip", "keys", "why"), [
    ("gfx942", {"schedule": "qr_woven", "dtype": "fp8"}, "it makes weights 2 at a time, which fill no register in fp8"),
    ("gfx950", {"schedule": "qr_woven_async_far", "d": 256}, "needs 262144 bytes of LDS"),
    ("gfx90a", {"schedule": "qr_woven_async"}, "gfx90a has no reads of LDS that transpose"),
    ("gfx90a", {"schedule": "qr_woven", "d": 256, "dtype": "f32", "dropout": 0.2}, "bytes of LDS"),
])  # fmt: skip
def test_woven_schedules_are_refused(chip: str, keys: dict[str, Any], why: str) -> None:
    """What has no registers, pairs or copies for them, in words."""
    target = get_target(chip)
    (reason, *_) = FMHA.validate(FMHA.spec(FMHA.problem(**keys), target), target)
    assert why in reason.why


FOUR = [("gfx950", "sparse_attention", {"schedule": "qr_woven_async", "block_q": 64})]
MORE_OF_FOUR = [
    (chip, name, {"schedule": schedule, **keys})
    for chip, schedule in (("gfx90a", "qr_woven"), ("gfx942", "qr_woven"), ("gfx950", "qr_woven"),
                           ("gfx950", "qr_woven_async"))
    for name, keys in (("sparse_attention", {"block_q": 64}), ("fmha_fwd", {"dropout": 0.2, "randval": 1}),
                       ("fmha_fwd", {"dropout": 0.2, "bias": "one", "mask": "bottom_right", "dtype": "bf16"}))
    if (chip, name, {"schedule": schedule, **keys}) not in FOUR
]  # fmt: skip


@pytest.mark.parametrize(
    ("chip", "name", "keys"), [*FOUR, *(pytest.param(*one, marks=pytest.mark.full) for one in MORE_OF_FOUR)], ids=str
)
def test_four_waves_weave_where_eight_do_not_fit(chip: str, name: str, keys: dict[str, Any]) -> None:
    """By name: for blocks of 64 queries, and with parts that leave two waves of a SIMD too few registers. They are
    proved, spill no vector register and agree with the reference."""
    operator, target = find_operator(name), get_target(chip)
    request = {"h": 1, "sq": 100, "sk": 300, "d": 128, **keys}
    spec = operator.spec(operator.problem(**request), target)
    assert spec.waves == 4
    bench = Workbench.of(operator, spec, target)
    assert bench.compile(bench.schedule, code=False).findings == ()
    kernel = compile_kernel(operator, spec, target)
    metadata = kernel.code_object.kernel(kernel.kernel_name).metadata
    assert (metadata.vgpr_spill_count, metadata.private_segment_size) == (0, 0)
    outcome(operator, chip, request)


MASKED: list[tuple[str, dict[str, Any]]] = [
    ("gfx942", {"mask": "window:512,0", "sk": 4000}), ("gfx90a", {"mask": "bottom_right", "sk": 4000}),
    ("gfx90a", {"mask": "window:512,0"}), ("gfx942", {"mask": "window_bottom_right:512,0,4", "dtype": "bf16"}),
    ("gfx942", {"mask": "window:512,0", "sk": 4000, "sink": 1}), ("gfx90a", {"mask": "window:512,100", "sk": 4000}),
    ("gfx90a", {"mask": "window_bottom_right:512,0,4"}),
]  # fmt: skip


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    ("chip", "keys"), [*MASKED[:2], *(pytest.param(*one, marks=pytest.mark.full) for one in MASKED[2:])], ids=str
)
def test_masks_that_are_woven_by_name_spill_nothing(chip: str, keys: dict[str, Any]) -> None:
    """With 16 queries a wave, where blocks of 256 queries would spill two to four registers."""
    target = get_target(chip)
    problem = FMHA.problem(**{"h": 32, "sq": 4096, "d": 128, "schedule": "qr_woven", **keys})
    spec = FMHA.spec(problem, target)
    assert spec.block[0] == 128 and not FMHA.validate(spec, target)
    kernel = compile_kernel(FMHA, spec, target)
    metadata = kernel.code_object.kernel(kernel.kernel_name).metadata
    assert (metadata.vgpr_spill_count, metadata.sgpr_spill_count, metadata.private_segment_size) == (0, 0, 0)


TILES = [(d, dv, "qr_woven") for d in (32, 64, 96, 128) for dv in (32, 64, 96, 128)]
FEW_PRODUCTS = [(32, 32, "qr_woven"), (96, 128, "qr_woven"), (128, 64, "qr_woven")]
"""Heads of which the writes of K would lie behind reads that lead, if they were spread over the whole product."""
FEWER = [(128, 64, "qr_woven_bytes"), (64, 32, "qr_woven_deep"), (256, 16, "qr_woven_deep")]
"""Of which they lie there with the matrix instructions that take the most channels of V: others are taken."""


@pytest.mark.full
@pytest.mark.parametrize(
    ("d", "dv", "schedule"),
    [*(one if one in FEW_PRODUCTS else pytest.param(*one, marks=pytest.mark.full) for one in TILES), *FEWER],
)
def test_woven_reads_find_every_head(d: int, dv: int, schedule: str) -> None:
    """With the matrix instructions of gfx950, few of which make a product: proved, clean, and right."""
    target = get_target("gfx950")
    dtype = "f16" if schedule == "qr_woven" else "fp8"
    problem = FMHA.problem(h=1, sq=260, sk=330, d=d, dv=dv, schedule=schedule, dtype=dtype)
    one = Workbench.of(FMHA, FMHA.spec(problem, target), target)
    with one.context:
        assert check_module(ir.Module.parse(one.compile(one.schedule, code=False).fragments)) == []
    arrays = FMHA.inputs(problem, target, seed=3)
    result = run_operator(FMHA, problem, arrays, target, SimulatorDevice(target, seed=4, checks=parse_checks("all")))
    assert all(one.ok for one in check_outputs(FMHA, problem, arrays, result.outputs, target))


@pytest.mark.one_in(6)
@pytest.mark.parametrize(("chip", "dtype"), [("gfx950", "fp8"), ("gfx942", "fp8"), ("gfx90a", "f16")])
@pytest.mark.parametrize("schedule", ["qr_async", "qr_async_pinned", "qr_async_ping_pong"])
def test_copies_of_96_channels(chip: str, dtype: str, schedule: str) -> None:
    """64 lanes side by side make no whole rows of 96 channels: copies fill tiles of 128, other ways those of 96."""
    target = get_target(chip)
    problem = FMHA.problem(h=1, sq=128, sk=192, d=96, dtype=dtype, schedule=schedule)
    spec = FMHA.spec(problem, target)
    assert FMHA.validate(spec, target) == [] and (spec.d_tile, spec.dv_tile) == (128, 96)
    assert FMHA.spec(FMHA.problem(d=96, dtype=dtype, schedule="qr"), target).d_tile == 96
    arrays = FMHA.inputs(problem, target, seed=1)
    result = run_operator(FMHA, problem, arrays, target, SimulatorDevice(target, checks=parse_checks("all")))
    assert all(one.ok for one in check_outputs(FMHA, problem, arrays, result.outputs, target))


def instructions(chip: str, schedule: str, dtype: str = "f16") -> tuple[Any, ...]:
    keys = (("h", 1), ("d", 128), ("dtype", dtype), ("schedule", schedule))
    one = compiled("fmha_fwd", keys, chip)
    return steady_loop(CodeObject.parse(one.kernel.hsaco), one.kernel.kernel_name).instructions


@pytest.mark.one_in(3)
@pytest.mark.parametrize(("chip", "schedule", "copies", "width", "barriers"), [
    ("gfx950", "qr_async", 4, "dwordx4", 2),
    ("gfx942", "qr_async", 16, "dword", 2),
    ("gfx950", "qr_async_trload", 8, "dwordx4", 1),
])  # fmt: skip
def test_machine_code_of_direct_copies(chip: str, schedule: str, copies: int, width: str, barriers: int) -> None:
    """A step copies with the widest instruction of the chip, and waves meet as seldom as the LDS buffers allow."""
    code = instructions(chip, schedule)
    direct = [one for one in code if one.mnemonic.startswith("buffer_load") and one.modifiers.get("lds")]
    assert {one.mnemonic for one in direct} == {f"buffer_load_{width}"}
    steps = len(direct) // copies
    assert len(direct) == steps * copies and steps in (1, 2)
    assert sum(one.mnemonic == "s_barrier" for one in code) == steps * barriers
    assert any(one.mnemonic == "ds_read_b64_tr_b16" for one in code) == (chip == "gfx950")


@pytest.mark.one_in(3)
@pytest.mark.parametrize(("chip", "schedule", "vector", "barriers", "waits"), [
    ("gfx942", "qr_woven", 230, 1, 52), ("gfx950", "qr_woven_async", 280, 2, 62),
])  # fmt: skip
def test_machine_code_of_woven_loops(chip: str, schedule: str, vector: int, barriers: int, waits: int) -> None:
    """For 64 matrix instructions at most so much of the others, without what waves branch around; and the exponentials
    stand between them, a few behind each, not in one block.
    """
    code = usual_way(instructions(chip, schedule, "bf16"))
    names = [one.mnemonic for one in code]
    matrix = [place for place, name in enumerate(names) if name.startswith("v_mfma")]
    tiles = len(matrix) // 64
    assert len(matrix) == 64 * tiles
    assert sum(name.startswith("v_") for name in names) - len(matrix) <= vector * tiles
    assert names.count("s_barrier") == barriers * tiles and names.count("s_waitcnt") <= waits * tiles
    assert not any(name.startswith("scratch") for name in names)
    behind = [names[first:last].count("v_exp_f32") for first, last in itertools.pairwise(matrix)]
    assert max(behind) <= 8 and sum(count > 0 for count in behind) >= len(matrix) // 5


# -- computed orders

COMPUTED = ("order interleave", "order interleave; reads 0; fences memory", "order chunks", "order interwave",
            "order ping_pong; groups 2")  # fmt: skip
RUNNING_AHEAD = "schedule computed 1; ahead load_k 2, load_v 2, k_lds 1, v_lds 1; {}; buffers 2"


@pytest.mark.one_in(3)
@pytest.mark.parametrize(("chip", "order"), [
    ("gfx942", COMPUTED[0]), ("gfx950", COMPUTED[2]), ("gfx90a", COMPUTED[4]),
    *(pytest.param(chip, one, marks=pytest.mark.full) for chip in ("gfx90a", "gfx942", "gfx950") for one in COMPUTED),
])  # fmt: skip
def test_computed_orders(chip: str, order: str) -> None:
    """Q's operands are there before the loop, and one product is made of the other: every computed order is proved, and
    right.
    """
    target = get_target(chip)
    problem = FMHA.problem(h=1, sq=100, sk=330, d=64, dtype="f16", schedule="qr")
    made = Workbench.of(FMHA, FMHA.spec(problem, target), target).compile(Schedule.parse(RUNNING_AHEAD.format(order)))
    assert made.findings == () and made.compiled is not None
    arrays = FMHA.inputs(problem, target, seed=1)
    device = SimulatorDevice(target, checks=parse_checks("all"))
    result = run_operator(FMHA, problem, arrays, target, device, compiled=made.compiled)
    assert all(one.ok for one in check_outputs(FMHA, problem, arrays, result.outputs, target))


def test_a_product_of_products_comes_behind_them() -> None:
    """In chunks, V is read when Q times K is done, not beside the parts of K that have the same number."""
    chunks = Schedule.parse(RUNNING_AHEAD.format("order chunks"))
    fragments = bench("gfx942", "f16", "qr", d=64).compile(chunks, code=False).fragments
    stages = re.findall(r"\"ck\.(?:lds_read|mfma)\".*ck\.stage = \"(\w+)\"", fragments)
    step = stages[: stages.index("pv") + 1]
    assert step.index("v_read") > len(step) - 1 - step[::-1].index("qk")


# -- the next K tile's LDS read between PV and QK


def test_the_next_k_read_is_pinned_between_the_products() -> None:
    """In the steady loop: V's reads, PV, one barrier, K's reads, QK."""
    code = instructions("gfx950", "qr_async_pinned", "fp8")
    matrix = [place for place, one in enumerate(code) if one.mnemonic.startswith("v_mfma")]
    # 4 instructions of 32x32x64 each: 64 keys x 128 channels of K by 32 queries, 128 channels of V by 64 keys.
    pv, qk = matrix[:4], matrix[4:]
    assert len(qk) == 4
    reads = [place for place, one in enumerate(code) if one.mnemonic.startswith("ds_read")]
    k_reads = [place for place in reads if place > pv[-1]]
    assert {code[place].mnemonic for place in k_reads} == {"ds_read_b128"} and len(k_reads) == 8
    v_reads = [code[place].mnemonic for place in reads if place < pv[-1]]
    assert v_reads == ["ds_read_b64_tr_b8"] * 16
    assert all(place < qk[0] for place in k_reads)
    between = [one.mnemonic for one in code[pv[-1] : k_reads[0]]]
    assert between.count("s_barrier") == 1


def read_registers(code: Sequence[Any]) -> set[str]:
    """Registers that LDS reads of 16 bytes, or of 8 that are turned, write."""
    found: set[str] = set()
    for one in code:
        match = re.match(r"ds_read_b(?:128|64_tr_b8) v\[(\d+):(\d+)\]", one.text)
        if match:
            found |= {f"v{number}" for number in range(int(match[1]), int(match[2]) + 1)}
    return found


@pytest.mark.parametrize("chip", ["gfx942", "gfx950"])
def test_tiles_of_k_and_v_have_registers_of_their_own(chip: str) -> None:
    """The next K tile is read, behind PV, into registers that no read of V ever writes."""
    code = instructions(chip, "qr_async_pinned", "fp8")
    products = [place for place, one in enumerate(code) if one.mnemonic.startswith("v_mfma")]
    pv_ends = products[len(products) // 2 - 1]
    v, k = read_registers(code[:pv_ends]), read_registers(code[pv_ends:])
    assert (len(k), len(v)) == (32, 32)  # 64 keys x 128 channels of fp8 by 64 lanes, each
    assert not k & v


@pytest.mark.parametrize(("apart", "why"), [("k, w", "speaks of LDS tensor 'w'"), ("k", "takes two or more tensors")])
def test_what_cannot_be_kept_apart_is_refused(apart: str, why: str) -> None:
    """Tensors that the loop lacks, or a single one."""
    with pytest.raises((PipelineFailure, ScheduleError), match=why):
        pinned().compile(edited("apart k, v", f"apart {apart}"), code=False)


def edited(old: str, new: str) -> Schedule:
    text = ATTENTION["qr_async_pinned"]
    assert text.count(old) == 1
    return Schedule.parse(text.replace(old, new))


@lru_cache(maxsize=1)
def pinned() -> Workbench:
    return bench("gfx950", "fp8", "qr_async_pinned", d=64)


RACING = {
    "K read above the copy that fills its slot": (
        "load_k, load_v, prepare, fence, top, exp, fence, load_s, v_read, rescale, pv, fence, k_read",
        "k_read, fence, top, exp, load_s, v_read, rescale, pv, load_k, load_v, prepare",
        "reads an LDS tensor before it is written",
    ),
    "the slot filled again before it was read": (
        "load_k 1", "load_k 2", "overwrites an LDS tensor that is still to be read",
    ),
    "K multiplied before it is read": (
        "fence, k_read, fence, qk", "fence, qk, fence, k_read", "runs this before what it uses",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("old", "new", "why"), list(RACING.values()), ids=list(RACING))
def test_racing_orders_are_refused_by_the_pass(old: str, new: str, why: str) -> None:
    """One edit of the text each; the message says what would happen."""
    with pytest.raises(PipelineFailure, match=why):
        pinned().compile(edited(old, new), code=False)


def test_k_read_above_pv_keeps_its_barrier() -> None:
    """Above PV but behind the copy it is right: the barrier and the wait move with it. So the checker accepts it."""
    early = edited("load_s, v_read, rescale, pv, fence, k_read", "k_read, load_s, v_read, rescale, pv, fence")
    assert pinned().compile(early, code=False).findings == ()


@pytest.mark.parametrize("rising_above", ["the barrier", "PV"])
def test_racing_reads_are_refused_by_the_checker(rising_above: str) -> None:
    """The reads alone moved, without the wait and the barrier before them: other waves' copies may be under way. Above
    PV they have left the fence too that pins them behind it.
    """
    one = pinned()
    with one.context:
        module = ir.Module.parse(one.compile(one.schedule, code=False).fragments)
        assert check_module(module) == []
        block, reads = steady_reads(module)
        above = list(block)[: list(block).index(reads[0])]
        wanted = "ck.barrier" if rising_above == "the barrier" else "ck.mfma"
        places = [op for op in above if op.name == wanted]
        target = places[-1] if wanted == "ck.barrier" else next(op for op in places if stage_of(op) == "pv")
        for read in reads:
            read.move_before(target)
        found = check_module(module)
    assert {finding.check for finding in found} == {"hazard", *(["fence"] if rising_above == "PV" else [])}
    assert all("LDS tensor 'k'" in finding.message for finding in found if finding.check == "hazard")


def steady_reads(module: ir.Module) -> tuple[list[ir.Operation], list[ir.Operation]]:
    """The operations of the block that holds both products, and its reads of K."""
    (function,) = functions(module)
    for block in function.regions[0]:
        ops = [op.operation for op in block]
        stages = [stage_of(op) for op in ops if op.name == "ck.mfma"]
        if "pv" in stages and "qk" in stages and stages.index("pv") < stages.index("qk"):
            return ops, [op for op in ops if op.name == "ck.lds_read" and stage_of(op) == "k_read"]
    raise AssertionError("no block holds PV before QK")
