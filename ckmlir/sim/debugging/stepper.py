"""Leaving compiled code at chosen instructions: the mechanism below the debugger and the trace.

A kernel is an array of records, each with the address of its handler, and a runner has a copy of its own. To stop at an
instruction, its record gets the address of a Python function instead. Called by the scheduler or by the handler before,
that function executes the instruction alone (for as long, all records lead back to it), and lets the wave go on to the
next chosen instruction; it returns to the scheduler only when the wave ends, fails or comes to a barrier. So compiled
code, scheduler and checks are the same with a debugger and without, and without one nothing is slower.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Protocol

import numpy as np
import numpy.typing as npt

from ckmlir.sim import state
from ckmlir.sim.debugging.wave import Wave
from ckmlir.sim.errors import SimulationError
from ckmlir.sim.runner import Runner
from ckmlir.sim.state import Status

_HANDLER = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p)
_STEPPED = 5  # what a chain of handlers returns here, and never to the scheduler: the wave is at a chosen record


class Visitor(Protocol):
    """Who is told of chosen instructions."""

    def before(self, wave: Wave) -> None:
        """The wave is about to execute its instruction. What is raised here ends the launch with that exception."""

    def after(self, wave: Wave, status: int) -> None:
        """It has executed it, and goes on unless `status` says (`state.Status`) that it ended, failed or waits."""


class Stepper:
    """Calls a visitor at chosen instructions of one runner's kernel."""

    def __init__(self, runner: Runner, visitor: Visitor) -> None:
        self.runner, self.program, self.visitor = runner, runner.program, visitor
        addresses = np.array([one.address for one in self.program.instructions], np.intp)
        self._firsts = self.program.index[addresses // 4].astype(
            np.intp
        )  # first record of each instruction: its shadow's, if any
        self._numbers = {int(record): number for number, record in enumerate(self._firsts)}
        self._plain = runner.records[:, 0].copy()
        self._functions: dict[int, Callable[[int, int], int]] = {}
        self._chosen: npt.NDArray[np.intp] = np.empty(0, np.intp)
        self._is_chosen = np.zeros(len(self._plain), np.bool_)
        self._driving = False
        self._failure: BaseException | None = None
        self._callback = _HANDLER(self._enter)  # kept alive as long as records point to it
        self._address = ctypes.cast(self._callback, ctypes.c_void_p).value or 0

    def choose(self, instructions: Iterable[int] | None) -> None:
        """Visit these instructions from now on, by number; None is all."""
        self._chosen = self._firsts if instructions is None else self._firsts[sorted(instructions)]
        self._is_chosen[:] = False
        self._is_chosen[self._chosen] = True
        self._stop_at(self._chosen)

    @contextmanager
    def watching(self) -> Iterator[None]:
        """While the runner runs. What a visitor raises comes out here."""
        self._stop_at(self._chosen)
        try:
            yield
        except SimulationError:
            if self._failure is not None:
                raise self._failure from None
            raise
        finally:
            self.runner.records[:, 0] = self._plain

    def _stop_at(self, records: npt.NDArray[np.intp]) -> None:
        self.runner.records[:, 0] = self._plain
        self.runner.records[records, 0] = self._address

    def _enter(self, wave: int, record: int) -> int:
        """The handler in the place of chosen records' own."""
        try:
            if self._driving:
                self._write_resume(wave, record)
                return _STEPPED
            self._driving = True
            try:
                return self._drive(wave, record)
            finally:
                self._driving = False
                self._stop_at(self._chosen)
        except BaseException as error:  # cannot pass through compiled code: `watching` raises it
            self._failure = error
            return Status.FAILED

    def _drive(self, wave: int, record: int) -> int:
        """Run a wave that stands at a chosen record; returns the status for the scheduler."""
        number = self.runner.record_number(record)
        while True:
            view = self._view(wave, number)
            self.visitor.before(view)
            status = self._execute(wave, number, self._firsts)
            self.visitor.after(view, status)
            if status != _STEPPED:
                return status
            number = self._resumed(wave)
            if not self._is_chosen[number]:
                status = self._execute(wave, number, self._chosen)
                if status != _STEPPED:
                    return status
                number = self._resumed(wave)

    def _view(self, wave: int, number: int) -> Wave:
        wave_number = (wave - self.runner.blocks.address) // state.WAVE_BYTES
        return Wave(self.runner, wave_number, self.program.instructions[self._numbers[number]], number)

    def _execute(self, wave: int, number: int, stops: npt.NDArray[np.intp]) -> int:
        """Execute the instruction at a record, then all to the next of the records in `stops`."""
        self._stop_at(stops)
        address = int(self._plain[number])
        if address not in self._functions:
            self._functions[address] = _HANDLER(address)
        return self._functions[address](wave, self.runner.record_address(number))

    def _write_resume(self, wave: int, record: int) -> None:
        ctypes.c_uint64.from_address(wave + state.RESUME).value = record

    def _resumed(self, wave: int) -> int:
        return self.runner.record_number(ctypes.c_uint64.from_address(wave + state.RESUME).value)
