"""Sums of products of two tensors, named by letters: `einsum`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from ckmlir.nn.calls import Call
from ckmlir.nn.given import Given
from ckmlir.nn.gradients import differentiable
from ckmlir.nn.plain import shown
from ckmlir.nn.products import output_type
from ckmlir.runtime.arguments import packed_strides
from ckmlir.runtime.device import DeviceError

ORDER = {"a": "gmk", "b": "gnk", "c": "gmn"}
"""Groups of dimensions, as the operator has them: batch, a's own, b's own, sums."""
UNIT = " "
"""Stands for the letter of a dimension of length 1, where a group has none."""


@differentiable
def einsum(equation: str, a: Any, b: Any, *, dtype: str | None = None, out: Any = None, stream: object = None) -> Any:
    """The sum of products that an equation names, of two tensors: `torch.einsum("bqhd,bkhd->bhqk", q, k)`.

    A letter of both tensors and the result counts a batch, one of both tensors alone is summed over, one of a single
    tensor and the result is that tensor's own. Tensors are read as they lie; nothing is transposed in memory.

    Args:
        equation: letters of a and b, separated by a comma, then -> and those of the result; without ->, the letters
            that occur once, in the order of the alphabet. At most four letters of each of the kinds above.
        a, b: f16, bf16, f32, f64, fp8, bf8 or i8, both the same.
        dtype: of the result, as for `matmul`.
        out: an array of the result's shape, to be written.

    Returns:
        The result, or `out`.

    Raises:
        DeviceError: an equation of another form, tensors that it does not fit, a letter whose lengths differ.
        RequestError: the chip lacks the type, or a tensor spans more than kernels address.
    """
    call = Call(stream)
    letters = read_equation(equation)
    operands = {"a": call.read("a", a).apart(), "b": call.read("b", b).apart()}
    lengths = _lengths(letters, operands)
    operands["b"].require(dtype=operands["a"].dtype)
    wanted = output_type(operands["a"].dtype, dtype)
    shape = tuple(lengths[letter] for letter in letters.result)
    outputs = call.outputs(out, c=(shape, wanted))
    groups = letters.groups()
    sizes = {group: tuple(lengths[letter] for letter in own) or (1,) for group, own in groups.items()}
    keys: dict[str, object] = {**sizes, "dtype": operands["a"].dtype, "out": wanted}
    memory: dict[str, Given] = {}
    for name, one in {**operands, "c": outputs.given["c"]}.items():
        if one is not None:
            order = ORDER[name]
            strides = _strides(order, groups, dict(zip(letters.of(name), one.strides, strict=True)))
            keys |= {f"{name}_strides": strides} if name != "c" or one.is_told else {}
            memory[name] = one.strided([length for group in order for length in sizes[group]], strides)
    c = memory.pop("c", None)
    found = call.run("batched_contraction", keys, memory, {"c": c})["c"]
    written = [letter for group in ORDER["c"] for letter in groups[group] or UNIT]
    steps = dict(zip(written, packed_strides(found.shape), strict=True))
    if c is None:
        found = found.strided(shape, [steps[letter] for letter in letters.result])
    return outputs.of({"c": found})


def _strides(order: str, groups: Mapping[str, str], own: Mapping[str, int]) -> tuple[int, ...]:
    """Of an array's dimensions, group by group; a group without letters is one dimension of length 1."""
    return tuple(own.get(letter, 1) for group in order for letter in groups[group] or UNIT)


class Letters(Struct, frozen=True):
    """Of both tensors and the result."""

    a: str
    b: str
    result: str

    def of(self, name: str) -> str:
        """The letters of a, b or c, the result."""
        return {"a": self.a, "b": self.b, "c": self.result}[name]

    def groups(self) -> dict[str, str]:
        """Letters of the batch, of a's own and of b's own in the order of the result, of the sums in a's."""
        both = set(self.a) & set(self.b)
        return {
            "g": "".join(one for one in self.result if one in both),
            "m": "".join(one for one in self.result if one in self.a and one not in both),
            "n": "".join(one for one in self.result if one in self.b and one not in both),
            "k": "".join(one for one in self.a if one in both and one not in self.result),
        }


def read_equation(equation: str) -> Letters:
    """Raises DeviceError for another form, and for what no product of two tensors is."""
    if not isinstance(equation, str):
        raise DeviceError(f"equation={shown(equation)}: expected the letters of two tensors, such as 'ij,jk->ik'")
    form = re.fullmatch(r"([A-Za-z]*),([A-Za-z]*)(?:->([A-Za-z]*))?", equation.replace(" ", ""))
    if form is None:
        raise DeviceError(f"equation {shown(equation)!r}: expected the letters of two tensors, such as 'ij,jk->ik'")
    a, b, result = form.groups()
    once = sorted(letter for letter in set(a + b) if (a + b).count(letter) == 1)
    letters = Letters(a, b, "".join(once) if result is None else result)
    for what, own in (("a", a), ("b", b), ("the result", letters.result)):
        twice = [letter for letter in own if own.count(letter) > 1]
        if twice:
            raise DeviceError(f"equation {equation!r}: {what} has {twice[0]} twice; diagonals are not taken")
    unknown = sorted(set(letters.result) - set(a + b))
    if unknown:
        raise DeviceError(f"equation {equation!r}: neither tensor has the result's {unknown[0]}")
    alone = sorted((set(a) ^ set(b)) - set(letters.result))
    if alone:
        raise DeviceError(
            f"equation {equation!r}: one tensor alone is summed over {alone[0]}; add it up with nn.reduce first"
        )
    from ckmlir.ops.contraction.contraction_spec import MOST_DIMENSIONS

    kinds = {"g": "count batches", "m": "are a's own", "n": "are b's own", "k": "are summed over"}
    for group, own in letters.groups().items():
        if len(own) > MOST_DIMENSIONS:
            raise DeviceError(
                f"equation {equation!r}: {len(own)} letters {kinds[group]}; expected at most {MOST_DIMENSIONS}"
            )
    return letters


def _lengths(letters: Letters, operands: Mapping[str, Given]) -> dict[str, int]:
    """How far each letter counts. Raises DeviceError where tensors do not fit."""
    found: dict[str, int] = {}
    for name, one in operands.items():
        own = letters.of(name)
        if one.ndim != len(own):
            raise DeviceError(f"{name}: shape {one.shape} for the letters {own!r}; expected {len(own)} dimensions")
        for letter, length in zip(own, one.shape, strict=True):
            if found.setdefault(letter, length) != length:
                raise DeviceError(f"{letter} counts to {found[letter]} in a and to {length} in b; expected one length")
    return found
