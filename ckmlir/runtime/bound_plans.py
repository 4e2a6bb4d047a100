"""An operator's kernels bound to one problem after another, each in microseconds.

Problems that came last are looked up. Of others, the first that takes some way through the operator's checks and its
launch is asked of the operator, and the way is recorded (`ckmlir.ops.symbolic`): what comes out is code that gives the
grids, scalars and sizes of every problem that takes the same way. Refusals are not recorded: a problem that takes no
known way is asked of the operator, which says why.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from ckmlir.runtime.bound_plan import BoundPlan, values_of
from ckmlir.runtime.operator_kernels import OperatorKernels
from ckmlir.runtime.recent import Recent

if TYPE_CHECKING:
    from ckmlir.ops.recorded import Recorded

TRIES = 8
"""Recordings that nobody has used, beyond which none is made: of some operators each size takes another way."""


class BoundPlans:
    """Bound plans of one operator's kernels, by problem. Any thread may use it."""

    def __init__(self, kernels: OperatorKernels) -> None:
        self._kernels = kernels
        self._recent: Recent[BoundPlan] = Recent()
        self._recorded: Recorded | None = None  # loaded when there is a second size
        self._first: Any = None
        self._examples: dict[int, BoundPlan] = {}
        self._unused = 0
        self._lock = threading.Lock()

    def of(self, problem: Any) -> BoundPlan:
        """The kernels bound to a problem. Raises RequestError for one that they do not compute, and what compiling,
        loading and preparing launches raise."""
        return self._recent.get(problem, self._new)

    def first(self, problem: Any, *, chosen: bool) -> BoundPlan:
        """The same for the first problem, which nobody records: there may be no other. Where the kernels' specification
        was `chosen` for it, nobody asks whether they compute it."""
        self._first = problem
        return self._recent.get(
            problem, lambda problem: BoundPlan.of(self._kernels, self._kernels.plan(problem, chosen=chosen))
        )

    def _new(self, problem: Any) -> BoundPlan:
        return self._by_recording(problem) or self._asked(problem)

    def _by_recording(self, problem: Any) -> BoundPlan | None:
        if self._recorded is None:
            return None
        try:
            found = self._recorded(problem)
            example = None if found is None else self._examples.get(found[0])
            if example is None:  # nobody has taken this way, or somebody is about to note its plan
                return None
            bound = example.with_values(found[1], lambda: self._kernels.plan(problem))
        except (ArithmeticError, ValueError):  # what the operator raises is better
            return None
        self._unused = 0
        return bound

    def _asked(self, problem: Any) -> BoundPlan:
        bound = BoundPlan.of(self._kernels, self._kernels.plan(problem))
        with self._lock:
            if self._recorded is None:
                from ckmlir.ops.recorded import Recorded

                self._recorded = Recorded(self._first)
            learned = self._recorded.learn(problem)
            if learned:
                self._recent.hash_by(self._recorded.hash)
            if learned or self._unused < TRIES:
                self._unused += not learned
                way = self._recorded.add(self._kernels.plan, problem, lambda plan: values_of(plan, bound.plan))
                if way is not None:
                    self._examples[way] = bound
        return bound
