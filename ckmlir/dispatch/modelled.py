"""A policy that asks the model of time (docs/timing.md): the kernel whose launches are the fastest by the model.

Every kernel that is asked about is compiled and recorded, about a second each, so this is for building tables, and for
problems that come often. Times are the model's; no GPU is asked.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ckmlir.dispatch.identity import Kernel
from ckmlir.dispatch.policies import Answer, Query


class FastestByModel:
    """The kernel whose launches are the fastest by the model of time.

    Attributes:
        most: how many kernels are asked about, in the registry's order.
        microseconds: what was found, by kernel and problem as text.
    """

    name = "model of time"

    def __init__(self, most: int = 8) -> None:
        self.most = most
        self.microseconds: dict[tuple[Kernel, str], float] = {}

    def __call__(self, query: Query, fitting: Sequence[Kernel]) -> Answer:
        if query.operator.writes_nothing(query.problem):
            return None  # nothing is launched
        return sorted(fitting[: self.most], key=lambda kernel: self._time(kernel, query.problem))

    def _time(self, kernel: Kernel, problem: Any) -> float:
        key = kernel, repr(problem)
        if key not in self.microseconds:
            self.microseconds[key] = modelled_microseconds(kernel, problem)
        return self.microseconds[key]


def modelled_microseconds(kernel: Kernel, problem: Any) -> float:
    """The sum of all launches that a problem takes with a kernel, by the model.

    Raises:
        CkmlirError: the packages of the model are not installed, or it refuses (`ckmlir.runtime.timing`).
    """
    from ckmlir.runtime.timing import model_kernels
    from ckmlir.sim.timing.parameters import load

    parameters = load(kernel.target.name)
    models = model_kernels(kernel.operator, problem, kernel.target, parameters, spec=kernel.spec)
    return sum(model.under(parameters).grid.microseconds for model in models)
