"""What an operator is: a request becomes a problem, a problem a kernel, and its results are compared with NumPy's.

| step | method | depends on |
|---|---|---|
| read the user's keys | `problem` | nothing else |
| what to compile | `spec`, `validate`, `kernels`; `candidates`, `axes` | the chip's data; never a compiler |
| the kernel itself | `build` | the authoring language and MLIR, imported on first use |
| arrays | `arrays`, `inputs` | the problem |
| what is queued | `launch`; `steps` and `workspaces` where that is more | problem, specification and chip |
| what is right | `reference`, `tolerances` | NumPy |
"""

from __future__ import annotations

import importlib
import itertools
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import wraps
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from ckmlir.errors import CkmlirError
from ckmlir.ops.arrays import ArraySpec, check_addressable
from ckmlir.ops.dtypes import numpy_dtype
from ckmlir.ops.registry import OPERATORS
from ckmlir.ops.request import Key, RequestError, read_keys
from ckmlir.ops.spec import Reason, Spec, differences
from ckmlir.ops.steps import OWN_KERNEL, Fill, OwnKernel, PackOnHost, Workspace
from ckmlir.targets import Target

if TYPE_CHECKING:
    from ckmlir.lang import Kernel
    from ckmlir.ops.comparison import Array, Tolerance

P = TypeVar("P")
R = TypeVar("R")
S = TypeVar("S", bound=Spec)

Argument = str | np.int32 | np.int64 | np.float32 | np.float64
"""A kernel argument: the name of an array or workspace, or a scalar of the type that the kernel takes."""


class Launch(Struct, frozen=True):
    """How a kernel is started: workgroups, work-items a workgroup, and arguments in the kernel's order.

    Attributes:
        grid: with a zero in it there is nothing to launch.
        shape: the grid as the kernel sees it, where that has more axes, the fastest first: along an axis, workgroups
            have a part of their inputs in common. There may be fewer workgroups than it has places along its last axis.
        resident: all workgroups have to run at a time, since they wait for each other. A launch of more than the
            device's compute units hold of the compiled kernel is refused.
    """

    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    arguments: tuple[Argument, ...]
    shape: tuple[int, ...] | None = None
    resident: bool = False

    @property
    def is_empty(self) -> bool:
        return math.prod(self.grid) == 0


NOTHING = Launch((0, 1, 1), (1, 1, 1), ())
"""The launch of a problem that writes nothing."""


ASKED = {
    "arrays", "axes", "build", "candidates", "check_inputs", "chosen", "expected", "flops", "inputs", "kernels",
    "launch", "mismatches", "placed", "reference", "spec", "steps", "tolerances", "validate", "varying", "workspaces",
    "writes_nothing",
}  # fmt: skip
"""Methods of operators that take a problem, a specification or a chip."""


def explain(cls: type) -> None:
    """Have the methods of `ASKED` that a class defines say what they were given wrong. Static methods, which may take
    anything first, stay as they are.
    """
    for name in vars(cls).keys() & ASKED:
        found = vars(cls)[name]
        if callable(found) and not isinstance(found, staticmethod):
            setattr(cls, name, _explained(found))


def _explained(method: Callable[..., R]) -> Callable[..., R]:
    """A method of `ASKED`. Where it fails, and it was given another kind of problem, specification or chip, it raises
    RequestError that says so. Nothing is looked at before: spaces ask a hundred thousand times.
    """

    @wraps(method)
    def asked(self: Operator[Any, Any], *args: Any, **kwargs: Any) -> R:
        try:
            return method(self, *args, **kwargs)
        except CkmlirError:
            raise
        except Exception:
            _require_fit(self, method, args, kwargs)
            raise

    return asked


