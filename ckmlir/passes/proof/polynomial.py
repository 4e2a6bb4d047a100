"""Polynomials with integer coefficients: what the proof knows about index arithmetic.

A polynomial is a mapping from monomials (sorted tuples of symbols) to coefficients other than zero. Arithmetic is that
of whole numbers: a loop whose index leaves 32 bits is not considered.
"""

from collections.abc import Callable, Hashable, Iterator, Mapping
from typing import NamedTuple

Monomial = tuple[Hashable, ...]
Polynomial = Mapping[Monomial, int]


def constant(number: int) -> Polynomial:
    """A number."""
    return {(): number} if number else {}


def symbol(name: Hashable) -> Polynomial:
    """An unknown."""
    return {(name,): 1}


def add(left: Polynomial, right: Polynomial, factor: int = 1) -> Polynomial:
    """`left + factor * right`."""
    result = dict(left)
    for monomial, coefficient in right.items():
        total = result.get(monomial, 0) + factor * coefficient
        if total:
            result[monomial] = total
        else:
            result.pop(monomial, None)
    return result


def multiply(left: Polynomial, right: Polynomial) -> Polynomial:
    """The product."""
    result: Polynomial = {}
    for one, factor in left.items():
        moved = {tuple(sorted((*one, *other), key=repr)): coefficient for other, coefficient in right.items()}
        result = add(result, moved, factor)
    return result


class Quotient(NamedTuple):
    """An unknown: the quotient of two polynomials, rounded as its operation does."""

    dividend: tuple[tuple[Monomial, int], ...]
    divisor: tuple[tuple[Monomial, int], ...]


def quotient(dividend: Polynomial, divisor: Polynomial) -> Polynomial:
    """One polynomial divided by another; nothing more is known of it."""
    return symbol(Quotient(*(tuple(sorted(one.items(), key=repr)) for one in (dividend, divisor))))


def symbols_of(polynomial: Polynomial) -> Iterator[Hashable]:
    """The unknowns of a polynomial, those of quotients included."""
    for one in (one for monomial in polynomial for one in monomial):
        yield one
        if isinstance(one, Quotient):
            yield from symbols_of(dict(one.dividend))
            yield from symbols_of(dict(one.divisor))


def substitute(polynomial: Polynomial, found: Callable[[Hashable], Polynomial | None]) -> Polynomial:
    """A polynomial with some unknowns (those for which there is a polynomial) replaced."""
    result: Polynomial = {}
    for monomial, coefficient in polynomial.items():
        term = constant(coefficient)
        for one in monomial:
            if isinstance(one, Quotient):
                term = multiply(term, quotient(*(substitute(dict(part), found) for part in one)))
            else:
                new = found(one)
                term = multiply(term, symbol(one) if new is None else new)
        result = add(result, term)
    return result


def multiple(polynomial: Polynomial, of: Polynomial) -> int | None:
    """The whole number k with `polynomial == k * of`, None if there is none."""
    if not polynomial:
        return 0
    monomial, coefficient = next(iter(polynomial.items()))
    divisor = of.get(monomial, 0)
    if not divisor or coefficient % divisor:
        return None
    factor = coefficient // divisor
    return factor if not add(polynomial, of, -factor) else None
