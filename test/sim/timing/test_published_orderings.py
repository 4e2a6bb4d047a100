"""What is published about schedules comes out of the model, in which nothing was fitted to it.

Sources: CK Tile's and AMD's published descriptions of GEMM pipelines (two LDS buffers against one; compv4 against
compv3 on large K), of LDS swizzles, and of fp8 attention on CDNA4 (the next read of K between PV and QK).
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import pytest

from ckmlir.ops import find_operator
from ckmlir.passes import lds_layouts
from ckmlir.runtime.recording import record_operator
from ckmlir.sim.timing.compute_unit import simulate
from ckmlir.sim.timing.events import Reason, Timeline
from ckmlir.sim.timing.memory_shares import Sharing, new_memory
from ckmlir.sim.timing.parameters import load
from ckmlir.sim.timing.steady_loop import SteadyLoop, steady_loop
from ckmlir.targets import get_target

SHARED = Sharing(l2=6.0, mall=4.0)
"""About what the workgroups of a large product read in common."""


def timeline_of(operator: str, chip: str, **keys: object) -> Timeline:
    """One workgroup, with its share of memory on a device on which all compute units are busy."""
    found, target = find_operator(operator), get_target(chip)
    trace = record_operator(found, found.problem(**keys), target, workgroups=1)
    parameters = load(chip)
    return simulate(trace, parameters, memory=new_memory(parameters, 1, sharing=SHARED), resident=1)


@cache
def gemm(chip: str, schedule: str, k: int = 2048) -> SteadyLoop:
    loop = steady_loop(timeline_of("gemm", chip, m=128, n=128, k=k, split_k=1, schedule=schedule))
    assert loop is not None
    return loop


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("chip", "single", "double"), [
    ("gfx942", "v2", "compv4"),
    ("gfx942", "compv3", "compv4"),
    ("gfx90a", "compv3", "compv4"),
    ("gfx950", "compv3", "compv4"),
])  # fmt: skip
def test_two_lds_buffers_beat_one(chip: str, single: str, double: str) -> None:
    """And so compv4 beats compv3 on large K, since its loads have longer to come."""
    assert gemm(chip, double).busy["mfma"] > 1.05 * gemm(chip, single).busy["mfma"]


def test_any_pipeline_beats_none() -> None:
    assert gemm("gfx942", "compv3").busy["mfma"] > 1.3 * gemm("gfx942", "unpipelined").busy["mfma"]


@pytest.fixture
def plain_layouts(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """LDS tensors lie in plain rows, without swizzle or padding."""
    lds_layouts.choose_layout.cache_clear()
    monkeypatch.setattr(lds_layouts, "candidates", lambda plain, *_: iter([plain]))
    yield
    lds_layouts.choose_layout.cache_clear()


def test_without_the_swizzle_accesses_conflict(plain_layouts: None) -> None:
    """Rows of 128 bytes all start at bank 0. With the swizzle the loop of the same product has no conflict."""
    swizzled = gemm("gfx942", "compv4")
    keys = {"m": 128, "n": 128, "k": 2048, "schedule": "compv4", "split_k": 1}
    timeline = timeline_of("gemm", "gfx942", **keys)
    plain = steady_loop(timeline)
    assert plain is not None
    assert timeline.conflicts.sum() > 0.5 * timeline.lds_cycles.sum(), "most LDS cycles are conflicts"
    assert plain.cycles_per_iteration > 1.5 * swizzled.cycles_per_iteration


def memory_waits(timeline: Timeline) -> float:
    """The share of the waves' cycles in the main loop that they wait for LDS or memory."""
    loop = steady_loop(timeline)
    assert loop is not None
    return loop.stalls.get("wait lds", 0.0) + loop.stalls.get("wait vmem", 0.0)


@pytest.mark.parametrize("before", ["qr", "qr_async"])
def test_reading_k_between_pv_and_qk_reduces_memory_waits(before: str) -> None:
    """Where V is read 4 bytes a lane, as it is with scales: whole vectors of V wait little to begin with."""
    keys = {"b": 1, "h": 1, "sq": 128, "sk": 1024, "d": 128, "dtype": "fp8", "scales": "head"}
    old = memory_waits(timeline_of("fmha_fwd", "gfx950", **keys, schedule=before))
    new = memory_waits(timeline_of("fmha_fwd", "gfx950", **keys, schedule="qr_async_pinned"))
    assert new < 0.8 * old


def test_stalls_have_the_reasons_that_a_schedule_leaves() -> None:
    """Without a pipeline every step waits for memory."""
    loop = gemm("gfx942", "unpipelined")
    assert next(iter(loop.stalls)) == Reason.WAIT_VMEM.name.lower().replace("_", " ")
