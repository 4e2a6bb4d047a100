"""One request of a fuzz, and what comes of it: refused in words, too large to run, right, or a failure."""

from __future__ import annotations

import contextlib
import math
import shlex
import signal
import traceback
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import numpy as np

from ckmlir.ops import find_operator
from ckmlir.ops.operator import Operator, require_valid
from ckmlir.ops.plan import KernelStep, Plan, make_plan
from ckmlir.ops.request import RequestError
from ckmlir.ops.special_values import special_inputs
from ckmlir.runtime import run_operator
from ckmlir.runtime.executable import Executable
from ckmlir.runtime.run import check_outputs
from ckmlir.runtime.simulator_device import SimulatorDevice
from ckmlir.sim.checks import parse_checks
from ckmlir.targets import get_target

MOST_BYTES, MOST_WORK_ITEMS, MOST_FLOPS = 1 << 21, 1 << 20, 1 << 30
"""Of all arrays, of all launches, and of what an operator counts: larger requests are traced and not run."""
LONGEST = 90.0
"""Seconds that a run may take, reference included; what takes longer counts as too large."""
REFUSED, LARGE, RIGHT, FAILED = "refused", "large", "right", "failed"


@dataclass(frozen=True)
class Trial:
    """A request with all that decides what it does.

    Attributes:
        keys: texts, as the command line takes them.
        values: see `special_inputs`.
        guarded: arrays lie between guard bytes.
        checks: of the simulator, "" or "all".
    """

    operator: str
    keys: Mapping[str, str]
    arch: str
    seed: int = 0
    values: str = "ordinary"
    guarded: bool = False
    checks: str = ""

    def command(self) -> str:
        """The command that does the same."""
        words = ["ckmlir", "run", self.operator, *(f"{key}={text}" for key, text in self.keys.items())]
        words += ["--arch", self.arch, "--seed", str(self.seed)]
        words += ["--values", self.values] * (self.values != "ordinary") + ["--guard"] * self.guarded
        return shlex.join(words + ["--check", self.checks] * bool(self.checks))


@dataclass(frozen=True)
class Outcome:
    """What came of a trial: its kind, and the reason in words.

    Attributes:
        traceback: of an exception, "" where there was none.
    """

    kind: str
    reason: str = ""
    traceback: str = ""


class TakesTooLong(BaseException):
    """A run was given up. Not an Exception: whatever it interrupts must not take it for an error of its own."""


def attempt(trial: Trial) -> Outcome:
    """Run a trial. Whatever it raises but RequestError is a failure."""
    try:
        with np.errstate(all="ignore"), time_limit(LONGEST):
            return _attempt(trial)
    except RequestError as error:
        return Outcome(REFUSED, str(error))
    except (TakesTooLong, MemoryError) as error:
        return Outcome(LARGE, repr(error))
    except Exception as error:  # whatever it is, it is what the fuzz looks for
        return Outcome(FAILED, f"{type(error).__name__}: {error}", traceback.format_exc())


def _attempt(trial: Trial) -> Outcome:
    operator, target = find_operator(trial.operator), get_target(trial.arch)
    problem = operator.problem(**trial.keys)
    require_valid(operator, operator.spec(problem, target), target)
    plan = make_plan(operator, problem, target)
    launches = [step.launch for step in plan.steps if isinstance(step, KernelStep)]
    specs = {array.name: array for array in operator.arrays(problem)}
    if not any(array.nbytes for array in specs.values() if array.role == "out") and launches:
        return Outcome(FAILED, "no output has an element, and a kernel is launched")
    work_items = sum(math.prod((*launch.grid, *launch.block)) for launch in launches)
    too_large = sum(array.nbytes for array in specs.values()) > MOST_BYTES or work_items > MOST_WORK_ITEMS
    if too_large or (operator.flops(problem) or 0) > MOST_FLOPS:
        return _prepared(operator, problem, plan, trial)
    arrays = special_inputs(trial.values, operator, problem, target, trial.seed)
    device = SimulatorDevice(target, seed=trial.seed, checks=parse_checks(trial.checks) if trial.checks else ())
    result = run_operator(operator, problem, arrays, target, device, guarded=trial.guarded)
    return _compared(operator, problem, arrays, result.outputs, target)


def _prepared(operator: Operator[Any, Any], problem: Any, plan: Plan, trial: Trial) -> Outcome:
    """What is too large to be run is traced; where checkers would watch it, it is compiled, loaded and bound."""
    target = get_target(trial.arch)
    for step in plan.kernels:
        against = step.operator.mismatches(step.problem, step.spec, target)
        if against:
            return Outcome(FAILED, f"a kernel does not cover the problem that it was chosen for: {against[0]}")
        step.operator.build(step.spec, target)
    if trial.checks:
        with closing(Executable(SimulatorDevice(target), operator, problem)) as executable:
            executable.bind(problem)
    return Outcome(LARGE)


def _compared(operator: Operator[Any, Any], problem: Any, arrays: Any, outputs: Any, target: Any) -> Outcome:
    comparisons = check_outputs(operator, problem, arrays, outputs, target)
    missing = outputs.keys() - {one.name for one in comparisons}
    if missing:
        return Outcome(FAILED, f"output {min(missing)} has no reference")
    wrong = [str(one) for one in comparisons if not one.ok]
    return Outcome(FAILED, "; ".join(wrong)) if wrong else Outcome(RIGHT)


@contextlib.contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Give up what takes more of the processor, in the main thread: a busy machine makes no request a large one."""

    def stop(*_: object) -> None:
        raise TakesTooLong(f"more than {seconds:g} seconds")

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
