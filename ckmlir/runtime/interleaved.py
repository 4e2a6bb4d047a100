"""Which of several kernels is the fastest on a GPU: timed in turns, until that is known.

A GPU's clock drifts while it gets warm, and other work comes and goes. So candidates take turns, in a new order each
round, and what changes with time changes for all of them. After each round those leave that are slower than the fastest
beyond doubt: whose median's confidence interval lies above that of the fastest. The times of those that left are
brought to the clock of the whole: by how much slower or faster the winner was in the rounds that they shared.
"""

from __future__ import annotations

import itertools
import math
import random
import time
from collections.abc import Callable, Sequence

from msgspec import Struct

from ckmlir.runtime.bench import Times
from ckmlir.runtime.device import Device, Stream

LEAST_ROUNDS, MOST_ROUNDS = 5, 50
LAUNCHES = 4
"""Measured in a turn, after one that is not: the candidate before has filled the caches otherwise."""
NORMAL = 1.96
"""Standard deviations on both sides of the middle, within which a median lies in 95 of 100 cases."""


Candidate = Callable[[Stream], None]
"""What is timed: it queues itself on a stream."""


class Timing(Struct, frozen=True):
    """What is known of a candidate.

    Attributes:
        low, high: between these its median lies with a confidence of 95 %, by the order of the samples alone; seconds.
        times: of launches, brought to the clock of all rounds where it left before.
        left: after which round it left as slower than another one; None where it stayed.
    """

    times: Times
    low: float
    high: float
    left: int | None


Told = Callable[[int, Timing], None]
"""Told the place of a candidate and what is known of it: when it leaves, and of all of them at the end."""


def time_interleaved(
    candidates: Sequence[Candidate],
    device: Device,
    *,
    deadline: float = math.inf,
    report: Told | None = None,
) -> list[Timing]:
    """Time candidates against each other on a GPU; in their order. Rounds take them in orders that are drawn, the same
    in every call.

    Args:
        deadline: on the clock of `time.monotonic`, after which no round begins but the first.

    Raises:
        DeviceError, KernelFault: as the device.
    """
    if not candidates:
        return []
    generator = random.Random(0)
    samples: list[list[float]] = [[] for _ in candidates]
    left: dict[int, int] = {}
    racing = list(range(len(candidates)))
    stream = device.create_stream()
    try:
        for number in range(1, MOST_ROUNDS + 1):
            if number > 1 and time.monotonic() > deadline:
                break
            for place in generator.sample(racing, len(racing)):
                samples[place] += _turn(candidates[place], device, stream)
            if number < LEAST_ROUNDS:
                continue
            bounds = {place: _interval(samples[place]) for place in racing}
            fastest = min(racing, key=lambda place: Times(tuple(samples[place])).median)
            for place in [one for one in racing if bounds[one][0] > bounds[fastest][1]]:
                racing.remove(place)
                left[place] = number
                if report is not None:
                    report(place, _timing(samples[place], number))
            if len(racing) == 1:
                break
    finally:
        stream.close()
    found = []
    winner = samples[min(racing, key=lambda place: Times(tuple(samples[place])).median)]
    for place, own in enumerate(samples):
        shared = Times(tuple(winner[: len(own)])).median
        drift = Times(tuple(winner)).median / shared if shared else 1.0
        found.append(_timing([drift * one for one in own], left.get(place)))
        if report is not None:
            report(place, found[-1])
    return found


def _turn(candidate: Candidate, device: Device, stream: Stream) -> list[float]:
    """Seconds of each measured launch of a turn."""
    events = [device.create_event() for _ in range(LAUNCHES + 1)]
    try:
        candidate(stream)
        events[0].record(stream)
        for event in events[1:]:
            candidate(stream)
            event.record(stream)
        stream.synchronize()
        return [later.seconds_since(one) for one, later in itertools.pairwise(events)]
    finally:
        for event in events:
            event.close()


def _timing(samples: Sequence[float], left: int | None) -> Timing:
    return Timing(Times(tuple(samples)), *_interval(samples), left)


def _interval(samples: Sequence[float]) -> tuple[float, float]:
    """Where the median of what samples are drawn from lies, with 95 %: between two of them, whose ranks follow from
    how often a coin shows heads. Too few samples say nothing: all of them.
    """
    ordered = sorted(samples)
    count = len(ordered)
    reach = NORMAL * math.sqrt(count) / 2
    low, high = math.floor(count / 2 - reach), math.ceil(count / 2 + reach)
    return ordered[max(low, 0)], ordered[min(high, count - 1)]
