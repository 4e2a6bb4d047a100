"""Calls done by a Dask cluster, of any number of machines.

Workers need this package, with the same sources and tools as here: every worker then makes the same bytes.
That is compared with every call, since workers come and go. A call whose worker ends is given to another one; after
three it counts as refused. While a cluster has no worker left, calls wait for one; a scheduler that ends is an error.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ckmlir.errors import CkmlirError
from ckmlir.runtime.kernel_files import sources_digest
from ckmlir.runtime.workers import DASK, UNFIT, Report, Task, WorkerError, make_answer, read_answer

CONNECT_SECONDS = 10
RETRIES = 2
"""How often a call is tried again where Dask, not the call, failed."""


class DaskWorkers:
    """Those of a cluster (`ckmlir.runtime.workers.Workers`)."""

    def __init__(self, on: str) -> None:
        """Raises CkmlirError: Dask is not installed, there is no cluster at this address, or it has no workers."""
        try:
            self._dask: Any = importlib.import_module("distributed")
        except ImportError:
            raise CkmlirError(f"--on {on}: Dask is not installed; pip install 'ckmlir[dask]'") from None
        self._on, where = on, f"tcp://{on.removeprefix(DASK)}"
        try:
            self._client = self._dask.Client(where, timeout=CONNECT_SECONDS, set_as_default=False)
        except (OSError, ValueError) as error:
            raise CkmlirError(f"--on {on}: there is no Dask scheduler ({str(error).splitlines()[0]})") from None
        self.size = sum(self._client.nthreads().values())
        if not self.size:
            self._client.close()
            raise CkmlirError(f"--on {on}: this cluster has no workers; start some: dask worker {where}")

    def call(self, tasks: Sequence[Task], report: Report | None = None) -> list[Any]:
        """See `Workers`. Raises CkmlirError where the scheduler ends meanwhile."""
        here = made_by()
        futures = [
            self._client.submit(_there, here, task.function, task.arguments, pure=False, retries=RETRIES)
            for task in tasks
        ]
        answers: list[Any] = [None] * len(tasks)
        try:
            for place, answer in self._arriving(futures, tasks):
                answers[place] = answer
                if report is not None:
                    report(place, answer)
        except BaseException:
            with contextlib.suppress(Exception):  # of a cluster that is gone nothing is left to cancel
                self._client.cancel(futures)
            raise
        return answers

    def _arriving(self, futures: Sequence[Any], tasks: Sequence[Task]) -> Iterator[tuple[int, Any]]:
        """Places of calls and their answers, as they come."""
        places = {future.key: place for place, future in enumerate(futures)}
        try:
            for future in self._dask.as_completed(futures, loop=self._client.loop):
                place = places[future.key]
                yield place, _answer_of(future, tasks[place])
        except (OSError, self._dask.CancelledError):
            raise CkmlirError(f"--on {self._on}: the Dask scheduler has ended, and with it what was not done") from None

    def __enter__(self) -> DaskWorkers:
        return self

    def __exit__(self, *raised: object) -> None:
        self._client.close()


def _answer_of(future: Any, task: Task) -> Any:
    error = future.exception() if future.status == "error" else None
    if error is not None:
        why = error.__cause__ or error  # Dask says at length that something is amiss, and its cause what
        return WorkerError(f"{task.what}: the cluster failed: {str(why).splitlines()[0]}")
    return read_answer(future.result())


def _there(expected: tuple[str, ...], function: Callable[..., Any], arguments: tuple[Any, ...]) -> tuple[str, Any]:
    """Do a call on a worker, provided that its package and tools are those of the process that asks."""
    if made_by() != expected:
        import socket

        return UNFIT, f"the worker on {socket.gethostname()} has another ckmlir or other tools than this process"
    return make_answer(function, arguments)


@functools.cache
def made_by() -> tuple[str, ...]:
    """What decides the bytes of a kernel: this package's sources, and the tools."""
    from ckmlir.compiler import toolchain

    return (sources_digest(), *toolchain().values())
