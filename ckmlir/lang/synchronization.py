"""Workgroups that wait for each other: flags in memory, with what was written before them. Loads that come together."""

from __future__ import annotations

from ckmlir.dialect import synchronization
from ckmlir.dialect.build import integer, producer
from ckmlir.lang.trace import TracingError, current, located
from ckmlir.lang.values import Pointer, Scalar, Tile, as_scalar
from ckmlir.mlir import ir


@located
def together(*loaded: Scalar | Tile) -> None:
    """Have what was loaded come together: all these loads are on their way before the workgroup waits for the first.

    Without it a scalar is waited for where it can first be used, be it before another is asked for, and what only a
    branch uses is loaded in it. It changes no value.

    Raises:
        TracingError: a value that no load makes (`Pointer.scalar`, `load`, `gather`), or of another block of the
            program; no scalar, for which there would be nothing to wait.
    """
    loads = [producer(one.value) for one in loaded]
    here = ir.InsertionPoint.current.block
    if any(op is None or op.name not in synchronization.ARRIVING or op.block != here for op in loads):
        raise TracingError("together takes values that are loaded in the same block of the program, as they are")
    if not any(isinstance(one, Scalar) for one in loaded):
        raise TracingError("together takes at least one scalar, which is waited for with the rest")
    trace = current()
    for op in loads:
        assert op is not None
        op.attributes[synchronization.TOGETHER] = integer(trace.groups)
    trace.groups += 1


@located
def signal(flags: Pointer, index: Scalar | int, value: Scalar | int) -> None:
    """Set a flag for other workgroups: who sees it sees all that this workgroup has written to memory before.

    Waves meet here. The flag is an i32, set once for the workgroup.

    Raises:
        TracingError: the pointer is not to i32.
    """
    place, number = _place(flags, index, "signal"), as_scalar(value, ir.IntegerType.get_signless(32))
    synchronization.release()
    synchronization.barrier()
    synchronization.set_flag(number.value, place.value)


@located
def wait_until(flags: Pointer, index: Scalar | int, value: Scalar | int) -> None:
    """Wait until a flag is `value` or more, as signed numbers. What is read behind it is what the workgroup that set
    the flag had written before.

    All workgroups that wait for each other have to run at a time (`ckmlir.ops.operator.Launch.resident`). One that
    waits for ever ends on the simulator as endless.

    Raises:
        TracingError: the pointer is not to i32.
    """
    place, number = _place(flags, index, "wait_until"), as_scalar(value, ir.IntegerType.get_signless(32))
    synchronization.await_flag(number.value, place.value)


def _place(flags: Pointer, index: Scalar | int, who: str) -> Pointer:
    if str(flags.element) != "i32":
        raise TracingError(f"{who} takes flags of i32; the pointer is to {flags.element}")
    return flags.offset(index)
