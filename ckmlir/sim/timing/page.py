"""A timeline as one HTML file that a person opens from disk: no network, no other files.

The page is `page_assets/`: markup, style and scripts, put together here with the data. Numbers go into it as columns,
each as base64 of the narrowest type that holds it, or its differences where those are narrower; texts are numbered.
"""

from __future__ import annotations

import base64
import html
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ckmlir.sim.timing.activity import (
    in_wave_order,
    issue_cycles,
    matrix_intervals,
    matrix_share,
    stalls_in_wave_order,
)
from ckmlir.sim.timing.critical_path import CriticalPath
from ckmlir.sim.timing.events import Reason, Timeline, Unit
from ckmlir.sim.timing.labels import labels_of, source_text

ASSETS = Path(__file__).parent / "page_assets"
SCRIPTS = (
    "columns", "recording", "palette", "view", "painter", "overview", "details", "summary", "search", "navigation",
    "main",
)  # fmt: skip
"""In this order: each only needs those before it."""

TEXTS = ("mnemonic", "operands", "source", "tile_op")
"""Fields of a label that the page has as numbers of texts."""

Column = dict[str, Any]
_TYPES = ("u1", "i1", "u2", "i2", "u4", "i4")


def render_page(timeline: Timeline, title: str, *, subtitle: str = "", path: CriticalPath | None = None) -> str:
    """The page of a timeline.

    Args:
        timeline: What to show.
        title, subtitle: What ran, for people: operator, sizes, chip; the kernel.
        path: Its critical path, to be drawn over the lanes when asked for.
    """
    # In a script element only "</" and "<!--" mean something to the parser of HTML.
    data = json.dumps(page_data(timeline, title, subtitle, path), separators=(",", ":")).replace("<", "\\u003c")
    script = "\n".join(['"use strict";', *(_asset(f"{name}.js") for name in SCRIPTS)])
    parts = {"title": html.escape(title), "style": _asset("page.css"), "script": script, "data": data}
    before, *rest = _asset("page.html").split("{{")
    return before + "".join(parts[key] + text for key, _, text in (part.partition("}}") for part in rest))


def _asset(name: str) -> str:
    return (ASSETS / name).read_text(encoding="utf-8")


def page_data(timeline: Timeline, title: str, subtitle: str = "", path: CriticalPath | None = None) -> dict[str, Any]:
    """All that the page's scripts are given (`recording.js` reads it)."""
    names = _Names()
    labels = labels_of(timeline.trace)
    program = {
        "address": pack([label.address for label in labels]),
        **{key: pack([names.number(getattr(label, key)) for label in labels]) for key in TEXTS},
    }
    order, event_first = in_wave_order(timeline)
    stall_order, stall_first = stalls_in_wave_order(timeline)
    sources = {label.source: source_text(label.source) for label in labels}
    return {
        "title": title,
        "subtitle": subtitle,
        "target": timeline.target,
        "cycles": timeline.cycles,
        "facts": facts(timeline),
        "units": [unit.name for unit in Unit],
        "reasons": _names_by_number(Reason),
        "strings": names.texts,
        "sources": {source: text for source, text in sources.items() if text},
        "program": program,
        "waves": _waves(timeline),
        "events": _event_columns(timeline, order, event_first),
        "eventFirst": event_first.tolist(),
        "stalls": _stall_columns(timeline, stall_order, stall_first),
        "stallFirst": stall_first.tolist(),
        "matrixBusy": [row for rows in matrix_intervals(timeline).values() for row in rows.tolist()],
        **_path_data(path, np.argsort(order)),
    }


def facts(timeline: Timeline) -> list[tuple[str, str]]:
    """The totals of the page's header: (name, text)."""
    present = int((timeline.wave_end - timeline.wave_start).sum())
    stalled = int(timeline.stalls["cycles"].sum())
    return [
        ("cycles", f"{timeline.cycles:,}"),
        ("instructions", f"{len(timeline.events):,}"),
        ("waves", f"{len(timeline.wave_start)}"),
        ("matrix units busy", f"{100 * matrix_share(timeline):.1f} %"),
        ("waves stalled", f"{100 * stalled / max(1, present):.1f} %"),
        ("bank conflicts", f"{int(timeline.conflicts.sum()):,} cycles"),
    ]


