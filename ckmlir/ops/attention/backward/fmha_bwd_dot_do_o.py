"""fmha_bwd_dot_do_o: what gradients of attention need of each query, the first step of `fmha_bwd`.

    delta    = -factor · rowsum(dO · O)    what the product dO·Vᵀ begins with
    exponent = log2(e) · LSE               what scores to the base 2 are reduced by

With sink=1 also, for each block of 64 queries of a sequence and each head, the sum of min(exp(sink - LSE), 1) · delta:
the sum over blocks is factor times the gradient of the head's sink logit. Where the sink is minus infinity it is 0.

Arrays: o and do, (b, h, sq, dv) with layout bhsd or (b, sq, h, dv) with bshd, lse (b, h, sq) in f32; delta and exponent
as lse. With sink=1 sink (h) and sink_parts (b · blocks, h), f32, and sequences of different lengths as `sequences.py`
has them, of whose rows alone something is promised.

Kernel arguments: o, do, lse, delta, exponent, and sink, sink_parts and the sequences' arrays where the specification
has them; the most queries of a sequence, rows of a batch, h (i32); factor (f32); for o and do the strides of the
sequence (i32), the head and the batch (i64). Grid: (blocks of queries, heads, sequences).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from ckmlir.ops.arrays import ArraySpec, array_spec
from ckmlir.ops.attention.backward.sink_gradient import sink_errors, sink_weights
from ckmlir.ops.attention.fmha_fwd_spec import LISTS, UNPAGED, WHOLE_TILES, row_multiple
from ckmlir.ops.attention.head_strides import HeadStrides, by_head, checked_head_strides
from ckmlir.ops.attention.sequences import KEYS as SEQUENCE_KEYS
from ckmlir.ops.attention.sequences import Rows, read_sequences
from ckmlir.ops.comparison import Array, Tolerance
from ckmlir.ops.operator import NOTHING, Argument, Launch, Operator
from ckmlir.ops.precision import DENORMAL, LOG2_E, OVERFLOW, UNIT, in_f32, order_decides
from ckmlir.ops.request import Choice, Flag, Integer, Real, RequestError
from ckmlir.ops.scalars import ceil_div, f32, i32, i64
from ckmlir.ops.spec import Reason, Spec, not_a_choice
from ckmlir.targets import Target
from ckmlir.targets.cdna import WAVE_SIZE

DTYPES = ("f16", "bf16", "f32")
"""Channels that a tile may have: lanes side by side hold a row."""
ROWS, WAVES = 64, 4
"""Queries and waves of a workgroup."""
STEPS = 16
"""Additions one after another, at most: 8 of a lane's vector, 5 of lanes; of f32 4 and 6, and the product."""
ROW_STEPS = 16
"""The same for a block's sum over queries: a lane's, six of lanes, two of waves, and the product."""
QUERY_KEYS = ("mode", "seqlens_q", "slots_q")
"""Of the keys that say how long sequences are."""
"""What memory may hold of queries."""


class Problem(Struct, frozen=True):
    """Rows of dO and O to multiply; strides along batches, heads and rows."""

    b: int
    """Sequences; in group mode the arrays have one batch."""
    h: int
    queries: Rows
    dv: int
    dtype: str
    layout: str
    o_strides: tuple[int, int, int]
    do_strides: tuple[int, int, int]
    factor: float = 1.0
    sink: bool = False

    @property
    def batches(self) -> int:
        """Of the arrays."""
        return 1 if self.queries.slots else self.b

    @property
    def blocks(self) -> int:
        """Of the longest sequence."""
        return ceil_div(self.queries.longest, ROWS)


class DotDoOSpec(Spec):
    """What the kernel's code depends on."""

    dtype: str
    dv: int
    sink: bool
    sequences: str

    @property
    def name(self) -> str:
        more = ["sink"] * self.sink + [f"q_{self.sequences}"] * bool(self.sequences)
        return "_".join([f"fmha_bwd_dot_do_o_{self.dtype}_d{self.dv}", *more])

    @property
    def lists(self) -> tuple[str, ...]:
        """The arrays that say where sequences begin and how long they are."""
        return tuple(name.format("q") for name, short in LISTS if short in self.sequences)

    @property
    def dv_tile(self) -> int:
        """Channels of a tile."""
        return min(tile for tile in WHOLE_TILES if tile >= self.dv)


