"""Products of few rows or few blocks: what an estimate of their time chooses, and that it says what the model says."""

from __future__ import annotations

from typing import Any, cast

import msgspec
import pytest

from ckmlir.compiler import compile_kernel
from ckmlir.ops import find_operator
from ckmlir.ops.contraction.contraction_spec import ContractionSpec
from ckmlir.ops.contraction.low_blocks import LOOPS, LowBlocks, is_few, is_low, low_blocks
from ckmlir.ops.plan import make_plan
from ckmlir.ops.request import RequestError
from ckmlir.runtime.timing import model_kernels
from ckmlir.sim.timing.parameters import load
from ckmlir.targets import get_target

GEMM = find_operator("gemm")
GFX942 = get_target("gfx942")


def blocks(m: int, n: int, k: int, block: tuple[int, int, int], *, load_bytes: int = 16) -> LowBlocks:
    """Of one product in f16."""
    return low_blocks((m, n, k), 1, block, ("f16", 16, load_bytes), GFX942, merged=False)


def cycles(chip: str, keys: dict[str, Any]) -> float:
    """Of all kernels of a product by the model, with all workgroups of a compute unit simulated together."""
    parameters = load(chip)
    found = model_kernels(GEMM, GEMM.problem(**keys), get_target(chip), parameters, mode="sampled")
    return sum(one.under(parameters).grid.cycles for one in found)


@pytest.mark.parametrize(("chip", "keys", "block", "parts", "schedule"), [
    ("gfx90a", {"m": 1, "n": 1024, "k": 4096, "dtype": "f32"}, (16, 64, 64), 5, "compv4"),
    ("gfx90a", {"m": 64, "n": 4096, "k": 4096}, (64, 64, 128), 1, "compv4"),  # B is read once
    ("gfx90a", {"m": 64, "n": 8192, "k": 1536, "dtype": "i8"}, (32, 32, 256), 1, "compv3"),  # LDS for many workgroups
    ("gfx942", {"m": 28, "n": 1024, "k": 4093}, (16, 64, 128), 8, "compv3"),  # narrow loads
    ("gfx90a", {"m": 64, "n": 384, "k": 1536}, (32, 32, 128), 4, "v4"),
    ("gfx90a", {"m": 16, "n": 384, "k": 1536, "dtype": "i8"}, (16, 16, 256), 1, "compv3"),  # parts would save little
    ("gfx942", {"m": 64, "n": 1024, "k": 4096, "dtype": "f32"}, (32, 32, 64), 8, "compv4"),
    ("gfx942", {"m": 28, "n": 2048, "k": 2048, "dtype": "fp8"}, (16, 16, 256), 1, "v4"),
    ("gfx942", {"m": 64, "n": 1024, "k": 4096, "split_k": 1}, (16, 16, 128), 1, "v4"),  # as is best with one part
    ("gfx942", {"m": 64, "n": 64, "k": 65536}, (64, 64, 64), 79, "v4"),  # one block
    ("gfx950", {"m": 64, "n": 384, "k": 1536, "dtype": "f32"}, (32, 32, 64), 8, "v4"),
    ("gfx950", {"m": 64, "n": 4096, "k": 4096}, (32, 64, 128), 4, "v4"),
    # Fewer blocks of 128 x 128 than compute units: smaller ones, or other parts of K.
    ("gfx90a", {"m": 512, "n": 512, "k": 512}, (64, 64, 128), 1, "compv4"),
    ("gfx942", {"m": 1024, "n": 1024, "k": 1024}, (64, 64, 128), 1, "compv4"),
    ("gfx942", {"m": 128, "n": 4096, "k": 4096, "dtype": "fp8"}, (32, 32, 256), 1, "v4"),
    ("gfx950", {"m": 100, "n": 300, "k": 1000}, (32, 32, 128), 1, "v4"),
    ("gfx950", {"m": 1024, "n": 1024, "k": 4096}, (128, 128, 64), 4, "straight"),
    ("gfx942", {"m": 80, "n": 16, "k": 512}, (16, 16, 128), 1, "v4"),
    ("gfx942", {"m": 512, "n": 512, "k": 512, "schedule": "compv3"}, (128, 128, 64), 1, "compv3"),  # named
    ("gfx942", {"m": 2048, "n": 2432, "k": 2048}, (128, 128, 64), 1, "compv4"),  # 304: enough
])  # fmt: skip
def test_choices(chip: str, keys: dict[str, Any], block: tuple[int, ...], parts: int, schedule: str) -> None:
    problem, target = GEMM.problem(**keys), get_target(chip)
    spec = cast(ContractionSpec, GEMM.spec(problem, target))
    found = GEMM.launch(problem, spec, target).grid[2]
    assert (spec.block, found, spec.schedule) == (block, parts, schedule)


