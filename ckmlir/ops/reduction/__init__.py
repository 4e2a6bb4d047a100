"""Operators that fold dimensions of a tensor away."""
