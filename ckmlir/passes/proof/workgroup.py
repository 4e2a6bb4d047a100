"""The workgroup is the one that the program's distributions are over, and one that the chip has."""

from ckmlir.mlir import ir
from ckmlir.passes.proof.finding import Finding, words_for
from ckmlir.passes.walk import operations, waves_of
from ckmlir.passes.workgroup_waves import over_other_waves

MOST_WAVES = 16
"""Of a workgroup: 1024 work-items."""
WAVES = "ck.waves"


def check_workgroup(function: ir.Operation, reference: ir.Operation | None) -> list[Finding]:
    """Findings of the kind `waves`; with any, what each wave does is not known."""
    waves = waves_of(function)
    if not 1 <= waves <= MOST_WAVES:
        return [Finding("waves", function, f"{WAVES} = {waves}: a workgroup has 1 to {MOST_WAVES} waves")]
    if reference is not None and waves_of(reference) != waves:
        message = f"{WAVES} = {waves}: the unscheduled kernel has {waves_of(reference)}, and a schedule changes none"
        return [Finding("waves", function, message)]
    for op, over in over_other_waves(operations(function), waves):
        message = f"{words_for(op)} has a distribution over {over} waves; the workgroup has {waves} ({WAVES})"
        return [Finding("waves", op, message)]
    return []
