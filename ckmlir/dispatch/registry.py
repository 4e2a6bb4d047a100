"""Kernels that there are, found by what they compute.

    registry = Registry(expand(spaces).kernels)
    registry.fitting(gemm, problem, gfx942)     # those that compute it, in order
    next(iter(registry.search(gemm, problem, gfx942)))  # the first of them, which does not ask the others
    print(registry.explain(gemm, problem, gfx942))

A registry only says what exists; who compiles is somebody else. Kernels have priorities: among those that compute a
problem higher ones come first, then those that were added earlier. Any number of threads may use one.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from ckmlir.dispatch.fitting import Candidates, Entry, Fitting
from ckmlir.dispatch.identity import Find, Identifier, Kernel
from ckmlir.dispatch.reading import SCHEMA, check_schema, fields_of
from ckmlir.errors import as_annotated, suggest
from ckmlir.ops import find_operator
from ckmlir.ops.operator import Operator
from ckmlir.ops.request import RequestError, show
from ckmlir.ops.spec import Reason
from ckmlir.targets import Target

Subject = tuple[str, str]
"""An operator and a chip, by their names."""
LISTED = 20
"""Kernels that an explanation lists in words."""


class Explanation(Struct, frozen=True):
    """Every kernel of an operator for a chip, in order, with the reasons why it does not compute a problem.

    Attributes:
        what: operator and chip, for people.
        reasons: by kernel; none for those that do.
    """

    what: str
    reasons: Mapping[Kernel, tuple[Reason, ...]]

    @property
    def fitting(self) -> list[Kernel]:
        """The kernels that compute the problem, in order."""
        return [kernel for kernel, reasons in self.reasons.items() if not reasons]

    @property
    def nearest(self) -> str:
        """The kernel with the fewest reasons against it, with these, in a line; or that there is none."""
        if not self.reasons:
            return "there is none of this operator for this chip"
        kernel, reasons = min(self.reasons.items(), key=lambda one: len(one[1]))
        return f"the nearest is {kernel.spec.name}: " + (" | ".join(map(str, reasons)) or "it fits")

    def __str__(self) -> str:
        total = len(self.reasons)
        lines = [f"{self.what}: {len(self.fitting)} of {total} kernels compute the problem"]
        for kernel, reasons in list(self.reasons.items())[:LISTED]:
            lines.append(f"  {kernel.spec.name}: " + (" | ".join(map(str, reasons)) or "fits"))
        return "\n".join(lines + [f"  and {total - LISTED} more"] * (total > LISTED))


class Registry:
    """Kernels in an order, found by what they compute. Any number of threads may use one.

    Attributes:
        name: for people, in messages and files.
    """

    @as_annotated(RequestError)
    def __init__(self, kernels: Iterable[Kernel] = (), *, name: str = "kernels", priority: int = 0) -> None:
        self.name = name
        self._lock = threading.RLock()
        self._entries: dict[str, Entry] = {}
        self._names: dict[Subject, list[str]] = {}
        self._candidates: dict[Subject, Candidates] = {}
        self._version = self._added = 0
        for kernel in kernels:
            self.add(kernel, priority)

    # -- what is there -------------------------------------------------------------------------------------------------

    def add(self, kernel: Kernel, priority: int = 0) -> bool:
        """Add a kernel; whether it is new. One that is there keeps its place, with the higher priority of both.

        Raises RequestError unless it gets a kernel and a whole number as its priority.
        """
        if not isinstance(kernel, Kernel):
            raise RequestError(f"a registry holds kernels, got {kernel!r}")
        if not isinstance(priority, int):
            raise RequestError(f"priority={show(priority)}: expected a whole number")
        with self._lock:
            known = self._entries.get(kernel.identifier)
            if known is not None and known.priority >= priority:
                return False
            subject = kernel.operator.name, kernel.target.name
            if known is None:
                entry = Entry(kernel, priority, self._added, kernel.spec.signature())
                self._names.setdefault(subject, []).append(kernel.identifier)
            else:
                entry = replace(known, priority=priority)
            self._entries[kernel.identifier] = entry
            self._candidates.pop(subject, None)  # another thread that iterates over them keeps the old ones
            self._added += known is None
            self._version += 1
            return known is None

    @as_annotated(RequestError)
    def merge(self, other: Registry, priority: int | None = None) -> int:
        """Add all kernels of another registry, with their priorities or with this one; how many are new."""
        return sum(
            self.add(entry.kernel, entry.priority if priority is None else priority) for entry in other.entries()
        )

    @as_annotated(RequestError)
    def filter(
        self,
        *,
        operator: str | None = None,
        target: str | None = None,
        where: Callable[[Kernel], bool] | None = None,
        name: str | None = None,
    ) -> Registry:
        """A registry of the kernels of an operator, for a chip, for which `where` is true: those of them that are
        given; priorities and order stay.
        """
        found = Registry(name=name or self.name)
        for entry in self.entries(in_order_of_addition=True):
            kernel = entry.kernel
            of_operator = operator is None or kernel.operator.name == operator
            if of_operator and target in (None, kernel.target.name) and (where is None or where(kernel)):
                found.add(kernel, entry.priority)
        return found

    @as_annotated(RequestError)
    def entries(self, *, in_order_of_addition: bool = False) -> list[Entry]:
        """All kernels with their priorities, the first ones first."""
        with self._lock:
            entries = list(self._entries.values())
        return sorted(entries, key=lambda one: (0, one.order) if in_order_of_addition else one.rank)

    @property
    def version(self) -> int:
        """A number that changes when kernels come in."""
        return self._version

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[Kernel]:
        return iter([entry.kernel for entry in self.entries()])

    def __contains__(self, kernel: object) -> bool:
        return isinstance(kernel, Kernel) and kernel.identifier in self._entries

    @as_annotated(RequestError)
    def get(self, identifier: str) -> Kernel:
        """The kernel that is called so. Raises RequestError where there is none."""
        found = self._entries.get(identifier)
        if found is not None:
            return found.kernel
        parts = Identifier.parse(identifier)
        near = [one for one in self._entries if Identifier.parse(one).operator == parts.operator]
        what = f"{suggest(identifier, near[:500])}" if near else f"there is none of {parts.operator}"
        raise RequestError(f"registry {self.name}: no kernel {identifier}; {what}")

    # -- what computes a problem ---------------------------------------------------------------------------------------

    @as_annotated(RequestError)
    def fitting(self, operator: Operator[Any, Any], problem: Any, target: Target) -> list[Kernel]:
        """The kernels that compute a problem on a chip, in order of priority."""
        return list(self.search(operator, problem, target))

    @as_annotated(RequestError)
    def search(self, operator: Operator[Any, Any], problem: Any, target: Target) -> Fitting:
        """The same, found as far as they are asked for."""
        return Fitting(self._of(operator, target), problem)

    @as_annotated(RequestError)
    def explain(self, operator: Operator[Any, Any], problem: Any, target: Target) -> Explanation:
        """Every kernel of the operator for the chip, and why it does not compute the problem."""
        entries = self._of(operator, target).entries
        reasons = {entry.kernel: tuple(entry.kernel.against(problem)) for entry in entries}
        return Explanation(f"registry {self.name}: {operator.name} on {target.name}", reasons)

    def _of(self, operator: Operator[Any, Any], target: Target) -> Candidates:
        subject = operator.name, target.name
        with self._lock:
            found = self._candidates.get(subject)
            if found is None:
                entries = [self._entries[name] for name in self._names.get(subject, ())]
                found = self._candidates[subject] = Candidates(entries)
            return found

    # -- what there is of it -------------------------------------------------------------------------------------------

    def statistics(self) -> dict[str, Any]:
        """Numbers of kernels: all, by operator, by chip, and of different signatures; in JSON's types."""
        kernels = list(self)
        return {
            "kernels": len(kernels),
            "operators": dict(sorted(Counter(one.operator.name for one in kernels).items())),
            "chips": dict(sorted(Counter(one.target.name for one in kernels).items())),
            "signatures": len({(one.operator.name, one.target.name, one.spec.signature()) for one in kernels}),
        }

    @as_annotated(RequestError)
    def uncovered(self, operator: Operator[Any, Any], problems: Iterable[Any], target: Target) -> list[Any]:
        """The problems, of those given, that no kernel here computes."""
        return [problem for problem in problems if not self.search(operator, problem, target)]

    # -- files ---------------------------------------------------------------------------------------------------------

    def to_dict(self) -> dict[str, Any]:
        """In JSON's types: the schema, a name, statistics, and the kernels in the order of their addition."""
        entries = self.entries(in_order_of_addition=True)
        listed = [{**entry.kernel.to_dict(), "priority": entry.priority} for entry in entries]
        return {"schema": SCHEMA, "name": self.name, "statistics": self.statistics(), "kernels": listed}

    @staticmethod
    @as_annotated(RequestError)
    def from_dict(values: object, *, find: Find = find_operator, partial: bool = False) -> Registry:
        """The inverse of `to_dict`.

        Args:
            partial: a registry without kernels, and kernels that cannot be read, are what is wanted: they are left out.

        Raises:
            RequestError: a field is missing, unknown or wrongly typed; a kernel cannot be read, there is none, or there
                are fewer than the statistics say.
        """
        parts = {"schema": int, "name": str, "kernels": list}
        found = fields_of(values, "registry", parts, {"statistics": dict})
        check_schema(found["schema"], "registry")
        registry = Registry(name=found["name"])
        for number, one in enumerate(found["kernels"]):
            try:
                given = dict(one) if isinstance(one, dict) else one
                priority = given.pop("priority", 0) if isinstance(given, dict) else 0
                if isinstance(priority, bool) or not isinstance(priority, int):
                    raise RequestError(f"priority={show(priority)}: expected a whole number")
                kernel = Kernel.from_dict(given, find)
            except RequestError as error:
                if partial:
                    continue
                raise RequestError(f"registry {registry.name}: kernels[{number}]: {error}") from None
            registry.add(kernel, priority)
        if partial:
            return registry
        if not len(registry):
            raise RequestError(f"registry {registry.name}: it has no kernels; ask for a partial one if so meant")
        stated = found.get("statistics", {}).get("kernels", len(registry))
        if stated != len(registry):
            raise RequestError(
                f"registry {registry.name}: statistics.kernels={show(stated)}, and there are {len(registry)}; "
                "ask for a partial one if so meant"
            )
        return registry
