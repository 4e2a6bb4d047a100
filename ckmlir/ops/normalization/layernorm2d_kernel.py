"""The layernorm2d kernels as tile code: the statistics, in three ways, and the normalisation.

Rows in registers: the mean, then the squared deviations from it. Rows that stream: Welford's update for every register
position, merged at the end (Chan, Golub, LeVeque, "Algorithms for computing the sample variance", 1983), so that a row
passes once for its statistics. Both take the mean of the squares instead where the specification says so.
"""

from collections.abc import Sequence
from typing import Any

from ckmlir.lang import Kernel, Tile, each_element, where
from ckmlir.ops.normalization.layernorm2d import Layernorm2dSpec
from ckmlir.ops.normalization.norm_kernel import Normalization, build_norm
from ckmlir.ops.normalization.scaled_rows_kernel import MeanSquare, ScaledRows, not_a_number_unless_finite
from ckmlir.ops.rows.block_kernel import Column, Part, RowBlock
from ckmlir.targets import Target


def build(spec: Layernorm2dSpec, target: Target) -> Kernel:
    """Trace the kernel of a specification."""

    def normalize(block: RowBlock, x: Part) -> Normalization:
        rows = ScaledRows(block, x)
        mean, variance = _STATISTICS[spec.variance](block, rows.part)
        inv_std = rows.inverse_root(variance)

        def y(column: Column) -> Tile:
            return each_element(
                lambda one, middle, factor, gamma, beta: (one - middle) * factor * gamma + beta,
                rows.part(column), mean[:, None], inv_std[:, None],
                block.channels("gamma", column), block.channels("beta", column),
            )  # fmt: skip

        def shown() -> Tile:
            finite: Tile = rows.restored(mean) + not_a_number_unless_finite(variance.total)
            return finite

        return Normalization(y, {"mean": shown, "inv_std": lambda: rows.restored_inverse_root(variance, inv_std)})

    return build_norm(spec, target, normalize)


def _centred(block: RowBlock, x: Part) -> tuple[Tile, MeanSquare]:
    """The mean, then the mean of squared deviations from it."""
    mean = block.sum(x) * block.inverse_n

    def square(column: Column) -> Tile:
        deviation = block.inside(x(column) - mean[:, None], column, 0.0)
        squared: Tile = deviation * deviation
        return squared

    return mean, MeanSquare(block.sum(square), block.inverse_n)


def _squares(block: RowBlock, x: Part) -> tuple[Tile, MeanSquare]:
    """The mean and the mean of squares together; roundings must not make their difference negative."""

    def both(column: Column) -> list[Tile]:
        part = x(column)
        return [part, part * part]

    total, squares = block.fold(both, [0.0, 0.0], lambda a, b: [a[0] + b[0], a[1] + b[1]])
    mean = total * block.inverse_n
    difference = squares * block.inverse_n - mean * mean
    return mean, MeanSquare(where(difference < 0.0, 0.0, difference))  # NaN stays


def _welford(block: RowBlock, x: Part) -> tuple[Tile, MeanSquare]:
    """Samples of one element each are merged."""

    def samples(column: Column) -> list[Tile]:
        return [block.inside(block.full(1.0), column, 0.0), x(column), block.full(0.0)]

    _, mean, squares = block.fold(samples, [0.0, 0.0, 0.0], _merge)
    return mean, MeanSquare(squares, block.inverse_n)


def _merge(left: Sequence[Any], right: Sequence[Any]) -> list[Any]:
    """(count, mean, squared deviations) of two samples together; an empty one changes nothing."""
    count = left[0] + right[0]
    share = right[0] / count.maximum(1.0)
    distance = right[1] - left[1]
    return [count, left[1] + distance * share, left[2] + right[2] + distance * distance * left[0] * share]


_STATISTICS = {"centred": _centred, "squares": _squares, "welford": _welford}
