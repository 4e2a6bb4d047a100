"""Parts of a distribution's dimension: what lies in front of a factor, the factor alone, and what waves hold of it.

A scan takes the factors of its axis from the last, the fastest, to the first. These are the tiles that it meets on the
way: in each, lanes and waves whose digit has been taken hold copies, and registers whose digit has been taken are gone.
"""

from ckmlir.dialect.distribution import Distribution
from ckmlir.dialect.distribution_factors import REGISTER, Factor, Row, renumber


def leading(source: Distribution, dim: int, count: int) -> Distribution:
    """The first `count` factors of `dim` only: a value for each block of the others."""
    row = source.dims[dim]
    return _made(source, row[count:], (*source.dims[:dim], row[:count], *source.dims[dim + 1 :]))


def alone(source: Distribution, dim: int, number: int) -> Distribution:
    """One factor of `dim`, of a lane or wave, as the only dimension: how its digit lies over the threads."""
    kept = source.dims[dim][number]
    others = tuple(factor for row in source.dims for factor in row if factor != kept)
    return _made(source, others, ((kept,),))


def totals(source: Distribution, dim: int, number: int) -> Distribution:
    """`leading` with factor `number` of `dim` as a dimension of its own, in front: what those along it have to tell."""
    row = source.dims[dim]
    dims = ((row[number],), *source.dims[:dim], row[:number], *source.dims[dim + 1 :])
    return _made(source, row[number + 1 :], dims)


def _made(source: Distribution, taken: tuple[Factor, ...], dims: tuple[Row, ...]) -> Distribution:
    copies = tuple(factor for factor in taken if factor.owner != REGISTER)
    return Distribution(*renumber(source.replicated + copies, dims))
