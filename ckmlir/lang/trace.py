"""What is being traced: the kernel, its target, the stage, and where in the user's source each operation comes from.

Whatever a user's code does wrong ends in a `TracingError` at its line, from one of three places: `located` compares
what a function of the language is given with its annotations; the function itself refuses what has no meaning; and the
whole kernel is verified when it is traced (`ckmlir.lang.verification`).
"""

import os
import re
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import lru_cache, wraps
from itertools import islice
from traceback import walk_tb
from types import FrameType
from typing import Any, ParamSpec, TypeVar

from msgspec import Struct, field

from ckmlir.diagnostics import Diagnostic, Position
from ckmlir.dialect.control import BRANCH
from ckmlir.dialect.divisors import Divisors
from ckmlir.dialect.loop import LOOP, STAGE, add_empty_stage
from ckmlir.errors import CkmlirError
from ckmlir.given import NOUNS, Parameters
from ckmlir.mlir import ir
from ckmlir.targets import Target

_HERE = os.path.dirname(os.path.abspath(__file__))
_PACKAGE = os.path.dirname(_HERE) + os.sep
P = ParamSpec("P")
R = TypeVar("R")


class Trace(Struct):
    """The kernel under construction.

    Attributes:
        stage: the stage of a loop that is being traced.
        rest: ends what holds the rest of the kernel behind each early exit, when tracing ends.
        remainders: the blocks of those rests.
        divisors: what is known so far to divide scalars.
        unopened: where stages are named that no `with` has entered, by the stage.
        groups: how many groups of loads come together.
    """

    name: str
    target: Target
    waves: int
    stage: str | None = None
    rest: ExitStack = field(default_factory=ExitStack)
    remainders: list[ir.Block] = field(default_factory=list)
    divisors: Divisors = field(default_factory=Divisors)
    unopened: dict["Stage", Position] = field(default_factory=dict)
    groups: int = 0

    def require_opened(self) -> None:
        """Raises TracingError for a stage that nothing was traced in, because there is no `with` before it."""
        for left, position in self.unopened.items():
            raise TracingError(f"stage({left.name!r}) alone does nothing: write with stage({left.name!r}):", position)


class _Thread(threading.local):
    """What each thread is tracing, the innermost kernel last."""

    def __init__(self) -> None:
        self.traces: list[Trace] = []


_thread = _Thread()


class TracingError(CkmlirError, TypeError, ValueError):
    """Tile code that cannot be right; the text begins with the user's line. Python calls such mistakes TypeError and
    ValueError, so it is both.

    `notes` are (text, position) of what else plays a part.
    """

    def __init__(
        self,
        message: str,
        position: Position | None = None,
        notes: Sequence[tuple[str, Position | None]] = (),
    ) -> None:
        attached = tuple(Diagnostic("note", place, text) for text, place in notes)
        self.diagnostic = Diagnostic("error", position or user_position(), message, attached)
        super().__init__(str(self.diagnostic))


def current() -> Trace:
    """The innermost kernel being traced."""
    if not _thread.traces:
        raise TracingError("tile operations belong inside a @kernel function")
    return _thread.traces[-1]


class Traced:
    """A value of the kernel that is being traced; any other use of it is refused.

    The IR of a kernel that is finished may be gone, and that of another thread is in another context: LLVM would crash.
    """

    def __init__(self, ir_value: ir.Value) -> None:
        if not isinstance(ir_value, ir.Value):
            raise TracingError(f"{NOUNS[type(self).__name__]} is made by the functions of the language")
        self._value = ir_value
        self._trace = current()

    @property
    def value(self) -> ir.Value:
        """The value in the IR. Raises TracingError outside the kernel that it belongs to."""
        if self._trace is not current():
            raise TracingError(
                f"{NOUNS[type(self).__name__]} of kernel '{self._trace.name}' is used in kernel '{current().name}'; "
                "a value belongs to the kernel that it was traced in"
            )
        return self._value

    @property
    def is_current(self) -> bool:
        """Whether it belongs to the kernel being traced."""
        return bool(_thread.traces) and self._trace is _thread.traces[-1]


@contextmanager
def tracing(trace: Trace) -> Iterator[Trace]:
    """Make a trace the current one."""
    _thread.traces.append(trace)
    try:
        yield trace
    finally:
        _thread.traces.pop()


