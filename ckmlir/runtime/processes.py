"""Calls done by other processes, of this machine or of many.

A process compiles one kernel at a time, since Python's bindings of MLIR and LLVM hold Python's lock. So each worker is
a process of its own, `python -m ckmlir.runtime.processes`, that takes calls from a pipe and answers through another;
it shares the cache's files with this process, and ends with it, however that ends. What ends a worker ends one call
only. `on="dask://host:port"` has a Dask cluster do the same (`ckmlir.runtime.machines`).
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import IO, Any, NamedTuple, Protocol

from ckmlir.errors import CkmlirError

LENGTH = 8
"""Bytes of the length that stands before each message."""
DONE, REFUSED, DEFECT, UNFIT = "done", "refused", "defect", "unfit"
LOCAL, DASK = "local", "dask://"


class WorkerError(CkmlirError):
    """Nobody did a call: its process ended, or was none that could. It says nothing of what was asked for."""


class Task(NamedTuple):
    """A call.

    Attributes:
        function: of a module; what it raises as CkmlirError is its answer.
        arguments: that can be pickled.
        what: what it does, for the message where its process ends: "gemm: compiling gemm_f16_…".
    """

    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    what: str


Report = Callable[[int, Any], None]
"""Told the place of a task and its answer when that is there, in any order, on any thread but one after another."""


def check_place(on: str) -> None:
    """Raise CkmlirError unless `on` says where calls are done: `local` or `dask://…`."""
    if on != LOCAL and (not on.startswith(DASK) or on == DASK):
        raise CkmlirError(f"--on {on}: expected local, or dask://host:port, the scheduler of a Dask cluster")


class Workers(Protocol):
    """Who does calls, for as long as it is open: a context.

    Attributes:
        size: how many calls are done side by side.
    """

    size: int

    def call(self, tasks: Sequence[Task], report: Report | None = None) -> list[Any]:
        """The answers of calls, in order; in a refused call's place its CkmlirError. Raises RuntimeError for a defect
        in a call; the text is its traceback.
        """

    def __enter__(self) -> Workers: ...

    def __exit__(self, *raised: object) -> None: ...


def open_workers(on: str = LOCAL, processes: int | None = None) -> Workers:
    """Workers, to be closed.

    Args:
        on: where: "local", or "dask://host:port".
        processes: how many here work side by side, by default one for each processor that this process may use; with 1
            this process does all. Clusters have their own number.

    Raises:
        ValueError: processes below 1.
        CkmlirError: no such place.
    """
    if processes is not None and processes < 1:
        raise ValueError(f"processes={processes}: at least 1 works")
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


class OneByOne:
    """This process."""

    size = 1

    def call(self, tasks: Sequence[Task], report: Report | None = None) -> list[Any]:
        """See `Workers`."""
        answers = []
        for place, task in enumerate(tasks):
            try:
                answers.append(task.function(*task.arguments))
            except CkmlirError as error:
                answers.append(error)
            if report is not None:
                report(place, answers[-1])
        return answers

    def __enter__(self) -> OneByOne:
        return self

    def __exit__(self, *raised: object) -> None:
        return


class SideBySide:
    """So many processes of this machine, each started when there is something for it."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._workers: list[Worker] = []
        self._pool = ThreadPoolExecutor(size, "worker")
        self._own = threading.local()

    def call(self, tasks: Sequence[Task], report: Report | None = None) -> list[Any]:
        """See `Workers`."""
        turn = threading.Lock()

        def call_next(place: int) -> Any:
            if getattr(self._own, "worker", None) is None or self._own.worker.ended:
                self._own.worker = Worker()
                self._workers.append(self._own.worker)
            answer = self._own.worker.call(tasks[place])
            if report is not None:
                with turn:
                    report(place, answer)
            return answer

        try:
            return list(self._pool.map(call_next, range(len(tasks))))
        except BaseException:
            self._pool.shutdown(wait=False, cancel_futures=True)
            raise

    def __enter__(self) -> SideBySide:
        return self

    def __exit__(self, *raised: object) -> None:
        for worker in self._workers:
            worker.end()
        self._pool.shutdown()
        for worker in self._workers:  # started meanwhile
            worker.end()


class Worker:
    """One process, seen from this one."""

    def __init__(self) -> None:
        path = os.pathsep.join(filter(None, sys.path))
        self._process = subprocess.Popen(
            [sys.executable, "-m", __name__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": path},
        )
        self.ended = False

    def call(self, task: Task) -> Any:
        """The answer; WorkerError where the process ends. Raises RuntimeError for a defect."""
        assert self._process.stdin is not None and self._process.stdout is not None
        try:
            send(self._process.stdin, (task.function, task.arguments))
            answer = receive(self._process.stdout)
        except (OSError, EOFError):
            self.end()
            return WorkerError(f"{task.what}: the process ended with status {self._process.returncode}")
        return read_answer(answer)

    def end(self) -> None:
        """End the process, whatever it does; again, nothing."""
        if not self.ended:
            self.ended = True
            self._process.kill()
            self._process.communicate()


def send(pipe: IO[bytes], message: Any) -> None:
    """Write a message."""
    data = pickle.dumps(message)
    pipe.write(len(data).to_bytes(LENGTH, "little") + data)
    pipe.flush()


def receive(pipe: IO[bytes]) -> Any:
    """Read a message. Raises EOFError where there is none, or only a part."""
    length = int.from_bytes(pipe.read(LENGTH).ljust(LENGTH, b"\0"), "little")
    data = pipe.read(length)
    if not length or len(data) < length:
        raise EOFError
    return pickle.loads(data)  # from a process that was started here


def make_answer(function: Callable[..., Any], arguments: tuple[Any, ...]) -> tuple[str, Any]:
    """Do a call, and say how it went, in what can be pickled."""
    try:
        return DONE, function(*arguments)
    except CkmlirError as error:
        return REFUSED, str(error)
    except Exception:  # told where the call was asked for
        return DEFECT, traceback.format_exc()


def read_answer(answer: tuple[str, Any]) -> Any:
    """What a call returned, or its CkmlirError. Raises RuntimeError for a defect."""
    kind, found = answer
    if kind == DEFECT:
        raise RuntimeError(found)
    if kind == UNFIT:
        return WorkerError(found)
    return CkmlirError(found) if kind == REFUSED else found


def main() -> None:
    """A worker: do what comes until nothing comes."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what is printed is not an answer
    while True:
        try:
            message = receive(sys.stdin.buffer)
        except EOFError:
            return
        send(answers, make_answer(*message))


if __name__ == "__main__":
    main()
