"""Branches that the whole workgroup takes or leaves: `with when(condition):`, and leaving the kernel early.

A condition is a scalar, so all waves go one way: nothing is masked, what is not taken costs nothing, and barriers may
stand inside. What differs between elements is chosen with `where`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import Any

from ckmlir.dialect import control
from ckmlir.dialect.loop import end_loop
from ckmlir.given import described
from ckmlir.lang.carried import Carried, either, handed, traced
from ckmlir.lang.trace import TracingError, current, user_location
from ckmlir.lang.values import Scalar, Tile
from ckmlir.mlir import ir

ELEMENT_CODE = ("ck.map", "ck.reduce", "ck.scan")
"""Operations whose regions compute single elements."""


class when:
    """`if condition:` on the device, for the whole workgroup, with values that leave it.

        with when(first.equals(0)):
            store(total, window)

        with when(tile < count) as busy:
            busy.give(load(window))
        with busy.otherwise():
            busy.give(zeros(…))
        (x,) = busy.results

    `when(condition, otherwise=[x])` gives `x` where the condition does not hold, without an arm for it.

    It may stand anywhere in a kernel: around loops, in them, and inside a stage, where it runs as a whole when the
    stage does. Stages do not stand inside it, unless in a loop that does.

    Args:
        condition: a scalar comparison, or several joined by & and |.
        otherwise: the values given where the condition does not hold.

    Raises:
        TracingError: the condition is not a scalar condition; it stands in the function of a reduction, which
            computes single elements.
    """

    def __init__(self, condition: Scalar, *, otherwise: Sequence[Any] = ()) -> None:
        current()
        self._condition = checked_condition(condition, "when")
        check_place("when")
        if not isinstance(otherwise, (list, tuple)):
            raise TracingError(f"when takes a list of values as otherwise, not {described(otherwise)}")
        self._default = [traced(item) for item in otherwise]
        self._given: list[list[Carried]] = []
        self._results: list[Any] | None = None
        self._open = False
        with user_location():
            self._operation = control.append_branch(self._condition.value)

    def give(self, *values: Any) -> None:
        """The values that leave the arm, the same number and types from both.

        Raises:
            TracingError: outside an arm, twice in one, or another number of values than the other arm
                gives; another type than the other arm gives.
        """
        if not self._open:
            raise TracingError("give stands inside an arm of the when that it belongs to")
        if self._given[-1]:
            raise TracingError("this arm has given its values already")
        if self._default:
            self._given[-1] = handed(values, self._default, "otherwise this when gives")
        elif len(self._given) > 1:
            self._given[-1] = handed(values, self._given[0], "the other arm gives")
        else:
            self._given[-1] = [traced(item) for item in values]

    @contextmanager
    def otherwise(self) -> Iterator[None]:
        """The arm that runs where the condition does not hold; it follows the first right away.

        Raises:
            TracingError: there is one already, or the when was given values for this case.
        """
        if self._open or not self._given:
            raise TracingError("otherwise follows the arm of its when")
        if self._default or len(self._given) > 1:
            raise TracingError("this when says already what holds otherwise")
        with ir.InsertionPoint(self._operation.regions[1].blocks.append()):
            yield from self._arm()
        self._finish(self._given[1])

    @property
    def results(self) -> list[Any]:
        """The values that left it, whichever way was taken.

        Raises:
            TracingError: one of the ways gives none.
        """
        if self._results is None:
            raise TracingError(
                "this when gives values where its condition holds, and none otherwise: give some in "
                "`with ….otherwise():`, or write when(…, otherwise=[…])"
                if self._given and self._given[0]
                else "this when gives no values"
            )
        return self._results

    def __enter__(self) -> when:
        if self._given:
            raise TracingError("a when is entered once; its other arm is `with ….otherwise():`")
        self._inside = self._first_arm()
        self._inside.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._inside.__exit__(kind, error, trace)
        if kind is None and self._default:
            with ir.InsertionPoint(self._operation.regions[1].blocks.append()), self._operation.location:
                end_loop([])
            handed(self._given[0], self._default, "otherwise this when gives")
            self._finish(self._default)

    @contextmanager
    def _first_arm(self) -> Iterator[None]:
        with ir.InsertionPoint(self._operation.regions[0].blocks[0]):
            yield from self._arm()

    def _arm(self) -> Iterator[None]:
        """Trace an arm; it ends without values, which are put there when both arms have some."""
        self._given.append([])
        self._open = True
        try:
            yield
        finally:
            self._open = False
        with self._operation.location:
            end_loop([])

    def _finish(self, other: list[Carried]) -> None:
        """Both ways are known: give the operation their values as results."""
        first = self._given[0]
        handed(other, first, "the other arm gives")
        if not first:
            return
        for region, values in zip(self._operation.regions, (first, other), strict=True):
            end = control.end_of(region.blocks[0])
            with ir.InsertionPoint(end), end.location:
                end_loop([item.value for item in values])
            end.erase()
        self._operation = control.with_results(self._operation, [item.value.type for item in first])
        pairs = zip(first, other, self._operation.results, strict=True)
        self._results = [either(left, right, result) for left, right, result in pairs]


def exit_unless(condition: Scalar) -> None:
    """End the kernel for this workgroup unless a condition holds: what follows runs only where it does.

        exit_unless(first < length)

    Raises:
        TracingError: the condition is not a scalar condition; inside a loop or a `when`; there, put what follows
            into a `when`.
    """
    trace = current()
    checked = checked_condition(condition, "exit_unless")
    block = ir.InsertionPoint.current.block
    if block.owner.operation.name != "func.func" and block not in trace.remainders:
        raise TracingError(
            "exit_unless leaves the kernel, so it stands outside loops and `when`; here, put what follows into a `when`"
        )
    with user_location():
        branch = control.append_branch(checked.value)
    trace.remainders.append(branch.regions[0].blocks[0])
    trace.rest.enter_context(_remainder(branch))


@contextmanager
def _remainder(branch: ir.Operation) -> Iterator[None]:
    """The rest of the kernel, as what a branch holds."""
    with ir.InsertionPoint(branch.regions[0].blocks[0]):
        yield
        with branch.location:
            end_loop([])


def checked_condition(condition: Any, who: str) -> Scalar:
    """A condition of the whole workgroup; TypeError for anything else."""
    if isinstance(condition, bool):
        raise TracingError(f"{who} decides at run time; {condition} is known now: use Python's if")
    if isinstance(condition, Tile):
        raise TracingError(
            f"{who} decides for the whole workgroup, and a tile has a condition for every element: choose with "
            "where(…), or make one of it with uniform(…)"
        )
    if not isinstance(condition, Scalar) or str(condition.type) != "i1":
        given = f"a scalar of {condition.type}" if isinstance(condition, Scalar) else described(condition)
        raise TracingError(f"{who} takes a condition, such as a < b; it is given {given}")
    return condition


def check_place(who: str) -> None:
    """TracingError where single elements are computed."""
    owner = ir.InsertionPoint.current.block.owner.operation
    while owner.name not in ("func.func", *ELEMENT_CODE):
        owner = owner.parent.operation
    if owner.name in ELEMENT_CODE:
        raise TracingError(f"{who} stands in a function of single elements, which all take one way: choose with select")
