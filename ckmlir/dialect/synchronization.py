"""Synchronisation and scheduling fences. Passes place these; operator code has none but those between workgroups:
`ck.release`, a barrier and `ck.set_flag` on one side, `ck.await_flag` on the other.

Counters and masks are those of the hardware and of LLVM: see the CDNA3 ISA document, section 4.4 (s_waitcnt), and
LLVM's documentation of `llvm.amdgcn.sched.barrier`.
"""

from typing import Any

from ckmlir.dialect.build import create, integer, integer_of, string, text_of
from ckmlir.dialect.dialect import Ck
from ckmlir.dialect.verify import expect, verified
from ckmlir.mlir import ext, ir

SCHED_MASKS = (
    "none", "non_mem_non_sideeffect", "valu", "salu", "mfma_wmma", "all_vmem", "vmem_read", "vmem_write",
    "all_ds", "ds_read", "ds_write", "transcendental", "ldsdma", "all",
)  # fmt: skip
"""What may cross a sched_barrier, in the spelling of the rocdl dialect."""

COUNTERS = {"vector_memory": 63, "lds": 15, "copies": 63}
"""What may be waited for, and the largest counts: those of s_waitcnt on gfx9 (vmcnt has 6 bits, lgkmcnt 4); copies to
LDS are counted among the accesses to memory.
"""


TOGETHER = "ck.together"
"""Attribute of a load that is on its way before others with the same number are waited for."""
ARRIVING = ("llvm.load", "ck.load", "ck.gather")
"""What brings scalars and tiles from memory."""


class BarrierOp(Ck.Operation, name="barrier"):
    """`ck.barrier`: every wave of the workgroup arrives before any passes. Waits for nothing else."""


class GroupBarrierOp(Ck.Operation, name="group_barrier"):
    """`ck.group_barrier {groups = 2, first = 1, last = 1}`: the workgroup's waves are so many groups of equal size, by
    wave number; those of groups `first` to `last` arrive at a barrier here, the others go on.

    A barrier lets waves pass when all have arrived at one, wherever each stands (CDNA3 ISA, 4.3: S_BARRIER counts
    waves). So groups that arrive at one more than others are from here on a barrier behind these: out of phase.
    """

    @staticmethod
    @verified
    def verify_invariants(op: ir.OpView) -> None:
        groups, first, last = (integer_of(op, name) for name in ("groups", "first", "last"))
        expect(groups >= 2, f"groups = {groups}; waves form 2 groups at least")
        expect(0 <= first <= last < groups, f"groups {first} to {last} are not some of groups 0 to {groups - 1}")
        expect(last - first + 1 < groups, "all groups arrive; that is a ck.barrier")


class WaitOp(Ck.Operation, name="wait"):
    """`ck.wait {lds = 0}`: until at most so many accesses of a kind are outstanding in this wave."""

    @staticmethod
    @verified
    def verify_invariants(op: ir.OpView) -> None:
        names = [name for name in COUNTERS if name in op.attributes]
        expect(bool(names), f"names no counter; the counters are {', '.join(COUNTERS)}")
        for name in names:
            count = integer_of(op, name)
            expect(0 <= count <= COUNTERS[name], f"{name} = {count} is outside 0..{COUNTERS[name]}")


class SchedBarrierOp(Ck.Operation, name="sched_barrier"):
    """`ck.sched_barrier {mask}`: only what the mask names may be moved across by the backend's scheduler."""

    @staticmethod
    @verified
    def verify_invariants(op: ir.OpView) -> None:
        mask = text_of(op, "mask")
        known = mask in SCHED_MASKS or all(kind in SCHED_MASKS[1:] for kind in mask.split("|"))
        expect(known, f"mask '{mask}' is not one of {', '.join(SCHED_MASKS)}, nor kinds of them joined by |")


