"""What a schedule is worth, as far as can be told without running it."""

from math import prod
from typing import Any

from msgspec import Struct

from ckmlir.compiled_kernel import CompiledKernel
from ckmlir.dialect.schedule import Schedule
from ckmlir.lowering.occupancy import kernel_occupancy
from ckmlir.mlir import ir
from ckmlir.ops.operator import Operator
from ckmlir.records import plain
from ckmlir.scheduling.bounds import lower_bounds
from ckmlir.scheduling.fidelity import Fidelity, fidelity
from ckmlir.scheduling.machine_loop import steady_loop, steps_a_turn
from ckmlir.scheduling.workbench import Workbench


class ModelTime(Struct, frozen=True):
    """A launch by the model of time, which was not compared with hardware.

    Attributes:
        launch: cycles of the whole launch.
        step: cycles of a step of the loop, with as many workgroups on a compute unit as the launch puts there; None
            without a loop.
        by_residency: the same with one workgroup there, with two, … and with as many as fit, of each of them.
    """

    launch: float
    step: float | None
    by_residency: tuple[float, ...]


class Evaluation(Struct, frozen=True):
    """A kernel under a schedule, from its code object.

    Attributes:
        schedule: its text.
        findings: of the checker; none: proved.
        vector_registers, accumulation_registers, scalar_registers, spills, lds_bytes: of the code object.
        waves_per_simd: that fit at a time.
        loop: instructions of the steady loop by category; `drains` are its waits for all memory accesses.
        matrix_share: of the steady loop's issue slots that matrix instructions take.
        interval_bound: cycles that no step can be shorter than.
        fidelity: what the backend kept of the order asked for.
        time: of a launch, where one was asked for and there is something to launch.
    """

    schedule: str
    findings: tuple[str, ...]
    vector_registers: int
    accumulation_registers: int
    scalar_registers: int
    spills: int
    lds_bytes: int
    waves_per_simd: float
    loop: dict[str, int]
    drains: int
    matrix_share: float
    interval_bound: int
    fidelity: Fidelity
    time: ModelTime | None = None

    def to_dict(self) -> dict[str, Any]:
        """Everything in JSON's types."""
        return plain(self)


def evaluate(bench: Workbench, schedule: Schedule, request: tuple[Operator[Any, Any], Any] | None = None) -> Evaluation:
    """Apply, check and compile a schedule, and read off the code object what it led to. The same every time.

    Args:
        request: the operator and its problem, whose launch is modelled.

    Raises:
        PipelineFailure: a pass refuses the schedule.
        CodeGenerationError, LinkerNotFound, LinkError: from the backend and the linker.
        RecordingError, ImportError: from the model of time.
    """
    made = bench.compile(schedule)
    assert made.compiled is not None
    code_object = made.compiled.code_object
    metadata = code_object.kernel(bench.name).metadata
    loop = steady_loop(code_object, bench.name)
    with bench.context:
        kept = fidelity(ir.Module.parse(made.fragments), code_object, bench.name)
    return Evaluation(
        schedule=str(schedule),
        findings=made.findings,
        vector_registers=metadata.vgpr_count,
        accumulation_registers=metadata.agpr_count,
        scalar_registers=metadata.sgpr_count,
        spills=metadata.vgpr_spill_count + metadata.sgpr_spill_count,
        lds_bytes=metadata.group_segment_size,
        waves_per_simd=kernel_occupancy(code_object, bench.name).waves_per_simd,
        loop=loop.mix,
        drains=loop.drains,
        matrix_share=loop.matrix_share,
        interval_bound=lower_bounds(bench.problem.with_buffers(schedule.buffers)).interval,
        fidelity=kept,
        time=None if request is None else _model_time(bench, schedule, *request, made.compiled),
    )


def _model_time(
    bench: Workbench, schedule: Schedule, operator: Operator[Any, Any], problem: Any, compiled: CompiledKernel
) -> ModelTime | None:
    from ckmlir.runtime.timing import OperatorModel
    from ckmlir.sim.timing.grid import Mode
    from ckmlir.sim.timing.occupancy import kernel_occupancy as occupancy_of
    from ckmlir.sim.timing.parameters import load

    launch = operator.launch(problem, operator.spec(problem, bench.target), bench.target)
    if launch.is_empty:
        return None
    parameters = load(bench.target.name)
    matrix = sum(node.unit == "matrix" for node in bench.problem_under(schedule).nodes)
    steps = steps_a_turn(matrix, steady_loop(compiled.code_object, bench.name))

    def modelled(mode: Mode | int) -> tuple[float, float | None]:
        model = OperatorModel(operator, problem, bench.target, parameters, mode=mode, compiled=compiled)
        grid = model.under(parameters).grid
        loop = grid.workgroup.steady
        return grid.cycles, None if loop is None else loop.cycles_per_iteration / steps

    fitting = occupancy_of(compiled.code_object, bench.name, parameters, prod(launch.block)).workgroups
    cycles, step = modelled("sampled")
    alone = (modelled(number)[1] for number in range(1, min(fitting, prod(launch.grid)) + 1))
    return ModelTime(cycles, step, tuple(one for one in alone if one is not None))