class DotDoO(Operator[Problem, DotDoOSpec]):
    """The operator `fmha_bwd_dot_do_o`, which the module's docstring describes."""

    name = "fmha_bwd_dot_do_o"
    spec_type = DotDoOSpec
    keys = (
        Integer("b", None, "batches, or sequences in group mode; by default 1, or as many as there are lengths"),
        Integer("h", 2, "heads", minimum=1),
        Integer("sq", None, "queries, or the most of a sequence; by default 256, or the longest"),
        Integer("dv", 128, "channels: a multiple of 8 (f32: 4) up to 256", minimum=1, multiple=8),
        Choice("dtype", "f16", "of O and dO", DTYPES),
        Choice("layout", "bhsd", "order of the dimensions in memory", ("bhsd", "bshd")),
        Real("factor", 1.0, "of delta, at most 1: with dropout the probability that a weight is kept", 0),
        Flag("sink", False, "also parts of the gradient of each head's sink logit"),
        *(key for key in SEQUENCE_KEYS if key.name in QUERY_KEYS),
        *(
            HeadStrides(
                f"{name}_strides", None, f"elements from one batch, head and row of {name} to the next", 3, array=name
            )
            for name in ("o", "do")
        ),
    )

    def _problem(self, values: Mapping[str, Any]) -> Problem:
        dv, multiple = values["dv"], row_multiple(values["dtype"])
        if dv % multiple or dv > WHOLE_TILES[-1]:
            raise RequestError(f"dv={dv}: expected a multiple of {multiple} from {multiple} to {WHOLE_TILES[-1]}")
        if not 0 < values["factor"] <= 1:
            raise RequestError(f"factor={values['factor']}: expected a number above 0 and at most 1")
        lengths = {f"{name[:-1]}k": values[name] for name in ("sq", "seqlens_q", "slots_q")}
        try:
            b, queries, _ = read_sequences({**values, **lengths})
        except RequestError as error:
            raise RequestError(str(error).replace("seqlens_q and seqlens_k", "seqlens_q")) from None
        if queries.word and not values["sink"]:
            given = ",".join(map(str, values["seqlens_q"]))
            raise RequestError(f"seqlens_q={given}: it matters to the parts of sink=1 alone; leave it out")
        fields = {name: values[name] for name in ("h", "dv", "dtype", "layout", "factor", "sink")}
        batches = 1 if queries.slots else b
        sizes = (values["h"], queries.total, dv)
        strides: dict[str, Any] = {
            f"{name}_strides": checked_head_strides(
                name, values["layout"], batches, sizes, values["dtype"], values[f"{name}_strides"]
            )
            for name in ("o", "do")
        }
        problem = Problem(b=b, queries=queries, **fields, **strides)
        self.arrays(problem)  # refuses what is too large
        return problem

    def spec(self, problem: Problem, target: Target) -> DotDoOSpec:
        return DotDoOSpec(problem.dtype, problem.dv, problem.sink, problem.queries.word)

    def validate(self, spec: DotDoOSpec, target: Target) -> list[Reason]:
        reasons = list(not_a_choice(spec, dtype=DTYPES, sequences=UNPAGED))
        multiple = row_multiple(spec.dtype) if spec.dtype in DTYPES else 1
        if spec.dv % multiple or not multiple <= spec.dv <= WHOLE_TILES[-1]:
            right = f"expected a multiple of {multiple} from {multiple} to {WHOLE_TILES[-1]}"
            reasons.append(Reason("dv", spec.dv, "no tile holds so many channels in whole vectors", right))
        return reasons

    def kernels(self, target: Target) -> list[DotDoOSpec]:
        plain = [DotDoOSpec(dtype, dv, False, "") for dtype in DTYPES for dv in (32, 64, 96, 128, 256)]
        return [*plain, *(DotDoOSpec("f16", 128, True, word) for word in UNPAGED)]

    def arrays(self, problem: Problem) -> tuple[ArraySpec, ...]:
        found = []
        for name, (batch, head, row) in (("o", problem.o_strides), ("do", problem.do_strides)):
            heads = ((problem.h, head), (problem.queries.total, row))
            (first, far), (second, near) = heads if problem.layout == "bhsd" else heads[::-1]
            shape = (problem.batches, first, second, problem.dv)
            found.append(ArraySpec(name, shape, problem.dtype, "in", (batch, far, near, 1)))
        by_query = (problem.batches, problem.h, problem.queries.total)
        found += [array_spec("lse", by_query, "f32", "in"), *problem.queries.arrays()]
        written = [array_spec(name, by_query, "f32", "out") for name in ("delta", "exponent")]
        if problem.sink:
            found.append(array_spec("sink", (problem.h,), "f32", "in"))
            written.append(array_spec("sink_parts", (problem.b * problem.blocks, problem.h), "f32", "out"))
        return (*found, *written)

    def _together(self, problem: Problem, generator: np.random.Generator) -> Mapping[str, Array]:
        """Where sequences begin and how long they are, as the request has it."""
        return problem.queries.values()

    def check_inputs(self, problem: Problem, arrays: Mapping[str, Array]) -> None:
        problem.queries.check(arrays)

    def _values(self, problem: Problem, array: ArraySpec, generator: np.random.Generator) -> Array:
        return generator.standard_normal(array.shape, dtype=np.float32)

    def reference(self, problem: Problem, arrays: Mapping[str, Array]) -> dict[str, Array]:
        with np.errstate(invalid="ignore", over="ignore"):
            delta = -problem.factor * in_f32(self._products(problem, arrays).sum(-1))
            found = {"delta": delta, "exponent": in_f32(arrays["lse"].astype(np.float64) * LOG2_E)}
        if problem.sink:
            weights = sink_weights(arrays["sink"][:, None], arrays["lse"])
            found["sink_parts"] = self._by_block(problem, arrays, np.where(weights == 0, 0.0, weights * delta))
        return found

    def _by_block(self, problem: Problem, arrays: Mapping[str, Array], values: Array) -> Array:
        """The sums over blocks of values that lie as lse."""
        parts = np.zeros((problem.b, problem.blocks, problem.h))
        for number, block in np.ndindex(parts.shape[:2]):
            start, length = problem.queries.of(arrays, number)
            rows = slice(start + block * ROWS, start + min((block + 1) * ROWS, length))
            parts[number, block] = values[0 if problem.queries.slots else number, :, rows].sum(-1)
        return parts.reshape(-1, problem.h)

    def _products(self, problem: Problem, arrays: Mapping[str, Array]) -> Array:
        o, do = (by_head(problem.layout, arrays[name]).astype(np.float64) for name in ("o", "do"))
        with np.errstate(invalid="ignore"):
            found: Array = o * do
        return found

    def tolerances(
        self, problem: Problem, arrays: Mapping[str, Array], reference: Mapping[str, Array], target: Target
    ) -> dict[str, Tolerance]:
        """With u f32's unit roundoff: products of 16-bit numbers are exact in f32 (of bf16 down to its range), those of
        f32 are rounded once. A lane adds a vector of them, then lanes are added in pairs, so that a sum has an error of
        at most `STEPS` u sum|x|;
        the factor and the product with it add one each. The exponent is rounded twice, with its constant.
        """
        products = self._products(problem, arrays)
        sizes = problem.factor * np.where(np.isfinite(products), np.abs(products), 0.0).sum(-1)
        steps = STEPS + 2 * (problem.factor != 1)
        free = order_decides(products, -1)
        what = f"an f32 sum of {problem.dv} products"
        found = {
            "delta": Tolerance(0.0, steps * UNIT * sizes + (problem.dv + 1) * DENORMAL, what, free),
            "exponent": Tolerance(2 * UNIT, DENORMAL, "one f32 product"),
        }
        if not problem.sink:
            return found
        covered = np.zeros(arrays["lse"].shape, np.bool_)
        for number in range(problem.b):
            start, length = problem.queries.of(arrays, number)
            covered[0 if problem.queries.slots else number, :, start : start + length] = True
        found = {name: replace(one, unspecified=~covered | one.unspecified) for name, one in found.items()}
        logits, lse = arrays["sink"][:, None], arrays["lse"]
        bound = self._by_block(problem, arrays, sink_errors(logits, lse, sizes, steps + ROW_STEPS))
        unknown = free | ~np.isfinite(products).all(-1) | np.isnan(lse) | (sizes >= OVERFLOW / ROWS)
        lost = self._by_block(problem, arrays, unknown.astype(np.float64)) > 0
        found["sink_parts"] = Tolerance(0.0, bound, f"f32 sums of {ROWS} products", lost)
        return found

    def launch(self, problem: Problem, spec: DotDoOSpec, target: Target) -> Launch:
        if self.writes_nothing(problem):
            return NOTHING
        arguments: list[Argument] = ["o", "do", "lse", "delta", "exponent", *["sink", "sink_parts"] * problem.sink]
        arguments += [*spec.lists, *map(i32, (problem.queries.longest, problem.queries.total, problem.h))]
        arguments.append(f32(problem.factor))
        for batch, head, row in (problem.o_strides, problem.do_strides):
            arguments += (i32(row), i64(head), i64(batch))
        grid = (problem.blocks, problem.h, problem.b)
        return Launch(grid, (WAVES * WAVE_SIZE, 1, 1), tuple(arguments))


OPERATOR = DotDoO()