OTHERS: list[tuple[str, str, dict[str, Any], tuple[int, ...]]] = [
    ("gated_gemm", "gfx942", {"m": 512, "n": 512, "k": 512}, (32, 32, 128)),
    ("gated_gemm", "gfx942", {"m": 16, "n": 896, "k": 384}, (16, 16, 128)),
    ("gemm_quant", "gfx942", {"m": 512, "n": 512, "k": 512}, (32, 32, 256)),
    ("gemm_quant", "gfx950", {"m": 16, "n": 2944, "k": 1024}, (16, 16, 256)),
    ("gemm_quant", "gfx942", {"m": 256, "n": 1024, "k": 2048, "a_scale": "1x32", "b_scale": "1x32"}, (32, 32, 256)),
    ("gemm_quant", "gfx942", {"m": 16, "n": 4096, "k": 4096, "a_scale": "1x32", "b_scale": "1x32"}, (16, 16, 256)),
    ("gemm_quant", "gfx942", {"m": 512, "n": 512, "k": 512, "a_scale": "1x64", "layout": "RRR"}, (128, 128, 128)),
    ("mx_gemm", "gfx950", {"m": 512, "n": 512, "k": 2048, "dtype": "fp4"}, (32, 32, 512)),
    ("gemm_sparse", "gfx942", {"m": 512, "n": 512, "k": 1024}, (32, 32, 128)),
    ("conv_fwd", "gfx942", {"n": 4, "c": 256, "k": 256, "image": (14, 14)}, (32, 32, 128)),
    ("conv_bwd_data", "gfx942", {"n": 4, "c": 256, "k": 256, "image": (14, 14)}, (32, 32, 128)),
    ("conv_bwd_data", "gfx942", {"n": 8, "c": 128, "k": 256, "image": (14, 14), "strides": (2, 2)}, (32, 32, 128)),
    ("conv_bwd_data", "gfx950", {"n": 8, "c": 40, "k": 160, "image": (28, 28)}, (64, 64, 64)),  # digits in each load
    ("conv_bwd_data", "gfx942", {  # in smaller blocks more of those that have nothing to sum would take longer
        "n": 32, "c": 96, "k": 24, "image": (28, 28), "window": 1, "pads": 0, "strides": 2, "dtype": "i8",
    }, (128, 128, 128)),
    ("conv_bwd_data", "gfx942", {"c": 256, "k": 256, "image": (0, 5)}, (64, 64, 64)),  # no class has a row
    ("conv_bwd_weight", "gfx942", {"n": 8, "c": 512, "k": 512, "image": (7, 7)}, (64, 64, 64)),
    ("batched_contraction", "gfx950", {"m": (8, 16), "n": (2, 64), "k": (9, 128)}, (32, 32, 64)),
]  # fmt: skip


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("operator", "chip", "keys", "block"), OTHERS)
def test_choices_of_others(operator: str, chip: str, keys: dict[str, Any], block: tuple[int, ...]) -> None:
    """Several matrices B, scales and patches follow the same estimate."""
    chosen = find_operator(operator)
    assert chosen.spec(chosen.problem(**keys), get_target(chip)).block == block


@pytest.mark.one_in(24)
@pytest.mark.parametrize(("operator", "chip", "keys", "block"), OTHERS)
def test_choices_of_others_spill_nothing(
    operator: str, chip: str, keys: dict[str, Any], block: tuple[int, ...]
) -> None:
    chosen, target = find_operator(operator), get_target(chip)
    spec = chosen.spec(chosen.problem(**keys), target)
    kernel = compile_kernel(chosen, spec, target)
    found = kernel.code_object.kernel(kernel.kernel_name).metadata
    assert (found.vgpr_spill_count, found.sgpr_spill_count) == (0, 0)


