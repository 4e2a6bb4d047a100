"""Normalisations as tile code: the sums before and the stores after are here, the statistics in the operators."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from ckmlir.lang import Kernel, Tile
from ckmlir.ops.normalization.norm import NormSpec
from ckmlir.ops.rows.block_kernel import Column, Part, RowBlock, row_kernel
from ckmlir.ops.rows.quantize_kernel import store_quantized
from ckmlir.targets import Target


class Normalization(NamedTuple):
    """A normalisation of rows: its results part by part, and by the names of their arrays the statistics, which are
    computed where they are asked for."""

    y: Part
    statistics: Mapping[str, Callable[[], Tile]]


def build_norm(spec: NormSpec, target: Target, normalize: Callable[[RowBlock, Part], Normalization]) -> Kernel:
    """The kernel of a normalisation; `normalize` takes the rows' sums."""

    def body(block: RowBlock) -> None:
        x = block.held(lambda column: _sum(block, spec, column))
        at_once = spec.add == "store" and not spec.streamed
        if at_once:
            block.store(x(0), "sum", 0)  # before rows are scaled, so that registers hold them once
        found = normalize(block, x)
        y = block.held(found.y)

        def store_rows(column: Column) -> None:
            if spec.add == "store" and not at_once:
                block.store(x(column), "sum", column)
            if spec.quant == "none" or spec.keep_y:
                block.store(y(column), "y", column)

        if spec.quant == "none":
            block.each(store_rows)
        else:
            smooth = spec.quant == "smooth"
            quantized = block.held(lambda column: y(column) * block.channels("smooth", column) if smooth else y(column))
            store_quantized(block, spec, target, quantized, store_rows)
        if spec.save_stats:
            for name, statistic in found.statistics.items():
                block.store_row_values(statistic(), name)

    return row_kernel(spec, target, body, ["eps"])


def _sum(block: RowBlock, spec: NormSpec, column: Column) -> Tile:
    x = block.load("x", column)
    if spec.bias:
        x = x + block.channels("bias", column)
    if spec.add != "none":
        x = x + block.load("residual", column)
    return x
