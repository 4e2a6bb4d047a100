"""K and V as rows of a batch that a list names for each sequence: a cache with more slots than sequences."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ckmlir.ops.arrays import ArraySpec, array_spec
from ckmlir.ops.attention.parts.dense import Dense
from ckmlir.ops.attention.problem import Problem
from ckmlir.ops.comparison import Array
from ckmlir.ops.operator import Argument
from ckmlir.ops.request import Integer, RequestError
from ckmlir.ops.scalars import i32

if TYPE_CHECKING:
    from ckmlir.ops.attention.fmha_fwd_spec import FmhaFwdSpec
    from ckmlir.ops.attention.loop.loop_kernel import Form, Keys
    from ckmlir.ops.attention.loop.work_kernel import Work


@dataclass(frozen=True)
class Cache(Dense):
    """cache_batch_idx is (sequences) in i32. A slot that does not exist reads as zeros."""

    slots: int

    name = "cache"
    keys = (Integer("cache_batches", None, "batches of K and V, of which cache_batch_idx names each sequence's"),)

    @classmethod
    def asked(cls, values: Mapping[str, Any], problem: Problem) -> Cache | None:
        slots = values["cache_batches"]
        if slots is not None and problem.grouped:
            raise RequestError(f"cache_batches={slots}: in group mode K and V have no batches; leave it out")
        return None if slots is None else cls(slots)

    @property
    def word(self) -> str:
        return self.name

    def extent(self, problem: Problem) -> tuple[int, int]:
        return self.slots, problem.keys.longest

    def arrays(self, problem: Problem) -> tuple[ArraySpec, ...]:
        return (array_spec("cache_batch_idx", (problem.b,), "i32", "in"),)

    def numbers(self, problem: Problem) -> tuple[Argument, ...]:
        return (i32(self.slots),)

    def together(self, problem: Problem, generator: np.random.Generator) -> Mapping[str, Array]:
        if problem.b and not self.slots:
            raise RequestError(f"cache_batches=0: there are {problem.b} sequences; expected at least 1")
        return {"cache_batch_idx": np.resize(generator.permutation(max(self.slots, 1)), problem.b)}

    def places(self, problem: Problem, number: int, arrays: Mapping[str, Array], keys: range) -> tuple[Array, Array]:
        return np.full(len(keys), arrays["cache_batch_idx"][number]), np.array(keys, np.int64)

    def check(self, problem: Problem, arrays: Mapping[str, Array]) -> None:
        for number, slot in enumerate(arrays["cache_batch_idx"]):
            if not 0 <= slot < self.slots:
                what = f"sequence {number} has slot {slot}; expected 0 to {self.slots - 1}"
                raise RequestError(f"array cache_batch_idx: {what}")

    @classmethod
    def parameters(cls, word: str) -> dict[str, Any]:
        from ckmlir.lang import i32, ptr

        return {"cache_batch_idx": ptr("i32", alignment=4), "slots": i32}

    @classmethod
    def traced(cls, word: str, given: Any, spec: FmhaFwdSpec, work: Work, form: Form) -> Keys:
        from ckmlir.ops.attention.loop.keys_kernel import rows_of_sequence
        from ckmlir.ops.attention.loop.work_kernel import slot_of

        side = slot_of(work.k, given.cache_batch_idx.scalar(work.batch), given.slots)
        return rows_of_sequence(given, spec, side, work.shared, form)
