"""What a checker finds: the form that all checkers share, and their names.

A finding says what is wrong and where. Checkers that watch a run (`memory`, `race`, …) know the workgroup, wave and
lanes; checkers that read the code alone (`wait`, `hazard`) leave those out.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from msgspec import Struct

from ckmlir.records import plain


class Finding(Struct, frozen=True):
    """One thing that is wrong with a kernel.

    Attributes:
        checker: Name of the checker, a key of CHECKERS.
        message: What is wrong, without the place; no full stop at the end.
        kernel: Name of the kernel.
        address: Byte offset of the instruction from the kernel's first byte.
        instruction: Its assembly text; empty where the finding is about the launch, not about an instruction.
        source: File and line, where the code object has a line table.
        workgroup: Coordinates (x, y, z) of the workgroup in which it was seen first.
        wave: Number of the wave in its workgroup.
        lanes: Lanes concerned when it was first seen, ascending.
        memory_address: Byte offset in the allocation, of the first lane concerned.
        allocation: Name of the memory: "LDS", "scratch", the name of an argument, …
        times: How often it was seen; findings of one checker at one instruction are one finding.
        earlier: Of missing waits and races, the byte offsets of the earlier accesses.
        grade: How much it weighs: "required" is wrong; "advisory" is unusual, and harmless under an assumption that the
            message states; "cleared" is what the code alone could not exclude and a run that executed the place did not
            show.
    """

    checker: str
    message: str
    kernel: str
    address: int
    instruction: str
    source: tuple[str, int] | None = None
    workgroup: tuple[int, int, int] | None = None
    wave: int | None = None
    lanes: tuple[int, ...] = ()
    memory_address: int | None = None
    allocation: str | None = None
    times: int = 1
    earlier: tuple[int, ...] = ()
    grade: str = "required"

    @property
    def is_fault(self) -> bool:
        """Whether the kernel is wrong, as far as the checker knows."""
        return self.grade == "required"

    @property
    def place(self) -> str:
        """Everything known about where, in one line."""
        parts = [f"{self.instruction} at 0x{self.address:x} of {self.kernel}" if self.instruction else self.kernel]
        if self.source is not None:
            parts.append(f"from {self.source[0]}:{self.source[1]}")
        if self.workgroup is not None:
            parts.append(f"workgroup ({', '.join(map(str, self.workgroup))})")
        if self.wave is not None:
            parts.append(f"wave {self.wave}")
        if self.lanes:
            parts.append(f"lane{'s' * (len(self.lanes) > 1)} {_ranges(self.lanes)}")
        if self.allocation is not None:
            offset = "" if self.memory_address is None else f"byte {self.memory_address} of "
            parts.append(f"{offset}{self.allocation}")
        if self.times > 1:
            parts.append(f"seen {self.times} times")
        return ", ".join(parts)

    def __str__(self) -> str:
        grade = "" if self.is_fault else f" ({self.grade})"
        return f"{self.checker}{grade}: {self.message}\n    {self.place}"

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON, with the names of the attributes."""
        return plain(self)


def _ranges(lanes: Iterable[int]) -> str:
    """Ascending numbers as "0-3, 7"."""
    runs: list[list[int]] = []
    for lane in lanes:
        if runs and lane == runs[-1][1] + 1:
            runs[-1][1] = lane
        else:
            runs.append([lane, lane])
    return ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)


class Checker(Struct, frozen=True):
    """A checker by name. `on_request` ones report what is legal but often unintended; `all` leaves them out."""

    name: str
    finds: str
    on_request: bool = False


CHECKERS: dict[str, Checker] = {
    checker.name: checker
    for checker in (
        Checker("memory", "accesses out of bounds, after free, misaligned, or writing what is read-only"),
        Checker("initialisation", "undefined registers or memory that are stored, branched on or used as addresses"),
        Checker("race", "conflicting accesses of waves with no barrier between them"),
        Checker("barrier", "waves or lanes that miss a barrier at which others wait"),
        Checker("wait", "registers or LDS used before the counter that guards them was waited for"),
        Checker("hazard", "instructions closer together than the chip allows"),
        Checker("promise", "promises of a kernel's author, such as `multiple_of`, that a launch does not keep"),
        Checker(
            "copy_order", "copies from memory to LDS that are waited for by number, as if they landed in order",
            on_request=True,
        ),
        Checker("clamped", "buffer accesses that the size of the buffer refuses", on_request=True),
        Checker("unaligned", "accesses of dwords that are not dword-aligned", on_request=True),
        Checker(
            "interleaving", "numbers that hang on a missing barrier, as waves take turns between accesses too",
            on_request=True,
        ),
    )
}  # fmt: skip
"""All checkers, in the order of reports."""


def parse_checks(chosen: str | Iterable[str]) -> frozenset[str]:
    """The checkers of a list of names, or of names separated by commas; "all" stands for all but those on request.

    Raises:
        ValueError: An unknown name, an empty one, or no names.
    """
    if not isinstance(chosen, Iterable):
        raise ValueError(f"expected names of checkers, not {chosen!r}")
    names: set[str] = set()
    for word in chosen.split(",") if isinstance(chosen, str) else chosen:
        name = word.strip() if isinstance(word, str) else word
        if name == "all":
            names |= {one.name for one in CHECKERS.values() if not one.on_request}
            continue
        if not isinstance(name, str) or name not in CHECKERS:
            raise ValueError(f"{name!r} is not a checker; choose all, or from {', '.join(CHECKERS)}")
        names.add(name)
    return frozenset(names)
