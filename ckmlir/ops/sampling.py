"""Values for requests that nobody thought of: sizes at the ends of their range and around those of tiles, primes, sizes
that go with others. Keys draw theirs with these functions (`Key.sample`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from random import Random

PRIMES = (2, 3, 5, 7, 11, 13, 17, 31, 37, 61, 67, 127, 131, 257, 509, 1021)
LARGE = (4095, 8192, 8193, 16385, 65535, 65536, 65537, 2**24, 2**30, 2**31 - 8, 2**31 - 1)
MANY_ELEMENTS = 1 << 18
"""About as many as a shape has at most, most of the time."""
ENDLESS = 0.04, 0.4
"""How often all lengths of a shape are large ones: by itself, and where something of the request is empty."""


def whole_number(random: Random, minimum: int, multiple: int, request: Mapping[str, object]) -> int:
    """A size, from `minimum` on, mostly a multiple of `multiple`; sometimes one that has to do with another of the
    request.
    """
    related = [number for value in request.values() for number in _whole_numbers(value)]
    weighted = [
        (12, minimum),
        (10, minimum + 1),
        (22, random.randint(minimum, 20)),
        (12, 2 ** random.randint(1, 10)),
        (12, 2 ** random.randint(2, 10) + random.choice((-1, 1))),
        (10, random.choice(PRIMES)),
        (8, 8 * random.randint(1, 40)),
        (11, random.choice(related or [1]) + random.choice((0, 0, 1, 7, 8))),
        (20 if 0 in related else 3, random.choice(LARGE)),  # what is empty may be of any size
    ]
    numbers, weights = [number for _, number in weighted], [weight for weight, _ in weighted]
    number: int = random.choices(numbers, weights)[0]
    if multiple > 1 and random.random() < 0.9:
        number = multiple * random.randint(1, 256 // multiple)
    return max(min(number, LARGE[-1]), minimum)


def lengths(random: Random, most: int, minimum: int, request: Mapping[str, object]) -> tuple[int, ...]:
    """Lengths of dimensions, often as many as another shape of the request has, and rarely of very many elements."""
    ranks = [len(value) for value in request.values() if isinstance(value, tuple) and _whole_numbers(value)]
    rank = random.choice(ranks) if ranks and random.random() < 0.7 else random.randint(1, most)
    empty = any(0 in _whole_numbers(value) for value in request.values())
    if random.random() < ENDLESS[empty]:
        return _endless(random, min(rank, most), minimum)
    found = [whole_number(random, minimum, 1, request) for _ in range(min(rank, most))]
    if random.random() < 0.97:
        while prod(max(length, 1) for length in found) > MANY_ELEMENTS:
            longest = found.index(max(found))
            found[longest] = max(found[longest] // 3, minimum)
    if 0 in found and random.random() < 0.3:
        found = [random.choice((length, *LARGE)) if length else 0 for length in found]
    return tuple(found)


def _endless(random: Random, rank: int, minimum: int) -> tuple[int, ...]:
    """Lengths whose product no 32 bits hold, of an array that is often empty nevertheless."""
    found = [random.choice(LARGE) for _ in range(rank)]
    if random.random() < 0.7:
        found[random.randrange(rank)] = minimum
    return tuple(found)


def strides(random: Random, shape: Sequence[int], *, shared: bool = False) -> tuple[int, ...]:
    """Strides of an array of this shape: its dimensions in any order, with or without gaps between them; `shared`:
    sometimes one repeats, or begins within what the next lesser one reaches.
    """
    order = list(range(len(shape)))
    if random.random() < 0.5:
        random.shuffle(order)
    found, reach = [1] * len(shape), random.choice((1, 1, 1, 1, 2, 3))
    for dim in reversed(order):
        found[dim] = reach
        reach = max(reach * shape[dim], 1) + random.choice((0, 0, 0, 1, 8, 16))
    if shared and random.random() < 0.2:
        found[random.randrange(len(found))] = random.choice((0, 0, 1, 2))
    return tuple(min(stride, LARGE[-1]) for stride in found)


def broadcast(random: Random, shape: Sequence[int]) -> tuple[int, ...]:
    """A shape that broadcasts to another one by NumPy's rule."""
    start = random.choice((0, 0, random.randrange(len(shape))))
    return tuple(random.choice((length, length, 1)) for length in shape[start:])


def _whole_numbers(value: object) -> tuple[int, ...]:
    if isinstance(value, tuple):
        return value if all(type(item) is int for item in value) else ()
    return (value,) if type(value) is int else ()
