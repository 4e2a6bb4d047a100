"""The page: its data are those of the timeline, it is one file, and headless Chromium shows, searches and moves it."""

from __future__ import annotations

import base64
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from browser import CHROMIUM, MISSING, open_page
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from synthetic_timeline import STEP_OF_LOOP, synthetic

from ckmlir.sim.timing.activity import in_wave_order
from ckmlir.sim.timing.critical_path import critical_path
from ckmlir.sim.timing.events import Reason, Timeline, Unit
from ckmlir.sim.timing.page import pack, page_data, render_page

needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason=MISSING)


@pytest.fixture(scope="module")
def timeline() -> Timeline:
    return synthetic(waves=4, steps=8)


@pytest.fixture(scope="module")
def page(timeline: Timeline) -> str:
    return render_page(timeline, "example on gfx942", path=critical_path(timeline))


def unpack(column: dict[str, Any], first: list[int]) -> np.ndarray:
    """What columns.js does."""
    stored = np.frombuffer(base64.b64decode(column["data"]), f"<{column['type']}").astype(np.int64)
    if "bases" not in column:
        return stored
    parts = [base + np.cumsum(stored[first[i] : first[i + 1]]) for i, base in enumerate(column["bases"])]
    return np.concatenate([np.zeros(0, np.int64), *parts])


@settings(max_examples=60, deadline=None)
@given(st.lists(st.lists(st.integers(-(2**40), 2**40) | st.integers(0, 99)), min_size=1, max_size=4))
def test_columns_unpack_to_what_was_packed(segments: list[list[int]]) -> None:
    values = [value for segment in segments for value in segment]
    first = np.cumsum([0, *map(len, segments)])
    assert unpack(pack(values, first), first.tolist()).tolist() == values
    assert unpack(pack(values), []).tolist() == values


def test_ascending_cycles_take_a_byte_each() -> None:
    column = pack(np.arange(1_000_000, 1_004_000, 4), [0, 1000])
    assert column["type"] == "u1" and column["bases"] == [1_000_000] and len(column["data"]) < 1400


def test_data_are_those_of_the_timeline(timeline: Timeline) -> None:
    data = page_data(timeline, "title")
    order, _ = in_wave_order(timeline)
    events, first = timeline.events[order], data["eventFirst"]
    columns = {name: unpack(column, first) for name, column in data["events"].items()}
    assert columns["issue"].tolist() == events["issue"].tolist()
    assert (columns["issue"] + columns["latency"]).tolist() == events["done"].tolist()
    assert columns["stall"].tolist() == events["stall"].tolist() and columns["unit"].tolist() == events["unit"].tolist()
    assert columns["conflict"].sum() == timeline.conflicts.sum() > 0
    stalls = unpack(data["stalls"]["cycles"], data["stallFirst"])
    assert stalls.sum() == timeline.stalls["cycles"].sum()
    assert data["units"][Unit.LDS] == "LDS" and data["reasons"][Reason.UNIT_BUSY_LDS] == "UNIT_BUSY_LDS"
    mnemonics = unpack(data["program"]["mnemonic"], [])
    assert [data["strings"][name] for name in mnemonics[:2]] == ["global_load_dwordx4", "s_waitcnt"]


def test_a_page_is_one_file_that_asks_for_nothing(page: str) -> None:
    assert "model, not hardware" in page
    asked = re.findall(r"""(?:src|href)\s*=\s*["']([^"']*)|url\(([^)]*)\)|(?:fetch|import)\s*\(""", page)
    assert [found for found in asked if any(found)] == [("data:,", "")]
    assert "http" not in page and "{{" not in page


def test_titles_cannot_become_markup(timeline: Timeline) -> None:
    hostile = "</title></script><script>document.title='x'</script><!-- {{data}}"
    page = render_page(timeline, hostile)
    assert "</title></script>" not in page and page.count("<script>") == 1 and "<!--" not in page


