"""What leaves a branch or goes round a loop: scalars, pointers and tiles, each by the type that it has on every way."""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd
from typing import Any

from ckmlir import given
from ckmlir.lang.trace import TracingError
from ckmlir.lang.values import Pointer, Scalar, Tile, as_scalar
from ckmlir.mlir import ir

Carried = Scalar | Pointer | Tile


def traced(item: Any, like: Carried | None = None) -> Carried:
    """A value as one that can be carried; a number becomes a scalar of the type of `like`, or an i32 or f32.

    Raises:
        TracingError: it is something else, such as a window or an LDS tensor.
    """
    if isinstance(item, (Scalar, Pointer, Tile)):
        return item
    if isinstance(item, (int, float)) and not isinstance(item, bool):
        own = like.type if isinstance(like, Scalar) else ir.Type.parse("i32" if isinstance(item, int) else "f32")
        return as_scalar(item, own)
    raise TracingError(
        f"scalars, pointers and tiles are handed on, not {given.described(item)}; a window is made where it is used"
    )


def renamed(item: Carried, value: ir.Value) -> Any:
    """What an IR value is in the language, when it stands for values like `item`."""
    return Pointer(value, item.element, item.alignment) if isinstance(item, Pointer) else type(item)(value)


def either(left: Carried, right: Carried, value: ir.Value) -> Any:
    """What an IR value is that stands for one of two values: what is known of both is known of it."""
    if isinstance(left, Pointer) and isinstance(right, Pointer):
        return Pointer(value, left.element, gcd(left.alignment, right.alignment))
    return renamed(left, value)


def handed(values: Sequence[Any], wanted: Sequence[Carried], who: str) -> list[Carried]:
    """Values as what `wanted` are, one for each.

    Raises:
        TracingError: another number of values; one has another type.
    """
    if len(values) != len(wanted):
        raise TracingError(
            f"{who} {_count(len(wanted))}, {len(values)} {'is' if len(values) == 1 else 'are'} handed on"
        )
    found = [traced(item, like) for item, like in zip(values, wanted)]
    for number, (item, like) in enumerate(zip(found, wanted), start=1):
        if item.value.type != like.value.type or described(item) != described(like):
            which = f" as value {number}" if len(wanted) > 1 else ""
            raise TracingError(f"{who} {described(like)}{which}, {described(item)} is handed on{_hint(item, like)}")
    return found


def check_alignments(values: Sequence[Carried], initial: Sequence[Carried]) -> None:
    """TracingError where less is known of a pointer that a loop hands on than of the one that it starts with."""
    for item, first in zip(values, initial, strict=True):
        if isinstance(item, Pointer) and isinstance(first, Pointer) and item.alignment % first.alignment:
            raise TracingError(
                f"the loop carries a pointer aligned to {first.alignment} bytes, one aligned to {item.alignment} is "
                f"handed on; start with .aligned({item.alignment}), or promise .aligned({first.alignment})"
            )


def described(item: Carried) -> str:
    """The type of a value, as messages call it."""
    return f"a pointer to {item.element}" if isinstance(item, Pointer) else str(item.value.type)


def _count(number: int) -> str:
    return f"{number} value" if number == 1 else f"{number} values"


def _hint(item: Carried, like: Carried) -> str:
    if not (isinstance(item, Tile) and isinstance(like, Tile)):
        return "; convert it with .to(…)" if isinstance(item, Scalar) and isinstance(like, Scalar) else ""
    if (item.lengths, item.element) == (like.lengths, like.element):
        return "; redistribute one of them"
    return "; cast one of them" if item.lengths == like.lengths else ""
