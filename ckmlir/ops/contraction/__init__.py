"""What all products of matrices share: one loop over K whose parts are chosen, and the operators' common half.

`README.md` says what is where.
"""
