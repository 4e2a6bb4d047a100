"""How far kernels of `ssd_fwd` may be from the recurrence: first-order bounds of their errors, place by place."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from msgspec import Struct

from ckmlir.ops.comparison import Array, Tolerance
from ckmlir.ops.dtypes import Dtype, find_dtype
from ckmlir.ops.precision import OVERFLOW, UNIT
from ckmlir.ops.request import LEAST_NORMAL_F32
from ckmlir.ops.state_space.problem import Problem
from ckmlir.ops.state_space.reference import first_state, silu
from ckmlir.ops.state_space.ssd_fwd_spec import BLOCKS
from ckmlir.targets import Target

WIDEST = max(places for places, _ in BLOCKS)
"""Places of a block."""
SUM_ROUNDINGS = 9
"""Of a sum of exponents along a block, at most: log2(WIDEST) levels of a scan, the factor that makes them exponents to
the base 2 and its product, and the argument's own."""
MOST_EXPONENT = 60.0
"""Growth within a block, and errors of exponents, up to which something is promised."""
LARGEST = {"f16": 65504.0, "bf16": OVERFLOW, "f32": OVERFLOW}
"""By dtype: what is rounded to it has to be below, with a margin."""


def ssd_tolerances(problem: Problem, arrays: Mapping[str, Array], target: Target) -> dict[str, Tolerance]:
    """Tolerances of y and of state; u is f32's unit roundoff, r the dtype's, L the places of the widest block.

    What place j adds to Y at place i, C[i]·B[j] exp(…) delta x[j], passes through at most two operands that are rounded
    to the dtype: P within a block; W X and the state from block to block. It is a sum of n products times a sum of at
    most L, and its exponent is a sum of parts: a difference of two sums within j's block, and a sum within i's, each
    sum wrong by e = 9 u sum |delta_a| over the block of L places; between them 9 u |delta_a| for each place, and four
    roundings more for each block that passes. So with M the magnitude of the state, that is the recurrence with
    |delta x bᵀ|, and E its error, both carried from place to place,

        E = exp(delta_a) (E + (9 u |delta_a| + u / 4) M) + (exp(2 e) - 1 + 1.01 r) |delta x bᵀ| + lost
        Y   |C| (E + (exp(e) - 1 + 1.01 r + (n + 2 L + 32) u) (M + E)) + lost, and the rounding of Y
        H   E + (2 L + 32) u M

    lost is the underflow of rounded operands, which comes behind the decay within a block, times what they are
    multiplied with: where matrix instructions take denormals for zero, it is the smallest normal number, and elements
    below that are lost as well. It is also what exponentials lack that are below f32's least normal number. Skip and
    gate add the roundings of their products; silu(z) is wrong by (8 + 2 |z|) u of itself.

    Nothing is promised of heads with inputs that are not finite, behind exponents that grow, or whose errors do, beyond
    `MOST_EXPONENT` in a block, and of what has operands that the dtype does not hold.
    """
    dtype = find_dtype(problem.dtype)
    given = inputs_of(problem, arrays)
    error = Error(problem, given, dtype, flushes=not target.has("mfma_denormals"))
    y, size, free = error.y, error.size, error.free | given.lost[:, :, None, None]
    if problem.skip != "none":
        factors = problem.factors(arrays)
        free = free | ~np.isfinite(factors)
        added = np.abs(np.nan_to_num(factors, posinf=0, neginf=0) * given.x)
        size = size + added
    y = y + 4 * UNIT * size
    if problem.gate:
        z = problem.by_head("z", arrays["z"])
        free, z = free | ~np.isfinite(z), np.nan_to_num(z, posinf=0, neginf=0)
        gate = np.abs(silu(z))
        y = gate * (y + (8 + 2 * np.abs(z)) * UNIT * (size + y)) + LEAST_NORMAL_F32 * size
        size = size * np.maximum(gate, 1.0)
    free = free | ~(size + y < OVERFLOW / 2)
    reason = f"operands rounded to {problem.dtype}, sums and exponents of {WIDEST} places in f32"
    atol = np.where(free, 0.0, y) + dtype.underflow
    found = {"y": Tolerance(dtype.unit_roundoff, problem.from_heads(atol), reason, problem.from_heads(free))}
    if problem.final:
        state = error.state + (2 * WIDEST + 32) * UNIT * error.magnitude
        lost = (error.ended | given.lost[:, :, None])[..., None] | ~(state + error.magnitude < OVERFLOW / 2)
        found["state"] = Tolerance(UNIT, np.where(lost, 0.0, state) + LEAST_NORMAL_F32, reason, lost)
    return found


class Inputs(Struct, frozen=True):
    """The arrays by head, (batch, head, place, …), in float64, zeros where they are not numbers.

    Attributes:
        x, b, c, delta, first: magnitudes; first: of the state before the first place.
        lost: whether a head (batch, head) has NaN or infinities among its inputs.
    """

    x: Array
    b: Array
    c: Array
    decay: Array
    delta: Array
    first: Array
    lost: Array


def inputs_of(problem: Problem, arrays: Mapping[str, Array]) -> Inputs:
    """Those of a problem, but for Z and skip."""
    found = [problem.by_head(name, arrays[name]) for name in ("x", "b_mat", "c_mat")]
    found += [problem.steps(arrays[name]) for name in ("delta_a", "delta")]
    found.append(first_state(problem, arrays))
    lost = np.zeros((problem.b, problem.h), np.bool_)
    for one in found:
        lost |= ~np.isfinite(one).all(axis=tuple(range(2, one.ndim)))
    x, b, c, decay, delta, first = (np.nan_to_num(one, posinf=0, neginf=0) for one in found)
    return Inputs(np.abs(x), np.abs(b), np.abs(c), decay, np.abs(delta), np.abs(first), lost)


