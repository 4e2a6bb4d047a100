"""Micro-benchmarks of the model whose answers are known: published cycles, rates and rules."""

import numpy as np
import pytest
from synthetic_traces import issue_cycles, lane_after_lane, time_of

from ckmlir.sim.timing.events import Reason, Unit
from ckmlir.sim.timing.parameters import load

TARGETS = ("gfx90a", "gfx942", "gfx950")

# Mnemonic with operand sizes (registers of D and C, of A and B), cycles by chip, multiplications and additions.
# Cycles: AMD matrix instruction calculator for CDNA2 and CDNA3; for CDNA4, from the published peaks of the MI355X.
MATRIX = [
    ("v_mfma_f32_32x32x8f16", 16, 2, {"gfx90a": 64}, 2 * 32 * 32 * 8),
    ("v_mfma_f32_16x16x16f16", 4, 2, {"gfx90a": 32}, 2 * 16 * 16 * 16),
    ("v_mfma_f32_32x32x8_f16", 16, 2, {"gfx942": 32, "gfx950": 32}, 2 * 32 * 32 * 8),
    ("v_mfma_f32_16x16x16_f16", 4, 2, {"gfx942": 16, "gfx950": 16}, 2 * 16 * 16 * 16),
    ("v_mfma_f32_32x32x16_f16", 16, 4, {"gfx950": 32}, 2 * 32 * 32 * 16),
    ("v_mfma_f32_16x16x32_f16", 4, 4, {"gfx950": 16}, 2 * 16 * 16 * 32),
    ("v_mfma_f32_32x32x16_fp8_fp8", 16, 2, {"gfx942": 32, "gfx950": 32}, 2 * 32 * 32 * 16),
    ("v_mfma_f32_16x16x32_fp8_fp8", 4, 2, {"gfx942": 16, "gfx950": 16}, 2 * 16 * 16 * 32),
    ("v_mfma_f32_32x32x64_f8f6f4", 16, 8, {"gfx950": 64}, 2 * 32 * 32 * 64),
    ("v_mfma_f32_16x16x128_f8f6f4", 4, 8, {"gfx950": 32}, 2 * 16 * 16 * 128),
    ("v_mfma_i32_32x32x16_i8", 16, 2, {"gfx942": 32, "gfx950": 32}, 2 * 32 * 32 * 16),
    ("v_mfma_f32_32x32x2f32", 16, 1, {"gfx90a": 64}, 2 * 32 * 32 * 2),
    ("v_mfma_f32_32x32x2_f32", 16, 1, {"gfx942": 64, "gfx950": 64}, 2 * 32 * 32 * 2),
    ("v_mfma_f32_16x16x4_f32", 4, 1, {"gfx942": 32, "gfx950": 32}, 2 * 16 * 16 * 4),
    ("v_mfma_f64_16x16x4f64", 8, 2, {"gfx90a": 32}, 2 * 16 * 16 * 4),
    ("v_mfma_f64_16x16x4_f64", 8, 2, {"gfx942": 32, "gfx950": 64}, 2 * 16 * 16 * 4),
    ("v_mfma_f32_4x4x4f16", 4, 2, {"gfx90a": 8}, 2 * 16 * 4 * 4 * 4),
    ("v_mfma_f32_4x4x4_16b_f16", 4, 2, {"gfx942": 8, "gfx950": 8}, 2 * 16 * 4 * 4 * 4),
]
CASES = [(name, d, ab, chip, cycles, flops) for name, d, ab, chips, flops in MATRIX for chip, cycles in chips.items()]


def span(first: int, count: int) -> str:
    return f"v{first}" if count == 1 else f"v[{first}:{first + count - 1}]"


def multiply(name: str, d: int, ab: int, result: int, a: int = 200) -> str:
    """D and C at one place, A and B at registers that nobody writes."""
    return f"{name} {span(result, d)}, {span(a, ab)}, {span(a + 8, ab)}, {span(result, d)}"


@pytest.mark.parametrize(("name", "d", "ab", "chip", "cycles", "flops"), CASES)
def test_independent_matrix_instructions_take_the_published_cycles(
    name: str, d: int, ab: int, chip: str, cycles: int, flops: int
) -> None:
    text = "\n".join(multiply(name, d, ab, 16 * number) for number in range(4))
    assert np.diff(issue_cycles(time_of(chip, text)))[:3].tolist() == [cycles] * 3


