"""What is queued for a problem on a chip, in order: the steps of an operator and of the operators that it runs, with
names resolved and kernels specified. Nothing is compiled.

A plan is what devices run, and what `ckmlir list`, `compile`, `time`, `bench` and `schedule` go through.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from ckmlir.ops.arrays import ArraySpec
from ckmlir.ops.operator import Launch, Operator, Run, require_valid
from ckmlir.ops.request import RequestError
from ckmlir.ops.spec import Spec
from ckmlir.ops.steps import Fill, PackOnHost, Workspace, place_of
from ckmlir.targets import Target

if TYPE_CHECKING:
    from ckmlir.ops.comparison import Array

MOST_ITEMS, MOST_FURTHER = 2**32 - 1, 65535
"""Work-items along the first axis of a grid, which dispatch packets count in 32 bits, and workgroups along the others
(HIP, `hipDeviceProp_t.maxGridSize`)."""


class FillStep(Struct, frozen=True):
    """Set the first `nbytes` bytes of an array or workspace."""

    buffer: str
    byte: int
    nbytes: int

    def __str__(self) -> str:
        return f"fill {self.buffer} with {self.byte}, {self.nbytes} bytes"


class PackStep(Struct, frozen=True):
    """Fill a workspace by a function on the host.

    Attributes:
        inputs: arrays that the function reads, as it knows them -> the arrays and workspaces of the plan.
        function: see `ckmlir.ops.steps.PackOnHost`.
        places: whose addresses the function reads: their names as it knows them, and those of the plan.
    """

    workspace: str
    nbytes: int
    inputs: tuple[tuple[ArraySpec, str], ...]
    function: Callable[[Mapping[str, Array], Array], None]
    places: tuple[tuple[str, str], ...] = ()

    def __str__(self) -> str:
        read = [*(name for _, name in self.inputs), *(place_of(name) for _, name in self.places)]
        return f"pack {self.workspace} on the host from {', '.join(read) or 'nothing'}"


class KernelStep(Struct, frozen=True):
    """A launch of a kernel.

    Attributes:
        operator, problem, spec: whose kernel it is, for which problem.
        launch: its pointers name arrays and workspaces of the plan.
        is_own: the operator's own kernel, not that of another which it runs.
    """

    operator: Operator[Any, Any]
    problem: Any
    spec: Spec
    launch: Launch
    is_own: bool = True

    @property
    def arrays(self) -> tuple[str, ...]:
        """What it is called with, in the kernel's order."""
        return tuple([one for one in self.launch.arguments if isinstance(one, str)])

    def __str__(self) -> str:
        grid, block = ("x".join(map(str, sizes)) for sizes in (self.launch.grid, self.launch.block))
        return f"kernel {self.spec.name} on {', '.join(self.arrays)}: {grid} workgroups of {block}"


PlanStep = FillStep | PackStep | KernelStep


def described(step: PlanStep) -> dict[str, Any]:
    """A step in JSON's types: its kind, what it is called with, and of a kernel which one and how it is launched."""
    if isinstance(step, FillStep):
        return {"step": "fill", "arrays": [step.buffer], "byte": step.byte, "bytes": step.nbytes}
    if isinstance(step, PackStep):
        return {"step": "pack", "arrays": [step.workspace], "inputs": [name for _, name in step.inputs]}
    return {
        "step": "kernel",
        "op": step.operator.name,
        "kernel": step.spec.name,
        "spec": step.spec.to_dict(),
        "own": step.is_own,
        "arrays": list(step.arrays),
        "grid": list(step.launch.grid),
        "block": list(step.launch.block),
    }


class Plan(Struct, frozen=True):
    """Steps in order, and the device memory that they need besides the operator's arrays."""

    workspaces: tuple[Workspace, ...]
    steps: tuple[PlanStep, ...]

    @property
    def kernels(self) -> tuple[KernelStep, ...]:
        """The steps that launch a kernel."""
        return tuple(step for step in self.steps if isinstance(step, KernelStep))


def make_plan(operator: Operator[Any, Any], problem: Any, target: Target, spec: Spec | None = None) -> Plan:
    """The plan of a problem.

    Args:
        spec: of the operator's own kernel, which must be valid and fit the problem; by default what it chooses.

    Kernels of a grid without workgroups are left out.

    Raises:
        RequestError: the chip cannot run one of the kernels, or no launch takes its workgroups.
        ValueError: the operator's steps name buffers that are not there.
    """
    if spec is None:
        spec = operator.spec(problem, target)
        require_valid(operator, spec, target)
    declared = operator.steps(problem, spec, target)
    workspaces = list(operator.workspaces(problem, spec, target))
    if len(declared) > 1 or workspaces:
        return _Resolver(operator, problem, target, spec, workspaces).resolved(declared)
    step = KernelStep(operator, problem, spec, operator.launch(problem, spec, target))
    return Plan((), (step,) if _is_launched(step, target) else ())


