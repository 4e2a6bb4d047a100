"""Calls done by other processes, of this machine or, with `on="dask://host:port"`, by a Dask cluster."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from ckmlir.errors import CkmlirError
from ckmlir.runtime.processes import OneByOne, SideBySide
from ckmlir.runtime.workers import DASK, Report, Task, Workers

LOCAL = "local"


def check_place(on: str) -> None:
    """Raise CkmlirError unless `on` says where calls are done: `local` or `dask://…`."""
    if on != LOCAL and (not on.startswith(DASK) or on == DASK):
        raise CkmlirError(f"--on {on}: expected local, or dask://host:port, the scheduler of a Dask cluster")


def open_workers(on: str = LOCAL, processes: int | None = None) -> Workers:
    """Workers, to be closed.

    Args:
        on: where: "local", or "dask://host:port".
        processes: how many here work side by side, by default one for each processor that this process may use; with 1
            this process does all. Clusters have their own number.

    Raises:
        CkmlirError: the place is unknown, or processes are below 1.
    """
    if processes is not None and processes < 1:
        raise CkmlirError(f"processes={processes}: at least 1 works")
    check_place(on)
    if on != LOCAL:
        from ckmlir.runtime.machines import DaskWorkers

        return DaskWorkers(on)
    most = processes or len(os.sched_getaffinity(0))
    return SideBySide(most) if most > 1 else OneByOne()


def call_many(
    tasks: Sequence[Task], *, on: str = LOCAL, processes: int | None = None, report: Report | None = None
) -> list[Any]:
    """The answers of calls, as `Workers.call`, by workers of their own. Raises as `open_workers` too."""
    if on == LOCAL and len(tasks) < 2 and (processes is None or processes > 0):
        processes = 1  # one call is done sooner here
    with open_workers(on, processes and min(processes, max(len(tasks), 1))) as workers:
        return workers.call(tasks, report)
