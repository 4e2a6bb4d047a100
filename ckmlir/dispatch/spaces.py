"""Many kernels at once, written down as axes: the values of keys and of fields of the algorithm, in all combinations.

    {"schema": 1, "op": "gemm", "arch": ["gfx942", "gfx950"],
     "keys": {"dtype": ["f16", "bf16"], "layout": "*", "m": {"from": 256, "to": 4096, "times": 4}},
     "algorithm": {"block": [[128, 128, 64], [64, 64, 64]], "schedule": "*", "pad": ["", "mnk"]}}

`keys` are those of a request, as on the command line; each combination is a problem, and what the operator chooses for
it the beginning. Fields of the algorithm are then replaced, all combinations of them. An axis is a value, a list of
values, a range (`from`, `to` and either `step` or `times`), or "*": every value that the key takes, or that
`Operator.axes` has for the field. `"algorithm": "*"` stands for all fields there. What a chip cannot run, and what does
not compute the problem it was made for, is dropped and counted with its reason.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from ckmlir.dispatch.identity import Find, Kernel
from ckmlir.dispatch.reading import check_schema, fields_of, of_file, read_json
from ckmlir.errors import as_annotated, check_fields, counted, suggest
from ckmlir.ops import find_operator
from ckmlir.ops.operator import Operator, Run
from ckmlir.ops.plan import make_plan
from ckmlir.ops.remembered import Remembered
from ckmlir.ops.request import RequestError, show
from ckmlir.ops.spec import Reason, Spec
from ckmlir.targets import TARGETS, Target, UnsupportedTarget, get_target

EVERY = "*"
MOST = 10_000_000
"""Combinations of a space: what has more is a mistake, or takes an hour to validate."""

Axis = Sequence[object] | str
"""Values, a text as the only one, or `EVERY`."""


class Expansion(Struct):
    """What became of a space.

    Attributes:
        kernels: the valid ones, each once, in the order of the axes.
        others: kernels of other operators that theirs take too, those of sums behind split products for example.
        combinations: how many there were.
        dropped: why the others were left out, in words, and how often.
        repeated: combinations that gave a kernel which was there already.
    """

    kernels: list[Kernel] = field(default_factory=list)
    others: list[Kernel] = field(default_factory=list)
    combinations: int = 0
    dropped: Counter[str] = field(default_factory=Counter)
    repeated: int = 0

    def __str__(self) -> str:
        also = f", and {len(self.others)} that they take too" if self.others else ""
        lines = [f"{counted(len(self.kernels), 'kernel')} of {counted(self.combinations, 'combination')}{also}"]
        lines += [f"{count:>9} dropped: {reason}" for reason, count in self.dropped.most_common()]
        return "\n".join(lines + [f"{self.repeated:>9} repeated"] * bool(self.repeated))


class Space(Struct, frozen=True):
    """Axes of keys and of algorithms, in all combinations.

    Attributes:
        keys: of the request, by name; those that are not there have their defaults.
        algorithm: of the specification, by field.
    """

    operator: Operator[Any, Any]
    targets: tuple[Target, ...]
    keys: Mapping[str, Axis] = field(default_factory=dict)
    algorithm: Mapping[str, Axis] | str = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_fields(self, RequestError)
        if isinstance(self.algorithm, str) and self.algorithm != EVERY:
            raise RequestError(f"space: algorithm={show(self.algorithm)}: expected values of fields, or {EVERY}")

    def expand(self) -> Expansion:
        """All kernels of the space. Costs no compilation.

        Raises:
            RequestError: an unknown key or field, a wildcard for what has no list of values, too many combinations.
        """
        found = Expansion()
        requests = self._requests()
        kernels: dict[Kernel, None] = {}
        others: dict[Kernel, None] = {}
        for target in self.targets:
            for request in requests:
                self._expand_one(request, target, kernels, others, found)
        found.kernels = list(kernels)
        found.others = [one for one in others if one not in kernels]
        return found

    def _expand_one(
        self,
        request: Mapping[str, object],
        target: Target,
        kernels: dict[Kernel, None],
        others: dict[Kernel, None],
        found: Expansion,
    ) -> None:
        operator = self.operator
        try:
            problem = operator.problem(**request)
            base = operator.spec(problem, target)
        except RequestError as error:
            found.combinations += 1
            found.dropped[str(error)] += 1
            return
        axes = self._fields(base, target)
        if found.combinations + math.prod(map(len, axes.values())) > MOST:
            raise RequestError(f"a space of {operator.name} with more than {MOST} combinations; expected fewer values")
        varied = operator.varying(problem, base, target)
        objection = _objections(operator, problem, target)
        takes_others = Remembered[Spec, bool](lambda spec: _takes_others(operator, problem, spec, target))
        for values in itertools.product(*axes.values()):
            found.combinations += 1
            spec = varied(dict(zip(axes, values, strict=True)))
            reason = objection(spec)
            if reason is not None:
                found.dropped[reason] += 1
                continue
            try:
                if takes_others(spec):
                    others.update(dict.fromkeys(taken_too(operator, problem, spec, target)))
            except RequestError as error:
                found.dropped[str(error)] += 1
                continue
            kernel = Kernel(operator, spec, target)
            found.repeated += kernel in kernels
            kernels[kernel] = None

    def _requests(self) -> list[dict[str, object]]:
        known = {key.name: key for key in self.operator.keys}
        axes: dict[str, Sequence[object]] = {}
        for name, axis in self.keys.items():
            if name not in known:
                raise RequestError(f"{self.operator.name}: keys.{name}: unknown key; {suggest(name, known)}")
            values = _values(axis, known[name].choices_of_all)
            if not values:
                raise RequestError(f"{self.operator.name}: keys.{name}=*: it takes {known[name].form}; list values")
            axes[name] = values
        if math.prod(map(len, axes.values())) > MOST:
            raise RequestError(f"a space of {self.operator.name} with more than {MOST} requests; expected fewer values")
        return [dict(zip(axes, values, strict=True)) for values in itertools.product(*axes.values())]

    def _fields(self, base: Spec, target: Target) -> dict[str, Sequence[object]]:
        """The axes of the algorithm for what was chosen on a chip."""
        known = self.operator.axes(base, target)
        asked = dict.fromkeys(known, EVERY) if isinstance(self.algorithm, str) else self.algorithm
        roles = base.roles()
        axes: dict[str, Sequence[object]] = {}
        for name, axis in asked.items():
            if name not in roles or roles[name] is not None:
                fields = [one for one, role in roles.items() if role is None]
                what = "belongs to the signature, which keys decide" if name in roles else "unknown field"
                raise RequestError(f"{self.operator.name}: algorithm.{name}: {what}; {suggest(name, fields)}")
            values = _values(axis, known.get(name) or _both(getattr(base, name)))
            if not values:
                raise RequestError(f"{self.operator.name}: algorithm.{name}=*: there is no list of it; list values")
            axes[name] = [_typed(base, name, value) for value in values]
        return axes

    @staticmethod
    @as_annotated(RequestError)
    def from_dict(values: object, find: Find = find_operator) -> Space:
        """A space from JSON's types.

        Raises:
            RequestError: a field is missing, unknown or wrongly typed, an axis is none, the schema is newer.
        """
        parts = {"schema": int, "op": str, "arch": object}
        found = fields_of(values, "space", parts, {"keys": dict, "algorithm": object})
        check_schema(found["schema"], "space")
        operator = find(found["op"])
        keys = {name: _axis(f"keys.{name}", value) for name, value in found.get("keys", {}).items()}
        algorithm: Mapping[str, Axis] | str = EVERY
        if found.get("algorithm") != EVERY:
            given = fields_of(found, "space", parts, {"keys": dict, "algorithm": dict}).get("algorithm", {})
            algorithm = {name: _axis(f"algorithm.{name}", value) for name, value in given.items()}
        return Space(operator, _targets(found["arch"]), keys, algorithm)


@as_annotated(RequestError)
def space(operator: Operator[Any, Any], problem: Mapping[str, object], target: Target) -> Space:
    """All that an operator has axes for, for one problem, given by its keys."""
    return Space(operator, (target,), {name: (value,) for name, value in problem.items()}, EVERY)


@as_annotated(RequestError)
def read_spaces(path: Path, find: Find = find_operator) -> list[Space]:
    """The spaces of a file: one, or a list of them. Raises RequestError."""
    values = read_json(path)
    listed = values if isinstance(values, list) else [values]
    if not listed:
        raise RequestError(f"{path}: there is no space in it; expected one at least")
    with of_file(path):
        return [Space.from_dict(one, find) for one in listed]


@as_annotated(RequestError)
def expand(spaces: Sequence[Space]) -> Expansion:
    """All kernels of several spaces, each once. Raises RequestError as `Space.expand`."""
    whole, kernels, others = Expansion(), dict[Kernel, None](), dict[Kernel, None]()
    for one in spaces:
        part = one.expand()
        whole.combinations += part.combinations
        whole.repeated += part.repeated + sum(kernel in kernels for kernel in part.kernels)
        whole.dropped.update(part.dropped)
        kernels.update(dict.fromkeys(part.kernels))
        others.update(dict.fromkeys(part.others))
    whole.kernels = list(kernels)
    whole.others = [one for one in others if one not in kernels]
    return whole


def taken_too(operator: Operator[Any, Any], problem: Any, spec: Spec, target: Target) -> list[Kernel]:
    """The kernels of other steps that a problem takes with one. Raises RequestError where the chip cannot run these."""
    steps = make_plan(operator, problem, target, spec).kernels
    return [Kernel(step.operator, step.spec, target) for step in steps if not step.is_own]


def _takes_others(operator: Operator[Any, Any], problem: Any, spec: Spec, target: Target) -> bool:
    """Whether a problem takes kernels of other steps with one."""
    return any(isinstance(step, Run) for step in operator.steps(problem, spec, target))


def _objections(operator: Operator[Any, Any], problem: Any, target: Target) -> Callable[[Spec], str | None]:
    """What gives the first reason why a chip cannot run a kernel, or why it does not compute a problem. Kernels of one
    signature that agree in what a check reads are asked together.
    """

    def mismatches(spec: Spec, target: Target) -> Iterable[Reason]:
        return operator.mismatches(problem, spec, target)

    same = operator.spec_type.decisive()
    checks = [Remembered(partial(_first, one, target), same) for one in (*operator.checks(), mismatches)]

    def objection(spec: Spec) -> str | None:
        for check in checks:
            reason = check(spec)
            if reason is not None:
                return reason
        return None

    return objection


def _first(check: Callable[[Any, Target], Iterable[Reason]], target: Target, spec: Spec) -> str | None:
    """The first of a check's reasons, in words."""
    return next(map(str, check(spec, target)), None)


