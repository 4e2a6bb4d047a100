"""What was made for the problems that came last, so that sizes which come again are only looked up."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from ckmlir.records import hints_of

V = TypeVar("V")

MOST = 256
"""Problems that are remembered: a serving process sees a few sizes again and again."""


class Recent(Generic[V]):
    """Values by problem, of which the oldest goes when there are too many. Any thread may use it."""

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._hash: Callable[[Any], int] = hash
        self._values: dict[Any, list[V]] = {}
        self._lock = threading.Lock()

    def get(self, problem: Any, make: Callable[[Any], V]) -> V:
        """The value of an equal problem; if there is none, `make(problem)`, which is remembered. Raises what `make`
        raises."""
        key = _Key(problem, self._hash)
        place = self._values.get(key)
        if not place:
            with self._lock:
                place = self._values.setdefault(key, [])
                while len(self._values) > self._most:
                    del self._values[next(iter(self._values))]
            place.append(make(problem))
        return place[0]

    def hash_by(self, function: Callable[[Any], int]) -> None:
        """Tell problems apart by another hash from now on; those that are remembered are forgotten."""
        with self._lock:
            self._hash, self._values = function, {}


class _Key:
    """A problem and the signs of its numbers: zeros of both signs are equal, and are not the same argument. It is
    hashed once, since a problem has many fields."""

    __slots__ = ("hash", "value")

    def __init__(self, problem: Any, hashed: Callable[[Any], int]) -> None:
        names = _reals(type(problem))
        self.value = (problem, *_signs(problem, names)) if names else problem
        self.hash = hashed(problem)

    def __hash__(self) -> int:
        return self.hash

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Key) and bool(self.value == other.value)


def _signs(problem: Any, names: tuple[str, ...]) -> list[float]:
    signs: list[float] = []
    for name in names:
        value = getattr(problem, name)
        numbers = value.values() if isinstance(value, dict) else (value,)
        signs += [math.copysign(1.0, number) for number in numbers if number is not None]
    return signs


_REALS: dict[type, tuple[str, ...]] = {}


def _reals(kind: type) -> tuple[str, ...]:
    """The fields of a problem that hold floats, alone or by name; each kind of problem is looked at once."""
    if kind not in _REALS:
        _REALS[kind] = tuple(name for name, hint in hints_of(kind).items() if "float" in hint)
    return _REALS[kind]
