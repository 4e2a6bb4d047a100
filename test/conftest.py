"""What all tests share."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from ckmlir.mlir import ir

sys.path.insert(0, str(Path(__file__).parent))  # what tests share; pytest's importlib mode does not do that

from chosen_cases import CHIPS_IN_TURN, chips_in_turn, one_in

# Machines that run the tests are slow at times: no law fails for the time an example takes. Nor does one for how many
# of its first draws it has nothing to say about, unless that is all of them.
IGNORED = [HealthCheck.too_slow, HealthCheck.filter_too_much]
settings.register_profile("ckmlir", deadline=None, suppress_health_check=IGNORED, print_blob=True)
settings.load_profile("ckmlir")


# Compiling makes much that is kept for a while: Python's own thresholds look through it for a tenth of the tests' time.
COLLECTED = (20_000, 20, 20)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Tens of thousands of cases are made and kept: that is done without the collector of garbage, which would go
    through all of them time and again, and passes over them afterwards."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.set_threshold(*COLLECTED)
        gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What runs with `full` alone, beside what says so itself."""
    tests: dict[tuple[Path, str], list[pytest.Item]] = {}
    for item in items:
        if not item.get_closest_marker("full"):
            tests.setdefault((item.path, getattr(item, "originalname", item.name)), []).append(item)
    for (path, _), cases in tests.items():
        marker = cases[0].get_closest_marker("one_in")
        chosen = one_in(*marker.args, cases) if marker else cases
        if path.relative_to(Path(__file__).parent).parts[0] in CHIPS_IN_TURN:
            chosen = chips_in_turn(chosen)
        for case in {*cases} - {*chosen}:
            case.add_marker(pytest.mark.full)


@pytest.fixture
def context() -> Iterator[ir.Context]:
    """The thread's MLIR context, entered."""
    from ckmlir.dialect.context import shared_context

    with shared_context() as shared:
        yield shared


@pytest.fixture(autouse=True)
def _temporary_files_stay_here(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Reproducers of failures that tests provoke go to pytest's own temporary directory."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path_factory.getbasetemp()))


@pytest.fixture(autouse=True, scope="session")
def _nothing_from_before(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Tests compile what they run, and run it where they say, whatever the user's settings are. The simulator's own
    machine code is made once: processes of this run share it, workers and what tests start."""
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CKMLIR_CACHE", "simulator")
        patch.setenv("XDG_CACHE_HOME", str(shared / "cache"))
        patch.delenv("CKMLIR_DEVICE", raising=False)
        from ckmlir.sim.library import library

        library()  # before a test sets another directory
        yield


@pytest.fixture
def credulous(monkeypatch: pytest.MonkeyPatch) -> None:
    """ck-pipeline-loops without its own checks: it applies illegal schedules too."""
    from ckmlir.dialect.build import text_of
    from ckmlir.passes import pipeline_loops

    def slot_count(alloc: ir.Operation, steps: list[pipeline_loops.Placed], schedule: pipeline_loops.Schedule) -> int:
        ahead = {placed.op: placed.ahead for placed in steps}
        writes, reads = pipeline_loops.lds_accesses(alloc.results[0], [placed.op for placed in steps])
        together = len({ahead[op] for op in (*writes, *reads)}) <= 1 and schedule.groups == 1
        return 1 if together else schedule.buffers_of(text_of(alloc, "name"))

    monkeypatch.setattr(pipeline_loops, "check_values", lambda *_: None)
    monkeypatch.setattr(pipeline_loops, "check_kept", lambda *_: None)
    monkeypatch.setattr(pipeline_loops, "check_addresses", lambda *_: None)
    monkeypatch.setattr(pipeline_loops, "_slot_count", slot_count)
    monkeypatch.setattr(pipeline_loops, "check_groups", lambda *_: None)