def _values(axis: Axis, known: Sequence[object]) -> Sequence[object]:
    """The values of an axis: those that are known for `EVERY`; text is a single value."""
    if isinstance(axis, str):
        return known if axis == EVERY else (axis,)
    return axis


def _both(value: object) -> tuple[object, ...]:
    """The values of a field that is yes or no."""
    return (False, True) if isinstance(value, bool) else ()


def _typed(base: Spec, name: str, value: object) -> object:
    """A value of a field as the specification holds it. Raises RequestError naming the field for another type."""
    return getattr(type(base).from_dict({**base.to_dict(), name: value}), name)


def _axis(what: str, value: object) -> Axis:
    if value == EVERY:
        return EVERY
    if isinstance(value, dict):
        return list(_range(what, value))
    values = value if isinstance(value, list) else [value]
    if not values:
        raise RequestError(f"space: {what}: the list is empty; expected a value at least")
    return values


def _range(what: str, value: object) -> Iterator[int]:
    optional = {"step": int, "times": int}
    found = fields_of(value, f"space: {what}", {"from": int, "to": int}, optional)
    if ("step" in found) == ("times" in found):
        raise RequestError(f"space: {what}: a range has either step or times")
    step, times, number = found.get("step", 0), found.get("times", 1), found["from"]
    endless = (step < 1 and times < 2) or (times > 1 and number < 1)
    if endless or number > found["to"]:
        raise RequestError(f"space: {what}={show(str(value))}: expected from up to to, step above 0 or times above 1")
    if step and (found["to"] - number) // step > MOST:
        raise RequestError(f"space: {what}: a range with more than {MOST} values")
    while number <= found["to"]:
        yield number
        number = number * times + step


def _targets(value: object) -> tuple[Target, ...]:
    names: Sequence[Any] = TARGETS if value == EVERY else value if isinstance(value, list) else [value]
    if not names:
        raise RequestError("space: arch: the list is empty; expected a chip at least")
    try:
        return tuple(get_target(name) for name in names)
    except UnsupportedTarget as error:
        raise RequestError(f"space: arch: {error}") from None
