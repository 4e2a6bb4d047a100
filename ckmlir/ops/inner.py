"""Refusals of an operator's steps, in the words of the operator that has them as steps.

A step is another operator. The user of the outer one never wrote the step's keys or arrays, so refusals are translated:
what asks for a step's problem (`inner_problem`), and what makes its plan (`ckmlir.ops.plan`), gives the outer names.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from ckmlir.ops.request import RequestError

if TYPE_CHECKING:
    from ckmlir.ops.operator import Operator

P = TypeVar("P")


def inner_problem(operator: Operator[P, Any], words: Mapping[str, str], **keys: object) -> P:
    """The problem of a step.

    Args:
        words: the step's keys and arrays -> what they are called outside, where that is something else.

    Raises:
        RequestError: the step refuses the keys; without the step's name, and in outer words.
    """
    try:
        return operator.problem(**keys)
    except RequestError as error:
        raise RequestError(in_outer_words(str(error), operator.name, words)) from None


def in_outer_words(text: str, step: str, words: Mapping[str, str]) -> str:
    """A refusal of a step without its name, and each reason once.

    >>> in_outer_words("gemm on gfx90a: n=3: odd | array c of shape 3x3 is large", "gemm", {"n": "inter", "c": "y"})
    'inter=3: odd | array y of shape 3x3 is large'
    """
    text = renamed(re.sub(rf"^{step}( on \w+)?: ", "", text), words)
    return " | ".join(dict.fromkeys(text.split(" | ")))


def renamed(text: str, words: Mapping[str, str]) -> str:
    """A refusal with other names of keys and arrays."""
    if not words:
        return text
    inner = "|".join(sorted(map(re.escape, words), key=len, reverse=True))
    named = rf"(?<![\w.])({inner})(?==)|(?:^|(?<= \| ))({inner})(?=: )|(?<=\barray )({inner})\b"
    return re.sub(named, lambda found: words[found[0]], text)
