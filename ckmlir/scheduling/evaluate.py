"""What a schedule is worth, as far as can be told without running it."""

from dataclasses import asdict, dataclass
from typing import Any

from ckmlir.dialect.schedule import Schedule
from ckmlir.lowering.occupancy import kernel_occupancy
from ckmlir.mlir import ir
from ckmlir.scheduling.bounds import lower_bounds
from ckmlir.scheduling.fidelity import Fidelity, fidelity
from ckmlir.scheduling.machine_loop import steady_loop
from ckmlir.scheduling.workbench import Workbench


@dataclass(frozen=True)
class Evaluation:
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

    def to_dict(self) -> dict[str, Any]:
        """Everything in JSON's types."""
        return asdict(self)


def evaluate(bench: Workbench, schedule: Schedule) -> Evaluation:
    """Apply, check and compile a schedule, and read off the code object what it led to. The same every time.

    Raises:
        PipelineFailure: a pass refuses the schedule.
        CodeGenerationError, LinkerNotFound, LinkError: from the backend and the linker.
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
    )
