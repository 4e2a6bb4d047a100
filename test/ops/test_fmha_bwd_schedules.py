"""The loop over queries of attention backward: proved under every named schedule, and what its instructions come to."""

from __future__ import annotations

import itertools
from collections import Counter

import pytest
from operator_runner import CHIPS

from ckmlir.compiler import compile_kernel
from ckmlir.ops import find_operator
from ckmlir.ops.dtypes import find_dtype
from ckmlir.ops.operator import require_valid
from ckmlir.ops.request import RequestError
from ckmlir.ops.schedules import BACKWARD
from ckmlir.runtime import check_outputs, run_operator
from ckmlir.runtime.simulator_device import SimulatorDevice
from ckmlir.scheduling import Workbench
from ckmlir.scheduling.machine_loop import steady_loop
from ckmlir.sim.decode.decoder import disassemble
from ckmlir.targets import get_target

FMHA = find_operator("fmha_bwd")
FULL = pytest.mark.full
STAYING: dict[str, object] = {"deterministic": 1, "persistent": 1}
MOVES = ("v_accvgpr_read_b32", "v_accvgpr_write_b32", "v_accvgpr_mov_b32", "v_mov_b32")


def is_possible(chip: str, dtype: str, d: int, mask: str, schedule: str) -> bool:
    """Whether a chip runs the kernel."""
    target = get_target(chip)
    return not FMHA.validate(FMHA.spec(FMHA.problem(d=d, dtype=dtype, mask=mask, schedule=schedule), target), target)


@pytest.mark.one_in(3)
@pytest.mark.parametrize(("chip", "dtype", "d", "mask", "schedule"), [
    ("gfx942", "f16", 32, "top_left", "phases"), ("gfx950", "f16", 32, "window:20,5", "unpipelined"),
    ("gfx90a", "bf16", 64, "top_left", "woven_queries"), ("gfx950", "f16", 64, "window:20,5", "woven"),
    *(pytest.param(*case, marks=FULL) for case in itertools.product(
        CHIPS, ("f16",), (32, 64, 96, 128, 256), ("none", "top_left", "window:20,5"), BACKWARD) if is_possible(*case)),
    *(pytest.param(*case, marks=FULL) for case in itertools.product(
        CHIPS, ("f32",), (32, 64, 96, 128), ("none", "top_left", "window:20,5"), BACKWARD) if is_possible(*case)),
])  # fmt: skip
def test_every_schedule_is_proved(chip: str, dtype: str, d: int, mask: str, schedule: str) -> None:
    """Both loops of a causal mask included; the same kernel then takes no queries, a part of a block, and many."""
    target = get_target(chip)
    keys = {"sk": 140, "d": d, "h": 1, "mask": mask, "schedule": schedule, "dtype": dtype}
    spec = FMHA.spec(FMHA.problem(**keys), target)
    bench = Workbench.of(FMHA, spec, target)
    made = bench.compile(bench.schedule)
    assert made.findings == ()
    kernel = made.compiled
    assert kernel is not None
    device = SimulatorDevice(target, seed=3)
    for sq in (0, 7, 200):
        problem = FMHA.problem(**keys, sq=sq)
        arrays = FMHA.inputs(problem, target, seed=7)
        result = run_operator(FMHA, problem, arrays, target, device, compiled=kernel)
        assert all(one.ok for one in check_outputs(FMHA, problem, arrays, result.outputs, target))


@pytest.mark.parametrize("chip", ["gfx942", *(pytest.param(one, marks=FULL) for one in CHIPS)])
@pytest.mark.parametrize(("d", "dv"), [(128, 128), *(pytest.param(*case, marks=FULL) for case in (
    (32, 32), (64, 64), (96, 96), (128, 256), (256, 128)))])  # fmt: skip
def test_singles_keep_their_registers(chip: str, d: int, dv: int) -> None:
    """f32 without parts spills nothing where it is not refused, with one span and with two."""
    target = get_target(chip)
    for mask in ("top_left", "window:20,5"):
        kernel = compile_kernel(FMHA, FMHA.spec(FMHA.problem(mask=mask, d=d, dv=dv, dtype="f32"), target), target)
        metadata = kernel.code_object.kernel(kernel.kernel_name).metadata
        assert (metadata.vgpr_spill_count, metadata.sgpr_spill_count, metadata.private_segment_size) == (0, 0, 0)


@pytest.mark.parametrize(("keys", "named", "found"), [
    ({"d": 32, "schedule": "woven"}, "too few matrix instructions to read ahead of", None),
    ({"d": 128, "schedule": "woven_queries"}, "Q of f16 lies in LDS once on gfx950", "woven"),
    ({"bias": "head", "dbias": 1, "schedule": "woven"}, "dS is stored between its arithmetic", "phases"),
    ({"bias": "head", "dropout": 0.1, "schedule": "woven_queries", "chip": "gfx942"},
     "too few registers for more than 96 channels", "phases"),
])  # fmt: skip
def test_what_is_not_woven(keys: dict[str, object], named: str, found: str | None) -> None:
    """It is refused by name, and something else chosen where nothing is named."""
    target = get_target(str(keys.pop("chip", "gfx950")))
    with pytest.raises(RequestError, match=named):
        require_valid(FMHA, FMHA.spec(FMHA.problem(**keys), target), target)
    if found is not None:
        del keys["schedule"]
        assert FMHA.spec(FMHA.problem(**keys), target).schedule == found


