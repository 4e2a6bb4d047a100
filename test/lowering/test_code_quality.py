"""What the emitted instructions of default kernels look like: no spills, wide accesses, a clean steady loop.

These are counts on the machine code, decoded by the project's own table; nothing is timed.
"""

import functools
import itertools
import re
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from ckmlir.compiled_kernel import CompiledKernel
from ckmlir.compiler import compile_kernel
from ckmlir.lowering.accumulator_form import assembly
from ckmlir.lowering.codeobject import CodeGenerationError
from ckmlir.mlir import ir
from ckmlir.ops import OPERATORS, find_operator
from ckmlir.ops.schedules import ATTENTION
from ckmlir.sim.analysis import check_hazards
from ckmlir.sim.decode.decoder import disassemble
from ckmlir.sim.decode.instruction import Instruction
from ckmlir.targets import get_target

CHIPS = ("gfx90a", "gfx942", "gfx950")
REQUESTS = {
    "gemm": {"m": 512, "n": 512, "k": 512},
    "layernorm2d": {"m": 64, "n": 4096},
    "fmha_fwd": {"sq": 512, "d": 128},
    "fmha_bwd": {"sq": 512, "d": 128},
}


@functools.cache
def compiled(name: str, chip: str, **keys: object) -> CompiledKernel:
    """The default kernel of a request, with its scheduled IR."""
    operator, target = find_operator(name), get_target(chip)
    spec = operator.spec(operator.problem(**{**REQUESTS.get(name, {}), **keys}), target)
    return compile_kernel(operator, spec, target, keep=("scheduled",))


def instructions(kernel: CompiledKernel) -> list[Instruction]:
    """All instructions of a kernel."""
    return disassemble(kernel.code_object, kernel.kernel_name)


def steady_loop(code: Sequence[Instruction]) -> list[Instruction]:
    """The loop with the most matrix instructions: from a backward branch's target to the branch."""
    loops = [
        [one for one in code if branch.branch_target <= one.address <= branch.address]
        for branch in code
        if branch.branch_target is not None and branch.branch_target <= branch.address
    ]
    return max(loops, key=lambda body: sum("mfma" in one.mnemonic for one in body))


def named(code: Sequence[Instruction], pattern: str) -> list[str]:
    """Mnemonics that match a pattern from their start."""
    return [one.mnemonic for one in code if re.match(pattern, one.mnemonic)]


@pytest.mark.one_in(64)
@pytest.mark.parametrize("every", [pytest.param(1, marks=pytest.mark.full), 19])
@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("name", OPERATORS)
def test_no_listed_kernel_spills(name: str, chip: str, every: int) -> None:
    """Every kernel that `ckmlir list --arch` names fits into registers; by default every nineteenth is looked at."""
    operator, target = find_operator(name), get_target(chip)
    spilling = {}
    for spec in list(operator.kernels(target))[::every]:
        kernel = compile_kernel(operator, spec, target)
        metadata = kernel.code_object.kernel(kernel.kernel_name).metadata
        counts = metadata.vgpr_spill_count, metadata.sgpr_spill_count, metadata.private_segment_size
        if any(counts):
            spilling[str(spec)] = counts
    assert not spilling, "(vector, scalar, scratch bytes) spilled"


@pytest.mark.one_in(4)
@pytest.mark.parametrize("lse", [0, 1])
@pytest.mark.parametrize("d", [32, 128])
def test_attention_in_bf16_does_not_spill(d: int, lse: int) -> None:
    """Where the chip has no conversion to bf16, the hundreds that a tile needs take no scalar registers."""
    kernel = compiled("fmha_fwd", "gfx942", d=d, lse=lse, dtype="bf16", mask="top_left")
    metadata = kernel.code_object.kernel(kernel.kernel_name).metadata
    assert (metadata.vgpr_spill_count, metadata.sgpr_spill_count) == (0, 0)


