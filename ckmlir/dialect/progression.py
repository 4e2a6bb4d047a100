"""What is known about an index while a thread walks along a vector.

To find the widest vector that a tensor descriptor allows, its mapping is evaluated on `Progression`s instead of
numbers: element i of the vector, 0 <= i < count, has the index `base + step * i`, where `base` is unknown but for a
divisor. The offset that comes out says whether the vector is contiguous and aligned; a comparison of progressions
says whether its outcome is the same for all elements, so that no vector straddles the boundary of a padded region.
"""

from __future__ import annotations

from math import gcd

from msgspec import Struct


class Progression(Struct, frozen=True):
    """`base + step * i` for 0 <= i < count, with `base` an unknown multiple of `multiple`.

    `multiple` 0 says that the base is 0. `step` 0 is a value that does not change along the vector; `step` None is one
    that changes in an unknown way, in which case `multiple` speaks of element 0 alone.
    """

    multiple: int
    step: int | None
    count: int

    @property
    def fixed(self) -> bool:
        """Whether the value is the same for all elements."""
        return self.step == 0

    def _stays_within(self, period: int) -> bool:
        """Whether no element reaches the next multiple of `period` after the base, where `period` divides the base."""
        return self.step is not None and self.step >= 0 and (period == 0 or self.step * (self.count - 1) < period)

    def _of(self, other: Progression | int) -> Progression:
        return other if isinstance(other, Progression) else Progression(abs(other), 0, self.count)

    def __add__(self, other: Progression | int) -> Progression:
        other = self._of(other)
        step = None if self.step is None or other.step is None else self.step + other.step
        return Progression(gcd(self.multiple, other.multiple), step, self.count)

    __radd__ = __add__

    def __neg__(self) -> Progression:
        return Progression(self.multiple, None if self.step is None else -self.step, self.count)

    def __sub__(self, other: Progression | int) -> Progression:
        return self + -other

    def __rsub__(self, other: Progression | int) -> Progression:
        return -self + other

    def __mul__(self, other: Progression | int) -> Progression:
        if isinstance(other, int):
            return Progression(self.multiple * abs(other), None if self.step is None else self.step * other, self.count)
        step = 0 if self.fixed and other.fixed else None
        return Progression(self.multiple * other.multiple, step, self.count)

    __rmul__ = __mul__

    def __floordiv__(self, other: Progression | int) -> Progression:
        by = self._of(other)
        exact = isinstance(other, int) and other > 0 and self.multiple % other == 0
        multiple = self.multiple // other if exact and isinstance(other, int) else 1
        if by.fixed and (self.fixed or self._stays_within(gcd(self.multiple, by.multiple))):
            return Progression(multiple, 0, self.count)
        if exact and isinstance(other, int) and self.step is not None and self.step % other == 0:
            return Progression(multiple, self.step // other, self.count)
        return Progression(multiple, None, self.count)

    def __rfloordiv__(self, other: int) -> Progression:
        return self._of(other) // self

    def __mod__(self, other: Progression | int) -> Progression:
        by = self._of(other)
        multiple = gcd(self.multiple, by.multiple)
        if by.fixed and (self.fixed or self._stays_within(multiple)):
            return Progression(multiple, self.step, self.count)
        return Progression(multiple, None, self.count)

    def __rmod__(self, other: int) -> Progression:
        return self._of(other) % self

    def __xor__(self, other: Progression | int) -> Progression:
        other = self._of(other)
        common = gcd(self.multiple, other.multiple)
        power = common & -common  # bits below it are 0 in both bases
        if self.fixed and other.fixed:
            return Progression(power, 0, self.count)
        moving, still = (self, other) if other.fixed else (other, self)
        step = moving.step if still.fixed and moving._stays_within(power) else None
        return Progression(power, step, self.count)

    __rxor__ = __xor__

    def __ge__(self, other: Progression | int) -> bool:
        """Whether `self >= other` has one outcome for all elements."""
        difference = self - other
        return difference.fixed or difference._stays_within(difference.multiple)

    def __lt__(self, other: Progression | int) -> bool:
        """Whether `self < other` has one outcome for all elements."""
        return self >= other

    def __le__(self, other: int) -> bool:
        """Whether `other >= self`, of a number, has one outcome for all elements."""
        return self._of(other) >= self

    def __gt__(self, other: int) -> bool:
        """Whether `other < self`, of a number, has one outcome for all elements."""
        return self._of(other) < self
