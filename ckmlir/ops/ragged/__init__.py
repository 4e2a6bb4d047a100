"""Rows of different lengths, one behind the other: the lengths are in device memory."""
