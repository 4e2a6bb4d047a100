"""What the emitted instructions of default kernels look like: no spills, wide accesses, a clean steady loop.

These are counts on the machine code, decoded by the project's own table; nothing is timed.
"""

import functools
import re
from collections.abc import Sequence

import pytest

from ckmlir.compiler import CompiledKernel, compile_kernel
from ckmlir.ops import OPERATORS, find_operator
from ckmlir.sim.decode.decoder import disassemble
from ckmlir.sim.decode.instruction import Instruction
from ckmlir.targets import get_target

CHIPS = ("gfx90a", "gfx942", "gfx950")
REQUESTS = {
    "gemm": {"m": 512, "n": 512, "k": 512},
    "layernorm2d": {"m": 64, "n": 4096},
    "fmha_fwd": {"sq": 512, "d": 128},
}


@functools.cache
def compiled(name: str, chip: str, **keys: object) -> CompiledKernel:
    """The default kernel of a request, with its scheduled IR."""
    operator, target = find_operator(name), get_target(chip)
    spec = operator.spec(operator.problem(**{**REQUESTS[name], **keys}), target)
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


@pytest.mark.parametrize("every", [pytest.param(1, marks=pytest.mark.full), 11])
@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("name", OPERATORS)
def test_no_listed_kernel_spills(name: str, chip: str, every: int) -> None:
    """Every kernel that `ckmlir list` names fits into registers; by default every eleventh is looked at."""
    operator, target = find_operator(name), get_target(chip)
    spilling = {}
    for spec in list(operator.kernels(target))[::every]:
        kernel = compile_kernel(operator, spec, target)
        metadata = kernel.code_object.kernel(kernel.kernel_name).metadata
        counts = metadata.vgpr_spill_count, metadata.sgpr_spill_count, metadata.private_segment_size
        if any(counts):
            spilling[str(spec)] = counts
    assert not spilling, "(vector, scalar, scratch bytes) spilled"


@pytest.mark.parametrize("lse", [0, 1])
@pytest.mark.parametrize("d", [32, 128])
def test_attention_in_bf16_does_not_spill(d: int, lse: int) -> None:
    """Where the chip has no conversion to bf16, the hundreds that a tile needs take no scalar registers."""
    kernel = compiled("fmha_fwd", "gfx942", d=d, lse=lse, dtype="bf16", mask="top_left")
    metadata = kernel.code_object.kernel(kernel.kernel_name).metadata
    assert (metadata.vgpr_spill_count, metadata.sgpr_spill_count) == (0, 0)


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("schedule", ["compv3", "compv4"])
@pytest.mark.parametrize("dtype", ["f16", "bf16"])
def test_gemm_steady_loop(chip: str, schedule: str, dtype: str) -> None:
    """Nothing but matrix instructions, memory, waits and scalar counters: no vector arithmetic, no register moves."""
    loop = steady_loop(instructions(compiled("gemm", chip, schedule=schedule, dtype=dtype)))
    assert named(loop, "v_mfma")
    assert not named(loop, r"v_(?!mfma)"), "vector arithmetic or moves"
    scalar = named(loop, r"s_(?!waitcnt|nop|barrier|cbranch|branch|setprio)")
    steps = len(named(loop, "s_barrier")) // {"compv3": 2, "compv4": 1}[schedule]
    assert len(scalar) <= 5 * steps, f"pointer and counter increments only: {scalar}"


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


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("name", ["gemm", "fmha_fwd"])
def test_no_bank_conflicts_are_predicted(name: str, chip: str) -> None:
    """The layouts chosen for default tiles cost no conflict cycles by the chip's bank rules."""
    text = compiled(name, chip).artifacts["scheduled"]
    found = re.findall(r"conflict_cycles = (\d+)", str(text))
    assert found and set(found) == {"0"}


@pytest.mark.parametrize("d", [32, 64, 96, 128, 256])
@pytest.mark.parametrize("chip", CHIPS)
def test_attention_has_no_bank_conflicts_at_any_head_dimension(chip: str, d: int) -> None:
    """Also for rows of half the banks, which short key blocks make of V."""
    text = compiled("fmha_fwd", chip, d=d).artifacts["scheduled"]
    assert set(re.findall(r"conflict_cycles = (\d+)", str(text))) == {"0"}


@pytest.mark.parametrize("layout", ["RCR", "RRR", "CRR", "CCR"])
def test_gemm_layouts_have_no_bank_conflicts(layout: str) -> None:
    """Also where an operand is transposed on its way to LDS."""
    text = compiled("gemm", "gfx942", layout=layout).artifacts["scheduled"]
    assert set(re.findall(r"conflict_cycles = (\d+)", str(text))) == {"0"}