@pytest.mark.one_in(3)
@pytest.mark.parametrize("dtype", ["f16", "bf16"])
@pytest.mark.parametrize(("chip", "matrix", "vector"), [("gfx942", 80, 140), ("gfx950", 40, 120)])
def test_a_step_is_mostly_products(chip: str, matrix: int, vector: int, dtype: str) -> None:
    """Vector instructions beside the products; nothing of it is spilled."""
    target = get_target(chip)
    for mask in ("none", "top_left"):
        kernel = compile_kernel(FMHA, FMHA.spec(FMHA.problem(mask=mask, dtype=dtype), target), target)
        metadata = kernel.code_object.kernel(kernel.kernel_name).metadata
        assert (metadata.vgpr_spill_count, metadata.sgpr_spill_count, metadata.private_segment_size) == (0, 0, 0)
        if mask == "none":  # with a mask the loop that is found may be that of the masked queries
            names = Counter(one.mnemonic for one in steady_loop(kernel.code_object, kernel.kernel_name).instructions)
            products = sum(count for name, count in names.items() if "mfma" in name)
            others = sum(count for name, count in names.items() if name.startswith("v_") and "mfma" not in name)
            assert products % matrix == 0
            assert others / products <= vector / matrix


@pytest.mark.parametrize(("chip", "d", "dtype"), [
    ("gfx950", 64, "f16"), *(pytest.param(*case, marks=FULL) for case in (
        ("gfx950", 128, "bf16"), ("gfx950", 256, "f16"), ("gfx942", 64, "f32"), ("gfx90a", 64, "f32"))),
])  # fmt: skip
def test_keys_are_in_lds_once(chip: str, d: int, dtype: str) -> None:
    """Where LDS is read across rows K is not written for that again: before the first product it, Q and dO are once."""
    target = get_target(chip)
    spec = FMHA.spec(FMHA.problem(d=d, dtype=dtype), target)
    kernel = compile_kernel(FMHA, spec, target)
    names = [one.mnemonic for one in disassemble(kernel.code_object, kernel.kernel_name)]
    before = names[: next(place for place, name in enumerate(names) if "mfma" in name)]
    written = sum(16 * name.startswith("ds_write_b128") + 8 * name.startswith("ds_write_b64") for name in before)
    queries, keys = spec.block
    assert written * spec.waves * target.wave_size == (keys + 2 * queries) * d * find_dtype(dtype).bytes


@pytest.mark.one_in(3)
@pytest.mark.parametrize(("chip", "matrix", "schedule", "most"), [
    ("gfx942", 80, "phases", 4), ("gfx950", 40, "phases", 4), ("gfx942", 80, "woven_queries", 0),
    ("gfx950", 40, "woven", 0),
])  # fmt: skip
def test_a_step_moves_hardly_any_register(chip: str, matrix: int, schedule: str, most: int) -> None:
    """None where steps are woven, else at most four, for all products of a step with 128 channels."""
    target = get_target(chip)
    kernel = compile_kernel(FMHA, FMHA.spec(FMHA.problem(schedule=schedule), target), target)
    names = Counter(one.mnemonic for one in steady_loop(kernel.code_object, kernel.kernel_name).instructions)
    products = sum(count for name, count in names.items() if "mfma" in name)
    assert sum(names[name] for name in MOVES) * matrix / products <= most


