"""Which cases of a test run by default, where not all do; the others run with `full`."""

from __future__ import annotations

import re
import zlib
from collections.abc import Sequence
from typing import Protocol, TypeVar

CHIPS_IN_TURN = ("foreign", "lang", "ops", "sim")
"""Folders whose tests compute the same on every chip."""

_CHIP = re.compile(r"gfx9\w\w")


class Named(Protocol):
    """A case, as pytest knows it."""

    name: str


Case = TypeVar("Case", bound=Named)


def one_in(n: int, cases: Sequence[Case]) -> list[Case]:
    """Those with the smallest digests of their names, one in n and one at least. Whichever cases come or go, the rest
    stay what they are, nearly."""
    in_order = sorted(cases, key=lambda case: zlib.crc32(case.name.encode()))
    return in_order[: max(1, len(cases) // n)]


def chips_in_turn(cases: Sequence[Case]) -> list[Case]:
    """One of those that differ in the chip alone, where a test has at least three such groups: the first chip of the
    first group, the second of the second and so on round, so that every chip is met. All others stay."""
    groups: dict[str, list[Case]] = {}
    for case in cases:
        groups.setdefault(_CHIP.sub("*", case.name, count=1), []).append(case)
    several = [group for name, group in groups.items() if len(group) > 1 and not _CHIP.search(name)]
    if len(several) < 3:
        return list(cases)
    left_out = [case for turn, group in enumerate(several) for case in group if case is not group[turn % len(group)]]
    return [case for case in cases if case not in left_out]
