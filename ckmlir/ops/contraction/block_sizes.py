"""Rows, columns and waves of the blocks that plans choose from."""

CACHE_LINE = 128
"""Bytes."""
SMALL, MEDIUM, LARGE = 64, 128, 256
"""Rows and columns of the blocks that the operator chooses; products with no more rows, or columns, than the small one
take that."""
FOUR_WAVES, EIGHT_WAVES = (2, 2), (2, 4)
"""Along m and n: one wave a SIMD, and two."""
TALL_WAVES, NARROW = (4, 2), 16
"""Waves, and columns of the matrix instruction, where four waves have too few registers; see `crowded`."""
