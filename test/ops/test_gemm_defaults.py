"""What GEMM chooses where a request leaves it open: block, waves, epilogue and schedule, by chip, dtype and sizes."""

from __future__ import annotations

from typing import Any

import pytest
from checked_runs import compiled, findings
from hypothesis import given, settings
from hypothesis import strategies as st
from operator_runner import agree, checked

from ckmlir.compiler import compile_kernel
from ckmlir.ops import find_operator
from ckmlir.ops.choice import first_valid
from ckmlir.ops.contraction.contraction_spec import LAYOUTS, OUTPUTS, ContractionSpec
from ckmlir.ops.schedules import GEMM as SCHEDULES
from ckmlir.ops.spec import Reason
from ckmlir.scheduling.workbench import Workbench
from ckmlir.sim.checks.finding import CHECKERS
from ckmlir.targets import TARGETS, get_target

GEMM = find_operator("gemm")
COPIED = CARRIED, APART = "async_wide_carried", "async_wide_last"
LARGE = {"m": 4096, "n": 4096, "k": 4096}


def default(chip: str, **keys: Any) -> ContractionSpec:
    spec = GEMM.spec(GEMM.problem(**keys), get_target(chip))
    assert isinstance(spec, ContractionSpec)
    return spec


@pytest.mark.parametrize(("chip", "keys", "schedule", "block", "waves"), [
    ("gfx90a", LARGE, "compv4", (128, 128, 64), (2, 2)),
    # Groups of waves take turns at large blocks where these fill the compute units as well as small ones do, at those
    # that leave the fewest idle.
    ("gfx942", LARGE, "ping_pong", (224, 256, 64), (2, 4)),
    ("gfx942", {**LARGE, "dtype": "fp8"}, "ping_pong", (224, 256, 128), (2, 4)),
    ("gfx942", {"m": 6144, "n": 6144, "k": 4096}, "ping_pong", (256, 256, 64), (2, 4)),
    ("gfx942", {"m": 3072, "n": 8192, "k": 1024}, "ping_pong", (192, 256, 64), (2, 4)),
    ("gfx942", {"m": 8192, "n": 3718, "k": 2112}, "ping_pong", (256, 224, 64), (4, 2)),
    ("gfx942", {"m": 4001, "n": 4003, "k": 4096}, "ping_pong", (224, 256, 64), (2, 4)),
    ("gfx90a", {"m": 2048, "n": 3328, "k": 4096}, "ping_pong", (256, 256, 64), (2, 4)),
    ("gfx942", {"m": 8192, "n": 8192, "k": 8192}, "ping_pong", (224, 256, 64), (2, 4)),
    ("gfx942", {"m": 3072, "n": 3072, "k": 3072}, "compv4", (128, 128, 64), (2, 2)),
    ("gfx942", {**LARGE, "k": 4088}, "compv4", (128, 128, 64), (2, 2)),
    ("gfx942", {**LARGE, "layout": "RRR"}, "compv4", (128, 128, 64), (2, 2)),
    ("gfx942", {**LARGE, "dtype": "f32"}, "compv4", (128, 128, 32), (2, 2)),
    ("gfx942", {**LARGE, "wave": (2, 2)}, "compv4", (128, 128, 64), (2, 2)),
    # Short sums of more blocks than compute units: two workgroups a compute unit, each with one LDS buffer.
    ("gfx90a", {**LARGE, "k": 1024}, "compv6", (128, 128, 64), (2, 2)),
    ("gfx90a", {**LARGE, "k": 1088}, "compv4", (128, 128, 64), (2, 2)),
    ("gfx942", {**LARGE, "k": 1024, "layout": "RRR"}, "compv6", (128, 128, 64), (2, 2)),
    ("gfx942", {**LARGE, "k": 256, "dtype": "f32"}, "compv6", (128, 128, 32), (2, 2)),
    ("gfx90a", {**LARGE, "k": 64, "dtype": "f64"}, "compv4", (128, 128, 16), (2, 2)),  # no registers for two
    ("gfx942", {"m": 2048, "n": 2048, "k": 1024}, "compv4", (128, 128, 64), (2, 2)),  # not two blocks for any
    ("gfx950", {"m": 2048, "n": 4096, "k": 448}, "straight", (128, 128, 64), (1, 4)),  # LDS holds two with two buffers
    # LDS would keep the matrix cores of gfx950 waiting: copies, and four waves, which read less of it.
    ("gfx950", LARGE, CARRIED, (256, 256, 64), (2, 2)),
    ("gfx950", {**LARGE, "dtype": "i8"}, CARRIED, (256, 256, 128), (2, 2)),
    ("gfx950", {**LARGE, "dtype": "fp8"}, APART, (256, 256, 128), (2, 2)),
    ("gfx950", {**LARGE, "m": 4100, "n": 4104}, CARRIED, (256, 256, 64), (2, 2)),
    # Few steps, rows that begin within a cache line, single elements of C and matrices beside the sums are left to
    # eight waves.
    ("gfx950", {**LARGE, "k": 512}, CARRIED, (256, 256, 64), (2, 2)),
    ("gfx950", {**LARGE, "k": 448}, "compv4", (256, 256, 64), (2, 4)),
    ("gfx950", {**LARGE, "k": 4104}, "compv4", (256, 256, 64), (2, 4)),
    ("gfx950", {**LARGE, "n": 4097}, "compv4", (256, 256, 64), (2, 4)),
    ("gfx950", {**LARGE, "lda": 4104}, "compv4", (256, 256, 64), (2, 4)),
    ("gfx950", {**LARGE, "k": 4104, "lda": 4160, "ldb": 4160}, CARRIED, (256, 256, 64), (2, 2)),
    ("gfx950", {**LARGE, "op": "gelu(acc + d0)", "d": "f16", "d_kind": "row"}, CARRIED, (256, 256, 64), (2, 2)),
    ("gfx950", {**LARGE, "op": "gelu(acc) + d0"}, "compv4", (256, 256, 64), (2, 4)),
    ("gfx950", {**LARGE, "wave": (2, 4)}, "compv4", (256, 256, 64), (2, 4)),
    ("gfx950", {**LARGE, "dtype": "i8", "wave": (2, 4)}, "compv4", (256, 256, 128), (2, 4)),
    # The full-rate instruction's vectors leave eight waves no registers for tiles on their way.
    ("gfx950", {**LARGE, "dtype": "fp8", "wave": (2, 4)}, "ping_pong_async", (256, 256, 128), (2, 4)),
    ("gfx950", {**LARGE, "dtype": "fp8", "layout": "RRR"}, APART, (256, 256, 128), (2, 2)),
    # A large block for every compute unit, full vectors, and registers to transpose 8-bit operands, or a smaller block.
    ("gfx950", {**LARGE, "m": 3840}, "straight", (128, 128, 64), (1, 4)),
    ("gfx950", {**LARGE, "k": 4092}, "compv4", (128, 128, 64), (2, 2)),
    ("gfx950", {**LARGE, "layout": "CRR"}, CARRIED, (256, 256, 64), (2, 2)),
    ("gfx950", {**LARGE, "layout": "CRR", "n": 4104}, "compv4", (128, 128, 64), (2, 2)),
    ("gfx950", {**LARGE, "layout": "RRR", "n": 4104}, "compv4", (128, 128, 64), (2, 2)),
    ("gfx950", {**LARGE, "layout": "CCR", "dtype": "i8"}, CARRIED, (256, 256, 128), (2, 2)),
    ("gfx950", {**LARGE, "layout": "CRR", "dtype": "i8"}, CARRIED, (256, 256, 128), (2, 2)),
    ("gfx950", {**LARGE, "wave": (2, 2)}, CARRIED, (256, 256, 64), (2, 2)),
    ("gfx950", {**LARGE, "wave": (1, 4)}, "compv4", (128, 128, 64), (1, 4)),
    ("gfx950", {**LARGE, "schedule": "compv3"}, "compv3", (256, 256, 64), (2, 4)),
    ("gfx950", {**LARGE, "schedule": "straight"}, "straight", (128, 128, 64), (2, 2)),  # B does not go through LDS
    ("gfx950", {**LARGE, "schedule": "async"}, "async", (128, 128, 64), (2, 2)),  # three large buffers do not fit
    # Few rows: what an estimate of steps, LDS, memory and parts takes the least time for.
    ("gfx942", {"m": 16, "n": 1024, "k": 8192}, "v4", (16, 16, 128), (1, 1)),
    ("gfx942", {"m": 28, "n": 384, "k": 4096}, "v4", (16, 16, 128), (1, 1)),
    ("gfx942", {"m": 64, "n": 384, "k": 4096}, "v4", (16, 16, 128), (1, 1)),
    ("gfx942", {"m": 64, "n": 1024, "k": 4096}, "v4", (32, 32, 128), (2, 2)),
    # Long sums with A and B across K: squares, where low blocks would have 16 rows.
    ("gfx942", {"m": 32, "n": 4096, "k": 2048, "layout": "CRR"}, "compv4", (64, 64, 64), (2, 2)),
    ("gfx942", {"m": 64, "n": 4096, "k": 4096, "layout": "CRR"}, "v4", (32, 64, 128), (2, 2)),
    ("gfx942", {"m": 64, "n": 1024, "k": 25088, "layout": "CRR"}, "v4", (32, 64, 128), (2, 2)),
    ("gfx942", {"m": 16, "n": 4096, "k": 4096, "layout": "CRR"}, "v4", (16, 16, 128), (1, 1)),
    ("gfx90a", {"m": 64, "n": 1024, "k": 4096}, "compv4", (64, 64, 128), (2, 2)),
    ("gfx90a", {"m": 16, "n": 384, "k": 3072, "dtype": "i8"}, "compv3", (16, 16, 256), (1, 1)),
    ("gfx942", {"m": 28, "n": 384, "k": 1536}, "v4", (16, 16, 128), (1, 1)),
    ("gfx90a", {"m": 28, "n": 384, "k": 1536}, "v4", (16, 16, 128), (1, 1)),  # two parts a compute unit
    # Long products, and elements of four bytes.
    ("gfx90a", {"m": 16, "n": 1536, "k": 4096, "dtype": "i8"}, "compv4", (16, 64, 256), (1, 4)),
    ("gfx942", {"m": 64, "n": 512, "k": 8192, "dtype": "f32"}, "compv4", (32, 32, 64), (2, 2)),
    ("gfx942", {"m": 28, "n": 1024, "k": 4096, "dtype": "f32"}, "compv4", (16, 64, 64), (1, 4)),
    ("gfx942", {"m": 28, "n": 8192, "k": 1536, "dtype": "f32"}, "v4", (16, 64, 64), (1, 4)),
    ("gfx950", {"m": 64, "n": 384, "k": 1536, "dtype": "f32"}, "v4", (32, 32, 64), (2, 2)),
    ("gfx942", {"m": 28, "n": 2048, "k": 2048, "dtype": "xf32"}, "v4", (16, 64, 64), (1, 4)),
    ("gfx90a", {"m": 16, "n": 1024, "k": 4096}, "v4", (16, 64, 128), (1, 4)),
    ("gfx90a", {"m": 64, "n": 1024, "k": 2048}, "compv4", (64, 64, 128), (2, 2)),
    # Waves with one tile: reads before products, or woven into long ones; those that load two bytes: as others.
    ("gfx942", {"m": 28, "n": 384, "k": 1536, "dtype": "i8"}, "v4", (16, 16, 256), (1, 1)),
    ("gfx90a", {"m": 28, "n": 384, "k": 1536, "dtype": "i8"}, "compv3", (16, 16, 256), (1, 1)),
    ("gfx90a", {"m": 16, "n": 4096, "k": 1536, "dtype": "i8"}, "compv4", (16, 64, 256), (1, 4)),
    ("gfx942", {"m": 64, "n": 1024, "k": 1024}, "v4", (16, 16, 128), (1, 1)),
    ("gfx942", {"m": 64, "n": 2048, "k": 1024}, "v4", (16, 16, 128), (1, 1)),
    ("gfx90a", {"m": 64, "n": 2048, "k": 2048}, "compv4", (64, 64, 128), (2, 2)),
    ("gfx942", {"m": 64, "n": 1023, "k": 1023}, "compv3", (32, 32, 128), (2, 2)),
    ("gfx942", {"m": 64, "n": 1024, "k": 1020}, "v4", (16, 16, 64), (1, 1)),  # eight loads of a tile would be many
    ("gfx942", {"m": 1, "n": 8192, "k": 1536}, "v4", (16, 64, 128), (1, 4)),
    ("gfx90a", {"m": 64, "n": 8192, "k": 1536}, "v4", (32, 32, 128), (2, 2)),
    ("gfx90a", {"m": 16, "n": 4096, "k": 4096}, "v4", (16, 64, 128), (1, 4)),
    ("gfx90a", {"m": 28, "n": 2048, "k": 2048}, "v4", (16, 64, 128), (1, 4)),
    ("gfx950", {"m": 16, "n": 8192, "k": 1536}, "v4", (16, 16, 128), (1, 1)),
    ("gfx950", {"m": 16, "n": 1024, "k": 8192}, "v4", (16, 16, 128), (1, 1)),
    ("gfx950", {"m": 28, "n": 1024, "k": 8192}, "v4", (16, 32, 128), (1, 2)),
    # Loads of single bytes: three steps of two lines would be too many.
    ("gfx942", {"m": 16, "n": 512, "k": 333, "dtype": "fp8"}, "compv3", (16, 64, 128), (1, 4)),
    # One block: four steps on their way in parts of K with short products, unless bytes are turned.
    ("gfx942", {"m": 64, "n": 64}, "compv4", (64, 64, 64), (2, 2)),
    ("gfx950", {"m": 32, "n": 48, "k": 20000, "layout": "CRR"}, "v4", (64, 64, 64), (2, 2)),
    ("gfx90a", {"m": 64, "n": 64, "k": 65536}, "compv4", (64, 64, 64), (2, 2)),
    ("gfx950", {"m": 64, "n": 64, "k": 65536, "dtype": "fp8"}, "v4", (64, 64, 128), (2, 2)),
    ("gfx950", {"m": 64, "n": 64, "k": 65536, "dtype": "fp8", "layout": "CRR"}, "compv4", (64, 64, 128), (2, 2)),
    ("gfx942", {"m": 64, "n": 64, "k": 65536, "dtype": "f32"}, "compv4", (64, 64, 32), (2, 2)),
    ("gfx942", {**LARGE, "schedule": "ping_pong"}, "ping_pong", (256, 256, 64), (2, 4)),
    # The named block stays: one buffer where two do not fit.
    ("gfx942", {"block": (256, 256, 64), "wave": (2, 4)}, "compv3", (256, 256, 64), (2, 4)),
    ("gfx942", {"block": (256, 256, 32), "wave": (2, 4)}, "compv4", (256, 256, 32), (2, 4)),
    # Other waves than the preferred ones where these do not divide it.
    ("gfx942", {"block": (16, 192, 64)}, "compv3", (16, 192, 64), (1, 4)),
    ("gfx942", {"block": (112, 16, 64)}, "compv3", (112, 16, 64), (1, 1)),
    ("gfx950", {"block": (256, 256, 64), "wave": (2, 4)}, "compv4", (256, 256, 64), (2, 4)),
    # 256 accumulators a work-item, and narrow loads: no room for two steps.
    ("gfx950", {"block": (256, 256, 64)}, "compv3", (256, 256, 64), (2, 2)),
    ("gfx942", {**LARGE, "k": 4095}, "compv3", (128, 128, 64), (2, 2)),
    ("gfx942", {**LARGE, "k": 4094}, "compv4", (128, 128, 64), (2, 2)),
    ("gfx942", {"shuffled": 32}, "preshuffle", (128, 128, 64), (2, 2)),
])  # fmt: skip
def test_choice(
    chip: str, keys: dict[str, Any], schedule: str, block: tuple[int, int, int], waves: tuple[int, int]
) -> None:
    spec = default(chip, **keys)
    assert (spec.schedule, spec.block, spec.waves) == (schedule, block, waves)
    assert GEMM.validate(spec, get_target(chip)) == []


