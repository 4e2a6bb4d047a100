"""One kernel under many schedules: traced once, its loop's problem, and code for any schedule of it.

bench = Workbench.of(operator, spec, target)
bench.problem                       # of its loop
bench.solve("modulo")               # a schedule that a scheduler finds
bench.listed(Schedule.parse(text))  # the same schedule with every fragment by itself
bench.compile(schedule)             # scheduled IR, findings of the checker, code object
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from msgspec import Struct, structs

from ckmlir.compiled_kernel import CompiledKernel
from ckmlir.compiler import finish
from ckmlir.dialect.build import string
from ckmlir.dialect.loop import SCHEDULE, schedule_of
from ckmlir.dialect.schedule import Schedule
from ckmlir.dialect.schedule_items import Fragments
from ckmlir.dialect.schedule_problems import LEAD
from ckmlir.mlir import ir
from ckmlir.ops.operator import Operator, require_valid
from ckmlir.passes.check_schedule import check_module
from ckmlir.passes.loop_body import Group, Marker, by_stage, fragments_of
from ckmlir.passes.pipeline import FRAGMENTING, LOWERING, SCHEDULING, run_pipeline
from ckmlir.passes.step_order import order_step
from ckmlir.passes.walk import loops_of
from ckmlir.scheduling.loops import problem_of
from ckmlir.scheduling.problem import Problem, ProblemError
from ckmlir.scheduling.scheduler import Solution
from ckmlir.scheduling.schedulers import find_scheduler
from ckmlir.scheduling.steps import WHOLE, Entry, Place, step_of
from ckmlir.targets import Target


class Scheduled(Struct, frozen=True):
    """A kernel under a schedule.

    Attributes:
        fragments: the scheduled IR, as text with locations.
        findings: what the checker says; none: proved.
        compiled: the code object; None where only the schedule was to be checked.
    """

    schedule: Schedule
    fragments: str
    findings: tuple[str, ...]
    compiled: CompiledKernel | None


@dataclass(frozen=True)
class Workbench:
    """A kernel before scheduling.

    Attributes:
        name: of the kernel.
        tiles: its tile IR as text, with locations.
        schedule: the schedule that the operator gives its loop.
        problem: of that loop under that schedule's paths and buffers.
        loop: which one of several that is, as an index of their list.
        arguments: names of the kernel's arguments.
    """

    name: str
    target: Target
    tiles: str
    schedule: Schedule
    problem: Problem
    context: ir.Context
    loop: int = -1
    arguments: tuple[str, ...] = ()
    _made: dict[tuple[object, ...], ir.Module] = field(default_factory=dict, compare=False, repr=False)

    @staticmethod
    def of(operator: Operator[Any, Any], spec: Any, target: Target) -> "Workbench":
        """The kernel of a specification.

        Raises:
            RequestError: the chip cannot run it.
            PipelineFailure: a pass refuses it.
            ProblemError: it has no loop, or none that is a problem.
        """
        require_valid(operator, spec, target)
        kernel = operator.build(spec, target)
        with kernel.module.context:
            loops = loops_of(kernel.module)
            if not loops:
                raise ProblemError(f"{kernel.name} has no loop to schedule")
            tiles = kernel.module.operation.get_asm(enable_debug_info=True)
            schedule = schedule_of(loops[spec.main_loop])
            run_pipeline(kernel.module, FRAGMENTING, dump_on_failure=False)
            problem = problem_of(loops_of(kernel.module)[spec.main_loop])
        return Workbench(kernel.name, target, tiles, schedule, problem, kernel.module.context, spec.main_loop,
                         tuple(kernel.arguments))  # fmt: skip

    def problem_under(self, schedule: Schedule) -> Problem:
        """The problem that a schedule's paths and buffers make of the loop."""
        with self.context:
            module = self._fragments(schedule)  # its operations live as long as it does
            return problem_of(loops_of(module)[self.loop])

    def solve(
        self, scheduler: str, *, buffers: int | None = None, groups: int | None = None, seed: int = 0
    ) -> Solution:
        """A schedule that a scheduler finds for this loop, with its paths of operands, so many LDS buffers and groups
        of waves out of phase (None: those of its own schedule).

        Raises:
            SchedulingError: there is no such scheduler, or it finds none.
            ProblemError: the waves do not form such groups, or a fragment is in no stage.
        """
        self._require_stages()
        problem = self.problem if buffers is None else self.problem.with_buffers(buffers)
        if groups is not None:
            problem = structs.replace(problem, groups=groups)
        solution = find_scheduler(scheduler).solve(problem, seed)
        own = self.schedule
        return structs.replace(
            solution,
            schedule=replace(
                solution.schedule, path=own.path, paths=own.paths, elements=own.elements, waits=own.waits,
                occupancy=own.occupancy,
            ),
        )

    def listed(self, schedule: Schedule) -> Schedule:
        """The same schedule with every fragment listed by itself, ready for moves; mixes are left out.

        Stages that have no fragments stay listed as a whole where the step names them.

        Raises:
            PipelineFailure, ValueError: the loop has no such stages or fragments, or a fragment is in no stage.
        """
        self._require_stages()
        with self.context, ir.Location.unknown(self.context):
            module = self._fragments(schedule)
            block = loops_of(module)[self.loop].regions[0].blocks[0]
            body = [op.operation for op in block.operations][:-1]
            kept = "products" if schedule.fences == "products" else "none"  # those stand in the step
            plain = replace(schedule, priority=(), mix=(), fences=kept)
            step = order_step(body, plain, self.target)
            names = _names(body, schedule)
            entries: list[Entry] = []
            for one in step.placed:
                entries += _entries(one.before)
                if one.op in names:
                    entries.append(Place(*names[one.op], one.ahead))
            entries += _entries(step.after)
        fences = "none" if schedule.fences in ("none", "products") else "memory"
        listed = replace(schedule, step=step_of(entries), ahead=(), order="source", reads=1, lead=LEAD, spacing=0)
        return replace(listed, fences=fences, mix=())

    def compile(self, schedule: Schedule, *, code: bool = True) -> Scheduled:
        """Apply a schedule, check the result, and (`code`) compile it.

        Raises:
            PipelineFailure: a pass refuses the schedule.
            CodeGenerationError, LinkerNotFound, LinkError: from the backend and the linker.
        """
        with self.context:
            module = self._fragments(schedule)
            reference = ir.Module.parse(module.operation.get_asm(enable_debug_info=True))
            run_pipeline(module, SCHEDULING, dump_on_failure=False)
            fragments = module.operation.get_asm(enable_debug_info=True)
            findings = tuple(map(str, check_module(module, reference)))
            compiled = None
            if code:
                run = run_pipeline(module, LOWERING, dump_on_failure=False)
                compiled = finish(module, self.target.name, {self.name: self.arguments}, (run,))
        return Scheduled(schedule, fragments, findings, compiled)

    @contextmanager
    def scheduled(self, schedule: Schedule) -> Iterator[ir.Module]:
        """The kernel's fragments under a schedule, neither proved nor compiled, with its context entered.

        Fragments depend on a schedule's paths and pieces of arithmetic alone; they are made once for each and copied.

        Raises:
            PipelineFailure: a pass refuses the schedule.
        """
        with self.context:
            alike = schedule.path, schedule.paths, schedule.elements
            if alike not in self._made:
                self._made.clear()  # a search stays with what it has
                self._made[alike] = self._fragments(schedule)
            module = self._made[alike].operation.clone()
            loops_of(module)[self.loop].attributes[SCHEDULE] = string(str(schedule))
            run_pipeline(module, SCHEDULING, dump_on_failure=False)
            yield module

    def _require_stages(self) -> None:
        """A step lists fragments by stage and number: refuse a loop with fragments that have no such name."""
        if nameless := [node for node in self.problem.fragments if not node.stage]:
            raise ProblemError(
                f"{self.name}: no schedule can list {nameless[0].op} ({nameless[0].line}), which is in no stage"
            )

    def _fragments(self, schedule: Schedule) -> ir.Module:
        """The kernel in fragments, its loop under a schedule."""
        module = ir.Module.parse(self.tiles)
        loops_of(module)[self.loop].attributes[SCHEDULE] = string(str(schedule))
        run_pipeline(module, FRAGMENTING, dump_on_failure=False)
        return module


def _names(body: list[ir.Operation], schedule: Schedule) -> dict[ir.Operation, tuple[str, int]]:
    """The stage and number of every fragment of a loop's body; of stages that the schedule lists and that have no
    fragments their first operation stands for all.
    """
    listed = {item.stage for item in schedule.step if isinstance(item, Fragments)}
    found: dict[ir.Operation, tuple[str, int]] = {}
    stages = by_stage(body)
    for stage, staged in stages.items():
        fragments = fragments_of(stages, stage, arithmetic=schedule.elements > 0)
        found.update({op: (stage or "", number) for number, op in enumerate(fragments)})
        if not fragments and stage in listed:
            found[staged[0]] = stage, WHOLE
    return found


def _entries(markers: tuple[Marker, ...]) -> list[Entry]:
    return [one for one in markers if not isinstance(one, Group)]
