"""What the `step` statement of a schedule is made of: fragments in their order, and what stands between them.

| text | meaning |
|---|---|
| `load` | everything of stage `load` that the step does not name otherwise |
| `from_lds.3`, `math.0-7` | fragments of a stage by number: memory accesses and matrix instructions, in program order |
| `from_lds.0-3+1` | these fragments, one iteration ahead of the loop's index |
| `fence`, `fence(valu\\|salu)` | a sched_barrier: nothing may cross it, or only what the mask names |
| `priority(1)` | the wave's priority from here on, 0 to 3 |
| `barrier` | a barrier of the workgroup beyond those that LDS needs |
| `wait(4)` | the wave waits until at most so many of its accesses to memory are outstanding, beyond what values need |
"""

import re

from msgspec import Struct

MASKS = (
    "non_mem_non_sideeffect", "valu", "salu", "mfma_wmma", "all_vmem", "vmem_read", "vmem_write",
    "all_ds", "ds_read", "ds_write", "transcendental", "ldsdma",
)  # fmt: skip
"""Kinds of machine instructions, in the spelling of the rocdl dialect; `|` joins several."""
MOST_AHEAD = 8
MOST_OUTSTANDING = 62
"""Accesses to memory that a wait may leave: vmcnt of s_waitcnt has 6 bits, and 63 stands for no wait."""
RESERVED = ("fence", "priority", "barrier", "wait")
"""Words of the step that cannot be names of stages."""


class Fragments(Struct, frozen=True):
    """A stage, or some of its fragments (`first` to `last`); `ahead` None: as far ahead as the stage."""

    stage: str
    first: int | None = None
    last: int | None = None
    ahead: int | None = None

    def __str__(self) -> str:
        span = (
            "" if self.first is None else f".{self.first}" if self.first == self.last else f".{self.first}-{self.last}"
        )
        return f"{self.stage}{span}" + ("" if self.ahead is None else f"+{self.ahead}")


class Fence(Struct, frozen=True):
    """A sched_barrier; `mask` says what may cross it, "none" or kinds of MASKS joined by `|`."""

    mask: str = "none"

    def __str__(self) -> str:
        return "fence" if self.mask == "none" else f"fence({self.mask})"


class Priority(Struct, frozen=True):
    """The wave's priority from here on."""

    level: int

    def __str__(self) -> str:
        return f"priority({self.level})"


class Barrier(Struct, frozen=True):
    """A barrier of the workgroup."""

    def __str__(self) -> str:
        return "barrier"


class Wait(Struct, frozen=True):
    """A wait of the wave until at most `count` of its accesses to memory, copies to LDS among them, are outstanding."""

    count: int

    def __str__(self) -> str:
        return f"wait({self.count})"


Marker = Fence | Priority | Barrier | Wait
Item = Fragments | Marker

_FRAGMENTS = re.compile(r"([A-Za-z_]\w*)(?:\.(\d+)(?:-(\d+))?)?(?:\+(\d+))?", re.ASCII)
_CALL = re.compile(r"(\w+)\s*(?:\(([^()]*)\))?", re.ASCII)


def parse_item(text: str) -> Item:
    """One item of a step; ValueError says what it has to look like."""
    call = _CALL.fullmatch(text)
    if call and call[1] in RESERVED:
        return _marker(call[1], call[2], text)
    match = _FRAGMENTS.fullmatch(text)
    if match is None:
        raise ValueError(
            f"'{text}' is none of STAGE, STAGE.NUMBER, STAGE.FIRST-LAST (each with +ITERATIONS), "
            "fence, fence(MASK), priority(LEVEL), barrier, wait(COUNT)"
        )
    stage, first, last, ahead = match.groups()
    start = None if first is None else int(first)
    end = start if last is None else int(last)
    if start is not None and end is not None and end < start:
        raise ValueError(f"'{text}' ends before it begins; write {stage}.{end}-{start}")
    return Fragments(stage, start, end, None if ahead is None else int(ahead))


def _marker(word: str, argument: str | None, text: str) -> Marker:
    if word == "barrier":
        if argument is not None:
            raise ValueError(f"'{text}': a barrier takes nothing in parentheses")
        return Barrier()
    if word == "priority":
        if argument is None or argument.strip() not in ("0", "1", "2", "3"):
            raise ValueError(f"'{text}' has to be priority(0), (1), (2) or (3)")
        return Priority(int(argument))
    if word == "wait":
        count = (argument or "").strip()
        if not (count.isascii() and count.isdigit()) or int(count) > MOST_OUTSTANDING:
            raise ValueError(f"'{text}' has to be wait(COUNT), of 0 to {MOST_OUTSTANDING} accesses left outstanding")
        return Wait(int(count))
    return Fence("none" if argument is None else parse_mask(argument))


def parse_mask(text: str) -> str:
    """Kinds of instructions joined by `|`, or `none`; ValueError names the one that is unknown."""
    kinds = [kind.strip() for kind in text.split("|")]
    for kind in kinds:
        if kind not in MASKS and kinds != ["none"]:
            raise ValueError(f"'{kind}' is not a kind of instruction; there are {', '.join(MASKS)}")
    return "|".join(kinds)
