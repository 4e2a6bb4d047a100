"""Vectors of conditions, made element by element where they are used: comparisons, and what joins them.

A vector of conditions is a pair of scalar registers an element, of which a wave has about fifty. LLVM makes all of
them before the first is used, since nothing but limits goes into them; so a limit is made to wait for what was chosen
before.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence

from msgspec import Struct

from ckmlir.dialect import arith
from ckmlir.dialect.build import attributes_of, constant_value, integer_of, producer, value
from ckmlir.dialect.scalars import bits
from ckmlir.lowering.accumulator_form import assembly
from ckmlir.mlir import ir
from ckmlir.passes import vectors
from ckmlir.records import Abstract
from ckmlir.targets.cdna import REGISTER_BITS

COMPARISONS = ("arith.cmpi", "arith.cmpf")
JOINS = ("arith.andi", "arith.ori", "arith.xori")
HALF = 16
SIGNED = frozenset(
    int(predicate) for predicate in (
        arith.CmpIPredicate.slt, arith.CmpIPredicate.sle, arith.CmpIPredicate.sgt, arith.CmpIPredicate.sge
    )
)  # fmt: skip
_MIRRORED = {
    "arith.cmpi": {"slt": "sgt", "sle": "sge", "ult": "ugt", "ule": "uge", "eq": "eq", "ne": "ne"},
    "arith.cmpf": {"OLT": "OGT", "OLE": "OGE", "ULT": "UGT", "ULE": "UGE", "OEQ": "OEQ", "UNE": "UNE"},
}


class Condition(Struct, metaclass=Abstract):
    """A vector of conditions."""

    @abstractmethod
    def element(self, number: int) -> ir.Value:
        """One of them, made here."""

    @abstractmethod
    def wait(self, made: Sequence[ir.Value]) -> None:
        """Let what is made from here on come after these values, whatever LLVM's scheduler prefers."""


class Comparison(Condition):
    """Elements that `left` makes, compared with those of a vector, or all with one limit.

    Attributes:
        columns: those elements, where they are known (signed integers), less the lane's part, if it is not taken from
            the right side.
        lane: that part.
    """

    name: str
    attributes: dict[str, ir.Attribute]
    left: Callable[[int], ir.Value]
    right: ir.Value
    columns: Sequence[int] | None = None
    lane: ir.Value | None = None
    _limit: ir.Value | None = None

    def __post_init__(self) -> None:
        self._limit = scalar_of(self.right)

    def element(self, number: int) -> ir.Value:
        """One comparison."""
        other = self._limit or vectors.element(self.right, number)
        return value(self.name, ir.IntegerType.get_signless(1), [self.left(number), other], self.attributes)

    def wait(self, made: Sequence[ir.Value]) -> None:
        """The limit waits; without one, or where it fills no register, nothing does."""
        if self._limit is not None and bits(self._limit.type) == REGISTER_BITS:
            self._limit = after(self._limit, made)


class Joined(Condition):
    """Two conditions joined by and, or, exclusive or."""

    name: str
    left: Condition
    right: Condition

    def element(self, number: int) -> ir.Value:
        """Both, joined."""
        parts = [self.left.element(number), self.right.element(number)]
        return value(self.name, parts[0].type, parts)

    def wait(self, made: Sequence[ir.Value]) -> None:
        """Both wait."""
        self.left.wait(made)
        self.right.wait(made)


class Part(Condition):
    """Some of the elements of another, from `start` on."""

    whole: Condition
    start: int

    def element(self, number: int) -> ir.Value:
        """One of the whole's."""
        return self.whole.element(self.start + number)

    def wait(self, made: Sequence[ir.Value]) -> None:
        """The whole waits."""
        self.whole.wait(made)


class Given(Condition):
    """Conditions that are there, or are the same for all elements."""

    vector: ir.Value

    def element(self, number: int) -> ir.Value:
        """One of them."""
        return element(self.vector, number)

    def wait(self, made: Sequence[ir.Value]) -> None:
        """They are there already."""


def whole_of(vector: ir.Value) -> tuple[ir.Value, int]:
    """The vector that another is a slice of, and where it starts there."""
    owner, start = producer(vector), 0
    while owner is not None and owner.name == "vector.extract_strided_slice":
        start += int(ir.ArrayAttr(owner.attributes["offsets"])[0].value)
        vector = owner.operands[0]
        owner = producer(vector)
    return vector, start


def is_joined(vector: ir.Value) -> bool:
    """Whether a vector of conditions joins others."""
    owner = producer(vector)
    return owner is not None and owner.name in JOINS


def condition_of(vector: ir.Value, *, joined: bool = False) -> Condition | None:
    """What makes the elements of a vector of conditions; None where no comparison does, or one of constants. Limits of
    `joined` ones that are constants wait too: of two conditions the first is made long before the second, if it can be.
    """
    whole, start = whole_of(vector)
    owner = producer(whole)
    if start or whole != vector:
        found = condition_of(whole, joined=joined)
        return found and Part(found, start)
    if owner is None:
        return None
    if owner.name in COMPARISONS:
        return None if all(map(_is_known, owner.operands)) else _comparison(owner, joined)
    if owner.name in JOINS:
        left, right = (condition_of(operand, joined=True) for operand in owner.operands)
        if left is None and right is None:
            return None
        return Joined(owner.name, left or Given(owner.operands[0]), right or Given(owner.operands[1]))
    return None


