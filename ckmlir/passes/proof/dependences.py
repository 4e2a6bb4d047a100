"""The scheduled program computes what the unscheduled one does, for every trip count.

`source_program` numbers the unscheduled program, `simulation` finds its values again in the scheduled one, `terms` says
what a name proves, `state` what is known at a point, `explain` puts refusals into words.
"""

from ckmlir.mlir import ir
from ckmlir.passes.proof.finding import Finding
from ckmlir.passes.proof.simulation import Simulation
from ckmlir.passes.proof.source_program import SourceProgram, Unprovable


def check_dependences(function: ir.Operation, reference: ir.Operation) -> list[Finding]:
    """Findings of the kinds `dependence` and `order`.

    Args:
        function: the scheduled kernel.
        reference: the kernel before ck-pipeline-loops.
    """
    try:
        program = SourceProgram(reference)
    except Unprovable as problem:
        return [problem.finding]
    return Simulation(program, function).run()
