"""What a search asks about one schedule; each a function of what can be pickled, so that other processes can answer.

Three questions, each much dearer than the one before: is it legal (`Legality`, a millisecond), how long is its step
before LLVM (`look`, tens of milliseconds: passes and `step_model`), how long does it take compiled (`judge`, a second:
LLVM, the proof, a recording, the full model). `confirm` asks what has to hold before a schedule gets a name.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from functools import lru_cache
from typing import Any, NamedTuple

from msgspec import Struct

from ckmlir.compiled_kernel import CompiledKernel
from ckmlir.dialect.schedule import Schedule
from ckmlir.errors import CkmlirError
from ckmlir.ops import find_operator
from ckmlir.ops.comparison import Array
from ckmlir.ops.operator import Operator
from ckmlir.records import plain
from ckmlir.scheduling.moves import objection
from ckmlir.scheduling.problem import Problem
from ckmlir.scheduling.step_model import StepTime, Surroundings, step_time, surroundings
from ckmlir.scheduling.walks import walk
from ckmlir.scheduling.workbench import Workbench
from ckmlir.targets import Target, get_target


class Subject(NamedTuple):
    """Whose schedules: an operator by name, or itself, its keys, a chip by name."""

    operator: Any
    keys: tuple[tuple[str, Any], ...]
    target: str

    @property
    def parts(self) -> tuple[Operator[Any, Any], Any, Target]:
        """Operator, problem, chip. Raises RequestError."""
        operator = find_operator(self.operator) if isinstance(self.operator, str) else self.operator
        return operator, operator.problem(**dict(self.keys)), get_target(self.target)


class Looked(Struct, frozen=True):
    """A schedule before LLVM.

    Attributes:
        schedule: its text, every fragment by itself.
        cycles: of a step by the model.
        registers: of a lane that its values take at least.
    """

    schedule: str
    cycles: float
    registers: int


class Judged(Struct, frozen=True):
    """A schedule compiled, proved and modelled.

    Attributes:
        step: cycles of a step of the loop, as the full model has it.
        launch: cycles of the whole launch.
        vector_registers, spills: of the code object.
        around: what the model before LLVM is to assume of this kernel's schedules.
    """

    step: float
    launch: float
    vector_registers: int
    spills: int
    around: Surroundings

    def to_dict(self) -> dict[str, Any]:
        """In JSON's types."""
        return plain(self)

    @staticmethod
    def from_dict(values: Mapping[str, Any]) -> Judged:
        """The inverse."""
        return Judged(**{**values, "around": Surroundings(**values["around"])})


@lru_cache(maxsize=2)
def bench_of(subject: Subject) -> Workbench:
    """The subject's kernel before scheduling, kept for the next question. Raises as `Workbench.of`."""
    operator, problem, target = subject.parts
    return Workbench.of(operator, operator.spec(problem, target), target)


@lru_cache(maxsize=1)
def _inputs_of(subject: Subject) -> dict[str, Array]:
    """The subject's input arrays, which every judgement reads and none changes."""
    operator, problem, target = subject.parts
    return operator.inputs(problem, target)


@lru_cache(maxsize=64)
def _problem_under(subject: Subject, path: str, paths: tuple[tuple[str, str], ...], text: str) -> Problem:
    return bench_of(subject).problem_under(Schedule.parse(text))


def problem_under(subject: Subject, schedule: Schedule) -> Problem:
    """The problem of a schedule: one for all with the same paths of operands and the same pieces of arithmetic."""
    plain = Schedule("paths", path=schedule.path, paths=schedule.paths, elements=schedule.elements)
    return _problem_under(subject, schedule.path, schedule.paths, str(plain))


def listed(subject: Subject, text: str) -> Schedule:
    """A schedule with every fragment by itself.

    Raises:
        CkmlirError: a pass refuses it, the loop lacks what it names, or it is not legal.
    """
    try:
        schedule = bench_of(subject).listed(Schedule.parse(text))
        why = objection(problem_under(subject, schedule), schedule)
    except ValueError as error:
        raise CkmlirError(str(error)) from None
    if why:
        raise CkmlirError(why)
    return schedule


