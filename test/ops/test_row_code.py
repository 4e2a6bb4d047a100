"""What the emitted instructions of row operators look like, and what they move.

Counts on the machine code and on the simulator's counters; nothing is timed.
"""

from __future__ import annotations

import functools
import math
import re
from typing import Any

import pytest
from operator_runner import CHIPS

from ckmlir.compiled_kernel import CompiledKernel
from ckmlir.compiler import compile_kernel
from ckmlir.ops import find_operator
from ckmlir.ops.dtypes import find_dtype
from ckmlir.runtime import open_device
from ckmlir.runtime.run import run_operator
from ckmlir.runtime.simulator_device import SimulatorDevice
from ckmlir.scheduling.machine_loop import steady_loop
from ckmlir.sim.decode.decoder import disassemble
from ckmlir.targets import get_target

REQUESTS: dict[str, dict[str, Any]] = {
    "layernorm2d": {"add": "store", "save_stats": 1},
    "rmsnorm2d": {},
    "add_rmsnorm2d_rdquant": {},
    "smoothquant": {},
    "moe_smoothquant": {"experts": 4, "k": 2},
    "softmax": {},
    "topk_softmax": {"n": 256, "k": 8},
}


@functools.cache
def compiled(name: str, chip: str, **keys: Any) -> CompiledKernel:
    """The kernel of a request; rows of 4096 unless it says otherwise."""
    operator, target = find_operator(name), get_target(chip)
    problem = operator.problem(**{"m": 64, "n": 4096, **REQUESTS[name], **keys})
    return compile_kernel(operator, operator.spec(problem, target), target)


@pytest.mark.parametrize(("dtype", "maps"), [("f16", 3), ("f32", 6)])
def test_what_a_norm_computes_between_sums_is_one_operation(dtype: str, maps: int) -> None:
    """x², the statistics and y; where rows are scaled, also |x|, the factor and what is scaled."""
    operator, target = find_operator("rmsnorm2d"), get_target("gfx942")
    kernel = operator.build(operator.spec(operator.problem(m=64, n=4096, dtype=dtype), target), target)
    assert str(kernel.module).count('"ck.map"') == maps


@pytest.mark.one_in(2)
@pytest.mark.parametrize("dtype", ["bf16", "f32"])
@pytest.mark.parametrize("name", ["rmsnorm2d", "add_rmsnorm2d_rdquant"])
def test_streamed_rows_pass_once_for_their_squares(name: str, dtype: str) -> None:
    """Not for their largest magnitude before that: squares of f32 are summed in f64. Then rows pass to be normalised,
    and once more where a scale follows from all of what they become."""
    kernel = compiled(name, "gfx942", n=16384, dtype=dtype)
    loops = {"rmsnorm2d": 2, "add_rmsnorm2d_rdquant": 3}[name]
    assert len(mnemonics(kernel, "v_fmac_f64")) >= 8
    code = disassemble(kernel.code_object, kernel.kernel_name)
    backwards = [one for one in code if one.branch_target is not None and one.branch_target <= one.address]
    assert len(backwards) == loops


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("name", ["layernorm2d", "rmsnorm2d", "softmax"])
def test_loops_of_streamed_rows_copy_no_words_of_buffers(name: str, chip: str) -> None:
    """Arrays of one row have buffers of one size, each of which has a register of its own before the loop."""
    kernel = compiled(name, chip, n=16384)
    loop = steady_loop(kernel.code_object, kernel.kernel_name)
    assert "s_mov_b32" not in [one.mnemonic for one in loop.instructions]


def mnemonics(kernel: CompiledKernel, pattern: str) -> list[str]:
    """The instructions that match a pattern from their start."""
    code = disassemble(kernel.code_object, kernel.kernel_name)
    return [one.mnemonic for one in code if re.match(pattern, one.mnemonic)]


@pytest.mark.parametrize("chip", CHIPS)
def test_long_rows_of_halves_leave_registers_for_eight_waves(chip: str) -> None:
    """What is loaded for columns and repeated for rows stays in the vectors that it came in, and so halves."""
    kernel = compiled("layernorm2d", chip, n=8192, add="none", save_stats=0)
    assert kernel.code_object.kernel(kernel.kernel_name).metadata.vgpr_count <= 64


