"""Loops over tiles: `with loop(…) as step`, stages inside, carried tiles through `step.carry`."""

from collections.abc import Sequence
from types import TracebackType
from typing import Any

from ckmlir.dialect import loop as dialect_loop
from ckmlir.dialect.schedule import UNPIPELINED, Schedule
from ckmlir.lang.trace import TracingError, current, located, user_location
from ckmlir.lang.values import Scalar, Tile, as_scalar
from ckmlir.mlir import ir

Carried = Tile | Scalar


class loop:
    """`for index in range(lower, upper, step)` on the device, with run-time bounds and carried values.

        with loop(0, k, block_k, carry=[acc], schedule=DOUBLE_BUFFER) as step:
            (acc,) = step.carried
            ...
            step.carry(acc)
        (acc,) = step.results

    Args:
        lower, upper, step: i32 scalars or Python integers, uniform over the workgroup. No iteration when lower >=
        upper. carry: tiles and scalars handed from one iteration to the next; the initial values.
        schedule: when the stages of the body run.
    """

    def __init__(
        self,
        lower: Scalar | int,
        upper: Scalar | int,
        step: Scalar | int,
        *,
        carry: Sequence[Carried] = (),
        schedule: Schedule = UNPIPELINED,
    ) -> None:
        current()
        if isinstance(step, int) and step < 1:
            raise ValueError(f"a loop counts upwards; its step is at least 1, not {step}")
        i32 = ir.IntegerType.get_signless(32)
        self._initial = list(carry)
        with user_location():
            first, last, stride = (as_scalar(bound, i32).value for bound in (lower, upper, step))
            self._operation = dialect_loop.append_loop(
                first, last, stride, [item.value for item in self._initial], schedule
            )
        self._block = self._operation.regions[0].blocks[0]
        self._insertion = ir.InsertionPoint(self._block)
        self._closed = False

    @property
    def index(self) -> Scalar:
        """The loop variable (i32)."""
        return Scalar(self._block.arguments[0])

    @property
    def carried(self) -> list[Any]:
        """The carried values at the start of an iteration."""
        return [type(item)(self._block.arguments[1 + number]) for number, item in enumerate(self._initial)]

    @property
    def results(self) -> list[Any]:
        """The carried values after the loop."""
        return [type(item)(self._operation.results[number]) for number, item in enumerate(self._initial)]

    @located
    def carry(self, *values: Carried) -> None:
        """Hand values to the next iteration; ends the body."""
        if len(values) != len(self._initial):
            raise TracingError(f"the loop carries {len(self._initial)} values, {len(values)} are handed on")
        if self._closed:
            raise TracingError("the loop hands its values on already; carry ends its body")
        for initial, item in zip(self._initial, values):
            if item.value.type != initial.value.type:
                raise TypeError(f"the loop carries {initial.value.type}, {item.value.type} is handed on")
        dialect_loop.end_loop([item.value for item in values])
        self._closed = True

    def __enter__(self) -> "loop":
        self._insertion.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None and not self._closed:
            self.carry()
        self._insertion.__exit__(kind, error, trace)
        if kind is IndexError and self._closed:  # how the bindings say that the block has its terminator
            raise TracingError("nothing can follow carry in a loop's body") from error
