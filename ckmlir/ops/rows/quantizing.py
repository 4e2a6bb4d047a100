"""Row operators whose purpose is to quantise what they compute."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Generic, TypeVar

from ckmlir.ops.comparison import Array
from ckmlir.ops.rows.arrays import FLOATS
from ckmlir.ops.rows.layout import RowSpec
from ckmlir.ops.rows.operator import RowOperator, RowProblem
from ckmlir.ops.rows.quantization import OUT, QuantizedOptions, quantization_of
from ckmlir.targets import get_target

C = TypeVar("C", bound=QuantizedOptions)
R = TypeVar("R", bound=RowSpec)


class QuantizingOperator(RowOperator[C, R], Generic[C, R]):
    """A row operator with the keys QUANTIZATION_KEYS; `expected` gives every output as the chip's types hold it."""

    def requests(self) -> Iterable[Mapping[str, object]]:
        return [{"dtype": dtype, "out": out} for dtype in FLOATS for out in OUT]

    def _choices(self, values: Mapping[str, Any]) -> Mapping[str, Any]:
        return {**values, **quantization_of(values, True)}

    def reference(self, problem: RowProblem[C], arrays: Mapping[str, Array]) -> dict[str, Array]:
        """Every output in float64; 8-bit floats are those of the OCP, see `expected`."""
        return self.expected(problem, arrays, get_target("gfx950"))