def _comparison(op: ir.Operation, joined: bool) -> Comparison:
    """A comparison with the limit, if one side is one, on the right, and the lane's part of a sum taken from it."""
    attributes, (left, right) = attributes_of(op), op.operands
    if joined:
        left, right = _as_splat(left), _as_splat(right)
    mirrored = _mirrored(op)
    if scalar_of(right) is None and scalar_of(left) is not None and mirrored is not None:
        attributes["predicate"], left, right = mirrored, right, left
    total, limit = Sum.of(left), scalar_of(right)
    if not total.exact or int(attributes["predicate"].value) not in SIGNED:
        return Comparison(op.name, attributes, total.element, right)
    columns = _constants(total.rest)
    if limit is not None:
        # No element needs a sum when the limit is taken less the lane's part. The sum does not overflow, and the
        # difference saturates, which decides alike: what is left of an element is a position within a tile.
        right = vectors.splat(value("llvm.intr.ssub.sat", limit.type, [limit, total.lane]), vectors.length_of(right))
        total = Sum(total.rest)
        return Comparison(op.name, attributes, total.element, right, columns)
    return Comparison(op.name, attributes, total.element, right, columns, total.lane)


def _constants(vector: ir.Value) -> list[int] | None:
    """The elements of a constant vector of integers."""
    owner = producer(vector)
    if owner is None or owner.name != "arith.constant":
        return None
    return [int(one) for one in ir.DenseIntElementsAttr(owner.attributes["value"])]


def _is_known(value_: ir.Value) -> bool:
    """Whether a value is made of constants, so that comparing it takes no instruction."""
    owner = producer(value_)
    if owner is None or owner.name not in ("arith.constant", "vector.broadcast", "arith.addi"):
        return False
    return all(map(_is_known, owner.operands))


def _as_splat(vector: ir.Value) -> ir.Value:
    """A constant of equal elements as the splat of one."""
    owner = producer(vector)
    if owner is None or owner.name != "arith.constant":
        return vector
    constants = ir.DenseElementsAttr(owner.attributes["value"])
    if not constants.is_splat:
        return vector
    single = constant_value(constants.get_splat_value())
    return vectors.splat(single, vectors.length_of(vector))


def _mirrored(op: ir.Operation) -> ir.Attribute | None:
    """The predicate that holds with sides exchanged where the comparison's does; None where there is none."""
    predicates = arith.CmpIPredicate if op.name == "arith.cmpi" else arith.CmpFPredicate
    pairs = _MIRRORED[op.name]
    numbers = {int(getattr(predicates, one)): int(getattr(predicates, other)) for one, other in pairs.items()}
    numbers |= {other: one for one, other in numbers.items()}
    found = numbers.get(integer_of(op, "predicate"))
    return None if found is None else ir.IntegerAttr.get(ir.IntegerType.get_signless(64), found)


class Sum(Struct, frozen=True):
    """A vector as what all its elements have in common, and the rest of each."""

    rest: ir.Value
    lane: ir.Value | None = None
    exact: bool = False
    """Whether the sum of the two is known not to overflow."""

    @staticmethod
    def of(vector: ir.Value) -> Sum:
        """A splat plus a vector of constants, or such a sum and another splat added or subtracted, or the difference
        of two such positions; others as they are.
        """
        owner = producer(vector)
        if owner is None or owner.name not in ("arith.addi", "arith.subi"):
            return Sum(vector)
        first, second = owner.operands
        lane, other = scalar_of(first), producer(second)
        if lane is not None and owner.name == "arith.addi" and other is not None and other.name == "arith.constant":
            return Sum(second, lane, "nsw" in str(owner.attributes["overflowFlags"]))
        total, change = Sum.of(first), scalar_of(second)
        if total.lane is not None and change is not None:
            return Sum(total.rest, value(owner.name, change.type, [total.lane, change]))
        return (owner.name == "arith.subi" and total.less(Sum.of(second))) or Sum(vector)

    def less(self, position: Sum) -> Sum | None:
        """A position less another one, if that is the same in all elements."""
        if not (self.exact and position.exact) or self.lane is None or position.lane is None:
            return None
        if any(_constants(position.rest) or [True]):
            return None
        return Sum(self.rest, arith.subi(self.lane, position.lane), exact=True)

    def element(self, number: int) -> ir.Value:
        """One element of the vector."""
        rest = element(self.rest, number)
        return rest if self.lane is None else arith.addi(self.lane, rest)


def after(item: ir.Value, others: Sequence[ir.Value]) -> ir.Value:
    """The same value, which LLVM believes to depend on others: assembly of nothing."""
    i16 = ir.IntegerType.get_signless(HALF)  # which assembly takes on every chip, as it may not take bf16
    words = [one if bits(one.type) == REGISTER_BITS else value("arith.bitcast", i16, [one]) for one in others]
    return assembly(item.type, [item, *words], "", ",".join(["=v", "0", *["v"] * len(others)]))


def scalar_of(vector: ir.Value) -> ir.Value | None:
    """What a splat is made of; None for other vectors."""
    owner = producer(vector)
    return owner.operands[0] if owner is not None and owner.name == "vector.broadcast" else None


def shared_element(vector: ir.Value, start: int, length: int) -> ir.Value | None:
    """What so many elements from one on are, if a splat or a shuffle makes them all the same."""
    owner, single = producer(vector), scalar_of(vector)
    if owner is None or owner.name != "vector.shuffle" or single is not None:
        return single
    places = set(list(ir.DenseI64ArrayAttr(owner.attributes["mask"]))[start : start + length])
    if len(places) != 1 or (place := places.pop()) >= vectors.length_of(owner.operands[0]):
        return None
    return vectors.element(owner.operands[0], place)


def element(vector: ir.Value, number: int) -> ir.Value:
    """One element, without a vector where a splat has it."""
    return scalar_of(vector) or vectors.element(vector, number)
