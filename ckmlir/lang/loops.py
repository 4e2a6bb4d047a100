"""Loops over tiles: `with loop(…) as step`, stages inside, and `with while_loop(…) as step`, carried values in both."""

from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, TypeVar

from ckmlir.dialect import control
from ckmlir.dialect import loop as dialect_loop
from ckmlir.dialect.schedule import UNPIPELINED, Schedule
from ckmlir.lang.carried import Carried, check_alignments, handed, renamed, traced
from ckmlir.lang.conditions import check_place, checked_condition
from ckmlir.lang.trace import TracingError, current, located, user_location
from ckmlir.lang.values import Scalar, as_scalar
from ckmlir.mlir import ir

L = TypeVar("L", bound="_Carrying")


class _Carrying:
    """The body of a loop that is being traced: what it carries in, and hands on at its end."""

    _operation: ir.Operation

    def __init__(self, initial: list[Carried], block: ir.Block, arguments: Sequence[ir.Value]) -> None:
        self._initial = initial
        self._block = block
        self._arguments = arguments
        self._insertion = ir.InsertionPoint(block)
        self._entered = self._closed = False

    @property
    def carried(self) -> list[Any]:
        """The carried values at the start of an iteration."""
        return [renamed(item, value) for item, value in zip(self._initial, self._arguments, strict=True)]

    @property
    def results(self) -> list[Any]:
        """The carried values after the loop."""
        return [renamed(item, value) for item, value in zip(self._initial, self._operation.results, strict=True)]

    @located
    def carry(self, *values: Any) -> None:
        """Hand values to the next iteration; ends the body.

        Raises:
            TracingError: another number of values than the loop carries, or twice in a body; another type, or a pointer
                that is less aligned.
        """
        if self._closed:
            raise TracingError("the loop hands its values on already; carry ends its body")
        if ir.InsertionPoint.current.block != self._block:
            raise TracingError("carry stands in the body of its own loop, at its end")
        found = handed(values, self._initial, "the loop carries")
        check_alignments(found, self._initial)
        dialect_loop.end_loop([item.value for item in found])
        self._closed = True

    def __enter__(self: L) -> L:
        if self._entered:
            raise TracingError("a loop is entered once")
        self._entered = True
        self._insertion.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None and not self._closed:
            self.carry()
        self._insertion.__exit__(kind, error, None)
        if kind is IndexError and self._closed:  # how the bindings say that the block has its terminator
            raise TracingError("nothing can follow carry in a loop's body") from error


class loop(_Carrying):
    """`for index in range(lower, upper, step)` on the device, with run-time bounds and carried values.

        with loop(0, k, block_k, carry=[acc], schedule=DOUBLE_BUFFER) as step:
            (acc,) = step.carried
            ...
            step.carry(acc)
        (acc,) = step.results

    Args:
        lower, upper, step: i32 scalars or Python integers, uniform over the workgroup. No iteration when lower >=
        upper. carry: tiles, scalars and pointers handed from one iteration to the next; the initial values.
        schedule: when the stages of the body run.
    """

    @located
    def __init__(
        self,
        lower: Scalar | int,
        upper: Scalar | int,
        step: Scalar | int,
        *,
        carry: Sequence[Any] = (),
        schedule: Schedule = UNPIPELINED,
    ) -> None:
        current()
        if isinstance(step, int) and step < 1:
            raise TracingError(f"a loop counts upwards; its step is at least 1, not {step}")
        check_place("a loop")
        i32 = ir.IntegerType.get_signless(32)
        with user_location():
            initial = [traced(item) for item in carry]
            first, last, stride = (as_scalar(bound, i32).value for bound in (lower, upper, step))
            self._operation = dialect_loop.append_loop(first, last, stride, [item.value for item in initial], schedule)
        block = self._operation.regions[0].blocks[0]
        super().__init__(initial, block, list(block.arguments)[1:])

    @property
    def index(self) -> Scalar:
        """The loop variable (i32)."""
        return Scalar(self._block.arguments[0])


class while_loop(_Carrying):
    """`while condition(…):` on the device, for the whole workgroup, with carried values.

        with while_loop(lambda group: tile >= ends.scalar(group), carry=[0]) as search:
            (group,) = search.carried
            search.carry(group + 1)
        (group,) = search.results

    It has no schedule and no stages of its own; loops with stages may stand inside.

    Args:
        condition: a function of the carried values that computes a scalar condition; it is asked before every
        iteration, the first one too, and may read memory.
        carry: tiles, scalars and pointers handed from one iteration to the next; the initial values, where a number is
        an i32 or f32.

    Raises:
        TracingError: the condition is not a scalar condition; nothing is carried, so that the condition could
            not change.
    """

    @located
    def __init__(self, condition: Callable[..., Scalar], *, carry: Sequence[Any]) -> None:
        current()
        check_place("a loop")
        if not carry:
            raise TracingError("a while_loop that carries nothing has a condition that nothing changes")
        with user_location():
            initial = [traced(item) for item in carry]
            operation = control.append_while([item.value for item in initial])
        deciding = operation.regions[0].blocks[0]
        with ir.InsertionPoint(deciding):
            asked = [renamed(item, value) for item, value in zip(initial, deciding.arguments, strict=True)]
            holds = checked_condition(condition(*asked), "while_loop")
            with operation.location:
                control.end_condition(holds.value, list(deciding.arguments))
        self._operation = control.with_results(operation, [item.value.type for item in initial])
        body = self._operation.regions[1].blocks[0]
        super().__init__(initial, body, list(body.arguments))
