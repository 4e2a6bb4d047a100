"""What specifications say of pages: words of sources, and which kernels cannot read them."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence

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
        yield Reason("source", source, "not a source of K and V", f"expected {' or '.join(names)}")


def copied_rows(source: str, keys: int, copying: Mapping[str, str], values: Collection[str]) -> Iterator[Reason]:
    """Reasons for copies to LDS of what lies in several pages, and of V in vectors, whose last one may have keys behind
    the end, which become zeros in registers; `copying`: schedules that have any, by field; `values`: fields of those
    that copy V.
    """
    for field, schedule in copying.items():
        if gathers(source, keys):
            why = "it copies K or V to LDS without registers, and a block of keys lies in several pages"
            yield Reason(field, schedule, why, f"expected qr, or pages of {keys} keys")
        elif "vectors" in source and field in values:
            why = "it copies V to LDS without registers, and pages are cut into vectors"
            yield Reason(field, schedule, why, "expected qr_async, which copies K only, or pages of rows")
