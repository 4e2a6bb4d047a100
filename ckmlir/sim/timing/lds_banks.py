"""What an LDS access costs: how its lanes meet in the banks.

LDS serves the lanes of an access in phases; lanes of one phase that want different dwords of one bank are served one
after the other. Which lanes form a phase, and over how many banks, are parameters ("lds.phases.read_16", …).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

from ckmlir.sim.step_recording import NO_ADDRESS
from ckmlir.sim.timing.access_patterns import AccessKind
from ckmlir.sim.timing.compiled import compiled
from ckmlir.sim.timing.parameters import ParameterError, Parameters

if TYPE_CHECKING:
    from ckmlir.sim.timing.recording import Trace

WIDTHS: Final = (4, 8, 12, 16)
"""Bytes of a lane that have phases of their own; 1 and 2 behave as 4."""
MOST_WORDS: Final = 256  # of one phase: 64 lanes of 16 bytes
_NONE: Final = np.uint64(NO_ADDRESS)
_LDS: Final = AccessKind.LDS


def phases_of(parameters: Parameters, kind: str, width: int) -> tuple[int, npt.NDArray[np.int64]]:
    """(banks, the phase of each lane) of a "read" or "write" of `width` bytes a lane.

    Raises:
        ParameterError: The phases do not hold each lane once.
    """
    name = f"{kind}_{max(width, 4)}"
    phase = np.full(64, -1, np.int64)
    for number, group in enumerate(parameters.text(f"lds.phases.{name}").split("|")):
        for part in group.split(","):
            first, _, last = part.strip().partition("-")
            if not (first.isdigit() and (last or first).isdigit() and int(last or first) < 64):
                raise ParameterError(f"lds.phases.{name}: '{part.strip()}' is not a range of lanes such as 0-31")
            lanes = slice(int(first), int(last or first) + 1)
            if (phase[lanes] >= 0).any():
                raise ParameterError(f"lds.phases.{name}: lanes {part.strip()} are in two phases")
            phase[lanes] = number
    if (phase < 0).any():
        raise ParameterError(f"lds.phases.{name}: lane {int(np.argmin(phase))} is in no phase")
    return parameters.integer(f"lds.banks.{name}"), phase


@compiled
def bank_cycles(
    addresses: npt.NDArray[np.uint64],
    bytes: int,
    phase: npt.NDArray[np.int64],
    banks: int,
    words: npt.NDArray[np.int64],
) -> tuple[int, int]:
    """(turns of the banks that an access takes, those it would take without conflicts).

    A phase without active lanes takes none. `words` is a row of room for each bank: how many dwords, then the dwords.
    """
    needed = 0
    phases = 0
    dwords = (bytes + 3) // 4
    for number in range(64):
        worst = 0
        members = 0
        for bank in range(banks):
            words[bank, 0] = 0
        for lane in range(64):
            members += phase[lane] == number
            if phase[lane] != number or addresses[lane] == _NONE:
                continue
            first = np.int64(addresses[lane]) >> 2
            for word in range(first, first + dwords):
                row = words[word % banks]
                known = False
                for index in range(1, row[0] + 1):
                    if row[index] == word:
                        known = True
                        break
                if not known:
                    row[0] += 1
                    row[row[0]] = word
                    worst = max(worst, row[0])
        if members == 0:
            break
        needed += worst
        phases += worst > 0
    return needed, phases


def room_for_words() -> npt.NDArray[np.int64]:
    """What `bank_cycles` needs: 64 banks, each with as many dwords as a phase can have."""
    return np.zeros((64, MOST_WORDS + 1), np.int64)


@compiled
def _all_costs(
    accesses: npt.NDArray[Any], patterns: npt.NDArray[np.uint64], phases: npt.NDArray[np.int64],
    banks: npt.NDArray[np.int64], turns: npt.NDArray[np.int64], words: npt.NDArray[np.int64],
    lanes: npt.NDArray[np.uint64], known: npt.NDArray[np.int64], costs: npt.NDArray[np.int32],
    conflicts: npt.NDArray[np.int32],
) -> None:  # fmt: skip
    """`bank_cycles` of each access to LDS, times the cycles of a turn.

    Accesses of a pattern that are whole dwords apart meet alike, in other banks. known: For each pattern and table of
    phases, what was computed last (0: nothing yet), cost and conflicts. lanes: Room for the addresses of one access.
    """
    for number in range(len(accesses)):
        one = accesses[number]
        if one["kind"] != _LDS:
            continue
        bytes, is_store, odd = np.int64(one["bytes"]), np.int64(one["store"]), np.int64(one["base"] & np.uint64(3))
        table = len(WIDTHS) * is_store + min(max((bytes + 3) // 4, 1), len(WIDTHS)) - 1
        row, what = known[one["pattern"], table], 4 * bytes + odd
        if row[0] != what:
            pattern = patterns[one["pattern"]]
            for lane in range(64):
                lanes[lane] = _NONE if pattern[lane] == _NONE else pattern[lane] + np.uint64(odd)
            needed, free = bank_cycles(lanes, bytes, phases[table], banks[table], words)
            row[0], row[1], row[2] = what, needed * turns[table], (needed - free) * turns[table]
        costs[number], conflicts[number] = row[1], row[2]


def lds_costs(trace: Trace, parameters: Parameters) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]:
    """For each access of a trace: cycles that LDS is busy with it, and how many of those are conflicts. 0 for accesses
    to memory.

    A phase over all banks takes the cycles that its bytes take at "lds.bytes" a cycle; a conflict as many more.
    """
    accesses, patterns = trace.accesses, trace.patterns
    found = [phases_of(parameters, kind, width) for kind in ("read", "write") for width in WIDTHS]
    banks = np.array([one[0] for one in found], np.int64)
    phases = np.stack([one[1] for one in found])
    turns = np.maximum(1, np.rint(4 * banks / parameters.number("lds.bytes"))).astype(np.int64)
    costs, conflicts = np.zeros(len(accesses), np.int32), np.zeros(len(accesses), np.int32)
    known, lanes = np.zeros((len(patterns), len(found), 3), np.int64), np.zeros(64, np.uint64)
    _all_costs(accesses, patterns, phases, banks, turns, room_for_words(), lanes, known, costs, conflicts)
    return costs, conflicts
