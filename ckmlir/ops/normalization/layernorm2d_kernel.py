"""The layernorm2d kernels as tile code.

A row that fits into registers is read once: its mean is summed, then its squared deviations. A longer row is read
twice; the first time every register position follows mean and squared deviations of what passes it by Welford's
update, and the positions are merged at the end (Chan, Golub, LeVeque, "Algorithms for computing the sample variance",
1983).
"""

from typing import Any

from ckmlir.dialect.distribution import Distribution
from ckmlir.dialect.distribution_builders import rows
from ckmlir.lang import (
    Kernel,
    Scalar,
    Tile,
    cast,
    coordinates,
    f32,
    full,
    i32,
    kernel,
    load,
    loop,
    ptr,
    reduce,
    reduce_sum,
    rsqrt,
    store,
    view,
    where,
    workgroup_id,
)  # fmt: skip
from ckmlir.ops.normalization.layernorm2d_spec import Layernorm2dSpec
from ckmlir.targets import Target


def build(spec: Layernorm2dSpec, target: Target) -> Kernel:
    """Trace the kernel of a specification."""
    strided = ["x", *(["residual"] if spec.add != "none" else []), "y", *(["sum"] if spec.add == "store" else [])]
    statistics = ["mean", "inv_std"] if spec.save_stats else []
    order = [
        name for name in ("x", "residual", "gamma", "beta", "y", "sum") if name in strided or name in ("gamma", "beta")
    ]
    arguments = {
        **{name: ptr(spec.dtype) for name in order},
        **{name: ptr("f32") for name in statistics},
        "m": i32,
        "n": i32,
        **{f"{name}_stride": i32 for name in strided},
        "eps": f32,
    }
    distribution = rows(spec.rows, spec.length, spec.wave_count, spec.vector, spec.row_waves)

    @kernel(spec.name, target=target, waves=spec.wave_count, arguments=arguments)
    def layernorm2d(given: Any) -> None:
        block = _Block(spec, distribution, given)
        if spec.passes == 1:
            x = block.sum_at(0)
            mean, inv_std = block.statistics_of(x)
            block.finish(x, 0, mean, inv_std)
        else:
            mean, inv_std = block.streamed_statistics()
            with loop(0, block.n, spec.length) as step:
                block.finish(block.sum_at(step.index, again=True), step.index, mean, inv_std)
        if spec.save_stats:
            block.store_statistics(mean, inv_std)

    return layernorm2d


class _Block:
    """The rows of one workgroup: what its kernels, which read rows once or twice, have in common."""

    def __init__(self, spec: Layernorm2dSpec, distribution: Distribution, given: Any) -> None:
        self.spec = spec
        self.distribution = distribution
        self.given = given
        self.m = given.m if spec.pad_m else given.m.multiple_of(spec.rows)
        self.n = given.n.multiple_of(spec.align if spec.pad_n else spec.length)
        self.row = workgroup_id(0) * spec.rows
        self.inverse_n = 1.0 / self.n.to("f32")

    def rows_of(self, name: str) -> Any:
        """The view of an array of rows."""
        stride = getattr(self.given, f"{name}_stride").multiple_of(self.spec.align)
        return view(getattr(self.given, name), (self.m, self.n), (stride, 1)).pad(self.spec.rows, self.spec.length)

    def window(self, name: str, column: Scalar | int) -> Any:
        """The part of an array's rows that begins at a column."""
        return self.rows_of(name).window((self.spec.rows, self.spec.length), (self.row, column))

    def channels(self, name: str, column: Scalar | int) -> Tile:
        """gamma or beta from a column on, in f32."""
        all_channels = view(getattr(self.given, name), (self.n,), (1,)).pad(self.spec.length)
        return cast(load(all_channels.window((self.spec.length,), (column,))), "f32")

    def sum_at(self, column: Scalar | int, *, again: bool = False) -> Tile:
        """x, with the residual added, in f32; stored where that is asked for, unless this is read a second time."""
        x: Tile = cast(load(self.window("x", column), self.distribution), "f32")
        if self.spec.add != "none":
            x = x + cast(load(self.window("residual", column)), "f32")
            if self.spec.add == "store" and not again:
                store(cast(x, self.spec.dtype), self.window("sum", column))
        return x

    def within(self, tile: Tile, column: Scalar | int) -> Tile:
        """Which elements of a tile that begins at a column lie inside the row."""
        inside: Tile = coordinates(tile, 1) + column < self.n
        return inside

    def statistics_of(self, x: Tile) -> tuple[Tile, Tile]:
        """Mean and inverse deviation of rows that a tile holds whole (padding is zero)."""
        mean = reduce_sum(x, 1) * self.inverse_n
        deviation = x - mean[:, None]
        if self.spec.pad_n:
            deviation = where(self.within(x, 0), deviation, 0.0)
        variance = reduce_sum(deviation * deviation, 1) * self.inverse_n
        return mean, rsqrt(variance + self.given.eps)

    def streamed_statistics(self) -> tuple[Tile, Tile]:
        """Mean and inverse deviation of rows that pass through registers."""
        shape = (self.spec.rows, self.spec.length)
        zeros = [full(shape, 0.0, "f32", self.distribution) for _ in range(3)]
        with loop(0, self.n, self.spec.length, carry=list(zeros)) as step:
            count, mean, squares = step.carried
            x = self.sum_at(step.index)
            weight = where(self.within(x, step.index), full(shape, 1.0, "f32", self.distribution), 0.0)
            new_count = count + weight
            distance = x - mean
            new_mean = mean + distance * weight / where(new_count > 0.0, new_count, 1.0)
            step.carry(new_count, new_mean, squares + distance * (x - new_mean) * weight)
        _, mean, squares = reduce(step.results, 1, _merge)
        return mean, rsqrt(squares * self.inverse_n + self.given.eps)

    def finish(self, x: Tile, column: Scalar | int, mean: Tile, inv_std: Tile) -> None:
        """Normalise, scale and store a tile."""
        y = (x - mean[:, None]) * inv_std[:, None]
        y = y * self.channels("gamma", column)[None, :] + self.channels("beta", column)[None, :]
        store(cast(y, self.spec.dtype), self.window("y", column))

    def store_statistics(self, mean: Tile, inv_std: Tile) -> None:
        """Mean and inverse deviation of every row."""
        for tile, pointer in ((mean, self.given.mean), (inv_std, self.given.inv_std)):
            store(tile, view(pointer, (self.m,), (1,)).pad(self.spec.rows).window((self.spec.rows,), (self.row,)))


def _merge(left: list[Scalar], right: list[Scalar]) -> list[Scalar]:
    """(count, mean, squared deviations) of two samples together; an empty one changes nothing."""
    count = left[0] + right[0]
    share = right[0] / count.maximum(1.0)
    distance = right[1] - left[1]
    return [count, left[1] + distance * share, left[2] + right[2] + distance * distance * left[0] * share]