MASKS = ("none", "top_left", "window:128,0")
MANY_CONDITIONS = {
    ("gfx90a", "qr_async", "f16", 128, "window:128,0", 299), ("gfx90a", "unpipelined", "bf16", 128, "none", 299),
    ("gfx942", "qr_async", "fp8", 64, "top_left", 299), ("gfx942", "qr_async_pinned", "fp8", 128, "none", 299),
    ("gfx942", "qr", "bf16", 32, "top_left", 320), ("gfx950", "qr_async_trload", "f16", 128, "window:128,0", 299),
    ("gfx942", "qr_woven", "bf16", 128, "top_left", 320), ("gfx942", "qr_woven", "f16", 64, "window:128,0", 299),
    ("gfx950", "qr_woven_async", "bf16", 128, "top_left", 299), ("gfx950", "qr", "fp8", 128, "none", 299),
    ("gfx950", "qr_async_ping_pong", "fp8", 128, "none", 299),
}  # fmt: skip
"""What has the most comparisons in the least room: by default only these."""


def has_attention(chip: str, schedule: str, dtype: str, d: int, mask: str, sk: int) -> bool:
    """Whether the chip has such a kernel that fits: a woven one with 128 channels has few registers for masks where K
    and V pass through them too."""
    tight = d == 128 and (mask.startswith("window") or (mask != "none" and sk % 64 != 0))
    if schedule == "qr_woven" and (dtype == "fp8" or tight):
        return False
    copied = schedule in ("qr_async_trload", "qr_async_trload_ping_pong", "qr_woven_async")
    return (dtype != "fp8" or chip != "gfx90a") and (not copied or (chip == "gfx950" and dtype != "fp8"))


def masked_attention() -> Iterator[Any]:
    """Every named schedule, chip, dtype and mask, with keys that fill their blocks and that do not."""
    schedules = [name for name in ATTENTION if name != "prefetch"]
    for case in itertools.product(CHIPS, schedules, ("f16", "bf16", "fp8"), (32, 64, 128), MASKS, (299, 320)):
        if has_attention(*case):
            yield pytest.param(*case, marks=() if case in MANY_CONDITIONS else pytest.mark.full)


@pytest.mark.one_in(8)
@pytest.mark.parametrize(("chip", "schedule", "dtype", "d", "mask", "sk"), list(masked_attention()))
def test_attention_does_not_spill(chip: str, schedule: str, dtype: str, d: int, mask: str, sk: int) -> None:
    """No comparison with bounds, and no NaN that a conversion keeps, holds scalar registers that others need."""
    operator, target = find_operator("fmha_fwd"), get_target(chip)
    problem = operator.problem(h=1, sq=37, sk=sk, d=d, dtype=dtype, mask=mask, schedule=schedule, lse=1)
    kernel = compile_kernel(operator, operator.spec(problem, target), target)
    metadata = kernel.code_object.kernel(kernel.kernel_name).metadata
    assert (metadata.vgpr_spill_count, metadata.sgpr_spill_count, metadata.private_segment_size) == (0, 0, 0)


def scalar_work(code: Sequence[Instruction]) -> list[str]:
    """Scalar instructions but waits, barriers, branches and priorities."""
    return named(code, r"s_(?!waitcnt|nop|barrier|cbranch|branch|setprio)")


def letters(code: Sequence[Instruction]) -> str:
    """The order of a loop: M matrix instruction, R and W LDS, G load from memory, | barrier."""
    kinds = {"v_mfma": "M", "ds_read": "R", "ds_write": "W", "buffer_load": "G", "s_barrier": "|"}
    return "".join(letter for one in code for start, letter in kinds.items() if one.mnemonic.startswith(start))


@pytest.mark.one_in(2)
@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("schedule", ["compv3", "compv4"])
@pytest.mark.parametrize("dtype", ["f16", "bf16"])
def test_gemm_steady_loop(chip: str, schedule: str, dtype: str) -> None:
    """Nothing but matrix instructions, memory, waits and scalar counters: no vector arithmetic, no register moves."""
    loop = steady_loop(instructions(compiled("gemm", chip, schedule=schedule, dtype=dtype)))
    assert named(loop, "v_mfma")
    assert not named(loop, r"v_(?!mfma)"), "vector arithmetic or moves"
    steps = len(named(loop, "s_barrier")) // {"compv3": 2, "compv4": 1}[schedule]
    assert len(scalar_work(loop)) <= 5 * steps, f"pointer and counter increments only: {scalar_work(loop)}"


