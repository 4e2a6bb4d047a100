"""Profiles: named sets of kernels, as the libraries that call them need them.

Each is a file of JSON in `profiles/`, {"schema", "summary", "spaces"}; `ckmlir build NAME` builds it. What a chip
cannot run is dropped there as in any space.
"""

from __future__ import annotations

from pathlib import Path

from ckmlir.dispatch.identity import Find
from ckmlir.dispatch.reading import check_schema, fields_of, read_json
from ckmlir.dispatch.spaces import Space
from ckmlir.errors import suggest
from ckmlir.ops import find_operator
from ckmlir.ops.request import RequestError

DIRECTORY = Path(__file__).parent / "profiles"
_FIELDS = {"schema": int, "summary": str, "spaces": list}


def profiles() -> dict[str, str]:
    """What each profile is for, by name."""
    found = {}
    for path in sorted(DIRECTORY.glob("*.json")):
        found[path.stem] = str(_read(path)["summary"])
    return found


def read_profile(name: str, find: Find = find_operator) -> list[Space]:
    """The spaces of a profile. Raises RequestError for a name that is none."""
    names = [path.stem for path in DIRECTORY.glob("*.json")]
    if name not in names:
        raise RequestError(f"{name} is neither a file nor a profile; {suggest(name, sorted(names))}")
    return [Space.from_dict(one, find) for one in _read(DIRECTORY / f"{name}.json")["spaces"]]


def _read(path: Path) -> dict[str, list[object]]:
    found = fields_of(read_json(path), f"profile {path.stem}", _FIELDS)
    check_schema(found["schema"], f"profile {path.stem}")
    return found
