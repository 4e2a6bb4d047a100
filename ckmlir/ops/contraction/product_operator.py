"""What operators have in common whose kernel is one of products."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from ckmlir.ops.contraction.contraction_spec import ContractionSpec
from ckmlir.ops.operator import Operator
from ckmlir.ops.spec import Reason, not_a_choice
from ckmlir.targets import Target

P = TypeVar("P")


class ProductOperator(Operator[P, ContractionSpec]):
    """An operator whose kernel is one of products, with the axes that all of them have."""

    @abstractmethod
    def lengths(self, problem: P) -> Sequence[tuple[int, int, int]]:
        """Rows, columns and length of the sums of each product, as far as kernels have to know what divides them."""

    def axes(self, spec: ContractionSpec, target: Target) -> Mapping[str, Sequence[object]]:
        from ckmlir.ops.contraction.axes import axes_of

        return axes_of(spec, target)

    def varying(
        self, problem: P, spec: ContractionSpec, target: Target
    ) -> Callable[[Mapping[str, Any]], ContractionSpec]:
        from ckmlir.ops.contraction.axes import varying

        return varying(spec, self.lengths(problem))

    def validate(self, spec: ContractionSpec, target: Target) -> list[Reason]:
        from ckmlir.ops.contraction.validity import invalid_fields  # kernels that are there need no checks

        return list(self._owned(spec, target)) or invalid_fields(spec, target)

    def checks(self) -> Sequence[Callable[[ContractionSpec, Target], Iterable[Reason]]]:
        from ckmlir.ops.contraction.validity import CHECKS

        return [self._owned, *(check for group in CHECKS for check in group)]

    @property
    def owners(self) -> tuple[str, ...]:
        """Names of the operators whose kernels its own kernel may be."""
        return (self.name,)

    def _owned(self, spec: ContractionSpec, target: Target) -> Iterator[Reason]:
        return not_a_choice(spec, operator=self.owners)
