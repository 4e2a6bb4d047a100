"""The rmsnorm2d kernels as tile code: one sum of squares, and the roundings of the t5 mode."""

from ckmlir.lang import Kernel, Tile, cast, rsqrt
from ckmlir.ops.normalization.norm_kernel import Normalization, build_norm
from ckmlir.ops.normalization.rmsnorm2d import Rmsnorm2dSpec
from ckmlir.ops.rows.block_kernel import Column, Part, RowBlock
from ckmlir.targets import Target


def build(spec: Rmsnorm2dSpec, target: Target) -> Kernel:
    """Trace the kernel of a specification."""

    def rounded(tile: Tile) -> Tile:
        return cast(cast(tile, spec.dtype), "f32")

    def normalize(block: RowBlock, x: Part) -> Normalization:
        kept = block.held(lambda column: rounded(x(column))) if spec.t5 else x
        inv_rms = inverse_rms(block, kept)

        def y(column: Column) -> Tile:
            normalized = kept(column) * inv_rms[:, None]
            if spec.t5:
                normalized = rounded(normalized)
            scaled: Tile = normalized * block.channels("gamma", column)
            return rounded(scaled) if spec.t5 and spec.dtype == "bf16" else scaled

        return Normalization(y, {"inv_rms": inv_rms})

    return build_norm(spec, target, normalize)


def inverse_rms(block: RowBlock, x: Part) -> Tile:
    """1 / sqrt(mean(x²) + eps) of every row; what lies behind the end of the rows is zero."""

    def square(column: Column) -> Tile:
        part = x(column)
        squared: Tile = part * part
        return squared

    mean: Tile = block.sum(square) * block.inverse_n + block.given.eps
    return rsqrt(mean)
