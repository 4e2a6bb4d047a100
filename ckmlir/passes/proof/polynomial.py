"""Polynomials with integer coefficients: what the proof knows about index arithmetic.

A polynomial is a mapping from monomials (sorted tuples of symbols) to coefficients other than zero. Arithmetic is that
of whole numbers: a loop whose index leaves 32 bits is not considered.
"""

from collections.abc import Hashable, Mapping

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


def value_of(polynomial: Polynomial) -> int | None:
    """The number that a polynomial is, None if it has unknowns."""
    if not polynomial:
        return 0
    return polynomial[()] if set(polynomial) == {()} else None


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
