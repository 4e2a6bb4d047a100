"""Looking for the fastest kernel of a request.

Kernels of a space are compiled, looked at and modelled by several processes, the likely ones first; on a GPU the best
by the model are then checked and timed against each other. What is found out is appended to a file at once, refusals
too, and what the file knows is not done again: a tuning that was ended, however, goes on where it was.

Which kernel is likely: first what the operator considers, then, again and again, those that differ the least from the
fastest so far: in one field, and there by a little. A space of GEMM has some ten thousand kernels; of them a few
hundred are looked at.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from ckmlir.dispatch.examining import Examined, Wanted, examine
from ckmlir.dispatch.identity import Kernel
from ckmlir.dispatch.json_lines import check_appendable
from ckmlir.dispatch.misses import Asked
from ckmlir.dispatch.records import DEVICE, MODEL, Record, append_records, ranked, read_records
from ckmlir.errors import CkmlirError
from ckmlir.ops.comparison import compare
from ckmlir.ops.operator import require_valid
from ckmlir.ops.request import RequestError
from ckmlir.ops.spec import Spec
from ckmlir.runtime.bench import upload
from ckmlir.runtime.compile_many import named
from ckmlir.runtime.device import Device, KernelFault
from ckmlir.runtime.executable import Executable
from ckmlir.runtime.interleaved import Candidate, Timing, time_interleaved
from ckmlir.runtime.run import run_operator
from ckmlir.runtime.workers import Task, WorkerError, Workers

FINALISTS = 12
"""Kernels that are timed against each other on a GPU."""
BATCH = 2
"""Kernels for each worker before it is decided anew which ones are likely."""

Told = Callable[[Record], None]


class Tuned(Struct):
    """What came of tuning a request.

    Attributes:
        own: what the operator chooses.
        records: all that are known of the request, of this and of earlier starts.
        resumed: how many of them were there before.
        left: kernels of the space that were not looked at.
        unknown: kernels of which nothing was found out, and why; a next start tries them again.
    """

    asked: Asked
    own: Kernel
    records: list[Record] = field(default_factory=list)
    resumed: int = 0
    left: int = 0
    unknown: dict[str, str] = field(default_factory=dict)

    def best(self, by: str | None = None) -> list[Record]:
        """The kernels that may be used, the fastest first: a device's times if there are any."""
        return list(ranked(self.records, by).get(self.asked.request, ()))

    @property
    def refused(self) -> list[Record]:
        """Kernels that must not be used."""
        return [one for one in self.records if one.refused is not None]


def tunable(asked: Asked) -> tuple[Any, Spec]:
    """The problem of a request, and what the operator would choose. Raises RequestError for a request that means
    nothing, that the chip cannot run, or that launches nothing.
    """
    operator, keys, target = asked
    problem = operator.problem(**keys)
    if operator.writes_nothing(problem):
        raise RequestError(f"{operator.name}: nothing is launched; expected outputs with elements")
    spec: Spec = operator.spec(problem, target)
    require_valid(operator, spec, target)
    return problem, spec