@pytest.mark.full
@given(
    chip=st.sampled_from(sorted(TARGETS)), dtype=st.sampled_from(sorted(OUTPUTS)), layout=st.sampled_from(LAYOUTS),
    sizes=st.tuples(*[st.integers(1, 5000)] * 3), schedule=st.sampled_from(sorted(SCHEDULES)),
    block=st.sampled_from([None, (64, 64, 32), (128, 128, 64), (256, 128, 64), (256, 256, 64), (512, 512, 64)]),
)  # fmt: skip
@settings(max_examples=150, deadline=None)
def test_an_open_schedule_is_never_worse_than_a_named_one(
    chip: str, dtype: str, layout: str, sizes: tuple[int, int, int], schedule: str,
    block: tuple[int, int, int] | None,
) -> None:  # fmt: skip
    """A named schedule is kept, whether the chip can run it or not; where it can run compv3, an open one is valid."""
    m, n, k = sizes
    keys: dict[str, Any] = {"m": m, "n": n, "k": k, "dtype": dtype, "layout": layout, "block": block}
    target = get_target(chip)
    if schedule != "preshuffle" or layout[1] == "C":
        named = default(chip, **keys, schedule=schedule)
        assert named.schedule == schedule and block in (None, named.block)
    if not GEMM.validate(default(chip, **keys, schedule="compv3"), target):
        chosen = default(chip, **keys)
        assert GEMM.validate(chosen, target) == [] and block in (None, chosen.block)
        assert chosen.schedule in ("compv4", "compv3", "compv6", "ping_pong", "ping_pong_async", *COPIED, "mem3", "v4")


