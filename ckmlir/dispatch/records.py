"""What tuning found out: times of kernels for problems, in a file that grows, and the table that comes of it.

A record says which kernel took how long for which request, by which source: a device, or the model of time. Records are
appended and never changed; of several by one source the last counts. Where a device has timed a kernel for a request,
the table knows nothing of the model's times for it: they rank, they do not measure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct

from ckmlir import __version__
from ckmlir.dispatch.identity import Kernel
from ckmlir.dispatch.json_lines import append, read
from ckmlir.dispatch.misses import Asked
from ckmlir.dispatch.policies import Table
from ckmlir.dispatch.reading import SCHEMA, fields_of
from ckmlir.dispatch.registry import Registry
from ckmlir.errors import as_annotated
from ckmlir.ops.request import RequestError, show

MODEL, DEVICE = "model", "device"
_FIELDS = {
    "schema": int, "op": str, "arch": str, "keys": dict, "kernel": dict, "source": str, "by": str, "ckmlir": str,
}  # fmt: skip
_NUMBERS = {"median_us": float, "low_us": float, "high_us": float, "spread_us": float, "clock_mhz": float}
_MAYBE = {**_NUMBERS, "samples": int, "checked": str, "refused": str}


class Record(Struct, frozen=True):
    """A kernel's time for a request, or why it has none.

    Attributes:
        source: `DEVICE` or `MODEL`.
        by: which device, as it calls itself; of a model the chip.
        median_us: microseconds of all launches together; None for a kernel that was refused.
        low_us, high_us: the median lies between these with 95 %; of a model both are the median.
        spread_us: the middle half of the samples lies within so much.
        samples: how many launches were timed; 0 for a model.
        clock_mhz: of the shader engines, as the device or the model states its peak; None where nobody says.
        checked: for which request its numbers were compared with NumPy; None where they were not.
        refused: why it is not to be used; None for one that is right.
        version: of this package.
    """

    asked: Asked
    kernel: Kernel
    source: str
    by: str
    median_us: float | None = None
    low_us: float | None = None
    high_us: float | None = None
    spread_us: float | None = None
    samples: int | None = None
    clock_mhz: float | None = None
    checked: str | None = None
    refused: str | None = None
    version: str = __version__

    @property
    def key(self) -> tuple[object, ...]:
        """Of records with equal ones the last counts."""
        return self.asked.request, self.source, self.by, self.kernel.identifier

    def to_dict(self) -> dict[str, Any]:
        """In JSON's types; what is not known is left out."""
        maybe = {name: getattr(self, name) for name in _MAYBE}
        return {
            "schema": SCHEMA, **self.asked.to_dict(), "kernel": self.kernel.to_dict(), "source": self.source,
            "by": self.by, **{name: value for name, value in maybe.items() if value is not None},
            "ckmlir": self.version,
        }  # fmt: skip

    @staticmethod
    def from_dict(values: object, where: str = "record") -> Record:
        """The inverse. Raises RequestError for fields that are missing, unknown or wrongly typed."""
        found = fields_of(values, where, _FIELDS, _MAYBE)
        if found["source"] not in (MODEL, DEVICE):
            raise RequestError(f"{where}: source={show(found['source'])}: expected {DEVICE}|{MODEL}")
        if ("median_us" in found) == ("refused" in found):
            raise RequestError(f"{where}: expected either median_us or refused")
        asked = Asked.from_dict(found, where)
        try:
            kernel = Kernel.from_dict(found["kernel"], older=True)
        except RequestError as error:
            raise RequestError(f"{where}: {error}") from None
        if (kernel.operator, kernel.target) != (asked.operator, asked.target):
            raise RequestError(f"{where}: {kernel} is a kernel of another operator or chip than the request")
        maybe = {name: found.get(name) for name in _MAYBE}
        return Record(asked, kernel, found["source"], found["by"], **maybe, version=found["ckmlir"])


@as_annotated(RequestError)
def append_records(path: Path, records: Iterable[Record]) -> None:
    """Append records to a file, new or old. Raises CkmlirError where it cannot be written."""
    append(path, [one.to_dict() for one in records])


@as_annotated(RequestError)
def read_records(path: Path, *, partial: bool = False) -> list[Record]:
    """The records of a file that count, in their order.

    Args:
        partial: leave out those that this version cannot read.

    Raises RequestError for a file that is none of records.
    """
    found: dict[tuple[object, ...], Record] = {}
    for where, values in read(path):
        try:
            record = Record.from_dict(values, where)
        except RequestError:
            if partial:
                continue
            raise
        found.pop(record.key, None)
        found[record.key] = record
    return list(found.values())


@as_annotated(RequestError)
def ranked(records: Iterable[Record], by: str | None = None) -> Mapping[tuple[object, ...], list[Record]]:
    """By request, what may be used, the fastest first: devices' records if there are any, else the model's.

    Args:
        by: only what this device timed, and the model's.
    """
    groups: dict[tuple[object, ...], list[Record]] = {}
    for record in records:
        if by is None or record.source == MODEL or record.by == by:
            groups.setdefault(record.asked.request, []).append(record)
    found = {}
    for request, group in groups.items():
        wrong = {one.kernel for one in group if one.refused is not None}
        right = [one for one in group if one.median_us is not None and one.kernel not in wrong]
        timed = [one for one in right if one.source == DEVICE] or right
        found[request] = sorted(timed, key=lambda one: one.median_us or 0.0)
    return found


@as_annotated(RequestError)
def tuned_table(records: Iterable[Record]) -> Table:
    """The policy that takes what tuning found: of the kernels that a dispatcher has the fastest."""
    best = ranked(records)
    rows = {request: [one.kernel.identifier for one in group] for request, group in best.items() if group}
    return Table({request: tuple(dict.fromkeys(row)) for request, row in rows.items()})


@as_annotated(RequestError)
def tuned_registry(records: Iterable[Record]) -> Registry:
    """The fastest kernel of each request."""
    best = ranked(records)
    return Registry([group[0].kernel for group in best.values() if group], name="tuned")
