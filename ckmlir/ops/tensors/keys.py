"""Keys of numbers that belong to the shape of an array: they read as any numbers do, and know what they go with."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ckmlir.ops import sampling
from ckmlir.ops.list_keys import Numbers

if TYPE_CHECKING:
    from random import Random


class ShapeKey(Numbers, frozen=True):
    """Numbers that go with the lengths of key `of`, or, where that was not given, of key `otherwise`."""

    of: str = "shape"
    otherwise: str = "shape"

    def lengths(self, request: Mapping[str, object]) -> tuple[int, ...]:
        """Those lengths in a request."""
        found = request.get(self.of) or request[self.otherwise]
        assert isinstance(found, tuple)
        return found


class Strides(ShapeKey, frozen=True):
    """Distances of neighbours along every dimension of an array, in elements.

    Attributes:
        shared: elements may share a place.
        order: the key that says in which order those lengths come (by default the opposite one), where one does.
    """

    shared: bool = False
    order: str | None = None

    def sample(self, random: Random, request: Mapping[str, object]) -> object:
        lengths = self.lengths(request)
        if self.order is not None:
            order = request.get(self.order)
            assert order is None or isinstance(order, tuple)
            lengths = tuple(lengths[axis] for axis in order or reversed(range(len(lengths))))
        return sampling.strides(random, lengths, shared=self.shared)


class Order(ShapeKey, frozen=True):
    """Dimensions of an array in another order."""

    def sample(self, random: Random, request: Mapping[str, object]) -> object:
        rank = len(self.lengths(request))
        return tuple(random.sample(range(rank), rank))


class Dimensions(ShapeKey, frozen=True):
    """Some of an array's dimensions."""

    def sample(self, random: Random, request: Mapping[str, object]) -> object:
        rank = len(self.lengths(request))
        return tuple(random.sample(range(rank), random.randint(1, rank)))


class Broadcast(ShapeKey, frozen=True):
    """The shape of an array that repeats along others' dimensions."""

    def sample(self, random: Random, request: Mapping[str, object]) -> object:
        return tuple(max(length, self.minimum) for length in sampling.broadcast(random, self.lengths(request)))


class PerDimension(ShapeKey, frozen=True):
    """One number for every dimension, or one for all of them; small ones, mostly."""

    def sample(self, random: Random, request: Mapping[str, object]) -> object:
        rank = random.choice((1, len(self.lengths(request))))
        small = (-1, 0, 1, 1, 2, 2, 3, 5, random.randint(0, 40))
        return tuple(max(random.choice(small), self.minimum) for _ in range(rank))