@pytest.mark.parametrize(("rows", "columns", "own", "sharing", "own_bytes"), [
    (16, 16, 1, 1, 32 * 256),  # a wave alone
    (16, 16, 2, 2, 32 * 256),  # both on one of two buses
    (16, 16, 4, 2, 32 * 256),
    (16, 64, 1, 2, 80 * 256 / 4),  # four waves, two of them on each
])  # fmt: skip
def test_waves_share_buses_to_lds(rows: int, columns: int, own: int, sharing: int, own_bytes: float) -> None:
    """Two SIMDs have one: a write of 16 bytes a lane takes it 20 cycles, a read 16."""
    low = blocks(rows, columns, 2048, (rows, columns, 128))
    assert low._served(own, GFX942) == (sharing * own_bytes / 1024 * 20, sharing * 32 * 256 / 64)


def test_what_loads_ahead_takes_a_share_of_short_sums() -> None:
    """Of memory's time, which the first step waits for: less than in proportion to the steps, the longer sums are."""
    short, long = (blocks(28, 8192, k, (16, 32, 256)).cycles("v4", 1, GFX942) for k in (1024, 8192))
    assert long < 6.35 * short  # 6.42 if the first step waited for none of it


def test_waves_of_several_matrices_b_are_those_of_one() -> None:
    """Which multiply for all of them: a block of 16 x 16 of each is one wave's."""
    one, two = (
        low_blocks((16, 16, 384), 1, (16, 16, 128), ("f16", 16, 16), GFX942, merged=False, factors=count)
        for count in (1, 2)
    )
    assert (one.waves, two.waves) == (1, 1) and two.tiles == 2 * one.tiles


@pytest.mark.full
@pytest.mark.parametrize(("chip", "keys", "other"), [
    ("gfx90a", {"m": 64, "n": 2048, "k": 2048, "dtype": "f32"}, {"block": (16, 16, 64), "wave": (1, 1)}),
    ("gfx942", {"m": 64, "n": 2048, "k": 2048}, {"block": (16, 16, 128), "wave": (1, 1), "split_k": 1}),
    ("gfx950", {"m": 28, "n": 4096, "k": 4096}, {"block": (16, 16, 128), "wave": (1, 1), "split_k": 1}),
    ("gfx90a", {"m": 48, "n": 2048, "k": 4097}, {"block": (16, 16, 128), "wave": (1, 1), "split_k": 1}),  # narrow loads
])  # fmt: skip
def test_choices_are_faster_by_the_model(chip: str, keys: dict[str, Any], other: dict[str, Any]) -> None:
    """Than blocks of one wave, which rules of sizes alone took here."""
    schedule = {"schedule": "mem3" if chip == "gfx90a" else "v4"}
    assert cycles(chip, keys) < 0.95 * cycles(chip, {**keys, **other, **schedule})


def test_what_time_depends_on() -> None:
    plain = blocks(16, 1024, 8192, (16, 16, 128))
    assert plain.cycles("v4", 1, GFX942) > plain.cycles("v4", 4, GFX942)
    assert plain.cycles("v4", 5, GFX942) > plain.cycles("v4", 4, GFX942)  # 320 workgroups: some of 304 units have two
    assert blocks(16, 1024, 8192, (16, 16, 128), load_bytes=2).cycles("v4", 1, GFX942) > plain.cycles("v4", 1, GFX942)
    assert blocks(16, 8192, 8192, (16, 16, 128)).cycles("v4", 1, GFX942) > plain.cycles("v4", 1, GFX942)


