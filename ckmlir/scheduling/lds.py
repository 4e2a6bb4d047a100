"""The LDS of an operator's kernel, reported: what `ckmlir compile … --report lds` prints."""

from typing import Any

from ckmlir.ops.operator import Operator, require_valid
from ckmlir.passes.lds_report import LdsReport, reports_of
from ckmlir.passes.pipeline import PIPELINE, run_pipeline
from ckmlir.targets import Target

ALLOCATING = PIPELINE[: [str(step.run) for step in PIPELINE].index("ck-allocate-lds") + 1]


def lds_report(operator: Operator[Any, Any], spec: Any, target: Target) -> LdsReport:
    """Bytes, overlaps, layouts and predicted bank conflicts of a kernel's LDS buffers; no code is generated.

    Raises:
        RequestError: the chip cannot run it.
        PipelineFailure: a pass refuses it; where LDS does not suffice, the message says what would.
    """
    require_valid(operator, spec, target)
    kernel = operator.build(spec, target)
    with kernel.module.context:
        run_pipeline(kernel.module, ALLOCATING, dump_on_failure=False)
        (report,) = reports_of(kernel.module)
    return report
