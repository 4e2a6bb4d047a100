"""Predicted cycles of LDS accesses against counting dwords bank by bank; layouts that have none to lose."""

from __future__ import annotations

import re
from collections import defaultdict

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from ckmlir.dialect.distribution import Distribution
from ckmlir.dialect.lds_layout import LdsLayout
from ckmlir.dialect.mma import Mma
from ckmlir.mlir import ir
from ckmlir.ops.contraction.contraction_kernel import build
from ckmlir.ops.gemm.gemm import OPERATOR
from ckmlir.passes.accesses import plan_accesses
from ckmlir.passes.allocate_lds import CONFLICTS
from ckmlir.passes.bank_conflicts import access_cycles
from ckmlir.passes.lds_layouts import Access, choose_layout
from ckmlir.passes.pipeline import PIPELINE, run_pipeline
from ckmlir.passes.walk import functions, operations
from ckmlir.targets import Target, get_target

CHIPS = ["gfx90a", "gfx942", "gfx950"]
ROWS = Distribution.parse("d0: 16@lane.1, d1: 4@lane.0 8@y0")  # operands of a 16x16 MFMA, 8 elements of 2 bytes a lane

PLACES = ["d0: 16@lane.1, d1: 4@lane.0 8@y0", "d0: 2@wave 8@lane, d1: 8@lane 4@y0", "d0: 64@lane, d1: 16@y0"]


def counted(
    layout: LdsLayout, distribution: Distribution, registers: tuple[int, ...], size: int, kind: str, target: Target
) -> int:
    """Cycles by definition: in each phase as many as the fullest bank has different dwords; the worst wave's."""
    access = target.lds_access(kind, max(len(registers) * size, 4))
    worst = 0
    for wave in range(distribution.waves):
        cycles = 0
        for phase in access.phases:
            banks: dict[int, set[int]] = defaultdict(set)
            for lane in phase:
                coordinates = [int(along[wave, lane, registers[0]]) for along in distribution.coordinates()]
                start = layout.offset(coordinates) * size
                for byte in range(start, start + max(len(registers) * size, 1)):
                    banks[byte // 4 % access.banks].add(byte // 4)
            cycles += max(len(dwords) for dwords in banks.values())
        worst = max(worst, cycles)
    return worst


@given(
    st.sampled_from(PLACES),
    st.sampled_from([1, 2, 4]),
    st.sampled_from(["read", "write"]),
    st.sampled_from(CHIPS),
    st.data(),
)
def test_cycles_are_those_of_the_fullest_banks(text: str, size: int, kind: str, chip: str, data: st.DataObject) -> None:
    distribution, target = Distribution.parse(text), get_target(chip)
    plain = LdsLayout.plain(distribution.lengths, (0, 1))
    registers = plan_accesses(distribution, 1, 16 // size)[0]
    chunk = len(registers)
    layouts = [plain, replace(plain, pitch=plain.pitch + chunk)]
    if plain.row_length % (2 * chunk) == 0:
        layouts.append(replace(plain, chunk=chunk, terms=((data.draw(st.integers(0, 3)), 1),)))
    layout = data.draw(st.sampled_from(layouts))
    cycles, ideal = access_cycles(layout, distribution, registers, size, kind, target)
    assert cycles == counted(layout, distribution, registers, size, kind, target) >= ideal


@pytest.mark.parametrize(
    ("chip", "kind", "cycles", "ideal"),
    [("gfx942", "write", 32, 8), ("gfx942", "read", 16, 8), ("gfx950", "read", 8, 4), ("gfx950", "write", 32, 8)],
)
def test_plain_rows_of_a_power_of_two_conflict(chip: str, kind: str, cycles: int, ideal: int) -> None:
    """Rows of 64 bytes: every second row is at the same banks, every fourth with the 64 banks of gfx950's reads.

    The 8 lanes of a phase of a write are in 8 rows, so 4 of them meet; those of a read are in 4 rows, at 2 depths.
    """
    plain = LdsLayout.plain((16, 32), (0, 1))
    assert access_cycles(plain, ROWS, tuple(range(8)), 2, kind, get_target(chip)) == (cycles, ideal)


def test_every_lane_at_one_bank_is_the_worst_case() -> None:
    """64 rows of 128 bytes, a dword of each: all 32 lanes of a phase in one bank."""
    column = Distribution.parse("d0: 64@lane, d1: 32@y0")
    plain = LdsLayout.plain((64, 32), (0, 1))
    assert access_cycles(plain, column, (0,), 4, "read", get_target("gfx942")) == (64, 2)
    assert access_cycles(replace(plain, pitch=33), column, (0,), 4, "read", get_target("gfx942")) == (2, 2)


def test_lanes_that_read_the_same_dword_share_it() -> None:
    same = Distribution.parse("r: 64@lane, d0: 1, d1: 4@y0")
    plain = LdsLayout.plain((1, 4), (0, 1))
    assert access_cycles(plain, same, (0,), 4, "read", get_target("gfx942"))[0] == 2


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("depth", [32, 64])
def test_the_choice_for_operands_of_matrix_instructions_has_no_conflicts(chip: str, depth: int) -> None:
    target = get_target(chip)
    mma = Mma.select(target, "32x32x8", "f16", block_k=depth)
    reader = mma.a_over((2, 2), 128, depth)
    writer = Distribution.parse(f"d0: {depth // 16}@y0 4@wave {512 // depth}@lane, d1: {depth // 8}@lane 8@y1")
    accesses = tuple(
        Access(kind, distribution, registers)
        for kind, distribution in (("write", writer), ("read", reader))
        for registers in plan_accesses(distribution, 1, 8)
    )
    plain = LdsLayout.plain((128, depth), (0, 1))
    choice = choose_layout(plain, accesses, 2, target, True)
    assert choice.conflicts == 0
    total = sum(counted(choice.layout, a.distribution, a.registers, 2, a.kind, target) for a in accesses)
    assert total == choice.cycles


def test_without_conflicts_rows_stay_plain() -> None:
    contiguous = Distribution.parse("d0: 16@lane, d1: 4@lane 2@y0")
    plain = LdsLayout.plain((16, 8), (0, 1))
    access = Access("write", contiguous, (0, 1))
    assert choose_layout(plain, (access,), 2, get_target("gfx942"), True).layout == plain


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("dtype", ["f16", "bf16"])
def test_default_gemms_lose_no_cycle(chip: str, dtype: str) -> None:
    target = get_target(chip)
    spec = OPERATOR.spec(OPERATOR.problem(m=512, n=512, k=512, dtype=dtype), target)
    kernel = build(spec, target)
    before_fences = [step for step in PIPELINE if re.match("ck-(infer|split|pipeline|.*lds)", str(step.run))]
    with kernel.module.context:
        run_pipeline(kernel.module, before_fences, dump_on_failure=False)
        (function,) = functions(kernel.module)
        allocations = [op for op in operations(function) if op.name == "ck.lds_alloc"]
        assert allocations
        for op in allocations:
            assert op.attributes[CONFLICTS] == ir.IntegerAttr.get(ir.IntegerType.get_signless(64), 0)
