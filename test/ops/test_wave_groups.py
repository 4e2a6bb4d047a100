"""Schedules whose groups of waves run out of phase, at the tiles they are made for: proved, without spills, right for
every trip count and order of the waves, without a finding; and in the machine code the phases that were asked for.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import pytest

from ckmlir.compiled_kernel import CompiledKernel
from ckmlir.compiler import compile_kernel
from ckmlir.dialect.schedule import Schedule
from ckmlir.mlir import ir
from ckmlir.ops import find_operator
from ckmlir.ops.dtypes import find_dtype
from ckmlir.ops.schedules import ATTENTION, GEMM
from ckmlir.passes.check_schedule import check_module
from ckmlir.passes.loop_body import stage_of
from ckmlir.passes.pipeline import PipelineFailure
from ckmlir.passes.walk import functions, operations
from ckmlir.runtime import check_outputs, run_operator
from ckmlir.runtime.simulator_device import SimulatorDevice
from ckmlir.scheduling import Workbench
from ckmlir.scheduling.machine_loop import steady_loop
from ckmlir.sim.checks.finding import CHECKERS
from ckmlir.sim.decode import disassemble
from ckmlir.targets import get_target

CHIPS = ("gfx90a", "gfx942", "gfx950")
SCHEDULES = [name for name, text in GEMM.items() if "groups 2" in text]
WATCHING = [name for name, checker in CHECKERS.items() if not checker.on_request]
TRIPS = range(10)
CHECKED = (0, 1, 4, 7)
"""Of these under every checker; the others by their numbers."""


def gemms() -> Iterator[Any]:
    """Every schedule, chip and dtype; by default one of each."""
    default = {("compv5", "gfx950", "i8"), ("ping_pong", "gfx942", "f16"), ("ping_pong_async", "gfx90a", "bf16"),
               ("ping_pong", "gfx950", "fp8")}  # fmt: skip
    for case in itertools.product(SCHEDULES, CHIPS, ("f16", "bf16", "fp8", "i8")):
        if case[1:] != ("gfx90a", "fp8"):
            yield pytest.param(*case, marks=() if case in default else pytest.mark.full)


@lru_cache(maxsize=4)
def bench(operator: str, chip: str, **keys: Any) -> Workbench:
    found, target = find_operator(operator), get_target(chip)
    return Workbench.of(found, found.spec(found.problem(**keys), target), target)


@pytest.mark.parametrize("name", ["gemm", "gemm_sparse"])
@pytest.mark.parametrize("dtype", ["fp8", "i8"])
def test_bytes_that_reads_turn_take_no_registers(name: str, dtype: str) -> None:
    """Across K as along it: large blocks that are copied to LDS are valid on gfx950, and nothing is spilled."""
    operator, target = find_operator(name), get_target("gfx950")
    keys = {"m": 512, "n": 512, "k": 512, "dtype": dtype, "layout": "RRR", "schedule": "ping_pong_async"}
    spec = operator.spec(operator.problem(**keys, block="256x256x128", wave="2x4"), target)
    assert operator.validate(spec, target) == []
    if (name, dtype) == ("gemm", "fp8"):
        metadata = compile_kernel(operator, spec, target).code_object.kernel().metadata
        assert (metadata.vgpr_spill_count, metadata.sgpr_spill_count, metadata.private_segment_size) == (0, 0, 0)
    able = get_target("gfx942")
    turned = operator.spec(operator.problem(**{**keys, "schedule": "ping_pong"}, block="256x256x128", wave="2x4"), able)
    assert [reason.field for reason in operator.validate(turned, able)] == ["block"]


@pytest.mark.one_in(6)
@pytest.mark.parametrize(("schedule", "chip", "dtype"), list(gemms()))
def test_gemm(schedule: str, chip: str, dtype: str) -> None:
    """Two blocks along m, one of them ragged; sums that end within a step; another order of the waves each time."""
    operator, target = find_operator("gemm"), get_target(chip)
    step = 128 // find_dtype(dtype).bytes
    takes_turns = schedule.startswith("ping_pong")
    # Operands of full-rate 8-bit products, read ahead, leave no registers for a large block.
    size = 256 if takes_turns and (schedule, chip, dtype) != ("ping_pong", "gfx950", "fp8") else 128
    keys = {"m": size + 44, "n": size - 6, "dtype": dtype, "schedule": schedule, "lda": 10 * step, "ldb": 10 * step}
    kernels: dict[Any, CompiledKernel] = {}
    for trips in TRIPS:
        k = max(step * trips - 24, 0)
        problem = operator.problem(**keys, k=k)
        spec = operator.spec(problem, target)
        assert (spec.block[:2], spec.wave_count) == ((size, size), 8 if takes_turns else 4)
        if spec not in kernels:
            kernels[spec] = proved(Workbench.of(operator, spec, target))
        arrays = operator.inputs(problem, target, seed=trips)
        device = SimulatorDevice(target, seed=trips, checks=WATCHING if trips in CHECKED else ())
        result = run_operator(operator, problem, arrays, target, device, compiled=kernels[spec])
        comparisons = check_outputs(operator, problem, arrays, result.outputs, target)
        assert all(one.ok for one in comparisons), f"{trips} steps: {'; '.join(map(str, comparisons))}"
    assert len(kernels) <= 2


def proved(one: Workbench) -> CompiledKernel:
    """The kernel, accepted by the checker, with nothing spilled anywhere."""
    made = one.compile(one.schedule)
    assert made.findings == ()
    assert made.compiled is not None
    metadata = made.compiled.code_object.kernel(one.name).metadata
    assert (metadata.vgpr_spill_count, metadata.sgpr_spill_count, metadata.private_segment_size) == (0, 0, 0)
    return made.compiled


@pytest.mark.one_in(4)
@pytest.mark.parametrize("chip", CHIPS)
def test_machine_code(chip: str) -> None:
    """256 x 256 x 64, eight waves: four turns of a memory and a matrix phase, eight barriers, matrix instructions at
    higher priority and nothing else among them; no moves, no spills, no address arithmetic.
    """
    one = bench("gemm", chip, m=512, n=512, k=512, schedule="ping_pong")
    compiled = proved(one)
    loop = steady_loop(compiled.code_object, one.name)
    counts = loop.mix
    assert (counts["barrier"], counts["valu"], counts["vmov"], counts["accvgpr_move"]) == (8, 0, 0, 0)
    phases: list[set[str]] = [set()]
    for item in loop.instructions:
        if item.mnemonic == "s_barrier":
            phases.append(set())
        kind = next((name for name in ("mfma", "ds_", "buffer_", "s_setprio") if name in item.mnemonic), None)
        if kind:
            phases[-1].add(kind)
    steady = [*phases[1:-1], phases[-1] | phases[0]]
    math, memory = steady[0::2], steady[1::2]
    if "mfma" not in math[0]:
        math, memory = memory, math
    assert math == [{"mfma", "s_setprio"}] * 4
    assert all("mfma" not in phase and phase & {"ds_", "buffer_"} for phase in memory)


def test_extra_arrivals_are_scalar_branches() -> None:
    """Outside the loop each group arrives once alone, behind a branch on a scalar comparison."""
    one = bench("gemm", "gfx942", m=512, n=512, k=512, schedule="ping_pong")
    made = one.compile(one.schedule)
    assert made.compiled is not None
    code = list(disassemble(made.compiled.code_object, one.name))
    barriers = [number for number, item in enumerate(code) if item.mnemonic == "s_barrier"]
    alone = [number for number in barriers if code[number - 1].mnemonic.startswith("s_cbranch_")]
    assert len(alone) == 2
    assert not any("exec" in str(item.text) for number in alone for item in code[number - 3 : number])


# -- attention: the next K tile's read between PV and QK, and the partner group's copy of K


def attention() -> Workbench:
    return bench("fmha_fwd", "gfx950", d=64, dtype="fp8", schedule="qr_async_ping_pong")


@pytest.mark.parametrize(
    ("chip", "dtype", "d"),
    [
        ("gfx950", "fp8", 128),
        *(
            pytest.param(chip, dtype, d, marks=pytest.mark.full)
            for chip, dtype, d in itertools.product(CHIPS, ("f16", "bf16", "fp8"), (64, 128))
            if (chip, dtype) != ("gfx90a", "fp8")
        ),
    ],
)
def test_attention(chip: str, dtype: str, d: int) -> None:
    """Ragged queries and keys."""
    operator, target = find_operator("fmha_fwd"), get_target(chip)
    kernels: dict[Any, CompiledKernel] = {}
    for trips in range(6):
        keys = {"h": 1, "sq": 270, "d": d, "dtype": dtype, "schedule": "qr_async_ping_pong"}
        problem = operator.problem(**keys, sk=max(64 * trips - 21, 0))
        spec = operator.spec(problem, target)
        if spec not in kernels:
            kernels[spec] = proved(Workbench.of(operator, spec, target))
        arrays = operator.inputs(problem, target, seed=trips)
        device = SimulatorDevice(target, seed=trips, checks=WATCHING if trips in CHECKED else ())
        result = run_operator(operator, problem, arrays, target, device, compiled=kernels[spec])
        assert all(one.ok for one in check_outputs(operator, problem, arrays, result.outputs, target)), trips


ABOVE_PV = (
    "barrier, fence, rescale, pv, fence, barrier, k_read, v_lds",
    "barrier, k_read, fence, rescale, pv, fence, barrier, v_lds",
)
"""The read a phase earlier: a barrier lies between it and the copy, but the group behind copies at that time."""


def edited(old: str, new: str) -> Schedule:
    text = ATTENTION["qr_async_ping_pong"]
    assert text.count(old) == 1
    return Schedule.parse(text.replace(old, new))


def test_reading_k_above_pv_races_with_the_partner_group() -> None:
    """Groups in phase may read K above PV: the copy lies a barrier before. The group behind has only begun it then."""
    schedule = edited(*ABOVE_PV)
    with pytest.raises(PipelineFailure, match=r"stage 'k_read' reads LDS tensor 'k' while another group of waves may"):
        attention().compile(schedule, code=False)
    in_phase = Schedule.parse(str(schedule).replace("; groups 2", ""))
    assert attention().compile(in_phase, code=False).findings == ()


@pytest.mark.one_in(2)
@pytest.mark.parametrize("out_of_phase", [True, False])
def test_the_checker_refuses_the_read_that_races_with_the_partner_group(out_of_phase: bool) -> None:
    """In the scheduled kernel, the reads moved up over one barrier: refused, naming the groups and both lines. Without
    the arrivals that put the groups out of phase the same kernel is accepted.
    """
    one = attention()
    with one.context:
        module = ir.Module.parse(one.compile(one.schedule, code=False).fragments)
        assert check_module(module) == []
        reads, barrier = reads_of_k(module)
        for read in reads:
            read.move_before(barrier)
        if not out_of_phase:
            for op in [op for op in operations(module.operation) if op.name == "ck.group_barrier"]:
                op.erase()
        found = [finding for finding in check_module(module) if finding.check != "fence"]
        texts = [str(finding) for finding in found]
    if not out_of_phase:
        assert texts == []
        return
    assert {finding.check for finding in found} == {"hazard"}
    assert all("LDS tensor 'k'" in text and "too near to group 1" in text for text in texts)
    assert all("the copy is here" in text and "/keys_kernel.py" in text and "/loop_kernel.py" in text for text in texts)


def reads_of_k(module: ir.Module) -> tuple[list[ir.Operation], ir.Operation]:
    """The steady loop's reads of K, and the phase barrier before them, with its wait."""
    (function,) = functions(module)
    for block in function.regions[0]:
        ops = [op.operation for op in block]
        reads = [number for number, op in enumerate(ops) if op.name == "ck.lds_read" and stage_of(op) == "k_read"]
        if reads and any(stage_of(op) == "pv" for op in ops):
            number = max(number for number in range(reads[0]) if ops[number].name == "ck.barrier")
            place = number - 1 if ops[number - 1].name == "ck.wait" else number
            return [ops[number] for number in reads], ops[place]
    raise AssertionError("no block holds PV and the reads of K")