def test_what_was_chosen_can_be_asked_and_named() -> None:
    """Only what was open is reported, and a request that names it gets the same kernel."""
    for keys in ({}, {"schedule": "compv3"}, {"block": (128, 128, 32), "epilogue": "direct"}, LARGE):
        problem, target = GEMM.problem(**keys), get_target("gfx950")
        spec = GEMM.spec(problem, target)
        chosen = GEMM.chosen(problem, spec)
        assert set(chosen) == {"block", "wave", "mfma", "epilogue", "schedule"} - set(keys)
        assert GEMM.spec(GEMM.problem(**keys, **chosen), target) == spec


def test_the_first_without_reasons_is_taken() -> None:
    """Or one of the others; or the last of those with the most common reasons, which are then reported."""
    target = get_target("gfx942")
    specs = [default("gfx942", block=(size, size, 64), wave=(2, 4)) for size in (512, 256, 128)]
    assert first_valid(specs, lambda one: GEMM.validate(one, target)) == specs[1]
    assert first_valid(specs[:1] * 2, lambda one: GEMM.validate(one, target)) == specs[0]
    assert first_valid(specs[:1], lambda one: GEMM.validate(one, target), specs) == specs[1]
    often = [*specs[:1] * 2, specs[2]]
    assert first_valid(often, lambda one: [Reason("block", one.block, "too large", "")]) == specs[0]
    with pytest.raises(ValueError, match="nothing to choose"):
        first_valid([], lambda one: [])


