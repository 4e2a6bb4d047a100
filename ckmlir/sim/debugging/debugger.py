"""The debugger: a launch that stops at instructions, source lines and findings, and can be stepped."""

from __future__ import annotations

import queue
import threading
from collections.abc import Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from ckmlir.codeobject import CodeObject
from ckmlir.sim.debugging.places import Place, instructions_at
from ckmlir.sim.debugging.stepper import Stepper
from ckmlir.sim.debugging.wave import Wave
from ckmlir.sim.errors import CheckFailure, SimulationError
from ckmlir.sim.launch import Dimensions, KernelArgument
from ckmlir.sim.memory import DeviceMemory
from ckmlir.sim.runner import Runner
from ckmlir.sim.simulator import Simulator
from ckmlir.sim.state import Status
from ckmlir.sim.statistics import RunStatistics


class Stop(Struct, frozen=True):
    """Where and why a launch stands still.

    Attributes:
        reason: "breakpoint" and "step" stand before the instruction, "finding" and "error" after it.
        workgroup, wave: Who stands there; the other waves of the workgroup stand at a barrier or the start, or ended.
        address: Byte offset of the instruction from the kernel's start.
        instruction: Its text.
        source: File and line, where the code object has a line table.
        message: The finding or the error.
    """

    reason: str
    workgroup: tuple[int, int, int]
    wave: int
    address: int
    instruction: str
    source: tuple[str, int] | None
    message: str = ""

    def __str__(self) -> str:
        at = f" from {self.source[0]}:{self.source[1]}" if self.source else ""
        text = f"{self.reason}: workgroup {self.workgroup} wave {self.wave} at 0x{self.address:x}{at}: "
        return text + self.instruction + (f": {self.message}" if self.message else "")


class _Closed(Exception):
    """The user gave the launch up."""


