"""Whether as many waves fit on a SIMD as a schedule asks for (`occupancy 4`), as far as it shows before LLVM.

LLVM leaves a number aside that LDS does not allow, with a warning in words of its own. Where a loop's accumulators
alone take more registers than the number leaves, it works for minutes, or aborts.
"""

from __future__ import annotations

import math

from ckmlir.dialect.build import integer_of
from ckmlir.lowering.carried_registers import carried_registers
from ckmlir.lowering.occupancy import occupancy
from ckmlir.mlir import ir
from ckmlir.passes.framework import fail
from ckmlir.passes.pipeline_loops import OCCUPANCY
from ckmlir.targets import Target


def require_reachable(function: ir.Operation, target: Target, threads: int, lds_bytes: int) -> None:
    """PassFailure where a function's schedule asks for more waves of a SIMD than can be there.

    Args:
        function: fragments behind ck-pipeline-loops.
        threads, lds_bytes: of its workgroup.
    """
    if OCCUPANCY not in function.attributes:
        return
    asked = integer_of(function, OCCUPANCY)
    carried = carried_registers(list(function.regions[0])[1:])
    try:
        # One register more: something is computed with what a loop hands on.
        found = occupancy(
            target, vector_registers=carried + 1, scalar_registers=0, lds_bytes=lds_bytes, workgroup_size=threads
        )
    except ValueError as problem:
        fail(function, str(problem))
    fitting = math.ceil(found.waves_per_simd)
    if fitting >= asked:
        return
    taken, remedy = {
        "LDS": (f"takes {lds_bytes} bytes of LDS", "fewer LDS buffers or a smaller block take less"),
        "vector registers": (
            f"hands {carried} vector registers of a lane round a loop",
            "smaller blocks or more waves need fewer",
        ),
    }.get(found.limiter, (f"has workgroups of {threads} threads", f"ask for at most {fitting}"))
    fail(
        function,
        f"its schedule asks for {asked} waves of a SIMD (occupancy {asked}); it {taken}, "
        f"with which {target.name} has room for {fitting}: {remedy}",
    )
