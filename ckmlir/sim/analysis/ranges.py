"""Which values a register can hold: intervals of unsigned 32-bit numbers, one for all lanes of all waves.

Only what addresses are made of is followed: shifts, masks, sums, products, selections. Anything else is unknown, and
so is a sum that could wrap around.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, NamedTuple

from ckmlir.sim.analysis.effects import Effects
from ckmlir.sim.analysis.registers import BASE, EXEC, SCALAR
from ckmlir.sim.decode import Instruction, Operand
from ckmlir.sim.state import LANES

_WORD: Final = 0xFFFF_FFFF


class Range(NamedTuple):
    """The numbers from `low` to `high`, both included, that have no other bits than those of `bits`."""

    low: int
    high: int
    bits: int = _WORD

    def hull(self, other: Range) -> Range:
        """The smallest range that contains both."""
        return Range(min(self.low, other.low), max(self.high, other.high), self.bits | other.bits)


UNKNOWN: Final = Range(0, _WORD)
Ranges = dict[int, Range]
"""By register bit (`registers.py`), from `_SAVED` on by lane of a VGPR; what is not there is unknown."""


def _all_bits(high: int) -> int:
    return (1 << high.bit_length()) - 1


def between(low: int, high: int, bits: int = _WORD) -> Range:
    """The range with these limits and bits; unknown if the limits do not fit into 32 bits."""
    if low < 0 or high > _WORD:
        return UNKNOWN
    bits &= _all_bits(high)
    return Range(low, min(high, bits), bits)


def constant(number: int) -> Range:
    """The range of one number."""
    return Range(number, number, number)


def _add(*terms: Range) -> Range:
    total = terms[0]
    for term in terms[1:]:
        low, high = total.low + term.low, total.high + term.high
        if not total.bits & term.bits:  # nothing is carried
            total = between(low, high, total.bits | term.bits)
            continue
        both = total.bits | term.bits
        total = between(low, high, ~((both & -both) - 1))  # zeros at the end stay
    return total


def _multiply(one: Range, two: Range) -> Range:
    return between(one.low * two.low, one.high * two.high)


def _left(value: Range, amount: Range) -> Range:
    if amount.high >= 32:
        return UNKNOWN
    bits = value.bits << amount.low if amount.low == amount.high else ~0
    return between(value.low << amount.low, value.high << amount.high, bits)


def _right(value: Range, amount: Range) -> Range:
    return between(value.low >> amount.high, value.high >> amount.low) if amount.high < 32 else UNKNOWN


def _and(one: Range, two: Range) -> Range:
    for value, mask in ((one, two), (two, one)):
        if mask.low == mask.high and not value.bits & ~mask.low:
            return value  # the mask leaves everything
    low = one.low & two.low if one.low == one.high and two.low == two.high else 0
    return between(low, min(one.high, two.high), one.bits & two.bits)


def _and_not(value: Range, mask: Range) -> Range:
    low = value.low & ~mask.low if value.low == value.high and mask.low == mask.high else 0
    return between(low, value.high, value.bits & ~_ones(mask))


def _union(terms: tuple[Range, ...]) -> int:
    bits = 0
    for term in terms:
        bits |= term.bits
    return bits


def _most(terms: tuple[Range, ...]) -> int:
    """What the terms can give bit by bit: no more than their sum, and above the bits of all but the largest not more
    than that has there.
    """
    *smaller, largest = sorted(term.high for term in terms)
    union = _union(terms)
    low = _all_bits(max(smaller, default=0))
    return min(union, sum(smaller) + largest, (largest & ~low) | (union & low))


def _or(*terms: Range) -> Range:
    return between(max(term.low for term in terms), _most(terms), _union(terms))


def _xor(*terms: Range) -> Range:
    low = 0
    if len(terms) == 2:  # bits that one term has and the other cannot have
        low = sum(_ones(one) & ~other.bits for one, other in (terms, terms[::-1]))
    return between(low, _most(terms), _union(terms))


def _ones(value: Range) -> int:
    """Bits that every number of a range has: those above the highest one in which its limits differ."""
    return value.low & ~_all_bits(value.low ^ value.high)


def _by_table(terms: list[Range], table: int) -> Range:
    """V_BITOP3_B32: bit 4a + 2b + c of the table says what bits a, b and c give (CDNA4 ISA, VOP3 V_BITOP3_B32)."""
    found = [0, 0]
    for row in range(8):  # such bits come about where every term can give what the row asks of it
        able = _WORD
        for term, place in zip(terms, (4, 2, 1), strict=True):
            able &= term.bits if row & place else ~_ones(term)
        found[table >> row & 1] |= able
    zeros, ones = found
    high = ones if table & 1 else min(ones, _most(tuple(terms)))  # without row 0 every bit is one of a term's
    return between(ones & ~zeros, high, ones)


def _hull(one: Range, two: Range, *condition: Range) -> Range:
    return one.hull(two)


def _extract(value: Range, offset: Range, width: Range) -> Range:
    bits = min(width.high, 31)
    return between(0, min((1 << bits) - 1, _right(value, offset).high))


def _scalar_extract(value: Range, field: Range) -> Range:
    if field.low != field.high:
        return UNKNOWN
    return _extract(value, constant(field.low & 31), constant(field.low >> 16 & 127))


_FUNCTIONS: Final[tuple[tuple[str, Callable[..., Range]], ...]] = (
    (r"[sv]_mov_b32|s_movk_i32|v_readfirstlane_b32|v_accvgpr_(read|write)_b32|v_accvgpr_mov_b32", lambda x: x),
    (r"v_readlane_b32", lambda x, lane: x),
    (r"s_add_[ui]32|s_addk_i32|v_add_u32|v_add_co_u32|v_add_i32|v_add3_u32", _add),
    (r"s_sub_[ui]32|v_sub_u32", lambda x, y: between(x.low - y.high, x.high - y.low)),
    (r"v_subrev_u32", lambda x, y: between(y.low - x.high, y.high - x.low)),
    (r"s_mul_i32|s_mulk_i32|v_mul_lo_u32|v_mul_[iu]32_[iu]24", _multiply),
    (r"v_mad_[iu]32_[iu]24", lambda x, y, z: _add(_multiply(x, y), z)),
    (r"s_lshl_b32", _left),
    (r"s_lshr_b32", _right),
    (r"v_lshlrev_b32", lambda n, x: _left(x, n)),
    (r"v_lshrrev_b32", lambda n, x: _right(x, n)),
    (r"s_lshl1_add_u32", lambda x, y: _add(_left(x, constant(1)), y)),
    (r"s_lshl2_add_u32", lambda x, y: _add(_left(x, constant(2)), y)),
    (r"s_lshl3_add_u32", lambda x, y: _add(_left(x, constant(3)), y)),
    (r"s_lshl4_add_u32", lambda x, y: _add(_left(x, constant(4)), y)),
    (r"v_lshl_add_u32", lambda x, n, y: _add(_left(x, n), y)),
    (r"v_add_lshl_u32", lambda x, y, n: _left(_add(x, y), n)),
    (r"v_lshl_or_b32", lambda x, n, y: _or(_left(x, n), y)),
    (r"v_and_or_b32", lambda x, y, z: _or(_and(x, y), z)),
    (r"v_xad_u32", lambda x, y, z: _add(_xor(x, y), z)),
    (r"[sv]_and_b32", _and),
    (r"s_andn2_b32", _and_not),
    (r"[sv]_or_b32|v_or3_b32", _or),
    (r"[sv]_xor_b32", _xor),
    (r"[sv]_min_u32", lambda x, y: between(min(x.low, y.low), min(x.high, y.high), x.bits | y.bits)),
    (r"[sv]_max_u32", lambda x, y: between(max(x.low, y.low), max(x.high, y.high), x.bits | y.bits)),
    (r"s_cselect_b32|v_cndmask_b32", _hull),
    (r"v_bfe_u32", _extract),
    (r"s_bfe_u32", _scalar_extract),
    (r"v_mbcnt_(lo|hi)_u32_b32", lambda mask, x: _add(x, between(0, 32))),
)


_CHANGES_DESTINATION: Final = ("s_addk_i32", "s_mulk_i32")
"""Their first operand is what the destination holds (CDNA3 ISA, SOPK)."""


def _function(mnemonic: str) -> Callable[..., Range] | None:
    if mnemonic not in _found:
        matching = (function for pattern, function in _FUNCTIONS if re.fullmatch(pattern, mnemonic))
        _found[mnemonic] = next(matching, None)
    return _found[mnemonic]


_found: dict[str, Callable[..., Range] | None] = {}
_SAVED: Final = 1024


def range_of(operand: Operand, ranges: Ranges) -> Range:
    """The values an operand's first register, or the operand itself, can have."""
    if operand.negate or operand.absolute or operand.sext:
        return UNKNOWN
    if operand.kind == "imm":
        return constant(operand.index & _WORD)
    if operand.kind == "off":
        return constant(0)
    return ranges.get(BASE[operand.kind] + operand.index, UNKNOWN)