@needs_chromium
def test_chromium_draws_every_lane_fast(page: str, tmp_path: Path) -> None:
    for _ in range(3):  # other processes may take the time of one
        said = open_page(tmp_path, page)
        if float(said["load-ms"]) < 2000:
            break
    assert "error" not in said and int(said["lanes"]) == 4 * len(("MFMA", "memory", "LDS", "scalar", "stalled"))
    assert int(said["bars"]) > 300 and float(said["load-ms"]) < 2000
    assert len(page) < 3_000_000


@needs_chromium
def test_search_view_and_instruction_by_address_of_the_page(timeline: Timeline, tmp_path: Path) -> None:
    events, stalls = timeline.events.copy(), timeline.stalls.copy()
    for column in (events["issue"], events["done"], stalls["first"]):
        column += 100_000  # now differences are narrower than cycles
    late = replace(timeline, events=events, stalls=stalls, cycles=timeline.cycles + 100_000)
    assert "bases" in page_data(late, "late")["events"]["issue"]
    tell = "document.documentElement.dataset.panel = document.getElementById('panel').textContent;"
    address = "#search=ds_read%20wave:2&from=100000&to=100900&event=200"
    said = open_page(tmp_path, render_page(late, "late"), address, script=tell)
    assert "error" not in said and int(said["matches"]) == 8 * 2 and (said["from"], said["to"]) == ("100000", "100900")
    row = events[in_wave_order(late)[0][200]]
    assert f"at {row['issue']:,}, after {row['stall']:,} cycles stalled" in said["panel"]


@needs_chromium
def test_search_finds_words_units_lines_and_reasons(page: str, timeline: Timeline, tmp_path: Path) -> None:
    waited = timeline.events[(timeline.events["reason"] == Reason.WAIT_VMEM) & (timeline.events["stall"] > 100)]
    expected = {
        "mfma": 4 * 8 * 8,
        "unit:vmem": 4 * 8,
        "example.py:11": 4 * 8,
        "tile op": 4 * 8 * len(STEP_OF_LOOP),
        "reason:wait_vmem stall>100": len(waited),
        "no such thing": 0,
    }
    script = """
        const input = document.getElementById("search"), counts = {};
        for (const text of %s) {
          input.value = text;
          input.dispatchEvent(new Event("input"));
          counts[text] = Number(document.documentElement.dataset.matches);
        }
        document.documentElement.dataset.counts = JSON.stringify(counts);
    """
    said = open_page(tmp_path, page, script=script % json.dumps(list(expected)))
    assert "error" not in said and json.loads(said["counts"]) == expected and len(waited) > 0


MOVES = (Path(__file__).parent / "page_moves.js").read_text(encoding="utf-8")


@needs_chromium
def test_wheel_drag_and_keys(page: str, timeline: Timeline, tmp_path: Path) -> None:
    said = open_page(tmp_path, page, script=MOVES, wait=3000)
    assert "error" not in said
    views = {}
    for text in said["views"].split():
        name, numbers = text.split("=")
        views[name] = tuple(map(int, numbers.split(",")))
    span = {name: to - since for name, (since, to) in views.items()}
    assert span["wheel"] < span["start"] and views["wheel"][0] > views["start"][0]
    assert views["drag"][0] > views["wheel"][0] and abs(span["drag"] - span["wheel"]) <= 1
    assert span["key"] < span["drag"] and views["all"] == views["start"]
    assert int(said["compact"]) == 2 * 4  # instructions and stalls of four waves
    assert span["next"] <= 1201 and int(said["first"]) > 0
    assert "v_mfma_f32_32x32x8_f16" in said["panel"] and "example.py:15" in said["panel"]
    assert "issued" in said["tip"]
    row = timeline.events[in_wave_order(timeline)[0][int(said["first"])]]
    assert f"at {row['issue']:,}, after {row['stall']:,} cycles stalled" in said["panel"]
    assert f"at {row['done']:,}, {row['done'] - row['issue']} cycles later" in said["panel"]
