"""Workgroups that wait for each other: flags in memory, with what was written before them."""

from __future__ import annotations

from ckmlir.dialect import synchronization
from ckmlir.lang.trace import TracingError, located
from ckmlir.lang.values import Pointer, Scalar, as_scalar
from ckmlir.mlir import ir


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
