"""The scheduled program computes what the unscheduled one does, for every trip count.

`structure` reads the loops and branches of the unscheduled program, `source_program` numbers it, `simulation` finds
its values again in the scheduled one, `crossings` follows that from block to block, `terms` says what a name proves,
`state` what is known at a point, `explain` puts refusals into words, `effort` has it end.
"""

from ckmlir.mlir import ir
from ckmlir.passes.proof.effort import WORK, Effort, NotSettled
from ckmlir.passes.proof.finding import Finding
from ckmlir.passes.proof.simulation import Simulation
from ckmlir.passes.proof.source_program import SourceProgram, Unprovable
from ckmlir.passes.walk import operations


def check_dependences(function: ir.Operation, reference: ir.Operation, work: int = WORK) -> list[Finding]:
    """Findings of the kinds `dependence` and `order`.

    Args:
        function: the scheduled kernel.
        reference: the kernel before ck-pipeline-loops.
        work: steps that the proof may take for every operation of both.
    """
    effort = Effort(work * sum(1 for kernel in (function, reference) for _ in operations(kernel)))
    try:
        return Simulation(SourceProgram(reference), function, effort).run()
    except Unprovable as problem:
        return [problem.finding]
    except NotSettled:
        message = (
            f"not proved within {effort.steps} steps of work: what is known of the values that go round its loops does "
            "not settle; compare what the branches of each loop test and hand on with the unscheduled program"
        )
        return [Finding("dependence", function, message)]
