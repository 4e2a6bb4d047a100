"""Arguments that are no arrays: whole numbers, several of them, and words. What is none is refused by its name."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from ckmlir.ops.request import show, whole
from ckmlir.runtime.device import DeviceError


def shown(value: object) -> str:
    """A value for a message: in a line, shortened where it is long."""
    return "None" if value is None else show(value)


def number(what: str, value: object, least: int) -> int:
    """A whole number. Raises DeviceError for another value, and for one below the least."""
    found = None if isinstance(value, bool) else whole(value)
    if found is None or found < least:
        raise DeviceError(f"{what}={shown(value)}: expected a whole number, {least} or more")
    return found


def numbers(what: str, value: Any) -> tuple[int, ...]:
    """Whole numbers, of a sequence or of an array of one dimension in any memory. Raises DeviceError for others."""
    try:
        listed = value.tolist() if hasattr(value, "tolist") else None if isinstance(value, str) else list(value)
    except (TypeError, RuntimeError, NotImplementedError):  # no sequence; an array without values
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
