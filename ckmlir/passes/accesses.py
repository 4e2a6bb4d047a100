"""Which registers of a thread travel together: grouping a distribution's registers into vector accesses."""

from functools import lru_cache
from math import gcd

import numpy as np

from ckmlir.dialect.distribution import Distribution


@lru_cache(maxsize=2048)
def plan_accesses(distribution: Distribution, dimension: int, maximum: int) -> tuple[tuple[int, ...], ...]:
    """The registers of every access: runs of neighbours along `dimension`, at most `maximum` long, aligned to their
    length.

    All accesses have one length, a power of two, and come in the order of their first register. That every thread's
    runs start at multiples of the length is checked over all threads, so an access may rely on it.
    """
    coordinates = distribution.coordinates()
    thread = coordinates[:, 0, 0, :]
    others = [
        tuple(thread[d, register] for d in range(len(thread)) if d != dimension)
        for register in range(distribution.registers)
    ]
    along = thread[dimension]
    order = sorted(range(distribution.registers), key=lambda register: (others[register], along[register]))
    runs: list[list[int]] = []
    for register in order:
        previous = runs[-1][-1] if runs else None
        if previous is not None and others[previous] == others[register] and along[previous] + 1 == along[register]:
            runs[-1].append(register)
        else:
            runs.append([register])
    length = 1 << (maximum.bit_length() - 1)
    for run in runs:
        starts = int(np.gcd.reduce(coordinates[dimension, :, :, run[0]], axis=None))
        length = gcd(length, gcd(len(run), starts) or length)
    pieces = [tuple(run[i : i + length]) for run in runs for i in range(0, len(run), length)]
    return tuple(sorted(pieces, key=min))


def run_length(distribution: Distribution, dimension: int, maximum: int) -> int:
    """The vector length that `plan_accesses` finds along a dimension."""
    return len(plan_accesses(distribution, dimension, maximum)[0])