@pytest.mark.parametrize(("name", "d", "ab", "chip", "cycles", "flops"), CASES)
def test_adding_to_the_same_registers_costs_no_more_except_after_two_passes(
    name: str, d: int, ab: int, chip: str, cycles: int, flops: int
) -> None:
    """CDNA3 ISA, section 7: after 2 passes, 2 wait states, thus 12 cycles; after more, none."""
    text = "\n".join([multiply(name, d, ab, 0)] * 4)
    expected = 12 if cycles == 8 and chip != "gfx90a" else cycles
    assert np.diff(issue_cycles(time_of(chip, text)))[:3].tolist() == [expected] * 3


# Wait states from a matrix instruction to a VALU instruction that reads its result (CDNA2, CDNA3, CDNA4 ISA; a wait
# state is a turn of 4 cycles, and the reader itself comes after the last one).
@pytest.mark.parametrize(
    ("chip", "name", "d", "ab", "states"),
    [
        ("gfx90a", "v_mfma_f32_32x32x8f16", 16, 2, 19),
        ("gfx90a", "v_mfma_f32_4x4x4f16", 4, 2, 5),
        ("gfx942", "v_mfma_f32_32x32x8_f16", 16, 2, 11),
        ("gfx942", "v_mfma_f32_16x16x16_f16", 4, 2, 7),
        ("gfx942", "v_mfma_f32_4x4x4_16b_f16", 4, 2, 5),
        ("gfx942", "v_mfma_f32_32x32x2_f32", 16, 1, 18),
        ("gfx950", "v_mfma_f32_32x32x16_f16", 16, 4, 12),
        ("gfx950", "v_mfma_f32_32x32x64_f8f6f4", 16, 8, 20),
    ],
)
@pytest.mark.parametrize("reader", ["v_mov_b32_e32 v100, v3", "v_mov_b32_e32 v3, v100"])
def test_results_are_there_after_the_wait_states_that_the_isa_names(
    chip: str, name: str, d: int, ab: int, states: int, reader: str
) -> None:
    timeline = time_of(chip, multiply(name, d, ab, 0) + "\n" + reader)
    assert issue_cycles(timeline)[1] == 4 * (states + 1)
    assert timeline.events["reason"][1] == Reason.DEPENDENCY_MFMA


def test_an_overlapping_accumulator_waits_longer_than_the_same() -> None:
    name = "v_mfma_f32_16x16x16_f16"
    shifted = f"{name} v[0:3], v[200:201], v[208:209], v[0:3]\n{name} v[2:5], v[200:201], v[208:209], v[2:5]"
    assert issue_cycles(time_of("gfx942", shifted))[1] == 4 * (5 + 1)


@pytest.mark.parametrize("chip", TARGETS)
def test_valu_issues_beside_a_matrix_instruction_and_not_beside_f32(chip: str) -> None:
    suffix = "" if chip == "gfx90a" else "_"
    adds = "\n".join(["v_add_f32_e32 v100, v101, v102"] * 3)
    f16 = issue_cycles(time_of(chip, multiply(f"v_mfma_f32_32x32x8{suffix}f16", 16, 2, 0) + "\n" + adds))
    assert f16[1:4] == [4, 8, 12]
    f32 = issue_cycles(time_of(chip, multiply(f"v_mfma_f32_32x32x2{suffix}f32", 16, 1, 0) + "\n" + adds))
    assert f32[1] == (4 if chip == "gfx90a" else 64)


PEAKS = [
    ("gfx90a", "f16", "v_mfma_f32_32x32x8f16", 16, 2, 16384, 383.0),
    ("gfx942", "f16", "v_mfma_f32_32x32x8_f16", 16, 2, 16384, 1307.4),
    ("gfx942", "fp8", "v_mfma_f32_32x32x16_fp8_fp8", 16, 2, 32768, 2614.9),
    ("gfx950", "f16", "v_mfma_f32_32x32x16_f16", 16, 4, 32768, 2500.0),
    ("gfx950", "fp8", "v_mfma_f32_32x32x64_f8f6f4", 16, 8, 131072, 5000.0),
]