def advance(ranges: Ranges, instruction: Instruction, effects: Effects, all_lanes: bool) -> None:
    """Change `ranges` as the instruction does. Without `all_lanes`, some lanes may keep what a VGPR had before."""
    result = _result(instruction, ranges)
    destination = instruction.destinations[0] if instruction.destinations else None
    where = BASE[destination.kind] + destination.index if destination is not None else -1
    if instruction.mnemonic == "v_writelane_b32":
        lane = lane_of_operand(destination, instruction.sources[1]) if destination is not None else None
        result, where = (range_of(instruction.sources[0], ranges), lane) if lane is not None else (None, where)
    elif result is not None and destination is not None and destination.kind in "va" and not all_lanes:
        result = result.hull(ranges.get(where, UNKNOWN))
    keeps_lanes = where >= _SAVED
    for register in [item for item in ranges if effects.writes >> owner_of(item) & 1]:
        if not (keeps_lanes and register >= _SAVED):
            del ranges[register]
    if result is not None and result != UNKNOWN:
        ranges[where] = result
    elif keeps_lanes:
        ranges.pop(where, None)


def lane_of_operand(register: Operand, lane: Operand) -> int | None:
    """Where `Ranges` holds what a lane of a VGPR holds, in which compilers save scalar registers; None: not known."""
    first = BASE[register.kind] + register.index
    return _SAVED + first * LANES + lane.index % LANES if lane.kind == "imm" else None


