"""Calls on a Dask cluster of this machine: the same answers as from processes, refusals, workers that end."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from small_calls import asleep, defect, end_once, half

import ckmlir
from ckmlir.dispatch import Space
from ckmlir.dispatch.building import build
from ckmlir.dispatch.misses import Asked
from ckmlir.dispatch.records import read_records
from ckmlir.dispatch.tuning import Tuning
from ckmlir.errors import CkmlirError
from ckmlir.ops import find_operator
from ckmlir.runtime import compile_cache, machines
from ckmlir.runtime.calls import call_many, open_workers
from ckmlir.runtime.workers import Task
from ckmlir.targets import get_target


@pytest.fixture(scope="module")
def cluster() -> Iterator[str]:
    """The address of a cluster of two processes."""
    distributed = pytest.importorskip("distributed", reason="Dask is not installed: nothing is tested of clusters")
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None, host="127.0.0.1"
    ) as made:
        yield "dask://" + made.scheduler_address.removeprefix("tcp://")


def test_answers_come_in_order_with_refusals_in_their_places(cluster: str) -> None:
    seen: dict[int, Any] = {}
    tasks = [Task(half, (number,), "halving") for number in range(6)]
    answers = call_many(tasks, on=cluster, report=lambda place, answer: seen.update({place: answer}))
    assert [one if isinstance(one, int) else str(one) for one in answers] == [
        0, "1 is odd", 1, "3 is odd", 2, "5 is odd"
    ]  # fmt: skip
    assert [seen[place] for place in range(6)] == answers


def test_what_ends_a_worker_is_done_by_another(cluster: str, tmp_path: Path) -> None:
    assert call_many([Task(end_once, (str(tmp_path / "mark"),), "ending")], on=cluster) == ["done"]


def test_a_defect_is_told(cluster: str) -> None:
    with pytest.raises(RuntimeError, match=r"Traceback[\s\S]*KeyError: 'lost'"):
        call_many([Task(defect, (), "losing")], on=cluster)


@contextmanager
def programs(folder: Path, path: str) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """A cluster of a scheduler and a worker as people start them, with this PYTHONPATH: its address, the scheduler."""
    distributed = pytest.importorskip("distributed", reason="Dask is not installed: nothing is tested of clusters")
    file = folder / "scheduler.json"
    options = ["--no-dashboard", "--scheduler-file", str(file)]
    own = {"scheduler": ["--host", "127.0.0.1", "--port", "0"], "worker": ["--nthreads", "1", "--no-nanny"]}
    started = [
        subprocess.Popen(
            [sys.executable, "-m", f"distributed.cli.dask_{name}", *words, *options],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env={**os.environ, "PYTHONPATH": path}, cwd=folder,
        )
        for name, words in own.items()
    ]  # fmt: skip
    try:
        for _ in range(600):
            if file.exists() and file.stat().st_size:
                break
            time.sleep(0.1)
        with distributed.Client(scheduler_file=str(file), set_as_default=False) as client:
            client.wait_for_workers(1, timeout=60)
        yield "dask://" + str(json.loads(file.read_text())["address"]).removeprefix("tcp://"), started[0]
    finally:
        for process in started:
            process.kill()
            process.wait()


def test_a_scheduler_that_ends_is_told(tmp_path: Path) -> None:
    """It ends while calls are at work: what came before was reported, the rest is one error."""
    with programs(tmp_path, os.pathsep.join([str(Path(__file__).parent), *filter(None, sys.path)])) as (on, scheduler):
        came: list[int] = []

        def report(place: int, answer: object) -> None:
            came.append(place)
            scheduler.kill()

        tasks = [Task(half, (2,), "halving"), Task(asleep, (60,), "sleeping")]
        with pytest.raises(CkmlirError, match=f"--on {on}: the Dask scheduler has ended"):
            call_many(tasks, on=on, report=report)
    assert came == [0]


def test_workers_that_lack_a_module_say_which(tmp_path: Path) -> None:
    """Not only Dask's words about different environments."""
    with programs(tmp_path, str(Path(ckmlir.__file__).parent.parent)) as (on, _):
        (answer,) = call_many([Task(half, (2,), "halving")], on=on)
    assert str(answer) == "halving: the cluster failed: No module named 'small_calls'"


def test_workers_with_other_tools_are_refused(cluster: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machines, "made_by", lambda: ("another",))
    (answer,) = call_many([Task(half, (2,), "halving")], on=cluster)
    assert "has another ckmlir or other tools than this process" in str(answer)


def test_libraries_are_the_same_bytes_whoever_builds(
    cluster: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("CKMLIR_CACHE", "off")
    compile_cache.forget()
    softmax = find_operator("softmax")
    kernels = Space(softmax, (get_target("gfx942"),), {"m": (5,), "n": (64, 100), "dtype": ("f16", "f32")}).expand()
    for on, name in (("local", "here.ckl"), (cluster, "there.ckl")):
        assert build(kernels.kernels, tmp_path / name, processes=1, on=on).kernels == 4
    assert (tmp_path / "there.ckl").read_bytes() == (tmp_path / "here.ckl").read_bytes()


def test_a_cluster_tunes(cluster: str, tmp_path: Path) -> None:
    """Two tunings of one request at once, by one cluster and one file: every kernel has its record."""
    softmax, gfx942 = find_operator("softmax"), get_target("gfx942")
    keys = {"m": 4, "n": 1024}
    axes = {name: (value,) for name, value in keys.items()}
    kernels = Space(softmax, (gfx942,), axes, {"row_waves": (1, 2)}).expand().kernels
    path = tmp_path / "tuned.jsonl"

    def tune() -> None:
        with open_workers(cluster) as workers:
            assert workers.size == 2
            Tuning(Asked.of(softmax, keys, gfx942), kernels, path, workers).rank()

    both = [threading.Thread(target=tune) for _ in range(2)]
    for one in both:
        one.start()
    for one in both:
        one.join()
    records = read_records(path)
    assert {one.kernel for one in records} == set(kernels) and all(one.median_us for one in records)


def test_no_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    for on in ("somewhere", "dask://", "tcp://127.0.0.1:8786"):
        with pytest.raises(CkmlirError, match=f"--on {on}: expected local, or dask://host:port"):
            call_many([], on=on)
    monkeypatch.setitem(__import__("sys").modules, "distributed", None)
    with pytest.raises(CkmlirError, match=r"Dask is not installed; pip install 'ckmlir\[dask\]'"):
        call_many([], on="dask://127.0.0.1:1")


def test_no_scheduler(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("distributed", reason="Dask is not installed: nothing is tested of clusters")
    monkeypatch.setattr(machines, "CONNECT_SECONDS", 1)
    with pytest.raises(CkmlirError, match=r"--on dask://127\.0\.0\.1:1: there is no Dask scheduler"):
        call_many([], on="dask://127.0.0.1:1")