BARRIERS = {
    "v1": 2, "v2": 2, "mem3": 2, "mem3_interwave": 4, "compv3": 2, "compv4": 1, "compv6": 2, "hot_loop": 1,
    "async": 1, "async_double": 1, "async_late": 2, "async_wide": 1, "async_single": 2,
    "async_wide_carried": 1, "async_wide_last": 1,
    "async_narrow": 2, "straight": 1, "straight_single": 2, "preshuffle": 1,
}  # fmt: skip
"""Barriers of a step along K: two with one LDS buffer, or where everything is copied as soon as its buffer is free; one
with several; interwave, one more a phase but the first."""

CARRIED = ("async_wide_carried", "async_wide_last")
VECTOR, SCALAR = dict.fromkeys(CARRIED, 8), dict.fromkeys(CARRIED, 29)
"""Vector and scalar instructions of a step whose slots of LDS are numbers at run time, of any size of block: a vector
addition for every phase and operand, and what hands the slots round and adds them to where copies go."""


@pytest.mark.one_in(8)
@pytest.mark.parametrize(
    ("chip", "schedule"),
    [("gfx950", schedule) for schedule in BARRIERS]
    + [(chip, schedule) for chip in ("gfx90a", "gfx942") for schedule in ("v1", "compv3", "compv4", "async")],
)
def test_named_schedules_have_a_clean_loop(chip: str, schedule: str) -> None:
    """No moves, no vector arithmetic, no spills; as many barriers as the method needs; small scalar work."""
    depth = 64 if chip == "gfx950" else 32
    kernel = compiled("gemm", chip, schedule=schedule, block=(128, 128, depth))
    loop = steady_loop(instructions(kernel))
    matrix = len(named(loop, "v_mfma"))
    steps = matrix // 16  # 128 x 128 x 64 by 4 waves in 32 x 32 x 16, or 128 x 128 x 32 in 32 x 32 x 8
    assert matrix % 16 == 0 and steps > 0
    assert len(named(loop, r"v_(?!mfma)")) <= VECTOR.get(schedule, 0) * steps
    assert len(named(loop, "s_barrier")) == BARRIERS[schedule] * steps
    most = SCALAR.get(schedule) or (
        7 if "async" not in schedule else 18 if chip == "gfx950" else 34
    )  # the narrow copies have four times the addresses
    assert len(scalar_work(loop)) <= most * steps
    metadata = kernel.code_object.kernel(kernel.kernel_name).metadata
    assert (metadata.vgpr_spill_count, metadata.sgpr_spill_count) == (0, 0)


@pytest.mark.one_in(4)
@pytest.mark.parametrize(
    ("chip", "schedule"),
    [(chip, schedule) for chip in CHIPS for schedule in ("compv3", "compv4", "async", "preshuffle")]
    + [("gfx950", "async_wide")],
)
def test_loads_stay_in_flight_between_matrix_instructions(chip: str, schedule: str) -> None:
    """LDS reads of the next sub-tile and loads from memory lie among the matrix instructions, and no wait in the loop
    is for all loads: some are under way at any time.
    """
    loop = steady_loop(instructions(compiled("gemm", chip, schedule=schedule)))
    order = letters(loop)
    assert order.count("|") * order.count("M") > 0
    assert not re.search("R{3}|G{5}", order), order
    alone = "M[RWG]*R[RWG]*M" if schedule == "preshuffle" else "MR+M"  # B's many loads share places with reads of A
    assert re.search("M[RWG]*G[RWG]*M", order) and re.search(alone, order)
    assert not [one.text for one in loop if one.mnemonic == "s_waitcnt" and "vmcnt(0)" in one.text]