@pytest.mark.parametrize(("chip", "matrix", "vector"), [
    ("gfx942", 80, 113), pytest.param("gfx90a", 80, 110, marks=FULL), pytest.param("gfx950", 40, 108, marks=FULL),
])  # fmt: skip
def test_windows_move_no_register(chip: str, matrix: int, vector: int) -> None:
    """Which queries attend to a lane's key are bits of one number. Where distances were compared one by one a step
    moved three to six registers on gfx90a and gfx942, for 158 vector instructions, and 144 before products were rounded
    by one."""
    target = get_target(chip)
    for mask in ("window:64,0", "window:64,0,4"):
        kernel = compile_kernel(FMHA, FMHA.spec(FMHA.problem(mask=mask), target), target)
        names = Counter(one.mnemonic for one in steady_loop(kernel.code_object, kernel.kernel_name).instructions)
        products = sum(count for name, count in names.items() if "mfma" in name)
        others = sum(count for name, count in names.items() if name.startswith("v_") and "mfma" not in name)
        assert sum(names[name] for name in MOVES) == 0
        assert others / products <= vector / matrix


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("chip", "matrix", "keys", "vector", "moves"), [
    ("gfx942", 80, {"alibi": "head", "mask": "window:64,0"}, 141, 0), ("gfx950", 40, {"bias": "head"}, 106, 17),
    *(pytest.param(*case, marks=FULL) for case in (
        ("gfx90a", 80, {"alibi": "head", "mask": "window:64,0"}, 135, 0), ("gfx90a", 80, {"bias": "head"}, 137, 34),
        ("gfx950", 40, {"alibi": "head", "mask": "window:64,0"}, 134, 0), ("gfx942", 80, {"bias": "head"}, 139, 33),
    )),
])  # fmt: skip
def test_what_parts_take(chip: str, matrix: int, keys: dict[str, object], vector: int, moves: int) -> None:
    """ALiBi counts distances on from one number a lane, in f32; a bias moves its buffer, whose end refuses queries.
    With a conversion for each distance a step of ALiBi took 24 more and moved registers, with comparisons one of a bias
    35."""
    target = get_target(chip)
    kernel = compile_kernel(FMHA, FMHA.spec(FMHA.problem(**keys), target), target)
    names = Counter(one.mnemonic for one in steady_loop(kernel.code_object, kernel.kernel_name).instructions)
    steps = sum(count for name, count in names.items() if "mfma" in name) / matrix
    others = sum(count for name, count in names.items() if name.startswith("v_") and "mfma" not in name)
    assert others / steps <= vector
    assert sum(names[name] for name in MOVES) / steps <= moves


def test_a_causal_mask_leaves_two_waves_room_with_64_channels() -> None:
    """A SIMD has 512 registers, and LDS of gfx950 room for two workgroups; a wave took 260 registers."""
    target = get_target("gfx950")
    for dtype in ("f16", "bf16"):
        kernel = compile_kernel(FMHA, FMHA.spec(FMHA.problem(d=64, dtype=dtype, mask="top_left"), target), target)
        assert kernel.code_object.kernel(kernel.kernel_name).metadata.vgpr_count <= 256


@pytest.mark.one_in(2)
@pytest.mark.parametrize("chip", ["gfx950", "gfx942"])
def test_workgroups_that_stay_move_no_register(chip: str) -> None:
    """A step stores rows or adds to them: both have one offset, which the loop hands on. Q and dO are loaded from
    buffers that move: where each row was compared a register of a step lay in the other file on gfx950."""
    target = get_target(chip)
    kernel = compile_kernel(FMHA, FMHA.spec(FMHA.problem(d=96, **STAYING), target), target)
    loop = steady_loop(kernel.code_object, kernel.kernel_name).instructions
    assert any("mfma" in one.mnemonic for one in loop)
    assert not any(one.mnemonic in MOVES for one in loop)


@pytest.mark.full
@pytest.mark.parametrize("part", [{}, {"bias": "head"}, {"alibi": "head"}, {"dropout": 0.1}])
@pytest.mark.parametrize("mask", ["none", "top_left", "window:64,0", "window:64,0,4"])
@pytest.mark.parametrize("dtype", ["f16", "bf16"])
@pytest.mark.parametrize("chip", CHIPS)
def test_workgroups_that_stay_are_woven(chip: str, dtype: str, mask: str, part: dict[str, object]) -> None:
    """With 128 channels beside a mask and a part, without a vector register spilled."""
    target = get_target(chip)
    keys = {"mode": "group", "seqlens_q": (4096, 2048), "seqlens_k": (4096, 2048), "dtype": dtype, "mask": mask}
    spec = FMHA.spec(FMHA.problem(**keys, deterministic=1, persistent=1, **part), target)
    assert spec.schedule.startswith("woven")
    kernel = compile_kernel(FMHA, spec, target)
    metadata = kernel.code_object.kernel(kernel.kernel_name).metadata
    assert (metadata.vgpr_spill_count, metadata.private_segment_size) == (0, 0)


@pytest.mark.one_in(4)
@pytest.mark.parametrize(("chip", "keys"), [
    ("gfx950", {"d": 32, "dv": 96, "dtype": "bf16", "bias": "head", "dbias": 1}),
    ("gfx950", {"d": 160, "bias": "head", **STAYING, "seqlens_k": (203, 127)}),
    ("gfx950", {"d": 96, "dtype": "bf16", "mask": "window:20,5,40", "bias": "head", **STAYING}),
    ("gfx942", {"d": 192, "dv": 128, "mask": "bottom_right", "h": 4, "hk": 2, **STAYING}),
])  # fmt: skip
def test_dropout_keeps_scalar_registers(chip: str, keys: dict[str, object]) -> None:
    """Numbers of packed arithmetic and the keys of Philox had taken 31 more than there are; what workgroups that stay
    compute before a loop and need behind it, 1 to 21."""
    target = get_target(chip)
    kernel = compile_kernel(FMHA, FMHA.spec(FMHA.problem(**keys, dropout=0.2, sq=128, sk=203), target), target)
    metadata = kernel.code_object.kernel(kernel.kernel_name).metadata
    assert metadata.sgpr_spill_count == 0