def owner_of(item: int) -> int:
    """The register bit that an item of `Ranges` is part of."""
    return (item - _SAVED) // LANES if item >= _SAVED else item


def _result(instruction: Instruction, ranges: Ranges) -> Range | None:
    if instruction.mnemonic == "v_bitop3_b32":
        terms = [range_of(operand, ranges) for operand in instruction.sources]
        return _by_table(terms, instruction.modifiers["bitop3"])
    function = _function(instruction.mnemonic)
    if function is None or instruction.encoding in ("DPP", "SDWA") or instruction.modifiers.get("op_sel"):
        return None
    if instruction.mnemonic == "v_readlane_b32":
        source = instruction.sources[0]
        lane = lane_of_operand(source, instruction.sources[1])
        if lane is not None and lane in ranges:
            return ranges[lane]
    operands = [*instruction.sources]
    if instruction.mnemonic in _CHANGES_DESTINATION:
        operands.insert(0, instruction.destinations[0])
    return function(*(range_of(operand, ranges) for operand in operands))


class ActiveLanes(NamedTuple):
    """Whether exec still has all the lanes the wave started with, and which scalar pairs hold that exec."""

    all: bool
    saved: frozenset[int]

    def after(self, instruction: Instruction, effects: Effects) -> ActiveLanes:
        """The state after an instruction."""
        name = instruction.mnemonic
        saved = frozenset(pair for pair in self.saved if not effects.writes >> SCALAR + pair & 3)
        source = next((item.index for item in instruction.sources if item.kind == "s" and item.index != 126), -1)
        destination = instruction.destinations[0].index if instruction.destinations else -1
        if self.all and (
            name.endswith("saveexec_b64") or (name == "s_mov_b64" and instruction.sources[0].index == 126)
        ):
            saved |= {destination}
        if not effects.writes & EXEC:
            return ActiveLanes(self.all, saved)
        restores = name in ("s_mov_b64", "s_or_b64") and source in self.saved
        return ActiveLanes(restores, saved)


def join(one: Ranges, two: Ranges, may_grow: bool) -> Ranges:
    """What holds on both paths. Unless ranges may grow, those that would are given up, so that loops come to an end."""
    joined: Ranges = {}
    for register, range_ in one.items():
        other = two.get(register)
        if other is None:
            continue
        merged = range_.hull(other)
        if merged == range_ or may_grow:
            joined[register] = merged
    return joined
