"""Addresses that do not depend on where the host keeps memory."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ckmlir.sim.timing.compiled import compiled

_NONE = np.uint64(2**64 - 1)


@compiled
def place_addresses(
    addresses: npt.NDArray[np.uint64],
    starts: npt.NDArray[np.uint64],
    ends: npt.NDArray[np.uint64],
    places: npt.NDArray[np.uint64],
    lds: int,
    in_lds: npt.NDArray[np.uint8],
) -> None:
    """Move addresses, in place, from allocations (sorted by start) to the places that these have; where an access hits
    allocation number `lds`, set `in_lds`. Addresses in no allocation become those of inactive lanes."""
    low = 0
    for row in range(addresses.shape[0]):
        for lane in range(addresses.shape[1]):
            address = addresses[row, lane]
            if address == _NONE:
                continue
            if not starts[low] <= address < ends[low]:
                low, high = 0, len(starts)
                while high - low > 1:
                    middle = (low + high) // 2
                    if address >= starts[middle]:
                        low = middle
                    else:
                        high = middle
            if starts[low] <= address < ends[low]:
                addresses[row, lane] = address - starts[low] + places[low]
                if low == lds:
                    in_lds[row] = 1
            else:
                addresses[row, lane] = _NONE
