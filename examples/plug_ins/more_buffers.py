"""A pass: loops rotate their LDS tensors through more buffers, where these fit."""

from dataclasses import dataclass, replace
from typing import ClassVar

from ckmlir.dialect.fragment_lds import tensor_bytes
from ckmlir.dialect.loop import SCHEDULE, schedule_of
from ckmlir.mlir import ir
from ckmlir.passes.framework import Pass, PassFailure, fail
from ckmlir.passes.walk import functions, operations, target_of


@dataclass(frozen=True)
class MoreBuffers(Pass):
    """Give every scheduled loop a number of LDS buffers."""

    name: ClassVar[str] = "example-more-buffers"
    count: int = 2
    """Buffers of every LDS tensor that a loop writes."""

    def apply(self, module: ir.Module) -> None:
        if not 1 <= self.count <= 8:
            raise PassFailure(f"count={self.count}: schedules have 1 to 8 buffers")
        for function in functions(module):
            for loop in (op for op in operations(function) if op.name == "scf.for" and SCHEDULE in op.attributes):
                written = {op.operands[1].owner for op in operations(loop) if op.name == "ck.lds_write"}
                most = target_of(function).lds_bytes
                needed = self.count * sum(tensor_bytes(alloc) for alloc in written)
                if needed > most:
                    fail(loop, f"{self.count} buffers take {needed} bytes of LDS; there are {most}")
                schedule = replace(schedule_of(loop), buffers=self.count)
                loop.attributes[SCHEDULE] = ir.StringAttr.get(str(schedule))
