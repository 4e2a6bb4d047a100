"""unpack_int4: 4-bit integers, from -8 to 7 or with `unsigned` from 0 to 15, two a byte, as f16, bf16 or f32. The first
of two is in the low half.

Arrays: x (shape with half the last length, i8), y (shape); packed.

Kernel arguments: x, y, bytes of x (i32). Grid: one dimension, tiles of bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any

import numpy as np
from msgspec import Struct

from ckmlir.dialect.packing import PACKED
from ckmlir.ops.arrays import ArraySpec, array_spec
from ckmlir.ops.comparison import Array, Tolerance
from ckmlir.ops.dtypes import PACKED_INTEGERS
from ckmlir.ops.list_keys import Numbers
from ckmlir.ops.operator import Launch, Operator
from ckmlir.ops.request import Choice, Flag, RequestError, show
from ckmlir.ops.scalars import ceil_div, gcd, i32
from ckmlir.ops.spec import Algorithm, Reason, Spec, not_a_choice, not_powers_of_two
from ckmlir.targets import Target
from ckmlir.targets.cdna import WAVE_SIZE

WAVES = 4
OUT = ("f16", "bf16", "f32")
TILE = 4096
"""Bytes of a workgroup: 16 a work-item."""


class Problem(Struct, frozen=True):
    """Integers to unpack; `shape` counts them."""

    shape: tuple[int, ...]
    out: str
    packed: str

    @property
    def bytes(self) -> int:
        return prod(self.shape) // 2


class UnpackSpec(Spec):
    """What the kernel depends on.

    Attributes:
        packed: what bytes hold: i4 or u4.
        multiple: bytes of which their number is a multiple, a power of two up to the tile.
    """

    out: str
    packed: str
    multiple: Algorithm[int]

    @property
    def name(self) -> str:
        return f"unpack_int4_{self.packed}_{self.out}_multiple{self.multiple}"


class UnpackInt4(Operator[Problem, UnpackSpec]):
    """The operator `unpack_int4`, which the module's docstring describes."""

    name = "unpack_int4"
    spec_type = UnpackSpec
    keys = (
        Numbers("shape", (1024, 1024), "of y", most=5),
        Choice("dtype", "f16", "of y", OUT),
        Flag("unsigned", False, "integers are from 0 to 15, not from -8 to 7"),
    )

    def _problem(self, values: Mapping[str, Any]) -> Problem:
        shape = values["shape"]
        if shape[-1] % 2:
            raise RequestError(
                f"shape={show(shape)}: rows of {shape[-1]} do not fill whole bytes; expected an even number"
            )
        problem = Problem(shape, values["dtype"], "u4" if values["unsigned"] else "i4")
        self.arrays(problem)  # refuses what is too large
        return problem

    def spec(self, problem: Problem, target: Target) -> UnpackSpec:
        return UnpackSpec(problem.out, problem.packed, gcd(problem.bytes or TILE, TILE))

    def validate(self, spec: UnpackSpec, target: Target) -> list[Reason]:
        return [*not_a_choice(spec, out=OUT, packed=PACKED_INTEGERS), *not_powers_of_two(spec, "multiple")]

    def kernels(self, target: Target) -> list[UnpackSpec]:
        return [UnpackSpec(out, packed, TILE) for out in OUT for packed in PACKED_INTEGERS]

    def arrays(self, problem: Problem) -> tuple[ArraySpec, ...]:
        halves = (*problem.shape[:-1], problem.shape[-1] // 2)
        return array_spec("x", halves, "i8", "in"), array_spec("y", problem.shape, problem.out, "out")

    def _values(self, problem: Problem, array: ArraySpec, generator: np.random.Generator) -> Array:
        return generator.integers(-128, 128, array.shape)

    def reference(self, problem: Problem, arrays: Mapping[str, Array]) -> dict[str, Array]:
        """Every integer, which all output types hold exactly."""
        x = arrays["x"].astype(np.int64)
        halves = np.stack([x & 15, x >> 4 & 15], axis=-1)
        return {"y": np.where(halves > PACKED[problem.packed].largest, halves - 16, halves).reshape(problem.shape)}

    def tolerances(
        self, problem: Problem, arrays: Mapping[str, Array], reference: Mapping[str, Array], target: Target
    ) -> dict[str, Tolerance]:
        return {"y": Tolerance(0.0, 0.0, "small integers are exact")}

    def launch(self, problem: Problem, spec: UnpackSpec, target: Target) -> Launch:
        tiles = ceil_div(problem.bytes, TILE)
        return Launch((tiles, 1, 1), (WAVES * WAVE_SIZE, 1, 1), ("x", "y", i32(problem.bytes)))


OPERATOR = UnpackInt4()