def _is_launched(step: KernelStep, target: Target) -> bool:
    """Whether the grid has workgroups. Raises RequestError for more than a launch takes on any device."""
    (x, y, z), (items, _, _) = step.launch.grid, step.launch.block
    if x == 0 or y == 0 or z == 0:
        return False
    if y > MOST_FURTHER or z > MOST_FURTHER or x * items > MOST_ITEMS:
        raise RequestError(
            f"{step.operator.name} on {target.name}: {x}x{y}x{z} workgroups of {items} work-items; a launch takes at "
            f"most {MOST_ITEMS} work-items along its first axis and {MOST_FURTHER} workgroups along the others"
        )
    return True


class _Resolver:
    """Makes a plan of declared steps."""

    def __init__(
        self, operator: Operator[Any, Any], problem: Any, target: Target, spec: Spec, workspaces: list[Workspace]
    ) -> None:
        self.operator, self.problem, self.target, self.spec = operator, problem, target, spec
        self.arrays = {array.name: array for array in operator.arrays(problem)}
        self.workspaces = workspaces
        self.sizes = {name: array.nbytes for name, array in self.arrays.items()}
        self.sizes |= {workspace.name: workspace.nbytes for workspace in workspaces}
        self.steps: list[PlanStep] = []

    def resolved(self, declared: Sequence[object]) -> Plan:
        for step in declared:
            if isinstance(step, Fill):
                self.steps.append(FillStep(step.buffer, step.byte, self.size(step.buffer)))
            elif isinstance(step, PackOnHost):
                inputs = tuple((self.arrays[name], name) for name in step.inputs)
                for name in step.places:
                    self.size(name)
                places = tuple((name, name) for name in step.places)
                self.steps.append(PackStep(step.workspace, self.size(step.workspace), inputs, step.function, places))
            elif isinstance(step, Run):
                self.run(step)
            else:
                launch = self.operator.launch(self.problem, self.spec, self.target)
                self.add(KernelStep(self.operator, self.problem, self.spec, launch))
        return Plan(tuple(self.workspaces), tuple(self.steps))

    def size(self, name: str) -> int:
        if name not in self.sizes:
            raise ValueError(f"{self.operator.name}: a step names {name}; there are {', '.join(self.sizes)}")
        return self.sizes[name]

    def add(self, step: KernelStep) -> None:
        for name in step.arrays:
            self.size(name)
        if _is_launched(step, self.target):
            self.steps.append(step)

    def run(self, step: Run) -> None:
        """Another operator's plan with the names that its arrays have here."""
        inner = self.plan_of(step)
        names = {array.name: array.name for array in step.operator.arrays(step.problem)} | dict(step.arrays)
        for workspace in inner.workspaces:
            if workspace.name in step.arrays:
                continue
            names[workspace.name] = self.own_name(f"{step.operator.name}.{workspace.name}")
            self.workspaces.append(replace(workspace, name=names[workspace.name]))
            self.sizes[names[workspace.name]] = workspace.nbytes
        for one in inner.steps:
            if isinstance(one, FillStep):
                self.size(names[one.buffer])
                self.steps.append(replace(one, buffer=names[one.buffer]))
            elif isinstance(one, PackStep):
                inputs = tuple((array, names[name]) for array, name in one.inputs)
                places = tuple((own, names[name]) for own, name in one.places)
                self.steps.append(replace(one, workspace=names[one.workspace], inputs=inputs, places=places))
            else:
                arguments = tuple(names[item] if isinstance(item, str) else item for item in one.launch.arguments)
                self.add(replace(one, launch=replace(one.launch, arguments=arguments), is_own=False))

    def plan_of(self, step: Run) -> Plan:
        """Another operator's plan. Raises RequestError in the words of the operator that has it as a step."""
        try:
            return make_plan(step.operator, step.problem, self.target)
        except RequestError as error:
            from ckmlir.ops.inner import in_outer_words  # only where something is refused

            reasons = in_outer_words(str(error), step.operator.name, {**step.arrays, **step.words})
            raise RequestError(f"{self.operator.name} on {self.target.name}: {reasons}") from None

    def own_name(self, wanted: str) -> str:
        """A name that nothing has here yet."""
        name, number = wanted, 2
        while name in self.sizes:
            name, number = f"{wanted}{number}", number + 1
        return name
