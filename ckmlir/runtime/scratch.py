"""Kernels of a plan that a request names, and that a work-item has too few registers for."""

from __future__ import annotations

from typing import Any

from ckmlir.compiled_kernel import CompiledKernel
from ckmlir.ops.operator import Operator
from ckmlir.ops.request import RequestError
from ckmlir.ops.scalars import ceil_div
from ckmlir.ops.spec import by
from ckmlir.targets import Target

OTHERS = {"schedule": "another schedule", "edge": "another edge"}
SMALLER = {"block": "a smaller block", "wave": "more waves"}
"""By key of a plan, what may need fewer registers: in place of what is named, and whether it is named or not."""

REGISTER_BYTES = 4


def require_registers(
    operator: Operator[Any, Any], problem: Any, spec: Any, compiled: CompiledKernel, target: Target
) -> None:
    """Raise RequestError where a request names a schedule, a block or the like, and its kernel keeps registers in
    scratch memory: its numbers would be right, and it slow without a word. Before, registers are only estimated.

    Of what somebody else chose for the problem, such as a library, nothing is refused.
    """
    chosen = operator.chosen(problem, spec) if operator.plan_fields else {}
    named = {key: getattr(spec, field) for key, field in operator.plan_fields.items() if key not in chosen}
    if not named:
        return
    metadata = compiled.code_object.kernel(compiled.kernel_name).metadata
    if not metadata.private_segment_size or spec != operator.spec(problem, target):
        return
    words = [f"{key}={by(value) if isinstance(value, tuple) else value}" for key, value in named.items()]
    ways = [way for key, way in OTHERS.items() if key in named]
    ways += [way for key, way in SMALLER.items() if key in operator.plan_fields]
    expected = " or ".join(filter(None, (", ".join(ways[:-1]), ways[-1])))
    # LLVM counts spilled vector registers, some of them in accumulation registers, and no scalar ones in scratch.
    number = ceil_div(metadata.private_segment_size, REGISTER_BYTES)
    raise RequestError(
        f"{operator.name} on {target.name}: {', '.join(words)}: {number} registers of a work-item "
        f"have no room, and would lie in scratch memory; expected {expected}"
    )
