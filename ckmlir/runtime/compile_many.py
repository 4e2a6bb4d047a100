"""Many kernels compiled by several processes.

A process compiles one kernel at a time, since Python's bindings of MLIR and LLVM hold Python's lock. So each worker is
a process of its own, `python -m ckmlir.runtime.compile_many`, that takes requests from a pipe and answers with code
objects; it shares the cache's files with this process. What ends a worker ends one kernel's compilation only.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import IO, TYPE_CHECKING, Any, NamedTuple

from ckmlir.errors import CkmlirError
from ckmlir.runtime.compile_cache import compile_cached, lookup, remember
from ckmlir.targets import Target, get_target

if TYPE_CHECKING:
    from ckmlir.compiler import CompiledKernel
    from ckmlir.ops.operator import Operator

LENGTH = 8
"""Bytes of the length that stands before each message."""
COMPILED, REFUSED, DEFECT = "compiled", "refused", "defect"


class Request(NamedTuple):
    """A kernel: an operator, its specification and the chip."""

    operator: Operator[Any, Any]
    spec: Any
    target: Target


Report = Callable[[Request, "CompiledKernel | CkmlirError"], None]
Finish = Callable[["CompiledKernel"], None]


def compile_many(
    requests: Iterable[Request | tuple[Operator[Any, Any], Any, Target]],
    *,
    processes: int | None = None,
    report: Report | None = None,
    finish: Finish | None = None,
) -> list[CompiledKernel | CkmlirError]:
    """The kernels of many specifications, in order; in a kernel's place the error where it is refused.

    Kernels that the cache knows cost nothing. A request that comes several times is compiled once.

    Args:
        processes: how many compile side by side, by default one for each processor that this process may use. With 1,
            or where no more than one kernel is missing, this process compiles.
        report: called with every request and its answer when that is there, in any order, on any thread but one after
            another.
        finish: called with every kernel that is compiled, by the process that does; a function of a module, which may
            add artifacts.

    Raises:
        ValueError: processes below 1.
        RuntimeError: a defect of ckmlir in a worker; the text is its traceback.
    """
    if processes is not None and processes < 1:
        raise ValueError(f"processes={processes}: at least 1 compiles")
    wanted = [Request(*request) for request in requests]
    answers: dict[tuple[str, Any, str], CompiledKernel | CkmlirError] = {}
    missing: dict[tuple[str, Any, str], Request] = {}
    for request in wanted:
        known = lookup(*request)
        if known is not None:
            answers[_key(request)] = known
        else:
            missing.setdefault(_key(request), request)
    most = min(processes or len(os.sched_getaffinity(0)), len(missing))
    tell = _one_after_another(report)
    for request in {_key(one): one for one in wanted if _key(one) in answers}.values():
        tell(request, answers[_key(request)])
    if most > 1:
        found = compile_side_by_side(list(missing.values()), most, tell, finish)
    else:
        found = [_here(request, tell, finish) for request in missing.values()]
    answers |= zip(missing, found, strict=True)
    return [answers[_key(request)] for request in wanted]


def _key(request: Request) -> tuple[str, Any, str]:
    return request.operator.name, request.spec, request.target.name


def _here(request: Request, report: Report, finish: Finish | None) -> CompiledKernel | CkmlirError:
    answer: CompiledKernel | CkmlirError
    try:
        answer = compile_cached(*request)
        if finish is not None:
            finish(answer)
    except CkmlirError as error:
        answer = error
    report(request, answer)
    return answer


def _one_after_another(report: Report | None) -> Report:
    lock = threading.Lock()

    def tell(request: Request, answer: CompiledKernel | CkmlirError) -> None:
        if report is not None:
            with lock:
                report(request, answer)

    return tell


def compile_side_by_side(
    requests: Sequence[Request], processes: int, report: Report | None = None, finish: Finish | None = None
) -> list[CompiledKernel | CkmlirError]:
    """The kernels of requests, or errors, by so many workers, whatever the cache's memory here knows."""
    own = threading.local()
    workers: list[_Worker] = []

    def compile_next(request: Request) -> CompiledKernel | CkmlirError:
        if getattr(own, "worker", None) is None or own.worker.ended:
            own.worker = _Worker()
            workers.append(own.worker)
        found: CompiledKernel | CkmlirError = own.worker.compile(request, finish)
        if not isinstance(found, CkmlirError):
            remember(*request, found)
        if report is not None:
            report(request, found)
        return found

    try:
        with ThreadPoolExecutor(processes, "compile") as pool:
            try:
                return list(pool.map(compile_next, requests))
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                for worker in workers:
                    worker.end()
                raise
    finally:
        for worker in workers:
            worker.end()


class _Worker:
    """One process that compiles, seen from this one."""

    def __init__(self) -> None:
        path = os.pathsep.join(filter(None, sys.path))
        self._process = subprocess.Popen(
            [sys.executable, "-m", __name__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": path},
        )
        self.ended = False

    def compile(self, request: Request, finish: Finish | None = None) -> CompiledKernel | CkmlirError:
        """Its answer; CkmlirError also where the process ends."""
        assert self._process.stdin is not None and self._process.stdout is not None
        try:
            send(self._process.stdin, (_named(request.operator), request.spec, request.target.name, finish))
            kind, answer = receive(self._process.stdout)
        except (OSError, EOFError):
            self.end()
            return CkmlirError(
                f"{request.operator.name}: the process that compiled {request.spec.name} ended with status "
                f"{self._process.returncode}"
            )
        if kind == DEFECT:
            raise RuntimeError(answer)
        return CkmlirError(answer) if kind == REFUSED else answer

    def end(self) -> None:
        """End the process, whatever it does; again, nothing."""
        if not self.ended:
            self.ended = True
            self._process.kill()
            self._process.communicate()


def _named(operator: Operator[Any, Any]) -> Any:
    """An operator of this package by its name, any other as it is."""
    from ckmlir.ops import OPERATORS

    return operator.name if operator.name in OPERATORS else operator


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
    """A worker: compile what comes until nothing comes."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what is printed is not an answer
    while True:
        try:
            message = receive(sys.stdin.buffer)
        except EOFError:
            return
        send(answers, _answer(*message))


def _answer(operator: Any, spec: Any, target: str, finish: Finish | None) -> tuple[str, Any]:
    from ckmlir.ops import find_operator

    try:
        found = find_operator(operator) if isinstance(operator, str) else operator
        compiled = compile_cached(found, spec, get_target(target))
        if finish is not None:
            finish(compiled)
        return COMPILED, compiled
    except CkmlirError as error:
        return REFUSED, str(error)
    except Exception:  # told where the request was made
        return DEFECT, traceback.format_exc()


if __name__ == "__main__":
    main()
