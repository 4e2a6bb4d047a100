"""The factors that a distribution's dimensions are made of, and their canonical form."""

from __future__ import annotations

from typing import NamedTuple

WAVE, LANE, REGISTER = "wave", "lane", "register"
OWNERS = (WAVE, LANE, REGISTER)


class Factor(NamedTuple):
    """A factor of a dimension: `length`, whose digit it is, and its rank in that index (0 is the most significant)."""

    length: int
    owner: str
    rank: int


Row = tuple[Factor, ...]
"""The factors of one dimension, most significant first."""


def canonical(replicated: Row, dims: tuple[Row, ...]) -> tuple[Row, tuple[Row, ...]]:
    """Check the factors; drop those of length 1, join neighbours that are one digit, and number ranks from 0."""
    for factor in replicated:
        if factor.owner == REGISTER and factor.length > 1:
            raise ValueError(
                f"distribution: register dimension y{factor.rank} is replicated; only waves and lanes can hold copies"
            )
    factors = [factor for row in (replicated, *dims) for factor in row]
    for owner in OWNERS:
        ranks = sorted(factor.rank for factor in factors if factor.owner == owner)
        if ranks != list(range(len(ranks))):
            raise ValueError(
                f"distribution: the parts of {owner} are numbered {ranks}; every number from 0 must occur once"
            )
    for factor in factors:
        if factor.owner not in OWNERS or factor.length < 1:
            raise ValueError(f"distribution: a factor of length {factor.length} of '{factor.owner}'")
    replicated = tuple(sorted((f for f in replicated), key=lambda f: (f.owner != WAVE, f.rank)))
    long = [tuple(factor for factor in row if factor.length > 1) for row in (replicated, *dims)]
    replicated, dims = renumber(long[0], tuple(long[1:]))
    return renumber(_joined(replicated), tuple(map(_joined, dims)))


def _joined(factors: Row) -> Row:
    joined: list[Factor] = []
    last = -1
    for factor in factors:
        if joined and joined[-1].owner == factor.owner and last + 1 == factor.rank:
            joined[-1] = joined[-1]._replace(length=joined[-1].length * factor.length)
        else:
            joined.append(factor)
        last = factor.rank
    return tuple(joined)


def renumber(replicated: Row, dims: tuple[Row, ...]) -> tuple[Row, tuple[Row, ...]]:
    """The same factors with ranks that count from 0 without gaps."""
    new: dict[tuple[str, int], int] = {}
    for owner in OWNERS:
        ranks = sorted({factor.rank for row in (replicated, *dims) for factor in row if factor.owner == owner})
        new.update({(owner, old): rank for rank, old in enumerate(ranks)})

    def renumbered(row: Row) -> Row:
        return tuple(factor._replace(rank=new[factor.owner, factor.rank]) for factor in row)

    return renumbered(replicated), tuple(map(renumbered, dims))
