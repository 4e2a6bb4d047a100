"""What a request names is refused where its kernel has too few registers, which only the compiler knows for certain."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ckmlir.ops import find_operator
from ckmlir.ops.request import RequestError
from ckmlir.runtime import open_device
from ckmlir.runtime.compile_cache import compile_cached
from ckmlir.runtime.executable import Executable
from ckmlir.runtime.scratch import require_registers
from ckmlir.targets import get_target
from ckmlir.tools.cli import main

GEMM, GFX90A = find_operator("gemm"), get_target("gfx90a")
NAMED: dict[str, Any] = {
    "m": 300, "n": 512, "k": 512, "layout": "CRR", "schedule": "v4", "block": "32x128x128", "wave": "1x2",
}  # fmt: skip
"""A transposed A, four steps on their way, two waves: more than 512 registers, by 142."""


def test_scratch_memory_is_refused_where_the_plan_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """In one line, whoever asks; the estimate alone lets it pass, and what others chose is theirs."""
    problem = GEMM.problem(**NAMED)
    spec = GEMM.spec(problem, GFX90A)
    assert GEMM.validate(spec, GFX90A) == []
    told = (
        r"^gemm on gfx90a: block=32x128x128, wave=1x2, schedule=v4: \d+ registers of a work-item have no room, and "
        r"would lie in scratch memory; expected another schedule, a smaller block or more waves$"
    )
    with pytest.raises(RequestError, match=told):
        Executable(open_device("sim", GFX90A), GEMM, problem)
    keys = [f"{key}={value}" for key, value in NAMED.items()]
    assert main(["compile", "gemm", *keys, "--arch", "gfx90a", "-o", str(tmp_path / "kernel.hsaco")]) == 2
    lines = [line for line in capsys.readouterr().err.splitlines() if "error" in line]
    assert len(lines) == 1 and "schedule=v4" in lines[0]
    compiled = compile_cached(GEMM, spec, GFX90A)
    require_registers(GEMM, GEMM.problem(m=300, n=512, k=512, layout="CRR"), spec, compiled, GFX90A)


def test_scalar_registers_in_scratch_memory_are_counted() -> None:
    """LLVM counts none of them as vector registers that it spilled."""
    metadata = SimpleNamespace(private_segment_size=20, vgpr_spill_count=0, sgpr_spill_count=14)
    compiled: Any = SimpleNamespace(
        kernel_name="gemm", code_object=SimpleNamespace(kernel=lambda _: SimpleNamespace(metadata=metadata))
    )
    problem = GEMM.problem(**NAMED)
    with pytest.raises(RequestError, match=r"schedule=v4: 5 registers of a work-item have no room"):
        require_registers(GEMM, problem, GEMM.spec(problem, GFX90A), compiled, GFX90A)


@pytest.mark.one_in(3)
@pytest.mark.parametrize(("name", "chip", "keys"), [
    ("fmha_batch_prefill", "gfx90a", {"d": 256, "page_size": 16, "schedule": "qr_two_ahead"}),
    ("fmha_fwd_splitkv", "gfx90a", {"d": 256, "page_size": 16, "splits": 2, "schedule": "qr_two_ahead"}),
    ("fmha_fwd", "gfx950", {"d": 128, "dtype": "fp8", "scales": "mx", "schedule": "qr_woven_bytes"}),
])  # fmt: skip
def test_schedules_of_attention_are_refused_like_plans_of_products(name: str, chip: str, keys: dict[str, Any]) -> None:
    """Where the request names them; what it takes by default has room."""
    operator, target = find_operator(name), get_target(chip)
    told = rf"^{name} on {chip}: schedule={keys['schedule']}: \d+ registers .*; expected another schedule$"
    with pytest.raises(RequestError, match=told):
        Executable(open_device("sim", target), operator, operator.problem(**keys))
    Executable(open_device("sim", target), operator, operator.problem(**{**keys, "schedule": None}))
