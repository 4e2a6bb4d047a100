"""Reading the objects of JSON files: missing, unknown and wrongly typed fields are errors that name them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from ckmlir.errors import as_json, from_json, suggest
from ckmlir.ops.request import RequestError

if TYPE_CHECKING:
    from pathlib import Path

SCHEMA = 1
"""Of all JSON that this package writes. A file of a newer one is refused: what its fields mean is not known here."""

_TYPES = {
    dict: "an object", list: "a list", str: "text", int: "a whole number", float: "a number", bool: "true or false",
    object: "a value",
}  # fmt: skip


def fields_of(
    values: object, what: str, required: Mapping[str, type], optional: Mapping[str, type] | None = None
) -> dict[str, Any]:
    """The fields of an object, of the types that are asked for; optional ones may be missing.

    Raises:
        RequestError: naming the object (`what`), the field, and what is wrong with it.
    """
    if not isinstance(values, dict):
        raise RequestError(f"{what}: expected an object, got {as_json(values)}")
    known = {**required, **(optional or {})}
    for name in values:
        if name not in known:
            raise RequestError(f"{what}: unknown field {name}; {suggest(str(name), known)}")
    for name, wanted in known.items():
        if name not in values:
            if name in required:
                raise RequestError(f"{what}: no field {name}; expected {_TYPES[wanted]}")
            continue
        value = values[name]
        fits = isinstance(value, (int, float) if wanted is float else wanted) and not (
            isinstance(value, bool) and wanted in (int, float)
        )
        if wanted is not object and not fits:
            raise RequestError(f"{what}: {name}={as_json(value)}: expected {_TYPES[wanted]}")
    return values


def check_schema(number: int, what: str) -> None:
    """Raise RequestError for a schema that this version does not read."""
    if number > SCHEMA:
        raise RequestError(f"{what}: schema={number} is newer than this version reads; expected at most {SCHEMA}")
    if number < 1:
        raise RequestError(f"{what}: schema={number}: expected {SCHEMA}")


def read_json(path: Path) -> object:
    """What a file of JSON holds. Raises RequestError for a file that cannot be read or is not JSON."""
    try:
        return from_json(path.read_bytes())
    except OSError as error:
        raise RequestError(f"cannot read {path}: {error.strerror or error}") from None
    except ValueError as error:
        raise RequestError(f"{path} is not JSON ({error})") from None


@contextmanager
def of_file(path: Path) -> Iterator[None]:
    """Whatever is wrong with what a file holds names the file."""
    try:
        yield
    except RequestError as error:
        raise RequestError(f"{path}: {error}") from None
