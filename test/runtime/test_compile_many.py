"""Many kernels, compiled by several processes: the same bytes in the same order, refusals in their places, and what
ends a worker.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from ckmlir.compiler import compile_kernel
from ckmlir.errors import CkmlirError
from ckmlir.ops import find_operator
from ckmlir.runtime import compile_cache, processes
from ckmlir.runtime import compile_many as module
from ckmlir.runtime.compile_many import Request, compile_many
from ckmlir.targets import get_target

SMALL: list[tuple[str, dict[str, Any], str]] = [
    ("softmax", {"m": 16, "n": 128}, "gfx942"), ("copy", {"m": 16, "n": 16}, "gfx950"),
    ("rmsnorm2d", {"m": 16, "n": 100}, "gfx90a"), ("transpose2d", {"m": 16, "n": 16}, "gfx942"),
]  # fmt: skip


def request_of(name: str, keys: dict[str, Any], chip: str) -> Request:
    operator, target = find_operator(name), get_target(chip)
    return Request(operator, operator.spec(operator.problem(**keys), target), target)


@pytest.fixture(autouse=True)
def _empty_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("CKMLIR_CACHE", "on")
    compile_cache.forget()
    yield
    compile_cache.forget()


def refused() -> Request:
    """A specification that no pipeline is made for: its chip lacks the type."""
    fits = request_of("gemm", {"m": 64, "n": 64, "k": 64, "dtype": "fp8"}, "gfx942")
    return fits._replace(target=get_target("gfx90a"))


@pytest.mark.one_in(2)
@pytest.mark.parametrize("number", [1, 2])
def test_kernels_come_in_order_with_refusals_in_their_places(number: int) -> None:
    requests = [request_of(*one) for one in SMALL]
    expected = [compile_kernel(*request).hsaco for request in requests]
    answers = compile_many([*requests, refused(), requests[0]], processes=number)
    codes = [answer.hsaco for answer in answers if not isinstance(answer, CkmlirError)]
    assert codes == [*expected, expected[0]]
    assert isinstance(answers[len(SMALL)], CkmlirError) and "fp8" in str(answers[len(SMALL)])


def test_nothing_is_compiled_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    requests = [request_of(*one) for one in SMALL]
    first = compile_many(requests, processes=2)
    monkeypatch.setattr(processes, "Worker", None)  # no other process is started
    monkeypatch.setattr(module, "compile_cached", None)
    assert compile_many(requests, processes=2) == first
    compile_cache.forget()
    found = compile_many(requests, processes=2)  # from files, which the workers wrote
    assert [one.hsaco for one in found] == [one.hsaco for one in first]  # type: ignore[union-attr]  # none is refused


def test_without_the_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CKMLIR_CACHE", "off")
    requests = [request_of(*one) for one in SMALL[:2]]
    answers = compile_many(requests, processes=2)
    assert not any(isinstance(answer, CkmlirError) for answer in answers)
    assert not (tmp_path / "ckmlir" / "kernels").exists()


def test_what_ends_a_worker_ends_one_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    requests = [request_of(*one) for one in SMALL]
    sent = processes.send

    def send(pipe: Any, message: Any) -> None:
        sent(pipe, message)
        if message[1][0] == "copy":
            child = next(one for one in started if one.stdin is pipe)
            os.kill(child.pid, signal.SIGKILL)

    started: list[Any] = []
    make = processes.subprocess.Popen

    def popen(*arguments: Any, **options: Any) -> Any:
        started.append(make(*arguments, **options))
        return started[-1]

    monkeypatch.setattr(processes.subprocess, "Popen", popen)
    monkeypatch.setattr(processes, "send", send)
    answers = compile_many(requests, processes=2)
    assert [isinstance(answer, CkmlirError) for answer in answers] == [False, True, False, False]
    assert "copy: compiling copy_" in str(answers[1]) and "the process ended with status -9" in str(answers[1])
    assert all(one.poll() is not None for one in started), "no process is left"


INTERRUPTED = """
import os, signal, time
from ckmlir.runtime.calls import call_many
from ckmlir.runtime.workers import Task

signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in the background
kill = Task(os.killpg, (os.getpgrp(), signal.SIGINT), "interrupt")
try:
    call_many([Task(time.sleep, (60,), "sleep"), kill], processes=2)
except KeyboardInterrupt:
    print("interrupted")
"""


def test_an_interrupt_of_a_terminal_is_for_who_called() -> None:
    """It goes to all processes of a group; workers, which would print where they were, are not of it."""
    began = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED],
        capture_output=True,
        text=True,
        timeout=120,
        start_new_session=True,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "interrupted\n", "")
    assert time.monotonic() - began < 50, "nobody waited for what was interrupted"


KILLED = """
import os, signal, time
from ckmlir.runtime.calls import call_many
from ckmlir.runtime.workers import Task

kill = Task(os.kill, (os.getpid(), signal.SIGKILL), "kill")
call_many([Task(time.sleep, (1,), "sleep"), kill], processes=2)
"""


def test_workers_whose_caller_was_killed_end_without_a_word() -> None:
    done = subprocess.run([sys.executable, "-c", KILLED], capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (-signal.SIGKILL, "", "")


def test_a_defect_in_a_worker_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    requests = [request_of(*one) for one in SMALL[:2]]
    monkeypatch.setattr(module, "named", lambda operator: 3)  # not an operator
    with pytest.raises(RuntimeError, match=r"Traceback[\s\S]*AttributeError"):
        compile_many(requests, processes=2)


def test_requests_that_make_no_sense() -> None:
    assert compile_many([]) == []
    with pytest.raises(CkmlirError, match="processes=0"):
        compile_many([], processes=0)
