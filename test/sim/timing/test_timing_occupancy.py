"""Occupancy from the parameters of the model: what the compiler says, for every chip."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from ckmlir.codeobject.occupancy import Occupancy
from ckmlir.errors import CkmlirError
from ckmlir.lowering import occupancy as compiler
from ckmlir.sim.chips import TARGETS
from ckmlir.sim.timing.memory_shares import device_units
from ckmlir.sim.timing.occupancy import limits_of, trace_occupancy
from ckmlir.sim.timing.parameters import load
from ckmlir.targets import get_target


def trace(vector: int, scalar: int, lds: int, threads: int) -> Any:
    return cast(
        Any,
        SimpleNamespace(
            kernel="k", vector_registers=vector, scalar_registers=scalar, lds_bytes=lds, block=(threads, 1, 1)
        ),
    )


@pytest.mark.parametrize("target", TARGETS)
def test_model_and_compiler_know_the_same_chip(target: str) -> None:
    assert limits_of(load(target)) == compiler.limits_of(get_target(target))
    assert device_units(load(target)) == get_target(target).compute_units


@pytest.mark.parametrize(
    ("target", "vector", "lds", "threads", "expected"),
    [
        # LLVM's AMDGPUUsage for gfx90a and later: 512 registers a SIMD lane in eights, at most 8 waves.
        ("gfx942", 64, 0, 256, Occupancy(8, 32, 8.0, "vector registers")),
        ("gfx942", 72, 0, 256, Occupancy(7, 28, 7.0, "vector registers")),
        ("gfx90a", 512, 0, 256, Occupancy(1, 4, 1.0, "vector registers")),
        ("gfx942", 128, 32768, 256, Occupancy(2, 8, 2.0, "LDS")),
        ("gfx950", 128, 32768, 256, Occupancy(4, 16, 4.0, "LDS")),  # 160 KiB of LDS in blocks of 1280 bytes
        ("gfx950", 32, 0, 64, Occupancy(32, 32, 8.0, "wave slots")),
    ],
)
def test_occupancy_of_a_trace(target: str, vector: int, lds: int, threads: int, expected: Occupancy) -> None:
    assert trace_occupancy(trace(vector, 32, lds, threads), load(target)) == expected


def test_overrides_take_part() -> None:
    parameters = load("gfx942", overrides=["registers.vector_total=1024", "compute_unit.wave_slots=16"])
    assert trace_occupancy(trace(128, 32, 0, 256), parameters).waves_per_simd == 8


def test_what_does_not_fit_is_refused_by_name() -> None:
    with pytest.raises(CkmlirError, match="k: a workgroup of 256 threads with 70000 bytes of LDS does not fit"):
        trace_occupancy(trace(128, 32, 70000, 256), load("gfx942"))