class Error:
    """The bounds of `ssd_tolerances` without skip and gate, found place by place.

    Attributes:
        y, size, free: of Y, (batch, head, place, channel): error, magnitude, and whether nothing is promised.
        state, magnitude: E and M behind the last place; ended: channels (batch, head, channel) of which nothing is.
    """

    def __init__(self, problem: Problem, given: Inputs, dtype: Dtype, *, flushes: bool) -> None:
        self.problem, self.given = problem, given
        self.limit = LARGEST[dtype.name] / 2
        self.rounded = 1.01 * dtype.unit_roundoff
        self.smallest = dtype.least_normal if flushes else dtype.underflow
        self.least = dtype.least_normal * flushes
        shape = (problem.b, problem.h, problem.s, problem.d)
        self.y, self.size, self.free = np.zeros(shape), np.zeros(shape), np.zeros(shape, np.bool_)
        self.magnitude, self.state, self.late = given.first, np.zeros_like(given.first), np.zeros_like(given.first)
        self.ended = np.zeros(shape[:2] + shape[3:], np.bool_)
        grown = of_blocks(np.maximum(given.decay, 0.0))
        self.exponents = SUM_ROUNDINGS * UNIT * of_blocks(np.abs(given.decay))
        self.beyond = (grown >= MOST_EXPONENT) | (2 * self.exponents >= MOST_EXPONENT)
        self.growth = np.exp(np.minimum(grown, MOST_EXPONENT))
        with np.errstate(over="ignore", invalid="ignore"):
            self._walk()

    def _walk(self) -> None:
        given, places = self.given, range(self.problem.s)
        of_weights = self.smallest * of_blocks(given.x)
        lengths = [np.linalg.norm(one, axis=-1) for one in (given.c, given.b)]
        scores = lengths[0] * of_blocks(np.maximum(lengths[1], lengths[1] * given.delta), np.max) * self.growth
        self.free |= (scores >= self.limit)[..., None]
        top = total = self.magnitude
        for i in places:
            added, small, late = self._added(i)
            self._step(i, added, small + LEAST_NORMAL_F32 * top, late)
            top, total = np.maximum(top, self.magnitude), total + added
            operands = (given.delta[:, :, i] * self.growth[:, :, i])[..., None] * given.x[:, :, i]
            self.ended = self.ended | self.beyond[:, :, i, None] | (operands >= self.limit)
            self.ended = self.ended | (top >= self.limit).any(axis=-1)
            c = given.c[:, :, i]
            relative = np.expm1(self.exponents[:, :, i]) + self.rounded
            relative = relative + (self.problem.n + 2 * WIDEST + 32) * UNIT
            wrong = self.state + relative[..., None, None] * (self.magnitude + self.state)
            wrong = wrong + LEAST_NORMAL_F32 * self.growth[:, :, i, None, None] * (top + total)
            missing = _over_channels(self.magnitude, np.where(c < self.least, c, 0.0))
            self.y[:, :, i] = _over_channels(wrong, c) + missing + of_weights[:, :, i]
            self.y[:, :, i] += self.smallest * c.sum(axis=-1, keepdims=True)
            self.size[:, :, i] = _over_channels(self.magnitude, c)
            self.free[:, :, i] |= self.ended

    def _added(self, i: int) -> tuple[Array, Array, Array]:
        """The magnitude of what a place adds to the state, what of it small operands lose, and what underflow does
        that comes behind the decay up to the block's end, and is none the smaller for it."""
        given = self.given
        x, b, delta = given.x[:, :, i, :, None], given.b[:, :, i, None], given.delta[:, :, i, None, None]
        few = [np.where(one < self.least, one, 0.0) for one in (x, b)]
        added = delta * x * b
        late = self.smallest * b + LEAST_NORMAL_F32 * added
        return added, delta * (few[0] * b + x * few[1]), late

    def _step(self, i: int, added: Array, lost: Array, late: Array) -> None:
        """Carry M and E over a place. A block's `late` losses count from their place on, and decay behind the block."""
        if i % WIDEST == 0:
            self.late = np.zeros_like(self.state)
        decay = self.given.decay[:, :, i, None, None]
        factor = np.exp(decay)
        slack = SUM_ROUNDINGS * UNIT * np.abs(decay) + UNIT / 4
        own = np.expm1(2 * self.exponents[:, :, i, None, None]) + self.rounded
        before = np.maximum(factor, 1.0) * self.late
        self.state = factor * (self.state - self.late + slack * self.magnitude) + own * added + lost + before + late
        self.late = before + late
        self.magnitude = factor * self.magnitude + added


def _over_channels(state: Array, c: Array) -> Array:
    """A state (batch, head, d, n) times a place's C (batch, head, n)."""
    found: Array = np.einsum("bhdn,bhn->bhd", state, c)
    return found


def of_blocks(values: Array, fold: Callable[..., Array] = np.sum) -> Array:
    """For each place (third axis) the sum, or what another function folds, of all in the widest block that it is in:
    narrower ones are parts of that."""
    places = values.shape[2]
    padded = np.pad(values, [(0, 0), (0, 0), (0, -places % WIDEST), *[(0, 0)] * (values.ndim - 3)])
    blocks = padded.reshape(*values.shape[:2], padded.shape[2] // WIDEST, WIDEST, *values.shape[3:])
    found: Array = np.repeat(fold(blocks, axis=3), WIDEST, axis=2)[:, :, :places]
    return found
