"""Addresses that do not depend on where the host keeps memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from ckmlir.sim.checks.layout import Use
from ckmlir.sim.step_recording import NO_ADDRESS
from ckmlir.sim.timing.access_patterns import ACCESS, AccessKind, Lanes, set_lanes
from ckmlir.sim.timing.compiled import compiled

if TYPE_CHECKING:
    from ckmlir.sim.memory import MemoryTable

_FIRST_PLACE: Final = 1 << 32
_PLACE_STEP: Final = 1 << 12
_NONE: Final = np.uint64(NO_ADDRESS)
_READ, _MEMORY, _LDS, _SCALAR = Use.READ, AccessKind.MEMORY, AccessKind.LDS, AccessKind.SCALAR


class Places(Struct, frozen=True):
    """Allocations, sorted: from where to where the host has them, and their places, which follow from sizes and the
    order of allocation. `lds` is the number of LDS among them, whose place is 0, or -1."""

    starts: Lanes
    ends: Lanes
    places: Lanes
    lds: int


def places_of(table: MemoryTable, lds_address: int) -> Places:
    """The places of all allocations."""
    sizes = {one.address: one.size for one in table.allocations()}
    placed, place = {}, _FIRST_PLACE
    for address in table:
        placed[address] = place
        place += -(-sizes[address] // _PLACE_STEP) * _PLACE_STEP
    starts = sorted(placed)
    lds = starts.index(lds_address) if lds_address in placed else -1
    if lds >= 0:
        placed[starts[lds]] = 0
    return Places(
        np.array(starts, np.uint64),
        np.array([start + sizes[start] for start in starts], np.uint64),
        np.array([placed[start] for start in starts], np.uint64),
        lds,
    )


def place_accesses(
    raw: npt.NDArray[Any], patterns: Lanes, places: Places, is_scalar: npt.NDArray[np.bool_]
) -> tuple[npt.NDArray[Any], Lanes]:
    """The accesses (ACCESS) and patterns that recorded rows are, at their places. is_scalar: By record.

    Addresses in no allocation become those of inactive lanes.
    """
    accesses, astray = np.zeros(len(raw), ACCESS), np.zeros(len(raw), np.uint8)
    reach = np.where(patterns == _NONE, 0, patterns).max(axis=1)
    place_bases(raw, reach, places.starts, places.ends, places.places, places.lds, is_scalar, accesses, astray)
    rows = np.flatnonzero(astray)
    if not len(rows):
        return accesses, patterns.copy()
    some, apart = accesses[rows], patterns[raw["pattern"][rows]]
    addresses, in_lds = _place_lanes(np.where(apart == _NONE, _NONE, raw["base"][rows, None] + apart), places)
    fresh = set_lanes(some, addresses, len(patterns))
    some["kind"] = np.where(some["kind"] == _SCALAR, _SCALAR, np.where(in_lds, _LDS, _MEMORY))
    accesses[rows] = some
    used, numbers = np.unique(accesses["pattern"], return_inverse=True)  # without those that the host's places made
    accesses["pattern"] = numbers
    return accesses, np.concatenate([patterns, fresh])[used]


def _place_lanes(addresses: Lanes, places: Places) -> tuple[Lanes, npt.NDArray[np.bool_]]:
    """Each address at its place, and whether an access hits LDS."""
    at = np.maximum(np.searchsorted(places.starts, addresses, side="right") - 1, 0)
    inside = (addresses >= places.starts[at]) & (addresses < places.ends[at])
    placed: Lanes = np.where(inside, addresses - places.starts[at] + places.places[at], _NONE)
    return placed, (inside & (at == places.lds)).any(axis=1)


@compiled
def place_bases(
    raw: npt.NDArray[Any], reach: Lanes, starts: Lanes, ends: Lanes, places: Lanes, lds: int,
    is_scalar: npt.NDArray[np.bool_], accesses: npt.NDArray[Any], astray: npt.NDArray[np.uint8],
) -> None:  # fmt: skip
    """Accesses of which all lanes are in one allocation; `astray` marks others. reach: Of each pattern, from its first
    address to its last."""
    low = 0
    for row in range(len(raw)):
        given, placed = raw[row], accesses[row]
        base = given["base"]
        placed["base"], placed["pattern"] = base, given["pattern"]
        placed["bytes"], placed["store"] = given["bytes"], given["use"] != _READ
        placed["kind"] = _SCALAR if is_scalar[given["record"]] else _MEMORY
        if base == _NONE:
            continue
        if not starts[low] <= base < ends[low]:
            low, high = 0, len(starts)
            while high - low > 1:
                middle = (low + high) // 2
                if base >= starts[middle]:
                    low = middle
                else:
                    high = middle
        last = base + reach[given["pattern"]]
        if not (starts[low] <= base < ends[low] and base <= last < ends[low]):
            astray[row] = 1
            continue
        placed["base"] = base - starts[low] + places[low]
        if low == lds and placed["kind"] != _SCALAR:
            placed["kind"] = _LDS
