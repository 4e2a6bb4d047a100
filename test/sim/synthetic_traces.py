"""Traces for tests of the timing model, from assembly text: every wave executes the lines once, from first to last."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
from assembly import assemble

from ckmlir.sim.analysis.effects import Category, effects_of
from ckmlir.sim.decode.decoder import decode_all
from ckmlir.sim.timing.access_patterns import set_lanes
from ckmlir.sim.timing.compute_unit import simulate
from ckmlir.sim.timing.events import Timeline
from ckmlir.sim.timing.parameters import load
from ckmlir.sim.timing.recording import ACCESS, NO_ADDRESS, STEP, AccessKind, Trace, TracedInstruction

Addresses = Callable[[int, int], Sequence[int]]
"""Of the lanes of an access: wave, number of the access of that wave."""

_BYTES = {"b32": 4, "b64": 8, "b96": 12, "b128": 16, "dword": 4, "dwordx2": 8, "dwordx4": 16}


def lane_after_lane(bytes: int) -> Addresses:
    """The same consecutive addresses for every access."""
    return lambda wave, number: range(0, 64 * bytes, bytes)


def trace_of(
    target: str,
    text: str,
    waves: int = 1,
    workgroups: int = 1,
    addresses: Addresses | None = None,
    vector_registers: int = 64,
    lds_bytes: int = 0,
    skips: Callable[[int, int], bool] = lambda wave, index: False,
) -> Trace:
    """A trace of `waves` waves in each of some workgroups. s_endpgm is added to the lines. skips: Whether a wave leaves
    out a line."""
    instructions = decode_all(assemble(f"{text}\ns_endpgm", target), 0, target)
    program = tuple(TracedInstruction(one.address, one.mnemonic, one, None) for one in instructions)
    rows: list[list[int]] = []
    accesses: list[tuple[int, int, int, int, int]] = []
    steps: list[tuple[int, int, int, int, int]] = []
    first: list[int] = []
    for wave in range(waves * workgroups):
        number = 0
        first.append(len(steps))
        for index, one in enumerate(instructions):
            if skips(wave, index):
                continue
            category = effects_of(one).category
            if category not in (Category.LDS, Category.VMEM, Category.SMEM):
                steps.append((wave, index, 64, 0, -1))
                continue
            assert addresses is not None
            steps.append((wave, index, 64, 1, len(rows)))
            lanes = list(addresses(wave, number))
            rows.append(lanes + [NO_ADDRESS] * (64 - len(lanes)))
            kind = {Category.LDS: AccessKind.LDS, Category.VMEM: AccessKind.MEMORY}.get(category, AccessKind.SCALAR)
            store = "write" in one.mnemonic or "store" in one.mnemonic
            accesses.append((0, 0, _BYTES[one.mnemonic.split("_")[-1]], kind, store))
            number += 1
    first.append(len(steps))
    table: npt.NDArray[np.uint64] = np.array(rows, np.uint64).reshape(-1, 64)
    made = np.array(accesses, ACCESS)
    patterns = set_lanes(made, table)
    groups = np.repeat(np.arange(workgroups), waves)
    return Trace(
        target, "k", program, np.array(steps, STEP), np.array(first, np.int64), groups, made,
        patterns, (workgroups, 1, 1), (64 * waves, 1, 1), vector_registers, 32, lds_bytes,
    )  # fmt: skip


def time_of(target: str, text: str, *overrides: str, resident: int | None = None, **options: object) -> Timeline:
    """The model's timeline of `trace_of` with some parameters changed."""
    return simulate(trace_of(target, text, **options), load(target, overrides=overrides), resident=resident)


def issue_cycles(timeline: Timeline, wave: int = 0) -> list[int]:
    """The cycles at which a wave's instructions issued, from its first one on."""
    cycles = timeline.events["issue"][timeline.events["wave"] == wave]
    return (cycles - cycles[0]).tolist()
