"""A power of two for every 32 elements of Q, K and V (OCP Microscaling Formats), which matrix instructions apply.

q_scales (b, h, sq, blocks) and k_scales (b, hk, sk, blocks) are of 32 channels, v_scales (b, hk, blocks, dv) of 32
keys, all in e8m0: code c is 2^(c - 127), 255 is NaN. The last block of a row, or of a sequence's keys, may be shorter.
Of sequences that follow each other along rows they are (heads, rows, blocks) and (hk, blocks of all sequences, dv), and
scale_start_k (b + 1) in i32 says where a sequence's blocks of keys begin.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from ckmlir.ops.arrays import ArraySpec, array_spec
from ckmlir.ops.attention.fmha_fwd_spec import BY_INSTRUCTION
from ckmlir.ops.attention.part import ScalePart
from ckmlir.ops.attention.parts.dense import Dense
from ckmlir.ops.attention.parts.scales import asks_for
from ckmlir.ops.attention.problem import Place, Problem
from ckmlir.ops.comparison import Array
from ckmlir.ops.operator import Argument
from ckmlir.ops.request import Key, RequestError
from ckmlir.ops.scalars import ceil_div, i32
from ckmlir.targets.mfma import SCALED_BLOCK

if TYPE_CHECKING:
    from ckmlir.lang import Scalar
    from ckmlir.ops.attention.loop.loop_kernel import Form
    from ckmlir.ops.attention.loop.work_kernel import Side, Work

STARTS = "starts"
"""The word's second one where memory holds where sequences begin."""


@dataclass(frozen=True)
class MxScales(ScalePart):
    """Scales of 32 elements of Q, K and V in e8m0, which matrix instructions apply.

    Attributes:
        channels: of K and of V.
        packed: keys of sequences follow each other.
    """

    channels: tuple[int, int]
    packed: bool

    name = BY_INSTRUCTION
    kind: ClassVar[str] = "mx"
    keys: ClassVar[tuple[Key, ...]] = ()

    @classmethod
    def asked(cls, values: Mapping[str, Any], problem: Problem) -> MxScales | None:
        if not asks_for("mx", values, problem):
            return None
        if not isinstance(problem.source, Dense):
            raise RequestError("scales=mx: K and V do not lie in rows; expected tensor, head or block")
        return cls((problem.d, problem.dv), bool(problem.keys.slots))

    @property
    def word(self) -> str:
        return "_".join([self.name, *map(str, self.channels), *[STARTS] * self.packed])

    def arrays(self, problem: Problem) -> tuple[ArraySpec, ...]:
        blocks = ceil_div(problem.d, SCALED_BLOCK)
        shapes = {
            "q": (problem.h, max(problem.rows("q"), 1), blocks),
            "k": (problem.hk, max(problem.rows("k"), 1), blocks),
            "v": (problem.hk, _blocks(problem), problem.dv),
        }
        alone = () if problem.grouped else (problem.b,)
        found = [array_spec(f"{name}_scales", (*alone, *shape), "e8m0", "in") for name, shape in shapes.items()]
        if self.packed:
            found.append(array_spec("scale_start_k", (problem.b + 1,), "i32", "in"))
        return tuple(found)

    def numbers(self, problem: Problem) -> tuple[Argument, ...]:
        rows = (max(problem.rows(side), 1) for side in "qk")
        return tuple(map(i32, (*rows, _blocks(problem))))

    def values(self, problem: Problem, array: ArraySpec, generator: np.random.Generator) -> Array:
        """From an eighth to 8: neighbours differ enough for a wrong one to show."""
        if array.dtype == "i32":
            return np.cumsum([0, *(ceil_div(one, SCALED_BLOCK) for one in problem.keys.slots)])
        found: Array = np.exp2(generator.integers(-3, 2, array.shape)).astype(np.float32)
        return found

    def check(self, problem: Problem, arrays: Mapping[str, Array]) -> None:
        """Raise RequestError for blocks of keys that are not there."""
        for number in range(problem.b if self.packed else 0):
            start, blocks = int(arrays["scale_start_k"][number]), _blocks(problem)
            needed = ceil_div(problem.keys.of(arrays, number)[1], SCALED_BLOCK)
            if start < 0 or start + needed > blocks:
                what = f"sequence {number} has {needed} blocks from {start} on"
                raise RequestError(f"array scale_start_k: {what}; expected blocks from 0 to {blocks}")

    def scales(self, problem: Problem, name: str, place: Place, arrays: Mapping[str, Array]) -> Array | float:
        head = place.head if name == "q" else place.head // (problem.h // problem.hk)
        found = arrays[f"{name}_scales"]
        found = (found if problem.grouped else found[place.number])[head].astype(np.float64)
        if name == "v":
            start = int(arrays["scale_start_k"][place.number]) if self.packed else 0
            of_keys: Array = found[start + np.arange(place.keys) // SCALED_BLOCK]
            return of_keys
        start, _ = problem.keys.of(arrays, place.number)
        rows = found[place.memory_rows] if name == "q" else found[start : start + place.keys]
        of_channels: Array = np.repeat(rows, SCALED_BLOCK, axis=1)[:, : problem.d]
        return of_channels

    @classmethod
    def parameters(cls, word: str) -> dict[str, Any]:
        from ckmlir.lang import i32, ptr

        found: dict[str, Any] = {f"{name}_scales": ptr("e8m0") for name in "qkv"}
        if word.endswith(STARTS):
            found["scale_start_k"] = ptr("i32", alignment=4)
        return found | dict.fromkeys(("scale_rows_q", "scale_rows_k", "scale_blocks_k"), i32)

    @classmethod
    def traced(cls, word: str, given: Any, work: Work, form: Form) -> Any:
        from ckmlir.lang import view
        from ckmlir.ops.attention.loop.scaled_products_kernel import ByInstruction

        d, channels = map(int, word.split("_")[1:3])
        across = ceil_div(d, SCALED_BLOCK)

        def of_channels(name: str, side: Side, head: Scalar, heads: Scalar) -> Any:
            of_head = getattr(given, f"scale_rows_{name}").to("i64") * across
            start = head.to("i64") * of_head + side.origin(across, heads.to("i64") * of_head)
            return view(getattr(given, f"{name}_scales").offset(start), (side.length, across), (across, 1))

        heads, blocks = given.h // given.ratio, given.scale_blocks_k.to("i64")
        if word.endswith(STARTS):
            first = work.shared.to("i64") * blocks + given.scale_start_k.scalar(work.batch).to("i64")
        else:
            first = (work.batch.to("i64") * heads.to("i64") + work.shared.to("i64")) * blocks
        of_keys = (work.sk + (SCALED_BLOCK - 1)) // SCALED_BLOCK
        v = view(given.v_scales.offset(first * channels), (of_keys, channels), (channels, 1))
        q, k = of_channels("q", work.q, work.head, given.h), of_channels("k", work.k, work.shared, heads)
        return ByInstruction(given.scale, (), work.first, q, k, v)


def _blocks(problem: Problem) -> int:
    """Blocks of keys of a head; at least one."""
    rows = problem.keys
    return max(sum(ceil_div(one, SCALED_BLOCK) for one in rows.slots or (rows.longest,)), 1)
