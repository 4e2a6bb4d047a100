"""Requests that no kernel computed, or that no tuning knew: what to build and to tune, noted while a program runs.

    CKMLIR_MISSES=misses.jsonl python my_model.py
    ckmlir tune --misses misses.jsonl -o tuned.jsonl

Each request is a line of JSON, written once by each process that meets it (`ckmlir.dispatch.json_lines`).
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from ckmlir.dispatch.json_lines import append, read
from ckmlir.dispatch.policies import given_keys, read_key, request_of
from ckmlir.dispatch.reading import SCHEMA, fields_of
from ckmlir.errors import as_annotated
from ckmlir.ops import find_operator
from ckmlir.ops.operator import Operator
from ckmlir.ops.request import RequestError
from ckmlir.targets import Target, UnsupportedTarget, get_target


class Asked(NamedTuple):
    """A request: an operator, keys as text, those that are not their defaults, and a chip."""

    operator: Operator[Any, Any]
    keys: Mapping[str, str]
    target: Target

    @staticmethod
    def of(operator: Operator[Any, Any], keys: Mapping[str, object], target: Target) -> Asked:
        """A request in the form in which all that say the same are equal. Raises RequestError as `read_key`."""
        return Asked(operator, given_keys(operator, keys), target)

    @property
    def request(self) -> tuple[object, ...]:
        """As `Table` looks it up."""
        return request_of(self.operator, self.keys, self.target)

    def to_dict(self) -> dict[str, Any]:
        """In JSON's types."""
        return {"op": self.operator.name, "arch": self.target.name, "keys": dict(self.keys)}

    @staticmethod
    def from_dict(values: Mapping[str, Any], where: str) -> Asked:
        """The inverse, for values whose fields have been looked at. Raises RequestError naming `where`."""
        try:
            operator, target = find_operator(values["op"]), get_target(values["arch"])
            for name, value in values["keys"].items():
                read_key(operator, name, value)
        except (RequestError, UnsupportedTarget) as error:
            raise RequestError(f"{where}: {error}") from None
        return Asked.of(operator, values["keys"], target)

    def __str__(self) -> str:
        words = [f"{name}={value}" for name, value in self.keys.items()]
        return " ".join([self.operator.name, *words, "on", self.target.name])


class MissLog:
    """A file of requests to which this process appends. Any number of threads and processes may use one file."""

    @as_annotated(RequestError)
    def __init__(self, path: Path) -> None:
        self.path = path
        self._known: set[tuple[object, ...]] = set()
        self._lock = threading.Lock()

    @as_annotated(RequestError)
    def note(self, operator: Operator[Any, Any], keys: Mapping[str, object], target: Target) -> None:
        """Append a request, unless this process did before. Raises CkmlirError where it cannot be written."""
        asked = Asked.of(operator, keys, target)
        with self._lock:
            if asked.request not in self._known:
                append(self.path, [{"schema": SCHEMA, **asked.to_dict()}])
                self._known.add(asked.request)


@as_annotated(RequestError)
def read_misses(path: Path) -> Counter[tuple[object, ...]]:
    """How many processes met each request of a file. Raises RequestError as `read_asked`."""
    return Counter(one.request for one in read_asked(path, each=True))


@as_annotated(RequestError)
def read_asked(path: Path, *, each: bool = False) -> list[Asked]:
    """The requests of a file, each once, those that most processes met first; or `each` line's.

    Raises RequestError for a file that cannot be read, a field that is missing, unknown or wrongly typed, an operator,
    key or chip that is not known.
    """
    found = []
    for where, values in read(path):
        parts = fields_of(values, where, {"schema": int, "op": str, "arch": str, "keys": dict})
        found.append(Asked.from_dict(parts, where))
    if each:
        return found
    counts = Counter(one.request for one in found)
    once = {one.request: one for one in found}
    return [once[request] for request, _ in counts.most_common()]
