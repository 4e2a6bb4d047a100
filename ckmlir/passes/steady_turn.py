"""How many steps the steady loop of a schedule has, so that buffers and registers rotate without copies."""

from collections.abc import Collection
from math import lcm

MOST_STEPS = 16
"""Steps of a steady loop: more would not fit the instruction cache, 64 KB for two compute units (CDNA3 ISA, 2.1)."""


def steady_turn(slots: Collection[int], sets: Collection[int]) -> int:
    """Steps of a turn: a multiple of every number of `slots`, in which LDS buffers rotate, and of as many registers as
    loads need `sets`.

    Where the least common multiple is more than `MOST_STEPS`, loads get more sets than they need: as few as possible in
    all. It is the result where that does not help.
    """
    whole, exact = lcm(*slots), lcm(*slots, *sets)
    able = [steps for steps in range(whole, MOST_STEPS + 1, whole) if steps >= max(sets, default=1)]
    if exact <= MOST_STEPS or not able:
        return exact
    return min(able, key=lambda steps: sum(_taken(need, steps) for need in sets))


def _taken(need: int, steps: int) -> int:
    """The least number from `need` on that divides the steps."""
    return next(number for number in range(need, steps + 1) if steps % number == 0)
