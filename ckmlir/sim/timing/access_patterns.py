"""Accesses of a trace: where each one is, and the pattern that its lanes make there.

Waves access memory in few patterns and many places, so a pattern (64 distances) is kept once, and an access is its
lowest address and the number of its pattern: what depends on the pattern alone is computed once.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from ckmlir.sim.step_recording import NO_ADDRESS

ACCESS: Final = np.dtype([("base", "<u8"), ("pattern", "<u4"), ("bytes", "<u2"), ("kind", "u1"), ("store", "u1")])
"""One access of a wave: lowest address of its lanes (NO_ADDRESS without active ones), row of `Trace.patterns`, bytes of
a lane (of a scalar access: of all), `AccessKind`, whether it writes."""

NO_LANES: Final = np.full(64, NO_ADDRESS, np.uint64)
"""The pattern of an access without active lanes."""

Lanes = npt.NDArray[np.uint64]


class AccessKind:
    """Values of ACCESS "kind"."""

    MEMORY = 0
    LDS = 1
    SCALAR = 2


def lanes_of(accesses: npt.NDArray[Any], patterns: Lanes) -> Lanes:
    """u64 [accesses, 64]: where the access of each lane starts, NO_ADDRESS for lanes without one."""
    apart = patterns[accesses["pattern"]]
    lanes: Lanes = np.where(apart == NO_ADDRESS, np.uint64(NO_ADDRESS), accesses["base"][:, None] + apart)
    return lanes


def set_lanes(accesses: npt.NDArray[Any], addresses: Lanes, first: int = 0) -> Lanes:
    """Let accesses have these addresses: sets their bases and patterns, which are numbered from `first` on, and returns
    the patterns."""
    lowest = addresses.min(axis=1, initial=NO_ADDRESS)
    apart = np.where(addresses == NO_ADDRESS, np.uint64(NO_ADDRESS), addresses - lowest[:, None])
    patterns, numbers = np.unique(apart, axis=0, return_inverse=True)
    accesses["base"], accesses["pattern"] = lowest, first + numbers.reshape(-1)
    return patterns.astype(np.uint64)