def test_stores_are_on_their_way_before_the_last_products() -> None:
    """Of a last step in four parts: more than half of its 32 products come behind the first store."""
    keys = {"dtype": "fp8", "m": 1024, "n": 1024, "block": (256, 256, 128), "wave": (2, 2), "epilogue": "direct"}
    kernel = compiled("gemm", "gfx950", schedule="async_wide_last", **keys)
    names = [one.mnemonic for one in instructions(kernel)]
    stores = [number for number, name in enumerate(names) if name.startswith("buffer_store")]
    behind = [number for number, name in enumerate(names) if name.startswith("v_mfma") and number > stores[0]]
    assert len(behind) > 16 and stores[-1] > behind[-1]


LARGE, MEDIUM = (256, 256, 64), (128, 128, 64)
DIRECT = {"async": 18, "async_double": 19, "async_late": 19, "async_wide": 18}
"""Scalar instructions of a step of schedules that copy."""


@pytest.mark.one_in(8)
@pytest.mark.parametrize(("chip", "schedule", "block", "wave", "keys"), [
    *((chip, "compv3", *tile, {}) for chip in CHIPS for tile in ((LARGE, (2, 4)), (MEDIUM, (2, 2)), (LARGE, (2, 2)))),
    ("gfx950", "async_wide", LARGE, (2, 4), {}),
    ("gfx950", "async_wide", LARGE, (2, 4), {"mfma": (16, 16, 32)}),
    ("gfx950", "async_wide", LARGE, (2, 2), {}),
    ("gfx950", "async_wide", LARGE, (2, 2), {"mfma": (16, 16, 32)}),
    ("gfx950", "async_wide", (256, 256, 128), (2, 2), {"dtype": "fp8"}),
    ("gfx950", "compv3", (256, 256, 128), (2, 2), {"dtype": "bf8"}),
    ("gfx950", "async", MEDIUM, (2, 2), {}),
    ("gfx942", "compv4", MEDIUM, (2, 2), {}),
    ("gfx942", "compv3", LARGE, (2, 2), {"dtype": "bf16"}),
    ("gfx942", "compv3", LARGE, (2, 2), {"mfma": (16, 16, 16)}),
    ("gfx942", "preshuffle", LARGE, (2, 2), {}),
    ("gfx950", "compv4", (256, 256, 128), (2, 2), {"dtype": "i8"}),
    ("gfx950", "async_double", LARGE, (2, 4), {"mfma": (16, 16, 32)}),
    ("gfx950", "async_double", LARGE, (2, 2), {}),
    ("gfx950", "async_late", LARGE, (2, 2), {}),
    ("gfx950", "async_wide_carried", LARGE, (2, 2), {}),
    ("gfx950", "async_wide_carried", (256, 256, 128), (2, 2), {"dtype": "fp8"}),
    ("gfx950", "async_wide_last", (256, 256, 128), (2, 2), {"dtype": "fp8"}),
])  # fmt: skip
def test_loops_of_large_blocks(
    chip: str, schedule: str, block: tuple[int, int, int], wave: tuple[int, int], keys: dict[str, object]
) -> None:
    """Matrix instructions, memory, waits, a few scalar instructions and nothing else: no vector arithmetic but what
    adds slots that are numbers at run time, no moves, no spills. No wait in the loop is for all loads, but that of two
    LDS buffers filled by copies. With 256 accumulators a wave these fill one of the two register files.
    """
    kernel = compiled(
        "gemm", chip, schedule=schedule, m=1024, n=1024, block=block, wave=wave, epilogue="direct", **keys
    )
    loop = steady_loop(instructions(kernel))
    steps = len(named(loop, "s_barrier")) // BARRIERS[schedule]
    assert len(named(loop, r"v_(?!mfma)")) <= VECTOR.get(schedule, 0) * steps
    assert steps > 0 and len(scalar_work(loop)) <= (SCALAR.get(schedule) or DIRECT.get(schedule, 7)) * steps
    drains = [one.text for one in loop if one.mnemonic == "s_waitcnt" and "vmcnt(0)" in one.text]
    assert len(drains) == (steps if schedule == "async_double" else 0)
    metadata = kernel.code_object.kernel(kernel.kernel_name).metadata
    full = block[0] * block[1] // (wave[0] * wave[1]) == 256 * 64
    assert (metadata.vgpr_spill_count, metadata.sgpr_spill_count, metadata.agpr_count) == (0, 0, 256 if full else 0)
    own_file = [re.match(r"v_mfma\S* a\[", one.text) is not None for one in loop if one.mnemonic.startswith("v_mfma")]
    assert set(own_file) == {full}


