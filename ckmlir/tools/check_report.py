"""The reports of `ckmlir check`: text for people, JSON, and SARIF 2.1.0 for editors and code hosts.

SARIF: OASIS, "Static Analysis Results Interchange Format (SARIF) Version 2.1.0", sections 3.14 (run) to 3.32 (address).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from msgspec import Struct

from ckmlir import __version__
from ckmlir.errors import counted
from ckmlir.ops.comparison import Array
from ckmlir.records import plain
from ckmlir.sim.checks import CHECKERS, Finding

SCHEMA = 1
DECODE = "words that no instruction has, and jumps that cannot be followed: nothing is proven behind them"


class ArrayReport(Struct, frozen=True):
    """What a run left in an array: smallest and largest number (None where there is none that is finite)."""

    dtype: str
    shape: tuple[int, ...]
    least: float | None
    largest: float | None
    not_finite: int

    @classmethod
    def of(cls, array: Array) -> ArrayReport:
        """Of the contents."""
        numbers = array.astype(np.float64).ravel()
        finite = numbers[np.isfinite(numbers)]
        least, largest = (float(finite.min()), float(finite.max())) if finite.size else (None, None)
        return cls(array.dtype.name, array.shape, least, largest, int(numbers.size - finite.size))


class RunReport(Struct, frozen=True):
    """A run. `ended`: the kernel came to its end; else there are no counts and the arrays mean nothing."""

    launch: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    ended: bool
    counts: Mapping[str, int]
    arrays: Mapping[str, ArrayReport]
    saved: tuple[str, ...]

    @classmethod
    def of(
        cls,
        launch: str,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        ended: bool,
        counts: Mapping[str, int],
        arrays: Mapping[str, Array],
        saved: Sequence[Path],
    ) -> RunReport:
        """With the arrays summed up."""
        about = {name: ArrayReport.of(array) for name, array in arrays.items()}
        return cls(launch, grid, block, ended, counts, about, tuple(map(str, saved)))


class KernelReport(Struct, frozen=True):
    """A kernel: the checks that were made, what they found, the run if there was one, and the barriers that would
    order the races it showed."""

    name: str
    checked: tuple[str, ...]
    findings: tuple[Finding, ...]
    run: RunReport | None = None
    barriers: tuple[str, ...] = ()


class Report(Struct, frozen=True):
    """A code object."""

    file: str
    target: str
    kernels: tuple[KernelReport, ...]

    @property
    def is_clean(self) -> bool:
        """Whether no fault was found; advice and what a run cleared are none."""
        return not any(one.is_fault for kernel in self.kernels for one in kernel.findings)


def text_report(report: Report) -> str:
    """For people."""
    lines = [f"{report.file}: {report.target}"]
    for kernel in report.kernels:
        faults = [one for one in kernel.findings if one.is_fault]
        what = "nothing found" if not faults else counted(len(faults), "finding")
        lines.append(f"{kernel.name}: {what} ({', '.join(kernel.checked)})")
        lines += map(str, faults)
        lines += [f"a barrier is missing: {one}" for one in kernel.barriers]
        lines += _grouped(one for one in kernel.findings if not one.is_fault)
        if kernel.run is not None:
            lines += run_lines(kernel.run)
    return "\n".join(lines)


_PLACES = re.compile(r"\b(0x)?[0-9a-f]*\d[0-9a-f]*\b|\(.*?\)|\[.*?\]")


def _grouped(findings: Iterable[Finding]) -> Iterator[str]:
    """Advice and what was cleared, a line for all that say the same of different registers and places."""
    groups: dict[tuple[str, str, str], list[Finding]] = {}
    for one in findings:
        what = _PLACES.sub("", one.message.partition(":")[0] if one.checker == "hazard" else one.message)
        kind = what if one.checker == "hazard" else what[:24]
        groups.setdefault((one.grade, one.checker, kind), []).append(one)
    for (grade, checker, _), group in groups.items():
        first = group[0]
        more = f" (and at {counted(len(group) - 1, 'more place')})" if len(group) > 1 else ""
        yield f"{checker} ({grade}): {first.message}{more}\n    {first.place}"


def run_lines(run: RunReport) -> list[str]:
    """A run for people."""
    if not run.ended:
        return ["  the run did not come to its end; arrays were not kept"]
    counts = run.counts
    lines = [
        f"  ran {counted(counts['workgroups'], 'workgroup')} of {'x'.join(map(str, run.block))}: "
        f"{counts['wave_instructions']} instructions of waves, "
        f"{counts['bytes_read']} bytes read, {counts['bytes_written']} written"
    ]
    for name, one in run.arrays.items():
        ends = "no finite number" if one.least is None else f"{one.least:g} to {one.largest:g}"
        strange = f", {one.not_finite} infinite or NaN" if one.not_finite else ""
        lines.append(f"  {name}: {one.dtype} {list(one.shape)}, {ends}{strange}")
    return [*lines, *(f"  wrote {file}" for file in run.saved)]


def json_report(report: Report) -> str:
    """One object; findings have the fields of `Finding`."""
    kernels = [
        {
            "name": kernel.name,
            "checked": list(kernel.checked),
            "findings": [one.to_dict() for one in kernel.findings],
            "missing_barriers": list(kernel.barriers),
            "run": None if kernel.run is None else plain(kernel.run),
        }
        for kernel in report.kernels
    ]
    about = {"schema": SCHEMA, "file": report.file, "target": report.target, "ok": report.is_clean}
    return json.dumps({**about, "kernels": kernels}, allow_nan=False)


def sarif_report(report: Report) -> str:
    """A log of one run; its rules are the checkers, results stand at source lines where the code has a line table."""
    finds = {"decode": DECODE, **{one.name: one.finds for one in CHECKERS.values()}}
    rules = [{"id": name, "shortDescription": {"text": text}} for name, text in finds.items()]
    numbers = {name: number for number, name in enumerate(finds)}
    results = [_result(report, one, numbers) for kernel in report.kernels for one in kernel.findings]
    driver = {"name": "ckmlir", "version": __version__, "rules": rules}
    run = {"tool": {"driver": driver}, "artifacts": [{"location": {"uri": _uri(report.file)}}], "results": results}
    schema = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
    return json.dumps({"$schema": schema, "version": "2.1.0", "runs": [run]}, allow_nan=False, indent=1)


def _result(report: Report, one: Finding, numbers: Mapping[str, int]) -> dict[str, Any]:
    physical: dict[str, Any] = {
        "artifactLocation": {"uri": _uri(report.file)},
        "address": {"offsetFromParent": one.address, "name": one.instruction, "kind": "instruction"},
    }
    if one.source is not None:
        physical["artifactLocation"] = {"uri": _uri(one.source[0])}
        if one.source[1] > 0:  # 0: the compiler knows the file alone
            physical["region"] = {"startLine": one.source[1]}
    return {
        "ruleId": one.checker,
        "ruleIndex": numbers[one.checker],
        "level": {"required": "error", "advisory": "warning", "cleared": "note"}[one.grade],
        "message": {"text": f"{one.message}: {one.place}"},
        "locations": [
            {
                "physicalLocation": physical,
                "logicalLocations": [{"fullyQualifiedName": one.kernel, "kind": "function"}],
            }
        ],
        "occurrenceCount": one.times,
    }


def _uri(path: str) -> str:
    """A path as SARIF wants it: absolute ones as file URIs."""
    from urllib.parse import quote

    return Path(path).as_uri() if Path(path).is_absolute() else quote(path)


FORMATS: dict[str, Callable[[Report], str]] = {"text": text_report, "json": json_report, "sarif": sarif_report}
