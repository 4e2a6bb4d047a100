"""CK Tile's own arguments of a tile distribution, (R, H, P, Y), to and from factors."""

from __future__ import annotations

from typing import NamedTuple

from ckmlir.dialect.distribution_factors import OWNERS, Factor, Row


class Encoding(NamedTuple):
    """CK Tile's arguments: lengths of R, lengths of each H, (major, minor) lists of each P (wave, lane) and of the Ys.

    Major 0 is R, major x + 1 the dimension x.
    """

    rs: tuple[int, ...]
    hs: tuple[tuple[int, ...], ...]
    ps: tuple[tuple[tuple[int, int], ...], ...]
    ys: tuple[tuple[int, int], ...]


def rows_of(encoding: Encoding) -> tuple[Row, ...]:
    """The factors that CK's arguments describe: those of R, then those of every dimension.

    Raises:
        ValueError: a factor has no owner or several, does not exist, or is a replicated register dimension.
    """
    problems = verify_encoding(encoding)
    if problems:
        raise ValueError("distribution: " + "; ".join(problems))
    owner: dict[tuple[int, int], tuple[str, int]] = {}
    for name, parts in zip(OWNERS, (*encoding.ps, encoding.ys), strict=True):
        owner.update({part: (name, rank) for rank, part in enumerate(parts)})
    return tuple(
        tuple(Factor(length, *owner[major, minor]) for minor, length in enumerate(lengths))
        for major, lengths in enumerate((encoding.rs, *encoding.hs))
    )


def encoding_of(rows: tuple[Row, ...]) -> Encoding:
    """CK's arguments for the factors of R and of every dimension."""
    owned: dict[str, list[tuple[int, tuple[int, int]]]] = {owner: [] for owner in OWNERS}
    for major, row in enumerate(rows):
        for minor, factor in enumerate(row):
            owned[factor.owner].append((factor.rank, (major, minor)))
    parts = [tuple(part for _, part in sorted(owned[owner])) for owner in OWNERS]
    lengths = [tuple(factor.length for factor in row) for row in rows]
    return Encoding(lengths[0], tuple(lengths[1:]), tuple(parts[:2]), parts[2])


def verify_encoding(encoding: Encoding) -> list[str]:
    """What is wrong with CK's arguments, in words; empty when they are a distribution."""
    problems: list[str] = []
    if len(encoding.ps) != 2:
        problems.append(f"{len(encoding.ps)} partitions are given; there are two, wave and lane")
    rows = (encoding.rs, *encoding.hs)
    owners: dict[tuple[int, int], list[str]] = {
        (major, minor): [] for major, lengths in enumerate(rows) for minor in range(len(lengths))
    }
    names = [*(f"partition {p}" for p in range(len(encoding.ps))), *(f"y{y}" for y in range(len(encoding.ys)))]
    for name, parts in zip(names, (*encoding.ps, *((part,) for part in encoding.ys)), strict=True):
        for part in parts:
            if part not in owners:
                problems.append(f"{name} names factor {part[1]} of {_row_name(part[0])}, which does not exist")
            else:
                owners[part].append(name)
    for (major, minor), by in owners.items():
        what = f"factor {minor} of {_row_name(major)}"
        if rows[major][minor] < 1:
            problems.append(f"{what} has length {rows[major][minor]}")
        if not by:
            problems.append(f"{what} belongs to no partition and no register dimension")
        elif len(by) > 1:
            problems.append(f"{what} belongs to {' and '.join(by)}; it can belong to one only")
        elif major == 0 and by[0].startswith("y"):
            problems.append(f"{what} is a register dimension; only waves and lanes can hold copies")
    return problems


def _row_name(major: int) -> str:
    return f"dimension {major - 1}" if major else "the replication"