def test_missing_wait_states_are_not_handed_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """LLVM does not look into inline assembly: where distances are not kept, there is no kernel."""
    operator, target = find_operator("gemm"), get_target("gfx942")
    wide = {"m": 1024, "n": 1024, "k": 512, "block": (256, 256, 64), "epilogue": "direct"}
    spec = operator.spec(operator.problem(**wide), target)
    reads = "\n".join(f"v_accvgpr_read_b32 v0, a{number}" for number in range(0, 256, 16))

    def too_early(result: ir.Type, operands: list[ir.Value], text: str, constraints: str) -> ir.Value:
        return assembly(result, operands, f"{text}\n{reads}", constraints)

    monkeypatch.setattr("ckmlir.lowering.instructions.assembly", too_early)
    with pytest.raises(CodeGenerationError, match="closer together than the chip allows"):
        compile_kernel(operator, spec, target)


def test_the_computed_mix_is_the_order_of_the_machine_code() -> None:
    """Every write with its matrix instruction, every load in its share, then two reads to each matrix instruction."""
    order = letters(steady_loop(instructions(compiled("gemm", "gfx942", schedule="hot_loop"))))
    step = "|" + "WMGMM" * 8 + "RRM" * 8
    assert order == 2 * step


@pytest.mark.one_in(2)
@pytest.mark.parametrize("chip", CHIPS)
def test_gemm_accesses_are_wide(chip: str) -> None:
    """16 bytes a lane to and from global memory, b128 or b64 to matrix operands."""
    code = instructions(compiled("gemm", chip))
    assert set(named(code, "buffer_load")) == {"buffer_load_dwordx4"}
    assert set(named(code, "buffer_store")) == {"buffer_store_dwordx4"}
    wide = {"ds_read_b128", "ds_read_b64", "ds_read2_b64", "ds_read2st64_b64"}
    assert set(named(steady_loop(code), "ds_read")) <= wide


@pytest.mark.parametrize("chip", CHIPS)
def test_row_operators_use_wide_accesses(chip: str) -> None:
    """Rows of aligned length move 16 bytes a lane."""
    code = instructions(compiled("layernorm2d", chip))
    assert set(named(code, "buffer_(load|store)")) == {"buffer_load_dwordx4", "buffer_store_dwordx4"}


@pytest.mark.one_in(2)
@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("name", ["gemm", "fmha_fwd"])
def test_no_bank_conflicts_are_predicted(name: str, chip: str) -> None:
    """The layouts chosen for default tiles cost no conflict cycles by the chip's bank rules."""
    text = compiled(name, chip).artifacts["scheduled"]
    found = re.findall(r"conflict_cycles = (\d+)", str(text))
    assert found and set(found) == {"0"}


@pytest.mark.one_in(8)
@pytest.mark.parametrize("d", [32, 64, 96, 128, 256])
@pytest.mark.parametrize(
    ("chip", "dtype"), [*((chip, "f16") for chip in CHIPS), *((chip, "fp8") for chip in ("gfx942", "gfx950"))]
)
def test_attention_has_no_bank_conflicts_at_any_head_dimension(chip: str, dtype: str, d: int) -> None:
    """Also for rows of half the banks, which short key blocks make of V, and dealt ones, for fp8 of few channels."""
    text = compiled("fmha_fwd", chip, d=d, dtype=dtype).artifacts["scheduled"]
    assert set(re.findall(r"conflict_cycles = (\d+)", str(text))) == {"0"}


@pytest.mark.one_in(8)
@pytest.mark.parametrize("d", [32, 64, 128])
@pytest.mark.parametrize("chip", CHIPS)
def test_attention_backward_has_no_bank_conflicts(chip: str, d: int) -> None:
    """Q and dO are read by rows and across them: on gfx950 in one layout, elsewhere from a tensor for each."""
    text = compiled("fmha_bwd", chip, d=d).artifacts["scheduled"]
    assert set(re.findall(r"conflict_cycles = (\d+)", str(text))) == {"0"}