@lru_cache(maxsize=4096)
def _is_user_file(path: str) -> bool:
    return (
        os.path.dirname(os.path.abspath(path)) != _HERE and not path.startswith("<frozen") and "contextlib" not in path
    )


def user_frame() -> FrameType:
    """The innermost frame outside this package."""
    frame = sys._getframe(1)
    while not _is_user_file(frame.f_code.co_filename) and frame.f_back is not None:
        frame = frame.f_back
    return frame


def user_location() -> ir.Location:
    """The line of the user's source that is being traced."""
    frame = user_frame()
    return ir.Location.file(frame.f_code.co_filename, frame.f_lineno, 0)


def user_position() -> Position:
    """The same for a message."""
    frame = user_frame()
    return Position(frame.f_code.co_filename, frame.f_lineno, 0)


def located(function: Callable[P, R]) -> Callable[P, R]:
    """A function of the language: what it is given must be what its annotations say (`ckmlir.given`), what it
    appends has the user's line as location, and what the dialect refuses while it does becomes a TracingError there.
    """
    parameters = Parameters(function)

    @wraps(function)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> R:
        current()
        with user_location():
            try:
                taken, named = parameters.taken(args, kwargs)
                return function(*taken, **named)
            except CkmlirError:
                raise
            except (TypeError, ValueError, OverflowError) as problem:
                if _is_users(problem):
                    raise
                raise TracingError(str(problem).replace(".__init__()", "()")) from problem

    return wrapper


@contextmanager
def users_body() -> Iterator[None]:
    """Around the user's function: what a function of this package that is none of the language, such as a builder of
    distributions, refuses there becomes a TracingError at the user's line."""
    try:
        yield
    except CkmlirError:
        raise
    except ValueError as problem:
        files = [(trace.f_code.co_filename, line) for trace, line in walk_tb(problem.__traceback__)]
        users = [Position(file, line, 0) for file, line in files if not file.startswith(_PACKAGE)]
        if not users or _is_users(problem):
            raise
        raise TracingError(str(problem), users[-1]) from problem


def _is_users(problem: BaseException) -> bool:
    """Whether an exception was raised in the user's code, such as the function of a reduction."""
    trace = problem.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return trace is not None and not trace.tb_frame.f_code.co_filename.startswith(_PACKAGE)


class Stage:
    """What `stage` gives: to be entered by a `with`."""

    def __init__(self, name: str, trace: Trace) -> None:
        self.name = name
        self._trace = trace
        self._inside = _stage(name, trace)
        trace.unopened[self] = user_position()

    def __enter__(self) -> None:
        self._trace.unopened.pop(self, None)
        self._inside.__enter__()

    def __exit__(self, *raised: Any) -> bool | None:
        return self._inside.__exit__(*raised)


def stage(name: str) -> Stage:
    """Everything traced inside belongs to the named stage of the enclosing loop. A schedule may name it even where
    nothing is traced.

    Raises:
        TracingError: outside a kernel or a loop, inside another stage, or without a `with` (when the kernel ends).
    """
    return Stage(name, current())


@contextmanager
def _stage(name: str, trace: Trace) -> Iterator[None]:
    if not isinstance(name, str) or not re.fullmatch(r"\w+", name):
        raise TracingError(f"a stage has a name, a word of letters and digits, not {name!r}")
    if trace.stage is not None:
        raise TracingError(f"stage '{name}' inside stage '{trace.stage}': stages do not nest")
    block = ir.InsertionPoint.current.block
    owner = block.owner.operation
    if owner.name == BRANCH and block not in trace.remainders:
        raise TracingError(
            f"stage '{name}' stands inside a `when`, but stages are the parts of a loop's iteration: put the `when` "
            "into the stage"
        )
    if owner.name != LOOP:
        raise TracingError(f"stage '{name}' stands outside a loop: a stage is a part of a loop's iteration")
    before = len(block.operations)
    trace.stage = name
    try:
        yield
    finally:
        trace.stage = None
    if len(block.operations) == before:
        add_empty_stage(owner, name)
    attribute = ir.StringAttr.get(name)
    for view in islice(block, before, None):
        view.operation.attributes[STAGE] = attribute
