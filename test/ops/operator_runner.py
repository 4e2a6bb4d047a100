"""Runs requests on the simulator and compares every output with the reference."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ckmlir.ops import find_operator
from ckmlir.runtime import open_device
from ckmlir.runtime.run import check_outputs, run_operator
from ckmlir.targets import get_target

CHIPS = ("gfx90a", "gfx942", "gfx950")


def agree(name: str, chip: str, **keys: object) -> None:
    """Run a request and compare every output; every array must have been compared."""
    operator, target = find_operator(name), get_target(chip)
    problem = operator.problem(**keys)
    arrays = operator.inputs(problem, target, seed=7)
    result = run_operator(operator, problem, arrays, target, open_device("sim", target, seed=11))
    comparisons = check_outputs(operator, problem, arrays, result.outputs, target)
    assert {one.name for one in comparisons} == {a.name for a in operator.arrays(problem) if a.role == "out"}
    assert all(one.ok for one in comparisons), "; ".join(map(str, comparisons))


def checked(name: str, chip: str, keys: Mapping[str, object], more: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The outputs of a request, which agree with the reference under all checkers; `more` replaces inputs."""
    operator, target = find_operator(name), get_target(chip)
    problem = operator.problem(**keys)
    arrays = {**operator.inputs(problem, target, seed=7), **(more or {})}
    operator.check_inputs(problem, arrays)
    result = run_operator(operator, problem, arrays, target, open_device("sim", target, seed=11, checks="all"))
    comparisons = check_outputs(operator, problem, arrays, result.outputs, target)
    assert all(one.ok for one in comparisons), "; ".join(map(str, comparisons))
    return dict(result.outputs)
