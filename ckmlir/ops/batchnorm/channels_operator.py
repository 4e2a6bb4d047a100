"""What the operators share that sum up channels of images, make numbers of the sums, and map images by these."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import TypeVar

import numpy as np

from ckmlir.ops.arrays import ArraySpec
from ckmlir.ops.batchnorm import statistics
from ckmlir.ops.batchnorm.batchnorm2d_sums import OPERATOR as SUMS
from ckmlir.ops.batchnorm.batchnorm2d_sums import OUTPUTS
from ckmlir.ops.batchnorm.channels import PARTS, ChannelsSpec, invalid_channels
from ckmlir.ops.batchnorm.problem import Batchnorm2dBwdProblem, Batchnorm2dProblem
from ckmlir.ops.comparison import Array, Tolerance
from ckmlir.ops.elementwise.elementwise import OPERATOR as ELEMENTWISE
from ckmlir.ops.operator import Operator, Run, Step
from ckmlir.ops.spec import Reason
from ckmlir.ops.steps import OWN_KERNEL
from ckmlir.targets import Target

P = TypeVar("P", Batchnorm2dProblem, Batchnorm2dBwdProblem)
S = TypeVar("S", bound=ChannelsSpec)


class ChannelsOperator(Operator[P, S]):
    """An operator whose own kernel runs between the sums and the mapping."""

    @abstractmethod
    def _found(self, problem: P, arrays: Mapping[str, Array]) -> Mapping[str, statistics.Found]:
        """Every output in float64, and how far a kernel's may be from it."""

    def validate(self, spec: S, target: Target) -> list[Reason]:
        return invalid_channels(spec)

    def arrays(self, problem: P) -> tuple[ArraySpec, ...]:
        return tuple(problem.images.array(operand, role) for operand, role in problem.operands)

    def _values(self, problem: P, array: ArraySpec, generator: np.random.Generator) -> Array:
        return statistics.values(array, generator)

    def reference(self, problem: P, arrays: Mapping[str, Array]) -> dict[str, Array]:
        """Every output in float64."""
        return {name: one.value for name, one in self._found(problem, arrays).items()}

    def tolerances(
        self, problem: P, arrays: Mapping[str, Array], reference: Mapping[str, Array], target: Target
    ) -> dict[str, Tolerance]:
        """As `statistics.py` derives them."""
        types = {operand.name: operand.dtype for operand, _ in problem.operands}
        found = self._found(problem, arrays)
        return {name: statistics.tolerance(one, types[name], target) for name, one in found.items()}

    def steps(self, problem: P, spec: S, target: Target) -> tuple[Step, ...]:
        """Sums of parts, the operator's own kernel, the mapping."""
        parts = dict(zip(OUTPUTS, PARTS, strict=True))
        return (Run(SUMS, problem.sums.on(target), parts), OWN_KERNEL, Run(ELEMENTWISE, problem.mapping, {}))
