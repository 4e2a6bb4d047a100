"""The notation of distributions, e.g. `d0: 4@y0 4@wave 16@lane, d1: 4@lane 8@y1`; `distribution` explains it."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ckmlir.dialect.distribution_factors import LANE, OWNERS, REGISTER, WAVE, Factor, Row


def write(replicated: Row, dims: Sequence[Row], names: Sequence[str]) -> str:
    """The notation of canonical factors, with these names for the dimensions."""
    rows = [*([("r", replicated)] if replicated else []), *zip(names, dims, strict=True)]
    ranks: dict[str, list[int]] = {owner: [] for owner in OWNERS}
    for _, factors in rows:
        for factor in factors:
            ranks[factor.owner].append(factor.rank)

    def owner_text(factor: Factor) -> str:
        if factor.owner == REGISTER:
            return f"y{factor.rank}"
        in_order = ranks[factor.owner] == sorted(ranks[factor.owner])
        return factor.owner if in_order else f"{factor.owner}.{factor.rank}"

    parts = (
        f"{name}: {' '.join(f'{factor.length}@{owner_text(factor)}' for factor in factors) or '1'}"
        for name, factors in rows
    )
    return ", ".join(parts)


_FACTOR = re.compile(r"(?P<length>\d+)\s*@\s*(?P<owner>wave|lane|y(?P<y>\d+))(?:\.(?P<rank>\d+))?")


def parse(text: str) -> tuple[Row, tuple[Row, ...]]:
    """The replicated factors and those of every dimension.

    Raises:
        ValueError: malformed text; the message quotes the part.
    """
    rows: list[tuple[str, list[tuple[int, str, int | None]]]] = []
    for part in text.split(","):
        name, colon, factors = part.partition(":")
        if not colon or not re.fullmatch(r"\w+", name.strip()):
            raise ValueError(f"distribution: '{part.strip()}' is not 'name: factors', e.g. 'd0: 4@wave 16@lane'")
        rows.append((name.strip(), _parse_factors(factors)))
    ranked = _ranks([factors for _, factors in rows])
    if rows[0][0] == "r":
        return ranked[0], tuple(ranked[1:])
    return (), tuple(ranked)


def _parse_factors(text: str) -> list[tuple[int, str, int | None]]:
    factors: list[tuple[int, str, int | None]] = []
    for word in re.split(r"[\s×*]+", re.sub(r"\s*@\s*", "@", text.strip())):
        if word in ("1", ""):
            continue
        match = _FACTOR.fullmatch(word)
        if match is None:
            raise ValueError(f"distribution: '{word}' is not a factor; write 4@wave, 16@lane, 16@lane.0 or 8@y1")
        if match["y"]:
            factors.append((int(match["length"]), REGISTER, int(match["y"])))
        else:
            factors.append((int(match["length"]), match["owner"], int(match["rank"]) if match["rank"] else None))
    return factors


def _ranks(rows: list[list[tuple[int, str, int | None]]]) -> list[Row]:
    """Factors without a rank are numbered in order of appearance; all factors of an owner have one, or none."""
    for owner in (WAVE, LANE):
        given = [rank for row in rows for _, name, rank in row if name == owner]
        if None in given and any(rank is not None for rank in given):
            raise ValueError(f"distribution: either all parts of @{owner} carry a rank (@{owner}.0) or none")
    count = dict.fromkeys(OWNERS, 0)
    ranked: list[Row] = []
    for row in rows:
        factors: list[Factor] = []
        for length, owner, rank in row:
            factors.append(Factor(length, owner, count[owner] if rank is None else rank))
            count[owner] += 1
        ranked.append(tuple(factors))
    return ranked
