"""The kernel of `mhc_coefficients`: a wave has some rows, and of each as many lanes as streams.

A lane holds one row of a matrix `res`: Sinkhorn's sums along rows stay in it, those along columns go to its neighbours.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

from ckmlir.dialect.distribution import Distribution
from ckmlir.dialect.schedule import Schedule
from ckmlir.lang import (
    Kernel,
    Scalar,
    Tile,
    Window,
    coordinates,
    each_element,
    exp2,
    f32,
    i32,
    join_axes,
    kernel,
    load,
    loop,
    ptr,
    reciprocal,
    reduce_max,
    reduce_sum,
    sqrt,
    stage,
    store,
    stretch,
    view,
    where,
    workgroup_id,
    zeros,
)  # fmt: skip
from ckmlir.lang.kernel import Argument
from ckmlir.ops.mhc.mhc_coefficients import VECTOR, CoefficientsSpec
from ckmlir.ops.mhc.mixing import LEAST_NORM, NUMBERS
from ckmlir.ops.precision import LOG2_E
from ckmlir.ops.request import LEAST_NORMAL_F32
from ckmlir.targets import Target

SCHEDULE = "schedule mhc_coefficients 1; ahead load 6"
"""A wave waits for each part otherwise."""


def build(spec: CoefficientsSpec, target: Target) -> Kernel:
    """Trace the kernel of a specification."""
    paper = spec.form == "paper"
    arrays = ("acc_parts", "alpha", "bias", "y") if paper else ("acc_parts", "y")
    sizes = ("m", "parts", "part_stride", "pitch", "ystride", "length")
    own: dict[str, Argument] = {"iterations": i32, "sinkhorn_eps": f32} if paper else dict.fromkeys(NUMBERS, f32)
    arguments: dict[str, Argument] = {
        **{name: ptr("f32") for name in arrays}, **dict.fromkeys(sizes, i32), "eps": f32, **own,
    }  # fmt: skip

    @kernel(spec.name, target=target, waves=1, arguments=arguments)
    def mhc_coefficients(given: SimpleNamespace) -> None:
        rows = Rows(spec, given)
        made = (_Paper if paper else _Ck)(rows)
        *sums, squares = rows.sums()
        mean = squares * (1.0 / given.length.maximum(1).to("f32"))
        norm = each_element(lambda one: _counted(sqrt(one + given.eps)), mean)
        for number, tile in enumerate(made(sums, each_element(reciprocal, norm))):
            store(tile, rows.window(number))

    return mhc_coefficients


def _counted(norm: Scalar) -> Scalar:
    """The norm, or 1 for the smallest; NaN stays."""
    found: Scalar = (norm <= LEAST_NORM).select(1.0, norm)
    return found


class Rows:
    """The rows of a wave; `pre`, `post` and `res` by number, and the sum of squares behind them.

    Coefficients of a row are seen as a matrix of n columns: a row of it is pre, one post, n are res. So all have one
    address.
    """

    def __init__(self, spec: CoefficientsSpec, given: SimpleNamespace) -> None:
        self.spec, self.given = spec, given
        self.first = workgroup_id(0) * spec.rows
        side = f"{spec.side}@lane" if spec.side > 1 else "1"
        copies = f"r: {spec.side}@lane.1, " if spec.side > 1 else ""
        held = f"{spec.side}@y0" if spec.side > 1 else "1"
        texts = (
            f"d0: {spec.rows}@lane, d1: 1, d2: {side}",
            f"d0: {spec.rows}@lane, d1: 1, d2: {side}",
            f"d0: {spec.rows}@lane, d1: {side}, d2: {held}",
            f"{copies}d0: {spec.rows}@lane.0, d1: 1, d2: 1",
        )
        self.distributions = tuple(map(Distribution.parse, texts))

    def window(self, number: int) -> Window:
        """One of pre, post and res of y."""
        spec, given, n = self.spec, self.given, self.spec.streams
        begins, lengths = (0, n, 2 * n), ((n,), (n,), (n, n))[number]
        tile = (spec.rows, *(spec.side for _ in lengths))
        strides = (given.ystride.multiple_of(spec.align), *(n, 1)[-len(lengths) :])
        whole = view(given.y.offset(begins[number]), (given.m, *lengths), strides).pad(*tile)
        return whole.window(tile, (self.first, *(0 for _ in lengths)))

    def sums(self) -> list[Tile]:
        """The four, added over all parts."""
        spec, given, n, side = self.spec, self.given, self.spec.streams, self.spec.side
        pitch, step = given.pitch.multiple_of(VECTOR), given.part_stride.multiple_of(VECTOR)
        places = ((1, side, 0), (1, side, 1), (side, side, 2), (1, 1, 0))
        lies = self.distributions
        start = [zeros((spec.rows, *one[:2]), "f32", own) for one, own in zip(places, lies, strict=True)]
        with loop(0, given.parts, 1, carry=start, schedule=Schedule.parse(SCHEDULE)) as part:
            with stage("load"):
                begin = given.acc_parts.offset((part.index.to("i64") * step.to("i64")).multiple_of(VECTOR))
                seen = view(begin, (given.m, n + 2, n), (pitch, n, 1)).pad(spec.rows, side + 2, side)
                behind = view(begin.offset((n + 2) * n), (given.m, 1, 1), (pitch, 1, 1)).pad(spec.rows, 1, 1)
                loaded = [
                    load(whole.window((spec.rows, down, across), (self.first, row, 0)), own)
                    for whole, (down, across, row), own in zip((seen, seen, seen, behind), places, lies, strict=True)
                ]
            with stage("add"):
                part.carry(*(total + one for total, one in zip(part.carried, loaded, strict=True)))
        pre, post, res, squares = part.results
        return [join_axes(pre, 1), join_axes(post, 1), res, join_axes(join_axes(squares, 1), 0)]

    def biases(self) -> list[Any]:
        """The bias of pre, post and res, the same for all rows."""
        n, side = self.spec.streams, self.spec.side
        pointer = self.given.bias
        vectors = [view(pointer.offset(begin), (n,), (1,)).pad(side).window((side,), (0,)) for begin in (0, n)]
        matrix = view(pointer.offset(2 * n), (n, n), (n, 1)).pad(side, side).window((side, side), (0, 0))
        return [*(load(one)[None, :] for one in vectors), load(matrix)[None, :, :]]

    def of_streams(self, tile: Tile) -> Tile:
        """A number for each row as one for each of its streams."""
        return stretch(tile, 1, self.spec.side)

    def inside(self, tile: Tile, other: float) -> Tile:
        """A matrix (rows, n, n) with another number in place of what streams that do not exist have."""
        n = self.spec.streams
        if n == self.spec.side:
            return tile
        return where(coordinates(tile, 1) < n, where(coordinates(tile, 2) < n, tile, other), other)


class _Ck:
    """Norms behind the sigmoids, and one bias."""

    def __init__(self, rows: Rows) -> None:
        self.rows = rows

    def __call__(self, sums: Sequence[Tile], inverse: Tile) -> list[Tile]:
        """The three, of sums and what divides by norms."""
        rows, given = self.rows, self.rows.given
        pre, post = (
            each_element(lambda s, r, factor=factor: _sigmoid(s) * (r * factor) + given.bias, one, inverse[:, None])
            for one, factor in zip(sums, (given.alpha_pre, given.alpha_post * 2.0), strict=False)
        )
        res = each_element(
            lambda s, r: s * (r * given.alpha_res) + given.bias, sums[2], rows.of_streams(inverse)[:, :, None]
        )
        return [pre, post, res]


class _Paper:
    """Norms and biases before the sigmoids, and Sinkhorn's divisions. Arrays are loaded before sums are waited for."""

    def __init__(self, rows: Rows) -> None:
        self.rows = rows
        self.alphas = [rows.given.alpha.scalar(number) for number in range(3)]
        self.biases = rows.biases()
        self.eps = rows.given.sinkhorn_eps.maximum(LEAST_NORMAL_F32)  # times which a sum of 0 divides zeros

    def __call__(self, sums: Sequence[Tile], inverse: Tile) -> list[Tile]:
        """The three, of sums and what divides by norms."""
        rows = self.rows
        norms = (inverse[:, None], inverse[:, None], rows.of_streams(inverse)[:, :, None])
        pre, post, t = (
            each_element(lambda s, r, b, alpha=alpha: s * (r * alpha) + b, one, norm, bias)
            for one, norm, bias, alpha in zip(sums, norms, self.biases, self.alphas, strict=True)
        )
        largest = reduce_max(rows.inside(t, float("-inf")), 2)
        shares = each_element(lambda one, most: exp2((one - most) * LOG2_E), t, largest[:, :, None])
        with loop(0, rows.given.iterations, 1, carry=[rows.inside(shares, 0.0)]) as turn:
            (shares,) = turn.carried
            shares = shares * self._inverse(reduce_sum(shares, 2))[:, :, None]
            turn.carry(shares * self._inverse(reduce_sum(shares, 1))[:, None, :])
        return [each_element(_sigmoid, pre), each_element(lambda one: _sigmoid(one) * 2.0, post), turn.results[0]]

    def _inverse(self, total: Tile) -> Tile:
        found: Tile = each_element(lambda one: reciprocal(one + self.eps), total)
        return found


def _sigmoid(t: Scalar) -> Scalar:
    found: Scalar = reciprocal(exp2(t * -LOG2_E) + 1.0)
    return found
