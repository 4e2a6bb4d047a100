"""fmha_fwd_splitkv_combine: attention over all keys from those over parts of them, for `fmha_fwd_splitkv` and
`unified_attention`.

    LSE = log(sum of exp(LSE of a part))
    O   = sum of exp(LSE of a part - LSE) · (O of the part)

A part without keys has LSE = -inf; where all parts are so, O = 0 and LSE = -inf. A part with LSE of NaN or plus
infinity gives NaN for both. Nothing is promised of an element of O where one of the parts is not a finite number.

Arrays: o_parts (splits, b, h, sq, dv) and lse_parts (splits, b, h, sq) in f32; in group mode seqstart_q and seqlen_q
(`sequences.py`), where b is 1 and LSE has no such dimension; o as `fmha_fwd` has it, and lse, where it is asked for.
Rows behind the end of a sequence are neither read nor written. With counted=1 a list, counts (b) i32, says how many
parts each sequence has, at least 1; those behind are not read.

Kernel arguments: o_parts, lse_parts, o, lse where it is asked for, seqstart_q, seqlen_q, counts as the specification
has them; splits, sq, h, rows of a head (i32); rows of a part (i64); for o the strides of the sequence (i32), the head
and the batch (i64). Grid: (blocks of queries, heads, sequences).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from msgspec import Struct

from ckmlir.ops.arrays import ArraySpec, array_spec
from ckmlir.ops.attention.fmha_fwd_spec import WHOLE_TILES
from ckmlir.ops.attention.head_strides import HeadStrides, by_head, checked_head_strides
from ckmlir.ops.attention.sequences import KEYS as SEQUENCE_KEYS
from ckmlir.ops.attention.sequences import Rows, read_sequences
from ckmlir.ops.attention.tolerance import held, stored
from ckmlir.ops.comparison import Array, Tolerance
from ckmlir.ops.dtypes import find_dtype
from ckmlir.ops.operator import NOTHING, Argument, Launch, Operator
from ckmlir.ops.precision import LEAST_EXPONENTIAL, OVERFLOW, UNIT
from ckmlir.ops.request import Choice, Flag, Integer, RequestError
from ckmlir.ops.scalars import ceil_div, i32, i64
from ckmlir.ops.spec import Reason, Spec, no_such_float, not_a_choice
from ckmlir.targets import Target
from ckmlir.targets.cdna import WAVE_SIZE

MOST_SPLITS = 128
DTYPES = ("f16", "bf16", "f32", "fp8")
"""Channels that a tile may have: lanes side by side hold a row."""
MULTIPLE = 8
WAVES = 4
VECTOR = 4
"""Elements that a lane holds side by side: 16 bytes of f32."""
LEAST_ROWS = 8
QUERIES = ("", "length", "start", "startlength")
"""What memory holds of the places of queries, as in `fmha_fwd_spec.SEQUENCES`."""


class CombineProblem(Struct, frozen=True):
    """Parts to put together."""

    splits: int
    b: int
    """Sequences; in group mode the arrays have one batch."""
    h: int
    queries: Rows
    dv: int
    out: str
    layout: str
    lse: bool
    o_strides: tuple[int, int, int]
    """Elements from one batch, one head and one row to the next."""
    counted: bool = False
    """Whether memory holds how many of the parts each sequence has."""

    @property
    def batches(self) -> tuple[int, ...]:
        """Of LSE."""
        return () if self.queries.slots else (self.b,)

    @property
    def lse_shape(self) -> tuple[int, ...]:
        """Of LSE of a part, or of all."""
        return (*self.batches, self.h, self.queries.total)

    @property
    def o_parts_shape(self) -> tuple[int, ...]:
        """Of all parts of O."""
        return (self.splits, *(self.batches or (1,)), self.h, self.queries.total, self.dv)


class CombineSpec(Spec):
    """What the kernel's code depends on.

    Attributes:
        out: type of O.
        queries: what memory holds of their places, see `QUERIES`.
        counted: memory holds how many parts each sequence has.
    """

    out: str
    dv: int
    lse: bool
    queries: str
    counted: bool = False

    @property
    def name(self) -> str:
        parts = ["fmha_fwd_splitkv_combine", self.out, f"d{self.dv}", *(["q", self.queries] if self.queries else [])]
        return "_".join(parts + ["counted"] * self.counted + ["lse"] * self.lse)

    @property
    def tile(self) -> tuple[int, int]:
        """Queries and channels of a workgroup."""
        channels = min(one for one in WHOLE_TILES if one >= self.dv)
        return max(LEAST_ROWS, WAVES * WAVE_SIZE * VECTOR // channels), channels


class Combine(Operator[CombineProblem, CombineSpec]):
    """The operator `fmha_fwd_splitkv_combine`, which the module's docstring describes."""

    name = "fmha_fwd_splitkv_combine"
    spec_type = CombineSpec
    keys = (
        Integer("splits", 4, "parts", minimum=1, maximum=MOST_SPLITS),
        Integer("b", None, "batches, or sequences in group mode; by default 1, or as many as there are lengths"),
        Integer("h", 2, "heads", minimum=1),
        Integer("sq", None, "queries, or the most of a sequence; by default 256, or the longest"),
        Integer("dv", 128, "channels: a multiple of 8 up to 256", minimum=1, multiple=MULTIPLE),
        Choice("out", "f16", "of O", DTYPES),
        Choice("layout", "bhsd", "order of the dimensions of o in memory", ("bhsd", "bshd")),
        Flag("lse", False, "also write the logarithm of the sum of exponentials"),
        Flag("counted", False, "each sequence has some of the parts: a list says how many"),
        *(key for key in SEQUENCE_KEYS if not key.name.endswith("_k")),
        HeadStrides("o_strides", None, "elements from one batch, head and row of o to the next", 3, array="o"),
    )

    def _problem(self, values: Mapping[str, Any]) -> CombineProblem:
        dv = values["dv"]
        if dv % MULTIPLE or dv > WHOLE_TILES[-1]:
            raise RequestError(f"dv={dv}: expected a multiple of {MULTIPLE} from {MULTIPLE} to {WHOLE_TILES[-1]}")
        if values["mode"] == "group" and values["seqlens_q"] is None:
            raise RequestError("mode=group: it needs seqlens_q, the lengths of the sequences")
        as_keys = {"seqlens_k": values["seqlens_q"], "slots_k": None, "sk": None}
        b, queries, _ = read_sequences({**values, **as_keys})
        sizes = (values["h"], queries.total, dv)
        strides = checked_head_strides(
            "o", values["layout"], 1 if queries.slots else b, sizes, values["out"], values["o_strides"]
        )
        problem = CombineProblem(
            values["splits"], b, values["h"], queries, dv, values["out"], values["layout"], values["lse"], strides,
            values["counted"],
        )  # fmt: skip
        self.arrays(problem)  # refuses what is too large
        array_spec("o_parts", problem.o_parts_shape[-2:], "f32", "in")
        return problem

    def spec(self, problem: CombineProblem, target: Target) -> CombineSpec:
        return CombineSpec(problem.out, problem.dv, problem.lse, problem.queries.word, problem.counted)

    def validate(self, spec: CombineSpec, target: Target) -> list[Reason]:
        reasons = [*not_a_choice(spec, out=DTYPES, queries=QUERIES), *no_such_float("out", spec.out, target)]
        if spec.dv % MULTIPLE or not MULTIPLE <= spec.dv <= WHOLE_TILES[-1]:
            right = f"expected a multiple of {MULTIPLE} from {MULTIPLE} to {WHOLE_TILES[-1]}"
            reasons.append(Reason("dv", spec.dv, "no tile holds so many channels in whole vectors", right))
        return reasons

    def kernels(self, target: Target) -> list[CombineSpec]:
        outs = [one for one in DTYPES if one != "fp8" or target.fp8]
        kinds = [(word, False) for word in QUERIES] + [("start", True)]
        return [CombineSpec(out, dv, True, *kind) for out in outs for dv in WHOLE_TILES for kind in kinds]

    def arrays(self, problem: CombineProblem) -> tuple[ArraySpec, ...]:
        batch, head, row = problem.o_strides
        heads = ((problem.h, head), (problem.queries.total, row))
        (first, far), (second, near) = heads if problem.layout == "bhsd" else heads[::-1]
        shape = ((problem.batches or (1,))[0], first, second, problem.dv)
        o = ArraySpec("o", shape, problem.out, "out", (batch, far, near, 1))
        lse = [array_spec("lse", problem.lse_shape, "f32", "out")] if problem.lse else []
        counts = [array_spec("counts", (problem.b,), "i32", "in")] if problem.counted else []
        return (
            array_spec("o_parts", problem.o_parts_shape, "f32", "in", limited=False),
            array_spec("lse_parts", (problem.splits, *problem.lse_shape), "f32", "in", limited=False),
            o, *lse, *problem.queries.arrays(), *counts,
        )  # fmt: skip

    def _together(self, problem: CombineProblem, generator: np.random.Generator) -> Mapping[str, Array]:
        counts = {"counts": generator.integers(1, problem.splits, problem.b, endpoint=True)}
        return {**problem.queries.values(), **(counts if problem.counted else {})}

    def check_inputs(self, problem: CombineProblem, arrays: Mapping[str, Array]) -> None:
        problem.queries.check(arrays)
        if problem.counted:
            wrong = (arrays["counts"] < 1) | (arrays["counts"] > problem.splits)
            if wrong.any():
                place = int(np.argmax(wrong))
                what = f"sequence {place} has {arrays['counts'][place]} parts"
                raise RequestError(f"array counts: {what}; expected 1 to {problem.splits}")

    def _values(self, problem: CombineProblem, array: ArraySpec, generator: np.random.Generator) -> Array:
        """Normal; a fifth of the parts have no keys."""
        values: Array = generator.standard_normal(array.shape, dtype=np.float32)
        if array.name == "lse_parts":
            values = np.where(generator.random(array.shape) < 0.2, np.float32(-np.inf), 4 * values)
        return values

    def reference(self, problem: CombineProblem, arrays: Mapping[str, Array]) -> dict[str, Array]:
        """O and LSE in float64; zeros in rows of no sequence."""
        arrays = self._counted(problem, arrays)
        weights, total = _weights(arrays)
        with np.errstate(invalid="ignore"):
            o = (weights[..., None] * self._o_parts(problem, arrays)).sum(0)
        exists = self._rows(problem, arrays)
        o = np.where(exists[..., None], o, 0.0).reshape(problem.o_parts_shape[1:])
        found = {"o": np.ascontiguousarray(by_head(problem.layout, o)), "lse": np.where(exists, total, 0.0)}
        return found if problem.lse else {"o": found["o"]}

    def expected(self, problem: CombineProblem, arrays: Mapping[str, Array], target: Target) -> dict[str, Array]:
        """The same with O as 8-bit floats of the chip hold it."""
        found = self.reference(problem, arrays)
        return {**found, "o": held(found["o"], problem.out, target)}

    def tolerances(
        self, problem: CombineProblem, arrays: Mapping[str, Array], reference: Mapping[str, Array], target: Target
    ) -> dict[str, Tolerance]:
        """With u f32's unit roundoff and n parts: the difference of a part's LSE and the largest so far is rounded, and
        so is its product with log2(e); the exponential and the rescaling by each larger LSE that comes behind add two
        roundings each, the sums n: a weight w has the relative error e = (3 |LSE - largest| + 4 n + 4) u, where it is
        no denormal number. The sum of weights is at least 1.

            O    sum of w (e + mean of e) |o| + n LEAST_EXPONENTIAL max|o| + u_out |o|
            LSE  mean of e + 32 u + 4 u |LSE|
        """
        arrays = self._counted(problem, arrays)
        lse, parts = arrays["lse_parts"].astype(np.float64), self._o_parts(problem, arrays)
        weights, _ = _weights(arrays)
        with np.errstate(invalid="ignore"):
            below = np.nan_to_num(np.fmax.reduce(lse, axis=0) - lse, posinf=0.0)
            error = np.nan_to_num(weights) * (3 * below + 4 * problem.splits + 4) * UNIT
            mean = error.sum(0)
            sizes = np.where(np.isfinite(parts), np.abs(parts), 0.0)
            far = (error + np.nan_to_num(weights) * mean)[..., None] * sizes
        smallest = find_dtype(problem.out).underflow if find_dtype(problem.out).bytes > 1 else 0.0
        o = far.sum(0) + problem.splits * LEAST_EXPONENTIAL * sizes.max(0) + smallest
        unread = ~self._rows(problem, arrays)
        free = ~np.isfinite(parts).all(0) | (sizes.sum(0) >= OVERFLOW / 2) | unread[..., None]

        def as_o(values: Array) -> Array:
            return by_head(problem.layout, np.broadcast_to(values, problem.o_parts_shape[1:]))

        what = f"an f32 mean of {problem.splits} parts"
        rounding = find_dtype(problem.out).unit_roundoff
        found = {
            "o": Tolerance(rounding, as_o(o.reshape(problem.o_parts_shape[1:])), what, as_o(
                free.reshape(problem.o_parts_shape[1:]))),
            "lse": Tolerance(4 * UNIT, mean + 32 * UNIT, f"an f32 sum of {problem.splits} exponentials", unread),
        }  # fmt: skip
        found["o"] = stored(found["o"], problem.out, self.reference(problem, arrays)["o"], target)
        return {name: found[name] for name in reference}

    def _o_parts(self, problem: CombineProblem, arrays: Mapping[str, Array]) -> Array:
        """Parts of O in LSE's layout, with channels behind."""
        shape = (problem.splits, *problem.lse_shape, problem.dv)
        found: Array = arrays["o_parts"].astype(np.float64).reshape(shape)
        return found

    def _counted(self, problem: CombineProblem, arrays: Mapping[str, Array]) -> Mapping[str, Array]:
        """The arrays where parts that a sequence does not have are without keys."""
        if not problem.counted:
            return arrays
        lse, o = arrays["lse_parts"].copy(), self._o_parts(problem, arrays)
        for number in range(problem.b if problem.queries.total else 0):
            start, length = problem.queries.of(arrays, number)
            behind = slice(int(arrays["counts"][number]), None)
            rows = slice(start, start + length)
            (lse[behind, number] if problem.batches else lse[behind])[..., rows] = -np.inf
            (o[behind, number] if problem.batches else o[behind])[..., rows, :] = 0.0
        return {**arrays, "lse_parts": lse, "o_parts": o}

    def _rows(self, problem: CombineProblem, arrays: Mapping[str, Array]) -> Array:
        """Whether each row of LSE is a query's."""
        exists = np.zeros(problem.lse_shape, np.bool_)
        for number in range(problem.b if problem.queries.total else 0):
            start, length = problem.queries.of(arrays, number)
            (exists[number] if problem.batches else exists)[:, start : start + length] = True
        return exists

    def launch(self, problem: CombineProblem, spec: CombineSpec, target: Target) -> Launch:
        if self.writes_nothing(problem):
            return NOTHING
        lists = [*(one.name for one in problem.queries.arrays()), *["counts"] * problem.counted]
        arguments: list[Argument] = ["o_parts", "lse_parts", "o", *["lse"] * problem.lse, *lists]
        arguments += map(i32, (problem.splits, problem.queries.longest, problem.h, problem.queries.total))
        arguments.append(i64(math.prod(problem.lse_shape)))
        batch, head, row = problem.o_strides
        arguments += (i32(row), i64(head), i64(batch))
        grid = (ceil_div(problem.queries.longest, spec.tile[0]), problem.h, problem.b)
        return Launch(grid, (WAVES * WAVE_SIZE, 1, 1), tuple(arguments))


def _weights(arrays: Mapping[str, Array]) -> tuple[Array, Array]:
    """The share of each part in every row, and LSE."""
    lse = arrays["lse_parts"].astype(np.float64)
    with np.errstate(invalid="ignore", divide="ignore"):
        largest = np.fmax.reduce(lse, axis=0)  # as the kernel: a number beats NaN
        shift = np.where(largest > -np.inf, largest, 0.0)
        weights = np.exp(lse - shift)
        total = weights.sum(0)
        return weights / np.where(total == 0, 1.0, total), shift + np.log(total)


OPERATOR = Combine()
