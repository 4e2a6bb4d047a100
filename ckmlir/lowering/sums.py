"""How a sum of products of run-time parts becomes a value: in which order it is added up, and what is added up once."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial, reduce

from ckmlir.dialect.build import producer
from ckmlir.lowering.parts import Monomial, Rate, Values, is_moving, rate_of
from ckmlir.lowering.quads import Terms, at_home, do_rest, seats_of, taken_from
from ckmlir.mlir import ir


def sum_of(terms: Terms, values: Values, bits: int = 32) -> ir.Value:
    """The value of a sum as i32 or i64, made once within a block."""
    return values.once(("sum", frozenset(terms.items()), bits), lambda: _added_up(terms, values, bits))


def _added_up(terms: Terms, values: Values, bits: int) -> ir.Value:
    seats = seats_of(terms)
    if seats and not do_rest(terms):
        return _added_up_in_quad(terms, seats, values, bits)
    moving = {monomial: factor for monomial, factor in terms.items() if is_moving(monomial)}
    if moving and len(moving) < len(terms):
        # Both parts are found once: what stays before the loop, what moves for all accesses that have it in common.
        stays = {monomial: factor for monomial, factor in terms.items() if monomial not in moving}
        return values.binary("addi", sum_of(moving, values, bits), sum_of(stays, values, bits))
    if seats:
        return _added_up_in_quad(terms, seats, values, bits)
    total: ir.Value | None = None
    for monomial, coefficient in sorted(terms.items(), key=_order):
        if not monomial:
            continue
        scaled = partial(_scaled, values, monomial, coefficient, bits)
        product = values.once(("scaled", monomial, coefficient, bits), scaled)
        total = product if total is None else values.binary("addi", total, product)
    constant = terms.get((), 0)
    if total is None:
        return values.constant(constant, bits)
    return values.binary("addi", total, values.constant(constant, bits)) if constant else total


def _added_up_in_quad(terms: Terms, seats: Sequence[int], values: Values, bits: int) -> ir.Value:
    """The sum, with what other lanes of the quad have last, so that their move is part of an addition."""
    own, moved = terms, []
    for seat in seats:
        taken, own = taken_from(own, seat)
        moved.append(values.from_seat(sum_of(at_home(taken), values), seat, rests=do_rest(taken)))
    if bits != 32 or seats_of(own):
        raise ValueError("a lane has a product of what differs between lanes of a quad for all of them")
    parts = [sum_of(own, values), *moved] if own else moved
    return reduce(lambda left, right: values.binary("addi", left, right), parts)


def _order(term: tuple[Monomial, int]) -> tuple[bool, list[int]]:
    """Where a term stands in a sum: the older first, and what is not part of a lane's or wave's number (bounded) last.

    The registers of a thread have the former in common, so that it is added up once for all of them. LLVM would find
    that out as well, but takes a quarter of its time for it.
    """
    monomial, _ = term
    return all(atom.bound is None for atom in monomial), [atom.number for atom in monomial]


def lasting(monomial: Monomial) -> tuple[bool, list[int]]:
    """Where a term stands in a sum that is the same in every block: parts of a lane's number, which each block finds
    anew, by their bounds, and behind others.
    """
    bounds = [atom.bound for atom in monomial if atom.bound is not None]
    is_part = bool(monomial) and len(bounds) == len(monomial)
    return is_part, bounds if is_part else [atom.number for atom in monomial]


def _scaled(values: Values, monomial: Monomial, coefficient: int, bits: int) -> ir.Value:
    """A product of atoms and a constant."""
    if bits == 32 and coefficient != 1 and len(monomial) == 2 and rate_of(monomial) == Rate.STEP:
        first, second = monomial if monomial[0].rate == Rate.FIXED else monomial[::-1]
        if first.rate == Rate.FIXED and isinstance(first.value, ir.BlockArgument):
            return values.binary("muli", second.value, values.at_start(first.value, coefficient))
    if bits == 32 and len(monomial) == 1:
        whole, divisor = monomial[0].whole or (monomial[0], 1)
        owner = producer(whole.value)
        if owner is not None and owner.name == "arith.minsi" and coefficient > divisor and coefficient % divisor == 0:
            # The smaller of two multiples: what a loop advances stays a sum that LLVM can count up. Parts are never
            # negative, so unsigned the comparison is right for multiples up to 4 GiB.
            times = coefficient // divisor
            return values.binary("minui", *(_scale(values, one, times, bits) for one in owner.operands))
    product = _product(values, monomial, bits)
    return product if coefficient == 1 else _scale(values, product, coefficient, bits)


def _product(values: Values, monomial: Monomial, bits: int) -> ir.Value:
    factors = [values.widen(atom.value) if bits == 64 else atom.value for atom in monomial]
    product = factors[0]
    for factor in factors[1:]:
        product = values.binary("muli", product, factor)
    return product


def _scale(values: Values, item: ir.Value, coefficient: int, bits: int) -> ir.Value:
    if coefficient > 0 and coefficient & (coefficient - 1) == 0:
        return values.binary("shli", item, values.constant(coefficient.bit_length() - 1, bits))
    return values.binary("muli", item, values.constant(coefficient, bits))
