"""elementwise: y = op(a, b, c, d), an expression of up to four tensors of up to 5 dimensions, with broadcasting.

`op` is an expression such as `gelu(a * 0.5 + b)`, or a Python function of the arrays it takes; `expression.py` says
what it may contain. It is computed in f32, or in integers where all arrays hold integers. The shapes of a, b, c and d
broadcast to `shape` by NumPy's rule; default is `shape` itself.

Arrays: those of a, b, c, d that the expression names, y (shape); all at any strides.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ckmlir.ops.dtypes import TENSOR_TYPES
from ckmlir.ops.list_keys import Numbers
from ckmlir.ops.request import Choice, Key, RequestError
from ckmlir.ops.tensors.arrays import Operand, broadcast_axes, checked_strides
from ckmlir.ops.tensors.expression import read_expression
from ckmlir.ops.tensors.expression_key import ExpressionKey
from ckmlir.ops.tensors.keys import Broadcast, Strides
from ckmlir.ops.tensors.mapping import ALIGN, MapOperator, MapProblem

NAMES = ("a", "b", "c", "d")
TYPES = TENSOR_TYPES
MOST_DIMENSIONS = 5


def _keys_of(name: str) -> tuple[Key, ...]:
    return (
        Broadcast(name, None, f"shape of {name}; default: that of y", most=MOST_DIMENSIONS),
        Choice(f"{name}_dtype", None, f"of {name}; default: dtype", TYPES),
        Strides(f"{name}_strides", None, f"of {name}, in elements", most=MOST_DIMENSIONS, of=name, shared=True),
    )


class Elementwise(MapOperator):
    """The operator `elementwise`, which the module's docstring describes."""

    name = "elementwise"
    keys = (
        ExpressionKey("op", "a + b", "what is computed"),
        Numbers("shape", (1024, 1024), "of y", most=MOST_DIMENSIONS),
        Choice("dtype", "f16", "of the inputs", TYPES),
        Choice("out", None, "of y; default: dtype", TYPES),
        *(key for name in NAMES for key in _keys_of(name)),
        Strides("strides", None, "of y, in elements", most=MOST_DIMENSIONS),
        ALIGN,
    )

    def _problem(self, values: Mapping[str, Any]) -> MapProblem:
        lengths, text = values["shape"], values["op"]
        used = read_expression(text, NAMES).variables
        for name in NAMES:
            unused = [key.name for key in _keys_of(name) if values[key.name] is not None]
            if name not in used and unused:
                raise RequestError(f"{unused[0]}: op={text} has no array {name}")
        inputs = []
        for name in used:
            shape = lengths if values[name] is None else values[name]
            strides = checked_strides(f"{name}_strides", shape, values[f"{name}_strides"], shared=True)
            axes = broadcast_axes(name, shape, lengths)
            inputs.append(Operand(name, values[f"{name}_dtype"] or values["dtype"], shape, strides, axes))
        strides = checked_strides("strides", lengths, values["strides"])
        y = Operand("y", values["out"] or values["dtype"], lengths, strides, tuple(range(len(lengths))))
        return self.check(MapProblem(lengths, tuple(inputs), y, text, values["align"]))

    def examples(self) -> Sequence[Mapping[str, object]]:
        expressions = ("a + b", "a * b", "relu(a)", "gelu(a)", "silu(a) * b", "a * b + c")
        return [{"op": op, "dtype": dtype} for op in expressions for dtype in ("f16", "bf16", "f32")]


OPERATOR = Elementwise()