class Debugger:
    """One launch of a kernel under control; a context manager, since a launch that is given up has to be ended.

    The launch runs in a thread of its own, and stands still while the user looks. Waves run one after another, each to
    its next barrier: a step goes on with another wave only there and at a wave's end.
    """

    def __init__(
        self,
        simulator: Simulator,
        code_object: CodeObject,
        kernel: str | None = None,
        grid: Dimensions = (1, 1, 1),
        block: Dimensions = (64, 1, 1),
        arguments: Sequence[KernelArgument] = (),
        dynamic_lds: int = 0,
    ) -> None:
        """Arguments and errors as for `Simulator.launch`. Nothing runs before `run` or `step`."""
        self._program = simulator.program(code_object, kernel)
        self._launch = partial(simulator.launch, code_object, kernel, grid, block, arguments, dynamic_lds, self)
        self._breakpoints: set[int] = set()
        self._at_findings = self._stepping = False
        self._known = 0
        self._thread: threading.Thread | None = None
        self._go: queue.SimpleQueue[bool] = queue.SimpleQueue()
        self._news: queue.SimpleQueue[Stop | BaseException | None] = queue.SimpleQueue()
        self._stepper: Stepper | None = None
        self._wave: Wave | None = None
        self._over = False
        self.statistics: RunStatistics | None = None
        """Of the launch, once it came to its end."""

    # -- where to stop -----------------------------------------------------------------------------------------------

    def break_at(self, place: Place) -> int:
        """Stop before the instructions that a place names: a byte offset from the kernel's start, "file.py:line", or a
        pattern of the mnemonic or text. Returns how many there are.

        Raises:
            ValueError: The kernel has no such instruction.
        """
        found = instructions_at(self._program, place)
        self._breakpoints.update(found)
        self._choose()
        return len(found)

    def clear(self) -> None:
        """No breakpoints any more, and no stops at findings."""
        self._breakpoints.clear()
        self._at_findings = False
        self._choose()

    def break_at_finding(self) -> None:
        """Stop after an instruction at which a check finds something or the kernel fails. Every instruction is executed
        alone from then on: thousands instead of millions a second. What the static checks know before the launch does
        not stop it."""
        self._at_findings = True
        self._choose()

    def _choose(self) -> None:
        if self._stepper is not None:
            self._stepper.choose(None if self._stepping or self._at_findings else self._breakpoints)

    # -- going on ----------------------------------------------------------------------------------------------------

    def run(self) -> Stop | None:
        """Start or go on, to the next stop; None at the launch's end.

        Raises:
            SimulationError, LaunchError: As `Simulator.launch`; the launch is over then.
        """
        return self._continue(stepping=False)

    def step(self) -> Stop | None:
        """Execute one instruction (the first time: go to the first). Otherwise as `run`."""
        return self._continue(stepping=True)

    def _continue(self, stepping: bool) -> Stop | None:
        if self._over:
            raise ValueError("the launch is over; make a new Debugger to run the kernel again")
        self._stepping = stepping
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="ckmlir debugger", daemon=True)
            self._thread.start()
        else:
            self._choose()
            self._go.put(True)
        news = self._news.get()
        if isinstance(news, Stop):
            return news
        self._end()
        if news is not None:
            raise news
        return None

    def close(self) -> None:
        """Give the launch up where it stands; memory keeps what was stored so far."""
        if self._thread is not None and not self._over:
            if self._stepper is not None:
                self._stepper.runner.interrupt()  # it may run, when an interrupt ended the waiting for it
            self._go.put(False)
        self._end()

    def _end(self) -> None:
        self._over, self._wave = True, None
        if self._thread is not None:
            self._thread.join()

    def __enter__(self) -> Debugger:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- looking -----------------------------------------------------------------------------------------------------

    @property
    def wave(self) -> Wave:
        """The wave that stands still. Raises ValueError when none does."""
        if self._wave is None:
            raise ValueError("no wave stands still: the launch has not stopped yet, or is over")
        return self._wave

    def register(self, name: str, dtype: npt.DTypeLike = np.uint32) -> npt.NDArray[Any]:
        """Registers of the wave: `Wave.register`."""
        return self.wave.register(name, dtype)

    def lds(self, dtype: npt.DTypeLike = np.uint8, offset: int = 0, count: int | None = None) -> npt.NDArray[Any]:
        """LDS of the workgroup: `Wave.lds`."""
        return self.wave.lds(dtype, offset, count)

    def memory(self, memory: DeviceMemory, dtype: npt.DTypeLike = np.uint8) -> npt.NDArray[Any]:
        """Device memory as it is now."""
        return memory.read(dtype)

    # -- in the launch's thread --------------------------------------------------------------------------------------

    def _work(self) -> None:
        try:
            self.statistics = self._launch()
            self._news.put(None)
        except _Closed:
            self._news.put(None)
        except BaseException as error:  # raised again where the user waits
            self._news.put(error)

    def watching(self, runner: Runner) -> AbstractContextManager[None]:
        """Part of `Observer`."""
        self._stepper = Stepper(runner, self)
        self._known = runner.finding_count
        self._choose()
        return self._stepper.watching()

    def before(self, wave: Wave) -> None:
        """Part of `Visitor`."""
        number = self._program.instruction_number(wave.record)
        if self._stepping or number in self._breakpoints:
            self._stand(wave, "breakpoint" if number in self._breakpoints else "step")

    def after(self, wave: Wave, status: int) -> None:
        """Part of `Visitor`."""
        if not self._at_findings or self._stepper is None:
            return
        runner = self._stepper.runner
        if status == Status.FAILED:
            error = runner.error_of(wave.number)
            self._stand(wave, "error", _message(error))
        elif runner.finding_count > self._known:
            self._known = runner.finding_count
            self._stand(wave, "finding", str(runner.findings()[-1]))

    def _stand(self, wave: Wave, reason: str, message: str = "") -> None:
        _, address, text, source = self._program.locate(wave.record)
        self._wave = wave
        self._news.put(Stop(reason, wave.workgroup, wave.number, address, text, source, message))
        if not self._go.get():
            raise _Closed
        self._wave = None


def _message(error: SimulationError) -> str:
    return str(error.findings[-1]) if isinstance(error, CheckFailure) else str(error)