@pytest.mark.one_in(6)
@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("name", REQUESTS)
def test_no_spills_and_wide_accesses(name: str, chip: str) -> None:
    """16 bytes a lane of every array of the input's type; q and single values are as wide as there is of them."""
    kernel = compiled(name, chip)
    metadata = kernel.code_object.kernel(kernel.kernel_name).metadata
    assert (metadata.vgpr_spill_count, metadata.sgpr_spill_count) == (0, 0)
    assert not mnemonics(kernel, "scratch_")
    loads, stores = set(mnemonics(kernel, "buffer_load")), set(mnemonics(kernel, "buffer_store"))
    assert loads - ({"buffer_load_dword"} if name == "moe_smoothquant" else set()) == {"buffer_load_dwordx4"}
    narrow = {
        "layernorm2d": {"buffer_store_dword"}, "rmsnorm2d": set(), "softmax": set(),
        "add_rmsnorm2d_rdquant": {"buffer_store_dwordx2", "buffer_store_dword"},
    }.get(name, {"buffer_store_dwordx2", "buffer_store_dword"})  # fmt: skip
    assert stores <= {"buffer_store_dwordx4"} | narrow
    if name in ("layernorm2d", "rmsnorm2d", "softmax"):
        assert "buffer_store_dwordx4" in stores


@pytest.mark.one_in(4)
@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("name", REQUESTS)
def test_lanes_meet_without_lds(name: str, chip: str) -> None:
    """A row of one wave touches LDS in no way; a row of four only to exchange what each wave found."""
    one = compiled(name, chip, n=512)
    assert not mnemonics(one, "ds_")
    assert any(each.encoding == "DPP" for each in disassemble(one.code_object, one.kernel_name))
    if name != "topk_softmax":
        four = mnemonics(compiled(name, chip), "ds_")
        assert set(four) == {"ds_write_b32", "ds_read_b128"} and len(four) <= 6


@pytest.mark.one_in(24)
@pytest.mark.parametrize("dtype", ["f16", "bf16", "f32"])
@pytest.mark.parametrize("n", [64, 1024, 4096, 8192])
@pytest.mark.parametrize("name", REQUESTS)
def test_bytes_moved(name: str, n: int, dtype: str) -> None:
    """Every row is read and written once. What belongs to columns is read by the lanes of every row: bytes count as
    often as lanes ask for them, and no cache is modelled."""
    operator, target = find_operator(name), get_target("gfx942")
    n = min(n, 512) if name == "topk_softmax" else n
    problem = operator.problem(**{**REQUESTS[name], "m": 64, "n": n, "dtype": dtype})
    device = open_device("sim", target)
    assert isinstance(device, SimulatorDevice)
    run_operator(operator, problem, operator.inputs(problem, target), target, device)
    statistics, spec = device.last_statistics, operator.spec(problem, target)
    assert statistics is not None
    groups = math.prod(operator.launch(problem, spec, target).grid)
    read = written = 0
    for array in operator.arrays(problem):
        if array.role == "out":
            written += array.nbytes
        elif len(array.shape) == 1:
            read += array.nbytes * groups * spec.rows
        elif array.name == "topk_ids":  # every lane asks for its row's expert
            read += groups * spec.wave_count * 64 * find_dtype(array.dtype).bytes
        elif array.name == "smooth":  # one row for every token and slot
            read += 64 * problem.sizes["k"] * n * find_dtype(array.dtype).bytes
        else:
            read += array.nbytes * (problem.sizes["k"] if name == "moe_smoothquant" and array.name == "x" else 1)
    assert read <= statistics.bytes_read <= 1.02 * read
    assert written <= statistics.bytes_written <= 1.02 * written


@pytest.mark.one_in(2)
@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize(("name", "keys"), [
    ("layernorm2d", {"quant": "smooth", "keep_y": 1, "bias": 1}), ("rmsnorm2d", {}), ("smoothquant", {}),
    ("softmax", {"mask": 1}),
])  # fmt: skip
def test_rows_that_stream_spill_nothing(name: str, keys: dict[str, Any], chip: str) -> None:
    kernel = compiled(name, chip, n=20000, dtype="bf16", **keys)
    metadata = kernel.code_object.kernel(kernel.kernel_name).metadata
    assert (metadata.vgpr_spill_count, metadata.sgpr_spill_count) == (0, 0)
    assert not mnemonics(kernel, "scratch_")
