"""K and V as rows of a batch, one behind the other; V may be columns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from ckmlir.ops.attention.problem import Problem
from ckmlir.ops.attention.source import Source
from ckmlir.ops.comparison import Array
from ckmlir.ops.request import Key

if TYPE_CHECKING:
    from ckmlir.ops.attention.fmha_fwd_spec import FmhaFwdSpec
    from ckmlir.ops.attention.loop.loop_kernel import Form, Keys
    from ckmlir.ops.attention.loop.work_kernel import Work


@dataclass(frozen=True)
class Dense(Source):
    """The arrays as `Problem` has them, for batches and for packed sequences."""

    name = "dense"
    keys: ClassVar[tuple[Key, ...]] = ()

    @classmethod
    def asked(cls, values: Mapping[str, Any], problem: Problem) -> Dense | None:
        return cls()

    @property
    def word(self) -> str:
        return ""

    def extent(self, problem: Problem) -> tuple[int, int]:
        return problem.array_batches, problem.keys.total

    def places(self, problem: Problem, number: int, arrays: Mapping[str, Array], keys: range) -> tuple[Array, Array]:
        batch, start = (0, int(arrays["seqstart_k"][number])) if problem.grouped else (number, 0)
        return np.full(len(keys), batch), start + np.array(keys, np.int64)

    @classmethod
    def traced(cls, word: str, given: Any, spec: FmhaFwdSpec, work: Work, form: Form) -> Keys:
        from ckmlir.ops.attention.loop.keys_kernel import rows_of_sequence

        return rows_of_sequence(given, spec, work.k, work.shared, form)
