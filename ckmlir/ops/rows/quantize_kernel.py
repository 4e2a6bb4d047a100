"""The quantised store in tile code; `quantization.py` says what it computes."""

from collections.abc import Callable

from ckmlir.lang import Tile, absolute, each_element, maximum, splat_like, truncate, where
from ckmlir.ops.rows.block_kernel import Column, Part, RowBlock
from ckmlir.ops.rows.quantization import FAR, LEAST_SCALE, SHIFT, QuantizedOptions
from ckmlir.targets import Target


def store_quantized(
    block: RowBlock,
    options: QuantizedOptions,
    target: Target,
    y: Part,
    on_the_way: Callable[[Column], None] = lambda column: None,
    store_q: Callable[[Tile, Column], None] | None = None,
    store_scale: Callable[[Tile], None] | None = None,
) -> None:
    """Quantise rows and store q and yscale, or hand them to the stores given.

    `on_the_way` is called once for every part before anything is quantised: the place for stores of other outputs.
    """

    def magnitude(column: Column) -> list[Tile]:
        on_the_way(column)
        return [absolute(block.inside(y(column), column, 0.0))]

    (amax,) = block.fold(magnitude, [0.0], lambda a, b: [a[0].maximum(b[0])])
    share = 1.0 / options.largest(target)
    scale = each_element(lambda one: maximum(one * share, LEAST_SCALE), amax)
    inverse = 1.0 / scale
    (store_scale or (lambda tile: block.store_row_values(tile, "yscale")))(scale)
    _store_rounded(block, options, lambda column: y(column) * inverse[:, None], store_q)


def store_divided(block: RowBlock, options: QuantizedOptions, y: Part) -> None:
    """Store q of rows whose scales are given as yscale."""
    scale = block.row_values("yscale")
    power, inverse = divisors(scale)
    _store_rounded(block, options, lambda column: y(column) * power[:, None] * inverse[:, None])


def divisors(scale: Tile) -> tuple[Tile, Tile]:
    """Two factors that together divide by a scale, whatever it is: a power of two that takes very small and very large
    scales to where their inverse is a normal number, and that inverse.

    What the power makes too large or too small is so in every 8-bit type.
    """
    size = absolute(scale)
    small = where(size < 2.0**-FAR, 2.0**SHIFT, splat_like(scale, 1.0, "f32"))
    power = where(size > 2.0**FAR, 2.0**-SHIFT, small)
    return power, 1.0 / (scale * power)


def _store_rounded(
    block: RowBlock, options: QuantizedOptions, values: Part, store_q: Callable[[Tile, Column], None] | None = None
) -> None:
    def part(column: Column) -> None:
        value = values(column)
        rounded = truncate(value) if options.rounding == "zero" else value
        (store_q or (lambda tile, at: block.store(tile, "q", at)))(rounded, column)

    block.each(part)
