"""By the model of time, defaults of large products and attentions keep matrix cores busy, and are faster than others
that every chip could run.
"""

from __future__ import annotations

import pytest

from ckmlir.ops import find_operator
from ckmlir.runtime.timing import OperatorModel
from ckmlir.sim.timing.parameters import load
from ckmlir.sim.timing.steady_loop import SteadyLoop
from ckmlir.targets import get_target

PRODUCT = {"m": 4096, "n": 4096, "k": 4096}
PLAIN = {"schedule": "compv3", "block": (128, 128, 64), "wave": (2, 2)}
ATTENTION = {"b": 1, "h": 16, "sq": 4096, "d": 128}


def in_time(name: str, chip: str, **keys: object) -> tuple[SteadyLoop, float]:
    """The steady loop of a launch with as many workgroups on a compute unit as fit, and the cycles of the launch."""
    operator, parameters = find_operator(name), load(chip)
    model = OperatorModel(operator, operator.problem(**keys), get_target(chip), parameters, mode="sampled")
    grid = model.under(parameters).grid
    assert grid.workgroup.steady is not None
    return grid.workgroup.steady, grid.cycles


@pytest.mark.one_in(3)
@pytest.mark.parametrize(("chip", "busy", "most"), [("gfx90a", 0.8, 1.0), ("gfx942", 0.8, 0.95), ("gfx950", 0.97, 0.6)])
def test_large_gemm(chip: str, busy: float, most: float) -> None:
    """In f16 at least 80 % of the cycles of the steady loop, 97 % on gfx950; the launch takes at most 95 % of the
    cycles of the plain one, on gfx950 60 %; on gfx90a, where two workgroups of that on a compute unit do as much, no
    more."""
    loop, cycles = in_time("gemm", chip, **PRODUCT)
    assert loop.busy["mfma"] >= busy
    assert cycles <= most * in_time("gemm", chip, **PRODUCT, **PLAIN)[1]


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("chip", "m", "columns", "most"), [("gfx90a", 64, 64, 0.65), ("gfx950", 16, 32, 0.85)])
def test_few_rows(chip: str, m: int, columns: int, most: float) -> None:
    """Loads three steps ahead, in blocks that leave few compute units idle, take less than two buffers and the widest
    blocks that fill the chip."""
    product = {"m": m, "n": 8192, "k": 1536}
    wide = {"schedule": "compv4", "block": (max(m // 2, 16), columns, 128), "wave": (1, columns // 16)}
    cycles = [in_time("gemm", chip, **product, **keys)[1] for keys in ({}, wide)]
    assert cycles[0] <= most * cycles[1]


def test_fp8_at_full_rate() -> None:
    """On gfx950 at least 75 % of the cycles of the launch: 65536 are the least that its matrix units take."""
    assert in_time("gemm", "gfx950", **PRODUCT, dtype="fp8")[1] <= 65536 / 0.75


@pytest.mark.parametrize("chip", [pytest.param("gfx90a", marks=pytest.mark.full), "gfx942"])
def test_attention_out_of_phase(chip: str) -> None:
    """Where groups of waves take turns by default, that saves more than a tenth."""
    assert in_time("fmha_fwd", chip, **ATTENTION)[1] < 0.9 * in_time("fmha_fwd", chip, **ATTENTION, schedule="qr")[1]
