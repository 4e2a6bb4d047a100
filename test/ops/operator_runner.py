"""Runs requests on the simulator and compares every output with the reference."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from ckmlir.ops import find_operator
from ckmlir.ops.comparison import Array
from ckmlir.runtime import Device, open_device
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


class Outcome(NamedTuple):
    """A request that was run: the problem, its inputs and its outputs."""

    problem: Any
    arrays: dict[str, Array]
    outputs: dict[str, Array]


def outcome(
    operator: Any,
    chip: str,
    keys: Mapping[str, object],
    given: Mapping[str, Array] | None = None,
    *,
    prepared: Callable[[Any, dict[str, Array]], dict[str, Array]] | None = None,
    specified: bool = False,
    device: Device | None = None,
) -> Outcome:
    """A request, all of whose outputs agree with the reference under all checkers.

    Args:
        given: replaces inputs; prepared: changes them by the problem before.
        specified: something is promised of every element of the outputs.
        device: that keeps what it has made of kernels from one request to the next; default: one of its own.
    """
    target = get_target(chip)
    problem = operator.problem(**keys)
    arrays = dict(operator.inputs(problem, target, seed=7))
    arrays = {**(prepared(problem, arrays) if prepared else arrays), **(given or {})}
    result = run_operator(operator, problem, arrays, target, device or watching(chip))
    comparisons = check_outputs(operator, problem, arrays, result.outputs, target)
    assert {one.name for one in comparisons} == set(result.outputs)
    assert all(one.ok and not (specified and one.unspecified) for one in comparisons), "; ".join(map(str, comparisons))
    return Outcome(problem, arrays, dict(result.outputs))


def watching(chip: str) -> Device:
    """A simulated device under all checkers."""
    return open_device("sim", get_target(chip), seed=11, checks="all")


def checked(name: str, chip: str, keys: Mapping[str, object], more: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The outputs of a request, whose inputs nothing is wrong with; `more` replaces inputs. See `outcome`."""
    operator = find_operator(name)
    found = outcome(operator, chip, keys, more)
    operator.check_inputs(found.problem, found.arrays)
    return found.outputs


def named(value: Any) -> str:
    """What a test case is called: a request's keys, an operator, a chip."""
    if isinstance(value, Mapping):
        return ",".join(f"{key}={one}" for key, one in value.items())
    return value if isinstance(value, str) else str(value.name)