def _require_fit(
    operator: Operator[Any, Any], method: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> None:
    import inspect  # of no use where nothing fails

    try:
        given = inspect.signature(method).bind(operator, *args, **kwargs).arguments
    except TypeError:  # an argument too many or too few, as Python says
        return
    if "problem" in given:
        require_problem(operator, given["problem"])
    if "spec" in given:
        require_spec(operator, given["spec"])
    if "target" in given:
        require_target(operator, given["target"])


class Operator(ABC, Generic[P, S]):
    """An operator; each has one instance, found by name in `ckmlir.ops`."""

    name: ClassVar[str]
    renamed: ClassVar[Mapping[str, str]] = {}
    """Fields of the specification -> the keys that say them, where keys have other names."""
    plan_fields: ClassVar[Mapping[str, str]] = {}
    """Keys that may not ask for a kernel that keeps registers in scratch memory -> the specification's fields."""
    keys: tuple[Key, ...]
    spec_type: type[S]

    def __init_subclass__(cls) -> None:
        """Methods that users call with a problem, a specification and a chip say which of these is of another kind."""
        super().__init_subclass__()
        explain(cls)

    @property
    def summary(self) -> str:
        """What it computes, in a few words: the registry's. An operator that is not in it may set its own."""
        return OPERATORS[self.name].summary if self.name in OPERATORS else ""

    def problem(self, **keys: object) -> P:
        """The problem that `keys` describe; values are Python's or text as on the command line.

        Raises RequestError naming the key, its value, what is wrong and what would be right.
        """
        try:
            problem = self._problem(read_keys(self.keys, keys))
            for array in self.arrays(problem):
                check_addressable(array)
            return problem
        except RequestError as error:
            raise RequestError(f"{self.name}: {error}") from None

    @abstractmethod
    def _problem(self, values: Mapping[str, Any]) -> P:
        """The problem of keys that have been read one by one; checks them against each other."""

    @abstractmethod
    def spec(self, problem: P, target: Target) -> S:
        """The kernel to compile for a problem on a chip. It may be invalid there: `validate` says."""

    def proposals(self, problem: P, target: Target) -> Iterable[S]:
        """Kernels for a problem, the best first by the operator's rules, whether the chip can run them or not.

        `spec` is the first of them that it can. Most operators have one for each problem.
        """
        return (self.spec(problem, target),)

    def others(self, problem: P, target: Target) -> Iterable[S]:
        """Kernels for a request that the chip runs none of `proposals` for, of which `spec` is then the first that it
        runs."""
        return ()

    def candidates(self, problem: P, target: Target) -> list[S]:
        """The kernels for a problem that the chip can run, the best first, each once. Costs no compilation."""
        found = [one for one in dict.fromkeys(self.proposals(problem, target)) if not self.validate(one, target)]
        others = (one for one in self.others(problem, target) if not self.validate(one, target))
        return found or list(itertools.islice(others, 1))

    def axes(self, spec: S, target: Target) -> Mapping[str, Sequence[object]]:
        """What fields of the algorithm may be for a specification's signature on a chip, by field, to be tried in all
        combinations (`ckmlir.dispatch.spaces`); fields that are not there keep their values.
        """
        return {}

    def varying(self, problem: P, spec: S, target: Target) -> Callable[[Mapping[str, Any]], S]:
        """What gives the kernel of other values of some fields of the algorithm, and of those that follow from them and
        are not given. It is asked for once, and called for each combination of a space.
        """
        return spec.with_fields

    def chosen(self, problem: P, spec: S) -> dict[str, object]:
        """The keys of the kernel's making that the request left open, with what `spec` chose for them. Only operators
        with schedules say.
        """
        return {}

    @abstractmethod
    def validate(self, spec: S, target: Target) -> list[Reason]:
        """Why the chip cannot run this kernel; empty when it can."""

    def checks(self) -> Sequence[Callable[[S, Target], Iterable[Reason]]]:
        """What `validate` consists of: its first reason is that of the first of them that has one. Spaces ask each of
        them once for all kernels that agree in what it reads. Each may rely on the ones before.
        """
        return (self.validate,)

    @abstractmethod
    def kernels(self, target: Target) -> list[S]:
        """The kernels that default problems select on this chip, all valid. Costs no compilation."""

    def build(self, spec: S, target: Target) -> Kernel:
        """The kernel's tile IR. Imports the compiler; the code is in the module `<operator's module>_kernel`."""
        kernel: Kernel = importlib.import_module(f"{type(self).__module__}_kernel").build(spec, target)
        return kernel

    @abstractmethod
    def arrays(self, problem: P) -> tuple[ArraySpec, ...]:
        """The arrays that take part in this problem, in the order of the kernel's arguments."""

    def writes_nothing(self, problem: P) -> bool:
        """Whether no output has an element: then there is nothing to launch, and sizes need not fit a kernel."""
        return all(0 in array.shape for array in self.arrays(problem) if array.role == "out")

    def inputs(self, problem: P, target: Target, seed: int = 0) -> dict[str, Array]:
        """Input arrays made from the seed. Each depends on the seed and its own name and shape only, but for those that
        have to agree with each other (`_together`).
        """
        from zlib import crc32

        from ckmlir.ops.shared_places import from_shared_places

        together = self._together(problem, np.random.default_rng([seed]))
        made = {}
        for array in self.arrays(problem):
            if array.role == "in":
                generator = np.random.default_rng([seed, crc32(array.name.encode())])
                values = together.get(array.name)
                if values is None:
                    values = self._values(problem, array, generator)
                made[array.name] = from_shared_places(values.astype(numpy_dtype(array.dtype, target)), array.strides)
        return made

    def _together(self, problem: P, generator: np.random.Generator) -> Mapping[str, Array]:
        """Values of input arrays that have to agree with each other, such as lengths, where sequences begin, and page
        tables; by name. The others are made one by one.
        """
        return {}

    def check_inputs(self, problem: P, arrays: Mapping[str, Array]) -> None:
        """Whether input arrays of the host can be meant: indices, lengths, where sequences begin, which kernels trust.

        Raises:
            RequestError: naming the array, what is wrong with it and what would be right.
        """
        return

    @abstractmethod
    def _values(self, problem: P, array: ArraySpec, generator: np.random.Generator) -> Array:
        """Values of an input array before rounding to its dtype; shape `array.shape`. Not asked for those made
        together."""

    def placed(self, problem: P, target: Target, addresses: Mapping[str, int]) -> Mapping[str, Array]:
        """Input arrays that say where other arrays lie, by name, once these have addresses; most operators have none.
        `inputs` makes them of zeros.
        """
        return {}

    @abstractmethod
    def reference(self, problem: P, arrays: Mapping[str, Array]) -> dict[str, Array]:
        """Every output as NumPy computes it from the input arrays: in float64, or exactly for integers."""

    def expected(self, problem: P, arrays: Mapping[str, Array], target: Target) -> dict[str, Array]:
        """`reference` on a chip: operators override it where an output has a format of the chip (8-bit floats)."""
        return self.reference(problem, arrays)

    @abstractmethod
    def tolerances(
        self, problem: P, arrays: Mapping[str, Array], reference: Mapping[str, Array], target: Target
    ) -> dict[str, Tolerance]:
        """How far each output may be from `reference` on a chip, given the input arrays."""

    @abstractmethod
    def launch(self, problem: P, spec: S, target: Target) -> Launch:
        """How the kernel of `spec` is started for this problem.

        `target` is the chip with the compute units that the device really has: a persistent grid is those times the
        workgroups that the specification puts on each.
        """

    def steps(self, problem: P, spec: S, target: Target) -> tuple[Step, ...]:
        """All that is queued for a problem, in this order; `spec` is that of the operator's own kernel."""
        return (OWN_KERNEL,)

    def workspaces(self, problem: P, spec: S, target: Target) -> tuple[Workspace, ...]:
        """Device memory that the steps need besides the operator's arrays; most need none."""
        return ()

    def mismatches(self, problem: P, spec: S, target: Target) -> list[Reason]:
        """Why the kernel of `spec` does not compute this problem; empty when it does.

        By default it computes those for which `spec` would choose it. Operators override this where a kernel does more,
        and where choosing takes longer than looking.
        """
        chosen = self.spec(problem, target)
        return [] if chosen == spec else differences(spec, chosen)

    def flops(self, problem: P) -> int | None:
        """Floating-point operations that the problem takes, as speeds are counted; None where bytes alone matter."""
        return None


explain(Operator)


class Run(Struct, frozen=True):
    """Another operator with all its steps; or the same operator, for another problem.

    Attributes:
        operator, problem: what runs.
        arrays: its arrays' names -> the arrays and workspaces here that stand for them; others keep their names. A
            workspace of its own that is named here is left behind in the one that stands for it.
        words: its keys -> the keys here that they follow from, for refusals (`ckmlir.ops.inner`).
    """

    operator: Operator[Any, Any]
    problem: Any
    arrays: Mapping[str, str]
    words: Mapping[str, str] = {}


Step = Fill | PackOnHost | OwnKernel | Run
"""What an operator may have queued. `ckmlir.ops.plan` resolves names and nested operators."""


def require_operator(operator: object) -> None:
    """Raise RequestError for anything but an operator, such as an operator's name."""
    if not isinstance(operator, Operator):
        raise RequestError(f"an operator is what find_operator('gemm') gives, got {operator!r:.80}")


def require_problem(operator: Operator[P, S], problem: object) -> None:
    """Raise RequestError for anything but a problem of the operator."""
    if not isinstance(problem, type(operator.problem())):
        name = operator.name
        raise RequestError(f"{name}: a problem is what find_operator('{name}').problem(…) gives, got {problem!r:.80}")


def require_spec(operator: Operator[P, S], spec: object) -> None:
    """Raise RequestError for anything but a specification of the operator."""
    if not isinstance(spec, operator.spec_type):
        raise RequestError(f"{operator.name}: a {operator.spec_type.__name__} is needed, got {type(spec).__name__}")


def require_target(operator: Operator[P, S], target: object) -> None:
    """Raise RequestError for anything but a chip."""
    if not isinstance(target, Target):
        raise RequestError(f"{operator.name}: a chip is what get_target('gfx942') gives, got {target!r:.80}")


def require_kinds(operator: Operator[P, S], spec: S, target: Target) -> None:
    """Raise RequestError unless these are an operator, a specification of it and a chip."""
    require_operator(operator)
    require_spec(operator, spec)
    require_target(operator, target)


def require_valid(operator: Operator[P, S], spec: S, target: Target) -> None:
    """Raise RequestError with every reason why the chip cannot run the kernel, if there is any, by keys' names."""
    require_kinds(operator, spec, target)
    found = operator.validate(spec, target)
    reasons = [replace(one, field=operator.renamed.get(one.field, one.field)) for one in found]
    if reasons:
        raise RequestError(f"{operator.name} on {target.name}: " + " | ".join(dict.fromkeys(map(str, reasons))))