@pytest.mark.parametrize("chip", ["gfx90a", "gfx942", "gfx950"])
@pytest.mark.parametrize("keys", [
    {"wave": (1, 1)}, {"wave": (1, 1), "dtype": "f64"}, {"schedule": "async", "dtype": "i8", "operator": "gated_gemm"},
    {"wave": (4, 4), "mfma": (32, 32, 8)}, {"mfma": (32, 32, 8), "operator": "moe_gemm"},
    {"wave": (1, 1), "operator": "streamk_gemm"}, {"wave": (1, 1), "operator": "grouped_gemm"},
    {"wave": (1, 1), "operator": "conv_bwd_weight", "schedule": "v4"},
], ids=str)  # fmt: skip
def test_blocks_go_with_what_is_named(chip: str, keys: dict[str, Any]) -> None:
    """Where no preferred block goes with the waves, the instruction or the schedule of a request, another one does."""
    operator, target = find_operator(keys.get("operator", "gemm")), get_target(chip)
    named = {key: value for key, value in keys.items() if key != "operator"}
    assert operator.validate(operator.spec(operator.problem(**named), target), target) == []


def test_a_refusal_of_waves_says_how_many_there_may_be() -> None:
    """Whatever the block is."""
    target = get_target("gfx942")
    (reason,) = GEMM.validate(default("gfx942", wave=(16, 256)), target)
    assert str(reason) == "waves=16x256: a workgroup of 262144 work-items; expected at most 16 waves on gfx942"


