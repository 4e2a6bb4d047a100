"""The table of simple operations: instructions whose results are a pure function of their operands, lane by lane.

Each entry is written once against the abstract builder. A signature reads "results <- operands" and uses, besides
element types (u32, i16, f64, mask, …):
    scc, exec, m0   the register itself, implicit in the assembly text (scc as a mask, exec as u64, m0 as u32)
    lanes           EXEC as a lane mask, implicit in the text
    vcc             the vcc register as a lane mask, implicit in the text
    u32*6           six registers of a vector operand, which the function takes or gives as a list
    old:TYPE        the destination's content before the instruction (read-modify-write instructions)
A mask operand is a pair of scalar registers, one bit a lane.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import cast

from msgspec import Struct

from ckmlir.sim.builder import Value
from ckmlir.sim.element import TYPES, ElementType

Semantics = Callable[..., "Value | Sequence[Value | list[Value]]"]
"""Takes a value (for a block operand a list of values) an operand; gives the result, or several."""

_IMPLICIT_TYPES = {"scc": "mask", "vcc": "mask", "lanes": "mask", "exec": "u64", "m0": "u32"}


class Place(Struct, frozen=True):
    """One operand or result of a signature: its type, and how it is found when the instruction does not name it."""

    type: ElementType
    implicit: str = ""  # "", "scc", "vcc", "lanes", "exec", "m0" or "old"
    count: int = 1  # registers of a block operand, whose value is a list

    @classmethod
    def parse(cls, token: str) -> Place:
        if token.startswith("old:"):
            return cls(TYPES[token[4:]], "old")
        if token in _IMPLICIT_TYPES:
            return cls(TYPES[_IMPLICIT_TYPES[token]], token)
        name, _, count = token.partition("*")
        return cls(TYPES[name], "", int(count or 1))

    @property
    def registers(self) -> int:
        """32-bit registers of the operand."""
        return self.type.registers * self.count


class Operation(Struct, frozen=True, dict=True):
    """One simple instruction. `saturated` computes it under the integer clamp modifier; `keeps_high` says that a 16-bit
    result leaves the upper half of its register alone (LLVM's GCNSubtarget::zeroesHigh16BitsOfDest lists the
    others)."""

    mnemonic: str
    results: tuple[Place, ...]
    operands: tuple[Place, ...]
    evaluate: Semantics
    saturated: Semantics | None = None
    keeps_high: bool = False
    raw: bool = False  # float operands are moved or examined, never flushed or rounded
    modifiers: tuple[str, ...] = ()  # encoded fields that `evaluate` takes as keyword integers
    packed: bool = False  # the signature is one element's; it runs for both halves, chosen by op_sel and op_sel_hi

    @property
    def is_vector(self) -> bool:
        return self.mnemonic.startswith("v_")

    @cached_property
    def named_operands(self) -> int:
        """Results and operands that the assembly text shows."""
        return sum(not place.implicit for place in self.results + self.operands)

    def outcomes(self, outcome: Value | Sequence[Value | list[Value]]) -> list[Value | list[Value]]:
        """What `evaluate` gave, as one item a result."""
        if len(self.results) == 1:
            return [cast("Value | list[Value]", outcome)]  # a list is one block of registers here
        return list(cast("Sequence[Value | list[Value]]", outcome))

    @cached_property
    def has_blocks(self) -> bool:
        """Whether an operand or result is a list of registers."""
        return any(place.count > 1 for place in self.results + self.operands)

    @cached_property
    def merges_old(self) -> bool:
        """Whether the result may keep bits of the destination's 32-bit content."""
        return any(place.implicit == "old" and place.type == TYPES["u32"] for place in self.operands)

    @cached_property
    def uses_float_mode(self) -> bool:
        return not self.raw and any(place.type.is_float for place in self.results + self.operands)


OPERATIONS: dict[str, Operation] = {}


def define(
    mnemonics: str,
    signature: str,
    evaluate: Semantics,
    *,
    saturated: Semantics | None = None,
    keeps_high: bool = False,
    raw: bool = False,
    modifiers: tuple[str, ...] = (),
    packed: bool = False,
) -> None:
    """Enter one or several mnemonics (separated by spaces) with the same signature and semantics."""
    results, operands = (tuple(Place.parse(token) for token in side.split()) for side in signature.split("<-"))
    for mnemonic in mnemonics.split():
        assert mnemonic not in OPERATIONS, f"{mnemonic} is defined twice"
        OPERATIONS[mnemonic] = Operation(
            mnemonic, results, operands, evaluate, saturated, keeps_high, raw, modifiers, packed
        )
