"""An interrupt ends a command at once, also where a function of a library does not return."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time

import pytest

from ckmlir.tools.interrupts import prompt_interrupts
from ckmlir.tools.scripts import INTERRUPTED

STUCK = """
import ctypes, signal
from ckmlir.tools.interrupts import prompt_interrupts
signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in the background
mutex = ctypes.create_string_buffer(64)
with prompt_interrupts("tool"):
    print("ready", flush=True)
    for _ in range(2):
        ctypes.CDLL(None).pthread_mutex_lock(mutex)
"""


def test_a_function_that_does_not_return_is_left() -> None:
    with subprocess.Popen([sys.executable, "-c", STUCK], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stdout.readline() == b"ready\n"
        time.sleep(1)  # until it waits
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=30)
    assert (process.returncode, said) == (INTERRUPTED, b"tool: interrupted\n")


# An interrupt while the command's module is imported, before anything of it runs.
EARLY = """
import signal, sys
from ckmlir.tools import scripts
signal.signal(signal.SIGINT, signal.default_int_handler)
class Finder:
    def find_spec(name, path, target=None):
        if name == "argparse":
            sys.meta_path.remove(Finder)
            signal.raise_signal(signal.SIGINT)
sys.meta_path.insert(0, Finder)
sys.modules.pop("argparse", None)
scripts.{function}()
"""


@pytest.mark.parametrize(
    ("function", "tool"), [("ckmlir", "ckmlir"), ("ckmlir_opt", "ckmlir-opt"), ("ckmlir_reduce", "ckmlir-reduce")]
)
def test_an_interrupt_of_the_first_imports_is_one_line(function: str, tool: str) -> None:
    ended = subprocess.run([sys.executable, "-c", EARLY.format(function=function)], capture_output=True, timeout=60)
    assert (ended.returncode, ended.stderr) == (INTERRUPTED, f"{tool}: interrupted\n".encode())


def test_python_raises_it_and_all_is_as_before() -> None:
    handled = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        for _ in range(2):
            with pytest.raises(KeyboardInterrupt), prompt_interrupts("tool"):
                assert signal.getsignal(signal.SIGINT) is not signal.default_int_handler
                signal.raise_signal(signal.SIGINT)
            assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
        assert "ckmlir interrupts" not in [thread.name for thread in threading.enumerate()]
    finally:
        signal.signal(signal.SIGINT, handled)


def test_an_interrupt_that_became_another_error_is_one() -> None:
    handled = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt), prompt_interrupts("tool"):
            try:
                signal.raise_signal(signal.SIGINT)
            except KeyboardInterrupt:
                raise ImportError("numpy._core.umath failed to import") from None
        with pytest.raises(ImportError), prompt_interrupts("tool"):
            raise ImportError("one of its own")
    finally:
        signal.signal(signal.SIGINT, handled)


def test_somebody_elses_handler_stays() -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with prompt_interrupts("tool"):
            assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


LOST = """
import gc, signal, time
from ckmlir.tools.interrupts import prompt_interrupts
signal.signal(signal.SIGINT, signal.default_int_handler)

class Finalised:
    def __del__(self):
        signal.raise_signal(signal.SIGINT)

with prompt_interrupts("tool"):
    for _ in range(3):
        try:
            Finalised()
            time.sleep(20)
        except KeyboardInterrupt:
            print("interrupted", flush=True)
"""


def test_an_interrupt_that_a_finaliser_loses_comes_again() -> None:
    done = subprocess.run([sys.executable, "-c", LOST], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "interrupted\n" * 3, "")
