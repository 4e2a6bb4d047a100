"""Index expressions of the lowering against Python's integers: what is emitted computes what was written."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from ckmlir.dialect.context import shared_context
from ckmlir.dialect.descriptor import Descriptor
from ckmlir.dialect.lds_layout import LdsLayout
from ckmlir.dialect.symbols import Symbol
from ckmlir.lowering.index import Emitter, Index
from ckmlir.lowering.parts import Rate
from ckmlir.lowering.predicate import Predicate
from ckmlir.mlir import ir

MASK = {32: (1 << 32) - 1, 64: (1 << 64) - 1}
# name -> (rate, bound): what the atoms of the tests are known to stay below
ATOMS = {
    "lane": (Rate.LANE, 64),
    "wave": (Rate.FIXED, 4),
    "stride": (Rate.FIXED, None),
    "length": (Rate.FIXED, None),
    "step": (Rate.STEP, None),
    "origin": (Rate.ORIGIN, None),
    "tile": (Rate.ORIGIN, None),
}
DIVISORS = {"tile": 48}
"""What is known to divide the atoms of the tests."""

OPERATIONS: dict[str, Callable[[int, int], int]] = {
    "arith.addi": lambda a, b: a + b,
    "arith.subi": lambda a, b: a - b,
    "arith.muli": lambda a, b: a * b,
    "arith.shli": lambda a, b: a << b,
    "arith.shrui": lambda a, b: a >> b,
    "arith.divui": lambda a, b: a // b,
    "arith.remui": lambda a, b: a % b,
    "arith.andi": lambda a, b: a & b,
    "arith.xori": lambda a, b: a ^ b,
    "arith.minui": min,
    "arith.maxui": max,
}
COMPARISONS: dict[int, Callable[[int, int], bool]] = {
    6: lambda a, b: a < b, 7: lambda a, b: a <= b, 8: lambda a, b: a > b, 9: lambda a, b: a >= b,
}  # fmt: skip


class Bench:
    """A function whose arguments are the atoms; evaluates what is emitted into it."""

    def __init__(self) -> None:
        arguments = ", ".join(f"%{name}: i32" for name in ATOMS)
        with ir.Location.unknown():
            self.module = ir.Module.parse(f"func.func @f({arguments}) {{ return }}")
        self.block = self.module.body.operations[0].operation.regions[0].blocks[0]
        self.emit = Emitter()
        divisors = {value: DIVISORS.get(name, 1) for name, value in zip(ATOMS, self.block.arguments, strict=True)}
        self.emit.divisor_of = lambda value: divisors.get(value, 1)
        self.index = {
            name: self.emit.index(value, rate, bound)
            for (name, (rate, bound)), value in zip(ATOMS.items(), self.block.arguments, strict=True)
        }

    def make(self, function: Callable[[], Any]) -> Any:
        """Call `function` where operations are appended to the block."""
        with ir.InsertionPoint(self.block.operations[len(self.block.operations) - 1]), ir.Location.unknown():
            return function()

    def evaluate(self, value: ir.Value, atoms: dict[str, int]) -> int:
        known = dict(zip(self.block.arguments, (atoms[name] for name in ATOMS), strict=True))
        for op in (op.operation for op in self.block.operations):
            operands = [known[operand] for operand in op.operands]
            if op.name == "arith.constant":
                result = int(op.attributes["value"].value)
            elif op.name in ("arith.extui", "arith.trunci"):
                result = operands[0]
            elif op.name == "arith.cmpi":
                result = int(COMPARISONS[int(op.attributes["predicate"].value)](*operands))
            elif op.name in OPERATIONS:
                result = OPERATIONS[op.name](*operands)
            else:
                assert op.name == "func.return"
                continue
            known[op.results[0]] = result & MASK.get(ir.IntegerType(op.results[0].type).width, 1)
        return known[value]


@pytest.fixture(autouse=True)
def _context(context: ir.Context) -> None:
    pass


def values(largest: int) -> st.SearchStrategy[dict[str, int]]:
    def below(name: str, bound: int | None) -> st.SearchStrategy[int]:
        return st.integers(0, (bound or largest + 1) - 1).map(lambda number: number * DIVISORS.get(name, 1))

    return st.fixed_dictionaries({name: below(name, bound) for name, (_, bound) in ATOMS.items()})


# An expression is a function of the atoms that works on integers and on indices alike.
Expression = Callable[[dict[str, Any]], Any]


def _leaf() -> st.SearchStrategy[Expression]:
    constants = st.integers(0, 40).map(lambda number: lambda atoms: number + 0 * atoms["lane"])
    return st.sampled_from(sorted(ATOMS)).map(lambda name: lambda atoms: atoms[name]) | constants


def _grow(inner: st.SearchStrategy[Expression]) -> st.SearchStrategy[Expression]:
    divisors = st.sampled_from([1, 2, 3, 4, 8, 12, 16, 64])
    return st.one_of(
        st.builds(lambda a, b: lambda atoms: a(atoms) + b(atoms), inner, inner),
        st.builds(lambda a, b: lambda atoms: a(atoms) * b(atoms), inner, inner),
        st.builds(lambda a, n: lambda atoms: a(atoms) * n, inner, st.integers(0, 9)),
        st.builds(lambda a, n: lambda atoms: n * a(atoms) + n, inner, st.integers(0, 9)),
        st.builds(lambda a, n: lambda atoms: a(atoms) // n, inner, divisors),
        st.builds(lambda a, n: lambda atoms: a(atoms) % n, inner, divisors),
        st.builds(lambda a, b: lambda atoms: a(atoms) ^ b(atoms), inner, inner),
        st.builds(lambda a, n: lambda atoms: a(atoms) ^ n, inner, st.integers(0, 200)),
        st.builds(lambda a, b, n: lambda atoms: a(atoms) + n * b(atoms) - b(atoms), inner, inner, st.integers(1, 4)),
        st.builds(lambda a, n: lambda atoms: n * a(atoms) + 63 - atoms["lane"], inner, st.integers(1, 16)),
        st.builds(lambda a, b: lambda atoms: a(atoms) // (b(atoms) + 1), inner, inner),
        st.builds(lambda a, b: lambda atoms: a(atoms) % (b(atoms) + 1), inner, inner),
    )


@st.composite
def expressions(draw: st.DrawFn, depth: int = 3) -> Expression:
    if depth == 0 or draw(st.integers(0, 3)) == 0:
        return draw(_leaf())
    return draw(_grow(expressions(depth - 1)))


@settings(max_examples=300)
@given(expressions(), st.lists(values(20), min_size=1, max_size=5))
def test_what_is_emitted_computes_the_expression(expression: Expression, samples: list[dict[str, int]]) -> None:
    with shared_context():
        bench = Bench()
        index = bench.make(lambda: expression(bench.index))
        assert isinstance(index, Index)
        value, wide = bench.make(lambda: (index.emit(), index.emit(64)))
        parts = bench.make(lambda: [index.part(rate) for rate in Rate])
        emitted = bench.make(lambda: [part.emit() for part in parts])
        for atoms in samples:
            wanted = expression(atoms)
            assume(wanted < 1 << 31)
            assert bench.evaluate(value, atoms) == wanted
            if index.bound is not None:
                assert wanted < index.bound
                assert bench.evaluate(wide, atoms) == wanted
            total = sum(bench.evaluate(part, atoms) for part in emitted) + index.constant
            assert total & MASK[32] == wanted, "the parts by rate add up"
            assert all(part.rate == rate for part, rate in zip(parts, Rate, strict=True) if part.terms)


@given(st.sampled_from([2, 3, 4, 8, 12]), st.integers(1, 8), st.integers(1, 5), values(20))
def test_what_is_taken_away_is_not_divided_alone(by: int, factor: int, less: int, atoms: dict[str, int]) -> None:
    expression: Expression = lambda known: factor * known["step"] + 63 * less - less * known["lane"]  # noqa: E731
    with shared_context():
        bench = Bench()
        for compute in (lambda value: value // by, lambda value: value % by):
            result = bench.make(lambda compute=compute: compute(expression(bench.index)).emit())
            assert bench.evaluate(result, atoms) == compute(expression(atoms))


@given(expressions(), expressions(), values(20))
def test_comparisons(left: Expression, right: Expression, atoms: dict[str, int]) -> None:
    with shared_context():
        bench = Bench()
        for compare in (lambda a, b: a < b, lambda a, b: a <= b, lambda a, b: a > b, lambda a, b: a >= b):
            test = bench.make(lambda compare=compare: compare(left(bench.index), right(bench.index)))
            wanted = compare(left(atoms), right(atoms))
            if isinstance(test, Predicate):
                assert bench.evaluate(test.value, atoms) == wanted
            else:
                assert test == wanted


@given(expressions())
def test_equal_requests_are_emitted_once(expression: Expression) -> None:
    with shared_context():
        bench = Bench()
        first = bench.make(lambda: expression(bench.index).emit())
        count = len(bench.block.operations)
        assert bench.make(lambda: expression(bench.index).emit()) == first
        assert len(bench.block.operations) == count


@given(st.data())
def test_lds_offsets(data: st.DataObject) -> None:
    """The code that computes LDS offsets on integers computes them on indices."""
    terms = data.draw(st.sampled_from([(), ((0, 3),), ((1, 7),), ((0, 3), (2, 7))]))
    skew, period = data.draw(st.sampled_from([(0, 1), (4, 8), (8, 2)]))
    layout = LdsLayout(
        (64, 64), data.draw(st.sampled_from([(0, 1), (1, 0)])), 64, 8 if terms else 1, terms, skew, period
    )
    atoms = data.draw(values(20))
    rows: Expression = lambda known: known["lane"] // 8 * 4 + known["wave"]  # noqa: E731
    columns: Expression = lambda known: known["lane"] % 8 * 8 + 4  # noqa: E731
    assume(rows(atoms) < 64)
    with shared_context():
        bench = Bench()
        offset = bench.make(lambda: layout.offset([rows(bench.index), columns(bench.index)]).emit())
        assert bench.evaluate(offset, atoms) == layout.offset([rows(atoms), columns(atoms)])


DESCRIPTORS = {
    "padded": Descriptor.naive([Symbol(0), Symbol(1)], [Symbol(2), 1]).right_pad_to_multiple((16, 8)),
    "merged": Descriptor.naive([8, 16, 4], [64, 4, 1]).merge((0, 2)),
    "left": Descriptor.parse(
        "d0 d1 = embed(offset, lengths=[8, 16], strides=[16, 1]); d2 = left_pad(d0, length=8, pad=?0);"
        " d3 = merge(d2, d1, lengths=[24, 16]); view(d3)"
    ),
    "reversed": Descriptor.parse(
        "d0 d1 = embed(offset, lengths=[?0, 16], strides=[?1, 1]); d2 = reverse(d0, length=?0);"
        " d3 = right_pad(d2, length=?0, multiple=64); d4 = reverse(d1, length=16);"
        " d5 = right_pad(d4, length=16, multiple=64); view(d3, d5)"
    ),
}


@given(st.sampled_from(sorted(DESCRIPTORS)), st.lists(st.integers(1, 9), min_size=3, max_size=3), values(20), st.data())
def test_descriptors(name: str, symbols: list[int], atoms: dict[str, int], data: st.DataObject) -> None:
    """Offsets of valid elements, through every transform, are those that the descriptor gives on integers."""
    descriptor = DESCRIPTORS[name]
    names = sorted(ATOMS)[: descriptor.rank]
    index = [atoms[one] for one in names]
    assume(descriptor.valid(index, symbols))
    with shared_context():
        bench = Bench()
        lifted = [bench.emit.number(symbol) for symbol in symbols]
        for position in range(2):  # run-time values are atoms too
            lifted[position] = bench.index[("stride", "length")[position]]
        atoms = {**atoms, "stride": symbols[0], "length": symbols[1]}
        index = [atoms[one] for one in names]
        assume(descriptor.valid(index, symbols))
        offset = bench.make(lambda: descriptor.offset([bench.index[one] for one in names], lifted))
        emitted = bench.make(lambda: offset.emit())
        assert bench.evaluate(emitted, atoms) == descriptor.offset(index, symbols)


@given(
    st.integers(0, 2**31 - 1) | st.integers(1, 2**15).map(lambda number: number * number - 1),
    st.integers(1, 2**31 - 1) | st.integers(1, 300) | st.integers(0, 30).map(lambda power: 1 << power),
    st.integers(0, 3),
)
@settings(max_examples=400)
def test_division_by_a_number_that_never_changes(number: int, divisor: int, near: int) -> None:
    """By multiplications, right for every number below 2^31, multiples of the divisor and neighbours among them."""
    atoms = dict.fromkeys(ATOMS, 0)
    with shared_context():
        bench = Bench()
        step, length = bench.index["step"], bench.index["length"]
        parts = bench.make(lambda: ((step // length).emit(), (step % length).emit()))
        emitted = [op.operation.name for op in bench.block.operations]
        assert emitted.count("arith.divui") == 1 and "arith.remui" not in emitted  # the one for the reciprocal
        for value in (number, max(number // divisor * divisor - near, 0), min(divisor - 1 + near, 2**31 - 1)):
            atoms |= {"step": value, "length": divisor}
            assert [bench.evaluate(part, atoms) for part in parts] == list(divmod(value, divisor))


@given(st.integers(0, 500), st.integers(0, 31), st.integers(1, 40), st.sampled_from([32, 64, 128, 192]))
def test_what_is_less_than_a_common_divisor_is_left_over(step: int, lane: int, length: int, common: int) -> None:
    """Of multiples and something smaller only the multiples are divided: what differs between lanes is a rest."""
    atoms = {**dict.fromkeys(ATOMS, 0), "step": step, "lane": lane, "length": length * common}
    with shared_context():
        bench = Bench()
        argument = bench.block.arguments[list(ATOMS).index("length")]
        known = bench.emit.index(argument, Rate.FIXED, multiple=common)
        within = bench.emit.index(bench.make(lambda: (bench.index["lane"] % 32).emit()), Rate.LANE, 32)
        number = bench.index["step"] * 32 + within
        quotient, rest = bench.make(lambda: (number // known, number % known))
        assert not quotient.part(Rate.LANE).terms and rest.part(Rate.LANE).key == within.key
        found = [bench.make(one.emit) for one in (quotient, rest)]
        assert [bench.evaluate(one, atoms) for one in found] == list(divmod(step * 32 + lane, length * common))


# -- where terms end up


def test_a_quotient_of_bounded_lanes_needs_no_division() -> None:
    bench = Bench()
    lane = bench.index["lane"]
    assert bench.make(lambda: (lane * 8 + 5) // 8).terms == lane.terms
    assert bench.make(lambda: (lane * 8 + 5) % 8).terms == {(): 5}
    assert bench.make(lambda: lane % 64).terms == lane.terms
    assert not bench.make(lambda: lane // 64).terms
    assert [op.operation.name for op in bench.block.operations] == ["func.return"], "nothing was emitted"


def test_nothing_is_divided_into_nothing() -> None:
    """0 // n and 0 % n are 0 whatever n is: what a view adds to its first element is then known."""
    with shared_context():
        bench = Bench()
        nothing = bench.emit.number(0)
        results = bench.make(lambda: [nothing // bench.index["length"], nothing % bench.index["length"], nothing // 5])
        assert [result.terms for result in results] == [{}, {}, {}]


def test_powers_of_two_are_shifts_and_masks() -> None:
    bench = Bench()
    bench.make(lambda: [((bench.index["lane"] // 8) + (bench.index["lane"] % 8) * 16).emit()])
    names = {op.operation.name for op in bench.block.operations}
    assert names == {"arith.constant", "arith.shrui", "arith.andi", "arith.shli", "arith.addi", "func.return"}


def test_the_rate_of_a_product_is_that_of_its_fastest_factor() -> None:
    bench = Bench()
    lane, stride, step, origin = (bench.index[name] for name in ("lane", "stride", "step", "origin"))
    total = lane * stride + step * 4 + origin * stride + stride + 7
    assert total.part(Rate.LANE).terms == (lane * stride).terms
    assert total.part(Rate.STEP).terms == (step * 4).terms
    assert total.part(Rate.ORIGIN).terms == (origin * stride).terms
    assert total.part(Rate.FIXED, constant=True).terms == (stride + 7).terms


def test_a_large_origin_is_computed_in_64_bits() -> None:
    bench = Bench()
    wide = bench.make(lambda: (bench.index["origin"] * bench.index["stride"] * 2).emit(64))
    atoms = dict.fromkeys(ATOMS, 0) | {"origin": 100_000, "stride": 90_000}
    assert bench.evaluate(wide, atoms) == 2 * 100_000 * 90_000


def test_a_swizzle_leaves_the_constant_to_the_instruction() -> None:
    """A register's constant above the swizzled bits stays a constant, so that it becomes an immediate offset."""
    bench = Bench()
    lane = bench.index["lane"]
    moved = bench.make(lambda: (lane % 8 * 8 + 256) ^ (lane // 8 % 4 * 8))
    assert moved.constant == 256
    assert np.array_equal(
        [bench.evaluate(bench.make(moved.emit), dict.fromkeys(ATOMS, 0) | {"lane": i}) for i in range(64)],
        [(i % 8 * 8 + 256) ^ (i // 8 % 4 * 8) for i in range(64)],
    )


def test_what_registers_have_in_common_is_added_once() -> None:
    """Offsets of one thread's registers: the parts of lane and wave make one sum, and each register adds its own."""
    with shared_context():
        bench = Bench()
        lane, wave, stride = (bench.index[name] for name in ("lane", "wave", "stride"))
        for register in range(8):
            bench.make(lambda at=register: (stride * at + wave * stride * 64 + lane * 16).emit())
        sums = [op.operation for op in bench.block.operations if op.operation.name == "arith.addi"]
    assert len(sums) == 1 + 7
    common = sums[0].results[0]
    assert all(common in list(one.operands) for one in sums[1:])
