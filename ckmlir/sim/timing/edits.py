"""Changes to what the model is given: other numbers, or a program with something left out, changed or made ideal.

An edit of the trace changes time only: the waves do what they did in the recorded run. Where a real kernel with that
change would compute something else, or race, the edit says so (`remark`). Changes that keep the meaning, such as
another schedule, are made by compiling and recording again.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import Final, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
from msgspec import Struct
from msgspec.structs import replace

from ckmlir.errors import CkmlirError
from ckmlir.sim.debugging.places import Listed, numbers_at
from ckmlir.sim.decode.operands import WAIT_COUNTS
from ckmlir.sim.timing.access_patterns import set_lanes
from ckmlir.sim.timing.grid import Mode
from ckmlir.sim.timing.lds_banks import WIDTHS, phases_of
from ckmlir.sim.timing.parameters import Parameters, Value
from ckmlir.sim.timing.recording import NO_ADDRESS, AccessKind, Trace

TIMING_ONLY: Final = "timing only: such a kernel would not be correct"
IDEAL: Final = "timing only: no such machine"


class EditError(CkmlirError):
    """An edit is malformed, or there is nothing that it could change."""


class Case(NamedTuple):
    """What the model is given: as the arguments of `model_launch`."""

    trace: Trace
    parameters: Parameters
    mode: Mode | int = "analytic"
    shape: tuple[int, ...] | None = None


class Edit(Protocol):
    """A change, made to a copy. `str` says what it is, as it is written on the command line."""

    @property
    def remark(self) -> str:
        """What a reader of its result has to know; "" for nothing."""

    def apply(self, case: Case) -> Case:
        """The case with the change. Raises EditError or ParameterError."""


def apply_edits(case: Case, edits: Sequence[Edit]) -> Case:
    """One change after another."""
    for edit in edits:
        case = edit.apply(case)
    return case


class SetParameter(Struct, frozen=True):
    """Another value of a parameter."""

    name: str
    value: Value
    remark = ""

    def __str__(self) -> str:
        return f"{self.name}={self.value}"

    def apply(self, case: Case) -> Case:
        return case._replace(parameters=case.parameters.with_values({self.name: self.value}))


class ScaleParameter(Struct, frozen=True):
    """All numbers whose name matches, times a factor: "lds.latency", "memory.*latency"."""

    pattern: str
    factor: float
    remark = ""

    def __str__(self) -> str:
        return f"{self.pattern} × {self.factor:g}"

    def apply(self, case: Case) -> Case:
        parameters = case.parameters
        names = [name for name in parameters if fnmatchcase(name, self.pattern)] or [parameters.find(self.pattern).name]
        if texts := [name for name in names if isinstance(parameters[name].value, str)]:
            raise EditError(f"{texts[0]} cannot be scaled: it is a text, '{parameters[texts[0]].value}'")
        values: dict[str, Value] = {name: parameters.number(name) * self.factor for name in names}
        return case._replace(parameters=parameters.with_values(values))


class Remove(Struct, frozen=True):
    """Instructions that are not executed: barriers, waits, nops, or anything else that does not steer the waves."""

    place: str
    remark = TIMING_ONLY

    def __str__(self) -> str:
        return f"without {self.place}"

    def apply(self, case: Case) -> Case:
        trace = case.trace
        chosen = _numbers_at(trace, self.place)
        for number in chosen:
            one = trace.program[number].instruction
            if one.branch_target is not None or one.mnemonic.startswith(("s_endpgm", "s_setpc", "s_swappc")):
                raise EditError(
                    f"{one.text} at 0x{trace.program[number].address:x} cannot be left out: it steers waves"
                )
        kept = ~np.isin(trace.steps["instruction"], chosen)
        before = np.concatenate([[0], np.cumsum(kept)])
        return case._replace(
            trace=replace(trace, steps=trace.steps[kept], wave_first=before[trace.wave_first].astype(np.int64))
        )


class ChangeWait(Struct, frozen=True):
    """What s_waitcnt instructions allow to be on its way: (counter, number), … in place of what they say of these."""

    place: str
    counts: tuple[tuple[str, int], ...]
    remark = TIMING_ONLY

    def __str__(self) -> str:
        return f"{self.place}: " + " ".join(f"{counter}({number})" for counter, number in self.counts)

    def apply(self, case: Case) -> Case:
        program = list(case.trace.program)
        chosen = [n for n in _numbers_at(case.trace, self.place) if program[n].mnemonic == "s_waitcnt"]
        if not chosen:
            raise EditError(f"there is no s_waitcnt at {self.place}")
        for number in chosen:
            one = program[number].instruction
            changed = one._replace(modifiers={**one.modifiers, **dict(self.counts)})
            program[number] = program[number]._replace(instruction=changed)
        return case._replace(trace=replace(case.trace, program=tuple(program)))


class NoBankConflicts(Struct, frozen=True):
    """Every LDS access has its lanes side by side where LDS serves them together, so that none meet in a bank."""

    remark = IDEAL

    def __str__(self) -> str:
        return "no bank conflicts"

    def apply(self, case: Case) -> Case:
        trace, accesses, addresses = case.trace, case.trace.accesses.copy(), case.trace.addresses
        widths = np.clip((accesses["bytes"].astype(np.int64) + 3) // 4 * 4, min(WIDTHS), max(WIDTHS))
        for store, kind in enumerate(("read", "write")):
            for width in WIDTHS:
                same = (accesses["kind"] == AccessKind.LDS) & (accesses["store"] == store) & (widths == width)
                rows = np.flatnonzero(same)
                rank = _rank_in_phase(phases_of(case.parameters, kind, width)[1])
                ideal = accesses["bytes"][rows, None].astype(np.uint64) * rank
                addresses[rows] = np.where(addresses[rows] == NO_ADDRESS, np.uint64(NO_ADDRESS), ideal)
        return case._replace(trace=replace(trace, accesses=accesses, patterns=set_lanes(accesses, addresses)))


def _rank_in_phase(phase: npt.NDArray[np.int64]) -> npt.NDArray[np.uint64]:
    """For each lane how many lanes of the same phase come before it."""
    before: npt.NDArray[np.uint64] = np.tril(phase[:, None] == phase[None, :], -1).sum(axis=1, dtype=np.uint64)
    return before


def _numbers_at(trace: Trace, place: str) -> list[int]:
    """The instructions of a trace that a place names: "0x40", "file.py:12", "s_barrier", "s_waitcnt vmcnt(0)*"."""
    listing = [Listed(one.address, one.instruction, one.source) for one in trace.program]
    try:
        return numbers_at(trace.kernel, listing, int(place, 16) if re.fullmatch(r"0x[0-9a-fA-F]+", place) else place)
    except ValueError as error:
        raise EditError(str(error)) from None


def parse_scale(text: str) -> ScaleParameter:
    """ "lds.latency=2". Raises EditError."""
    name, _, factor = text.rpartition("=")
    try:
        number = float(factor)
    except ValueError:
        number = -1
    if not name or not 0 <= number < 1e6:
        raise EditError(f"'{text}' scales nothing; write NAME=FACTOR, such as lds.latency=2 or memory.*latency=0.5")
    return ScaleParameter(name.strip(), number)


def parse_set(text: str) -> SetParameter:
    """ "lds.latency=80". Raises EditError."""
    name, equals, value = text.partition("=")
    if not equals or not name.strip() or not value.strip():
        raise EditError(f"'{text}' sets nothing; write NAME=VALUE, such as lds.latency=80")
    return SetParameter(name.strip(), value.strip())


def parse_wait(text: str) -> ChangeWait:
    """ "PLACE:vmcnt=3,lgkmcnt=0", a count "none" for no wait. Raises EditError."""
    place, _, counts = text.rpartition(":")
    found = []
    for item in counts.split(","):
        counter, _, number = (part.strip() for part in item.partition("="))
        most = WAIT_COUNTS.get(counter)
        value = most if number == "none" else int(number) if number.isascii() and number.isdigit() else None
        if most is None or value is None or value > most or not place:
            limits = ", ".join(f"{name} 0 to {limit}" for name, limit in WAIT_COUNTS.items())
            raise EditError(f"'{text}' changes no wait; write PLACE:vmcnt=3, or =none for no wait; there are {limits}")
        found.append((counter, value))
    return ChangeWait(place, tuple(found))