@pytest.mark.one_in(3)
@pytest.mark.parametrize(("layout", "dtype", "sizes"), [
    ("RCR", "f16", (300, 264, 64)),
    ("RRR", "bf16", (256, 520, 184)),
    ("CRR", "f16", (256, 256, 256)),
    ("CCR", "i8", (512, 256, 384)),
    ("RCR", "i8", (264, 304, 16)),
])  # fmt: skip
def test_large_blocks_are_right_and_clean(layout: str, dtype: str, sizes: tuple[int, int, int]) -> None:
    """What the large blocks of gfx950 compute, watched by all checkers, for one to four steps."""
    m, n, k = sizes
    depth = 64 if dtype != "i8" else 128
    keys = {"m": m, "n": n, "k": k, "layout": layout, "dtype": dtype, "block": (256, 256, depth), "wave": (2, 4)}
    spec = default("gfx950", **keys)
    assert (spec.schedule, spec.epilogue) == ("compv4", "direct")
    agree("gemm", "gfx950", **keys)
    everything = [checker.name for checker in CHECKERS.values() if not checker.on_request]
    assert findings(compiled("gemm", tuple(keys.items()), "gfx950"), checks=everything) == ()


@pytest.mark.one_in(3)
@pytest.mark.parametrize("schedule", [CARRIED, "async_late"])
@pytest.mark.parametrize(("dtype", "k"), [("bf16", 320), ("fp8", 384), ("i8", 128)])
def test_large_blocks_of_four_waves_are_right_and_clean(dtype: str, k: int, schedule: str) -> None:
    """What gfx950 copies to LDS, with rows and columns that end within a block: one step, three and five."""
    keys = {"m": 300, "n": 264, "k": k, "dtype": dtype, "schedule": schedule, "wave": (2, 2),
            "block": (256, 256, 64 if dtype == "bf16" else 128)}  # fmt: skip
    agree("gemm", "gfx950", **keys)
    everything = [checker.name for checker in CHECKERS.values() if not checker.on_request]
    assert findings(compiled("gemm", tuple(keys.items()), "gfx950"), checks=everything) == ()


