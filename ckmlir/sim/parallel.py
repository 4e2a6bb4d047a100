"""Spreading the workgroups of a launch over threads: compiled code runs without Python's lock."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from ckmlir.sim.runner import Runner

SHARES = 8
"""Runs of neighbouring workgroups that each thread takes: few enough to cost nothing, enough to even out lengths."""


def run_workgroups(runners: Sequence[Runner], workgroups: int) -> float:
    """Run all workgroups, each runner in a thread of its own; returns the seconds it took.

    Which runner takes which workgroups does not depend on their speed, so that a run can be repeated.
    """
    start = time.perf_counter()
    if len(runners) == 1:
        runners[0].run(0, workgroups)
        return time.perf_counter() - start
    size = max(1, -(-workgroups // (SHARES * len(runners))))
    stopped = threading.Event()

    def work(number: int) -> None:
        for first in range(number * size, workgroups, len(runners) * size):
            if stopped.is_set():
                return
            runners[number].run(first, min(first + size, workgroups))

    with ThreadPoolExecutor(len(runners)) as pool:
        futures = [pool.submit(work, number) for number in range(len(runners))]
        try:
            for future in futures:
                future.result()
        finally:
            stopped.set()
    return time.perf_counter() - start
