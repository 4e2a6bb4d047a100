"""How long the steady step of a schedule takes, by the model of time, before a backend has seen it.

The same loop that models machine code (`sim.timing.issue`) runs the instructions that `step_stream` expects. So what
waves do to each other, to LDS and to the matrix cores is the full model's; what a backend moves, merges and adds is not
known, nor are addresses: loads take as long as `Surroundings` says, accesses to LDS have no bank conflicts. It ranks
schedules: docs/schedules.md says how well.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
from msgspec import Struct

from ckmlir.mlir import ir
from ckmlir.passes.walk import functions, waves_of
from ckmlir.scheduling.step_stream import Issued, StepStream, stream_of

if TYPE_CHECKING:
    from ckmlir.sim.timing.classes import Code, Integers
    from ckmlir.sim.timing.compute_unit import Work
    from ckmlir.sim.timing.events import Timeline
    from ckmlir.sim.timing.parameters import Parameters

TURNS: Final = 8
"""Turns of the steady loop that are modelled; the first `WARM` of them are left out."""
WARM: Final = 3
LOAD_CYCLES: Final = 600
"""A load's time where nobody has measured it: between L2 and HBM."""
SIZE: Final = 8
"""Bytes of an instruction in the code."""
WIDTHS: Final = (4, 8, 12, 16)


class Surroundings(Struct, frozen=True):
    """What a step meets and its program does not say.

    Attributes:
        workgroups: on a compute unit at a time.
        load_cycles: from a load's issue to its result.
    """

    workgroups: int = 1
    load_cycles: int = LOAD_CYCLES


