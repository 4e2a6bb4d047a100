"""What the operators of the contraction family have in common: choice of a kernel, launch, reference, tolerance.

What chooses (`choosing.py`) and what compares (`expected.py`) is imported when it is asked: a kernel of a library needs
neither.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from ckmlir.ops.arrays import ArraySpec, require_reachable
from ckmlir.ops.choice import chosen_keys, first_valid
from ckmlir.ops.contraction.contraction_spec import ContractionSpec
from ckmlir.ops.contraction.coverage import other_parts, other_sides
from ckmlir.ops.contraction.keys import PLAN_FIELDS, RENAMED
from ckmlir.ops.contraction.parts import part_length, parts_of
from ckmlir.ops.contraction.problem import REDUCTIONS, Problem
from ckmlir.ops.contraction.product_operator import ProductOperator
from ckmlir.ops.dtypes import find_dtype
from ckmlir.ops.operator import NOTHING, Launch, Run, Step
from ckmlir.ops.request import MAXIMUM_SIZE, RequestError
from ckmlir.ops.scalars import ceil_div, f32, f64, i32
from ckmlir.ops.spec import Reason, unlike
from ckmlir.ops.steps import OWN_KERNEL, Workspace
from ckmlir.targets import Target
from ckmlir.targets.cdna import WAVE_SIZE

if TYPE_CHECKING:
    from ckmlir.lang import Kernel
    from ckmlir.ops.comparison import Array, Tolerance
    from ckmlir.ops.contraction.wishes import Plan


class ContractionOperator(ProductOperator[Problem]):
    """A product of matrices with an epilogue."""

    spec_type = ContractionSpec
    renamed, plan_fields = RENAMED, PLAN_FIELDS

    def spec(self, problem: Problem, target: Target) -> ContractionSpec:
        """The kernel for a problem: the first plan of `ckmlir.ops.contraction.defaults` that the chip can run."""
        others = self.others(problem, target)
        return first_valid(self.proposals(problem, target), lambda one: self.validate(one, target), others)

    def others(self, problem: Problem, target: Target) -> Iterator[ContractionSpec]:
        """Kernels of blocks of any size, for a request that the chip runs none of `proposals` for."""
        from ckmlir.ops.contraction.choosing import in_other_blocks

        *_, last = self.proposals(problem, target)
        for named in in_other_blocks(problem, last, target):
            yield from self.proposals(named, target)

    def proposals(self, problem: Problem, target: Target) -> Iterator[ContractionSpec]:
        from ckmlir.ops.contraction.choosing import ways

        return (self.planned(problem, plan, sink, target) for plan, sink in ways(problem, target))

    def lengths(self, problem: Problem) -> Sequence[tuple[int, int, int]]:
        return (problem.lengths,)

    def chosen(self, problem: Problem, spec: ContractionSpec) -> dict[str, object]:
        found = chosen_keys(problem, spec, PLAN_FIELDS)
        reduction = next((name for name, sink in REDUCTIONS.items() if sink == spec.sink), None)
        return found if problem.reduction or not reduction else {**found, "reduction": reduction}

    def planned(self, asked: Problem, plan: Plan, sink: str, target: Target) -> ContractionSpec:
        """The kernel of a plan, whether the chip can run it or not."""
        from ckmlir.ops.contraction.choosing import planned

        return planned(self.name, asked, plan, sink, target)

    def mismatches(self, problem: Problem, spec: ContractionSpec, target: Target) -> list[Reason]:
        reasons = list(other_parts(problem, spec))
        problem = problem.parted() if spec.sink == "partial" else problem
        reasons += list(unlike(
            spec, operator=self.name, dtype=problem.dtype, b_dtype=problem.b_dtype, out=problem.out,
            layout=problem.layout,
            products=problem.products, op=problem.op, walk="grid", combine=problem.combine, merged=problem.words(),
            batch=len(problem.batch), windows=problem.windows_word, index_order=problem.index_order,
            shuffled=problem.shuffled, block=problem.block, waves=problem.waves, mfma=problem.mfma,
            epilogue=problem.epilogue, schedule=problem.schedule,
        ))  # fmt: skip
        for letter, size, length in zip("mnk", problem.lengths, spec.block, strict=True):
            if size % length and letter not in spec.pad:
                why = f"{letter}={size} is not a multiple of the block's {length}"
                reasons.append(Reason("pad", spec.pad, why, f"expected {letter} among the letters"))
        for name, given, needed in zip("abc", problem.aligned(), spec.align, strict=True):
            if given % needed:
                why = f"rows of array {name} are aligned to {given} elements"
                reasons.append(Reason("align", spec.align, why, f"expected at most {given} for {name}"))
        own = problem.index_align
        if bool(own) != bool(spec.sparse) or (own and own % spec.sparse):
            why = f"rows of the index are aligned to {own} bytes" if own else "A is dense"
            reasons.append(Reason("sparse", spec.sparse, why, f"expected {f'at most {own}' if own else 0}"))
        return reasons + list(other_sides(problem, spec))

    def build(self, spec: ContractionSpec, target: Target) -> Kernel:
        kernel: Kernel = importlib.import_module("ckmlir.ops.contraction.contraction_kernel").build(spec, target)
        return kernel

    def arrays(self, problem: Problem) -> tuple[ArraySpec, ...]:
        return problem.arrays()

    def writes_nothing(self, problem: Problem) -> bool:
        return 0 in (problem.m, problem.n, *problem.batch)

    def _values(self, problem: Problem, array: ArraySpec, generator: np.random.Generator) -> Array:
        from ckmlir.ops.contraction.shuffle import arrange
        from ckmlir.ops.packing import pack_values
        from ckmlir.ops.tensors.values import moved_values

        if array.name not in problem.operands:
            return moved_values(array, generator)
        shuffled = array.name != "a" and problem.shuffled > 0
        values: Array
        kind = problem.held[array.name != "a"]
        shape = (*array.shape[:-2], problem.n, kind.packed_length(problem.k)) if shuffled else array.shape
        if kind.packing is not None:
            values = generator.standard_normal((*shape[:-1], kind.packing.count(shape[-1])), dtype=np.float32)
            middle = (kind.packing.largest + kind.packing.least) / 2
            values = pack_values(4 * values + middle if kind.packing.is_integer else values, kind.name)
        elif problem.dtype == "i8":
            values = generator.integers(-128, 128, shape, dtype=np.int16)
        else:
            values = generator.standard_normal(shape, dtype=np.float32)
        return arrange(values, problem.shuffled, kind.bytes) if shuffled else values

    def reference(self, problem: Problem, arrays: Mapping[str, Array]) -> dict[str, Array]:
        """C in float64 before it is rounded; exactly in i32 (sums beyond its range wrap around, as in the matrix
        instruction).
        """
        from ckmlir.ops.contraction.reference import arrays_at

        c = np.zeros((*problem.batch, problem.m, problem.n), np.int32 if problem.out == "i32" else np.float64)
        for place in np.ndindex(*problem.batch):
            c[place] = self._outcome(problem, arrays_at(problem, arrays, place))
        return {"c": c}

    def _outcome(self, problem: Problem, arrays: Mapping[str, Array]) -> Array:
        """C of one product of the batch, from its arrays."""
        from ckmlir.ops.contraction.expected import outcome

        return outcome(problem, arrays)

    def expected(self, problem: Problem, arrays: Mapping[str, Array], target: Target) -> dict[str, Array]:
        from ckmlir.ops.tensors.rounding import saturated

        c = self.reference(problem, arrays)["c"]
        return {"c": saturated(c, problem.out, target) if problem.op else c}

    def tolerances(
        self, problem: Problem, arrays: Mapping[str, Array], reference: Mapping[str, Array], target: Target
    ) -> dict[str, Tolerance]:
        """CK Tile's rule for the sums (`tolerance.py`); through an expression by the bounds of `tensors.rounding`."""
        from ckmlir.ops.comparison import Tolerance
        from ckmlir.ops.contraction.reference import arrays_at

        found = [
            self._tolerance(problem, arrays_at(problem, arrays, place), reference["c"][place], target)
            for place in np.ndindex(*problem.batch)
        ]
        if not found:
            return {"c": Tolerance(0.0, 0.0, "nothing to compare")}
        if not problem.batch:
            return {"c": found[0]}
        shape = reference["c"].shape[len(problem.batch) :]
        atol, free = (
            np.stack([np.broadcast_to(value, shape) for value in values]).reshape(reference["c"].shape)
            for values in ([one.atol for one in found], [one.unspecified for one in found])
        )
        return {"c": Tolerance(max(one.rtol for one in found), atol, found[0].reason, free)}

    def _tolerance(
        self,
        problem: Problem,
        arrays: Mapping[str, Array],
        reference: Array,
        target: Target,
        moved: Array | float = 0.0,
        added: int | None = None,
    ) -> Tolerance:
        """`moved` is how far sums are off, since A and B are; `added` how many parts of them memory adds up, by default
        those of the kernel that `problem` has.
        """
        from ckmlir.ops.contraction.expected import tolerance_of

        added = self._added(problem, target) if added is None else added
        return tolerance_of(problem, arrays, reference, target, moved, added)

    def _added(self, problem: Problem, target: Target) -> int:
        """Parts that are added up in the output's own type."""
        return self._most_parts(problem, target) if problem.reduction == "atomic" else 1

    def _most_parts(self, problem: Problem, target: Target) -> int:
        """Parts that memory adds up at most."""
        spec = self.spec(problem, target)
        problem = self._counted(problem, spec)
        return 1 if spec.sink == "store" else parts_of(problem, part_length(problem, spec, target))

    def _counted(self, problem: Problem, spec: ContractionSpec) -> Problem:
        """The problem with K as long as a kernel counts it."""
        return problem

    def flops(self, problem: Problem) -> int:
        """A multiplication and an addition for each product."""
        return 2 * problem.m * problem.n * problem.k * problem.products * math.prod(problem.batch)

    def launch(self, problem: Problem, spec: ContractionSpec, target: Target) -> Launch:
        if self.writes_nothing(problem):
            return NOTHING
        require_rows(problem, spec)
        tiles_m, tiles_n = ceil_div(problem.m, spec.block[0]), ceil_div(problem.n, spec.block[1])
        parts, own, lies = self._shared(problem, spec, target)
        names = own.names
        strides = (stride for name in names for stride in own.batch_of(name).strides)
        integers = (own.m, own.n, own.k, *own.distances(), *own.batch[1:], *strides, *lies)
        numbers = (own.alpha, own.beta) if spec.op else ()
        arguments = (*spec.in_order(names, map(i32, integers)), *map(real_type(own), numbers))
        # The kernel numbers tiles row by row.
        shape = (tiles_n, tiles_m, *reversed(own.batch), *([parts] if lies else []))
        grid = (tiles_m * tiles_n, math.prod(own.batch), parts)
        return Launch(grid, (spec.wave_count * WAVE_SIZE, 1, 1), arguments, shape)

    def _shared(
        self, problem: Problem, spec: ContractionSpec, target: Target
    ) -> tuple[int, Problem, tuple[int, ...]]:
        """Parts, what a kernel computes of each, and the numbers that say how they lie."""
        if spec.sink == "store":
            return 1, problem, ()
        length = part_length(problem, spec, target)
        parts = parts_of(problem, length)
        if spec.sink == "atomic":
            return parts, problem, (length,)
        own = problem.parted()
        if own.part_outputs > MAXIMUM_SIZE:
            asked = problem.split_k or parts  # of which a short K has fewer
            what = f"a part's sums are {own.part_outputs} elements, and kernels count to {MAXIMUM_SIZE}"
            raise RequestError(f"{self.name}: split_k={asked}: {what}; expected split_k=1, or reduction=atomic")
        return parts, own, (length, own.part_outputs)

    def steps(self, problem: Problem, spec: ContractionSpec, target: Target) -> tuple[Step, ...]:
        """Behind the kernel that makes partial sums what adds them; before the one that adds them to C, zeros."""
        if spec.sink == "store" or self.writes_nothing(problem):
            return (OWN_KERNEL,)
        from ckmlir.ops.contraction.sum_parts import OF_PRODUCT, cleared, sum_of
        from ckmlir.ops.contraction.sum_parts import OPERATOR as SUM_PARTS

        if spec.sink == "atomic":
            return (cleared(problem.whole().arrays()[-1]), OWN_KERNEL)
        parts = parts_of(problem, part_length(problem, spec, target))
        return (OWN_KERNEL, Run(SUM_PARTS, sum_of(problem, parts), {}, OF_PRODUCT))

    def workspaces(self, problem: Problem, spec: ContractionSpec, target: Target) -> tuple[Workspace, ...]:
        if spec.sink != "partial" or self.writes_nothing(problem):
            return ()
        parted = problem.parted()
        size = (
            parts_of(problem, part_length(problem, spec, target)) * parted.part_outputs * find_dtype(parted.out).bytes
        )
        return tuple(Workspace(name, size) for name in parted.outputs)


def require_rows(problem: Problem, spec: ContractionSpec) -> None:
    """Raise RequestError where rows of C lie too far apart for blocks that reach behind the last."""
    if problem.merged is None and problem.m % spec.block[0]:
        for array in problem.arrays()[-len(problem.outputs) :]:
            require_reachable("ldc", problem.ldc, spec.block[0], array)


def real_type(problem: Problem) -> Callable[[float], np.float32 | np.float64]:
    """What kernels take alpha and beta as."""
    return f64 if problem.computing == "f64" else f32
