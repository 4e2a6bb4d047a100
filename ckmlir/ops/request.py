"""What a user may ask of an operator: its keys (`m=1024`, `block=128x128x64`), from text or Python values, checked.

Each kind of key is a small class with a method `read`: the command line and Python callers meet the same checks.
"""

from __future__ import annotations

import math
import operator
import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import SupportsFloat

from ckmlir.errors import CkmlirError, suggest

MAXIMUM_SIZE = 2**31 - 1
"""Sizes and strides are passed to kernels as signed 32-bit integers."""

LEAST_NORMAL_F32 = 2.0**-126
GREATEST_F32 = (2 - 2.0**-23) * 2.0**127

AUTO = "auto"
"""As text, the value of a key that is left to the operator (None in Python)."""


class RequestError(CkmlirError, ValueError):
    """A request that cannot be met. The text names the key, its value, what is wrong and what would be right."""


@dataclass(frozen=True)
class Key(ABC):
    """A key of an operator: its name, its default (None: the operator derives it from the other keys) and its help."""

    name: str
    default: object
    help: str

    @property
    @abstractmethod
    def form(self) -> str:
        """What a value looks like, for help and messages."""

    @abstractmethod
    def read(self, value: object) -> object:
        """The value in its Python type. Raises RequestError."""

    def refuse(self, value: object) -> RequestError:
        """The error for a value that this key does not take."""
        return RequestError(f"{self.name}={show(value)}: expected {self.form}")


@dataclass(frozen=True)
class Integer(Key):
    """A whole number, `minimum` to 2^31 - 1."""

    minimum: int = 0

    @property
    def form(self) -> str:
        return f"a whole number from {self.minimum} to {MAXIMUM_SIZE}"

    def read(self, value: object) -> int:
        if isinstance(value, str):
            if not re.fullmatch(r"[+-]?[0-9]{1,20}", value):
                raise self.refuse(value)
            number = int(value)
        elif isinstance(value, bool) or not hasattr(value, "__index__"):
            raise self.refuse(value)
        else:
            number = operator.index(value)  # accepts NumPy integers
        if not self.minimum <= number <= MAXIMUM_SIZE:
            raise self.refuse(value)
        return number


@dataclass(frozen=True)
class Real(Key):
    """A finite number, not below `minimum`; it must be representable as a normal f32 or be zero."""

    minimum: float = -math.inf

    @property
    def form(self) -> str:
        least = "" if self.minimum == -math.inf else f", {self.minimum:g} or more"
        return f"a finite number that f32 can hold{least}"

    def read(self, value: object) -> float:
        if not isinstance(value, (str, SupportsFloat)):
            raise self.refuse(value)
        try:
            number = float(value)
        except (ValueError, OverflowError):
            raise self.refuse(value) from None
        representable = number == 0 or LEAST_NORMAL_F32 <= abs(number) <= GREATEST_F32
        if not math.isfinite(number) or number < self.minimum or not representable:
            raise self.refuse(value)
        return number


@dataclass(frozen=True)
class Choice(Key):
    """One of a few words."""

    choices: tuple[str, ...]

    @property
    def form(self) -> str:
        return "|".join(self.choices)

    def read(self, value: object) -> str:
        if not isinstance(value, str) or value not in self.choices:
            raise self.refuse(value)
        return value


@dataclass(frozen=True)
class Flag(Key):
    """Yes or no: 1 or 0."""

    @property
    def form(self) -> str:
        return "0|1"

    def read(self, value: object) -> bool:
        if value in ("0", "1") or (isinstance(value, (bool, int)) and value in (0, 1)):
            return bool(int(value))
        raise self.refuse(value)


@dataclass(frozen=True)
class Lengths(Key):
    """Several positive whole numbers, `128x128x64` or a sequence of integers."""

    count: int

    @property
    def form(self) -> str:
        return f"{self.count} positive whole numbers written as {'x'.join('ABC'[: self.count])}"

    def read(self, value: object) -> tuple[int, ...]:
        parts: Sequence[object] = ()
        if isinstance(value, str):
            parts = value.split("x")
        elif isinstance(value, Sequence):
            parts = value
        number = Integer(self.name, None, "", minimum=1)
        try:
            lengths = tuple(number.read(part) for part in parts)
        except RequestError:
            raise self.refuse(value) from None
        if len(lengths) != self.count:
            raise self.refuse(value)
        return lengths


@dataclass(frozen=True)
class Words(Key):
    """One to `most` of a few words: `sum,max` or a sequence of them."""

    choices: tuple[str, ...]
    most: int

    @property
    def form(self) -> str:
        return f"1 to {self.most} of {', '.join(self.choices)}, separated by commas"

    def read(self, value: object) -> tuple[str, ...]:
        words = value.split(",") if isinstance(value, str) else value
        if not isinstance(words, Sequence) or not 1 <= len(words) <= self.most:
            raise self.refuse(value)
        if any(word not in self.choices for word in words):
            raise self.refuse(value)
        return tuple(words)


@dataclass(frozen=True)
class Numbers(Key):
    """One to `most` whole numbers, from `minimum` to 2^31 - 1: `2x3x4` or a sequence of integers."""

    most: int
    minimum: int = 0

    @property
    def form(self) -> str:
        return f"1 to {self.most} whole numbers, {self.minimum} or more, written as AxBxC"

    def read(self, value: object) -> tuple[int, ...]:
        parts: Sequence[object] = ()
        if isinstance(value, str):
            parts = value.split("x")
        elif isinstance(value, Sequence):
            parts = value
        elif hasattr(value, "__index__"):
            parts = (value,)
        number = Integer(self.name, None, "", minimum=self.minimum)
        try:
            numbers = tuple(number.read(part) for part in parts)
        except RequestError:
            raise self.refuse(value) from None
        if not 1 <= len(numbers) <= self.most:
            raise self.refuse(value)
        return numbers


def show(value: object) -> str:
    """A value as the command line writes it, shortened where it is long."""
    if isinstance(value, (tuple, list)):
        value = "x".join(map(str, value))
    elif value is None:
        value = AUTO
    elif isinstance(value, bool):
        value = int(value)
    text = str(value)
    return text if len(text) <= 60 else text[:57] + "..."


def parse_assignments(words: Iterable[str]) -> dict[str, str]:
    """The keys and values of words of the form `key=value`. Raises RequestError for other words and repeated keys."""
    values: dict[str, str] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals or not name or not value:
            raise RequestError(f"{show(word)!r} is not of the form key=value")
        if name in values:
            raise RequestError(f"{name}={show(value)}: {name} is given twice")
        values[name] = value
    return values


def read_keys(keys: Sequence[Key], given: Mapping[str, object]) -> dict[str, object]:
    """A value for every key: what is given, read and checked, else the default. `None` and "auto" ask for the default.

    Raises RequestError for unknown names and for values that a key does not take.
    """
    names = [key.name for key in keys]
    for name in given:
        if name not in names:
            raise RequestError(f"{show(name)}={show(given[name])}: unknown key; {suggest(name, names)}")
    values: dict[str, object] = {}
    for key in keys:
        value = given.get(key.name)
        derived = value is None or (isinstance(value, str) and value == AUTO)
        values[key.name] = key.default if derived else key.read(value)
    return values
