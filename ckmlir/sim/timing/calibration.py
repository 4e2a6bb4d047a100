"""Fitting the model to kernels that somebody timed: named parameters, so that modelled times come near measured ones.

The fit minimises the sum of squared logarithms of modelled by measured time over factors of the parameters, between
1/`reach` and `reach`: Levenberg and Marquardt's damped steps with slopes from finite differences. Steps of the model (a
cycle more or less, another round) make it rough, so the differences are not small and only improvements are kept.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from ckmlir.errors import CkmlirError
from ckmlir.sim.timing.parameters import Parameters

Predict = Callable[[Parameters], Sequence[float]]
"""Modelled microseconds of the measured kernels, in their order."""

DIFFERENCE = 0.06  # of the logarithm of a parameter, for slopes
SMALLEST_STEP = 1e-3


class CalibrationError(CkmlirError):
    """Measurements, or a choice of parameters, that cannot be fitted."""


class Measurement(Struct, frozen=True):
    """A kernel, by the name that the prediction gives it, and how long it took on a GPU."""

    kernel: str
    microseconds: float


class Calibration(Struct, frozen=True):
    """A fit.

    Attributes:
        parameters: With the fitted values, marked measured.
        before, after: The fitted values by name.
        error_before, error_after: Typical factor between modelled and measured times: the exponential of the root of
            the mean squared logarithm; 1.05 is 5 %.
        ratios: Modelled by measured time of each kernel, after.
        without_effect: Parameters of which no time depends; they keep their values.
    """

    parameters: Parameters
    before: dict[str, float]
    after: dict[str, float]
    error_before: float
    error_after: float
    ratios: dict[str, float]
    without_effect: tuple[str, ...]

    def to_toml(self) -> str:
        """The fitted values as a file for --timing-params."""
        lines = [f'"{name}" = {value!r}' for name, value in self.after.items()]
        return "\n".join(["# Fitted to measured times.", *lines, ""])


def read_measurements(path: str | Path) -> list[Measurement]:
    """The rows of a CSV file with the columns `kernel` and `microseconds`; other columns are not looked at.

    Raises:
        CalibrationError: A file that cannot be read, a missing column, a time that is not a positive number, no row.
    """
    path = Path(path)
    try:
        with path.open(newline="", encoding="utf-8") as file:
            reader = csv.DictReader(file)
            missing = [name for name in ("kernel", "microseconds") if name not in (reader.fieldnames or ())]
            if missing:
                raise CalibrationError(f"{path}: no column {' and no column '.join(missing)} in its first line")
            rows = [
                Measurement((row["kernel"] or "").strip(), _microseconds(row["microseconds"], path, reader.line_num))
                for row in reader
            ]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise CalibrationError(f"cannot read the measurements in {path}: {why}") from error
    if not rows:
        raise CalibrationError(f"{path}: no measurements after the first line")
    return rows


def _microseconds(text: str | None, path: Path, line: int) -> float:
    try:
        value = float(text or "")
    except ValueError:
        value = math.nan
    if not 0 < value < math.inf:
        raise CalibrationError(f"{path}, line {line}: '{text or ''}' is not a time in microseconds")
    return value


def calibrate(
    parameters: Parameters,
    names: Iterable[str],
    measurements: Sequence[Measurement],
    predict: Predict,
    *,
    force: bool = False,
    reach: float = 4.0,
    most_steps: int = 30,
    source: str = "fitted to measured times",
) -> Calibration:
    """Fit parameters to measured times.

    Args:
        parameters: Where to start. names: What to fit.
        measurements: At least as many as names.
        predict: The model.
        force: Also fit parameters that are published.
        reach: The largest factor by which a value may change, either way.
        most_steps: Improvements to look for.
        source: Where the fitted values are said to be from.

    Raises:
        ParameterError: An unknown name.
        CalibrationError: A published parameter without `force`, one that is not a positive number, too few
            measurements, or a model that gives no time.
    """
    chosen = tuple(dict.fromkeys(names))
    start = _start(parameters, chosen, force)
    if len(measurements) < max(1, len(chosen)):
        raise CalibrationError(
            f"{len(measurements)} measurements cannot tell {len(chosen)} parameters apart; measure more kernels or fit "
            "fewer parameters"
        )
    search = _Search(parameters, chosen, start, measurements, predict, math.log(reach))
    at, effect = search.run(most_steps)
    values = search.values(at)
    error = search.residuals(at)
    return Calibration(
        parameters=_marked(parameters, values, source),
        before=dict(zip(chosen, start.tolist())),
        after={name: float(values[name]) for name in chosen},
        error_before=_typical(search.residuals(np.zeros(len(chosen)))),
        error_after=_typical(error),
        ratios={one.kernel: float(math.exp(value)) for one, value in zip(measurements, error)},
        without_effect=tuple(name for name, has in zip(chosen, effect) if not has),
    )


def _start(parameters: Parameters, names: Sequence[str], force: bool) -> npt.NDArray[np.float64]:
    """The values to start from."""
    if not names:
        raise CalibrationError("no parameter to fit was named")
    for name in names:
        known = parameters.find(name)
        if isinstance(known.value, str) or known.value <= 0:
            raise CalibrationError(f"{name} is {known.value}, not a positive number; it cannot be fitted")
        if known.status == "published" and not force:
            raise CalibrationError(f"{name} is published ({known.source}); fitting it has to be forced")
    return np.array([parameters.number(name) for name in names])


def _marked(parameters: Parameters, values: dict[str, float], source: str) -> Parameters:
    """The parameters with fitted values, marked measured."""
    from msgspec.structs import replace

    changed = parameters.with_values(values, source)
    return Parameters(
        parameters.target,
        (replace(one, status="measured") if one.name in values else one for one in changed.values()),
    )


def _typical(residuals: npt.NDArray[np.float64]) -> float:
    return float(math.exp(math.sqrt(float(np.mean(residuals**2)))))


class _Search:
    """The search over logarithms of factors; what was predicted is kept."""

    def __init__(
        self,
        parameters: Parameters,
        names: Sequence[str],
        start: npt.NDArray[np.float64],
        measurements: Sequence[Measurement],
        predict: Predict,
        bound: float,
    ) -> None:
        self._parameters, self._names, self._start, self._bound = parameters, names, start, bound
        self._predict = predict
        self._measured = np.log([one.microseconds for one in measurements])
        self._known: dict[tuple[float, ...], npt.NDArray[np.float64]] = {}

    def values(self, at: npt.NDArray[np.float64]) -> dict[str, float]:
        """The parameters' values, to six digits."""
        return {name: float(f"{value:.6g}") for name, value in zip(self._names, self._start * np.exp(at))}

    def residuals(self, at: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Logarithms of modelled by measured times."""
        values = self.values(at)
        key = tuple(values.values())
        if key not in self._known:
            times = np.array(self._predict(self._parameters.with_values(values)), np.float64)
            if times.shape != self._measured.shape or not (np.isfinite(times) & (times > 0)).all():
                raise CalibrationError(f"the model gives no time for each of {len(self._measured)} kernels: {times}")
            self._known[key] = np.log(times) - self._measured
        return self._known[key]

    def _slopes(self, at: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Derivatives of the residuals, from differences towards the inside of the bounds."""
        here = self.residuals(at)
        columns = []
        for index in range(len(at)):
            step = np.zeros(len(at))
            step[index] = -DIFFERENCE if at[index] > 0 else DIFFERENCE
            columns.append((self.residuals(at + step) - here) / step[index])
        return np.stack(columns, axis=1)

    def run(self, most_steps: int) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.bool_]]:
        """The best place found, and which parameters had an effect."""
        at, damping = np.zeros(len(self._names)), 1e-2
        effect = np.zeros(len(self._names), np.bool_)
        for _ in range(most_steps):
            here, slopes = self.residuals(at), self._slopes(at)
            effect |= np.abs(slopes).max(axis=0) > 1e-9
            cost, moved = float(here @ here), False
            while damping < 1e6:
                normal = slopes.T @ slopes
                scaled = normal + damping * np.diag(np.maximum(np.diag(normal), 1e-9))
                step = -np.linalg.solve(scaled, slopes.T @ here)
                there = np.clip(at + step, -self._bound, self._bound)
                new = self.residuals(there)
                if float(new @ new) < cost:
                    moved = float(np.abs(there - at).max()) >= SMALLEST_STEP
                    at, damping = there, damping / 5
                    break
                damping *= 4
            damping = max(damping, 1e-6)
            if not moved:
                break
        return at, effect
