"""What convolutions and their gradients have in common as operators: a product of matrices whose arrays have names and
shapes of their own.

The product's batch are the groups: channels of a group lie next to each other, so every matrix of the product has rows
as long as a place's channels of all groups.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from math import prod
from typing import ClassVar

import numpy as np
from msgspec.structs import asdict, replace

from ckmlir.ops.arrays import MAXIMUM_ARRAY_BYTES, ArraySpec, alignment
from ckmlir.ops.comparison import Array, Tolerance
from ckmlir.ops.contraction.block_sizes import LARGE, SMALL
from ckmlir.ops.contraction.contraction_spec import ContractionSpec
from ckmlir.ops.contraction.depthwise import Depthwise
from ckmlir.ops.contraction.operator import ContractionOperator
from ckmlir.ops.contraction.problem import Problem
from ckmlir.ops.contraction.residues import Residues
from ckmlir.ops.contraction.wishes import NARROWEST_FOR_TWO_STEPS
from ckmlir.ops.convolution.channels import ChannelsFirst
from ckmlir.ops.convolution.filled import Filled
from ckmlir.ops.convolution.geometry import Geometry
from ckmlir.ops.dtypes import find_dtype
from ckmlir.ops.gemm.batched_gemm import OPERATOR as PRODUCTS
from ckmlir.ops.operator import Launch, Run, Step
from ckmlir.ops.request import RequestError
from ckmlir.ops.scalars import ceil_div
from ckmlir.ops.steps import Fill, Workspace
from ckmlir.ops.tensors.arrays import packed
from ckmlir.ops.tensors.sliding import image_steps
from ckmlir.ops.tensors.values import moved_values
from ckmlir.targets import Target

NARROW_BLOCK = (64, 64, 32)
"""Block whose patches are loaded in narrow pieces: 8 by a lane of four waves, if they are single elements."""
TALL_BYTES, TALL_WAVES, TALL_SCHEDULE = 64, (4, 1), "compv3"
"""Of tall blocks: along K, so that several workgroups fit in the LDS of a compute unit; waves; one LDS buffer."""
OWN_FIELDS = ("geometry", "filled", "multiplied")
"""Of a convolution beside its product's."""
SLIM = 16
"""Columns of the narrowest blocks: those of the narrowest matrix instruction."""
SINGLE_DEPTH = 8
"""Elements along K of tall blocks whose patches are loaded as single elements: 8 by a lane."""


class ConvolutionProblem(Problem, frozen=True):
    """The product that a convolution, or a gradient of it, is.

    Attributes:
        multiplied: the product that the kernel makes, where that is another: of `filled` images and weights.
    """

    geometry: Geometry | None = None
    filled: Filled | None = None
    multiplied: ConvolutionProblem | None = None

    @property
    def shapes(self) -> Geometry:
        """The convolution."""
        assert self.geometry is not None
        return self.geometry

    @property
    def c_rows(self) -> int:
        """See `Problem`."""
        windows = self.windows
        return windows.images * prod(windows.sliding.image) if isinstance(windows, Residues) else self.m

    @property
    def classes(self) -> int:
        """See `Problem`."""
        return self.windows.even_classes if isinstance(self.windows, Residues) else 1

    @property
    def idle_classes(self) -> int:
        """See `Problem`."""
        return self.windows.classes - self.windows.even_classes if isinstance(self.windows, Residues) else 0

    @property
    def longest_sum(self) -> int:
        """See `Problem`."""
        return self.k * (self.windows.most_places if isinstance(self.windows, Residues) else 1)

    def whole(self) -> Problem:
        """See `Problem`."""
        return replace(self, m=self.c_rows, windows=None) if isinstance(self.windows, Residues) else self

    def parted(self) -> Problem:
        """See `Problem`; places of an image are as far apart in a part as its rows."""
        found = super().parted()
        if isinstance(found.windows, Residues):
            return replace(found, windows=replace(found.windows, lattice=found.ldc))
        return found

    def aligned(self) -> tuple[int, int, int]:
        """See `Problem`; vector arithmetic takes images of several groups at once."""
        if not isinstance(self.windows, Depthwise):
            return super().aligned()
        out = find_dtype(self.out).bytes
        return alignment(self.held[0].bytes, self.lda), 1, alignment(out, self.ldc, self.n)

    def plain(self) -> Problem:
        """The same product of matrices without groups."""
        fields = {name: value for name, value in asdict(self).items() if name not in OWN_FIELDS}
        return replace(Problem(**fields), windows=None, batch=(), batches=())


