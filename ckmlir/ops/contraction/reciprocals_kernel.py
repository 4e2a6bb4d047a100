"""Division by numbers that are known before a launch: a multiplication, where a division takes 35 instructions."""

from __future__ import annotations

from ckmlir.lang import Scalar, multiply_high


def divided(number: Scalar, by: Scalar, reciprocal: Scalar) -> tuple[Scalar, Scalar]:
    """The quotient and the rest of what is below 2^31, by a number that is known before the launch, as is
    `reciprocals.reciprocal` of it: with that the quotient is found, or one less
    (`ckmlir.lowering.parts.Values.divided`).
    """
    guess = multiply_high(number, reciprocal)
    rest = number - guess * by
    is_less = rest >= by
    return is_less.select(guess + 1, guess), is_less.select(rest - by, rest)
