"""Operators that move elements: permutations, transpositions, copies, image patches."""