@pytest.mark.parametrize(("chip", "block", "wave", "layout", "dtype", "schedule", "epilogue"), [
    pytest.param("gfx942", (224, 256, 64), (2, 4), "RCR", "f16", "ping_pong", "direct"),
    pytest.param("gfx950", (96, 160, 96), (2, 2), "CRR", "bf16", "compv3", "cshuffle"),
    pytest.param("gfx90a", (48, 80, 48), (1, 1), "RRR", "f16", "mem3", "cshuffle"),
    pytest.param("gfx942", (256, 224, 128), (4, 2), "RCR", "fp8", "ping_pong", "cshuffle", marks=pytest.mark.full),
    pytest.param("gfx950", (192, 192, 64), (2, 2), "RCR", "bf16", "async_late", "direct", marks=pytest.mark.full),
    pytest.param("gfx90a", (144, 112, 32), (1, 1), "CCR", "i8", "compv4", "direct", marks=pytest.mark.full),
])  # fmt: skip
def test_blocks_that_are_no_powers_of_two_are_right_and_clean(
    chip: str, block: tuple[int, int, int], wave: tuple[int, int], layout: str, dtype: str, schedule: str, epilogue: str
) -> None:
    """Rows, columns and steps of three, five and seven tiles, with ends of C and of K within a block."""
    keys = {"m": 300, "n": 264, "k": 208, "layout": layout, "dtype": dtype, "block": block, "wave": wave,
            "schedule": schedule, "epilogue": epilogue}  # fmt: skip
    agree("gemm", chip, **keys)
    everything = [checker.name for checker in CHECKERS.values() if not checker.on_request]
    assert findings(compiled("gemm", tuple(keys.items()), chip), checks=everything) == ()


