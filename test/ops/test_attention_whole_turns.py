"""Attention whose turns of whole blocks of keys have a loop of their own (`ck-split-at-edges`): sequences that end
anywhere in a block, and what becomes of kernels that two loops take too many registers."""

from __future__ import annotations

from typing import Any

import pytest

from ckmlir.compiler import compile_kernel
from ckmlir.lowering.occupancy import kernel_occupancy
from ckmlir.ops import find_operator
from ckmlir.runtime import check_outputs, run_operator
from ckmlir.runtime.simulator_device import SimulatorDevice
from ckmlir.scheduling.machine_loop import steady_loop
from ckmlir.targets import get_target

KEYS = (0, 1, 63, 64, 65, 127, 128, 129, 191, 192, 193, 255, 256, 257, 319, 320, 321)
"""Around the ends of blocks of 64, for odd and even numbers of them, and for one step and several in a turn."""


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("chip", "keys"), [
    ("gfx942", {"schedule": "qr_woven"}), ("gfx950", {"schedule": "qr_woven_async", "d": 64, "page_size": 128}),
    *(pytest.param(*one, marks=pytest.mark.full) for one in (
        ("gfx90a", {"schedule": "qr"}), ("gfx942", {"schedule": "qr_two_ahead", "dtype": "bf16"}),
        ("gfx950", {"schedule": "qr_async_ping_pong"}), ("gfx950", {"schedule": "qr_woven_async_far", "d": 64}),
        ("gfx942", {"schedule": "qr_woven", "alibi": "head"}), ("gfx950", {"dtype": "fp8", "soft_cap": 20}),
        ("gfx90a", {"bias": "one", "dropout": 0.2}), ("gfx942", {"schedule": "qr_woven", "page_size": 128}),
        ("gfx950", {"schedule": "qr_woven_async_far", "page_size": 64, "d": 64}),
        ("gfx90a", {"schedule": "qr", "page_size": 1024}), ("gfx950", {"schedule": "qr_async", "page_size": 128}),
    )),
])  # fmt: skip
def test_keys_end_anywhere(chip: str, keys: dict[str, Any]) -> None:
    operator = find_operator("fmha_fwd_pagedkv" if "page_size" in keys else "fmha_fwd")
    target = get_target(chip)
    lengths = {"mode": "group", "seqlens_q": (2,) * len(KEYS), "seqlens_k": KEYS}
    problem = operator.problem(**{"h": 1, "d": 32, "lse": 1, **lengths, **keys})
    arrays = operator.inputs(problem, target, seed=3)
    device = SimulatorDevice(target, seed=5)
    result = run_operator(operator, problem, arrays, target, device)
    comparisons = check_outputs(operator, problem, arrays, result.outputs, target)
    assert comparisons and all(one.ok for one in comparisons), "; ".join(map(str, comparisons))


@pytest.mark.parametrize(("chip", "keys", "waves", "split"), [
    ("gfx942", {"d": 80, "dtype": "fp8"}, 2, False),
    pytest.param("gfx942", {"d": 32, "sink": 1, "mode": "group", "seqlens_q": (4096, 4000), "seqlens_k": (4000, 70)},
                 4, True, marks=pytest.mark.full),
])  # fmt: skip
def test_two_loops_keep_no_wave_away(chip: str, keys: dict[str, Any], waves: int, split: bool) -> None:
    """Where they take a few registers too many, LLVM is asked for fewer; where that spills, there is one loop."""
    operator, target = find_operator("fmha_fwd"), get_target(chip)
    problem = operator.problem(**{"b": 2, "h": 16, "sq": 4096, "sk": 4000, "lse": 1, **keys})
    kernel = compile_kernel(operator, operator.spec(problem, target), target)
    metadata = kernel.code_object.kernel(kernel.kernel_name).metadata
    assert (metadata.vgpr_spill_count, metadata.sgpr_spill_count, metadata.private_segment_size) == (0, 0, 0)
    assert kernel_occupancy(kernel.code_object).waves_per_simd == waves
    names = [one.mnemonic for one in steady_loop(kernel.code_object, kernel.kernel_name).instructions]
    assert ("v_bfe_i32" not in names) == split
