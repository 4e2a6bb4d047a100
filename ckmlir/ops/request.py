"""What a user may ask of an operator: its keys (`m=1024`, `block=128x128x64`), from text or Python values, checked.

Each kind of key is a small class with a method `read`: the command line and Python callers meet the same checks.
"""

from __future__ import annotations

import math
import re
from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar, SupportsFloat, SupportsIndex

import numpy as np
from msgspec import Struct

from ckmlir.errors import CkmlirError, suggest
from ckmlir.ops.scalars import index
from ckmlir.records import Abstract

if TYPE_CHECKING:
    from random import Random

MAXIMUM_SIZE = 2**31 - 1
"""Sizes and strides are passed to kernels as signed 32-bit integers."""

LEAST_NORMAL_F32 = 2.0**-126
GREATEST_F32 = (2 - 2.0**-23) * 2.0**127

AUTO = "auto"
"""As text, the value of a key that is left to the operator (None in Python)."""


class RequestError(CkmlirError, ValueError):
    """A request that cannot be met. The text names the key, its value, what is wrong and what would be right."""


class Key(Struct, frozen=True, metaclass=Abstract):
    """A key of an operator: its name, its default (None: the operator derives it from the other keys) and its help."""

    name: str
    default: object
    help: str

    separator: ClassVar[str] = "x"
    """Between several values in a text."""

    @property
    @abstractmethod
    def form(self) -> str:
        """What a value looks like, for help and messages."""

    @abstractmethod
    def read(self, value: object) -> object:
        """The value in its Python type. Raises RequestError."""

    def text(self, value: object) -> str:
        """A value as the command line writes it: the text that `read` takes back."""
        if isinstance(value, (tuple, list)):
            return self.separator.join(map(str, value))
        return str(int(value) if isinstance(value, bool) else value)

    @property
    def choices_of_all(self) -> tuple[object, ...]:
        """Every value that it takes, where those are few and known; else none."""
        return ()

    @abstractmethod
    def sample(self, random: Random, request: Mapping[str, object]) -> object:
        """A value that this key takes, often from the ends of its range, for tests that ask for anything.

        `request` has values for all keys: those drawn before, and defaults.
        """

    def refuse(self, value: object) -> RequestError:
        """The error for a value that this key does not take."""
        # As Python writes it where the command line would write what many keys take: 1 for True and for [1].
        listed = isinstance(value, (tuple, list)) and len(value) < 2 and all(whole(one) is not None for one in value)
        given = show(str(value) if listed or isinstance(value, (bool, np.bool_)) else value)
        return RequestError(f"{self.name}={given}: expected {self.form}")


class Integer(Key, frozen=True):
    """A whole number, `minimum` to `maximum`, by default 2^31 - 1; `multiple` divides most of those that an operator
    takes."""

    minimum: int = 0
    multiple: int = 1
    maximum: int = MAXIMUM_SIZE

    @property
    def form(self) -> str:
        return f"a whole number from {self.minimum} to {self.maximum}"

    def read(self, value: object) -> int:
        if isinstance(value, str):
            if not re.fullmatch(r"[+-]?[0-9]{1,20}", value):
                raise self.refuse(value)
            number = int(value)
        else:
            given = None if isinstance(value, (bool, np.bool_)) else whole(value)
            if given is None:
                raise self.refuse(value)
            number = given
        if not self.minimum <= number <= self.maximum:
            raise self.refuse(value)
        return number

    def sample(self, random: Random, request: Mapping[str, object]) -> object:
        from ckmlir.ops import sampling  # of no use to a request that is there

        return min(sampling.whole_number(random, self.minimum, self.multiple, request), self.maximum)


class PowerOfTwo(Integer, frozen=True):
    """A whole number that an operator takes where it is a power of two: an alignment, say."""

    def sample(self, random: Random, request: Mapping[str, object]) -> object:
        return max(2 ** random.randint(0, 5), self.minimum)


class Pitch(Integer, frozen=True):
    """Elements from one row of an array to the next, not less than the keys `of` say that it has."""

    of: tuple[str, ...] = ("n",)

    def sample(self, random: Random, request: Mapping[str, object]) -> object:
        lengths = [length for name in self.of if isinstance(length := request.get(name), int)]
        least = max(*lengths, self.minimum, 1)
        return min(random.choice((least, least + 1, least + 7, -(-least // 8) * 8, 2 * least + 8)), MAXIMUM_SIZE)


class Real(Key, frozen=True):
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
        except (TypeError, ValueError, OverflowError):
            raise self.refuse(value) from None
        representable = number == 0 or LEAST_NORMAL_F32 <= abs(number) <= GREATEST_F32
        if not math.isfinite(number) or number < self.minimum or not representable:
            raise self.refuse(value)
        return number

    def sample(self, random: Random, request: Mapping[str, object]) -> object:
        ends = (0.0, LEAST_NORMAL_F32, GREATEST_F32, -LEAST_NORMAL_F32, -GREATEST_F32)
        usual = (1.0, 0.5, 1e-5, 3.0, -1.0, round(random.uniform(0, 4), 3))
        numbers = usual if random.random() < 0.8 else ends
        return random.choice([number for number in numbers if number >= self.minimum])


class Choice(Key, frozen=True):
    """One of a few words."""

    choices: tuple[str, ...]

    @property
    def form(self) -> str:
        return "|".join(self.choices)

    @property
    def choices_of_all(self) -> tuple[object, ...]:
        return self.choices

    def read(self, value: object) -> str:
        if not isinstance(value, str) or value not in self.choices:
            raise self.refuse(value)
        return value

    def sample(self, random: Random, request: Mapping[str, object]) -> object:
        return random.choice(self.choices)


class Flag(Key, frozen=True):
    """Yes or no: 1 or 0."""

    @property
    def form(self) -> str:
        return "0|1"

    @property
    def choices_of_all(self) -> tuple[object, ...]:
        return (False, True)

    def read(self, value: object) -> bool:
        if isinstance(value, (str, bool)):
            given = {"0": 0, "1": 1, True: 1, False: 0}.get(value)
        else:
            given = whole(value)
        if given not in (0, 1):
            raise self.refuse(value)
        return bool(given)

    def sample(self, random: Random, request: Mapping[str, object]) -> object:
        return random.random() < 0.5


def whole(value: object) -> int | None:
    """A whole number in Python's type, None for anything else."""
    if type(value) is int:  # most are; to ask for a protocol takes a microsecond
        return value
    if isinstance(value, np.bool_):
        return int(value)
    if isinstance(value, SupportsIndex):
        try:
            return index(value)
        except TypeError:  # arrays have the method, whatever they hold
            pass
    return None


def show(value: object) -> str:
    """A value as the command line writes it, shortened where it is long."""
    if isinstance(value, (tuple, list)):
        value = "x".join(map(str, value))
    elif value is None:
        value = AUTO
    elif isinstance(value, bool):
        value = int(value)
    text = " ".join(str(value).split())  # of one line
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
