"""The gradient of the elementwise bias, for attention backward: dS of every query and key, in the bias's shape.

Where batches or heads share a bias, every one writes its dS in f32, and the sum over them, in their order, is rounded
once. Pairs that a mask hides, and what is of no sequence, are zero.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ckmlir.ops.arrays import MAXIMUM_ARRAY_BYTES, ArraySpec, alignment, array_spec
from ckmlir.ops.attention.part import Part
from ckmlir.ops.attention.parts.bias import Bias
from ckmlir.ops.attention.problem import Problem
from ckmlir.ops.dtypes import find_dtype
from ckmlir.ops.operator import Argument
from ckmlir.ops.request import Flag, RequestError
from ckmlir.ops.scalars import i32


@dataclass(frozen=True)
class BiasGradient(Part):
    """Attributes:
    bias: whose gradient it is.
    heads: batches times heads of Q, of which each has a dS of its own.
    """

    bias: Bias
    heads: int

    name = "dbias"
    keys = (Flag("dbias", False, "also the gradient of the bias, in its shape with packed rows"),)

    @classmethod
    def asked(cls, values: Mapping[str, Any], problem: Problem) -> BiasGradient | None:
        if not values["dbias"]:
            return None
        bias = Bias.asked(values, problem)
        if bias is None:
            raise RequestError("dbias=1: there is no bias; leave it out or name one")
        found = cls(bias, problem.array_batches * problem.h)
        size = find_dtype(found.stored).bytes
        if found.distance * size > MAXIMUM_ARRAY_BYTES:
            shape = "x".join(map(str, bias.lengths[1:]))
            raise RequestError(f"dbias=1: {shape} elements of {found.stored} take 2 GiB or more; expected fewer")
        return found

    @property
    def count(self) -> int:
        """How many dS are added to an element of the gradient."""
        return self.heads // max(math.prod(self.bias.lengths[:2]), 1)  # a bias for each batch of none has no elements

    @property
    def distance(self) -> int:
        """Elements from one of those to the next."""
        return math.prod(self.bias.lengths[1:])

    @property
    def slopes(self) -> int:
        """Elements of a head's dS."""
        return math.prod(self.bias.lengths[2:])

    @property
    def stored(self) -> str:
        """The dtype that the kernel writes."""
        return self.bias.dtype if self.count == 1 else "f32"

    @property
    def word(self) -> str:
        return f"dbias_{self.stored}_{alignment(find_dtype(self.stored).bytes, self.bias.lengths[-1])}"

    def arrays(self, problem: Problem) -> tuple[ArraySpec, ...]:
        return (array_spec("dbias", self.bias.lengths, self.bias.dtype, "out"),)

    def numbers(self, problem: Problem) -> tuple[Argument, ...]:
        return (i32(self.bias.lengths[-1]),)

    @classmethod
    def parameters(cls, word: str) -> dict[str, Any]:
        from ckmlir.lang import i32, ptr

        return {"dbias": ptr(word.split("_")[1]), "dbias_seq": i32}
