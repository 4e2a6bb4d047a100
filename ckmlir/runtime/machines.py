"""Calls done by a Dask cluster, of any number of machines.

Workers need this package, with the same sources and tools as here: what they make is then the same, whoever makes it.
That is compared with every call, since workers come and go. A call whose worker ends is given to another one; after
three it counts as refused. While a cluster has no worker left, calls wait for one.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Sequence
from typing import Any

from ckmlir.errors import CkmlirError
from ckmlir.runtime.compile_cache import sources_digest
from ckmlir.runtime.processes import DASK, REFUSED, Report, Task, make_answer, read_answer

CONNECT_SECONDS = 10
RETRIES = 2
"""How often a call is tried again where Dask, not the call, failed."""


def call_on_dask(tasks: Sequence[Task], on: str, report: Report | None) -> list[Any]:
    """The answers of calls, in order, as `ckmlir.runtime.processes.call_many`.

    Raises:
        CkmlirError: Dask is not installed, there is no cluster at this address, or it has no workers.
        RuntimeError: a defect in a call; the text is its traceback.
    """
    try:
        distributed: Any = importlib.import_module("distributed")
    except ImportError:
        raise CkmlirError(f"--on {on}: Dask is not installed; pip install 'ckmlir[dask]'") from None
    try:
        client = distributed.Client(
            f"tcp://{on.removeprefix(DASK)}", timeout=CONNECT_SECONDS, set_as_default=False, heartbeat_interval=5000
        )
    except (OSError, ValueError) as error:
        raise CkmlirError(f"--on {on}: there is no Dask scheduler ({str(error).splitlines()[0]})") from None
    with client:
        if not client.scheduler_info(n_workers=-1)["workers"]:
            where = client.scheduler.address
            raise CkmlirError(f"--on {on}: this cluster has no workers; start some: dask worker {where}")
        here = made_by()
        futures = [
            client.submit(_there, here, task.function, task.arguments, pure=False, retries=RETRIES) for task in tasks
        ]
        places = {future.key: place for place, future in enumerate(futures)}
        answers: list[Any] = [None] * len(tasks)
        try:
            for future in distributed.as_completed(futures, loop=client.loop):
                place = places[future.key]
                answers[place] = _answer_of(future, tasks[place])
                if report is not None:
                    report(place, answers[place])
        except BaseException:
            client.cancel(futures)
            raise
        return answers


def _answer_of(future: Any, task: Task) -> Any:
    error = future.exception() if future.status == "error" else None
    if error is not None:
        return CkmlirError(f"{task.what}: the cluster failed: {str(error).splitlines()[0]}")
    return read_answer(future.result())


def _there(expected: tuple[str, ...], function: Callable[..., Any], arguments: tuple[Any, ...]) -> tuple[str, Any]:
    """Do a call on a worker, if that is as whoever asks for it."""
    if made_by() != expected:
        import socket

        return REFUSED, f"the worker on {socket.gethostname()} has another ckmlir or other tools than this process"
    return make_answer(function, arguments)


@functools.cache
def made_by() -> tuple[str, ...]:
    """What decides the bytes of a kernel: this package's sources, and the tools."""
    from ckmlir.compiler import toolchain

    return (sources_digest(), *toolchain().values())
