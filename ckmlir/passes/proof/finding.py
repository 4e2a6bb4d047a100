"""What a check has to say: the operation that is wrong, why, and what else plays a part in it."""


from msgspec import Struct

from ckmlir.diagnostics import position_of
from ckmlir.dialect.build import text_of
from ckmlir.mlir import ir

CHECKS = {
    "dependence": "every value comes from the iteration that the unscheduled program takes it from",
    "hazard": "accesses of different waves to the same LDS bytes have a barrier between them",
    "wait": "accesses have ended where others rely on it",
    "uniform": "all waves take the same way to every barrier and LDS access, and arrive at equally many barriers",
    "waves": "the workgroup has the waves over which the program's distributions are",
    "lds": "LDS tensors lie inside the chip's LDS and the kernel's, where accesses are aligned",
    "registers": "the values that live at one point fit into the registers of a wave",
    "fence": "fragments that the schedule pins have fences on both sides",
    "order": "effects happen once, in the program's order, and loads see the stores that they saw",
}
"""The kinds of findings, and what each would have proved."""


class Finding(Struct, frozen=True):
    """A refusal.

    Attributes:
        check: a key of `CHECKS`.
        message: what is wrong at `op`, and what would be right.
        notes: further operations that play a part, with a sentence for each.
    """

    check: str
    op: ir.Operation
    message: str
    notes: tuple[tuple[str, ir.Operation], ...] = ()

    def __str__(self) -> str:
        lines = [f"{place_of(self.op)}{self.message} [{self.check}]"]
        return "\n".join([*lines, *(f"  {place_of(op)}{text}" for text, op in self.notes)])


def place_of(op: ir.Operation) -> str:
    """`file:line: ` of the source line of an operation, empty where there is none."""
    position = position_of(op.location)
    return f"{position.file}:{position.line}: " if position else ""


def words_for(op: ir.Operation) -> str:
    """An operation in a sentence: `ck.lds_write of stage 'to_lds'`."""
    stage = f" of stage '{op.attributes['ck.stage'].value}'" if "ck.stage" in op.attributes else ""
    return f"'{op.name}'{stage}"


def tensor_name(alloc: ir.Operation) -> str:
    """What reports call an LDS tensor."""
    return text_of(alloc, "name") if "name" in alloc.attributes else "without a name"