@pytest.mark.parametrize(("block", "wave", "slices"), [
    ((224, 256, 64), (2, 4), (7, 1)), ((96, 96, 64), (1, 1), (3, 3)), ((192, 128, 64), (2, 2), (3, 2)),
])  # fmt: skip
def test_slices_of_blocks_that_are_no_powers_of_two(
    block: tuple[int, int, int], wave: tuple[int, int], slices: tuple[int, int]
) -> None:
    """As few as there is room for, of what divides rows and columns."""
    op, keys = "gelu(acc + d0) * d1", {"d_kind": ("row", "full"), "schedule": "ping_pong" if 224 in block else "compv3"}
    spec = default("gfx942", **LARGE, op=op, block=block, wave=wave, epilogue="cshuffle", **keys)
    assert spec.slices == slices


@pytest.mark.parametrize("layout", LAYOUTS)
def test_one_block_in_parts_is_right_and_clean(layout: str) -> None:
    """Ragged, with four steps of K on their way."""
    keys = {"m": 40, "n": 56, "k": 3008, "layout": layout, "reduction": "workspace"}
    assert default("gfx950", **keys).schedule == "v4"
    checked("gemm", "gfx950", keys)


@pytest.mark.full
def test_a_large_product_is_right() -> None:
    """One that is given large blocks, with a ragged end along each size."""
    keys = {"m": 4088, "n": 4080, "k": 136}
    assert default("gfx950", **keys).block == (256, 256, 64)
    agree("gemm", "gfx950", **keys)


@pytest.mark.parametrize(("schedule", "out", "bytes_of_lds"), [
    ("compv3", "f16", 32768), ("compv3", "f32", 32768), ("compv4", "f16", 65536),
])  # fmt: skip
def test_the_epilogue_takes_no_more_lds_than_the_loop(schedule: str, out: str, bytes_of_lds: int) -> None:
    """So that two workgroups of compv3 fit on a compute unit of 64 KiB."""
    keys = {"m": 256, "n": 256, "k": 256, "schedule": schedule, "out": out}
    kernel = compile_kernel(GEMM, default("gfx942", **keys), get_target("gfx942"))
    assert kernel.code_object.kernel(kernel.kernel_name).metadata.group_segment_size == bytes_of_lds


ODD = ({"m": 1001, "n": 1003, "k": 999}, {"m": 17, "n": 4099, "k": 999}, {"m": 33, "n": 1003, "k": 4099})
ODD_CASES = [
    (chip, dtype, layout, number)
    for chip in TARGETS for dtype in OUTPUTS for layout in LAYOUTS for number in range(len(ODD))
]  # fmt: skip


@pytest.mark.parametrize(("chip", "dtype", "layout", "number"), [
    pytest.param(*case, marks=[] if case in (("gfx942", "i8", "CRR", 0), ("gfx90a", "i8", "CRR", 1))
                 else [pytest.mark.full])
    for case in ODD_CASES
])  # fmt: skip
def test_odd_sizes_spill_nothing(chip: str, dtype: str, layout: str, number: int) -> None:
    """Single elements are loaded, and each load compared: scalar registers have room for the outcomes."""
    spec, target = default(chip, **ODD[number], dtype=dtype, layout=layout), get_target(chip)
    if GEMM.validate(spec, target):
        assert not target.mfmas(dtype)
        return
    kernel = compile_kernel(GEMM, spec, target)
    found = kernel.code_object.kernel(kernel.kernel_name).metadata
    assert (found.vgpr_spill_count, found.sgpr_spill_count, found.private_segment_size) == (0, 0, 0)