def test_parts() -> None:
    """None of them is without steps, and none saves less than a second kernel is assumed to cost."""
    assert blocks(16, 1024, 0, (16, 16, 128)).best_parts("v4", GFX942) == 1
    assert blocks(16, 1024, 1024, (16, 16, 128)).best_parts("v4", GFX942) == 1
    for k in (2048, 5000, 100_000):
        low = blocks(16, 300, k, (16, 16, 128))
        parts = low.best_parts("v4", GFX942)
        assert 1 < parts <= 32 and (parts - 1) * -(-low.steps // parts) < low.steps


@pytest.mark.parametrize("block", ["1x8x1", "8x16x1", "3x500x7"])
def test_blocks_smaller_than_a_tile_are_refused(block: str) -> None:
    """Named ones, of which parts of K are found before."""
    operator, target = find_operator("gated_gemm"), get_target("gfx90a")
    problem = operator.problem(m=64, n=256, k=256, block=block)
    with pytest.raises(RequestError, match=f"block={block}"):
        make_plan(operator, problem, target)


def test_where_the_estimate_holds() -> None:
    assert is_low((64, 4096, 4096), (64, 64, 64)) and is_low((1, 1, 0), (16, 16, 64))
    assert not is_low((65, 4096, 4096), (64, 64, 64)) and not is_low((64, 64, 64), (128, 64, 64))
    assert not is_low((0, 64, 64), (16, 16, 64))
    medium = (128, 128, 64)
    assert is_few((65, 1, 0), 1, medium, GFX942) and not is_few((64, 64, 64), 1, medium, GFX942)
    assert is_few((2048, 2304, 64), 1, medium, GFX942) and not is_few((2048, 2432, 64), 1, medium, GFX942)
    assert is_few((512, 512, 64), 18, medium, GFX942) and not is_few((512, 512, 64), 19, medium, GFX942)
    assert not is_few((512, 512, 64), 1, (256, 128, 64), GFX942)


def test_workgroups_come_in_rounds() -> None:
    """Of as many as compute units hold, by LDS and by registers; a round takes its time whoever is in it."""
    loop = LOOPS["compv4"]
    tall = [blocks(16 * count, 64, 2048, (16, 64, 128)) for count in (304, 305, 608)]
    assert tall[0].held(loop, GFX942) == 1  # two buffers of 20 KB
    one, more, two = (low.cycles("compv4", 1, GFX942) for low in tall)
    assert one < 0.6 * two and more == pytest.approx(two, rel=0.01)
    assert tall[0].held(LOOPS["compv3"], GFX942) == 3
    assert blocks(16, 64, 2048, (64, 64, 128)).held(LOOPS["v4"], get_target("gfx950")) == 2  # of four by LDS


def test_what_memory_gives() -> None:
    """What workgroups that run at a time have in common comes once, what another round reads again once more."""
    low = blocks(32, 1024, 512, (16, 64, 128))  # two rows of sixteen blocks
    row, column = 512 * 2, 512 * 2
    assert low.from_memory(32, 1) == 32 * row + 1024 * column
    assert low.from_memory(16, 1) == 16 * row + 1024 * column
    assert low.from_memory(8, 1) == 16 * row + 512 * column
    assert low.from_memory(64, 2) == low.from_memory(32, 1)
    assert low.from_memory(96, 3) == low.from_memory(32, 1) * 3 * 2 / 4  # of four steps, parts of two, two and none


def test_memory_is_asked_for_whole_lines_across_k() -> None:
    along, across = (
        low_blocks((32, 256, 1024), 1, (32, 32, 256), ("i8", 8, 16), GFX942, merged=False, layout=layout)
        for layout in ("RCR", "CRR")
    )
    assert (along.requested, across.requested) == (64 * 256, 2 * 64 * 256)
    wide = low_blocks((32, 256, 1024), 1, (64, 64, 256), ("i8", 8, 16), GFX942, merged=False, layout="CRR")
    assert wide.requested == wide.bytes


def test_narrow_loads_take_the_simds() -> None:
    """Of all workgroups of a compute unit, not of one alone."""
    low = blocks(16, 16 * 304 * 4, 8192, (16, 16, 128), load_bytes=2)
    wide = msgspec.structs.replace(low, load_bytes=16)
    assert low.held(LOOPS["compv3"], GFX942) >= 4
    assert low.cycles("compv3", 1, GFX942) > wide.cycles("compv3", 1, GFX942)


@pytest.mark.full
@pytest.mark.parametrize(("chip", "keys", "share"), [
    ("gfx90a", {"m": 512, "n": 512, "k": 512}, 0.5),
    ("gfx942", {"m": 1405, "n": 657, "k": 128, "dtype": "fp8"}, 0.75),
    ("gfx950", {"m": 65, "n": 424, "k": 256, "dtype": "bf16", "layout": "RRR"}, 0.6),
])  # fmt: skip
def test_few_blocks_are_faster_by_the_model(chip: str, keys: dict[str, Any], share: float) -> None:
    """Than those of 128 x 128 that leave most compute units without work."""
    depth = 128 if keys.get("dtype") == "fp8" else 64
    assert cycles(chip, keys) < share * cycles(chip, {**keys, "block": (128, 128, depth), "schedule": "compv4"})
