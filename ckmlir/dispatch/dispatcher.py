"""Choosing a kernel for each problem that comes, from registries, by policies.

    dispatcher = Dispatcher(registry, gfx942, [Table(tuned), SizeBuckets("m"), FirstFit()])
    chosen = dispatcher.select("gemm", m=1000, n=512, k=512)
    chosen.kernel, chosen.rule                      # which, and who decided
    chosen.plan()                                   # all that is queued, step by step
    with closing(chosen.executable(device)) as gemm:
        gemm(a=a, b=b, c=c)

The chip is the caller's choice, never that of the GPU which happens to be here. A selection is remembered by the
request; asking again costs a lookup. Where no kernel of the registry computes a problem, the operator's own choice is
taken, to be compiled when it is first run; a `strict` dispatcher refuses instead, since compiling is not allowed while
a stream is captured into a graph.
"""

from __future__ import annotations

import os
import threading
from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

from ckmlir.dispatch.fitting import Fitting
from ckmlir.dispatch.identity import Kernel
from ckmlir.dispatch.policies import FirstFit, Policy, Query, Table, name_of, request_of
from ckmlir.dispatch.registry import Registry
from ckmlir.errors import CkmlirError, as_annotated
from ckmlir.ops import find_operator
from ckmlir.ops.operator import Operator, require_valid
from ckmlir.ops.plan import Plan, make_plan
from ckmlir.ops.request import RequestError
from ckmlir.targets import Target

if TYPE_CHECKING:
    from ckmlir.dispatch.misses import MissLog
    from ckmlir.runtime.device import Device
    from ckmlir.runtime.executable import Executable

REMEMBERED = 1 << 16
"""Selections that are remembered; then all are forgotten."""
JUST_IN_TIME = "the operator's choice, just in time"
MISSES = "CKMLIR_MISSES"
NOTHING_TO_LAUNCH = "nothing to launch"


class NoKernel(CkmlirError):
    """No kernel that there is computes a problem; the text says why not."""


class Selection(Struct, frozen=True):
    """A kernel for a problem.

    Attributes:
        rule: who decided: the name of a policy, `JUST_IN_TIME` or `NOTHING_TO_LAUNCH`.
        among: the kernels there were to choose from.
        passed: policies that were asked before and left the choice to others.
        strict: nothing may be compiled.
    """

    query: Query
    kernel: Kernel
    rule: str
    among: Sequence[Kernel] = ()
    passed: tuple[str, ...] = ()
    strict: bool = False

    @property
    def fitting(self) -> int:
        """How many kernels there were to choose from; they are counted when this is asked for."""
        return len(self.among)

    @as_annotated(RequestError)
    def plan(self, compute_units: int | None = None) -> Plan:
        """All that is queued, in order: fills, packing, and kernels, those of other operators too. Nothing is compiled.

        Args:
            compute_units: that the device has, where these are not the chip's.
        """
        target = self.query.target
        chip = msgspec.structs.replace(target, compute_units=compute_units) if compute_units else target
        return make_plan(self.query.operator, self.query.problem, chip, self.kernel.spec)

    def executable(self, device: Device) -> Executable:
        """The operator with this kernel, compiled where nobody has yet, loaded and ready to be called. To be closed.

        Raises:
            NoKernel: strict, and a kernel would have to be compiled.
            RequestError, DeviceError: as `Executable`.
        """
        from ckmlir.runtime.compile_cache import lookup
        from ckmlir.runtime.executable import Executable

        query = self.query
        for step in self.plan().kernels if self.strict else ():
            if lookup(step.operator, step.spec, query.target) is None:
                raise NoKernel(f"{step.spec.name} for {query.target.name} is not compiled, and may not be: strict")
        return Executable(device, query.operator, query.problem, target=query.target, spec=self.kernel.spec)

    def __str__(self) -> str:
        return f"{self.kernel}: {self.rule}, of {self.fitting}"