def surroundings(timeline: Timeline) -> Surroundings:
    """Those of a kernel that the full model has seen, for other schedules of it."""
    from ckmlir.sim.timing.events import Unit
    from ckmlir.sim.timing.occupancy import trace_occupancy

    trace = timeline.trace
    loads = timeline.events[timeline.events["unit"] == Unit.VMEM]
    took = np.sort(loads["done"] - loads["issue"])
    workgroups = min(trace_occupancy(trace, timeline.parameters).workgroups, len(trace.workgroups))
    return Surroundings(workgroups, int(took[len(took) // 2]) if len(took) else LOAD_CYCLES)


class StepTime(NamedTuple):
    """A step before LLVM: cycles by the model, and the registers of a lane that its values take at least."""

    cycles: float
    registers: int


def step_time(
    module: ir.Module, fragments: int, parameters: Parameters, around: Surroundings | None = None, *, groups: int = 1
) -> StepTime:
    """One step of a scheduled module's main loop, its context entered.

    Args:
        fragments: of one step (`Problem.fragments`): the steady loop may hold several.
        groups: of waves that run the loop out of phase.

    Raises:
        ProblemError: no block of the kernel follows itself.
    """
    stream = stream_of(module)
    waves = waves_of(next(iter(functions(module))))
    turn = turn_cycles(stream, waves, parameters, around or Surroundings(), groups=groups)
    return StepTime(turn * fragments / max(1, stream.fragments), stream.registers)


def turn_cycles(
    stream: StepStream, waves: int, parameters: Parameters, around: Surroundings, *, groups: int = 1
) -> float:
    """Cycles of one turn of a steady loop that so many waves of each workgroup run."""
    from ckmlir.sim.timing.compute_unit import run_waves
    from ckmlir.sim.timing.memory_shares import new_memory

    numbers = parameters.with_values({"memory.l1.latency": around.load_cycles})
    work, first = _work(stream, waves, parameters, around.workgroups, groups)
    unit = run_waves(_code(stream, parameters, groups), work, numbers, new_memory(numbers, 1), around.workgroups)
    issue = np.zeros(len(work.steps), np.int64)
    issue[unit.events["step"]] = unit.events["issue"]
    starts = issue[first[:, None] + len(stream.body) * np.arange(TURNS)]
    return float(np.mean(starts[:, -1] - starts[:, WARM]) / (TURNS - 1 - WARM))


def _work(
    stream: StepStream, waves: int, parameters: Parameters, workgroups: int, groups: int
) -> tuple[Work, Integers]:
    """What the waves execute, and at which step each begins its first turn. Groups of waves behind the first arrive at
    barriers more often before the loop (docs/schedules.md); they stand before the body in the code, one for each.
    """
    from ckmlir.sim.timing.compute_unit import Work
    from ckmlir.sim.timing.recorded_runs import STEP

    body = np.arange(len(stream.body)) + groups - 1
    end = groups - 1 + len(stream.body)
    orders, begins, count = [], [], 0
    for wave in range(waves * workgroups):
        group = wave % waves * groups // waves
        orders.append(np.concatenate([np.arange(groups - 1 - group, groups - 1), np.tile(body, TURNS), [end]]))
        begins.append(count + group)
        count += len(orders[-1])
    accesses, patterns, costs, rows = _accesses(stream, parameters)
    steps = np.zeros(count, STEP)
    steps["instruction"] = np.concatenate(orders)
    first, number = rows
    inside = (steps["instruction"] >= groups - 1) & (steps["instruction"] < end)
    at = np.where(inside, steps["instruction"].astype(np.int64) - (groups - 1), 0)
    steps["access"], steps["accesses"] = np.where(inside, first[at], -1), np.where(inside, number[at], 0)
    bounds = np.cumsum([0, *map(len, orders)]).astype(np.int64)
    workgroup = np.repeat(np.arange(workgroups), waves).astype(np.int64)
    return Work(steps, bounds, workgroup, accesses, patterns, costs), np.array(begins, np.int64)


def _accesses(stream: StepStream, parameters: Parameters) -> tuple[Any, Any, Any, tuple[Any, Any]]:
    """ACCESS rows, patterns, cycles of LDS, and for each instruction its first access and how many it makes. All go to
    the same place: the caches of a model without addresses hold it.
    """
    from ckmlir.sim.timing.access_patterns import ACCESS, AccessKind
    from ckmlir.sim.timing.lds_banks import phases_of

    patterns = np.stack([np.arange(64, dtype=np.uint64) * np.uint64(width) for width in WIDTHS])
    accesses: list[tuple[int, int, int, int, bool]] = []
    costs, first, number = [], [], []
    turn = {
        (kind, width): _turns(parameters, *phases_of(parameters, kind, width))
        for kind in ("read", "write") for width in WIDTHS
    }  # fmt: skip
    for one in stream.body:
        first.append(len(accesses))
        width = next((width for width in WIDTHS if width >= one.width), WIDTHS[-1])
        if one.kind in ("load", "store", "copy"):
            accesses.append((0, WIDTHS.index(width), width, AccessKind.MEMORY, one.kind == "store"))
            costs.append(0)
        if one.kind in ("read", "write", "copy"):
            writes = one.kind != "read"
            accesses.append((0, WIDTHS.index(width), width, AccessKind.LDS, writes))
            costs.append(turn["write" if writes else "read", width])
        number.append(len(accesses) - first[-1])
    if not accesses:
        accesses, costs = [(0, 0, 4, AccessKind.SCALAR, False)], [0]
    return np.array(accesses, ACCESS), patterns, np.array(costs, np.int32), (np.array(first), np.array(number))


def _turns(parameters: Parameters, banks: int, phase: Integers) -> int:
    """Cycles of LDS for an access without conflicts."""
    return int(phase.max() + 1) * max(1, round(4 * banks / parameters.number("lds.bytes")))


def _code(stream: StepStream, parameters: Parameters, groups: int) -> Code:
    """The model's description of the instructions: barriers of groups of waves behind the first, the body, the end."""
    from ckmlir.sim.timing.classes import NO_WAIT, Action, Code, Role

    body = [*[Issued("barrier")] * (groups - 1), *stream.body, Issued("end")]
    actions = {"wait": Action.WAIT, "barrier": Action.BARRIER, "priority": Action.PRIORITY, "end": Action.END}
    times = [_times(one, parameters) for one in body]
    uses = [
        [(chain, Role.FACTOR if one.kind == "matrix" else Role.OTHER) for chain in one.uses]
        + [(one.adds, Role.ACCUMULATOR)] * (one.adds >= 0)
        for one in body
    ]
    writes = [[one.adds] * (one.adds >= 0) for one in body]

    def array(values: Any) -> Integers:
        return np.array(list(values), np.int64)

    def allowed(one: Issued, count: int | None) -> int:
        return NO_WAIT if one.kind != "wait" or count is None else count

    def starts(lists: Sequence[Sequence[Any]]) -> Integers:
        return np.cumsum([0, *map(len, lists)]).astype(np.int64)

    return Code(
        unit=array(_unit(one.kind) for one in body),
        busy=array(busy for busy, _, _ in times),
        holds_valu=array(holds for _, holds, _ in times),
        ready=array(ready for _, _, ready in times).reshape(-1, 4),
        written=array(one.adds for one in body),
        added=array(one.adds for one in body),
        uses_first=starts(uses),
        uses=array(chain for row in uses for chain, _ in row),
        roles=array(role for row in uses for _, role in row),
        writes_first=starts(writes),
        writes=array(chain for row in writes for chain in row),
        action=array(actions.get(one.kind, Action.NONE) for one in body),
        amount=array(one.memory or 0 if one.kind == "priority" else 0 for one in body),
        vm=array(allowed(one, one.memory) for one in body),
        lgkm=array(allowed(one, one.lds) for one in body),
        counts=array(_COUNTS.get(one.kind, 0) for one in body),
        address=SIZE * np.arange(len(body), dtype=np.int64),
        size=np.full(len(body), SIZE, np.int64),
        groups=stream.chains,
    )


_COUNTS: Final = {"load": 1, "store": 1, "copy": 1, "read": 2, "write": 2}
"""By kind the counters of `sim.timing.classes`: VM 1, LGKM_LDS 2."""


def _unit(kind: str) -> int:
    from ckmlir.sim.timing.events import Unit

    units = {
        "matrix": Unit.MFMA, "vector": Unit.VALU, "transcendental": Unit.TRANS, "scalar": Unit.SALU,
        "read": Unit.LDS, "write": Unit.LDS, "copy": Unit.VMEM, "load": Unit.VMEM, "store": Unit.VMEM,
        "branch": Unit.BRANCH,
    }  # fmt: skip
    return int(units.get(kind, Unit.INTERNAL))


def _times(one: Issued, parameters: Parameters) -> tuple[int, int, tuple[int, int, int, int]]:
    """Cycles that the unit is busy, that the SIMD issues no other vector instruction, and until its result may be read,
    be a factor, be added to in the same registers, and in others that overlap (`classes.Code.ready`).
    """
    turn = parameters.integer("compute_unit.turn")
    if one.kind == "matrix":
        late = one.cycles + 2 * turn
        return one.cycles, turn, (late, late, turn, late)
    if one.kind == "transcendental":
        busy = parameters.integer("trans.cycles")
        return busy, parameters.integer("trans.holds_valu"), (busy,) * 4
    busy = parameters.integer("valu.cycles") if one.kind == "vector" else turn
    return busy, busy if one.kind == "vector" else 0, (turn,) * 4
