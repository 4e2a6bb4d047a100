"""The numbers of the timing model: every one has its source, and users' own are checked."""

from pathlib import Path

import pytest

from ckmlir.sim.chips import TARGETS
from ckmlir.sim.timing.parameters import STATUSES, ParameterError, load


@pytest.mark.parametrize("target", TARGETS)
def test_every_parameter_has_unit_status_and_source(target: str) -> None:
    for parameter in load(target).values():
        assert parameter.unit and parameter.source
        assert parameter.status in STATUSES[:3]


def test_a_file_and_overrides_replace_values_only(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text("[lds]\nlatency = 80\nqueue = { value = 3 }\n")
    found = load("gfx942", file, ["lds.queue=5"])
    assert (found.integer("lds.latency"), found.integer("lds.queue")) == (80, 5)
    assert found["lds.latency"].status == found["lds.queue"].status == "given"
    assert str(file) in found["lds.latency"].source
    assert found["lds.latency"].unit == load("gfx942")["lds.latency"].unit


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("lds.latencies=3", "did you mean lds.latency"),
        ("lds.latency", "write name=value"),
        ("lds.latency=soon", "'soon' is not a number; its unit is cycles"),
        ("lds.latency=-1", "out of range"),
        ("lds.latency=nan", "out of range"),
    ],
)
def test_wrong_overrides_are_refused(text: str, message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        load("gfx942", overrides=[text])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[lds", "mine.toml"),
        ("[lds]\nlatency = true", "neither a number nor a text"),
        ("[lds]\nlatencyy = 3", "did you mean lds.latency"),
    ],
)
def test_wrong_files_are_refused(text: str, message: str, tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(text)
    with pytest.raises(ParameterError, match=message):
        load("gfx942", file)


def test_unknown_chips_and_missing_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match="gfx90a, gfx942, gfx950"):
        load("gfx1100")
    with pytest.raises(ParameterError, match="cannot read"):
        load("gfx942", tmp_path / "none.toml")
