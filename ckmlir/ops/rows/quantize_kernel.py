"""The quantised store in tile code; `quantization.py` says what it computes."""

from collections.abc import Callable

from ckmlir.lang import Tile, absolute, maximum, truncate
from ckmlir.ops.rows.block_kernel import Column, Part, RowBlock
from ckmlir.ops.rows.quantization import LEAST_SCALE, QuantizedOptions
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

    def part(column: Column) -> None:
        scaled = y(column) * inverse[:, None]
        rounded = truncate(scaled) if options.rounding == "zero" else scaled
        (store_q or (lambda tile, at: block.store(tile, "q", at)))(rounded, column)

    (amax,) = block.fold(magnitude, [0.0], lambda a, b: [a[0].maximum(b[0])])
    scale = maximum(amax * (1.0 / options.largest(target)), LEAST_SCALE)
    inverse = 1.0 / scale
    (store_scale or (lambda tile: block.store_row_values(tile, "yscale")))(scale)
    block.each(part)