def _names_by_number(reasons: Iterable[Reason]) -> list[str]:
    """Names in a list whose index is the number; the numbers have gaps."""
    found = {reason.value: reason.name for reason in reasons}
    return [found.get(number, "") for number in range(max(found) + 1)]


def _waves(timeline: Timeline) -> list[dict[str, int]]:
    columns: dict[str, npt.NDArray[Any]] = {
        "simd": timeline.wave_simd,
        "slot": timeline.wave_slot,
        "group": timeline.trace.groups,
        "start": timeline.wave_start,
        "end": timeline.wave_end,
    }
    return [{name: int(column[wave]) for name, column in columns.items()} for wave in range(len(timeline.wave_start))]


def _event_columns(timeline: Timeline, order: npt.NDArray[np.intp], first: npt.NDArray[np.int64]) -> dict[str, Column]:
    events = timeline.events[order]
    access = timeline.trace.steps["access"][events["step"]]
    known = np.append(timeline.conflicts, 0)  # an access of -1 is none
    return {
        "instruction": pack(events["instruction"], first),
        "issue": pack(events["issue"], first),
        "latency": pack(events["done"] - events["issue"]),
        "busy": pack(issue_cycles(timeline)[order]),
        "stall": pack(events["stall"]),
        "unit": pack(events["unit"]),
        "conflict": pack(known[access]),
    }


def _stall_columns(timeline: Timeline, order: npt.NDArray[np.intp], first: npt.NDArray[np.int64]) -> dict[str, Column]:
    stalls = timeline.stalls[order]
    return {
        "instruction": pack(stalls["instruction"], first),
        "first": pack(stalls["first"], first),
        "cycles": pack(stalls["cycles"]),
        "reason": pack(stalls["reason"]),
    }


def _path_data(path: CriticalPath | None, place: npt.NDArray[np.intp]) -> dict[str, Any]:
    """The path's stretches, and its cycles by line; `place` is where each event stands in the page's order."""
    if path is None:
        return {}
    stretches = path.segments
    columns = {
        "event": pack([int(place[one.event]) for one in stretches]),
        "begin": pack([one.begin for one in stretches], [0, len(stretches)]),
        "end": pack([one.end for one in stretches], [0, len(stretches)]),
    }
    lines = [(share.place, share.cause, share.cycles) for share in path.by_line()]
    return {"path": columns, "pathCount": len(stretches), "pathLines": lines}


def pack(values: npt.ArrayLike, first: Sequence[int] | npt.NDArray[np.int64] | None = None) -> Column:
    """A column of whole numbers as the page unpacks it (`columns.js`).

    With `first`, offsets of segments, differences are stored where they are narrower: each segment begins with the
    difference 0 from its base.
    """
    plain = np.asarray(values, np.int64)
    column = {"type": _narrowest(plain)}
    stored = plain
    if first is not None and len(plain):
        offsets = np.asarray(first, np.int64)
        starts = offsets[:-1][np.diff(offsets) > 0]
        steps = np.diff(plain, prepend=plain[0])
        steps[starts] = 0
        if np.dtype(_narrowest(steps)).itemsize < np.dtype(column["type"]).itemsize:
            bases = np.append(plain, 0)[np.minimum(offsets[:-1], len(plain))]
            column, stored = {"type": _narrowest(steps), "bases": bases.tolist()}, steps
    data = base64.b64encode(stored.astype(f"<{column['type']}").tobytes()).decode("ascii")
    return {**column, "data": data}


def _narrowest(values: npt.NDArray[np.int64]) -> str:
    low, high = (int(values.min()), int(values.max())) if len(values) else (0, 0)
    for name in _TYPES:
        limits = np.iinfo(name)
        if limits.min <= low and high <= limits.max:
            return name
    return "f8"


class _Names:
    """Texts, each with a number."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self._numbers: dict[str, int] = {}

    def number(self, text: str) -> int:
        if text not in self._numbers:
            self._numbers[text] = len(self.texts)
            self.texts.append(text)
        return self._numbers[text]
