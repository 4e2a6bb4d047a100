"""What is being traced: the kernel, its target, the stage, and where in the user's source each operation comes from."""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache, wraps
from types import FrameType
from typing import ParamSpec, TypeVar

from ckmlir.dialect.loop import LOOP, STAGE
from ckmlir.mlir import ir
from ckmlir.targets import Target

_HERE = os.path.dirname(os.path.abspath(__file__))
P = ParamSpec("P")
R = TypeVar("R")


@dataclass
class Trace:
    """The kernel under construction."""

    target: Target
    waves: int
    stage: str | None = None


_traces: list[Trace] = []


class TracingError(RuntimeError):
    """A construct of `ckmlir.lang` was used where it means nothing, such as outside a kernel."""


def current() -> Trace:
    """The innermost kernel being traced."""
    if not _traces:
        raise TracingError("tile operations belong inside a @kernel function")
    return _traces[-1]


@contextmanager
def tracing(trace: Trace) -> Iterator[Trace]:
    """Make a trace the current one."""
    _traces.append(trace)
    try:
        yield trace
    finally:
        _traces.pop()


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


def located(function: Callable[P, R]) -> Callable[P, R]:
    """Give the operations that a function appends the user's line as location."""

    @wraps(function)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> R:
        current()
        with user_location():
            return function(*args, **kwargs)

    return wrapper


@contextmanager
def stage(name: str) -> Iterator[None]:
    """Everything traced inside belongs to the named stage of the enclosing loop.

    Raises:
        TracingError: outside a kernel or a loop, or inside another stage.
    """
    trace = current()
    if trace.stage is not None:
        raise TracingError(f"stage '{name}' inside stage '{trace.stage}': stages do not nest")
    block = ir.InsertionPoint.current.block
    if block.owner.operation.name != LOOP:
        raise TracingError(f"stage '{name}' stands outside a loop: a stage is a part of a loop's iteration")
    before = len(block.operations)
    trace.stage = name
    try:
        yield
    finally:
        trace.stage = None
    attribute = ir.StringAttr.get(name)
    for index in range(before, len(block.operations)):
        block.operations[index].operation.attributes[STAGE] = attribute
