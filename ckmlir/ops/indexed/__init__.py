"""Operators that count, pack and look up by index."""
