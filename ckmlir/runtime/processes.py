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
from typing import IO, Any, NamedTuple

from ckmlir.errors import CkmlirError

LENGTH = 8
"""Bytes of the length that stands before each message."""
DONE, REFUSED, DEFECT = "done", "refused", "defect"
LOCAL, DASK = "local", "dask://"


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


def call_many(
    tasks: Sequence[Task], *, on: str = LOCAL, processes: int | None = None, report: Report | None = None
) -> list[Any]:
    """The answers of calls, in order; in a refused call's place its CkmlirError.

    Args:
        on: where: "local", or "dask://host:port".
        processes: how many here work side by side, by default one for each processor that this process may use; with 1
            this process does all. Clusters have their own number.

    Raises:
        ValueError: processes below 1.
        CkmlirError: no such place.
        RuntimeError: a defect in a call; the text is its traceback.
    """
    if processes is not None and processes < 1:
        raise ValueError(f"processes={processes}: at least 1 works")
    check_place(on)
    if on != LOCAL:
        from ckmlir.runtime.machines import call_on_dask

        answers: list[Any] = call_on_dask(tasks, on, report)
        return answers
    most = min(processes or len(os.sched_getaffinity(0)), len(tasks))
    if most > 1:
        return call_side_by_side(tasks, most, report)
    return [_here(place, task, report) for place, task in enumerate(tasks)]


def _here(place: int, task: Task, report: Report | None) -> Any:
    try:
        answer = task.function(*task.arguments)
    except CkmlirError as error:
        answer = error
    if report is not None:
        report(place, answer)
    return answer


def call_side_by_side(tasks: Sequence[Task], processes: int, report: Report | None = None) -> list[Any]:
    """The answers of so many workers of this machine."""
    own = threading.local()
    workers: list[Worker] = []
    turn = threading.Lock()

    def call_next(place: int) -> Any:
        if getattr(own, "worker", None) is None or own.worker.ended:
            own.worker = Worker()
            workers.append(own.worker)
        answer = own.worker.call(tasks[place])
        if report is not None:
            with turn:
                report(place, answer)
        return answer

    try:
        with ThreadPoolExecutor(processes, "worker") as pool:
            try:
                return list(pool.map(call_next, range(len(tasks))))
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                for worker in workers:
                    worker.end()
                raise
    finally:
        for worker in workers:
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
        """The answer; CkmlirError also where the process ends. Raises RuntimeError for a defect."""
        assert self._process.stdin is not None and self._process.stdout is not None
        try:
            send(self._process.stdin, (task.function, task.arguments))
            answer = receive(self._process.stdout)
        except (OSError, EOFError):
            self.end()
            return CkmlirError(f"{task.what}: the process ended with status {self._process.returncode}")
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
