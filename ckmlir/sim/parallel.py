"""Running the workgroups of a launch in threads: one, or several that share them, without Python's lock.

The thread that launches only waits, so that it answers an interrupt at once: the others then stop at their next branch
or workgroup. While it waits it looks whether some workgroup takes too long: a kernel that does not end is given up.
"""

from __future__ import annotations

import concurrent.futures
import math
import os
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache

from ckmlir.sim.runner import Runner

SHARES = 8
"""Runs of neighbouring workgroups that each thread takes: few enough to cost nothing, enough to even out lengths."""

LOOKS_SECONDS = 0.1
"""How often the waiting thread looks for workgroups that do not end."""

MOST_THREADS = 4096


@lru_cache(maxsize=1)
def _threads() -> ThreadPoolExecutor:
    """Threads that are kept, since a launch may take less than making one. There are as many as ever worked at once."""
    return ThreadPoolExecutor(MOST_THREADS, "ckmlir simulator")


os.register_at_fork(after_in_child=_threads.cache_clear)  # a copy of the process has none of the threads


def run_workgroups(runners: Sequence[Runner], workgroups: int, *, endlessly: bool = False) -> float:
    """Run all workgroups, each runner in a thread of its own; returns the seconds it took.

    Which runner takes which workgroups does not depend on their speed, so that a run can be repeated. `endlessly` lets
    them take as long as they like, as is right where somebody looks at them.
    """
    start = time.perf_counter()
    size = workgroups if len(runners) == 1 else max(1, -(-workgroups // (SHARES * len(runners))))

    def shares_of(number: int) -> list[tuple[int, int]]:
        firsts = range(number * size, workgroups, len(runners) * size)
        return [(first, min(first + size, workgroups)) for first in firsts]

    watch(runners, [shares_of(number) for number in range(len(runners))], endlessly=endlessly)
    return time.perf_counter() - start


def watch(runners: Sequence[Runner], shares: Sequence[Sequence[tuple[int, int]]], *, endlessly: bool = False) -> None:
    """Let each runner run its ranges of workgroups, and wait for all of them.

    What one of them raises is raised here; it stops those that come after it in the list, so that which error that is
    does not depend on speed. An interrupt stops all, and is raised when they stand still.
    """
    workers = [_Worker(*one) for one in zip(runners, shares)]
    try:
        futures = [_threads().submit(worker.work) for worker in workers]
    except RuntimeError:  # Python is ending, and starts no threads any more; what is queued is still done
        for worker in workers:
            worker.work()
        return
    try:
        unfinished = set(futures)
        while unfinished:
            finished, unfinished = concurrent.futures.wait(
                unfinished, LOOKS_SECONDS, return_when=concurrent.futures.FIRST_COMPLETED
            )
            failed = [number for number, one in enumerate(futures) if one in finished and one.exception()]
            for worker in workers[min(failed, default=len(workers)) + 1 :]:
                worker.runner.interrupt()
            if not finished and not endlessly:
                for worker in workers:
                    worker.lose_patience()
    except BaseException:
        for worker in workers:
            worker.runner.interrupt()
        concurrent.futures.wait(futures)
        raise
    for future in futures:
        future.result()


class _Worker:
    """A runner, and how long its thread has worked on the present workgroup."""

    def __init__(self, runner: Runner, shares: Sequence[tuple[int, int]]) -> None:
        self.runner = runner
        self._shares = shares
        self._clock: int | None = None  # of the thread, in processor time
        self._group, self._since = -1, 0.0

    def work(self) -> None:
        """Run all workgroups, in the thread that calls this."""
        self._clock = time.pthread_getcpuclockid(threading.get_ident())
        for first, end in self._shares:
            self.runner.run(first, end)

    def lose_patience(self) -> None:
        """Give the launch up where one workgroup takes longer than the runner has patience for."""
        patience = self.runner.surroundings.patience
        if self._clock is None or patience == math.inf:
            return
        now, group = time.clock_gettime(self._clock), self.runner.progress
        if group != self._group:
            self._group, self._since = group, now
        elif now - self._since > patience:
            self.runner.lose_patience()
