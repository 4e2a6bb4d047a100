"""predict_blocks: which blocks of keys each block of queries attends to, predicted from the means of both: the map that
`sparse_attention` takes (SpargeAttn, Zhang et al., arXiv 2502.18137; CK Tile's example 50).

A block whose rows are alike (`block_means`) by more than simthreshd1 is stood for by their mean. Where a block of
queries is not alike, all blocks of keys are taken. Otherwise those blocks of keys are taken that are not alike, and of
the others, in the order of scores = scale · mean of queries · mean of keys, the largest first and of equal ones the
lower number,

    with topk   the first max(1, topk · blocks of keys, rounded down)
    without     as many as it takes for their softmax to add up to cdfthreshd, at least one

A mask lets no block be taken, or count, that is wholly behind the last place of a block of queries. With first=1 the
first block of keys is always taken (an attention sink), with smooth=1 keys come without their mean over the sequence,
which changes no order but which blocks are alike. With by_head=1 thresholds (h, 2) has simthreshd1 and cdfthreshd of
each head of Q.

Scores are f32, and which of two comes first, or whether a sum reaches a threshold, may depend on rounding: nothing is
promised of blocks for which the bounds of both leave that open, nor of rows where `alike` is as near to its threshold.

Arrays: q, (b, h, sq, d) with layout bhsd or (b, sq, h, d) with bshd; k with hk heads likewise; block_map (b, h, blocks
of queries, blocks of keys), i8, 0 or 1; with lists=1 block_list, of the same shape, numbers of blocks with -1 behind
the last, and block_counts, i32.

Steps: the mean of K (`reduce`) if asked for, `block_means` of Q and K, the products of means (`batched_gemm`), the own
kernel, `nonzero` for lists. Kernel arguments: scores (b · h, blocks of queries, blocks of keys), alike of Q and of K,
thresholds with by_head, block_map; blocks of queries and of keys, h, h / hk (i32); simthreshd1 and cdfthreshd without
by_head; topk's number of blocks, or scale · log2(e) (f32); with a mask sq, sk - sq or 0, log2 of block_q and block_k
(i32). Grid: (rows, heads, batches).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from msgspec.structs import replace

from ckmlir.ops.arrays import ArraySpec, array_spec, find_array
from ckmlir.ops.attention.head_strides import HeadStrides, checked_head_strides
from ckmlir.ops.attention.parts.block_lists import BlockSize, Share
from ckmlir.ops.attention.prediction.block_means import DTYPES, MOST_ROWS, check_channels
from ckmlir.ops.attention.prediction.block_means import OPERATOR as BLOCK_MEANS
from ckmlir.ops.attention.prediction.problem import LENGTHS, MASKS, VECTOR, PredictSpec, Problem
from ckmlir.ops.attention.prediction.reference import map_tolerances, predicted, unpromised, with_lists
from ckmlir.ops.comparison import Array, Tolerance
from ckmlir.ops.gemm.batched_gemm import OPERATOR as BATCHED_GEMM
from ckmlir.ops.indexed.nonzero import OPERATOR as NONZERO
from ckmlir.ops.inner import inner_problem
from ckmlir.ops.operator import NOTHING, Argument, Launch, Operator, Run, Step
from ckmlir.ops.precision import LOG2_E
from ckmlir.ops.reduction.reduce import OPERATOR as REDUCE
from ckmlir.ops.request import Choice, Flag, Integer, Real, RequestError
from ckmlir.ops.scalars import ceil_div, f32, gcd, i32
from ckmlir.ops.spec import Reason, not_a_choice
from ckmlir.ops.steps import OWN_KERNEL, Workspace
from ckmlir.targets import Target
from ckmlir.targets.cdna import WAVE_SIZE


class PredictBlocks(Operator[Problem, PredictSpec]):
    """The operator `predict_blocks`, which the module's docstring describes."""

    name = "predict_blocks"
    spec_type = PredictSpec
    keys = (
        Integer("b", 1, "batches"),
        Integer("h", 2, "heads of Q", minimum=1),
        Integer("hk", None, "heads of K; divides h, by default h", minimum=1),
        Integer("sq", 1024, "queries"),
        Integer("sk", None, "keys; by default sq"),
        Integer("d", 128, "channels: a multiple of 8 (f32: 4) up to 256", minimum=1, multiple=8),
        Choice("dtype", "f16", "of Q and K", DTYPES),
        Choice("layout", "bhsd", "order of the dimensions in memory", ("bhsd", "bshd")),
        BlockSize("block_q", 64, "queries of a block", minimum=32, maximum=MOST_ROWS),
        BlockSize("block_k", 128, "keys of a block", minimum=32, maximum=MOST_ROWS),
        Share("topk", None, "share of the blocks of keys that is taken; by default what cdfthreshd takes", 0),
        Share("cdfthreshd", 0.98, "what the softmax of the blocks taken adds up to", 0),
        Share("simthreshd1", 0.6, "how alike the rows of a block have to be for their mean to stand for them", 0),
        Flag("by_head", False, "both thresholds are those of each head of Q, in memory"),
        Real("scale", None, "of the scores, by default 1 / sqrt(d)", 0),
        Choice("mask", "none", "what queries see of the keys", MASKS),
        Flag("smooth", False, "keys come without their mean over the sequence"),
        Flag("first", False, "the first block of keys is always taken"),
        Flag("lists", False, "also write lists of the blocks taken, and how many there are"),
        *(
            HeadStrides(
                f"{name}_strides", None, f"elements from one batch, head and row of {name} to the next", 3, array=name
            )
            for name in "qk"
        ),
    )

    def _problem(self, values: Mapping[str, Any]) -> Problem:
        h, hk, d = values["h"], values["hk"] or values["h"], values["d"]
        if h % hk:
            raise RequestError(f"hk={hk}: h={h} is not a multiple of it; expected a divisor of h")
        if values["topk"] == 0:
            raise RequestError("topk=0.0: expected a share above 0 and at most 1")
        if values["scale"] == 0:
            raise RequestError("scale=0.0: expected a number above 0")
        common = {name: values[name] for name in ("b", "d", "dtype", "layout")}
        sk = values["sq"] if values["sk"] is None else values["sk"]
        check_channels(d, values["dtype"])
        queries, keys = (
            inner_problem(
                BLOCK_MEANS, _words(name), **common, h=heads, s=rows, block=values[f"block_{name}"],
                x_strides=_strides(values, name, (heads, rows, d)), shift=name == "k" and values["smooth"],
            )
            for name, heads, rows in (("q", h, values["sq"]), ("k", hk, sk))
        )  # fmt: skip
        if keys.blocks > LENGTHS[-1]:
            raise RequestError(f"sk={sk}: {keys.blocks} blocks of keys; expected at most {LENGTHS[-1]}")
        rest = {name: values[name] for name in ("topk", "by_head", "mask", "first", "lists")}
        scale = values["scale"] or 1 / math.sqrt(d)
        problem = Problem(
            queries, keys, **rest, cdf=values["cdfthreshd"], similar=values["simthreshd1"], scale=scale
        )  # fmt: skip
        self.arrays(problem)  # refuses what is too large
        array_spec("scores", problem.shape, "f32", "out")
        return problem

    def spec(self, problem: Problem, target: Target) -> PredictSpec:
        columns = problem.shape[3]
        length = next(one for one in LENGTHS if one >= columns)
        align = gcd(VECTOR, columns)
        return PredictSpec(
            problem.topk is not None, problem.mask != "none", problem.by_head, problem.first, length, align
        )  # fmt: skip

    def validate(self, spec: PredictSpec, target: Target) -> list[Reason]:
        return list(not_a_choice(spec, length=LENGTHS, align=(1, 2, VECTOR)))

    def kernels(self, target: Target) -> list[PredictSpec]:
        requests: list[dict[str, Any]] = [{"sq": 128 * length} for length in LENGTHS]
        requests += [{"sq": 128 * length, "topk": 0.5, "mask": "top_left", "first": 1} for length in (64, 512, 4096)]
        requests += [{"by_head": 1}, {"by_head": 1, "topk": 0.2}, {"sq": 16300, "mask": "bottom_right"}]
        return list(dict.fromkeys(self.spec(self.problem(h=1, **one), target) for one in requests))

    def arrays(self, problem: Problem) -> tuple[ArraySpec, ...]:
        shape = problem.shape
        both = (("q", problem.queries), ("k", problem.keys))
        found = [replace(find_array(BLOCK_MEANS.arrays(side), "x"), name=name) for name, side in both]
        if problem.by_head:
            found.append(array_spec("thresholds", (shape[1], 2), "f32", "in"))
        found.append(array_spec("block_map", shape, "i8", "out"))
        if problem.lists:
            found.append(array_spec("block_list", shape, "i32", "out"))
            found.append(array_spec("block_counts", shape[:3], "i32", "out"))
        return tuple(found)

    def _values(self, problem: Problem, array: ArraySpec, generator: np.random.Generator) -> Array:
        if array.name == "thresholds":
            return generator.choice([0.3, 0.6, 0.9, 0.97], array.shape)
        side = problem.queries if array.name == "q" else problem.keys
        return BLOCK_MEANS._values(side, replace(array, name="x"), generator)

    def reference(self, problem: Problem, arrays: Mapping[str, Array]) -> dict[str, Array]:
        return with_lists(problem, predicted(problem, arrays))

    def tolerances(
        self, problem: Problem, arrays: Mapping[str, Array], reference: Mapping[str, Array], target: Target
    ) -> dict[str, Tolerance]:
        return map_tolerances(problem, unpromised(problem, arrays, target))

    def steps(self, problem: Problem, spec: PredictSpec, target: Target) -> tuple[Step, ...]:
        b, h, rows, columns = problem.shape
        found: list[Step] = []
        if b and rows and columns:
            if problem.keys.shift:
                found.append(Run(REDUCE, problem.mean, {"x": "k", "y": "shift"}))
            for name, side in (("q", problem.queries), ("k", problem.keys)):
                names = {"x": name, "means": f"means_{name}", "alike": f"alike_{name}"}
                found.append(Run(BLOCK_MEANS, side, names, _words(name)))
            found.append(Run(BATCHED_GEMM, problem.products, {"a": "means_q", "b": "means_k", "c": "scores"}))
        found.append(OWN_KERNEL)
        if problem.lists:
            names = {"x": "block_map", "y": "block_list", "counts": "block_counts"}
            found.append(Run(NONZERO, NONZERO.problem(m=b * h * rows, n=columns), names))
        return tuple(found)

    def workspaces(self, problem: Problem, spec: PredictSpec, target: Target) -> tuple[Workspace, ...]:
        b, h, rows, columns = problem.shape
        if not (b and rows and columns):
            return ()
        found = [Workspace("scores", 4 * b * h * rows * columns)]
        if problem.keys.shift:
            found.append(Workspace("shift", 4 * b * problem.keys.h * problem.keys.d))
        for name, side in (("q", problem.queries), ("k", problem.keys)):
            blocks = 4 * b * side.h * side.blocks
            found += [Workspace(f"means_{name}", blocks * side.d), Workspace(f"alike_{name}", blocks)]
        return tuple(found)

    def launch(self, problem: Problem, spec: PredictSpec, target: Target) -> Launch:
        b, h, rows, columns = problem.shape
        if not (b and rows and columns):
            return NOTHING
        arguments: list[Argument] = ["scores", "alike_q", "alike_k", *["thresholds"] * spec.by_head, "block_map"]
        arguments += map(i32, (rows, columns, h, problem.ratio))
        if not spec.by_head:
            arguments += map(f32, (problem.similar, problem.cdf))
        arguments.append(f32(problem.count if spec.counted else problem.scale * LOG2_E))
        if spec.causal:
            sides = problem.queries, problem.keys
            arguments += map(
                i32, (problem.queries.s, problem.further, *(side.block.bit_length() - 1 for side in sides))
            )
        return Launch((ceil_div(rows, spec.rows), h, b), (spec.waves * WAVE_SIZE, 1, 1), tuple(arguments))


def _words(name: str) -> dict[str, str]:
    """Keys and the array of `block_means` of Q or K -> what they are called here."""
    heads = "h" if name == "q" else "hk"
    return {"h": heads, "s": f"s{name}", "block": f"block_{name}", "x_strides": f"{name}_strides", "x": name}


def _strides(values: Mapping[str, Any], name: str, sizes: tuple[int, int, int]) -> tuple[int, ...] | None:
    """Those of Q or K that were given. What `block_means` would refuse of either is refused by its own name here.
    Raises RequestError.
    """
    given: tuple[int, ...] | None = values[f"{name}_strides"]
    checked_head_strides(name, values["layout"], values["b"], sizes, values["dtype"], given)
    return given


OPERATOR = PredictBlocks()
