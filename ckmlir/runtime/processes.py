"""Calls done by this process, or by several of this machine.

A process compiles one kernel at a time, since Python's bindings of MLIR and LLVM hold Python's lock. So each worker is
a process of its own, `python -m ckmlir.runtime.processes`, that takes calls from a pipe and answers through another;
it shares the cache's files with this process, and ends with it, however that ends. What ends a worker ends one call
only.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import IO, Any

from ckmlir.errors import CkmlirError
from ckmlir.runtime.workers import Report, Task, WorkerError, make_answer, read_answer

LENGTH = 8
"""Bytes of the length that stands before each message."""


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
            start_new_session=True,  # a terminal's interrupt is this process's, which ends its workers
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


def main() -> None:
    """A worker: do what comes until nothing comes."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what is printed is not an answer
    while True:
        try:
            message = receive(sys.stdin.buffer)
        except EOFError:
            return
        try:
            send(answers, make_answer(*message))
        except BrokenPipeError:  # who asked was killed
            os._exit(1)


if __name__ == "__main__":
    main()
