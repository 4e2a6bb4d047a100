"""Normalisation of rows."""
