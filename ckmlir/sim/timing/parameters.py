"""The numbers of the model: named, with unit, source and how well they are known, read from text files.

`parameters/common.toml` holds what the chips share, `parameters/<chip>.toml` what is a chip's own. Every entry is

    [lds]
    latency = { value = 64, unit = "cycles", status = "published", source = "LLVM SISchedule.td, WriteLDS" }

and is called "lds.latency". A file given by a user has the same form; an entry may then also be a bare value, and
replaces the value only.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from ckmlir.errors import CkmlirError, suggest
from ckmlir.sim.chips import TARGETS

if sys.version_info >= (3, 11):
    import tomllib
else:
    try:
        import tomli as tomllib
    except ImportError as error:
        raise ImportError("reading parameters of the timing model needs tomli: pip install 'ckmlir[timing]'") from error

Number: TypeAlias = float | int
Value: TypeAlias = Number | str

STATUSES: Final = ("measured", "published", "assumed", "given")
"""How well a number is known; "given" is a user's own."""
_DIRECTORY: Final = Path(__file__).parent / "parameters"


class ParameterError(CkmlirError):
    """A parameter, or a file of them, is not as it has to be."""


class Parameter(Struct, frozen=True):
    """One number (or a short text such as a grouping of lanes) of the model."""

    name: str
    value: Value
    unit: str
    status: str
    source: str


class Parameters(Mapping[str, Parameter]):
    """All parameters of one chip, by name."""

    def __init__(self, target: str, entries: Iterable[Parameter]) -> None:
        self.target = target
        self._entries = {entry.name: entry for entry in entries}

    def __getitem__(self, name: str) -> Parameter:
        """Raises KeyError for a name that is none."""
        return self._entries[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def find(self, name: str) -> Parameter:
        """As indexing, for names that a user wrote.

        Raises:
            ParameterError: With the names that are near.
        """
        if name in self._entries:
            return self._entries[name]
        raise ParameterError(
            f"the timing model of {self.target} has no parameter '{name}'; {suggest(name, self._entries)}"
        )

    def number(self, name: str) -> float:
        """The value of a number."""
        return float(self[name].value)

    def integer(self, name: str) -> int:
        """The value of a number that counts something, rounded to the nearest."""
        return round(float(self[name].value))

    def text(self, name: str) -> str:
        """The value of a text."""
        return str(self[name].value)

    def with_values(self, values: Mapping[str, Value], source: str = "given by the user") -> Parameters:
        """The same with some values replaced, marked "given".

        Raises:
            ParameterError: An unknown name, or a text for a number.
        """
        changed = dict(self._entries)
        for name, value in values.items():
            known = self.find(name)
            changed[name] = replace(known, value=_checked(known, value), status="given", source=source)
        return Parameters(self.target, changed.values())


def _checked(known: Parameter, value: Value) -> Value:
    """A new value of a parameter, of the same kind as the old and not negative."""
    if isinstance(known.value, str):
        return str(value)
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError as error:
            raise ParameterError(f"{known.name}: '{value}' is not a number; its unit is {known.unit}") from error
    if not 0 <= value < 1e15:
        raise ParameterError(f"{known.name}: {value} is out of range; it is a number of {known.unit}, 0 or more")
    return int(value) if float(value).is_integer() else value


def load(target: str, file: str | Path | None = None, overrides: Iterable[str] = ()) -> Parameters:
    """The parameters of a chip.

    Args:
        target: "gfx90a", "gfx942" or "gfx950".
        file: A TOML file whose entries replace values.
        overrides: "name=value", applied last.

    Raises:
        ParameterError: An unknown chip or name, a value that is not a number, a file that cannot be read.
    """
    if target not in TARGETS:
        raise ParameterError(f"the timing model does not know {target!r}; it knows {', '.join(TARGETS)}")
    parameters = _of_chip(target)
    if file is not None:
        path = Path(file)
        given = {key: _value_of(key, item, path) for key, item in _flattened(_read(path), path)}
        parameters = parameters.with_values(given, f"given in {path}")
    values: dict[str, Value] = {}
    for text in overrides:
        key, separator, word = text.partition("=")
        if not separator:
            raise ParameterError(f"'{text}' does not override a parameter; write name=value, such as lds.latency=80")
        values[key.strip()] = word.strip()
    return parameters.with_values(values)


@cache
def _of_chip(target: str) -> Parameters:
    """Those that come with the package."""
    entries: dict[str, Parameter] = {}
    for name in ("common", target):
        path = _DIRECTORY / f"{name}.toml"
        for key, item in _flattened(_read(path), path):
            entries[key] = _parameter(key, item, path)
    return Parameters(target, entries.values())


def _read(path: Path) -> dict[str, Any]:
    try:
        found: dict[str, Any] = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ParameterError(f"cannot read the parameters in {path}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ParameterError(f"{path}: {error}") from error
    return found


def _flattened(table: Mapping[str, Any], path: Path, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """(name, entry) of all entries; nested tables are parts of the name."""
    for key, item in table.items():
        name = f"{prefix}{key}"
        if isinstance(item, dict) and "value" not in item:
            yield from _flattened(item, path, f"{name}.")
        else:
            yield name, item


def _parameter(name: str, item: Any, path: Path) -> Parameter:
    """An entry of our own files, all of whose fields have to be there."""
    if not isinstance(item, dict) or set(item) != {"value", "unit", "status", "source"}:
        raise ParameterError(f"{path}: {name} needs value, unit, status and source")
    if item["status"] not in STATUSES[:3]:
        raise ParameterError(f"{path}: {name} has status '{item['status']}'; it is one of {', '.join(STATUSES[:3])}")
    return Parameter(name, item["value"], item["unit"], item["status"], item["source"])


def _value_of(name: str, item: Any, path: Path) -> Value:
    value = item.get("value") if isinstance(item, dict) else item
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise ParameterError(f"{path}: {name} is neither a number nor a text")
    return value
