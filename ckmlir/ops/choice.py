"""What an operator chooses where a request leaves keys open: the first candidate, in order of preference, that fits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

from ckmlir.ops.spec import Reason, Spec

S = TypeVar("S", bound=Spec)


def first_valid(candidates: Iterable[S], reasons_against: Callable[[S], list[Reason]], others: Iterable[S] = ()) -> S:
    """The first candidate without a reason against it, or the first of `others`, which are tried behind them.

    Where all have one, the last of those candidates whose reasons are the most common: what most of them lack is what
    a caller should hear of. Raises ValueError without candidates.
    """
    refused: dict[str, S] = {}
    common: Counter[str] = Counter()
    for candidate in candidates:
        reasons = reasons_against(candidate)
        if not reasons:
            return candidate
        text = " | ".join(map(str, reasons))
        common[text] += 1
        refused[text] = candidate
    if not refused:
        raise ValueError("nothing to choose from")
    for other in others:
        if not reasons_against(other):
            return other
    most = max(common.values())
    return [one for text, one in refused.items() if common[text] == most][-1]


def chosen_keys(problem: object, spec: Spec, fields: Mapping[str, str]) -> dict[str, object]:
    """By key, what the operator chose: of `fields` (key -> field of problem and specification) those that the problem
    leaves open (None).
    """
    return {key: getattr(spec, field) for key, field in fields.items() if getattr(problem, field) is None}
