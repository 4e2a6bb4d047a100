"""Splitting of scans: along registers, across lanes by the exchanges of a reduction, across waves through LDS.

The digits of the axis are taken from the fastest to the slowest, be they of registers, lanes or waves. At each stands
a total: what a block of the digits already taken amounts to. Along registers totals add up one by one. Between lanes
they meet bit by bit, as in a reduction, so that lanes which have met hold equal totals and stay out of the LDS unit;
a lane on the upper side also keeps what came from the lower. Waves read each other's totals and add up those before
their own.

What lies before a lane's or wave's block is one value for all its registers there, and joins them once, at the end of
the digit.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from ckmlir.dialect import arith, fragment_compute, fragment_lds
from ckmlir.dialect import distribution_parts as parts
from ckmlir.dialect.build import constant_integer, constant_value, integer_of, value
from ckmlir.dialect.distribution import LANE, WAVE, Digit, Distribution
from ckmlir.dialect.lds_layout import LdsLayout
from ckmlir.dialect.types import LdsType, tile_of
from ckmlir.mlir import ir
from ckmlir.passes import vectors
from ckmlir.passes.elementwise import ScalarCode
from ckmlir.passes.framework import fail
from ckmlir.passes.registers import Registers
from ckmlir.passes.split_memory import read_lds, write_lds
from ckmlir.passes.split_state import SplitState

Partial = list[ir.Value]
"""One vector for each tile that is scanned; an element for each block that the scan has still to go through."""
COMMUTATIVE = frozenset({
    "arith.addi", "arith.addf", "arith.muli", "arith.mulf", "arith.maxsi", "arith.minsi", "arith.maxnumf",
    "arith.minnumf", "arith.andi", "arith.ori", "arith.xori",
})  # fmt: skip


def split_scan(state: SplitState, op: ir.Operation) -> None:
    """One digit of the axis after the other, the fastest first."""
    scan = _Scan(state, op)
    for number in reversed(range(len(scan.source.dims[scan.axis]))):
        digit = scan.source.digits(scan.axis)[number]
        if digit.source == LANE:
            scan.over_lanes(number, digit)
        elif digit.source == WAVE:
            scan.over_waves(number, digit)
        else:
            scan.over_registers(digit)
    scan.bind()


@dataclass
class _Scan:
    """A scan under way.

    Attributes:
        totals: what the block of the digits taken amounts to, an element for each register of other digits.
        places: the registers of the source for each of the totals' elements, by their place within a block.
        before: what lies before each of these places in its block (with it, where the scan is inclusive); None:
            nothing.
    """

    state: SplitState
    op: ir.Operation
    axis: int = field(init=False)
    source: Distribution = field(init=False)
    totals: Partial = field(init=False)
    places: list[list[int]] = field(init=False)
    before: list[Partial | None] = field(init=False)

    def __post_init__(self) -> None:
        self.axis = integer_of(self.op, "axis")
        self.source = tile_of(self.op.operands[0]).placed
        self.code = ScalarCode(self.op.regions[0].blocks[0])
        every = list(range(self.source.registers))
        self.totals = [self.state.of(operand).gather(every) for operand in self.op.operands]
        self.places = [every]
        self.before = [None if "identity" in self.op.attributes else self.totals]
        self.commutes = _commutes(self.code)

    def combine(self, left: Partial | None, right: Partial | None) -> Partial | None:
        """The combiner, where None is nothing."""
        if left is None or right is None:
            return right if left is None else left
        return self._both(left, right)

    def _both(self, left: Partial, right: Partial) -> Partial:
        return self.code.apply(vectors.length_of(left[0]), [*left, *right])

    # -- the three kinds of digits

    def over_registers(self, digit: Digit) -> None:
        """Blocks of one thread, one behind the other."""
        along = self.source.coordinates()[self.axis, 0, 0]
        of_block = [
            [
                position
                for position, register in enumerate(self.places[0])
                if int(along[register]) // digit.weight % digit.length == block
            ]
            for block in range(digit.length)
        ]
        places, before = [], []
        total: Partial | None = None
        for members in of_block:
            up_to = self.combine(total, _taken(self.totals, members))
            for own, known in zip(self.places, self.before, strict=True):
                places.append([own[position] for position in members])
                if known is self.totals:  # a single place of an inclusive scan
                    before.append(up_to)
                else:
                    before.append(self.combine(total, None if known is None else _taken(known, members)))
            total = up_to
        assert total is not None
        self.totals, self.places, self.before = total, places, before

    def over_lanes(self, number: int, digit: Digit) -> None:
        """Bit by bit: lanes of the upper half keep what those of the lower have."""
        if digit.length & (digit.length - 1):
            fail(self.op, f"cannot scan over {digit.length} lanes: not a power of two")
        place = fragment_compute.thread_coordinate(parts.alone(self.source, self.axis, number), 0)
        lower: Partial | None = None
        for bit in range(digit.length.bit_length() - 1):
            mask = digit.source_weight << bit
            equal = self._equal_below(number, mask)
            others = [fragment_compute.exchange(vector, mask, equal_below=equal) for vector in self.totals]
            upper = _and(place, 1 << bit)
            if lower is None:
                lower = others
            else:
                # A lane whose lower bits are all 0 has nothing of its own half before it.
                joined = _either(_and(place, (1 << bit) - 1), self._both(others, lower), others)
                lower = _either(upper, joined, lower)
            if self.commutes:
                self.totals = self._both(self.totals, others)
            else:
                self.totals = self._both(_either(upper, others, self.totals), _either(upper, self.totals, others))
        assert lower is not None
        self._behind(lower, _positive(place))

    def over_waves(self, number: int, digit: Digit) -> None:
        """Through LDS: each wave leaves its totals, reads those of all, and adds up what lies before its own."""
        place = fragment_compute.thread_coordinate(parts.alone(self.source, self.axis, number), 0)
        written = parts.totals(self.source, self.axis, number)
        read = parts.leading(self.source, self.axis, number).expand(0, digit.length)
        everyone = [self._exchanged(index, written, read) for index in range(len(self.totals))]
        count = vectors.length_of(self.totals[0])
        rows = [
            [registers.gather([place * digit.length + wave for place in range(count)]) for registers in everyone]
            for wave in range(digit.length)
        ]
        total = lower = rows[0]
        for wave, row in enumerate(rows[1:], 1):
            if wave > 1:
                lower = _either(_at_least(place, wave), total, lower)
            total = self._both(total, row)
        self.totals = total
        self._behind(lower, _positive(place))

    def _exchanged(self, index: int, written: Distribution, read: Distribution) -> Registers:
        element = tile_of(self.op.operands[index]).element
        lengths = written.lengths
        layout = LdsLayout.plain(lengths, [*range(1, len(lengths)), 0])
        name = f"scan{len(self.state.buffers)}"
        buffer = fragment_lds.lds_alloc(LdsType(lengths, element), layout, name, written)
        self.state.buffers[buffer] = buffer
        vector = self.totals[index]
        write_lds(Registers([vector], vectors.length_of(vector), element), buffer, written, 0, element)
        return read_lds(buffer, read, 0, element)

    def _behind(self, lower: Partial, some: ir.Value) -> None:
        """What comes before a lane's or wave's block, where there is anything, joins what is known of its places."""
        identity = self._identity()
        if identity is not None:
            lower = _either(some, lower, identity)
        self.before = [
            lower
            if known is None
            else self._both(lower, known)
            if identity is not None
            else _either(some, self._both(lower, known), known)
            for known in self.before
        ]

    def _identity(self) -> Partial | None:
        if "identity" not in self.op.attributes:
            return None
        length = vectors.length_of(self.totals[0])
        return [
            vectors.splat(constant_value(one), length)
            for one in self.op.attributes["identity"]
        ]

    def _equal_below(self, number: int, mask: int) -> bool:
        """Whether lanes that differ only in bits below a mask, of this digit's bits, hold equal totals."""
        *_, own = digits = self.source.digits(self.axis)[number:][::-1]
        alike = mask - own.source_weight
        for one in (*digits[:-1], *self.source.replicated_digits()):
            if one.source == LANE:
                alike |= (one.length - 1) * one.source_weight
        return alike & (mask - 1) == mask - 1

    def bind(self) -> None:
        """The places are the registers of the result."""
        for index, result in enumerate(self.op.results):
            identity = self._identity()
            found = [known if known is not None else identity for known in self.before]
            pieces = [(own, one[index]) for own, one in zip(self.places, found, strict=True) if one is not None]
            self.state.bind(result, Registers.scatter(pieces, tile_of(result).element))


def _commutes(code: ScalarCode) -> bool:
    """Whether the combiner is known to give the same bits with its operands exchanged."""
    names = code.names
    return len(names) == 1 and names[0] in COMMUTATIVE


def _taken(partial: Partial, members: Sequence[int]) -> Partial:
    return [Registers([one], vectors.length_of(one), one.type.element_type).gather(members) for one in partial]


def _either(condition: ir.Value, yes: Partial, no: Partial) -> Partial:
    return [
        value("arith.select", one.type, [condition, one, other]) for one, other in zip(yes, no, strict=True)
    ]


def _and(place: ir.Value, bits: int) -> ir.Value:
    return _positive(arith.andi(place, constant_integer(bits, place.type)))


def _positive(place: ir.Value) -> ir.Value:
    return arith.cmpi(arith.CmpIPredicate.ne, place, constant_integer(0, place.type))


def _at_least(place: ir.Value, least: int) -> ir.Value:
    return arith.cmpi(arith.CmpIPredicate.uge, place, constant_integer(least, place.type))
