"""Reciprocals of numbers that are known before a launch, with which kernels divide by them."""

from __future__ import annotations


def reciprocal(number: int) -> int:
    """floor((2^32 - 1) / number), of 0 that of 1, as an i32: see `reciprocals_kernel.divided`."""
    found = ((1 << 32) - 1) // max(number, 1)
    return found - (1 << 32) if found >> 31 else found