class Dispatcher:
    """Chooses a kernel of its registries for each problem, by the first of its policies that has an answer.

    Attributes:
        misses: requests that no kernel of the registry computed, and how often they were asked anew; what to build.
        log: where they are noted for later, with those that a table of tuned kernels did not know; by default the file
            that `CKMLIR_MISSES` names, if it names one.
    """

    @as_annotated(RequestError)
    def __init__(
        self,
        registry: Registry,
        target: Target,
        policy: Policy | Iterable[Policy] = (),
        *,
        strict: bool = False,
        log: MissLog | None = None,
    ) -> None:
        """Args:
        policy: one or several, asked in this order; where all pass, the first kernel that fits is taken.
        strict: refuse what would have to be compiled.

        Raises RequestError for what is none of these.
        """
        asked = tuple(policy) if isinstance(policy, Iterable) and not callable(policy) else (policy,)
        for one in asked:
            if not callable(one):
                raise RequestError(f"a policy is called with a query and the kernels that fit, got {one!r}")
        self.registry, self.target, self.strict = registry, target, strict
        self.policies: tuple[Policy, ...] = (*asked, FirstFit())
        self.misses: Counter[tuple[object, ...]] = Counter()
        self.log = _log_of_environment() if log is None else log
        self._selected: dict[Any, Selection] = {}
        self._version = registry.version
        self._lock = threading.Lock()

    def select(self, operator: str | Operator[Any, Any], /, **keys: object) -> Selection:
        """The kernel for a request.

        Args:
            operator: its name, or itself.
            keys: of the request, as `Operator.problem` takes them.

        Raises:
            RequestError: the request means nothing, the chip cannot run it, or a policy names a kernel that does not
                compute it.
            NoKernel: strict, and no kernel of the registry computes it.
        """
        if self._version != self.registry.version:
            self._forget()
        # With their types: to operators True is not 1.
        known: tuple[object, ...] = (operator, *keys.items(), *map(type, keys.values()))
        selected = self._selected  # where kernels come in meanwhile, what is chosen here is forgotten with it
        try:
            found = selected.get(known)
        except TypeError:  # a list among the values
            known = (*((name, _hashable(value)) for name, value in keys.items()), _hashable(operator))
            found = selected.get(known)
        if found is None:
            named = operator if isinstance(operator, Operator) else find_operator(operator)
            found = self.choose(Query(named, named.problem(**keys), self.target, keys))
            with self._lock:
                if len(selected) >= REMEMBERED:
                    selected.clear()
                selected[known] = found
        return found

    @as_annotated(RequestError)
    def choose(self, query: Query) -> Selection:
        """The kernel for a query; nothing is remembered. Raises as `select`."""
        fitting = self.registry.search(query.operator, query.problem, query.target)
        if not fitting:
            return self._without(query)
        tables = [policy for policy in self.policies if isinstance(policy, Table)]
        if tables and not any(table.knows(query) for table in tables):
            self._note(query)
        passed: list[str] = []
        for policy in self.policies:
            kernel = self._answer(policy, query, fitting)
            if kernel is not None:
                found = Selection(query, kernel, name_of(policy), fitting, tuple(passed), self.strict)
                if self.strict:
                    self._check_steps(found)
                return found
            passed.append(name_of(policy))
        raise AssertionError("first fit never passes")

    def _answer(self, policy: Policy, query: Query, fitting: Fitting) -> Kernel | None:
        """The first kernel that a policy names. It has to fit: a policy that means another one is mistaken."""
        answer = policy(query, fitting)
        if isinstance(answer, Iterable) and not isinstance(answer, str):
            answer = next(iter(answer), None)
        if answer is None:
            return None
        kernel = self.registry.get(answer) if isinstance(answer, str) else answer
        if not isinstance(kernel, Kernel):
            expected = "expected a kernel, an identifier, several of them, or None"
            raise RequestError(f"policy {name_of(policy)} answers {kernel!r}; {expected}")
        if kernel not in fitting:
            wrong = (kernel.operator.name, kernel.target.name) != (query.operator.name, query.target.name)
            reasons = [] if wrong else kernel.against(query.problem)
            why = " | ".join(map(str, reasons)) or "it is not among the kernels of the registry that do"
            raise RequestError(f"policy {name_of(policy)} chose {kernel}, which does not compute the problem: {why}")
        return kernel

    def _without(self, query: Query) -> Selection:
        operator, problem, target = query.operator, query.problem, query.target
        spec = operator.spec(problem, target)
        require_valid(operator, spec, target)
        if operator.writes_nothing(problem):  # nothing is launched of it, whichever it is
            return Selection(query, Kernel(operator, spec, target), NOTHING_TO_LAUNCH)
        missed = request_of(operator, query.keys, target)
        with self._lock:
            self.misses[missed] += 1
        self._note(query)
        if self.strict:
            found = self.registry.explain(operator, problem, target)
            raise NoKernel(
                f"no kernel of registry {self.registry.name} computes this {operator.name} on {target.name}, and a "
                f"strict dispatcher does not compile; {found.nearest}"
            )
        return Selection(query, Kernel(operator, spec, target), JUST_IN_TIME)

    def _note(self, query: Query) -> None:
        if self.log is not None:
            self.log.note(query.operator, query.keys, query.target)

    def _check_steps(self, selection: Selection) -> None:
        """Raise NoKernel unless the kernels of all other steps are in the registry too."""
        for step in selection.plan().kernels:
            kernel = Kernel(step.operator, step.spec, self.target)
            if kernel not in self.registry:
                raise NoKernel(
                    f"{selection.query.operator.name} also takes {kernel}, which is not in registry "
                    f"{self.registry.name}, and a strict dispatcher does not compile"
                )

    def _forget(self) -> None:
        with self._lock:
            self._version = self.registry.version
            self._selected = {}


def _hashable(value: object) -> object:
    """A value of a key that can be looked up: lists, also those of NumPy, as tuples."""
    listed = value.tolist() if hasattr(value, "tolist") else value
    if isinstance(listed, (list, tuple)):
        return tuple(map(_hashable, listed))
    return listed if isinstance(listed, Hashable) else repr(listed)  # which no key takes


def _log_of_environment() -> MissLog | None:
    """The file that `CKMLIR_MISSES` names; None where it names none."""
    path = os.environ.get(MISSES)
    if not path:
        return None
    from pathlib import Path

    from ckmlir.dispatch.misses import MissLog

    return MissLog(Path(path))
