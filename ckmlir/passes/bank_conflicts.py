"""What an LDS access costs: the cycles that its lanes' addresses take at the banks, by the target's rules."""

from functools import lru_cache

import numpy as np
import numpy.typing as npt

from ckmlir.dialect.distribution import Distribution
from ckmlir.dialect.lds_layout import LdsLayout
from ckmlir.targets import Target

BANK_BYTES = 4
Integers = npt.NDArray[np.int64]


@lru_cache(maxsize=8192)
def access_cycles(
    layout: LdsLayout,
    distribution: Distribution,
    registers: tuple[int, ...],
    element_bytes: int,
    kind: str,
    target: Target,
) -> tuple[int, int]:
    """(cycles, cycles without conflicts) of one access, worst wave: a cycle serves one dword of each bank.

    The lanes of a phase are served together; two different dwords of one bank are served one after the other.
    """
    coordinates = distribution.coordinates()[:, :, :, registers[0]]
    offsets = np.asarray(layout.offset(list(coordinates))) * element_bytes
    width = max(len(registers) * element_bytes, BANK_BYTES)
    access = target.lds_access(kind, width)
    cycles = _cycles_by_wave(offsets, _lanes(access.phases), width // BANK_BYTES, access.banks)
    return int(cycles.max()), len(access.phases) * max(1, len(access.phases[0]) * width // (access.banks * BANK_BYTES))


@lru_cache(maxsize=64)
def _lanes(phases: tuple[tuple[int, ...], ...]) -> Integers:
    return np.array(phases)


def _cycles_by_wave(offsets: Integers, phases: Integers, width: int, banks: int) -> Integers:
    """Cycles of every wave: in each phase as many as the busiest bank has different dwords.

    `offsets` are bytes [wave, lane], `phases` lanes [phase, lane of the phase], `width` dwords a lane.
    """
    dwords = (offsets[:, phases] // BANK_BYTES)[..., None] + np.arange(width)  # [wave, phase, lane, dword]
    waves, count = dwords.shape[:2]
    dwords = np.sort(dwords.reshape(waves * count, -1), axis=1)
    different = np.ones(dwords.shape, dtype=bool)
    different[:, 1:] = dwords[:, 1:] != dwords[:, :-1]
    rows = np.arange(len(dwords))[:, None] * banks + dwords % banks
    busy = np.bincount(rows[different], minlength=len(dwords) * banks).reshape(waves, count, banks)
    cycles: Integers = busy.max(axis=2).sum(axis=1)
    return cycles
