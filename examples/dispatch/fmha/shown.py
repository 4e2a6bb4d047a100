"""What the examples of attention share: a kernel is found for a request, run, and compared with NumPy.

On a GPU of the chip, else on the simulator.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import closing
from typing import Any

from ckmlir.dispatch import Dispatcher, Kernel, Registry, Selection
from ckmlir.dispatch.policies import Policy
from ckmlir.ops import find_operator
from ckmlir.runtime import check_outputs, open_device, run_operator
from ckmlir.targets import get_target


def candidates(name: str, arch: str, **request: Any) -> list[Kernel]:
    """The kernels that an operator considers for a request, the best first."""
    operator, target = find_operator(name), get_target(arch)
    return [Kernel(operator, one, target) for one in operator.candidates(operator.problem(**request), target)]


def choose(name: str, arch: str = "gfx942", policies: Iterable[Policy] = (), **request: Any) -> Selection:
    """The kernel for a request, of those that the operator considers."""
    registry = Registry(candidates(name, arch, **request))
    return Dispatcher(registry, get_target(arch), policies).select(name, **request)


def run(chosen: Selection) -> None:
    """Run a chosen kernel on arrays made from a seed, compare, and print a line for each output."""
    query, spec = chosen.query, chosen.kernel.spec
    operator, problem, target = query.operator, query.problem, query.target
    arrays = operator.inputs(problem, target)
    with closing(open_device("auto", target)) as device:
        found = run_operator(operator, problem, arrays, target, device, spec=spec)
    for one in check_outputs(operator, problem, arrays, found.outputs, target):
        print(" ".join(f"{name}={value}" for name, value in query.keys.items()), "|", one)
        assert one.ok, one


def show(name: str, arch: str = "gfx942", **request: Any) -> None:
    """Choose and run."""
    run(choose(name, arch, **request))
