"""The language's names, a line each, from their docstrings: `python -m ckmlir.tools.language_table
docs/writing_kernels.md` renews them.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from typing import Any

from ckmlir import lang
from ckmlir.dialect import distribution_builders
from ckmlir.dialect.distribution import Distribution
from ckmlir.dialect.mma import Mma
from ckmlir.lang.kernel import PointerArgument, ScalarArgument
from ckmlir.tools.made_text import MadeText

SECTIONS = {
    "Kernels and their arguments": ("kernel",),
    "Memory": ("views",),
    "Scalars, pointers, tiles": ("values", "operators"),
    "Functions of tiles": ("tiles", "shapes", "folds", "machine"),
    "Loops and branches": ("loops", "conditions", "trace"),
}
"""Heading -> the modules of `ckmlir.lang` whose names stand under it; what is in none of them stands under the last."""
BUILDERS = ("coalesced", "rows", "row_tile_length", "rows_at_once", "lane_cells")


def language_table() -> str:
    """The tables in Markdown: one a section, then distributions and matrix instructions."""
    places: dict[str, list[str]] = {heading: [] for heading in SECTIONS}
    for name in lang.__all__:
        places[_section(getattr(lang, name))].append(name)
    parts = [_table(heading, _rows(lang, sorted(names, key=str.lower))) for heading, names in places.items()]
    others = [
        *_rows(distribution_builders, BUILDERS),
        *_methods("Distribution", Distribution, ("parse", "coordinates", "embed", "slice", "reduce", "join")),
        *_methods("Mma", Mma, ("select", "a_over", "b_over", "c_over")),
    ]
    return "\n\n".join([*parts, _table("Distributions and matrix instructions (`ckmlir.dialect`)", others)])


def _section(item: Any) -> str:
    module = getattr(item, "__module__", "")
    if isinstance(item, (ScalarArgument, PointerArgument)):
        module = "kernel"
    own = module.rpartition(".")[2]
    return next((heading for heading, modules in SECTIONS.items() if own in modules), list(SECTIONS)[-1])


def _table(heading: str, rows: Sequence[tuple[str, str]] | Iterator[tuple[str, str]]) -> str:
    lines = [f"| `{name}` | {text} |" for name, text in rows]
    return "\n".join([f"### {heading}", "", "| name | what it is |", "|---|---|", *lines])


def _rows(module: Any, names: Sequence[str]) -> Iterator[tuple[str, str]]:
    for name in names:
        item = getattr(module, name)
        yield name, _line(item)
        if inspect.isclass(item) and not issubclass(item, Exception) and name != "Kernel":
            yield from _methods(name, item, _own_names(item))


def _own_names(item: type) -> list[str]:
    """Public methods and properties, those of base classes in the language included, each once."""
    classes = [one for one in item.__mro__ if one.__module__.startswith(lang.__name__)]
    return list(dict.fromkeys(name for one in classes for name in vars(one) if not name.startswith("_")))


def _methods(owner: str, item: type, names: Sequence[str]) -> Iterator[tuple[str, str]]:
    for name in names:
        line = _line(getattr(item, name))
        if line:  # plain fields have no docstring
            yield f"{owner}.{name}", line


def _line(item: Any) -> str:
    """The first paragraph of a docstring, on one line."""
    if isinstance(item, ScalarArgument):
        return f"A scalar argument of a kernel: {item.dtype}."
    first = (inspect.getdoc(item) or "").partition("\n\n")[0]
    return " ".join(first.split()).replace("|", "\\|")


MADE = MadeText("language", "ckmlir.tools.language_table", language_table)

if __name__ == "__main__":
    MADE.main()
