"""What specifications say of pages: words of sources, and which kernels cannot read them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from ckmlir.ops.spec import Reason

_PAGED = re.compile(r"[a-z]+_([1-9][0-9]{0,9})((_[a-z0-9]+)*)")


def page_size(source: str) -> int:
    """Keys of a page, by a source's word; 0 for one that has no pages."""
    found = _PAGED.fullmatch(source)
    return int(found[1]) if found else 0


def gathers(source: str, keys: int) -> bool:
    """Whether blocks of so many keys lie in several pages."""
    return 0 < page_size(source) < keys


def unknown_sources(source: str, names: Sequence[str]) -> Iterator[Reason]:
    """A reason for a word that no source of these names has."""
    size = page_size(source)
    if source and (source.partition("_")[0] not in names or size & (size - 1)):
        yield Reason("source", source, "there is no such source", f"expected {' or '.join(names)}")


def copied_rows(source: str, keys: int, copying: Mapping[str, str]) -> Iterator[Reason]:
    """Reasons for copies to LDS of what lies in several pages, or in vectors; `copying`: schedules that have any, by
    field."""
    vectors = "vectors" in source
    for field, schedule in copying.items() if vectors or gathers(source, keys) else ():
        lies = "pages are cut into vectors" if vectors else "a block of keys lies in several pages"
        right = "rows" if vectors else f"{keys} keys"
        why = f"it copies K or V to LDS without registers, and {lies}"
        yield Reason(field, schedule, why, f"expected qr, or pages of {right}")
