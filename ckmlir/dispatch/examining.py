"""What other processes find out about a kernel that may be chosen: does it compile, without spills, are its numbers
right, and how long does it take by the model.

Numbers are compared on the simulator, for a request like the one that is asked for, with sizes that are as small as the
kernel takes. How sizes lie to the blocks stays as it is: what leaves a rest there leaves the same rest here.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from typing import Any, NamedTuple

from msgspec import Struct

from ckmlir.dispatch.identity import Kernel
from ckmlir.dispatch.misses import Asked
from ckmlir.dispatch.policies import read_key
from ckmlir.dispatch.writing import resources_of
from ckmlir.errors import CkmlirError
from ckmlir.ops import find_operator
from ckmlir.ops.list_keys import Numbers
from ckmlir.ops.operator import Operator
from ckmlir.ops.request import Integer, RequestError
from ckmlir.runtime.compile_many import compile_named
from ckmlir.targets import get_target

STEP = 256
"""Sizes become less than three of these, with the same rest: no tile is longer."""
FEW = 2
"""What is less than a step (batches, heads, also sizes that are small) becomes this if it may."""
SMALL_BYTES = 1 << 20
"""Requests whose arrays have at most so many bytes in all keep their sizes."""
MOST_BYTES = 1 << 26
"""Requests whose arrays have more, with all sizes reduced, would take the simulator too long."""


class Examined(Struct, frozen=True):
    """What was found of a kernel that is right.

    Attributes:
        microseconds: by the model, of all launches; None where it was not asked, or has no answer.
        clock_mhz: of the model.
        checked: the request for which its numbers were compared; None where they were not, or all are too large.
        without_model: why the model has no answer; None where it has, or was not asked.
    """

    microseconds: float | None
    clock_mhz: float | None
    checked: str | None
    without_model: str | None = None


class Wanted(NamedTuple):
    """What is to be found out.

    Attributes:
        model: how long it takes by the model of time.
        check: whether its numbers are right.
        spills: a kernel that spills will do, too.
    """

    model: bool
    check: bool
    spills: bool


def examine(operator: Any, spec: Any, target: str, keys: Mapping[str, str], wanted: Wanted) -> Examined:
    """Compile a kernel and look at it. An operator is a name or itself.

    Args:
        keys: of the request that it is to compute.

    Raises:
        CkmlirError: it is refused: it cannot be compiled, spills, is wrong, or faults; the text says which.
    """
    compiled = compile_named(operator, spec, target)
    named = find_operator(operator) if isinstance(operator, str) else operator
    kernel = Kernel(named, spec, get_target(target))
    used = resources_of(compiled)
    spilled = {name: used[name] for name in ("vector_spills", "scratch") if used[name]}
    if spilled and not wanted.spills:
        raise CkmlirError("it spills: " + ", ".join(f"{name}={count}" for name, count in spilled.items()))
    microseconds = clock = checked = why = None
    if wanted.check:
        checked = _checked(kernel, keys)
    problem = named.problem(**keys)
    if wanted.model and not named.writes_nothing(problem):
        from ckmlir.dispatch.modelled import modelled_microseconds
        from ckmlir.sim.timing.parameters import load

        try:
            microseconds, clock = modelled_microseconds(kernel, problem), load(target).number("chip.clock")
        except CkmlirError as error:  # of the model: it says nothing against the kernel
            why = str(error)
    return Examined(microseconds, clock, checked, why)


def _checked(kernel: Kernel, keys: Mapping[str, str]) -> str | None:
    """The request for which a kernel's numbers are right on the simulator; None where all are too large. Raises
    CkmlirError where they are wrong.
    """
    from ckmlir.runtime import check_outputs, open_device, run_operator

    operator, target = kernel.operator, kernel.target
    given = smaller(kernel, keys)
    problem = operator.problem(**given)
    if _bytes(operator, problem) > MOST_BYTES:
        return None
    arrays = operator.inputs(problem, target)
    with closing(open_device("sim", target)) as device:
        result = run_operator(operator, problem, arrays, target, device, spec=kernel.spec)
    for one in check_outputs(operator, problem, arrays, result.outputs, target):
        if not one.ok:
            raise CkmlirError(f"wrong numbers: {one}")
    return str(Asked.of(operator, given, target))


def smaller(kernel: Kernel, keys: Mapping[str, str]) -> dict[str, object]:
    """A request like another one, with sizes as small as the same kernel takes."""
    operator = kernel.operator
    found: dict[str, object] = dict(keys)
    if _bytes(operator, operator.problem(**found)) <= SMALL_BYTES:
        return found
    sizes = [key.name for key in operator.keys if isinstance(key, (Integer, Numbers))]
    for _ in range(2):  # some may only become small after others: heads of queries after those of keys
        for name in sizes:
            for small in _cut(read_key(operator, name, found.get(name))):
                tried = {**found, name: small}
                try:
                    problem = operator.problem(**tried)
                except RequestError:
                    continue
                if not kernel.against(problem):
                    found = tried
                    break
    return found


def _cut(value: object) -> list[object]:
    """Smaller values of a key, the smallest first: of several sizes all, or one."""
    if isinstance(value, tuple):
        whole = tuple(map(_small, value))
        single = [(*value[:place], one, *value[place + 1 :]) for place, one in enumerate(whole)]
        return [one for one in dict.fromkeys((whole, *single)) if one != value]
    small = _small(value)
    return [] if small == value else [small]


def _small(size: object) -> object:
    if not isinstance(size, int) or isinstance(size, bool):
        return size
    return size if size <= FEW else FEW if size < STEP else size if size < 3 * STEP else 2 * STEP + size % STEP


def _bytes(operator: Operator[Any, Any], problem: Any) -> int:
    return sum(array.nbytes for array in operator.arrays(problem))
