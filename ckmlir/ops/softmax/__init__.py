"""Softmax of rows."""
