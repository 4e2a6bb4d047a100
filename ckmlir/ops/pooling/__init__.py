"""Operators that reduce windows of images."""
