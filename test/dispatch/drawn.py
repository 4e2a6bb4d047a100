"""Problems of every operator, drawn from its keys, so that operators which come later are covered as they are."""

from __future__ import annotations

from random import Random
from typing import Any

from ckmlir.ops import OPERATORS, find_operator
from ckmlir.ops.operator import Operator
from ckmlir.ops.request import RequestError

NAMES = tuple(OPERATORS)
MOST = 1 << 16
"""Sizes at the ends of their ranges are the fuzz's; problems here are chosen for, and not run."""


def problems(operator: Operator[Any, Any], count: int, seed: int = 1) -> list[Any]:
    """So many problems that the operator takes, few keys given in each; fewer where nearly all requests are refused."""
    random, found = Random(f"{operator.name} {seed}"), []
    for _ in range(20 * count):
        request: dict[str, object] = {key.name: key.default for key in operator.keys}
        given: dict[str, object] = {}
        for key in operator.keys:
            if random.random() < 0.3:
                value = key.read(key.sample(random, request))
                if not isinstance(value, int) or value <= MOST:
                    given[key.name] = request[key.name] = value
        try:
            found.append(operator.problem(**given))
        except RequestError:
            continue
        if len(found) == count:
            break
    return found


def operator_named(name: str) -> Operator[Any, Any]:
    return find_operator(name)
