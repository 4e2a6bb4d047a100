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
    Pointer,
    Scalar,
    Tile,
    Window,
    coordinates,
    each_element,
    exp2,
    f32,
    i32,
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
from ckmlir.ops.mhc.kinds import coefficients_of
from ckmlir.ops.mhc.mhc_coefficients import VECTOR, CoefficientsSpec
from ckmlir.ops.mhc.mixing import LEAST_NORM, NUMBERS
from ckmlir.ops.precision import LOG2_E
from ckmlir.targets import Target

SCHEDULE = "schedule mhc_coefficients 1; ahead load 4"
"""Parts are few, and a wave waits for each."""


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
        *sums, squares = rows.sums()
        mean = squares * (1.0 / given.length.maximum(1).to("f32"))
        norm = each_element(lambda one: _counted(sqrt(one + given.eps)), mean)
        made = _paper if paper else _ck
        for number, tile in enumerate(made(rows, sums, each_element(reciprocal, norm))):
            store(tile, rows.window(given.y, given.ystride.multiple_of(spec.align), number))

    return mhc_coefficients


def _counted(norm: Scalar) -> Scalar:
    """The norm, or 1 for the smallest; NaN stays."""
    found: Scalar = (norm <= LEAST_NORM).select(1.0, norm)
    return found


class Rows:
    """The rows of a wave; `pre`, `post` and `res` by number, and the sum of squares behind them."""

    def __init__(self, spec: CoefficientsSpec, given: SimpleNamespace) -> None:
        self.spec, self.given = spec, given
        self.first = workgroup_id(0) * spec.rows
        rows, side = f"{spec.rows}@lane" if spec.rows > 1 else "1", f"{spec.side}@lane" if spec.side > 1 else "1"
        matrix = Distribution.parse(f"d0: {rows}, d1: {side}, d2: {f'{spec.side}@y0' if spec.side > 1 else '1'}")
        vector = matrix.reduce(2)
        self.distributions = (vector, vector, matrix, vector.reduce(1))

    def window(self, pointer: Pointer, pitch: Scalar, number: int) -> Window:
        """One of the four of an array of rows."""
        n, side, rows = self.spec.streams, self.spec.side, self.spec.rows
        begins = (0, n, 2 * n, coefficients_of(n))
        lengths, strides = ((n,), (n,), (n, n), ())[number], ((1,), (1,), (n, 1), ())[number]
        tile = (rows, *(side for _ in lengths))
        whole = view(pointer.offset(begins[number]), (self.given.m, *lengths), (pitch, *strides)).pad(*tile)
        return whole.window(tile, (self.first, *(0 for _ in lengths)))

    def sums(self) -> list[Tile]:
        """The four, added over all parts."""
        given, lies = self.given, self.distributions
        pitch, step = given.pitch.multiple_of(VECTOR), given.part_stride.multiple_of(VECTOR)
        lengths = [tuple(self.spec.side for _ in range(len(one.lengths) - 1)) for one in lies]
        start = [zeros((self.spec.rows, *own), "f32", one) for own, one in zip(lengths, lies, strict=True)]
        with loop(0, given.parts, 1, carry=start, schedule=Schedule.parse(SCHEDULE)) as part:
            with stage("load"):
                begin = given.acc_parts.offset((part.index.to("i64") * step.to("i64")).multiple_of(VECTOR))
                loaded = [load(self.window(begin, pitch, number), one) for number, one in enumerate(lies)]
            with stage("add"):
                part.carry(*(total + one for total, one in zip(part.carried, loaded, strict=True)))
        found: list[Tile] = part.results
        return found

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


def _ck(rows: Rows, sums: Sequence[Tile], inverse: Tile) -> list[Tile]:
    """Norms behind the sigmoids, and one bias."""
    given = rows.given
    pre, post = (
        each_element(lambda s, r, factor=factor: _sigmoid(s) * (r * factor) + given.bias, one, inverse[:, None])
        for one, factor in zip(sums, (given.alpha_pre, given.alpha_post * 2.0), strict=False)
    )
    res = each_element(
        lambda s, r: s * (r * given.alpha_res) + given.bias, sums[2], rows.of_streams(inverse)[:, :, None]
    )
    return [pre, post, res]


def _paper(rows: Rows, sums: Sequence[Tile], inverse: Tile) -> list[Tile]:
    """Norms and biases before the sigmoids, and Sinkhorn's divisions."""
    alphas = [rows.given.alpha.scalar(number) for number in range(3)]
    norms = (inverse[:, None], inverse[:, None], rows.of_streams(inverse)[:, :, None])
    pre, post, t = (
        each_element(lambda s, r, b, alpha=alpha: s * (r * alpha) + b, one, norm, bias)
        for one, norm, bias, alpha in zip(sums, norms, rows.biases(), alphas, strict=True)
    )
    largest = reduce_max(rows.inside(t, float("-inf")), 2)
    shares = each_element(lambda one, most: exp2((one - most) * LOG2_E), t, largest[:, :, None])
    with loop(0, rows.given.iterations, 1, carry=[rows.inside(shares, 0.0)]) as turn:
        (shares,) = turn.carried
        shares = shares * _inverse(rows, reduce_sum(shares, 2))[:, :, None]
        turn.carry(shares * _inverse(rows, reduce_sum(shares, 1))[:, None, :])
    return [each_element(_sigmoid, pre), each_element(lambda one: _sigmoid(one) * 2.0, post), turn.results[0]]


def _inverse(rows: Rows, total: Tile) -> Tile:
    """What divides by sums; those of 0 divide nothing."""
    eps = rows.given.sinkhorn_eps
    found: Tile = each_element(lambda one: reciprocal((one + eps).equals(0.0).select(1.0, one + eps)), total)
    return found


def _sigmoid(t: Scalar) -> Scalar:
    found: Scalar = reciprocal(exp2(t * -LOG2_E) + 1.0)
    return found
