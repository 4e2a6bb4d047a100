"""Lower bounds are lower bounds: by the model of time no named schedule takes less, and both have the same tables."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from ckmlir.errors import CkmlirError
from ckmlir.ops import find_operator
from ckmlir.ops.contraction.low_blocks import L2_REACHED
from ckmlir.ops.request import RequestError
from ckmlir.ops.schedules import ATTENTION, GEMM
from ckmlir.scheduling import lower_bounds
from ckmlir.scheduling.candidates import Subject, bench_of, judge
from ckmlir.sim.chips import TARGETS
from ckmlir.sim.timing.lds_banks import phases_of
from ckmlir.sim.timing.parameters import load
from ckmlir.targets import get_target
from ckmlir.targets.timing import (
    L1_BYTES,
    VECTOR_ISSUE,
    lds_cycles,
    least_vector_instructions,
    vector_cycles,
)

GEMM_KEYS = {"m": 512, "n": 512, "k": 1024, "block": "128x128x64"}
ATTENTION_KEYS = {"h": 4, "hk": 4, "sq": 128, "sk": 2048}
DEFAULT = {("gemm", "compv4", "gfx950")}


@pytest.mark.parametrize("chip", TARGETS)
def test_the_tables_are_those_of_the_model_of_time(chip: str) -> None:
    target, parameters = get_target(chip), load(chip)
    assert target.transcendental_cycles == parameters.integer("trans.cycles") == parameters.integer("trans.holds_valu")
    assert vector_cycles(target, "math.exp2", 3).busy == 3 * parameters.integer("trans.cycles")
    assert VECTOR_ISSUE == parameters.integer("valu.cycles") == parameters.integer("compute_unit.turn")
    assert L1_BYTES == parameters.integer("memory.l1.bandwidth") == parameters.integer("vmem.bytes")
    memory = parameters.number("memory.hbm.bandwidth") * 1000 / parameters.number("chip.clock")
    assert target.memory_bytes == pytest.approx(memory, rel=1e-4)
    assert target.memory_latency == parameters.integer("memory.hbm.latency")
    dies = -(-target.compute_units // parameters.integer("memory.l2.compute_units"))
    assert target.l2_bytes == dies * parameters.integer("memory.l2.bandwidth")
    assert parameters.number("memory.l2.efficiency") == L2_REACHED
    for kind in ("read", "write"):
        for width in (4, 8, 12, 16):
            banks, phase = phases_of(parameters, kind, width)
            turn = max(1, round(4 * banks / parameters.number("lds.bytes")))
            found = lds_cycles(target, kind, width)
            assert found.busy == (int(phase.max()) + 1) * turn
            assert found.latency == parameters.integer("lds.latency") + found.busy


def test_arithmetic_is_packed_wherever_it_can_be() -> None:
    target = get_target("gfx942")
    counts = {
        ("math.exp2", "f32"): 7, ("arith.addf", "f32"): 4, ("arith.maxnumf", "f32"): 4, ("ck.convert", "f16"): 4,
        ("ck.convert", "f32"): 0, ("arith.select", "f32"): 0,
    }  # fmt: skip
    for (name, result), expected in counts.items():
        assert least_vector_instructions(target, name, 7, result=result) == expected


IN_PARTS = {"m": 256, "n": 256, "k": 384, "dtype": "f32", "schedule": "ping_pong", "split_k": 4}


def cases() -> Iterator[Any]:
    for operator, names in (("gemm", GEMM), ("fmha_fwd", ATTENTION)):
        for name in names:
            for chip in TARGETS:
                marks = () if (operator, name, chip) in DEFAULT else pytest.mark.full
                yield pytest.param(operator, name, chip, marks=marks, id=f"{operator}-{name}-{chip}")


@pytest.mark.parametrize(("operator", "name", "chip"), list(cases()))
def test_no_named_schedule_is_faster_than_its_bound(operator: str, name: str, chip: str) -> None:
    keys = {**(GEMM_KEYS if operator == "gemm" else ATTENTION_KEYS), "schedule": name}
    subject = Subject(operator, tuple(keys.items()), chip)
    try:
        find_operator(operator).problem(**keys)
        bench = bench_of(subject)
    except (RequestError, CkmlirError) as refused:
        pytest.skip(str(refused))
    bounds = lower_bounds(bench.problem)
    took = judge(subject, str(bench.schedule))
    assert bounds.interval <= took.step, (bounds, took)
    assert bounds.interval >= 0.2 * took.step, "a bound that says so little is none"


def test_a_loop_of_three_turns_is_not_faster_than_its_bound() -> None:
    """Its two groups of waves come to the loop one after the other, so that its first turn is shorter than others."""
    subject = Subject("batched_gemm", tuple(IN_PARTS.items()), "gfx942")
    bench = bench_of(subject)
    assert lower_bounds(bench.problem).interval <= judge(subject, str(bench.schedule)).step
