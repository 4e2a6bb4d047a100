"""Defects that there once were, put back: each as the one place where it was mended, with what it was before.

What a fuzz finds is known only where something is to be found. `test_defects.py` draws requests of one operator until
one fails, and asks for the same requests without the defect.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from msgspec.structs import replace

from ckmlir.compiler import compile_kernel
from ckmlir.lang import Tile, log2, where
from ckmlir.ops.attention.loop import weights_kernel
from ckmlir.ops.layout.img2col import Img2col
from ckmlir.ops.normalization import layernorm2d_kernel
from ckmlir.ops.normalization.scaled_rows_kernel import ScaledRows
from ckmlir.ops.reduction import reduce_kernel
from ckmlir.ops.reduction.reduce import Reduce
from ckmlir.ops.rows import operator as row_operator
from ckmlir.ops.rows.layout import choose_layout
from ckmlir.ops.scalars import i32
from ckmlir.ops.tensors import expression, expression_tree, mapping
from ckmlir.ops.tensors.arrays import Operand
from ckmlir.ops.tensors.functions import FUNCTIONS
from ckmlir.ops.tensors.mapping import MapOperator
from ckmlir.passes import insert_barriers

Patch = Callable[[pytest.MonkeyPatch], None]


@dataclass(frozen=True)
class Defect:
    """A defect and where the fuzz has to find it.

    Attributes:
        name: what went wrong.
        operator: whose requests are drawn.
        within: how many requests find it.
        put_back: patches the package.
        shows: what the failure's reason says of it, one of these.
        calls: requests are those of one function of an expression each.
    """

    name: str
    operator: str
    within: int
    put_back: Patch
    shows: tuple[str, ...]
    calls: bool = False


def compiled_anew(patched: pytest.MonkeyPatch) -> None:
    """Kernels neither come from caches nor go there: their specifications do not know of a patch."""
    patched.setattr("ckmlir.runtime.operator_kernels.compile_cached", compile_kernel)


def _whatever_is_empty(operator: type) -> Patch:
    """Sizes and strides become arguments of a launch although there is nothing to launch."""

    def strides(operand: Operand) -> tuple[int, ...]:
        own = zip(operand.axes, (operand.strides[axis] for axis in operand.axes), strict=True)
        return tuple(stride if axis >= 0 and operand.shape[axis] != 1 else 0 for axis, stride in own)

    def scalars(spec: Any, lengths: Any, tiles: Any, given: Any) -> list[Any]:
        return [i32(number) for number in (*lengths, *tiles, *(given[name][dim] for name, dim in spec.arguments))]

    def put_back(patched: pytest.MonkeyPatch) -> None:
        patched.setattr(Operand, "index_strides", property(strides))
        patched.setattr(mapping, "launch_scalars", scalars)
        patched.setattr(operator, "writes_nothing", lambda *_: False)

    return put_back


def _parts_of_nothing(patched: pytest.MonkeyPatch) -> None:
    """Partial results of no elements are stored."""
    launch = Reduce.launch

    def launched(self: Reduce, problem: Any, spec: Any, target: Any) -> Any:
        found = launch(self, problem, spec, target)
        return replace(found, grid=(max(found.grid[0], 1), *found.grid[1:])) if problem.partial else found

    patched.setattr(Reduce, "writes_nothing", lambda *_: False)
    patched.setattr(Reduce, "launch", launched)


def _rows_of_nothing(patched: pytest.MonkeyPatch) -> None:
    """Rows without elements fill their blocks, as a multiple of whatever divides 0."""

    def chosen(m: int, n: int, dtype: str, strides: Sequence[int], base: int, **others: Any) -> dict[str, Any]:
        found = choose_layout(m, n, dtype, strides, base, **others)
        return found if n else {**found, "pad_n": False}

    patched.setattr(row_operator, "choose_layout", chosen)


def _no_barriers(patched: pytest.MonkeyPatch) -> None:
    """Waves read from LDS what others may not have written yet."""
    patched.setattr(insert_barriers, "_protect", lambda *_: None)


def _windows_unfit_for_copies(patched: pytest.MonkeyPatch) -> None:
    patched.setattr(MapOperator, "_staged", lambda *_: [])


def _recursion(patched: pytest.MonkeyPatch) -> None:
    """A tree is walked by as many calls as it is deep."""

    def evaluate(tree: Any, domain: Any, variables: Mapping[str, Any]) -> Any:
        def value(part: Any) -> Any:
            return evaluate(part, domain, variables)

        return expression_tree._value(tree, domain, variables, [value(part) for part in expression_tree.parts(tree)])

    patched.setattr(expression, "evaluate", evaluate)
    patched.setattr(expression_tree, "evaluate", evaluate)


def _logarithm_of_nan(patched: pytest.MonkeyPatch) -> None:
    """A total that is NaN is taken for that of no keys."""

    def logarithm(self: Any, state: Sequence[Tile]) -> Any:
        total = state[1]
        power = self.units.whole(self.exponent(state[0])) + log2(total)
        power = power - float(self.boost) if self.boost else power
        return where(total > 0.0, power * math.log(2), -math.inf)

    patched.setattr(weights_kernel.Softmax, "logarithm", logarithm)


def _variance_without_nan(patched: pytest.MonkeyPatch) -> None:
    def squares(block: Any, x: Any) -> tuple[Any, Any]:
        def both(column: Any) -> list[Any]:
            part = x(column)
            return [part, part * part]

        total, squares = block.fold(both, [0.0, 0.0], lambda a, b: [a[0] + b[0], a[1] + b[1]])
        mean = total * block.inverse_n
        return mean, (squares * block.inverse_n - mean * mean).maximum(0.0)

    patched.setitem(layernorm2d_kernel._STATISTICS, "squares", squares)


def _means_that_are_infinite(patched: pytest.MonkeyPatch) -> None:
    """Of a row with an infinity, shown beside a variance that is NaN."""
    patched.setattr(layernorm2d_kernel, "not_a_number_unless_finite", lambda variance: 0.0)


def _extrema_of_nan(patched: pytest.MonkeyPatch) -> None:
    """NaN or not by the length of a row."""
    combined = reduce_kernel._combined
    patched.setattr(
        reduce_kernel, "_combined", lambda how, a, b: combined(how, a, b) if isinstance(b, Tile) else a
    )


def _powers_by_logarithms(patched: pytest.MonkeyPatch) -> None:
    """Of negative numbers they are NaN."""
    patched.setitem(FUNCTIONS, "pow", replace(FUNCTIONS["pow"], text="exp2(y * log2(x))"))
    patched.setattr(expression_tree, "_whole_exponent", lambda node: None)


def _squares_that_overflow(patched: pytest.MonkeyPatch) -> None:
    """Rows are not scaled."""
    begin = ScaledRows.__init__

    def unscaled(self: Any, block: Any, x: Any, factor: Any = None) -> None:
        class Narrow:
            dtype = "f16"

        class Block:
            given, spec = block.given, Narrow

        begin(self, Block(), x)  # type: ignore[arg-type]

    patched.setattr(ScaledRows, "__init__", unscaled)


OVERFLOW = ("OverflowError", "no output has an element")

DEFECTS = (
    Defect("parts of no results are stored", "reduce", 100, _parts_of_nothing, ("no output has an element",)),
    Defect("rows without elements are read", "moe_smoothquant", 400, _rows_of_nothing, ("does not cover",)),
    Defect("reads of LDS before writes have ended", "transpose2d", 8, _no_barriers, ("race", "disagree")),
    Defect("copies that no instruction makes", "copy", 24, _windows_unfit_for_copies, ("copies 4",)),
    Defect("lengths beyond 32 bits of empty tensors", "permute", 60, _whatever_is_empty(MapOperator), OVERFLOW),
    Defect("strides beyond 32 bits of empty tensors", "cast", 600, _whatever_is_empty(MapOperator), OVERFLOW),
    Defect("lengths beyond 32 bits of no images", "img2col", 10, _whatever_is_empty(Img2col), OVERFLOW),
    Defect("expressions of hundreds of terms", "elementwise", 300, _recursion, ("RecursionError",)),
    Defect("logarithms of sums that are NaN", "fmha_fwd", 100, _logarithm_of_nan, ("lse: ",)),
    Defect("a variance that hides NaN", "layernorm2d", 400, _variance_without_nan, ("disagree",)),
    Defect("a mean that is infinite", "layernorm2d", 16, _means_that_are_infinite, ("mean: ",)),
    Defect("extrema of nothing but NaN", "reduce", 100, _extrema_of_nan, ("disagree",)),
    Defect("powers of negative numbers", "elementwise", 132, _powers_by_logarithms, ("disagree",), calls=True),
    Defect("squares of rows that overflow", "rmsnorm2d", 20, _squares_that_overflow, ("disagree",)),
    Defect("squares of deviations that overflow", "layernorm2d", 100, _squares_that_overflow, ("disagree",)),
)
