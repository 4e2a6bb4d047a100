"""Arguments other than arrays: flags, numbers, sequences of numbers, and words. Refusals name the argument."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from functools import wraps
from inspect import signature
from typing import Any, ParamSpec, TypeVar

from ckmlir.ops.request import MAXIMUM_SIZE, show, whole
from ckmlir.runtime.device import DeviceError

P = ParamSpec("P")
R = TypeVar("R")


def shown(value: object) -> str:
    """A value for a message: in a line, shortened where it is long."""
    return "None" if value is None else show(value)


def number(what: str, value: object, least: int) -> int:
    """A size. Raises DeviceError unless it is a whole number, at least the least and within 32 bits."""
    found = None if isinstance(value, bool) else whole(value)
    if found is None or not least <= found <= MAXIMUM_SIZE:
        told = value if isinstance(value, bool) else shown(value)
        expected = f"{least} or more" if found is None or found < least else f"at most {MAXIMUM_SIZE}"
        raise DeviceError(f"{what}={told}: expected a whole number, {expected}")
    return found


def numbers(what: str, value: Any) -> tuple[int, ...]:
    """Whole numbers, of a sequence or of an array of one dimension in any memory. Raises DeviceError for others."""
    try:
        listed = value.tolist() if hasattr(value, "tolist") else None if isinstance(value, str) else list(value)
    except (TypeError, RuntimeError):  # not a sequence; a tensor without values, such as one of PyTorch's device meta
        listed = None
    found = [whole(one) for one in listed] if isinstance(listed, list) else [None]
    if None in found:
        name = type(value).__name__ if hasattr(value, "shape") else shown(value)
        raise DeviceError(f"{what}={name}: expected whole numbers, one behind the other")
    return tuple(one for one in found if one is not None)


def word(what: str, value: object, known: Collection[str]) -> str:
    """One of a few words. Raises DeviceError for another value."""
    if not isinstance(value, str) or value not in known:
        raise DeviceError(f"{what}={shown(value)}: expected one of {', '.join(known)}")
    return value


def flag(value: object) -> bool:
    """Whether a value says yes or no: a bool of whatever library, 1 or 0."""
    return isinstance(value, bool) or whole(value) in (0, 1)


def real(value: Any) -> bool:
    """Whether a value is a finite number of whatever library; an array of one element is, if it has no dimensions."""
    if isinstance(value, str) or getattr(value, "shape", ()) != ():
        return False
    try:
        return math.isfinite(float(value))
    except (TypeError, ValueError, OverflowError, RuntimeError):  # not a number; a tensor without values
        return False


def checked(function: Callable[P, R]) -> Callable[P, R]:
    """A function that refuses anything but a flag, or a number, where its annotations ask for one.

    Whole numbers with a least value are read by `number` where they are needed.
    """
    parameters = signature(function).parameters
    names = list(parameters)
    kinds = {name: KINDS[one.annotation] for name, one in parameters.items() if one.annotation in KINDS}

    def check(what: str, value: object) -> None:
        if what not in kinds:
            return
        accepts, expected = kinds[what]
        if value is not parameters[what].default and not accepts(value):
            told = type(value).__name__ if hasattr(value, "shape") else shown(value)
            raise DeviceError(f"{what}={told}: expected {expected}")

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        for what, value in zip(names, args, strict=False):  # what are too many, Python says
            check(what, value)
        for what, value in kwargs.items():
            check(what, value)
        return function(*args, **kwargs)

    return call


KINDS: dict[str, tuple[Callable[[Any], bool], str]] = {
    "bool": (flag, "True or False"),
    "float": (real, "a finite number"),
    "float | None": (lambda value: value is None or real(value), "a finite number"),
    "int | None": (lambda value: value is None or whole(value) is not None, "a whole number"),
}
"""By annotation: what is taken for such an argument, and how it is called."""
