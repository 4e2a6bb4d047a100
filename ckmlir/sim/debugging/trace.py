"""A trace: every execution of chosen instructions, with the values it read and wrote."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection
from contextlib import AbstractContextManager
from typing import Any, TextIO

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from ckmlir.sim.debugging.places import Place, instructions_at
from ckmlir.sim.debugging.stepper import Stepper
from ckmlir.sim.debugging.wave import Wave
from ckmlir.sim.decode.instruction import Operand
from ckmlir.sim.runner import Runner

Values = tuple[tuple[str, npt.NDArray[Any]], ...]


class TraceEvent(Struct, frozen=True):
    """One execution of an instruction.

    Attributes:
        workgroup, wave: Who executed it.
        address: Byte offset from the kernel's start.
        instruction: Its text.
        source: File and line, where the code object has a line table.
        exec: Lane mask before the instruction.
        sources: Text and value of each operand read, before the instruction (constants as bit patterns).
        results: Text and value of each register written, after it. Both as `Wave.register` gives them; what the text
            does not name (such as scc) is not in them.
    """

    workgroup: tuple[int, int, int]
    wave: int
    address: int
    instruction: str
    source: tuple[str, int] | None
    exec: int
    sources: Values
    results: Values

    def __str__(self) -> str:
        at = f" {self.source[0]}:{self.source[1]}" if self.source else ""
        head = f"{self.workgroup} wave {self.wave} 0x{self.address:x}{at}: {self.instruction} exec=0x{self.exec:x}"
        lines = [f"  {sign} {name}: {_short(value)}" for sign, name, value in self._values()]
        return "\n".join([head, *lines])

    def _values(self) -> list[tuple[str, str, npt.NDArray[Any]]]:
        return [("read", *one) for one in self.sources] + [("wrote", *one) for one in self.results]


def _short(value: npt.NDArray[Any]) -> str:
    return np.array2string(value, threshold=16, edgeitems=4, max_line_width=10**6, separator=" ").replace("\n", "")


class Tracer:
    """Traces the launches of a simulator: `simulator.observer = Tracer("v_mfma*", np.float16)`.

    Attributes:
        seen: Executions reported so far, in all launches.
        matched: Instructions chosen, summed over launches.
        dropped: Executions not reported because there were `limit` before them.
    """

    def __init__(
        self,
        place: Place,
        dtype: npt.DTypeLike = np.uint32,
        output: Callable[[TraceEvent], None] | TextIO | None = None,
        waves: Collection[int] | None = None,
        limit: int | None = 1000,
        required: bool = True,
        result_dtype: npt.DTypeLike | None = None,
    ) -> None:
        """
        Args:
            place: Which instructions, as for `instructions_at`.
            dtype: Of the values; operands that it does not divide are given as u32.
            result_dtype: Of the registers written, read ones among them (accumulators); None is `dtype`.
            output: Called with each event, or a file that gets its text; None is standard error.
            waves: Only waves with these numbers in their workgroup; None is all.
            limit: Events after which the rest is only counted; None for no limit.
            required: Whether a kernel without such an instruction is an error (ValueError at the launch).
        """
        self.place, self.dtype, self.waves, self.limit = place, np.dtype(dtype), waves, limit
        self.result_dtype = self.dtype if result_dtype is None else np.dtype(result_dtype)
        self.required = required
        self._output = output if output is not None else sys.stderr
        self._before: tuple[int, Values] | None = None
        self._runner: Runner
        self.seen = self.dropped = self.matched = 0

    def watching(self, runner: Runner) -> AbstractContextManager[None]:
        """Trace what a runner runs. Raises ValueError when the kernel has no such instruction and needs one."""
        stepper = Stepper(runner, self)
        try:
            chosen = instructions_at(runner.program, self.place)
        except ValueError:
            if self.required:
                raise
            chosen = []
        self._runner = runner
        self.matched += len(chosen)
        stepper.choose(chosen)
        return stepper.watching()

    def before(self, wave: Wave) -> None:
        """Part of `Visitor`: take the sources, which the instruction may overwrite."""
        self._before = None
        if self.waves is not None and wave.number not in self.waves:
            return
        if self.limit is not None and self.seen >= self.limit:
            self.dropped += 1
            return
        self._before = int(wave.register("exec", np.uint64)[0]), self._values(wave, wave.instruction.sources)

    def after(self, wave: Wave, status: int) -> None:
        """Part of `Visitor`: report the execution with its results."""
        if self._before is None:
            return
        exec, sources = self._before
        _, address, text, source = self._runner.program.locate(wave.record)
        results = self._values(wave, wave.instruction.destinations)
        event = TraceEvent(wave.workgroup, wave.number, address, text, source, exec, sources, results)
        self.seen += 1
        if callable(self._output):
            self._output(event)
        else:
            print(event, file=self._output)

    def _values(self, wave: Wave, operands: tuple[Operand, ...]) -> Values:
        return tuple((one.text, self._value(wave, one)) for one in operands if one.kind != "off")

    def _value(self, wave: Wave, operand: Operand) -> npt.NDArray[Any]:
        place = operand.kind, operand.index, operand.count
        written = any(place == (one.kind, one.index, one.count) for one in wave.instruction.destinations)
        try:
            return wave.operand(operand, self.result_dtype if written else self.dtype)
        except ValueError:
            return wave.operand(operand, np.uint32)
