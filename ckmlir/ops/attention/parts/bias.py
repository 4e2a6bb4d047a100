"""Elementwise bias: a number for every query and key is added to the score, for each batch or head, or for all."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ckmlir.ops.arrays import MAXIMUM_ARRAY_BYTES, ArraySpec, alignment
from ckmlir.ops.attention.part import AddedPart
from ckmlir.ops.attention.problem import Place, Problem
from ckmlir.ops.comparison import Array
from ckmlir.ops.dtypes import find_dtype
from ckmlir.ops.operator import Argument
from ckmlir.ops.request import Choice, Pitch, RequestError
from ckmlir.ops.scalars import i32, i64


@dataclass(frozen=True)
class Bias(AddedPart):
    """(1 or b, 1 or h, queries, keys) of Q's dtype, f32 for 8 bits and fewer; queries are `stride` elements apart."""

    dtype: str
    lengths: tuple[int, int, int, int]
    stride: int

    name = "bias"
    keys = (
        Choice("bias", "none", "added to scores, for all, or each head or batch",
               ("none", "one", "head", "sequence", "batch")),
        Pitch("bias_stride", None, "elements from one row of the bias to the next, by default sk", of=("sk",)),
    )  # fmt: skip

    @classmethod
    def asked(cls, values: Mapping[str, Any], problem: Problem) -> Bias | None:
        kind, stride = values["bias"], values["bias_stride"]
        if kind == "none":
            if stride is None:
                return None
            raise RequestError(f"bias_stride={stride}: there is no bias; leave it out or name one")
        if (of_batches := kind in ("sequence", "batch")) and problem.grouped:
            raise RequestError(f"bias={kind}: in group mode every sequence has rows of its own; expected one or head")
        rows, held, step = problem.rows("q"), problem.held_as("q"), problem.sk if stride is None else stride
        if step < problem.sk:
            raise RequestError(f"bias_stride={stride}: rows have {problem.sk} elements; expected at least that")
        lengths = (problem.b if of_batches else 1, 1 if kind in ("one", "sequence") else problem.h, rows, problem.sk)
        found = cls(held if find_dtype(held).bytes > 1 else "f32", lengths, step)
        if rows * step * find_dtype(found.dtype).bytes > MAXIMUM_ARRAY_BYTES:
            raise RequestError(f"bias={kind}: a head's {rows} rows are {step} elements apart, which is 2 GiB or more")
        return found

    @property
    def word(self) -> str:
        return f"bias_{self.dtype}_{alignment(find_dtype(self.dtype).bytes, self.lengths[-1], self.stride)}"

    def arrays(self, problem: Problem) -> tuple[ArraySpec, ...]:
        head = self.lengths[2] * self.stride
        return (ArraySpec("bias", self.lengths, self.dtype, "in", (self.lengths[1] * head, head, self.stride, 1)),)

    def numbers(self, problem: Problem) -> tuple[Argument, ...]:
        batch, head, row, _ = self.arrays(problem)[0].strides
        return i32(row), i64(head * (self.lengths[1] > 1)), i64(batch * (self.lengths[0] > 1))

    def added(self, place: Place, arrays: Mapping[str, Array]) -> Array:
        batch, head = place.batch * (self.lengths[0] > 1), place.head * (self.lengths[1] > 1)
        return np.asarray(arrays["bias"][batch, head, place.memory_rows, : place.keys], np.float64)

    @classmethod
    def parameters(cls, word: str) -> dict[str, Any]:
        from ckmlir.lang import i32, i64, ptr

        return {"bias": ptr(word.split("_")[1]), "bias_seq": i32, "bias_head": i64, "bias_batch": i64}

    @classmethod
    def traced(cls, word: str, given: Any, work: Any, form: Any) -> Any:
        from ckmlir.ops.attention.loop.bias_kernel import added

        return added(int(word.split("_")[2]), given, work, form)
