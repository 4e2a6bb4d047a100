"""The rmsnorm2d kernels as tile code: one sum of squares, and the roundings of the t5 mode."""

from ckmlir.lang import Kernel, Tile, cast, each_element
from ckmlir.ops.normalization.norm_kernel import Normalization, build_norm
from ckmlir.ops.normalization.rmsnorm2d import Rmsnorm2dSpec
from ckmlir.ops.normalization.scaled_rows_kernel import MeanSquare, ScaledRows, may_overflow, scaled_by_mean_square
from ckmlir.ops.rows.block_kernel import Column, Part, RowBlock
from ckmlir.targets import Target


def build(spec: Rmsnorm2dSpec, target: Target) -> Kernel:
    """Trace the kernel of a specification."""

    def rounded(tile: Tile) -> Tile:
        return cast(cast(tile, spec.dtype), "f32")

    def normalize(block: RowBlock, x: Part) -> Normalization:
        rows, square = rows_and_mean_square(block, block.held(lambda column: rounded(x(column))) if spec.t5 else x)
        inv_rms = rows.inverse_root(square)

        def y(column: Column) -> Tile:
            if not spec.t5:
                return normalized_rows(block, rows, inv_rms, column)
            normalized = rounded(rows.part(column) * inv_rms[:, None])
            scaled: Tile = normalized * block.channels("gamma", column)
            return rounded(scaled) if spec.dtype == "bf16" else scaled

        return Normalization(y, {"inv_rms": lambda: rows.restored_inverse_root(square, inv_rms)})

    return build_norm(spec, target, normalize)


def rows_and_mean_square(block: RowBlock, x: Part) -> tuple[ScaledRows, MeanSquare]:
    """The scaled rows, and mean(x²) of every one of them."""
    if block.spec.streamed and may_overflow(block):
        return scaled_by_mean_square(block, x)
    rows = ScaledRows(block, x)

    def square(column: Column) -> Tile:
        part = rows.part(column)
        squared: Tile = part * part
        return squared

    return rows, MeanSquare(block.sum(square), block.inverse_n)


def normalized_rows(block: RowBlock, rows: ScaledRows, inverse: Tile, column: Column) -> Tile:
    """A part of the rows times a number for every row and gamma for every column."""
    return each_element(
        lambda one, factor, gamma: one * factor * gamma,
        rows.part(column), inverse[:, None], block.channels("gamma", column),
    )  # fmt: skip
