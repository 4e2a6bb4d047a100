"""What manifold-constrained hyper-connections make of sums and norms: coefficients that mix streams, in NumPy.

Each row has n streams, and n + n + n² coefficients: `pre` says what of each stream the layer reads, `post` how much of
what the layer makes each stream gets, `res` (n x n) how the streams are mixed. Of the sums s and the norm r of a row

    form=paper  t = alpha / r * s + bias, a bias for each coefficient; pre = sigmoid(t), post = 2 sigmoid(t), and res
                is exp(t - the largest t of its row of n), whose rows, then columns, are divided by their sums and
                `sinkhorn_eps`, `iterations` times (Sinkhorn and Knopp), so that both come to add up to 1
                (arXiv 2512.24880)
    form=ck     pre = alpha / r * sigmoid(s) + bias, post = 2 alpha / r * sigmoid(s) + bias, res = alpha / r * s + bias,
                one bias for all (CK Tile's example 42_mhc)

Each of the three has an alpha of its own. A norm of at most `LEAST_NORM` counts as 1, and so does a sum of 0.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec import Struct

from ckmlir.ops.comparison import Array, Tolerance
from ckmlir.ops.mhc.kinds import FORMS, KINDS, coefficients_of
from ckmlir.ops.precision import DENORMAL, LEAST_EXPONENTIAL, OVERFLOW, UNIT, in_f32, may_overflow
from ckmlir.ops.request import LEAST_NORMAL_F32, MAXIMUM_SIZE, Choice, Integer, Key, Pitch, Real, RequestError

if TYPE_CHECKING:
    from random import Random

LEAST_NORM = 1e-12
NUMBERS = (*(f"alpha_{kind}" for kind in KINDS), "bias")
"""Keys of what form=ck is told by numbers, and form=paper by arrays."""
LEAST_SHARE = 2.0**-100
"""Exponentials, or what divisions leave of them, below which nothing is promised of a row's `res`: f32 has nothing for
what they may grow to again."""
ROWS_AT_ONCE = 256
"""Whose errors are followed together: n⁴ numbers each."""

KEYS: tuple[Key, ...] = (
    Choice("form", "paper", "coefficients as in the paper, with Sinkhorn's iterations, or as in CK's example", FORMS),
    Integer("iterations", 20, "of Sinkhorn's divisions; form=paper", maximum=1000),
    Real("eps", 1e-6, "added to the mean of squares", minimum=0.0),
    Real("sinkhorn_eps", 1e-6, "added to the sums of rows and columns; form=paper", minimum=0.0),
    *(Real(f"alpha_{kind}", None, f"factor of {kind}; form=ck, by default 1") for kind in KINDS),
    Real("bias", None, "added to all; form=ck, by default 0"),
)


class RowPitch(Pitch, frozen=True):
    """Elements from one row to the next, which has as many as the product of some keys; by default, coefficients."""

    lengths: tuple[str, ...] = ()

    def sample(self, random: Random, request: Mapping[str, object]) -> object:
        given = [value if isinstance(value := request.get(name), int) else 1 for name in (*self.lengths, "streams")]
        length = prod(given[:-1]) if self.lengths else coefficients_of(given[-1])
        return Pitch(self.name, None, "", minimum=max(min(length, MAXIMUM_SIZE), 1), of=()).sample(random, request)


class Mixing(Struct, frozen=True):
    """What coefficients are made.

    Attributes:
        numbers: alpha of pre, post and res, and the bias, of form=ck.
    """

    streams: int
    form: str
    iterations: int
    eps: float
    sinkhorn_eps: float
    numbers: tuple[float, float, float, float]

    @staticmethod
    def read(values: Mapping[str, Any]) -> Mixing:
        """Of keys that have been read. Raises RequestError for numbers that form=paper has arrays of."""
        given = [values[name] for name in NUMBERS]
        if values["form"] == "paper":
            for name, value in zip(NUMBERS, given, strict=True):
                if value is not None:
                    raise RequestError(f"{name}={value:g}: form=paper takes arrays alpha and bias; expected form=ck")
        a, b, c = (1.0 if value is None else value for value in given[:3])
        bias = given[3] or 0.0
        return Mixing(
            values["streams"], values["form"], values["iterations"], values["eps"], values["sinkhorn_eps"],
            (a, b, c, bias),
        )  # fmt: skip

    @property
    def columns(self) -> int:
        """Coefficients of a row."""
        return coefficients_of(self.streams)

    @property
    def has_arrays(self) -> bool:
        """Whether alpha and bias are arrays."""
        return self.form == "paper"

    def spread(self, arrays: Mapping[str, Array]) -> tuple[Array, Array]:
        """Alpha and the bias of every coefficient."""
        alpha, bias = np.asarray(self.numbers[:3], np.float32), np.full(self.columns, self.numbers[3], np.float32)
        if self.has_arrays:
            alpha, bias = arrays["alpha"], arrays["bias"]
        n = self.streams
        return np.repeat(alpha.astype(np.float64), (n, n, n * n)), bias.astype(np.float64)

    def values(self, name: str, drawn: Array) -> Array:
        """Values of the arrays `alpha` and `bias`, of numbers drawn around 0."""
        return 1 + drawn / 4 if name == "alpha" else drawn


def norms(mixing: Mixing, squares: Array) -> Array:
    """Norms (m, 1) of rows whose mean squares are given (m), infinite where f32 has no number for what has a root."""
    with np.errstate(invalid="ignore"):
        found = np.sqrt(in_f32(_rooted(mixing, squares)))
    counted: Array = np.where(found <= LEAST_NORM, 1.0, found)[:, None]
    return counted


def _rooted(mixing: Mixing, squares: Array) -> Array:
    """What norms are the square roots of."""
    return squares + float(np.float32(mixing.eps))


def coefficients(mixing: Mixing, sums: Array, squares: Array, arrays: Mapping[str, Array]) -> Array:
    """The coefficients (m, 2 n + n²) of sums, mean squares (m), and `alpha` and `bias` where there are such."""
    alpha, bias = mixing.spread(arrays)
    n, norm = mixing.streams, norms(mixing, squares)
    with np.errstate(all="ignore"):
        if mixing.form == "ck":
            weighed = np.where(np.arange(mixing.columns) < 2 * n, _sigmoid(sums), sums)
            found: Array = alpha / norm * weighed * _doubled(n) + bias
            return found
        t = alpha / norm * sums + bias
        res = list(_iterates(mixing, t[:, 2 * n :]))[-1]
        return np.concatenate([(_sigmoid(t) * _doubled(n))[:, : 2 * n], res.reshape(len(t), n * n)], axis=1)


def tolerance(
    mixing: Mixing,
    sums: Array,
    off: Array,
    squares: Array,
    relative: Array | float,
    arrays: Mapping[str, Array],
    unknown: Array,
) -> Tolerance:
    """How far coefficients in f32 may be from those of these sums and mean squares.

    Sums are `off` by so much, squares relatively by `relative`. With u f32's unit roundoff, f = alpha / r is off
    relatively by e = relative / 2 + 6 u, or by a denormal, and what it multiplies by |f| off + |f s| (e + 2 u) more. A
    sigmoid σ of t moves to those of t - δ and t + δ at most when its argument does by δ, and loses
    σ (8 + (1 - σ) (2 |t| + 4)) u itself. What becomes of res under Sinkhorn's divisions is followed to first order
    (`_sinkhorn_error`).

    Nothing is promised where f or its product passes f32's range, of an infinite sum where f may come to 0, of rows
    whose norm may be infinite or not, and of sums that are `unknown`: a condition (m, 2 n + n²), or of rows (m, 1).
    """
    alpha, bias = mixing.spread(arrays)
    n, norm = mixing.streams, norms(mixing, squares)
    is_res = np.arange(mixing.columns) >= 2 * n
    relative = np.broadcast_to(np.asarray(relative), squares.shape)
    rooted = _rooted(mixing, squares)
    unknown = unknown | may_overflow(rooted, rooted * (relative + 2 * UNIT))[:, None]
    relative = relative[:, None] / 2 + 6 * UNIT
    with np.errstate(all="ignore"):
        factor = np.abs(alpha / norm)
        argument = sums if mixing.form == "ck" else alpha / norm * sums + bias
        moved = factor * off + np.abs(factor * sums) * (relative + 2 * UNIT)
        moved += 2 * UNIT * (np.abs(argument) + np.abs(bias)) + DENORMAL * (np.abs(sums) + 1)
        share, step = _sigmoid(argument), off if mixing.form == "ck" else moved
        slope = share * (1 - share)
        # Where the slope is 0 a wrong exponent changes nothing, and 0 times an infinite argument is not a number.
        own = (8 * share + np.where(slope == 0, 0.0, slope * (2 * np.abs(argument) + 4))) * UNIT + LEAST_EXPONENTIAL
        sigmoid = np.fmax(_sigmoid(argument + step) - share, share - _sigmoid(argument - step)) + own
        beyond = factor * np.maximum(np.abs(sums), 1) >= OVERFLOW / 4
        free = np.broadcast_to(unknown, sums.shape) | (beyond & np.isfinite(sums))
        free = free | (np.isinf(sums) & (factor > 0) & (factor < LEAST_NORMAL_F32))  # 0 times an infinity
        if mixing.form == "ck":
            shares = factor * (sigmoid + share * (relative + 3 * UNIT)) + 2 * UNIT * np.abs(bias) + 2 * DENORMAL
            error = np.where(is_res, moved, _doubled(n) * shares)
        else:
            res, lost = _sinkhorn_errors(mixing, argument[:, 2 * n :], moved[:, 2 * n :])
            error = np.concatenate([(sigmoid * _doubled(n))[:, : 2 * n], res], axis=1)
            free = free | (lost[:, None] & is_res)
            free = free | ((free & is_res).any(axis=1, keepdims=True) & is_res)
    reason = f"f32 norms and coefficients, form={mixing.form}"
    return Tolerance(2 * UNIT, np.nan_to_num(error, nan=0.0, posinf=0.0), reason, free | np.isinf(error))


def _sigmoid(t: Array) -> Array:
    found: Array = 1 / (1 + np.exp(-t))
    return found


def _doubled(n: int) -> Array:
    """What each coefficient is multiplied by at the end: 2 of post."""
    return np.repeat([1.0, 2.0, 1.0], (n, n, n * n))


def _iterates(mixing: Mixing, t: Array) -> Iterator[Array]:
    """What each division leaves of the exponentials (m, n, n) of t (m, n²), the exponentials first."""
    n = mixing.streams
    t = t.reshape(-1, n, n)
    shares = np.exp(t - np.fmax.reduce(t, axis=2, keepdims=True))
    yield shares
    for _ in range(mixing.iterations):
        for axis in (2, 1):
            total = shares.sum(axis=axis, keepdims=True) + float(np.float32(mixing.sinkhorn_eps))
            shares = shares / np.where(total == 0, 1.0, total)
            yield shares


def _sinkhorn_errors(mixing: Mixing, t: Array, moved: Array) -> tuple[Array, Array]:
    """How far res (m, n²) is off where t is by `moved`; and rows of which nothing is promised (m)."""
    found, lost = np.zeros_like(t), np.zeros(len(t), np.bool_)
    for first in range(0, len(t), ROWS_AT_ONCE):
        some = slice(first, first + ROWS_AT_ONCE)
        found[some], lost[some] = _sinkhorn_error(mixing, t[some], moved[some])
    return found, lost


def _sinkhorn_error(mixing: Mixing, t: Array, moved: Array) -> tuple[Array, Array]:
    """The same of a few rows.

    A division makes x_ij of log shares to x_ij - log(sum_j exp(x_ij) + eps), whose derivative is that of x_ij less the
    sum of the others' times the shares that it leaves. So errors of logarithms go backwards from the result through all
    divisions; each adds roundings of n additions, a reciprocal and a product. The first shares are off by what their
    exponent is, by that of the largest, and by the exponential's own error.
    """
    n = mixing.streams
    steps = list(_iterates(mixing, t))
    seen = np.broadcast_to(np.eye(n * n).reshape(n * n, n, n), (len(t), n * n, n, n))
    error = np.zeros((len(t), n * n))
    for number, shares in reversed(list(enumerate(steps[1:]))):
        error += np.abs(seen).sum(axis=(2, 3)) * (n + 6) * UNIT
        along = 3 if number % 2 == 0 else 2
        seen = seen - shares[:, None] * seen.sum(axis=along, keepdims=True)
    square = t.reshape(-1, n, n)
    below = np.fmax.reduce(square, axis=2, keepdims=True) - square
    off = moved.reshape(-1, n, n)
    first = off + np.fmax.reduce(off, axis=2, keepdims=True) + UNIT * (4 * below + 8)
    first = np.where(np.isnan(first), 0.0, first)  # whose NaN divisions spread, and else nothing
    error += np.einsum("moij,mij->mo", np.abs(seen), first)
    lost = np.any([(shares < LEAST_SHARE).any(axis=(1, 2)) for shares in steps], axis=0)
    result: Array = steps[-1].reshape(-1, n * n) * np.expm1(error) + LEAST_EXPONENTIAL
    return result, lost