class Tuning:
    """The tuning of a request, kept in a file.

    Attributes:
        found: see `Tuned`.
    """

    def __init__(
        self,
        asked: Asked,
        kernels: Iterable[Kernel],
        path: Path,
        workers: Workers,
        *,
        budget: float = math.inf,
        report: Told | None = None,
    ) -> None:
        """Args:
            kernels: to choose from, beside those that the operator considers; those that do not compute the request
                are left out.
            path: the file of records, new or old.
            budget: seconds, after which nothing more is begun.
            report: told every new record.

        Raises:
            RequestError: as `tunable`; a file that is none of records.
        """
        operator, _, target = asked
        self.asked, self.path, self.workers, self._report = asked, path, workers, report
        self.problem, spec = tunable(asked)
        own = Kernel(operator, spec, target)
        others = [Kernel(operator, one, target) for one in operator.candidates(self.problem, target)]
        self._likely = list(dict.fromkeys((own, *others)))
        fitting = (one for one in kernels if one.operator is operator and one.target == target)
        found = (one for one in fitting if not one.against(self.problem))
        self.kernels = list(dict.fromkeys((*self._likely, *found)))
        self._start, self._budget = time.monotonic(), budget
        self.deadline = self._start + budget
        check_appendable(path)
        known = read_records(path) if path.exists() else []
        self.found = Tuned(asked, own, [one for one in known if one.asked.request == asked.request])
        self.found.resumed = len(self.found.records)

    # -- by the model --------------------------------------------------------------------------------------------------

    def rank(self, *, check: bool = True, share: float = 1.0) -> None:
        """Compile kernels, look at them and model them, the likely ones first, until all are done or time is up.

        Args:
            check: compare numbers on the simulator.
            share: of the time that there is.
        """
        deadline = self._start + share * self._budget
        by = self.asked.target.name
        known = self._known(MODEL, by)
        times = {one.kernel: one.median_us for one in known if one.median_us is not None}
        done = {one.kernel for one in known}
        batch = [one for one in self._likely if one not in done]
        left = [one for one in self.kernels if one not in done and one not in batch]

        def likely() -> list[Kernel]:
            """What to look at next; nothing where time is up."""
            fastest = min(times, key=lambda one: times[one], default=self.found.own)
            return nearest(fastest, left, BATCH * self.workers.size) if time.monotonic() < deadline else []

        batch = batch or likely()
        while batch:
            for kernel, answer in self._examined(batch, Wanted(model=True, check=check, spills=False)):
                if isinstance(answer, Examined) and answer.microseconds is not None:
                    times[kernel] = answer.microseconds
            taken = set(batch)
            left = [one for one in left if one not in taken]
            batch = likely()
        self.found.left = len(left)

    def _examined(self, kernels: Sequence[Kernel], wanted: Wanted) -> list[tuple[Kernel, Examined | CkmlirError]]:
        """What is found of kernels; what the operator chooses may spill. Noted as it comes."""
        operator, keys, target = self.asked
        tasks = []
        for one in kernels:
            looked = wanted._replace(spills=one == self.found.own)
            tasks.append(Task(examine, (named(operator), one.spec, target.name, dict(keys), looked), str(one)))

        def note(place: int, answer: Examined | CkmlirError) -> None:
            record = Record(self.asked, kernels[place], MODEL, target.name)
            if isinstance(answer, WorkerError) or (isinstance(answer, Examined) and answer.without_model is not None):
                why = str(answer) if isinstance(answer, WorkerError) else answer.without_model
                self.found.unknown[kernels[place].identifier] = str(why)
            elif isinstance(answer, CkmlirError):
                self._add(replace(record, refused=str(answer)))
            elif answer.microseconds is not None:
                us = answer.microseconds
                self._add(replace(
                    record, median_us=us, low_us=us, high_us=us, spread_us=0.0, samples=0, clock_mhz=answer.clock_mhz,
                    checked=answer.checked,
                ))  # fmt: skip

        return list(zip(kernels, self.workers.call(tasks, note), strict=True))

    # -- on a device ---------------------------------------------------------------------------------------------------

    def race(self, device: Device, *, modelled: bool = True, most: int = FINALISTS) -> None:
        """Check and time kernels against each other on a GPU: the best by the model, and what the operator chooses.

        Args:
            modelled: whether `rank` was asked; else the likely kernels are taken in their order.
            most: how many.

        Raises:
            KernelFault: a kernel faulted, after which a GPU may not be used by this process; that is noted, so that
                the next start does without it.
        """
        by = device.properties.name
        known = {one.kernel for one in self._known(DEVICE, by)}
        refused = {one.kernel for one in self.found.refused}
        if modelled:
            order = [one.kernel for one in sorted(self._known(MODEL), key=lambda one: one.median_us or 0.0)]
        else:
            order = nearest(self.found.own, self.kernels, 2 * most)
        finalists = [one for one in dict.fromkeys((self.found.own, *order)) if one not in refused][:most]
        if not modelled:
            answers = self._examined(finalists, Wanted(model=False, check=False, spills=False))
            finalists = [kernel for kernel, answer in answers if isinstance(answer, Examined)]
        runners = [one for one in finalists if one not in known]
        if runners:
            self._race(device, [one for one in runners if self._is_right(device, one)])

    def _is_right(self, device: Device, kernel: Kernel) -> bool:
        """Whether a kernel's numbers are right on the device; noted where they are not."""
        operator, _, target = self.asked
        arrays, reference, tolerances = self._expected()
        try:
            outputs = run_operator(operator, self.problem, arrays, target, device, spec=kernel.spec).outputs
        except KernelFault as fault:
            self._add(Record(self.asked, kernel, DEVICE, device.properties.name, refused=f"it faults: {fault}"))
            raise
        for name, wanted in reference.items():
            one = compare(name, outputs[name], wanted, tolerances[name])
            if not one.ok:
                why = f"wrong numbers: {one}"
                self._add(Record(self.asked, kernel, DEVICE, device.properties.name, refused=why))
                return False
        return True

    def _expected(self) -> tuple[Any, Any, Any]:
        """Inputs, what is right for them, and how far results may be from it; made once."""
        if not hasattr(self, "_made"):
            operator, _, target = self.asked
            arrays = operator.inputs(self.problem, target)
            reference = operator.expected(self.problem, arrays, target)
            self._made = arrays, reference, operator.tolerances(self.problem, arrays, reference, target)
        return self._made

    def _race(self, device: Device, runners: Sequence[Kernel]) -> None:
        if not runners:
            return
        operator, _, target = self.asked
        clock = device.properties.clock_megahertz or None
        checked = str(self.asked)

        def note(place: int, timing: Timing) -> None:
            times = timing.times
            median, low, high, spread = (1e6 * one for one in (times.median, timing.low, timing.high, times.spread))
            record = Record(
                self.asked, runners[place], DEVICE, device.properties.name, median, low, high, spread,
                len(times.seconds), clock, checked,
            )  # fmt: skip
            self._add(record)

        with ExitStack() as cleanup:
            candidates = []
            memories: Any = None
            for kernel in runners:
                executable = Executable(device, operator, self.problem, target=target, spec=kernel.spec)
                cleanup.callback(executable.close)
                memories = memories or upload(executable, operator, target, self._expected()[0], device, cleanup)
                candidates.append(_launcher(executable, memories))
            time_interleaved(candidates, device, deadline=self.deadline, report=note)

    # -- records -------------------------------------------------------------------------------------------------------

    def _known(self, source: str, by: str | None = None) -> list[Record]:
        return [one for one in self.found.records if one.source == source and by in (None, one.by)]

    def _add(self, record: Record) -> None:
        append_records(self.path, [record])
        self.found.records.append(record)
        if self._report is not None:
            self._report(record)


def _launcher(executable: Executable, memories: Any) -> Candidate:
    return lambda stream: executable.launch(memories, stream)


def nearest(kernel: Kernel, others: Sequence[Kernel], most: int) -> list[Kernel]:
    """The kernels that differ the least from one, in the order of how little."""
    roles = kernel.spec.roles()
    fields = [name for name, role in roles.items() if role is None]
    own = [getattr(kernel.spec, name) for name in fields]

    def distance(other: Kernel) -> float:
        return sum(_apart(value, getattr(other.spec, name, None)) for name, value in zip(fields, own, strict=True))

    return sorted(others, key=distance)[:most]


def _apart(value: object, other: object) -> float:
    """How far values of a field lie apart: numbers by factors of two, and at least one where they differ."""
    if value == other:
        return 0.0
    if isinstance(value, tuple) and isinstance(other, tuple) and len(value) == len(other):
        numbers = [(a, b) for a, b in zip(value, other, strict=True) if isinstance(a, int) and isinstance(b, int)]
        if len(numbers) == len(value) and all(a > 0 and b > 0 for a, b in numbers):
            return max(1.0, sum(abs(math.log2(a / b)) for a, b in numbers))
    return 1.0
