"""Workgroups of a launch in any order: the simulator takes them from the first on, unless they wait for each other."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

import numpy as np

from ckmlir.sim.runner import Runner


@contextmanager
def in_any_order(seed: int) -> Iterator[None]:
    """Have every launch meanwhile begin its workgroups in an order that is drawn."""
    random, run = np.random.default_rng(seed), Runner.run

    def drawn(runner: Runner, first: int, end: int) -> None:
        for group in random.permutation(np.arange(first, end)).tolist():
            run(runner, group, group + 1)

    with patch.object(Runner, "run", drawn):
        yield