@pytest.mark.full
@pytest.mark.parametrize(("chip", "keys"), [
    ("gfx950", {"block": (256, 256, 64), "wave": (2, 4), "mfma": (16, 16, 32), "schedule": "ping_pong_async"}),
    ("gfx942", {"block": (192, 256, 64), "wave": (2, 4), "mfma": (16, 16, 16), "schedule": "ping_pong"}),
])  # fmt: skip
def test_small_slices_are_right(chip: str, keys: dict[str, Any]) -> None:
    """Of a block with four matrices beside the sums: proved, clean and right, behind the ends of C too."""
    keys = {**keys, "m": 259, "n": 261, "k": 192, "op": "gelu(acc) * d0 + d1 * d2 + silu(d3)", "out": "f32"}
    target = get_target(chip)
    bench = Workbench.of(GEMM, GEMM.spec(GEMM.problem(**keys), target), target)
    assert bench.compile(bench.schedule, code=False).findings == ()
    checked("gemm", chip, keys)


def test_a_step_of_part_of_a_group_is_refused() -> None:
    """Steps of 48 elements have one group of 32 scales, and a half."""
    operator, target = find_operator("mx_gemm"), get_target("gfx942")
    problem = operator.problem(block=(96, 64, 48), wave=(2, 4))
    (reason, *_) = operator.validate(operator.spec(problem, target), target)
    assert "steps of 48 along K are not whole groups" in str(reason)


def test_three_tiles_of_columns_are_not_halved() -> None:
    """Where each group's sums are scaled by halves of the block, and these would be one and a half tiles of a wave."""
    agree("mx_gemm", "gfx942", m=64, n=96, k=64, dtype="fp4", block=(128, 192, 64), wave=(2, 2))


def test_copies_of_waves_take_lds() -> None:
    """Of 96 x 96 elements that are transposed on their way four waves hold each twice."""
    keys = {"layout": "CRR", "block": (192, 96, 96), "wave": (2, 2), "schedule": "compv3"}
    (reason,) = GEMM.validate(default("gfx942", **keys), get_target("gfx942"))
    assert "needs 73728 bytes of LDS" in str(reason)


def test_a_step_of_part_of_a_byte_is_refused() -> None:
    """A block of one element of 4 bits along K that a schedule would copy to LDS."""
    operator, target = find_operator("gemm_quant"), get_target("gfx942")
    keys = {"b_dtype": "i4", "a_scale": "tensor", "b_scale": "column", "block": (16, 16, 1), "wave": (1, 1)}
    problem = operator.problem(**keys, schedule="async_wide")
    assert "expected a multiple of 32 along k" in str(operator.validate(operator.spec(problem, target), target)[0])


ONE_BLOCK_EACH = {"m": 2048, "n": 2048, "k": 2048, "a_scale": "1x128", "b_scale": "128x128"}


@pytest.mark.parametrize(
    ("chip", "keys", "schedule"),
    [
        ("gfx950", {}, "async"),
        ("gfx950", {"b_scale": "1x128", "dtype": "i8"}, "async"),
        ("gfx950", {"m": 2049}, "straight_single"),  # more blocks than compute units
        ("gfx950", {"a_scale": "1x32"}, "compv3"),
        ("gfx950", {"b_dtype": "i4"}, "compv3"),
        ("gfx942", {}, "compv3"),
    ],
)
def test_block_scales_are_copied_where_units_have_one_block(chip: str, keys: dict[str, Any], schedule: str) -> None:
    operator, target = find_operator("gemm_quant"), get_target(chip)
    assert operator.spec(operator.problem(**{**ONE_BLOCK_EACH, **keys}), target).schedule == schedule


@pytest.mark.parametrize("keys", [{}, {"b_scale": "1x128", "op": "gelu(acc * d0 + d1)", "out": "f16"}])
def test_copied_block_scales_of_ragged_sizes(keys: dict[str, Any]) -> None:
    agree("gemm_quant", "gfx950", **{**ONE_BLOCK_EACH, "m": 130, "n": 145, "k": 528, **keys})
