"""Missing waits as findings: what a run shows, and together with what the code alone shows."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable

from msgspec.structs import replace

from ckmlir.sim.checks import wait_layout
from ckmlir.sim.checks.finding import Finding
from ckmlir.sim.checks.layout import Kind
from ckmlir.sim.checks.place import Place

_COUNTERS = {wait_layout.VM: "vmcnt", wait_layout.LGKM: "lgkmcnt"}
SLOTS = ", unless they are apart: places are chosen at run time, and only a run of both tells"
"""What the code alone does not know of copies to LDS, behind the message of a missing wait."""
_MORE = re.compile(r" \(and \d+ more\)")


def wait_message(kind: int, tag: int, other: int, place: Place) -> str:
    """What is used too early, the access in flight (the instruction of record `other`), and the wait that is right."""
    from ckmlir.sim.analysis.registers import names, span

    needed = f"s_waitcnt {_COUNTERS[tag & 1]}({tag >> wait_layout.TAG_NEEDED & 0xFF})"
    access = place.text_of(other)
    if kind == Kind.EARLY_REGISTER:
        first, count = tag >> wait_layout.TAG_FIRST & 0xFFFF, tag >> wait_layout.TAG_COUNT
        registers = names(span(first, count))
        return f"{registers} is still in flight from {access}; {needed} or less is needed before"
    if kind == Kind.EARLY_LDS_COPY:
        unfinished = "been read yet by" if "_store_lds_" in access else "arrived yet from"
        return f"LDS has not {unfinished} {access}; {needed} or less is needed before"
    wave, barrier = tag >> wait_layout.TAG_WAVE & 0xFFFF, place.text_of(tag >> wait_layout.TAG_BARRIER)
    return (
        f"LDS that {access} of wave {wave} may not be done with: it was in flight at {barrier}; {needed} or less is "
        "needed before that barrier"
    )


def joined(first: Finding, second: Finding) -> Finding:
    """One finding of two at one instruction: the message of the first, and the number of other accesses."""
    earlier = tuple(dict.fromkeys((*first.earlier, *second.earlier)))
    message = _MORE.sub("", first.message).replace("; s_waitcnt", f" (and {len(earlier) - 1} more); s_waitcnt", 1)
    return replace(first, message=message, earlier=earlier, times=max(first.times, second.times))


def seen_or_possible(
    known: Iterable[Finding], seen: list[Finding], executed: Callable[[], Collection[int]]
) -> list[Finding]:
    """What the code alone shows (`known`), then what the run shows; a missing wait that both show is there once.

    Whether accesses to LDS meet is known to a run, while the code alone may not show their addresses; so what it shows
    of LDS is cleared where the run has executed both instructions. `executed` gives the offsets of those it has.
    """
    shown = {access for one in seen if one.checker == "wait" for access in one.earlier}
    possible = [one for one in known if one.checker != "wait" or not one.earlier or not shown.issuperset(one.earlier)]
    if any(_of_lds(one) for one in possible):
        decided = set(executed())
        possible = [_cleared(one) if _of_lds(one) and decided.issuperset((one.address, *one.earlier)) else one
                    for one in possible]  # fmt: skip
    return [*possible, *seen]


def _cleared(finding: Finding) -> Finding:
    message = f"{finding.message.removesuffix(SLOTS)}; this run executed both, and they did not meet"
    return replace(finding, message=message, grade="cleared")


def _of_lds(finding: Finding) -> bool:
    return finding.checker == "wait" and bool(finding.earlier) and finding.allocation == "LDS"
