"""`ckmlir time` and `ckmlir calibrate`: what they print and refuse. A stand-in takes the place of the model."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import asdict

from ckmlir.runtime import timing
from ckmlir.sim.timing.parameters import Parameters, load
from ckmlir.tools.cli import main

sys.path.insert(0, str(Path(__file__).parents[1] / "sim" / "timing"))
from made_timelines import loop_timeline


class Model:
    """Takes as long as HBM's latency times the problem's size says, and remembers what was asked."""

    asked: list[tuple[str, Any, str]] = []
    is_own = True

    def __init__(self, operator: Any, problem: Any, target: Any, parameters: Any, **about: Any) -> None:
        self.problem = problem
        Model.asked.append((operator.name, problem, about["mode"]))

    def under(self, parameters: Parameters) -> Any:
        from ckmlir.sim.timing.grid import estimate_grid

        timeline = loop_timeline(bytes={"hbm": 4096}, parameters=parameters)
        microseconds = parameters.number("memory.hbm.latency") * self.problem.m / 1000
        return SimpleNamespace(
            timeline=timeline,
            grid=SimpleNamespace(**{**asdict(estimate_grid(timeline)), "microseconds": microseconds}),
        )


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> type[Model]:
    Model.asked = []
    monkeypatch.setattr(timing, "model_kernels", lambda *given, **options: [Model(*given, **options)])
    return Model


def test_time_prints_the_report(model: type[Model], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["time", "gemm", "m=64", "--arch", "gfx942", "--set", "memory.hbm.latency=900"]) == 0
    out, err = capsys.readouterr()
    assert "model (no GPU was timed)" in out.splitlines()[0]
    assert "given: memory.hbm.latency=900" in out
    assert err == ""
    assert model.asked[0][2] == "sampled"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["time", "gemm", "m=64", "--arch", "gfx942", "--set", "memory.hbm.lat=9"], "did you mean memory"),
        (["time", "gemm", "m=64", "--arch", "gfx942", "--timing-params", "missing.toml"], "cannot read"),
        (["time", "gemm", "m=64", "--arch", "gfx942", "--mode", "exact"], "invalid choice: 'exact'"),
        (["time", "copies", "--arch", "gfx942"], "copies"),
        (["calibrate", "missing.csv", "--arch", "gfx942", "--fit", "memory.hbm.latency"], "cannot read the measurem"),
    ],
)
def test_bad_requests(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 2
    assert message in capsys.readouterr().err


def calibrate(tmp_path: Path, text: str, *arguments: str) -> int:
    file = tmp_path / "times.csv"
    file.write_text(text)
    return main(["calibrate", str(file), "--arch", "gfx942", *arguments])


TIMES = "kernel,microseconds\ngemm m=64,64\ngemm m=128,128\n"  # as with a latency of 1000 cycles


def test_calibrate_writes_parameters(model: type[Model], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fitted = tmp_path / "fitted.toml"
    assert calibrate(tmp_path, TIMES, "--fit", "memory.hbm.latency", "-o", str(fitted)) == 0
    assert load("gfx942", fitted).number("memory.hbm.latency") == pytest.approx(1000, rel=0.01)
    out = capsys.readouterr().out
    assert "gemm m=128" in out
    assert "after" in out
    assert [one[0] for one in model.asked] == ["gemm", "gemm"]


def test_calibrate_prints_parameters(model: type[Model], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert calibrate(tmp_path, TIMES, "--fit", "memory.hbm.latency", "lds.latency") == 2
    assert "lds.latency is published" in capsys.readouterr().err
    assert calibrate(tmp_path, TIMES, "--fit", "memory.hbm.latency") == 0
    file = tmp_path / "out.toml"
    file.write_text(capsys.readouterr().out)
    assert load("gfx942", file).number("memory.hbm.latency") == pytest.approx(1000, rel=0.01)


@pytest.mark.parametrize(
    ("text", "arguments", "message"),
    [
        (TIMES, [], "no parameter to fit was named"),
        ("kernel,microseconds\ncopies n=1,3\n", ["--fit", "memory.hbm.latency"], "copies"),
        ("kernel,microseconds\ngemm m=many,3\n", ["--fit", "memory.hbm.latency"], "many"),
        ("kernel,microseconds\n ,3\n", ["--fit", "memory.hbm.latency"], "operator"),
    ],
)
def test_calibrations_that_are_refused(
    model: type[Model],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    text: str,
    arguments: list[str],
    message: str,
) -> None:
    assert calibrate(tmp_path, text, *arguments) == 2
    assert message in capsys.readouterr().err


def test_json_is_one_object(model: type[Model], capsys: pytest.CaptureFixture[str], monkeypatch: Any) -> None:
    from ckmlir.sim.timing.grid import estimate_grid

    def under(self: Model, parameters: Parameters) -> Any:
        timeline = loop_timeline(parameters=parameters)
        return SimpleNamespace(timeline=timeline, grid=estimate_grid(timeline))

    monkeypatch.setattr(Model, "under", under)
    assert main(["time", "gemm", "m=64", "--arch", "gfx942", "--mode", "sampled", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["model"] == "model (no GPU was timed)"
    assert found["grid"]["microseconds"] > 0
    assert model.asked[0][2] == "sampled"
