"""A timeline in the trace event format that Perfetto (and chrome://tracing) opens.

A process is a SIMD, a thread a wave. A wave's own track has a slice for every instruction, from its issue until the
wave could think of the next one, and between them slices for what it waited for. What an instruction is still doing
after that (a matrix product, an access to memory) is an asynchronous slice of its process, by unit. Counters say
whether the matrix unit is busy and how many accesses to memory are on their way.

The format counts microseconds; here one stands for one cycle, and `otherData` says so.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from ckmlir.sim.timing.activity import issue_cycles, matrix_intervals
from ckmlir.sim.timing.events import Reason, Timeline, Unit
from ckmlir.sim.timing.labels import Label, labels_of

Event = dict[str, Any]

IN_FLIGHT = (Unit.MFMA, Unit.SMEM, Unit.VMEM, Unit.LDS)
"""Units whose work goes on beside what its wave does next."""


def perfetto_json(timeline: Timeline, title: str) -> str:
    """The timeline as a JSON object of the trace event format."""
    return json.dumps(
        {
            "traceEvents": list(trace_events(timeline)),
            "displayTimeUnit": "ns",
            "otherData": {
                "title": title,
                "target": timeline.target,
                "note": "model, not hardware; one microsecond stands for one cycle",
            },
        },
        separators=(",", ":"),
    )


def trace_events(timeline: Timeline) -> Iterator[Event]:
    """All events: names of tracks, instructions, stalls, work in flight, counters."""
    labels = labels_of(timeline.trace)
    yield from _track_names(timeline)
    yield from _instructions(timeline, labels)
    yield from _stalls(timeline, labels)
    yield from _in_flight(timeline, labels)
    yield from _counters(timeline)


def _track_names(timeline: Timeline) -> Iterator[Event]:
    for simd in sorted({int(simd) for simd in timeline.wave_simd}):
        yield {"ph": "M", "name": "process_name", "pid": simd, "args": {"name": f"SIMD {simd} (model)"}}
        yield {"ph": "M", "name": "process_sort_index", "pid": simd, "args": {"sort_index": simd}}
    for wave, simd in enumerate(timeline.wave_simd):
        name = f"wave {wave}, group {int(timeline.trace.groups[wave])}"
        yield {"ph": "M", "name": "thread_name", "pid": int(simd), "tid": wave, "args": {"name": name}}


def _place(timeline: Timeline, wave: int) -> Event:
    return {"pid": int(timeline.wave_simd[wave]), "tid": wave}


def _arguments(label: Label) -> dict[str, str]:
    known = {
        "operands": label.operands,
        "address": f"0x{label.address:x}",
        "source": label.source,
        "tile_op": label.tile_op,
    }
    return {name: text for name, text in known.items() if text}


def _instructions(timeline: Timeline, labels: list[Label]) -> Iterator[Event]:
    for row, busy in zip(timeline.events, issue_cycles(timeline).tolist(), strict=True):
        label = labels[int(row["instruction"])]
        yield {
            "ph": "X",
            "name": label.mnemonic,
            "cat": Unit(row["unit"]).name,
            "ts": int(row["issue"]),
            "dur": busy,
            **_place(timeline, int(row["wave"])),
            "args": {
                **_arguments(label),
                "result_after": int(row["done"] - row["issue"]),
                "stalled": int(row["stall"]),
            },
        }


def _stalls(timeline: Timeline, labels: list[Label]) -> Iterator[Event]:
    for row in timeline.stalls:
        label = labels[int(row["instruction"])]
        yield {
            "ph": "X",
            "name": Reason(row["reason"]).name.lower().replace("_", " "),
            "cat": "stall",
            "ts": int(row["first"]),
            "dur": int(row["cycles"]),
            **_place(timeline, int(row["wave"])),
            "args": {"before": f"{label.mnemonic} {label.operands}".strip(), "address": f"0x{label.address:x}"},
        }


def _in_flight(timeline: Timeline, labels: list[Label]) -> Iterator[Event]:
    """Pairs of nestable asynchronous events, each pair with an id of its own."""
    for number, row in enumerate(timeline.events):
        if row["unit"] not in IN_FLIGHT:
            continue
        label, unit = labels[int(row["instruction"])], Unit(row["unit"]).name
        common = {"name": label.mnemonic, "cat": unit, "id": number, **_place(timeline, int(row["wave"]))}
        yield {"ph": "b", "ts": int(row["issue"]), **common}
        yield {"ph": "e", "ts": int(row["done"]), **common}


def _counters(timeline: Timeline) -> Iterator[Event]:
    for simd, intervals in matrix_intervals(timeline).items():
        for begin, end in intervals.tolist():
            for at, value in ((begin, 1), (end, 0)):
                yield {"ph": "C", "name": "matrix unit busy", "pid": simd, "ts": at, "args": {"busy": value}}
    chosen = timeline.events[timeline.events["unit"] == Unit.VMEM]
    for simd in sorted({int(simd) for simd in timeline.wave_simd}):
        own = chosen[timeline.wave_simd[chosen["wave"]] == simd]
        for at, value in _number_at(own["issue"], own["done"]):
            yield {"ph": "C", "name": "memory accesses in flight", "pid": simd, "ts": at, "args": {"accesses": value}}


def _number_at(begin: npt.NDArray[np.int64], end: npt.NDArray[np.int64]) -> Iterator[tuple[int, int]]:
    """(cycle, how many intervals are open from there on), at every cycle where that changes."""
    at = np.concatenate([begin, end])
    change = np.repeat([1, -1], [len(begin), len(end)])
    cycles, inverse = np.unique(at, return_inverse=True)
    values = np.cumsum(np.bincount(inverse, weights=change, minlength=len(cycles))).astype(np.int64)
    return iter(list(zip(cycles.tolist(), values.tolist(), strict=True)))