class ConvolutionOperator(ContractionOperator):
    """A product of matrices of which some are images.

    Attributes:
        names: what the arrays are called that the product's matrices a, b and c are.
    """

    names: ClassVar[Mapping[str, str]]

    @abstractmethod
    def _flat(self, problem: ConvolutionProblem, arrays: Mapping[str, Array]) -> tuple[Problem, dict[str, Array]]:
        """The product of packed matrices that it comes to, for every group, and its arrays; images as their patches."""

    @abstractmethod
    def _shaped(self, problem: ConvolutionProblem, values: Array) -> Array:
        """The output, of values (group, row, column) of that product."""

    @abstractmethod
    def _side_shape(self, problem: ConvolutionProblem, kind: str) -> tuple[int, ...]:
        """Of a D tensor."""

    def proposals(self, problem: Problem, target: Target) -> Iterator[ContractionSpec]:
        """Those of any product; but patches that are loaded in narrow pieces have small blocks, since a lane keeps
        coordinates and conditions of each, those of few columns tall ones, if there are so many, and those of 16
        columns at most blocks that are no wider.
        """
        depth = SINGLE_DEPTH if self._singly(problem) else TALL_BYTES // find_dtype(problem.stored).bytes
        if self._pays_tall(problem, target):
            for columns in ((SLIM,) if problem.n <= SLIM else ()) + (SMALL,):
                yield from super().proposals(_in_blocks(problem, (LARGE, columns, depth)), target)
        elif self._is_slim(problem):
            yield from super().proposals(_in_blocks(problem, (SMALL, SLIM, 2 * depth)), target)
        small = problem.block is None and self._narrow(problem)
        yield from super().proposals(replace(problem, block=NARROW_BLOCK) if small else problem, target)

    def _is_slim(self, problem: Problem) -> bool:
        """Whether blocks are left open of patches with 16 columns or fewer, whose loads are wide.

        By the model on gfx942, in us, of 64 columns and of 16: 2 images of 56 x 56, 64 channels to 8 by 3 x 3, 6.2 and
        5.4; gradient of 8 images of 112 x 112 with 3 channels, 64 by 7 x 7 with strides, 74.4 and 28.7.
        """
        windows = problem.windows
        named = (problem.block, problem.waves, problem.schedule, problem.mfma)
        patches = windows is not None and windows.image == "a" and not self._singly(problem)
        return patches and 0 < problem.n <= SLIM and not any(named)

    def _pays_tall(self, problem: Problem, target: Target) -> bool:
        """Whether blocks of 256 rows and 64 columns are left open and pay: there are no more columns, and a block for
        every compute unit. Single elements of a class's patches have too many conditions for them, unless these are
        bits (`Embed.few`).

        By the model on gfx942, in us, of 64 x 64 and of these: 32 images of 56 x 56, 64 channels to 64 by 3 x 3, 26.2
        and 14.2, gradient of the images 53.4 and 22.4; 224 x 224, 3 to 64 by 7 x 7 with strides, 76.1 and 42.4.
        """
        windows = problem.windows
        if windows is None or windows.image != "a" or problem.n > SMALL:
            return False
        if isinstance(windows, Residues) and self._singly(problem) and not windows.sliding.has_few_places:
            return False
        if any((problem.block, problem.waves, problem.schedule, problem.mfma)) or (problem.split_k or 1) > 1:
            return False
        classes = windows.classes if isinstance(windows, Residues) else 1
        return ceil_div(problem.m, LARGE) * classes * prod(problem.batch) >= target.compute_units

    def _singly(self, problem: Problem) -> bool:
        """Whether a lane loads single elements of patches, or pieces that are no wider than narrow ones."""
        return problem.aligned()[0] == 1 or self._narrow(problem)

    def _narrow(self, problem: Problem) -> bool:
        """Whether there are patches, and a lane loads less than `NARROWEST_FOR_TWO_STEPS` of them at a time."""
        if problem.windows is None:
            return False
        align = problem.aligned()["ab".index(problem.windows.image)]
        return align * find_dtype(problem.stored).bytes < NARROWEST_FOR_TWO_STEPS

    def _within_reach(self, problem: ConvolutionProblem, rows: Mapping[str, int]) -> ConvolutionProblem:
        """The problem, if what a workgroup spans of each matrix is within the reach of 32-bit offsets: at most so many
        `rows` of it; of images as many as those positions are in.

        Raises:
            RequestError: naming the array.
        """
        shapes, found = problem.shapes, {array.name: array for array in problem.arrays()}
        sliding = problem.windows.sliding if isinstance(problem.windows, Depthwise) else shapes.sliding
        pitches = {"a": problem.lda, "b": problem.ldb}
        for name, count in rows.items():
            pitch = pitches.get(name, problem.ldc)
            if problem.windows is not None and name == problem.windows.image:
                count = min(count // max(prod(sliding.positions), 1) + 2, shapes.n)
                pitch = image_steps(sliding, shapes.g * shapes.c)[0]
            reach = count * pitch * find_dtype(found[name].dtype).bytes
            if reach > MAXIMUM_ARRAY_BYTES and problem.m and problem.n:
                raise RequestError(
                    f"array {self.names.get(name, name)}: what a workgroup takes of it spans {reach} bytes; kernels "
                    f"address at most {MAXIMUM_ARRAY_BYTES}"
                )
        return problem

    @staticmethod
    def _shapes(problem: Problem) -> Geometry:
        """The convolution of a problem."""
        return of_convolution(problem).shapes

    def problem(self, **keys: object) -> Problem:
        found = super().problem(**keys)
        if found.dtype == "f64" and of_convolution(found).shapes.channels_first:
            raise RequestError(f"{self.name}: channels=first: nothing turns arrays of f64; expected channels=last")
        for array in self._first(found).values():
            array.on_the_way_in()  # raises for what no kernel turns
        return found

    def arrays(self, problem: Problem) -> tuple[ArraySpec, ...]:
        """In the order of the product's: images, weights and what they give, and the D tensors before the output."""
        first = self._first(problem)
        return tuple(
            replace(array, shape=first[array.name].shape, strides=packed(first[array.name].shape))
            if array.name in first else array
            for array in self._arrays_last(problem)
        )  # fmt: skip

    def _first(self, problem: Problem) -> dict[str, ChannelsFirst]:
        """The arrays that have channels first, by name."""
        own = of_convolution(problem)
        if not own.shapes.channels_first:
            return {}
        kinds = {name: name for name in self.names.values()}
        kinds |= {one.name: self.names["c"] for one in own.side if one.kind == "full"}
        return {
            array.name: ChannelsFirst(array.name, array.shape, _leading(kinds[array.name]), array.dtype)
            for array in self._arrays_last(problem)
            if array.name in kinds
        }

    def _called(self, problem: Problem, name: str) -> str:
        """What a launch knows an array of the product by, or a step an array of this operator."""
        known_as = self.names.get(name, name)
        first = self._first(problem)
        return first[known_as].turned if known_as in first else known_as

    def _arrays_last(self, problem: Problem) -> tuple[ArraySpec, ...]:
        """With channels last."""
        own = of_convolution(problem)
        shapes = {name: getattr(own.shapes, name.removeprefix("d")) for name in self.names.values()}
        *operands, output = (
            ArraySpec(known_as, shapes[known_as], dtype, role, packed(shapes[known_as]))
            for (name, known_as), dtype, role in zip(
                self.names.items(), (*(kind.name for kind in own.held), own.out), ("in", "in", "out"), strict=True
            )
        )
        sides = []
        for one in own.side:
            shape = self._side_shape(own, one.kind)
            sides.append(ArraySpec(one.name, shape, one.dtype, "in", packed(shape)))
        return (*operands, *sides, output)

    def _values(self, problem: Problem, array: ArraySpec, generator: np.random.Generator) -> Array:
        if array.name not in self.names.values():
            return moved_values(array, generator)
        if problem.dtype == "i8":
            whole: Array = generator.integers(-128, 128, array.shape, dtype=np.int16)
            return whole
        values: Array = generator.standard_normal(array.shape, dtype=np.float32)
        return values

    def reference(self, problem: Problem, arrays: Mapping[str, Array]) -> dict[str, Array]:
        """That of the product of matrices."""
        own = of_convolution(problem)
        values = PRODUCTS.reference(*self._flat(own, self._to_last(own, arrays)))["c"]
        return {self.names["c"]: self._result(own, values)}

    def expected(self, problem: Problem, arrays: Mapping[str, Array], target: Target) -> dict[str, Array]:
        own = of_convolution(problem)
        values = PRODUCTS.expected(*self._flat(own, self._to_last(own, arrays)), target)["c"]
        return {self.names["c"]: self._result(own, values)}

    def _to_last(self, problem: Problem, arrays: Mapping[str, Array]) -> dict[str, Array]:
        """Arrays with channels last."""
        first = self._first(problem)
        return {name: first[name].to_last(values) if name in first else values for name, values in arrays.items()}

    def _result(self, problem: ConvolutionProblem, values: Array) -> Array:
        """The output as it lies, of values (group, row, column) of the product."""
        found, first = self._shaped(problem, values), self._first(problem)
        return first[self.names["c"]].to_first(found) if first else found

    def tolerances(
        self, problem: Problem, arrays: Mapping[str, Array], reference: Mapping[str, Array], target: Target
    ) -> dict[str, Tolerance]:
        """Those of the same product of matrices, in as many parts."""
        own = of_convolution(problem)
        flat, joined = self._flat(own, self._to_last(own, arrays))
        flat = replace(flat, split_k=self._most_parts(own, target) if own.reduction == "atomic" else 1)
        found = PRODUCTS.tolerances(flat, joined, PRODUCTS.reference(flat, joined), target)["c"]
        shape = (*flat.batch, flat.m, flat.n)
        atol, free = (self._result(own, np.broadcast_to(value, shape)) for value in (found.atol, found.unspecified))
        return {self.names["c"]: Tolerance(found.rtol, atol, found.reason, free)}

    def launch(self, problem: Problem, spec: ContractionSpec, target: Target) -> Launch:
        found = super().launch(problem, spec, target)
        arguments = tuple(self._called(problem, one) if isinstance(one, str) else one for one in found.arguments)
        return replace(found, arguments=arguments)

    def steps(self, problem: Problem, spec: ContractionSpec, target: Target) -> tuple[Step, ...]:
        """Those of the product; arrays that have channels first are turned before and behind them."""
        found = tuple(self._named(problem, step) for step in super().steps(problem, spec, target))
        if self.writes_nothing(problem):
            return found
        first = self._first(problem)
        output = first.pop(self.names["c"], None)
        before = [step for array in first.values() for step in array.on_the_way_in()]
        return (*before, *self._filling(problem), *found, *(output.on_the_way_out() if output else ()))

    def _filling(self, problem: Problem) -> tuple[Run, ...]:
        """What fills arrays up, once their channels are last."""
        return ()

    def _named(self, problem: Problem, step: Step) -> Step:
        """A step of the product's, with the names that this operator's launch knows arrays by."""
        if isinstance(step, Fill):
            return replace(step, buffer=self._called(problem, step.buffer))
        if isinstance(step, Run):
            own = [array.name for array in step.operator.arrays(step.problem)]
            names = {name: step.arrays.get(name, name) for name in own}
            names[_output_of(step)] = self.names["c"]
            return replace(step, arrays={name: self._called(problem, other) for name, other in names.items()})
        return step

    def workspaces(self, problem: Problem, spec: ContractionSpec, target: Target) -> tuple[Workspace, ...]:
        """Those of the product, and arrays with their channels last."""
        found = super().workspaces(problem, spec, target)
        if self.writes_nothing(problem):
            return found
        return (*found, *(one for array in self._first(problem).values() for one in array.workspaces))


def as_shaped(flat: Problem, arrays: Mapping[str, Array]) -> dict[str, Array]:
    """Arrays in the shapes that a product asks for."""
    return {array.name: arrays[array.name].reshape(array.shape) for array in flat.arrays() if array.name in arrays}


def groups_first(problem: ConvolutionProblem, arrays: Mapping[str, Array]) -> dict[str, Array]:
    """The D tensors, those of all elements (…, group, channel) by groups."""
    given = [(one, arrays[one.name]) for one in problem.side]
    return {one.name: np.moveaxis(array, -2, 0) if one.kind == "full" else array for one, array in given}


def _in_blocks(problem: Problem, block: tuple[int, int, int]) -> Problem:
    """The problem in tall or slim blocks."""
    return replace(problem, block=block, waves=TALL_WAVES, schedule=TALL_SCHEDULE)


def _leading(name: str) -> int:
    """Dimensions before the spatial ones of an array: of images or weights, or of the gradient of one."""
    return 2 if name.removeprefix("d") == "w" else 1


def _output_of(step: Run) -> str:
    """The output of a step that adds parts to C, or sets it to zero."""
    return next(array.name for array in step.operator.arrays(step.problem) if array.role == "out")


def of_convolution(problem: Problem) -> ConvolutionProblem:
    """A problem of a convolution."""
    assert isinstance(problem, ConvolutionProblem)
    return problem
