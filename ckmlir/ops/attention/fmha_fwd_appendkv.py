"""fmha_fwd_appendkv: new keys and values are written behind those of a cache, keys and queries rotated (RoPE).

New row j of a sequence with L cached keys becomes row L + j of its cache: of a batch, of a slot that cache_batch_idx
names (cache_batches), or of the pages that block_table gives it (page_size, see `fmha_fwd_pagedkv`). Nothing else of
the cache is written; what lies behind the cache's end, or in a page or slot that does not exist, is dropped.

The first `rotary` channels of keys and queries are rotated in pairs (l, r) by an angle of each pair and position:

    l' = l cos - r sin,    r' = r cos + l sin

Pairs are channels 2i and 2i + 1, or with rotary_half i and i + rotary / 2. New key j is at position L + j, and so is
query j where positions=each, as masks need it; else all are at L. rotary_cos and rotary_sin (positions, rotary / 2)
have the type of the keys.

Arrays: q (b, h, sq, d), knew (b, hk, snew, d), vnew (b, hk, snew, dv), with layout bshd rows before heads; q_rotated as
q, which may be q itself; k and v, the cache, as `fmha_fwd` has them; cached (b), L of each sequence, i32; the tables.
Without queries or without rotary there is no q.

Kernel arguments: the arrays; sq, snew, rows of the cache, positions, positions from one query to the next, heads of Q
and of K and V (i32); for q, knew, vnew, q_rotated, k, v strides of the sequence (i32), the head and the batch (i64);
those of where the cache lies. Grid: (blocks of rows, heads, sequences).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from ckmlir.ops.arrays import ArraySpec, array_spec
from ckmlir.ops.attention.fmha_fwd_spec import HEAD_TILES, channel_multiple
from ckmlir.ops.attention.fmha_fwd_splitkv import OPERATOR as ATTENTION
from ckmlir.ops.attention.head_strides import HeadStrides, checked_head_strides
from ckmlir.ops.attention.orders import MOST_FURTHER
from ckmlir.ops.attention.paged import Paged, page_counts
from ckmlir.ops.attention.paged_spec import unknown_sources
from ckmlir.ops.attention.problem import Problem
from ckmlir.ops.comparison import Array, Tolerance
from ckmlir.ops.dtypes import find_dtype
from ckmlir.ops.list_keys import Series
from ckmlir.ops.operator import NOTHING, Argument, Launch, Operator
from ckmlir.ops.precision import DENORMAL, OVERFLOW, UNIT, in_f32
from ckmlir.ops.request import Choice, Flag, Integer, Key, RequestError
from ckmlir.ops.scalars import ceil_div, i32, i64
from ckmlir.ops.spec import Reason, Spec, not_a_choice
from ckmlir.targets import Target
from ckmlir.targets.cdna import WAVE_SIZE

if TYPE_CHECKING:
    from random import Random

DTYPES = ("f16", "bf16", "f32")
CACHE_KEYS = ("page_size", "pages", "cache_batches", "layout", "k_strides", "v_strides")
"""Keys that are those of attention."""
ROTARY_MULTIPLE = 16
ROWS, WAVES = 32, 4
"""Rows and waves of a workgroup."""
MOST = HEAD_TILES[-1]
STRIDED = ("q", "knew", "vnew", "q_rotated", "k", "v")


class CachedLengths(Series, frozen=True):
    """Keys that each sequence has in the cache."""

    def sample(self, random: Random, request: Mapping[str, object]) -> object:
        """As many as there are sequences, short ones."""
        count = request["b"] if request["b"] in (1, 2, 3) else 1
        return tuple(random.choice((0, 1, 63, random.randint(0, 200))) for _ in range(count))


class AppendProblem(Struct, frozen=True):
    """What is appended to a cache.

    Attributes:
        attention: over the cache as it is afterwards; its queries' count is 0 where none is rotated.
        snew: new keys of every sequence.
        cached: keys that each has before.
        positions: of the tables.
        half: pairs are half of the rotated channels apart. each: every query has a position of its own.
        strides: of knew, vnew and q_rotated: elements from one batch, one head and one row to the next.
    """

    attention: Problem
    snew: int
    cached: tuple[int, ...]
    rotary: int
    positions: int
    half: bool
    each: bool
    strides: tuple[tuple[int, int, int], ...]

    @property
    def has_queries(self) -> bool:
        """Whether there are any to be rotated."""
        return bool(self.rotary and self.attention.sq)

    def strides_of(self, name: str) -> tuple[int, int, int]:
        """Of an array along batches, heads and rows."""
        own = ("knew", "vnew", "q_rotated")
        return self.strides[own.index(name)] if name in own else self.attention.strides(name)

    def array(self, name: str) -> ArraySpec:
        """An array of rows in memory."""
        like = self.attention.array("q" if name.startswith("q") else name[0])
        whole = self.attention
        heads, rows = (whole.h, whole.sq) if name.startswith("q") else (whole.hk, self.snew)
        batch, head, row = self.strides_of(name)
        middle = ((heads, head), (rows, row)) if whole.layout == "bhsd" else ((rows, row), (heads, head))
        shape = (whole.b, middle[0][0], middle[1][0], like.shape[-1])
        role = "out" if name == "q_rotated" else "in"
        return ArraySpec(name, shape, whole.dtype, role, (batch, middle[0][1], middle[1][1], 1))


class AppendSpec(Spec):
    """What the kernel's code depends on.

    Attributes:
        rotary: channels that are rotated; half: pairs are half of them apart.
        queries: there are some.
        source: word of where the cache lies.
    """

    dtype: str
    d: int
    dv: int
    rotary: int
    half: bool
    queries: bool
    source: str = ""

    @property
    def name(self) -> str:
        parts = ["fmha_fwd_appendkv", self.dtype, f"d{self.d}x{self.dv}", f"rotary{self.rotary}"]
        parts += ["half"] * self.half + ["q"] * self.queries + [self.source] * bool(self.source)
        return "_".join(parts)

    @property
    def multiple(self) -> int:
        """Elements of which distances in arrays are multiples."""
        return channel_multiple(self.dtype)


class AppendKV(Operator[AppendProblem, AppendSpec]):
    """The operator `fmha_fwd_appendkv`, which the module's docstring describes."""

    name = "fmha_fwd_appendkv"
    spec_type = AppendSpec
    keys: tuple[Key, ...] = (
        Integer("b", 1, "sequences", maximum=MOST_FURTHER),
        Integer("h", 2, "heads of Q", minimum=1),
        Integer("hk", None, "heads of K and V; divides h, by default h", minimum=1),
        Integer("sq", 1, "queries of each sequence; 0: none are rotated"),
        Integer("snew", 1, "new keys of each sequence"),
        Integer("sk", None, "rows of the cache for each sequence; by default as many as are needed"),
        CachedLengths("cached", None, "keys of each sequence in the cache; by default 100"),
        Integer("d", 128, "channels of Q and K: a multiple of 8 (f32: 4) up to 256", minimum=1, multiple=8),
        Integer("dv", None, "channels of V, as d, which is the default", minimum=1, multiple=8),
        Choice("dtype", "f16", "of all arrays", DTYPES),
        Integer("rotary", 0, "channels that are rotated, a multiple of 16 up to d", multiple=16),
        Flag("rotary_half", False, "pairs are channels i and i + rotary / 2, not neighbours"),
        Choice("positions", "each", "of queries: one for each, or all at the first new key's", ("each", "first")),
        Integer("most_positions", None, "of the tables; by default as many as are needed"),
        *(key for key in ATTENTION.keys if key.name in CACHE_KEYS),
        *(
            HeadStrides(f"{name}_strides", None, f"elements from one batch, head and row of {name} to the next", 3,
                        array=like)
            for name, like in (("q", "q"), ("q_rotated", "q"))
        ),
    )  # fmt: skip

    def _problem(self, values: Mapping[str, Any]) -> AppendProblem:
        b, snew, cached = values["b"], values["snew"], values["cached"]
        cached = (100,) * b if cached is None else cached
        if len(cached) != b:
            raise RequestError(f"cached={','.join(map(str, cached))}: {len(cached)} numbers for {b} sequences")
        needed = max(cached, default=0) + snew
        rows = needed if values["sk"] is None else values["sk"]
        if needed > rows:
            raise RequestError(f"sk={rows}: a sequence has {needed} keys afterwards; expected at least that")
        others = {key.name: key.default for key in ATTENTION.keys}
        given = {key: values[key] for key in values if key in others}
        lengths = {"sk": rows, "seqlens_k": tuple(one + snew for one in cached) if b else None}
        whole = ATTENTION._problem({**others, **given, **lengths, "splits": 1})
        rotary = values["rotary"]
        if rotary % ROTARY_MULTIPLE or rotary > whole.d:
            right = f"expected a multiple of {ROTARY_MULTIPLE} from 0 to d={whole.d}"
            raise RequestError(f"rotary={rotary}: {right}")
        each = values["positions"] == "each"
        last = max(cached, default=0) + max(snew, (whole.sq if each else 1) if whole.sq else 0)
        positions = last if values["most_positions"] is None else values["most_positions"]
        if rotary and positions < last:
            raise RequestError(f"most_positions={positions}: position {last - 1} is needed; expected at least {last}")
        sizes = {"knew": (whole.hk, snew, whole.d), "vnew": (whole.hk, snew, whole.dv),
                 "q_rotated": (whole.h, whole.sq, whole.d)}  # fmt: skip
        strides = tuple(
            checked_head_strides(name, whole.layout, b, size, whole.dtype, values.get(f"{name}_strides"))
            for name, size in sizes.items()
        )
        problem = AppendProblem(whole, snew, cached, rotary, positions, values["rotary_half"], each, strides)
        _check_room(problem)
        self.arrays(problem)  # refuses what is too large
        return problem

    def _distinct(self, problem: AppendProblem, lists: Mapping[str, Array]) -> None:
        """Raise RequestError where a row would be written twice."""
        whole, codes = problem.attention, []
        for number, length in enumerate(problem.cached):
            batches, rows = whole.source.places(whole, number, lists, range(length, length + problem.snew))
            codes.append(batches.astype(np.int64) * whole.source.extent(whole)[1] + rows)
        together = np.concatenate(codes) if codes else np.zeros(0, np.int64)
        if len(np.unique(together)) < len(together):
            raise RequestError("arrays: two new keys would have the same row; expected rows of their own")

    def _lengths(self, problem: AppendProblem) -> dict[str, Array]:
        """The lengths afterwards, as the sources read them."""
        return problem.attention.keys.values()

    def spec(self, problem: AppendProblem, target: Target) -> AppendSpec:
        whole = problem.attention
        half = problem.half and problem.rotary > 0
        return AppendSpec(
            whole.dtype, whole.d, whole.dv, problem.rotary, half, problem.has_queries, whole.source.word
        )  # fmt: skip

    def validate(self, spec: AppendSpec, target: Target) -> list[Reason]:
        reasons = list(not_a_choice(spec, dtype=DTYPES))
        reasons += unknown_sources(spec.source, [one.name for one in ATTENTION.sources])
        if spec.rotary % ROTARY_MULTIPLE or not 0 <= spec.rotary <= spec.d:
            right = f"expected a multiple of {ROTARY_MULTIPLE} up to {spec.d}"
            reasons.append(Reason("rotary", spec.rotary, "channels are rotated in whole vectors", right))
        for field, channels in (("d", spec.d), ("dv", spec.dv)):
            if not reasons and (channels % spec.multiple or not 1 <= channels <= MOST):
                right = f"expected a multiple of {spec.multiple} up to {MOST}"
                reasons.append(Reason(field, channels, "no tile holds so many channels in whole vectors", right))
        return reasons

    def kernels(self, target: Target) -> list[AppendSpec]:
        requests: list[dict[str, Any]] = [
            {"d": d, "rotary": rotary, "rotary_half": half, "page_size": size}
            for d in (64, 128)
            for rotary in (0, 32, d)
            for half in (False, True)
            for size in (None, 16, 128)
        ]
        requests += [{"dtype": dtype, "rotary": 128} for dtype in ("bf16", "f32")]
        return list(dict.fromkeys(self.spec(self.problem(**one), target) for one in requests))

    def arrays(self, problem: AppendProblem) -> tuple[ArraySpec, ...]:
        whole, found = problem.attention, [problem.array("knew"), problem.array("vnew")]
        if problem.has_queries:
            found += [problem.array("q"), problem.array("q_rotated")]
        if problem.rotary:
            shape = (problem.positions, problem.rotary // 2)
            found += [array_spec(f"rotary_{name}", shape, whole.dtype, "in") for name in ("cos", "sin")]
        found += [replace(whole.source.array(whole, name), role="out") for name in "kv"]
        found.append(array_spec("cached", (whole.b,), "i32", "in"))
        return (*found, *whole.source.arrays(whole))

    def _together(self, problem: AppendProblem, generator: np.random.Generator) -> Mapping[str, Array]:
        whole = problem.attention
        return {"cached": np.array(problem.cached), **whole.source.together(whole, generator)}

    def check_inputs(self, problem: AppendProblem, arrays: Mapping[str, Array]) -> None:
        for number, length in enumerate(arrays["cached"]):
            if not 0 <= length <= max(problem.cached):
                what = f"sequence {number} has {length} keys"
                raise RequestError(f"array cached: {what}; expected 0 to {max(problem.cached)}, as the request has it")
        lists = {name: arrays[name] for name in arrays if name not in ("cached", "q", "knew", "vnew")}
        problem.attention.source.check(problem.attention, {**self._lengths(problem), **lists})
        cached = tuple(int(one) for one in arrays["cached"])
        self._distinct(replace(problem, cached=cached), lists)

    def _values(self, problem: AppendProblem, array: ArraySpec, generator: np.random.Generator) -> Array:
        if array.name.startswith("rotary"):
            angles = 6.3 * np.random.default_rng(5).random(array.shape)  # the same for both
            return np.cos(angles) if array.name.endswith("cos") else np.sin(angles)
        return generator.standard_normal(array.shape, dtype=np.float32)

    def reference(self, problem: AppendProblem, arrays: Mapping[str, Array]) -> dict[str, Array]:
        """What is written, in float64; zeros elsewhere."""
        found = self._written(problem, arrays, lambda left, right: (left, right))
        return {name: in_f32(values) for name, values in found.items()}

    def _written(self, problem: AppendProblem, arrays: Mapping[str, Array], of: Any) -> dict[str, Array]:
        """Arrays with every new row, rotated; `of` is taken of the two numbers that an element is the difference of."""
        whole = problem.attention
        found = {array.name: np.zeros(array.shape) for array in self.arrays(problem) if array.role == "out"}
        by_head = whole.by_head
        for number, start in enumerate(arrays["cached"].astype(np.int64)):
            batches, rows = whole.source.places(whole, number, arrays, range(start, start + problem.snew))
            for name in "kv":
                new = by_head(arrays[f"{name}new"])[number].astype(np.float64)
                if name == "k":
                    new = _rotated(problem, new, arrays, start + np.arange(problem.snew), of)
                else:
                    new = of(new, 0)[0]
                by_head(found[name])[batches[None], np.arange(whole.hk)[:, None], rows[None]] = new
            if problem.has_queries:
                q = by_head(arrays["q"])[number].astype(np.float64)
                at = start + np.arange(whole.sq) * problem.each
                by_head(found["q_rotated"])[number] = _rotated(problem, q, arrays, at, of)
        return found

    def tolerances(
        self, problem: AppendProblem, arrays: Mapping[str, Array], reference: Mapping[str, Array], target: Target
    ) -> dict[str, Tolerance]:
        """Of what is rotated: two products and their sum in f32, 2 u (|l cos| + |r sin|), half the smallest number for
        each product, and one rounding. The rest is copied. Nothing is promised of rows that are not new, which are not
        written, nor where f32 may not hold it.
        """
        sizes = self._written(problem, arrays, lambda left, right: (np.abs(left), -np.abs(right)))
        turned = self._written(problem, arrays, lambda left, right: (np.zeros_like(left), -np.ones_like(right)))
        ones = {name: np.ones_like(one) for name, one in arrays.items()}
        lists = {name: arrays[name] for name in arrays if name not in ("q", "knew", "vnew", "rotary_cos", "rotary_sin")}
        rows = self._written(problem, {**ones, **lists}, lambda left, right: (np.ones_like(left), 0))
        dtype = find_dtype(problem.attention.dtype)
        found = {}
        for name, expected in reference.items():
            with np.errstate(invalid="ignore"):
                rounded = dtype.unit_roundoff * np.abs(expected) + 2 * UNIT * sizes[name]
                free = (rows[name] == 0) | (sizes[name] * turned[name] >= OVERFLOW / 2)
            error = np.where(turned[name] != 0, np.nan_to_num(rounded) + DENORMAL + dtype.underflow, 0.0)
            found[name] = Tolerance(0.0, error, "a sum of two f32 products, or a copy", free)
        return found

    def launch(self, problem: AppendProblem, spec: AppendSpec, target: Target) -> Launch:
        whole = problem.attention
        rows = max(problem.snew, whole.sq if problem.has_queries else 0)
        if not rows * whole.b:
            return NOTHING
        source = whole.source.arrays(whole)
        arguments: list[Argument] = [array.name for array in self.arrays(problem) if array not in source]
        each = problem.each * problem.rotary // 2
        arguments += map(i32, (whole.sq, problem.snew, whole.sk, problem.positions, each, whole.h, whole.hk))
        for name in STRIDED:
            if name.startswith("q") and not problem.has_queries:
                continue
            batch, head, row = problem.strides_of(name)
            arguments += (i32(row), i64(head), i64(batch))
        arguments += (*(array.name for array in source), *whole.source.numbers(whole))
        heads = max(whole.h, whole.hk) if problem.has_queries else whole.hk
        return Launch((ceil_div(rows, ROWS), heads, whole.b), (WAVES * WAVE_SIZE, 1, 1), tuple(arguments))


def _check_room(problem: AppendProblem) -> None:
    """Raise RequestError where sequences would have to share pages or slots."""
    whole = problem.attention
    if isinstance(whole.source, Paged):
        key, found, needed = "pages", whole.source.pool, sum(page_counts(whole, whole.source.size))
    else:
        key, found, needed = "cache_batches", whole.source.extent(whole)[0], whole.b
    if found < needed:
        raise RequestError(f"{key}={found}: the sequences need {needed} of their own; expected at least that")


def _rotated(problem: AppendProblem, rows: Array, arrays: Mapping[str, Array], at: Array, of: Any) -> Array:
    """Rows (heads, rows, channels) at these positions, rotated."""
    count = problem.rotary
    if not count:
        found: Array = of(rows, 0)[0]
        return found
    cos, sin = (arrays[f"rotary_{name}"].astype(np.float64)[at] for name in ("cos", "sin"))
    first, second = slice(0, count, 2), slice(1, count, 2)
    if problem.half:
        first, second = slice(0, count // 2), slice(count // 2, count)
    found = np.array(of(rows, 0)[0])
    left, right = rows[..., first], rows[..., second]
    for where, (plus, minus) in ((first, (left * cos, right * sin)), (second, (right * cos, -left * sin))):
        plus, minus = of(plus, minus)
        found[..., where] = plus - minus
    return found


OPERATOR = AppendKV()