@pytest.mark.parametrize(("chip", "dtype", "name", "d", "ab", "flops", "teraflops"), PEAKS)
def test_published_peaks_are_reproduced(
    chip: str, dtype: str, name: str, d: int, ab: int, flops: int, teraflops: float
) -> None:
    """MI250X, MI300X and MI355X data sheets, with their compute units and clocks."""
    count = 64
    text = "\n".join(multiply(name, d, ab, 16 * (number % 4)) for number in range(count))
    timeline = time_of(chip, text, "fetch.miss_cycles=0", waves=4)
    parameters = load(chip)
    seconds = timeline.cycles / (parameters.number("chip.clock") * 1e6)
    rate = 4 * count * flops * parameters.integer("chip.compute_units") / seconds / 1e12
    assert rate == pytest.approx(teraflops, rel=0.02)
    assert parameters.number(f"peak.{dtype}") == pytest.approx(teraflops, rel=0.01)


# -- vector arithmetic -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("chip", "cycles"), [("gfx90a", 16), ("gfx942", 16), ("gfx950", 8)])
def test_transcendental_functions_have_a_quarter_of_the_rate(chip: str, cycles: int) -> None:
    text = "\n".join(["v_exp_f32_e32 v0, v1", "v_exp_f32_e32 v2, v3", "v_add_f32_e32 v100, v101, v102"])
    assert issue_cycles(time_of(chip, text))[:3] == [0, cycles, 2 * cycles]
    dependent = time_of(chip, "v_exp_f32_e32 v0, v1\nv_exp_f32_e32 v2, v0")
    assert issue_cycles(dependent)[1] == cycles
    assert dependent.events["reason"][1] == Reason.DEPENDENCY_TRANS


def test_waves_of_one_simd_share_its_vector_unit_and_others_do_not() -> None:
    text = "\n".join(["v_add_f32_e32 v100, v101, v102"] * 32)
    start = "compute_unit.wave_start_interval=0"
    one = time_of("gfx942", text, start, waves=1).cycles
    assert time_of("gfx942", text, start, waves=4).cycles <= one + 8
    assert time_of("gfx942", text, start, waves=8).cycles == pytest.approx(2 * one, rel=0.1)


def test_a_wave_issues_one_instruction_a_turn_and_two_waves_of_a_simd_issue_together() -> None:
    text = "\n".join(["v_add_f32_e32 v100, v101, v102", "s_add_u32 s0, s1, s2"] * 16)
    one = time_of("gfx942", text, waves=1)
    assert np.diff(issue_cycles(one)).tolist() == [4] * 32
    both = time_of("gfx942", text, "compute_unit.wave_start_interval=0", waves=8)
    same = [both.events["issue"][both.events["wave"] == wave] for wave in (0, 4)]
    assert set(same[0].tolist()) & set(same[1].tolist()), "a VALU and an SALU instruction of two waves in one turn"


# -- waits, nops, priorities, barriers, branches -----------------------------------------------------------------------


def test_s_nop_waits_as_many_turns_as_it_says() -> None:
    timeline = time_of("gfx942", "s_nop 4\nv_add_f32_e32 v100, v101, v102")
    assert issue_cycles(timeline)[1] == 20
    assert timeline.events["reason"][1] == Reason.NOP and timeline.events["stall"][1] == 16


def test_a_barrier_holds_all_waves_until_the_last_has_come() -> None:
    text = "\n".join(["v_exp_f32_e32 v0, v1"] * 4 + ["s_barrier", "v_add_f32_e32 v100, v101, v102"])
    timeline = time_of("gfx942", text, waves=8)
    events = timeline.events
    barrier = next(index for index, one in enumerate(timeline.trace.program) if one.mnemonic == "s_barrier")
    issued = events["issue"][events["instruction"] == barrier]
    arrived = issued - events["stall"][events["instruction"] == barrier]
    assert len(issued) == 8 and issued.min() >= arrived.max() + 16
    assert issued.max() - issued.min() < 16
    assert Reason.BARRIER in events["reason"][events["instruction"] == barrier]