def look(subject: Subject, text: str, seed: int | None, around: Surroundings) -> Looked:
    """A schedule before LLVM: that of a text, or where a walk from it with a seed ends.

    Raises:
        CkmlirError: it is not legal, a pass refuses it, or its loop has branches.
    """
    from ckmlir.sim.timing.parameters import load

    schedule = listed(subject, text) if seed is None else Schedule.parse(text)
    if seed is not None:
        schedule = walk(problem_under(subject, schedule), schedule, seed)
    bench = bench_of(subject)
    fragments = len(problem_under(subject, schedule).fragments)
    with bench.scheduled(schedule) as module:
        found: StepTime = step_time(module, fragments, load(subject.target), around, groups=schedule.groups)
    return Looked(str(schedule), found.cycles, found.registers)


def judge(subject: Subject, text: str) -> Judged:
    """Compile a schedule, prove it, and model its launch.

    Raises:
        CkmlirError: it is refused or refuted, or the model has no answer; the text says which.
    """
    from ckmlir.runtime.timing import OperatorModel
    from ckmlir.sim.timing.parameters import load

    compiled = _proved(subject, text)
    operator, problem, target = subject.parts
    parameters = load(target.name)
    model = OperatorModel(
        operator, problem, target, parameters, mode="sampled", compiled=compiled, arrays=_inputs_of(subject)
    ).under(parameters)
    loop = model.grid.workgroup.steady
    if loop is None:
        raise CkmlirError(f"{operator.name}: the model sees no loop in this launch; expected a longer one")
    steps = _steps(subject, Schedule.parse(text), compiled)
    metadata = compiled.code_object.kernel(compiled.kernel_name).metadata
    return Judged(
        loop.cycles_per_iteration / steps, model.grid.cycles, metadata.vgpr_count,
        metadata.vgpr_spill_count + metadata.sgpr_spill_count, surroundings(model.timeline),
    )  # fmt: skip


def _proved(subject: Subject, text: str) -> CompiledKernel:
    """The kernel under a schedule. Raises CkmlirError where the checker refutes it."""
    made = bench_of(subject).compile(Schedule.parse(text))
    if made.findings:
        raise CkmlirError(f"refuted: {made.findings[0]}")
    assert made.compiled is not None
    return made.compiled


def _steps(subject: Subject, schedule: Schedule, compiled: CompiledKernel) -> float:
    """Steps of the problem that one turn of the machine code's loop is, by its matrix instructions."""
    from ckmlir.scheduling.machine_loop import steady_loop, steps_a_turn

    own = sum(node.unit == "matrix" for node in problem_under(subject, schedule).nodes)
    return steps_a_turn(own, steady_loop(compiled.code_object, compiled.kernel_name))


def confirm(subject: Subject, text: str) -> list[str]:
    """What speaks against giving a schedule a name. Nothing: it is proved, does not spill, the static checks of waits
    and wait states find nothing, and its numbers are right on the simulator under all checkers, for a request like the
    subject's whose sizes are as small as the same kernel takes.

    Raises:
        CkmlirError: it is refused or refuted.
    """
    from ckmlir.dispatch.examining import smaller
    from ckmlir.dispatch.identity import Kernel
    from ckmlir.runtime import check_outputs, run_operator
    from ckmlir.runtime.simulator_device import SimulatorDevice
    from ckmlir.sim.analysis import check_hazards, check_waits
    from ckmlir.sim.checks.finding import parse_checks

    compiled = _proved(subject, text)
    operator, problem, target = subject.parts
    metadata = compiled.code_object.kernel(compiled.kernel_name).metadata
    against = []
    if metadata.vgpr_spill_count or metadata.sgpr_spill_count:
        against.append(f"it spills {metadata.vgpr_spill_count} vector and {metadata.sgpr_spill_count} scalar registers")
    against += [str(one) for check in (check_waits, check_hazards) for one in check(compiled.code_object)]
    kernel = Kernel(operator, operator.spec(problem, target), target)
    small = operator.problem(**smaller(kernel, dict(subject.keys)))
    arrays = operator.inputs(small, target)
    with closing(SimulatorDevice(target, checks=parse_checks("all"))) as device:
        result = run_operator(operator, small, arrays, target, device, spec=kernel.spec, compiled=compiled)
    outputs = check_outputs(operator, small, arrays, result.outputs, target)
    return against + [f"wrong numbers: {one}" for one in outputs if not one.ok]
