"""Calibration: perturbed parameters are found again from synthetic times, and what cannot be fitted is refused."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ckmlir.sim.timing.calibration import CalibrationError, Measurement, calibrate, read_measurements
from ckmlir.sim.timing.memory_hierarchy import access
from ckmlir.sim.timing.memory_shares import new_memory
from ckmlir.sim.timing.parameters import ParameterError, Parameters, load

NAMES = ("memory.hbm.latency", "memory.hbm.efficiency")
SIZES = ((1, 200), (2, 200), (4, 400), (16, 800), (32, 800))


def stream(parameters: Parameters, waves: int, accesses: int) -> float:
    """Microseconds, by the memory model, of waves that read 1 KiB at a time."""
    memory = new_memory(parameters, 1)
    ready = [0] * waves
    for number in range(accesses):
        wave = int(np.argmin(ready))
        ready[wave] = access(memory, ready[wave], 0, np.arange(number * 16, number * 16 + 16), 16, False)
    return max(ready) / parameters.number("chip.clock")


def predict(parameters: Parameters) -> list[float]:
    return [stream(parameters, *size) for size in SIZES]


def measured(parameters: Parameters) -> list[Measurement]:
    return [Measurement(f"{waves} waves", time) for (waves, _), time in zip(SIZES, predict(parameters))]


@pytest.mark.parametrize(("latency", "efficiency"), [(1100, 0.7), (500, 0.9)])
def test_perturbed_parameters_are_found_again(latency: int, efficiency: float) -> None:
    parameters = load("gfx942")
    truth = parameters.with_values(dict(zip(NAMES, (latency, efficiency))))
    found = calibrate(parameters, NAMES, measured(truth), predict, source="fitted to nothing real")
    assert found.after["memory.hbm.latency"] == pytest.approx(latency, rel=0.02)
    assert found.after["memory.hbm.efficiency"] == pytest.approx(efficiency, rel=0.02)
    assert found.error_before > 1.05 > 1.01 > found.error_after
    assert found.before == {name: parameters.number(name) for name in NAMES}
    assert all(ratio == pytest.approx(1, rel=0.02) for ratio in found.ratios.values())
    assert found.without_effect == ()
    fitted = found.parameters["memory.hbm.latency"]
    assert (fitted.status, fitted.source) == ("measured", "fitted to nothing real")
    assert found.parameters["memory.l2.latency"] == parameters["memory.l2.latency"]


def test_the_result_is_a_file_of_parameters(tmp_path: Path) -> None:
    parameters = load("gfx942")
    found = calibrate(parameters, NAMES[:1], measured(parameters.with_values({NAMES[0]: 900})), predict)
    file = tmp_path / "fitted.toml"
    file.write_text(found.to_toml())
    assert load("gfx942", file).number(NAMES[0]) == pytest.approx(900, rel=0.01)


@settings(max_examples=25, deadline=None)
@given(st.lists(st.floats(0.3, 3.0), min_size=2, max_size=2), st.integers(0, 3))
def test_any_product_of_powers_is_fitted(factors: list[float], seed: int) -> None:
    """Times that are sums of a part in proportion to each parameter; the measured ones with an error of a percent."""
    parameters = load("gfx942")
    start = [parameters.number(name) for name in NAMES]
    random = np.random.default_rng(seed)
    parts = random.uniform(0.5, 2.0, (6, 2))

    def sums(one: Parameters) -> list[float]:
        return [sum(part * one.number(name) / at for part, name, at in zip(row, NAMES, start)) for row in parts]

    truth = parameters.with_values({name: at * factor for name, at, factor in zip(NAMES, start, factors)})
    noisy = [Measurement(str(n), t * random.uniform(0.99, 1.01)) for n, t in enumerate(sums(truth))]
    found = calibrate(parameters, NAMES, noisy, sums)
    assert found.error_after < 1.011
    assert found.error_after <= found.error_before


def test_values_stay_within_reach() -> None:
    parameters = load("gfx942")
    far = [Measurement(one.kernel, 100 * one.microseconds) for one in measured(parameters)]
    found = calibrate(parameters, NAMES[:1], far, predict, reach=2.0)
    assert found.after[NAMES[0]] == pytest.approx(2 * parameters.number(NAMES[0]), rel=1e-5)


def test_a_parameter_without_effect_is_named_and_kept() -> None:
    parameters = load("gfx942")
    names = ("memory.hbm.latency", "memory.mall.latency")
    found = calibrate(parameters, names, measured(parameters.with_values({names[0]: 900})), predict)
    assert found.without_effect == ("memory.mall.latency",)
    assert found.after["memory.mall.latency"] == parameters.number("memory.mall.latency")


def test_published_parameters_have_to_be_forced() -> None:
    parameters = load("gfx942")
    name = "memory.l1.bandwidth"
    with pytest.raises(CalibrationError, match=r"memory\.l1\.bandwidth is published .* has to be forced"):
        calibrate(parameters, [name], measured(parameters), predict)
    assert calibrate(parameters, [name], measured(parameters), predict, force=True).after[name] == 64


@pytest.mark.parametrize(
    ("names", "count", "error", "message"),
    [
        ([], 5, CalibrationError, "no parameter to fit was named"),
        (["memory.hbm.latencie"], 5, ParameterError, "did you mean memory.hbm.latency"),
        (["lds.phases.read_8"], 5, CalibrationError, "not a positive number"),
        (["memory.hbm.latency", "memory.mall.latency"], 1, CalibrationError, "1 measurements cannot tell 2 parameters"),
    ],
)
def test_what_cannot_be_fitted_is_refused(names: list[str], count: int, error: type[Exception], message: str) -> None:
    parameters = load("gfx942")
    with pytest.raises(error, match=message):
        calibrate(parameters, names, measured(parameters)[:count], predict)


def test_a_model_without_times_is_refused() -> None:
    parameters = load("gfx942")
    for times in ([1.0, math.nan, 1.0, 1.0, 1.0], [1.0]):
        with pytest.raises(CalibrationError, match="gives no time for each of 5 kernels"):
            calibrate(parameters, NAMES, measured(parameters), lambda _, times=times: times)  # type: ignore[misc]


def test_measurements_are_read(tmp_path: Path) -> None:
    file = tmp_path / "times.csv"
    file.write_text('gpu,kernel,microseconds\nMI300X,"gemm m=4096 n=4096",91.5\nMI300X,copy ,3e1\n')
    assert read_measurements(file) == [Measurement("gemm m=4096 n=4096", 91.5), Measurement("copy", 30.0)]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("kernel,us\na,1\n", "no column microseconds"),
        ("", "no column kernel and no column microseconds"),
        ("kernel,microseconds\n", "no measurements"),
        ("kernel,microseconds\na,fast\n", "line 2: 'fast' is not a time"),
        ("kernel,microseconds\na,1\nb,-3\n", "line 3: '-3' is not a time"),
        ("kernel,microseconds\na\n", "line 2: '' is not a time"),
    ],
)
def test_wrong_files_are_refused(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "times.csv"
    file.write_text(text)
    with pytest.raises(CalibrationError, match=message):
        read_measurements(file)
    with pytest.raises(CalibrationError, match="cannot read the measurements"):
        read_measurements(tmp_path / "missing.csv")
