"""Turns of waves that end between accesses to memory, and not at barriers only (checker `interleaving`).

By default a wave runs to its next barrier before another goes on, so that where a barrier is missing some orders of
accesses are never seen. Here a record before each instruction that accesses memory ends a turn after some of them: as
many as the next row of a table says, which the simulator's seed fills. Some turns have one access, some run far ahead.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from ckmlir.sim import state
from ckmlir.sim.checks.variants import accesses_memory
from ckmlir.sim.handler import HandlerBuilder, HandlerKey
from ckmlir.sim.selected import Selected
from ckmlir.sim.state import Status

LENGTHS: Final = 256
"""Rows of the table; behind the last one comes the first."""
TURN: Final = HandlerKey("end_turn")


def turn_lengths(random: np.random.Generator) -> npt.NDArray[np.uint64]:
    """The table: how many accesses a turn has behind its first, 0 in half of them, 2 in a quarter, then 6, 14, …"""
    doublings = np.minimum(random.geometric(0.5, LENGTHS), 12)
    return ((1 << doublings) - 2).astype(np.uint64)


def turn_record(mnemonic: str) -> Selected | None:
    """What stands before the records of an instruction that accesses memory."""
    return Selected(TURN) if accesses_memory(mnemonic) else None


def emit_turn(name: str) -> tuple[str, set[str]]:
    """The handler of TURN and the declarations it needs."""
    b = HandlerBuilder(TURN, 0)
    left = b.add_to_context_field(state.TURN_LEFT, "-1")
    b.next_unless(b.assign(f"icmp slt i64 {left}, 0"), Status.SWITCHED)
    return b.function(name), b.text.declarations
