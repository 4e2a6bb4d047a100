"""Quantisation of rows."""
