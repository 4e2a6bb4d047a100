"""The Perfetto file follows the trace event format, and says of each instruction and stall what the timeline says."""

from __future__ import annotations

import json
from collections import defaultdict
from typing import Any

import pytest
from synthetic_timeline import synthetic

from ckmlir.sim.timing.events import Timeline, Unit
from ckmlir.sim.timing.perfetto import perfetto_json

Event = dict[str, Any]

# Of the document "Trace Event Format": which members an event of a phase must have besides "ph", and of what type.
MEMBERS: dict[str, dict[str, type | tuple[type, ...]]] = {
    "M": {"name": str, "pid": int, "args": dict},
    "X": {"name": str, "cat": str, "ts": (int, float), "dur": (int, float), "pid": int, "tid": int, "args": dict},
    "b": {"name": str, "cat": str, "ts": (int, float), "id": (int, str), "pid": int, "tid": int},
    "e": {"name": str, "cat": str, "ts": (int, float), "id": (int, str), "pid": int, "tid": int},
    "C": {"name": str, "ts": (int, float), "pid": int, "args": dict},
}
METADATA = {"process_name": "name", "thread_name": "name", "process_sort_index": "sort_index"}


def problems(document: Event) -> list[str]:
    """What in a document breaks the trace event format."""
    found = []
    if document.get("displayTimeUnit", "ms") not in ("ms", "ns"):
        found.append("displayTimeUnit")
    tracks, pairs = defaultdict(list), defaultdict(list)
    for event in document["traceEvents"]:
        for name, kind in MEMBERS[event["ph"]].items():
            if not isinstance(event.get(name), kind) or isinstance(event.get(name), bool):
                found.append(f"{event}: {name}")
        if event["ph"] == "M" and METADATA[event["name"]] not in event["args"]:
            found.append(f"{event}: no {METADATA[event['name']]}")
        if event["ph"] == "C" and not all(isinstance(value, int | float) for value in event["args"].values()):
            found.append(f"{event}: counts no numbers")
        if event["ph"] == "X":
            tracks[event["pid"], event["tid"]].append((event["ts"], event["ts"] + event.get("dur", 0)))
        if event["ph"] in "be":
            pairs[event["cat"], event["id"]].append(event)
    for track, slices in tracks.items():
        open_until: list[float] = []
        for begin, end in sorted(slices, key=lambda one: (one[0], -one[1])):
            while open_until and open_until[-1] <= begin:
                open_until.pop()
            if end < begin or (open_until and end > open_until[-1]):
                found.append(f"track {track}: slice {begin}-{end} overlaps another that it does not lie in")
            open_until.append(end)
    for key, events in pairs.items():
        if [event["ph"] for event in events] != ["b", "e"] or events[0]["ts"] > events[1]["ts"]:
            found.append(f"{key}: not one beginning and one end")
    return found


@pytest.fixture(scope="module")
def timeline() -> Timeline:
    return synthetic(waves=4, steps=4, groups=2)


@pytest.fixture(scope="module")
def document(timeline: Timeline) -> Event:
    loaded: Event = json.loads(perfetto_json(timeline, "example"))
    return loaded


def of_phase(document: Event, phase: str) -> list[Event]:
    return [event for event in document["traceEvents"] if event["ph"] == phase]


def test_the_document_follows_the_format(document: Event) -> None:
    assert problems(document) == []
    assert "model, not hardware" in document["otherData"]["note"]


@pytest.mark.parametrize(
    "broken",
    [
        {"ph": "X", "name": "a", "cat": "c", "ts": 1, "pid": 0, "tid": 0, "args": {}},
        {"ph": "X", "name": "a", "cat": "c", "ts": 1, "dur": 100000, "pid": 0, "tid": 0, "args": {}},
        {"ph": "b", "name": "a", "cat": "c", "ts": 1, "id": 1, "pid": 0, "tid": 0},
        {"ph": "C", "name": "a", "ts": 1, "pid": 0, "args": {"value": "many"}},
        {"ph": "M", "name": "thread_name", "pid": 0, "tid": 1, "args": {}},
    ],
)
def test_what_breaks_the_format_is_seen(document: Event, broken: Event) -> None:
    assert problems({**document, "traceEvents": [*document["traceEvents"], broken]})


def test_processes_are_simds_and_threads_waves(timeline: Timeline, document: Event) -> None:
    names = {event["args"]["name"] for event in of_phase(document, "M") if "name" in event["args"]}
    assert {"SIMD 0 (model)", "SIMD 3 (model)", "wave 0, group 0", "wave 7, group 1"} <= names
    for event in of_phase(document, "X"):
        assert event["pid"] == timeline.wave_simd[event["tid"]]


def test_every_instruction_and_stall_is_there(timeline: Timeline, document: Event) -> None:
    slices = of_phase(document, "X")
    issued = [event for event in slices if event["cat"] != "stall"]
    assert [event["ts"] for event in issued] == timeline.events["issue"].tolist()
    assert sum(event["dur"] for event in slices if event["cat"] == "stall") == timeline.stalls["cycles"].sum()
    load = next(event for event in issued if event["name"] == "global_load_dwordx4")
    assert load["args"]["operands"] == "v[4:7], v[2:3], off" and load["args"]["source"] == "kernels/example.py:11"
    assert load["args"]["address"] == "0x0" and load["args"]["tile_op"] == "tile op"


def test_counters_of_matrix_units_add_up_to_their_work(timeline: Timeline, document: Event) -> None:
    since: dict[int, int] = {}
    busy = 0
    for event in of_phase(document, "C"):
        if event["name"] == "matrix unit busy":
            busy += event["ts"] - since[event["pid"]] if not event["args"]["busy"] else 0
            since[event["pid"]] = event["ts"]
    products = timeline.events[timeline.events["unit"] == Unit.MFMA]
    assert busy == (products["done"] - products["issue"]).sum()  # one after another on each SIMD
    accesses = [event["args"]["accesses"] for event in of_phase(document, "C") if "accesses" in event["args"]]
    assert min(accesses) == 0 and max(accesses) == 2  # two waves a SIMD, one load each