@pytest.mark.one_in(2)
@pytest.mark.parametrize("layout", ["RCR", "RRR", "CRR", "CCR"])
def test_gemm_layouts_have_no_bank_conflicts(layout: str) -> None:
    """Also where an operand is transposed on its way to LDS."""
    text = compiled("gemm", "gfx942", layout=layout).artifacts["scheduled"]
    assert set(re.findall(r"conflict_cycles = (\d+)", str(text))) == {"0"}


@pytest.mark.one_in(2)
@pytest.mark.parametrize("chip", ["gfx90a", "gfx942"])
def test_waves_that_branch_around_a_barrier_have_their_wait_states(chip: str) -> None:
    """LLVM counts wait states behind the last matrix instruction on the way through the barrier, which is longer."""
    kernel = compiled("gemm", chip, schedule="ping_pong_async", m=128, n=128, k=640, block=(128, 128, 64), wave=(2, 2))
    assert check_hazards(kernel.code_object) == []


def test_a_remainder_behind_a_loop_has_its_wait_states() -> None:
    """Where the loop's last block has two branches, LLVM counts both on the way through the first. This remainder
    begins with an address in a register that the loop's last products write."""
    keys = {"m": 2048, "n": 64, "k": 8192, "layout": "CCR", "dtype": "bf8", "schedule": "v4", "split_k": 16}
    operator, target = find_operator("gated_gemm"), get_target("gfx950")
    spec = operator.spec(operator.problem(**keys, block=(64, 32, 256), wave=(2, 2)), target)
    assert check_hazards(compile_kernel(operator, spec, target).code_object) == []


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("chip", "keys", "bytes_"), [
    *((chip, {}, 16) for chip in CHIPS),
    ("gfx90a", {"dtype": "bf16"}, 16),
    ("gfx950", {"dtype": "fp8", "out": "fp8", "v_layout": "columns"}, 16),
    ("gfx950", {"dtype": "fp8"}, 8),
    ("gfx950", {"dtype": "fp8", "out": "fp8"}, 4),  # rows of V that reads of LDS turn are in the instruction's order
    ("gfx942", {"dtype": "f32", "sq": 128}, 16),
    ("gfx942", {"sq": 16, "sk": 64}, 8),  # instructions of 16 x 16 leave a lane four neighbours
])  # fmt: skip
def test_attention_stores_whole_vectors(chip: str, keys: dict[str, object], bytes_: int) -> None:
    """A lane has as many neighbouring channels of O as a store takes: fewer would take as many cycles each. Woven loops
    store half as many."""
    stores = named(instructions(compiled("fmha_fwd", chip, **{"schedule": "qr", **keys})), "buffer_store")
    assert stores and set(stores) == {f"buffer_store_dword{'' if bytes_ == 4 else f'x{bytes_ // 4}'}"}


def test_pages_of_vectors_keep_wide_stores() -> None:
    """Their keys lie side by side, so that V is not turned, and rows of O may be numbered as stores want them."""
    keys = {"h": 2, "kv_layout": "vectorised", "dtype": "fp8"}
    stores = named(instructions(compiled("fmha_batch_prefill", "gfx950", **keys)), "buffer_store")
    assert stores and set(stores) == {"buffer_store_dwordx4"}


@pytest.mark.parametrize("chip", ["gfx90a", "gfx942"])
def test_rounding_to_bf16_takes_four_and_a_half_instructions(chip: str) -> None:
    """Two minima, the bit that decides ties, an addition of three; two are put together at once."""
    code = instructions(compiled("cast", chip, shape="1024x1024", dtype="f32", out="bf16"))
    elements = 2 * len(named(code, "v_perm_b32"))
    kinds = {name: len(named(code, name)) for name in ("v_min_i32", "v_min_u32", "v_bfe_u32", "v_add3_u32")}
    assert elements and kinds == dict.fromkeys(kinds, elements)
