"""Rows of 16 neighbouring lanes, in which one lane hands on to the others what it has.

Where all lanes of a row want the same elements, each loads a share of them, and they take the rest from each other.
"""

from __future__ import annotations

from functools import lru_cache
from math import gcd, prod

from ckmlir.dialect.distribution import LANE, REGISTER, Distribution, Factor

ROW = 16
"""Lanes among which one instruction hands on a register (DPP's row_newbcast)."""


def dealt_out(distribution: Distribution) -> Distribution:
    """The tile without the copies that neighbouring lanes of a row hold: each of them has a share of the elements.

    Some copies stay where lanes have fewer elements than there are copies; the tile is the same where there are none.
    """
    digits = zip(distribution.replicated, distribution.replicated_digits(), strict=True)
    copies = next((one for one, digit in digits if (digit.source, digit.source_weight) == (LANE, 1)), None)
    if copies is None:
        return distribution
    left, shares = gcd(copies.length, ROW), {}
    for rank, length in reversed([*enumerate(distribution.register_lengths)]):  # the fastest first
        shares[rank] = gcd(length, left)
        left //= shares[rank]

    def dealt(factor: Factor) -> tuple[Factor, ...]:
        if factor.owner != REGISTER:
            return (factor,)
        share = shares[factor.rank]
        return factor._replace(length=factor.length // share), Factor(share, LANE, copies.rank + 1 + factor.rank)

    rest = copies._replace(length=copies.length // prod(shares.values()))
    replicated = (rest if one is copies else one for one in distribution.replicated)
    dims = (tuple(part for factor in row for part in dealt(factor)) for row in distribution.dims)
    return Distribution(tuple(replicated), tuple(dims))


@lru_cache(maxsize=256)
def row_map(source: Distribution, target: Distribution) -> tuple[tuple[int, int], ...] | None:
    """For each register of `target` the lane of a row, and the register of `source` there, from which all lanes of the
    row take it. None where they want different elements, or no lane of the row has what they want.

    Raises:
        ValueError: the tiles or the numbers of waves and lanes differ.
    """
    if (source.lengths, source.waves, source.lanes) != (target.lengths, target.waves, target.lanes):
        raise ValueError(f"'{source}' and '{target}' are not one tile over the same threads")
    if source.lanes % ROW:
        return None
    rows = (source.waves, source.lanes // ROW, -1)  # of a row's lanes one behind the other
    held, wanted = source.elements().reshape(rows), target.elements()[:, ::ROW]
    first = {element: place for place, element in reversed([*enumerate(held[0, 0].tolist())])}
    places = [first.get(element, -1) for element in wanted[0, 0].tolist()]
    alike = bool((target.elements().reshape(*rows[:2], ROW, -1) == wanted[:, :, None]).all())
    if -1 in places or not alike or not (held[:, :, places] == wanted).all():
        return None
    return tuple(divmod(place, source.registers) for place in places)
