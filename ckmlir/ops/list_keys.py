"""Keys that take several values: `block=128x128x64`, `lengths=5,0,17`, or sequences and arrays of one dimension."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar, SupportsFloat

from ckmlir.ops.request import MAXIMUM_SIZE, Integer, Key, Real, RequestError, show, whole

if TYPE_CHECKING:
    from random import Random


class Lengths(Key, frozen=True):
    """Several positive whole numbers, `128x128x64` or a sequence of integers; `usual` are those that operators take."""

    count: int
    usual: tuple[tuple[int, ...], ...] = ()

    @property
    def form(self) -> str:
        return f"{self.count} positive whole numbers written as {'x'.join('ABC'[: self.count])}"

    def read(self, value: object) -> tuple[int, ...]:
        parts = _parts(value, "x")
        number = Integer(self.name, None, "", minimum=1)
        try:
            lengths = tuple(number.read(part) for part in parts)
        except RequestError:
            raise self.refuse(value) from None
        if len(lengths) != self.count:
            raise self.refuse(value)
        return lengths

    def sample(self, random: Random, request: Mapping[str, object]) -> object:
        if self.usual and random.random() < 0.9:
            return random.choice(self.usual)
        return tuple(2 ** random.randint(0, 8) for _ in range(self.count))


class Words(Key, frozen=True):
    """One to `most` of a few words: `sum,max` or a sequence of them."""

    choices: tuple[str, ...]
    most: int

    separator: ClassVar[str] = ","

    @property
    def form(self) -> str:
        return f"1 to {self.most} of {', '.join(self.choices)}, separated by commas"

    def read(self, value: object) -> tuple[str, ...]:
        words = value.split(",") if isinstance(value, str) else value
        if not isinstance(words, Sequence) or not 1 <= len(words) <= self.most:
            raise self.refuse(value)
        if any(not isinstance(word, str) or word not in self.choices for word in words):
            raise self.refuse(value)
        return tuple(words)

    def sample(self, random: Random, request: Mapping[str, object]) -> object:
        return tuple(random.choices(self.choices, k=random.randint(1, self.most)))


class Numbers(Key, frozen=True):
    """One to `most` whole numbers, from `minimum` to 2^31 - 1: `2x3x4` or a sequence of integers."""

    most: int
    minimum: int = 0

    @property
    def form(self) -> str:
        return f"1 to {self.most} whole numbers, {self.minimum} or more, written as AxBxC"

    def read(self, value: object) -> tuple[int, ...]:
        number = Integer(self.name, None, "", minimum=self.minimum)
        try:
            numbers = tuple(number.read(part) for part in _parts(value, "x"))
        except RequestError:
            raise self.refuse(value) from None
        if not 1 <= len(numbers) <= self.most:
            raise self.refuse(value)
        return numbers

    def sample(self, random: Random, request: Mapping[str, object]) -> object:
        from ckmlir.ops import sampling  # of no use to a request that is there

        return sampling.lengths(random, self.most, self.minimum, request)


class Series(Key, frozen=True):
    """Whole numbers from `minimum` to 2^31 - 1, as many as one likes: `5,0,17` or a sequence of integers.

    For what a problem has a number of each of: lengths of sequences, rows of groups.
    """

    minimum: int = 0

    separator: ClassVar[str] = ","

    @property
    def form(self) -> str:
        return f"whole numbers from {self.minimum} to {MAXIMUM_SIZE}, separated by commas"

    def read(self, value: object) -> tuple[int, ...]:
        number = Integer(self.name, None, "", minimum=self.minimum)
        parts = _parts(value, ",")
        for part in parts:
            try:
                number.read(part)
            except RequestError:
                what = f"{show(part)} is among them"
                raise RequestError(f"{self.name}={show(value)}: {what}; expected {self.form}") from None
        if not parts:
            raise self.refuse(value)
        return tuple(number.read(part) for part in parts)

    def sample(self, random: Random, request: Mapping[str, object]) -> object:
        count = random.choice((1, 2, 3, 5, 8))
        return tuple(max(random.choice((0, 0, 1, 7, random.randint(0, 300))), self.minimum) for _ in range(count))


class Reals(Key, frozen=True):
    """Finite numbers, as many as one likes: `1,0.5` or a sequence of numbers. See `Real`."""

    separator: ClassVar[str] = ","

    @property
    def form(self) -> str:
        return "finite numbers that f32 can hold, separated by commas"

    def read(self, value: object) -> tuple[float, ...]:
        single = Real(self.name, None, "")
        parts = (value,) if isinstance(value, SupportsFloat) and not hasattr(value, "__len__") else _parts(value, ",")
        if not parts:
            raise self.refuse(value)
        try:
            return tuple(single.read(part) for part in parts)
        except RequestError:
            raise self.refuse(value) from None

    def sample(self, random: Random, request: Mapping[str, object]) -> object:
        single = Real(self.name, None, "")
        drawn = [single.sample(random, request) for _ in range(random.choice((1, 1, 2, 3)))]
        return tuple(number for number in drawn if isinstance(number, float))


def _parts(value: object, separator: str) -> Sequence[object]:
    """The parts of text, of a sequence or of an array of one dimension; of a single number itself; else none."""
    if isinstance(value, str):
        return value.split(separator)
    if isinstance(value, Sequence):
        return value
    if whole(value) is not None:
        return (value,)
    listed = value.tolist() if hasattr(value, "tolist") else None  # NumPy's and PyTorch's
    return listed if isinstance(listed, list) else ()