def test_higher_priority_wins() -> None:
    """Waves 0 and 4 share a SIMD. The older one wins, unless the younger one alone raises its priority."""
    text = "s_setprio 3\n" + "\n".join(["v_add_f32_e32 v100, v101, v102"] * 40)
    options = ("compute_unit.wave_start_interval=0", "branch.taken_cycles=0", "fetch.miss_cycles=0")
    plain = time_of("gfx942", text, *options, waves=8)
    assert plain.wave_end[0] < plain.wave_end[4]
    raised = time_of("gfx942", text, *options, waves=8, skips=lambda wave, index: index == 0 and wave < 4)
    assert raised.wave_end[4] < raised.wave_end[0]


def test_counters_return_in_order_and_waits_ask_for_so_many() -> None:
    text = "\n".join(
        ["global_load_dword v1, v[2:3], off"] * 3
        + ["s_waitcnt vmcnt(2)", "s_waitcnt vmcnt(1)", "s_waitcnt vmcnt(0)", "v_add_f32_e32 v100, v101, v102"]
    )
    far = [0, 1 << 24, 64]  # the third one would be in the cache of the first
    timeline = time_of("gfx942", text, addresses=lambda wave, number: [far[number] + 4 * lane for lane in range(16)])
    events = timeline.events
    done = events["done"][:3]
    assert (np.diff(done) >= 0).all() and done[0] > 300
    for wait in range(3):
        assert done[wait] <= events["issue"][3 + wait] < done[wait] + 8
    assert events["reason"][3] == Reason.WAIT_VMEM


def test_a_full_counter_holds_back_the_next_access() -> None:
    count = 200
    text = "\n".join(["global_load_dword v1, v[2:3], off"] * count)
    timeline = time_of("gfx942", text, addresses=lambda wave, number: [(number << 20) + 4 * lane for lane in range(64)])
    issued, done = timeline.events["issue"][:count], timeline.events["done"][:count]
    assert issued[62] < done[0] <= issued[63]
    assert timeline.events["reason"][63] == Reason.QUEUE_FULL
    assert (issued[63:] >= done[: count - 63]).all(), "never more than 63 on their way"


# -- accounting --------------------------------------------------------------------------------------------------------


def test_every_cycle_of_a_wave_is_issue_or_a_stall_with_a_reason() -> None:
    text = "\n".join(
        ["ds_read_b128 v[0:3], v5", "v_exp_f32_e32 v0, v1", "s_waitcnt lgkmcnt(0)", "s_barrier", "s_nop 2"] * 4
    )
    timeline = time_of("gfx942", text, waves=8, addresses=lane_after_lane(16))
    for wave in range(8):
        events = timeline.events[timeline.events["wave"] == wave]
        stalls = timeline.stalls[timeline.stalls["wave"] == wave]
        assert (np.diff(events["issue"]) == 4 + events["stall"][1:]).all()
        assert stalls["cycles"].sum() == events["stall"].sum()
        assert (stalls["reason"] != Reason.NOT_STALLED).all()
        assert timeline.wave_end[wave] == timeline.wave_start[wave] + events["stall"].sum() + 4 * len(events)


def test_units_are_never_used_twice_at_a_time() -> None:
    text = "\n".join([multiply("v_mfma_f32_32x32x8_f16", 16, 2, 0), "v_add_f32_e32 v100, v101, v102"] * 8)
    timeline = time_of("gfx942", text, waves=8)
    events = timeline.events
    for simd in range(4):
        on = timeline.wave_simd[events["wave"]] == simd
        assert (np.diff(events["issue"][on & (events["unit"] == Unit.MFMA)]) >= 32).all()
        vector = np.isin(events["unit"], (Unit.MFMA, Unit.VALU))
        assert (np.diff(events["issue"][on & vector]) >= 4).all()


def test_waves_of_one_simd_take_turns_at_scalar_instructions() -> None:
    text = "\n".join(["s_add_u32 s0, s1, s2"] * 16)
    timeline = time_of("gfx942", text, "compute_unit.wave_start_interval=0", waves=8)
    events = timeline.events
    for simd in range(4):
        on = (timeline.wave_simd[events["wave"]] == simd) & (events["unit"] == Unit.SALU)
        assert (np.diff(events["issue"][on]) == 4).all()
    assert Reason.ARBITRATION in timeline.stalls["reason"]
