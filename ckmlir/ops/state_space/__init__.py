"""Recurrences with a state that is a matrix: Mamba-2."""
