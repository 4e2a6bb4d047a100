"""What an LDS access costs: how its lanes meet in the banks.

LDS serves the lanes of an access in phases; lanes of one phase that want different dwords of one bank are served one
after the other. Which lanes form a phase, and over how many banks, are parameters ("lds.phases.read_16", …).
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from ckmlir.sim.timing.compiled import compiled
from ckmlir.sim.timing.parameters import ParameterError, Parameters
from ckmlir.sim.timing.recording import NO_ADDRESS, AccessKind, Trace

WIDTHS: Final = (4, 8, 12, 16)
"""Bytes of a lane that have phases of their own; 1 and 2 behave as 4."""
MOST_WORDS: Final = 256  # of one phase: 64 lanes of 16 bytes
_NONE: Final = np.uint64(NO_ADDRESS)


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
                raise ParameterError(f"lds.phases.{name}: '{part.strip()}' is no range of lanes such as 0-31")
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
def _alike(first: npt.NDArray[np.uint64], second: npt.NDArray[np.uint64]) -> bool:
    """Whether two accesses are as many dwords apart in all lanes: then lanes meet alike, in other banks."""
    lane = 0
    while lane < 63 and first[lane] == _NONE:
        lane += 1
    delta = second[lane] - first[lane]
    if delta % np.uint64(4) != 0:
        return False
    different = 0
    for lane in range(64):  # without a way out, so that it becomes vector code
        one, two = first[lane], second[lane]
        inactive = (one == _NONE) & (two == _NONE)
        different += (not inactive) & ((two - one != delta) | (one == _NONE) | (two == _NONE))
    return different == 0


@compiled
def count_lanes(addresses: npt.NDArray[np.uint64], lanes: npt.NDArray[np.int64]) -> None:
    """The active lanes of each access."""
    for row in range(addresses.shape[0]):
        count = 0
        for lane in range(64):
            count += addresses[row, lane] != _NONE
        lanes[row] = count


@compiled
def _all_costs(
    rows: npt.NDArray[np.int64], sites: npt.NDArray[np.int64], addresses: npt.NDArray[np.uint64],
    bytes: npt.NDArray[np.int64], tables: npt.NDArray[np.int64], phases: npt.NDArray[np.int64],
    banks: npt.NDArray[np.int64], before: npt.NDArray[np.int64], words: npt.NDArray[np.int64],
    needed: npt.NDArray[np.int64], free: npt.NDArray[np.int64],
) -> None:  # fmt: skip
    """`bank_cycles` of each row, once for accesses of an instruction that follow each other and are alike.

    before: For each site the row of its last access, -1 at first.
    """
    for row in rows:
        table, last = tables[row], before[sites[row]]
        before[sites[row]] = row
        if last >= 0 and tables[last] == table and _alike(addresses[last], addresses[row]):
            needed[row], free[row] = needed[last], free[last]
        else:
            needed[row], free[row] = bank_cycles(addresses[row], bytes[row], phases[table], banks[table], words)


def lds_costs(trace: Trace, parameters: Parameters) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """For each access of a trace: cycles that LDS is busy with it, and how many of those are conflicts. 0 for accesses
    to memory.

    A phase over all banks takes the cycles that its bytes take at "lds.bytes" a cycle; a conflict as many more.
    """
    accesses = trace.accesses
    kinds = [(kind, width) for kind in ("read", "write") for width in WIDTHS]
    found = [phases_of(parameters, *one) for one in kinds]
    banks = np.array([one[0] for one in found], np.int64)
    phases = np.stack([one[1] for one in found])
    widths = np.clip((accesses["bytes"].astype(np.int64) + 3) // 4, 1, 4)
    tables = accesses["store"].astype(np.int64) * len(WIDTHS) + widths - 1
    needed, free = np.zeros(len(accesses), np.int64), np.zeros(len(accesses), np.int64)
    rows = np.flatnonzero(accesses["kind"] == AccessKind.LDS)
    bytes = accesses["bytes"].astype(np.int64)
    sites = _sites(trace)
    before = np.full(int(sites.max()) + 1 if len(sites) else 0, -1, np.int64)
    words = room_for_words()
    _all_costs(rows, sites, trace.addresses, bytes, tables, phases, banks, before, words, needed, free)
    turn = np.maximum(1, np.rint(4 * banks / parameters.number("lds.bytes"))).astype(np.int64)
    return needed * turn[tables], (needed - free) * turn[tables]


def _sites(trace: Trace) -> npt.NDArray[np.int64]:
    """A number for each access that tells apart instructions and which of an instruction's accesses it is."""
    making = trace.steps[trace.steps["access"] >= 0]
    sites = np.zeros(len(trace.accesses), np.int64)
    for position in range(int(making["accesses"].max()) if len(making) else 0):
        some = making[making["accesses"] > position]
        sites[some["access"] + position] = some["instruction"].astype(np.int64) * 256 + position
    _, numbers = np.unique(sites, return_inverse=True)
    return numbers.astype(np.int64)


def describe_phases(parameters: Parameters) -> dict[tuple[str, int], Any]:
    """(banks, phases as tuples of lanes) by kind and width."""
    found = {}
    for kind in ("read", "write"):
        for width in WIDTHS:
            banks, phase = phases_of(parameters, kind, width)
            lanes = [tuple(np.flatnonzero(phase == number).tolist()) for number in range(int(phase.max()) + 1)]
            found[kind, width] = (banks, tuple(lanes))
    return found
