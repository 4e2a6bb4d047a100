"""fmha_fwd: O = softmax(scale · Q·Kᵀ)·V for every batch and head, with masks, grouped heads, sequences of any lengths.

Arrays have the shape of memory: with layout bhsd, q is (b, h, sq, d), k is (b, hk, sk, d), v is (b, hk, sk, dv) and o
is (b, h, sq, dv); with bshd the sequence stands before the heads. With v_layout=columns channels and keys of v change
places. lse is (b, h, sq) in f32: the natural logarithm of the sum of exponentials. Head i of Q uses head i / (h / hk)
of K and V. In group mode there is one batch whose rows are those of all sequences (`sequences.py`), and lse is (h, sq).

Parts (`parts/`) add a bias, ALiBi, a soft cap, a sink logit or dropout, with keys and arrays of their own.

A query with nothing to attend to, or with scores of minus infinity alone, gives O = 0 and LSE = -inf; one with a score
of NaN or plus infinity among those it attends to gives NaN for both. Nothing is promised of a query with scores that
f32 does not hold, or with rounding errors that exponentials do not, and of O where V has NaN or infinities, but that it
does not reach another head. Rows behind the end of a sequence are not written.

With dtype fp8 the elements of Q, K and V stand for themselves times q_scale, k_scale and v_scale (per tensor, as CK
Tile's), and P is rounded to fp8 after multiplication by a power of two that cancels. `scales` adds scales that memory
holds, for each head of a sequence, for blocks of queries and of keys, for pages (`parts/scales.py`), or, as powers of
two, for every 32 elements (`parts/mx_scales.py`; gfx950). With dtype fp4, which needs the last, two neighbouring
channels share a byte (of V in columns two keys, of which there are an even number then), shapes and strides of q, k and
v count bytes, and elements become fp8, exactly. With out=fp8 O is multiplied by o_scale and rounded to fp8, where what
is too large becomes the largest number.

Kernel arguments: q, k, v, o, and lse where the specification has it; seqstart_q, seqlen_q, seqstart_k, seqlen_k as it
has them; sq, sk, h, h / hk (i32); scale·log2(e) with the scales of Q and K in it (f32); with lse the rows of a head
(i32); with fp8 v_scale (f32); for q, k, v, o the strides of the sequence (i32), the head and the batch (i64); with a
mask its coordinate y, x, with sink tokens their number, and where lengths differ whether its corner is the bottom right
one (i32); then those of the parts. Grid: (blocks of queries, heads, sequences).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from ckmlir.ops.arrays import ArraySpec, array_spec
from ckmlir.ops.attention.fmha_fwd_proposals import axes_of, proposed_specs
from ckmlir.ops.attention.fmha_fwd_spec import (
    DTYPES,
    HEAD_TILES,
    OUTPUTS,
    TAKEN,
    FmhaFwdSpec,
)  # fmt: skip
from ckmlir.ops.attention.fmha_fwd_validity import invalid_fields
from ckmlir.ops.attention.head_strides import HeadStrides, checked_head_strides
from ckmlir.ops.attention.masks import Mask, MaskKey
from ckmlir.ops.attention.orders import BLOCKS_FIRST, FEWER, FORWARD_ORDERS, IN_ONE_ROW, fits
from ckmlir.ops.attention.paged_spec import unknown_sources
from ckmlir.ops.attention.part import KeyPart, Part, find_part, key_parts
from ckmlir.ops.attention.parts import PARTS
from ckmlir.ops.attention.parts.dense import Dense
from ckmlir.ops.attention.parts.scales import offered
from ckmlir.ops.attention.problem import Problem
from ckmlir.ops.attention.reference import attention, lse_shape
from ckmlir.ops.attention.request_checks import check_channels, check_counts, check_packed, check_reach, check_scales
from ckmlir.ops.attention.row_packing import blocks_of_queries, packable
from ckmlir.ops.attention.schedule_choice import RISING, TOGETHER, order
from ckmlir.ops.attention.sequences import KEYS as SEQUENCE_KEYS
from ckmlir.ops.attention.sequences import read_sequences
from ckmlir.ops.attention.source import Source
from ckmlir.ops.attention.tolerance import fmha_tolerances, held, stored
from ckmlir.ops.choice import chosen_keys, first_valid
from ckmlir.ops.comparison import Array, Tolerance
from ckmlir.ops.dtypes import find_dtype
from ckmlir.ops.operator import NOTHING, Argument, Launch, Operator
from ckmlir.ops.packing import pack_values
from ckmlir.ops.precision import LOG2_E
from ckmlir.ops.request import GREATEST_F32, LEAST_NORMAL_F32, Choice, Flag, Integer, Key, Real, RequestError
from ckmlir.ops.scalars import f32, i32, i64
from ckmlir.ops.schedules import ATTENTION as SCHEDULES
from ckmlir.ops.schedules import EDGE as EDGES
from ckmlir.ops.spec import Reason, by, unlike
from ckmlir.records import replace
from ckmlir.targets import Target
from ckmlir.targets.cdna import WAVE_SIZE

if TYPE_CHECKING:
    from ckmlir.lang import Kernel

LAYOUTS = ("bhsd", "bshd")


class FmhaFwd(Operator[Problem, FmhaFwdSpec]):
    """The operator `fmha_fwd`, which the module's docstring describes.

    Attributes:
        parts: kinds of parts that requests may add, in the order in which they change scores.
        sources: of K and V; the first is what a request has that asks for no other.
    """

    name = "fmha_fwd"
    spec_type = FmhaFwdSpec
    problem_type: ClassVar[type[Problem]] = Problem
    plan_fields: ClassVar[Mapping[str, str]] = {"schedule": "schedule", "edge": "edge"}
    own_keys: ClassVar[tuple[Key, ...]] = (
        Integer("b", None, "batches, or sequences in group mode; by default 1, or as many as there are lengths"),
        Integer("h", 2, "heads of Q and O", minimum=1),
        Integer("hk", None, "heads of K and V; divides h, by default h", minimum=1),
        Integer("sq", None, "queries, or the most of a sequence; by default 256, or the longest"),
        Integer("sk", None, "keys, or the most of a sequence; by default sq, or the longest"),
        Integer("d", 128, "channels of Q and K: a multiple of 8 (f32: 4, fp8: 16) up to 256", minimum=1, multiple=8),
        Integer("dv", None, "channels of V and O, as d, which is the default", minimum=1, multiple=8),
        Choice("dtype", "f16", "of Q, K and V; fp4 with scales=mx", (*DTYPES, *TAKEN)),
        Choice("out", None, "of O: that of Q, K and V (default), with fp8 bf16 (default), f16 or f32; or fp8",
               ("f16", "bf16", "f32", "fp8")),
        MaskKey("mask", Mask.parse("none"), "which keys a query attends to"),
        Choice("layout", "bhsd", "order of the dimensions in memory", LAYOUTS),
        Choice("v_layout", "rows", "V has a key's channels, or a channel's keys, side by side", ("rows", "columns")),
        Flag("lse", False, "also write the logarithm of the sum of exponentials"),
        Real("scale", None, "of the scores, by default 1 / sqrt(d)"),
        Real("q_scale", 1.0, "fp8: what the elements of Q are multiplied with"),
        Real("k_scale", 1.0, "fp8: what the elements of K are multiplied with"),
        Real("v_scale", 1.0, "fp8: what the elements of V are multiplied with"),
        *SEQUENCE_KEYS,
        *(
            HeadStrides(
                f"{name}_strides", None, f"elements from one batch, head and row of {name} to the next", 3, array=name
            )
            for name in "qkvo"
        ),
        Choice("schedule", None, "of the loop over keys; by default qr, or one that weaves or takes turns where that "
               "pays", tuple(SCHEDULES)),
        Choice("edge", None, "schedule of a second loop, over the blocks of keys that the mask cuts; none: one loop "
               "takes all", (TOGETHER, *EDGES)),
    )  # fmt: skip

    def __init__(self, parts: Sequence[type[Part]] = PARTS, sources: Sequence[type[Source]] = (Dense,)) -> None:
        self.parts, self.sources = tuple(parts), tuple(sources)
        keys = (*self.own_keys, *(key for part in (*self.sources, *self.parts) for key in part.keys))
        self.keys = tuple(offered(key, self.parts) for key in keys)

    def _with_source(self, problem: Problem, values: Mapping[str, Any]) -> Problem:
        """The problem with the source that the request asks for, by default the first."""
        asked = [source.asked(values, problem) for source in self.sources]
        found = [one for one in asked if isinstance(one, Source)]
        if len(found) > 2:
            first, second = (one.keys[0].name for one in found[1:3])
            raise RequestError(f"{first}={values[first]}: it does not go with {second}={values[second]}")
        return replace(problem, source=found[-1], keys=found[-1].sequences(problem))

    def _problem(self, values: Mapping[str, Any]) -> Problem:
        names = set(self.problem_type.__struct_fields__) & set(values)
        fields = {name: values[name] for name in names if name != "b" and not name.endswith("_strides")}
        b, queries, keys = read_sequences(values)
        for key, other in (("hk", "h"), ("dv", "d")):
            if fields[key] is None:
                fields[key] = fields[other]
        if fields["h"] % fields["hk"]:
            raise RequestError(f"hk={fields['hk']}: h={fields['h']} is not a multiple of it; expected a divisor of h")
        check_counts(b, fields["h"], queries.longest)
        check_channels(fields)
        if find_dtype(fields["dtype"]).packing is not None:
            check_packed(values, keys.longest)
            fields.update(stored=fields["dtype"], dtype=TAKEN[fields["dtype"]])
        fields["out"] = fields["out"] or OUTPUTS[fields["dtype"]][0]
        if fields["out"] not in OUTPUTS[fields["dtype"]]:
            raise RequestError(
                f"out={fields['out']}: with dtype={fields['dtype']} O is {' or '.join(OUTPUTS[fields['dtype']])}"
            )
        check_scales(fields)
        problem = self.problem_type(b=b, queries=queries, keys=keys, source=Dense(), **fields)
        problem = self._with_source(problem, values)
        if problem.grouped and problem.v_layout == "columns":
            raise RequestError("v_layout=columns: in group mode sequences of V begin at any key; expected rows")
        given = {name: values[f"{name}_strides"] for name in "qkvo"}
        strides: dict[str, Any] = {}
        for name in "qkvo":
            strides[f"{name}_strides"] = checked_head_strides(
                name, problem.layout_of(name), problem.batches(name), problem.sizes(name), problem.held_as(name),
                given[name],
                limited=name not in "kv" or problem.source.limited,
            )  # fmt: skip
        problem = replace(problem, **strides)
        problem = replace(problem, source=problem.source.settled(problem))
        if not LEAST_NORMAL_F32 <= problem.score_scale * LOG2_E <= GREATEST_F32:
            product = f"scale times q_scale times k_scale, {problem.score_scale:g}"
            raise RequestError(f"{product}: times log2(e) it is not a number that f32 can hold")
        asked = (part.asked(values, problem) for part in self.parts)
        problem = replace(problem, parts=tuple(part for part in asked if part is not None))
        self.arrays(problem)  # refuses what is too large
        check_reach(queries.longest, keys.longest)
        return problem

    def spec(self, problem: Problem, target: Target) -> FmhaFwdSpec:
        return first_valid(self.proposals(problem, target), lambda one: self.validate(one, target))

    def proposals(self, problem: Problem, target: Target) -> list[FmhaFwdSpec]:
        proposed = proposed_specs(
            heads=problem.b * problem.h, sq=problem.sq, sk=problem.sk, schedule=problem.schedule, edge=problem.edge,
            reach=problem.mask.reach(problem.sq, problem.sk), target=target, v_columns=problem.known_columns,
            sharing=self._sharing(problem), **self.fields(problem),
        )  # fmt: skip
        chosen = bool(key_parts(problem))
        return [self._dealt(problem, replace(one, pad_sk=one.pad_sk or chosen), target) for one in proposed]

    def order(self, problem: Problem, spec: FmhaFwdSpec) -> str:
        """That in which blocks of queries are dealt out, see `orders`."""
        return RISING if spec.split else order(spec.mask)

    def _dealt(self, problem: Problem, spec: FmhaFwdSpec, target: Target) -> FmhaFwdSpec:
        """The kernel with that order, or one in which HIP launches so many blocks."""
        spec = replace(spec, order=self.order(problem, spec))
        few = fits(self.grid(problem, spec, target))
        return spec if few else replace(spec, order=BLOCKS_FIRST.get(spec.order, spec.order))

    def _sharing(self, problem: Problem) -> int:
        """How many heads may be packed in rows."""
        packs = all(find_part(self.parts, part.word).packs for part in problem.parts)
        return problem.h // problem.hk if packs and packable(problem) else 1

    def fields(self, problem: Problem) -> dict[str, Any]:
        """Fields of a specification that follow from the problem alone."""
        return {
            "dtype": problem.dtype, "out": problem.out, "d": problem.d, "dv": problem.dv, "mask": problem.mask.kind,
            "lse": problem.lse, "sequences": (problem.queries.word, problem.keys.word),
            "parts": tuple(part.word for part in problem.parts), "source": problem.source.word,
            "v_dtype": problem.v_dtype, "stored": problem.stored,
        }  # fmt: skip

    def axes(self, spec: FmhaFwdSpec, target: Target) -> Mapping[str, Sequence[object]]:
        return axes_of(spec.dtype, target)

    def chosen(self, problem: Problem, spec: FmhaFwdSpec) -> dict[str, object]:
        return chosen_keys(problem, spec, self.plan_fields)

    def mismatches(self, problem: Problem, spec: FmhaFwdSpec, target: Target) -> list[Reason]:
        reasons = list(unlike(spec, schedule=problem.schedule, edge=problem.edge, **self.fields(problem)))
        if spec.packed and not packable(problem):
            why = "offsets of 32 bits do not reach the heads that share keys"
            reasons.append(Reason("packed", True, why, "expected 0"))
        wanted = problem.known_columns
        if bool(wanted) != bool(spec.v_columns) or (spec.v_columns and problem.column % spec.v_columns):
            reasons.append(Reason("v_columns", spec.v_columns, "the kernel is another one", f"expected {wanted}"))
        for name, length, block in (("sq", problem.sq, spec.block[0]), ("sk", problem.sk, spec.block[1])):
            if length % block and not getattr(spec, f"pad_{name}"):
                why = f"{name}={length} is not a multiple of the block's {block}"
                reasons.append(Reason(f"pad_{name}", False, why, "expected 1"))
        if not reasons and not fits(grid := self.grid(problem, spec, target)):
            why = f"HIP launches no grid of {by(grid)} workgroups"
            reasons.append(Reason("order", spec.order, why, f"expected {BLOCKS_FIRST.get(spec.order, FEWER)}"))
        return reasons

    def validate(self, spec: FmhaFwdSpec, target: Target) -> list[Reason]:
        unknown = [*self._unknown_parts(spec), *unknown_sources(spec.source, [one.name for one in self.sources])]
        reasons = unknown or invalid_fields(spec, target)
        return reasons or [*self._unfit_parts(spec), *self._unpacked_parts(spec)]

    def _unpacked_parts(self, spec: FmhaFwdSpec) -> Iterator[Reason]:
        alone = [part.name for part in self.parts if not part.packs]
        for word in spec.parts if spec.packed else ():
            if word.partition("_")[0] in alone:
                yield Reason("packed", True, f"{word} works for blocks of one head", "expected 0")

    def _unknown_parts(self, spec: FmhaFwdSpec) -> Iterator[Reason]:
        known = [part.name for part in self.parts]
        for word in spec.parts:
            if word.partition("_")[0] not in known:
                yield Reason("parts", word, "not a part of attention", f"expected {', '.join(known)}")

    def _unfit_parts(self, spec: FmhaFwdSpec) -> Iterator[Reason]:
        for word in spec.parts:
            if issubclass(kind := find_part(self.parts, word), KeyPart):
                yield from kind.unfit(word, spec)

    def build(self, spec: FmhaFwdSpec, target: Target) -> Kernel:
        from ckmlir.ops.attention.fmha_fwd_kernel import build

        return build(spec, target, self.parts, self.sources)

    def kernels(self, target: Target) -> list[FmhaFwdSpec]:
        masks = ("none", "top_left", "window:128,0")
        requests: list[dict[str, Any]] = [
            {"d": d, "dtype": dtype, "mask": mask, "lse": lse}
            for dtype in ("f16", "bf16", "fp8")
            for d in HEAD_TILES
            for mask in masks
            for lse in (False, True)
        ]
        requests += [{"b": 8, "h": 16, "d": 128, "dtype": dtype} for dtype in ("f16", "bf16", "fp8")]
        requests += [{"d": d, "dtype": "f32"} for d in HEAD_TILES]
        group = {"mode": "group", "seqlens_q": (1024, 500), "seqlens_k": (1024, 500), "lse": True}
        requests += [{**group, "d": d, "mask": mask} for d in (64, 128) for mask in masks]
        varieties: tuple[dict[str, Any], ...] = (
            {"bias": "one"}, {"alibi": "head"}, {"soft_cap": 30}, {"sink": 1}, {"dropout": 0.2},
            {"v_layout": "columns"}, {"mask": "window:128,0,4"}, {"sq": 1, "h": 8, "hk": 1},
        )  # fmt: skip
        requests += [{"d": d, **one} for d in (64, 128) for one in varieties]
        requests += [{"d": 128, "dtype": "fp8", "scales": scales} for scales in ("head", "block", "mx")]
        requests.append({"d": 128, "dtype": "fp4", "scales": "mx"})
        requests += [{"d": 128, "dtype": dtype, "out": "fp8"} for dtype in ("bf16", "fp8")]
        specs = [self.spec(self.problem(**{"sq": 1024, **one}), target) for one in requests]
        return [spec for spec in dict.fromkeys(specs) if not self.validate(spec, target)]

    def arrays(self, problem: Problem) -> tuple[ArraySpec, ...]:
        k, v = (problem.source.array(problem, name) for name in "kv")
        arrays = [problem.array("q"), k, v, problem.array("o")]
        if problem.lse:
            arrays.append(array_spec("lse", lse_shape(problem), "f32", "out"))
        arrays += (*problem.queries.arrays(), *problem.keys.arrays())
        return (*arrays, *(array for part in (problem.source, *problem.parts) for array in part.arrays(problem)))

    def _together(self, problem: Problem, generator: np.random.Generator) -> Mapping[str, Array]:
        """Where sequences begin and how long they are, as the request has it."""
        lists = {**problem.queries.values(), **problem.keys.values()}
        for part in (problem.source, *problem.parts):
            lists.update(part.together(problem, generator))
        return lists

    def check_inputs(self, problem: Problem, arrays: Mapping[str, Array]) -> None:
        problem.queries.check(arrays)
        problem.keys.check(arrays)
        for part in (problem.source, *problem.parts):
            part.check(problem, arrays)

    def _values(self, problem: Problem, array: ArraySpec, generator: np.random.Generator) -> Array:
        """Normal; queries are doubled so that scores are uneven enough for a wrong key to show in O."""
        for part in problem.parts:
            if array in part.arrays(problem):
                return part.values(problem, array, generator)
        kind = find_dtype(array.dtype)
        shape = array.shape if kind.packing is None else (*array.shape[:-1], kind.packing.count(array.shape[-1]))
        values: Array = generator.standard_normal(shape, dtype=np.float32) * (2 if array.name == "q" else 1)
        return values if kind.packing is None else pack_values(values, kind.name)

    def reference(self, problem: Problem, arrays: Mapping[str, Array]) -> dict[str, Array]:
        """O, and LSE and what parts write where asked for, in float64."""
        return attention(problem, arrays)

    def expected(self, problem: Problem, arrays: Mapping[str, Array], target: Target) -> dict[str, Array]:
        """The same with O as 8-bit floats of the chip hold it."""
        found = self.reference(problem, arrays)
        return {**found, "o": held(found["o"], problem.out, target)}

    def tolerances(
        self, problem: Problem, arrays: Mapping[str, Array], reference: Mapping[str, Array], target: Target
    ) -> dict[str, Tolerance]:
        """See `fmha_tolerances`."""
        magnitude = self.reference(problem, problem.value_sizes(arrays))["o"]
        found = fmha_tolerances(problem, arrays, magnitude, target)
        found["o"] = stored(found["o"], problem.out, self.reference(problem, arrays)["o"], target)
        return {name: found[name] for name in reference}

    def flops(self, problem: Problem) -> int:
        """Those of the two products, for the pairs of query and key that the mask lets through."""
        lengths = problem.queries.values(), problem.keys.values()
        pairs = sum(
            problem.mask.pairs(problem.queries.of(lengths[0], number)[1], problem.keys.of(lengths[1], number)[1])
            for number in range(problem.b)
        )
        return 2 * problem.h * pairs * (problem.d + problem.dv)

    def launch(self, problem: Problem, spec: FmhaFwdSpec, target: Target) -> Launch:
        if self.writes_nothing(problem):
            return NOTHING
        lists = (one.name for one in (*problem.queries.arrays(), *problem.keys.arrays()))
        arguments: list[Argument] = [*"qkvo", *["lse"] * problem.lse, *lists]
        arguments += map(i32, (problem.sq, problem.sk, problem.h, problem.h // problem.hk))
        arguments.append(f32(problem.score_scale * LOG2_E))
        if problem.lse:
            arguments.append(i32(problem.rows("q")))
        if spec.scaled:
            arguments.append(f32(problem.v_scale))
        for name in "qkvo":
            batch, head, row = problem.strides(name)
            arguments += (i32(row), i64(head), i64(batch))
        mask = problem.mask
        if spec.mask != "none":
            found = mask.cornerless if spec.varied else mask.coordinates
            arguments += map(i32, found(problem.sq, problem.sk))
            arguments += map(i32, [mask.sink] * (spec.mask == "sinks") + [mask.bottom_right] * spec.varied)
        for part in (problem.source, *problem.parts):
            arguments += part.arguments(problem)
        arguments += [i32(problem.b)] * (spec.order in IN_ONE_ROW)
        return Launch(self.grid(problem, spec, target), (spec.waves * WAVE_SIZE, 1, 1), tuple(arguments))

    def grid(self, problem: Problem, spec: FmhaFwdSpec, target: Target) -> tuple[int, int, int]:
        """Workgroups of a launch."""
        return FORWARD_ORDERS[spec.order].grid(*blocks_of_queries(problem, spec), problem.b)


OPERATOR = FmhaFwd()
