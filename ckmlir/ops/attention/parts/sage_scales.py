"""Scales of quantised attention: of blocks of queries and keys, and, where V has 8 bits, of its channels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from ckmlir.ops.arrays import ArraySpec, array_spec
from ckmlir.ops.attention.parts.block_scales import Blocks, BlockScales, packed_sides
from ckmlir.ops.attention.problem import Place, Problem
from ckmlir.ops.comparison import Array
from ckmlir.ops.operator import Argument
from ckmlir.ops.request import Choice, RequestError
from ckmlir.ops.scalars import i32

if TYPE_CHECKING:
    from ckmlir.ops.attention.loop.loop_kernel import Form
    from ckmlir.ops.attention.loop.work_kernel import Work

SIZES = {"block": (128, 128), "warp": (32, 64), "thread": (4, 16)}
"""Queries and keys that share a scale (CK Tile's)."""


@dataclass(frozen=True)
class SageScales(BlockScales):
    """q_scales and k_scales as `BlockScales` has them; v_scales (b, hk, dv) with V in fp8."""

    channels: bool = False

    name = "sagescales"
    keys: ClassVar[tuple[Choice, ...]] = (
        Choice("scales", "block", "of blocks of 128 queries and 128 keys, 32 and 64 (warp), 4 and 16 (thread); none: "
               "of tensors", ("block", "warp", "thread", "tensor")),
    )  # fmt: skip

    @classmethod
    def asked(cls, values: Mapping[str, Any], problem: Problem) -> SageScales | None:
        if values["scales"] == "tensor":
            return None
        for key in ("q_scale", "k_scale", "v_scale"):
            if values[key] != 1:
                raise RequestError(f"{key}={values[key]}: only scales=tensor has it; leave it out")
        packed = "".join(rows.side for rows in (problem.queries, problem.keys) if rows.slots)
        return cls(*SIZES[values["scales"]], packed, problem.dtype_of("v") == "fp8")

    @property
    def word(self) -> str:
        return super().word + "_channels" * self.channels

    def arrays(self, problem: Problem) -> tuple[ArraySpec, ...]:
        q, k, _, *starts = super().arrays(problem)
        of_values = array_spec("v_scales", (problem.b, problem.hk, problem.dv), "f32", "in")
        return (q, k, *[of_values] * self.channels, *starts)

    def numbers(self, problem: Problem) -> tuple[Argument, ...]:
        return (*super().numbers(problem), *[i32(problem.dv)] * self.channels)

    def stored(self, problem: Problem, name: str, place: Place, arrays: Mapping[str, Array]) -> Array:
        if name != "v":
            return super().stored(problem, name, place, arrays)
        if not self.channels:
            return np.ones(1)
        found: Array = arrays["v_scales"][place.number, place.head // (problem.h // problem.hk)][None, :]
        return found

    def scales(self, problem: Problem, name: str, place: Place, arrays: Mapping[str, Array]) -> Array | float:
        """See `Part`; those of channels may be 0."""
        if name != "v":
            return super().scales(problem, name, place, arrays)
        return np.asarray(self.stored(problem, name, place, arrays), np.float64)

    @classmethod
    def parameters(cls, word: str) -> dict[str, Any]:
        from ckmlir.lang import i32, ptr

        channels = word.endswith("channels")
        starts = {f"scale_start_{side}": ptr("i32", alignment=4) for side in packed_sides(word)}
        names = ("q", "k", *["v"] * channels)
        found: dict[str, Any] = {f"{name}_scales": ptr("f32", alignment=4) for name in names} | starts
        found |= {f"scale_blocks_{side}": i32 for side in "qk"}
        return found | dict.fromkeys(["scale_channels"] * channels, i32)

    @classmethod
    def traced(cls, word: str, given: Any, work: Work, form: Form) -> Any:
        from ckmlir.lang import view
        from ckmlir.ops.attention.loop.scales_kernel import ByBlock, ByKey

        blocks, channels = Blocks(word, given, work, form), []
        k = blocks.of_keys(given.k_scales)
        if word.endswith("channels"):
            heads, count = (given.h // given.ratio).to("i64"), given.scale_channels
            row = (work.batch.to("i64") * heads + work.shared.to("i64")) * count.to("i64")
            channels = [view(given.v_scales.offset(row), (count,), (1,)).pad(form.dv)]
        if blocks.keys % form.keys == 0:
            return ByBlock(blocks.rows(), blocks.place, k.scalar, lambda place: 1.0, channels)
        return ByKey(form, blocks.group, blocks.rows(), blocks.known, blocks.single(k), None, channels)