class SchedGroupBarrierOp(Ck.Operation, name="sched_group_barrier"):
    """`ck.sched_group_barrier {mask, count, group}`: the next `count` instructions of a kind in the order asked for."""

    @staticmethod
    @verified
    def verify_invariants(op: ir.OpView) -> None:
        mask = text_of(op, "mask")
        expect(mask in SCHED_MASKS[1:], f"mask '{mask}' is not one of {', '.join(SCHED_MASKS[1:])}")
        expect(integer_of(op, "count") > 0, "count must be positive")
        expect(integer_of(op, "group") >= 0, "group must not be negative")


class PriorityOp(Ck.Operation, name="priority"):
    """`ck.priority {level}`: this wave's priority among those of its SIMD, 0 to 3."""

    @staticmethod
    @verified
    def verify_invariants(op: ir.OpView) -> None:
        level = integer_of(op, "level")
        expect(0 <= level <= 3, f"level {level} is outside 0..3")


class ReleaseOp(Ck.Operation, name="release"):
    """`ck.release`: what this wave has written to memory before is there for the whole device before what it writes
    afterwards.
    """


class SetFlagOp(Ck.Operation, name="set_flag"):
    """`ck.set_flag %value, %pointer`: one thread of the workgroup sets an i32 in memory, atomically for the device."""

    value: ext.Operand[Any]
    pointer: ext.Operand[Any]

    @staticmethod
    @verified
    def verify_invariants(op: ir.OpView) -> None:
        _check_flag(op)


class AwaitFlagOp(Ck.Operation, name="await_flag"):
    """`ck.await_flag %value, %pointer`: every wave goes on when an i32 in memory is the value or more, and then sees
    what the wave that set it has released.
    """

    value: ext.Operand[Any]
    pointer: ext.Operand[Any]

    @staticmethod
    @verified
    def verify_invariants(op: ir.OpView) -> None:
        _check_flag(op)


def _check_flag(op: ir.OpView) -> None:
    value, pointer = (operand.type for operand in op.operation.operands)
    expect(str(value) == "i32", f"a flag is an i32, not {value}")
    expect(str(pointer) == "!llvm.ptr<1>", f"a flag lies in memory, behind an !llvm.ptr<1>, not {pointer}")


def barrier() -> ir.Operation:
    """Append a barrier of the workgroup."""
    return create("ck.barrier", [], [])


def group_barrier(groups: int, first: int, last: int) -> None:
    """Append a barrier at which only the waves of some groups arrive."""
    numbers = {"groups": groups, "first": first, "last": last}
    create("ck.group_barrier", [], [], {name: integer(number) for name, number in numbers.items()})


def wait(*, vector_memory: int | None = None, lds: int | None = None, copies: int | None = None) -> ir.Operation:
    """Append a wait until at most so many accesses to memory, accesses to LDS or copies to LDS are outstanding."""
    counts = {"vector_memory": vector_memory, "lds": lds, "copies": copies}
    return create("ck.wait", [], [], {name: integer(count) for name, count in counts.items() if count is not None})


def sched_barrier(mask: str = "none") -> ir.Operation:
    """Append a scheduling fence; `mask` names what may cross it."""
    return create("ck.sched_barrier", [], [], {"mask": string(mask)})


def sched_group_barrier(kind: str, count: int) -> None:
    """Append a member of the order that the backend is asked for: the next `count` instructions of a kind."""
    create("ck.sched_group_barrier", [], [], {"mask": string(kind), "count": integer(count), "group": integer(0)})


def priority(level: int) -> None:
    """Append a change of this wave's priority to 0 … 3."""
    create("ck.priority", [], [], {"level": integer(level)})


def release() -> None:
    """Append a release of what this wave has written to memory."""
    create("ck.release", [], [])


def set_flag(number: ir.Value, pointer: ir.Value) -> None:
    """Append the setting of a flag."""
    create("ck.set_flag", [], [number, pointer])


def await_flag(number: ir.Value, pointer: ir.Value) -> None:
    """Append a wait for a flag."""
    create("ck.await_flag", [], [number, pointer])
