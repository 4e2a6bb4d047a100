"""The key whose value is an element-wise expression. What reads expressions is imported where one is given."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

from ckmlir.ops.request import Key, RequestError

if TYPE_CHECKING:
    from random import Random


class ExpressionKey(Key, frozen=True):
    """An element-wise expression over some arrays; with `many` several, separated by semicolons, as a tuple."""

    variables: tuple[str, ...] = ("a", "b", "c", "d")
    many: bool = False

    separator: ClassVar[str] = ";"

    @property
    def form(self) -> str:
        from ckmlir.ops.tensors.functions import function_names

        return f"an expression of {', '.join(self.variables)} with + - * / and {', '.join(function_names())}"

    def read(self, value: object) -> str | tuple[str, ...]:
        if self.many:
            parts = (
                value.split(";") if isinstance(value, str) else value if isinstance(value, (tuple, list)) else (value,)
            )
            return tuple(self._text(part) for part in parts)
        return self._text(value)

    def _text(self, value: object) -> str:
        from ckmlir.ops.tensors.expression import read_expression

        try:
            return read_expression(value, self.variables).text
        except RequestError as error:
            raise RequestError(f"{self.name}: {error}") from None

    def sample(self, random: Random, request: Mapping[str, object]) -> object:
        from ckmlir.ops.tensors.functions import sample_expression

        text = sample_expression(random, self.variables)
        return (text,) if self.many else text
