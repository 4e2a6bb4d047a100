"""What an operator chooses where a request leaves keys open: the first candidate, in order of preference, that fits."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

from ckmlir.ops.spec import Reason, Spec

S = TypeVar("S", bound=Spec)


def first_valid(candidates: Iterable[S], reasons_against: Callable[[S], list[Reason]]) -> S:
    """The first candidate without a reason against it; where all have one, the last, whose reasons are then reported.

    Raises ValueError without candidates.
    """
    last = None
    for candidate in candidates:
        last = candidate
        if not reasons_against(candidate):
            break
    if last is None:
        raise ValueError("nothing to choose from")
    return last


def chosen_keys(problem: object, spec: Spec, fields: Mapping[str, str]) -> dict[str, object]:
    """By key, what the operator chose: of `fields` (key -> field of problem and specification) those that the problem
    leaves open (None).
    """
    return {key: getattr(spec, field) for key, field in fields.items() if getattr(problem, field) is None}
