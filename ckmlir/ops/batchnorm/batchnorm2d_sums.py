"""batchnorm2d_sums: two sums of every channel over parts of the places, the first step of batch normalisation.

    moments           sum of x - first, sum of its squares; `first` is the first element of the channel
    gradients         sum of dy, sum of dy (x - mean)
    masked_gradients  the same with dy only where y > 0

All is f64, whose range holds the squares and products of f32. Squares of x - first are those of a shifted sample (Chan,
Golub, LeVeque, "Algorithms for computing the sample variance", 1983): a mean far from zero takes no digits from the
variance, and a channel of equal elements has none.

A part is so many consecutive rows (channels last) or images (channels first). Sums have no order but one that the
problem fixes.

Arrays: x, with gradients dy and y where it masks (`images.py`), mean (c, f32); sums, products (parts, c), f64.

Kernel arguments: x, dy, y; mean, or x again; sums, products; lengths, numbers of tiles, strides; part (i32). Grid:
tiles of channels, parts.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from math import prod
from typing import Any

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from ckmlir.digests import digest_of
from ckmlir.ops.arrays import ArraySpec
from ckmlir.ops.batchnorm.images import LAYOUTS, Images, image_keys, pitch_of, read_images, stride_key
from ckmlir.ops.comparison import Array, Tolerance
from ckmlir.ops.dtypes import find_dtype
from ckmlir.ops.operator import NOTHING, Argument, Launch, Operator
from ckmlir.ops.precision import PRECISIONS
from ckmlir.ops.request import MAXIMUM_SIZE, Choice, Integer, RequestError
from ckmlir.ops.rows.arrays import FLOATS
from ckmlir.ops.scalars import ceil_div, i32
from ckmlir.ops.spec import Reason, by, not_a_choice, unlike
from ckmlir.ops.tensors.arrays import Operand, packed
from ckmlir.ops.tensors.expression import evaluate_exactly, parse
from ckmlir.ops.tensors.folding import Folded
from ckmlir.ops.tensors.tiling import (
    MAXIMUM_REACH,
    MAXIMUM_WORKGROUPS,
    THREADS,
    TileSpec,
    array_fields,
    choose_tile,
    invalid_tiles,
    launch_scalars,
    tile_counts,
    tile_fields,
    uncovered_tiles,
)  # fmt: skip
from ckmlir.targets import Target
from ckmlir.targets.cdna import WAVE_SIZE

F64_UNIT = find_dtype("f64").unit_roundoff
ELEMENTS = 8 * THREADS
"""Of a tile: each takes two f64 sums of a work-item's registers."""
A_UNIT = 2
"""Workgroups of a compute unit: those keep memory busy, and leave few parts to add."""
ROW_BYTES = 128
"""Bytes of a row of channels that a workgroup takes: whole cache lines, and many workgroups."""
STEPS = 2
"""Tiles of a part, at least, where it is chosen."""


class Summed(Struct, frozen=True):
    """What is summed up.

    Attributes:
        images, channel: arrays of images, and the array of channels.
        summands: as expressions of those.
        vanish: they are 0 where all images are, whatever the channel has: as behind the ends of arrays.
    """

    images: tuple[str, ...]
    channel: str
    summands: tuple[str, str]
    vanish: bool = False


KINDS = {
    "moments": Summed(("x",), "first", ("x - first", "(x - first) * (x - first)")),
    "gradients": Summed(("x", "dy"), "mean", ("dy", "dy * (x - mean)")),
    "masked_gradients": Summed(
        ("x", "dy", "y"), "mean", ("where(y > 0, dy, 0)", "where(y > 0, dy * (x - mean), 0)"), vanish=True
    ),
}  # fmt: skip
OUTPUTS = ("sums", "products")


class SumsProblem(Struct, frozen=True, dict=True):
    """Sums to make.

    Attributes:
        of: one of KINDS.
        pitches: of its arrays of images.
        split: workgroups that share the elements of a channel, at most.
    """

    images: Images
    of: str
    dtypes: tuple[str, ...]
    pitches: tuple[int, ...]
    split: int

    @property
    def kind(self) -> Summed:
        return KINDS[self.of]

    @cached_property
    def operands(self) -> tuple[Operand, ...]:
        """The arrays of images."""
        one = zip(self.kind.images, self.dtypes, self.pitches, strict=True)
        return tuple(self.images.images(name, dtype, pitch) for name, dtype, pitch in one)

    @property
    def channel_dtype(self) -> str:
        return self.dtypes[0] if self.of == "moments" else "f32"

    @cached_property
    def space(self) -> Folded:
        """Channels, then what is summed up, which parts share along its first dimension; strides of all arrays."""
        images = self.images
        order = (1, 0) if images.last else (1, 0, 2)
        lengths = tuple(images.shape[dim] for dim in order)
        rest = (0,) * (len(order) - 1)
        first = self.operands[0].strides[1] if self.of == "moments" else 1
        own = tuple(tuple(one.strides[dim] for dim in order) for one in self.operands)
        return Folded(lengths, (*own, (first, *rest), (1, *rest), (1, *rest)), (0, *(1 for _ in rest)))

    @cached_property
    def tile(self) -> tuple[int, ...]:
        """Of the index space: channels first, those of a row before other images."""
        only_x = Folded(self.space.lengths, self.space.strides[:1], self.space.groups)
        length = self.images.c if self.images.last else self.images.hw
        single = any(one % 2 for one in (length, *self.pitches))
        elements = ELEMENTS // 2 if single else ELEMENTS  # those that are loaded one by one have an address each
        if not self.images.last:
            return choose_tile(only_x, self.dtypes[:1], free=(1, 0, 2), elements=elements)
        row = min(ROW_BYTES // find_dtype(self.dtypes[0]).bytes, 1 << (max(self.images.c, 1) - 1).bit_length())
        _, rows = choose_tile(only_x, self.dtypes[:1], free=(1,), elements=elements // row)
        return row, rows

    @cached_property
    def part(self) -> int:
        """Rows or images of a part."""
        _, shared, *_ = tile_counts(self.space.lengths, self.tile)
        return max(ceil_div(shared, self.split), 1) * self.tile[1]

    @property
    def row_bytes(self) -> int:
        """The largest distance of neighbouring rows, or images, of any array."""
        return max(map(_row_bytes, self.operands))

    @property
    def reached(self) -> int:
        """Tiles along rows of a part that the offsets of lanes reach."""
        return MAXIMUM_REACH // (self.tile[1] * max(self.row_bytes, 1))

    @property
    def least_split(self) -> int:
        """Parts of which offsets reach all rows."""
        return ceil_div(tile_counts(self.space.lengths, self.tile)[1], max(self.reached, 1))

    def on(self, target: Target) -> SumsProblem:
        """The same with as many parts as give each compute unit A_UNIT workgroups, and each of those STEPS tiles."""
        channels, shared, *others = tile_counts(self.space.lengths, self.tile)
        most = shared * max(prod(others), 1) // STEPS
        return replace(
            self, split=max(min(A_UNIT * target.compute_units // max(channels, 1), most), self.least_split, 1)
        )

    @property
    def parts(self) -> int:
        """There is always one, which may have no elements."""
        return max(ceil_div(self.space.lengths[1], self.part), 1)

    @property
    def arrays(self) -> tuple[ArraySpec, ...]:
        images, shape = self.images, (self.parts, self.images.c)
        inputs = [images.array(one, "in") for one in self.operands]
        if self.of != "moments":
            inputs.append(images.array(images.channels("mean", "f32"), "in"))
        return (*inputs, *(ArraySpec(name, shape, "f64", "out", packed(shape)) for name in OUTPUTS))


class SumsSpec(TileSpec):
    """What the kernel depends on; arrays are those of images, that of channels, the outputs."""

    of: str

    @property
    def name(self) -> str:
        digest = digest_of(self.to_json(), 10)
        return "_".join(["batchnorm2d_sums", self.of, self.dtypes[0], f"tile{by(self.tile)}", digest])

    @property
    def spread(self) -> int:
        return 1

    @property
    def kind(self) -> Summed:
        return KINDS[self.of]


class Batchnorm2dSums(Operator[SumsProblem, SumsSpec]):
    """The operator `batchnorm2d_sums`, which the module's docstring describes."""

    name = "batchnorm2d_sums"
    spec_type = SumsSpec
    keys = (
        Choice("of", "moments", "what is summed up", tuple(KINDS)),
        *image_keys("x", "dy", "y"),
        Choice("dy_dtype", None, "of dy; default: dtype", FLOATS),
        Choice("y_dtype", None, "of y; default: dtype", FLOATS),
        Integer("split", 16, "workgroups that share a channel, at most", minimum=1),
    )

    def _problem(self, values: Mapping[str, Any]) -> SumsProblem:
        images, names = read_images(values), KINDS[values["of"]].images
        for name in ("dy", "y"):
            given = [key for key in (stride_key(name), f"{name}_dtype") if values[key] is not None]
            if given and name not in names:
                raise RequestError(f"{given[0]}={values[given[0]]}: of={values['of']} has no array {name}")
        pitches = tuple(pitch_of(images, values, name) for name in names)
        dtypes = tuple(values.get(f"{name}_dtype") or values["dtype"] for name in names)
        problem = check_sums(SumsProblem(images, values["of"], dtypes, pitches, values["split"]))
        if values["split"] < problem.least_split:
            raise RequestError(
                f"split={values['split']}: a part spans more than 2 GiB; expected at least {problem.least_split}"
            )
        return problem

    def spec(self, problem: SumsProblem, target: Target) -> SumsSpec:
        kind, dtypes = problem.kind, (*problem.dtypes, problem.channel_dtype, "f64", "f64")
        return SumsSpec(
            arrays=(*kind.images, kind.channel, *OUTPUTS),
            dtypes=dtypes,
            of=problem.of,
            **array_fields(problem.space, dtypes, problem.images.align),
            **tile_fields(problem.space, problem.tile),
        )

    def mismatches(self, problem: SumsProblem, spec: SumsSpec, target: Target) -> list[Reason]:
        kind, dtypes = problem.kind, (*problem.dtypes, problem.channel_dtype, "f64", "f64")
        different = list(unlike(spec, arrays=(*kind.images, kind.channel, *OUTPUTS), dtypes=dtypes, of=problem.of))
        if not different and spec.tile != problem.tile:  # parts are made of tiles
            different = list(unlike(spec, tile=problem.tile))
        return different or list(uncovered_tiles(spec, problem.space, problem.images.align))

    def validate(self, spec: SumsSpec, target: Target) -> list[Reason]:
        return [*invalid_tiles(spec, target), *not_a_choice(spec, of=tuple(KINDS))]

    def kernels(self, target: Target) -> list[SumsSpec]:
        problems = [
            self.problem(of=of, layout=layout, dtype=dtype, hw=hw)
            for of in KINDS for dtype in FLOATS for layout in LAYOUTS for hw in (49, 3136)
        ]  # fmt: skip
        return list(dict.fromkeys(self.spec(problem, target) for problem in problems))

    def arrays(self, problem: SumsProblem) -> tuple[ArraySpec, ...]:
        return problem.arrays

    def _values(self, problem: SumsProblem, array: ArraySpec, generator: np.random.Generator) -> Array:
        values: Array = generator.standard_normal(array.shape, dtype=np.float32)
        return values + 0.5

    def _terms(self, problem: SumsProblem, arrays: Mapping[str, Array]) -> list[Array]:
        """Both summands as (c, rows or images, the rest)."""
        images, kind = problem.images, problem.kind
        shape = (images.c, problem.space.lengths[1], -1)
        if 0 in problem.space.lengths:
            return [np.zeros((images.c, problem.space.lengths[1], 1))] * len(OUTPUTS)
        given = {name: images.by_channel(arrays[name]).reshape(shape) for name in kind.images}
        channel = given["x"][:, 0, 0] if problem.of == "moments" else arrays["mean"].astype(np.float64)
        given[kind.channel] = np.broadcast_to(channel[:, None, None], given["x"].shape)
        summands = (parse(text, tuple(given)) for text in kind.summands)
        return [np.asarray(evaluate_exactly(one, given, precision=PRECISIONS["f64"])) for one in summands]

    def _by_part(self, problem: SumsProblem, terms: Array) -> Array:
        begins = range(0, problem.parts * problem.part, problem.part)
        with np.errstate(invalid="ignore"):
            return np.stack([terms[:, begin : begin + problem.part].sum(axis=(1, 2)) for begin in begins])

    def reference(self, problem: SumsProblem, arrays: Mapping[str, Array]) -> dict[str, Array]:
        """Every sum in float64."""
        terms = self._terms(problem, arrays)
        return {name: self._by_part(problem, one) for name, one in zip(OUTPUTS, terms, strict=True)}

    def tolerances(
        self, problem: SumsProblem, arrays: Mapping[str, Array], reference: Mapping[str, Array], target: Target
    ) -> dict[str, Tolerance]:
        """As many additions as a channel has elements, and up to three roundings of a summand, in f64; the reference
        has as many."""
        found = {}
        for name, terms in zip(OUTPUTS, self._terms(problem, arrays), strict=True):
            sizes = self._by_part(problem, np.where(np.isfinite(terms), np.abs(terms), 0.0))
            found[name] = Tolerance(0.0, sums_error(problem.images, sizes), "f64 sums")
        return found

    def launch(self, problem: SumsProblem, spec: SumsSpec, target: Target) -> Launch:
        if self.writes_nothing(problem):
            return NOTHING
        space = problem.space
        counts = tile_counts(space.lengths, spec.tile)
        strides = dict(zip(spec.arrays, space.strides, strict=True))
        names = ("x" if name == "first" else name for name in spec.arrays)
        arguments: tuple[Argument, ...] = (
            *names,
            *launch_scalars(spec, space.lengths, counts, strides),
            i32(problem.part),
        )
        return Launch((counts[0], problem.parts, 1), (spec.waves * WAVE_SIZE, 1, 1), arguments)


def _row_bytes(operand: Operand) -> int:
    return operand.strides[0] * find_dtype(operand.dtype).bytes


def sums_error(images: Images, sizes: Array) -> Array:
    """How far sums in f64 of any order are off at most, whose summands' magnitudes add up to `sizes`, with the error of
    a reference in float64."""
    found: Array = 2 * (images.count + 4) * F64_UNIT * sizes
    return found


def check_sums(problem: SumsProblem) -> SumsProblem:
    """The problem. Raises RequestError for more workgroups than a launch takes, and for rows that no offset reaches."""
    images = problem.images
    if images.c == 0:
        return problem
    channels = tile_counts(problem.space.lengths, problem.tile)[0]
    if channels * problem.parts > MAXIMUM_WORKGROUPS:
        raise RequestError(
            f"c={images.c}: {channels * problem.parts} workgroups; one launch takes {MAXIMUM_WORKGROUPS}"
        )
    if images.count == 0:
        return problem
    if problem.parts * images.c > MAXIMUM_SIZE:
        raise RequestError(f"split={problem.split}: {problem.parts * images.c} sums; kernels count to {MAXIMUM_SIZE}")
    if not problem.reached:
        widest = max(problem.operands, key=_row_bytes)
        key, pitch, rows = stride_key(widest.name), widest.strides[0], problem.tile[1]
        what = f"{rows} {'row' if images.last else 'image'}{'s' * (rows > 1)} of {widest.name}"
        most = MAXIMUM_REACH // (rows * find_dtype(widest.dtype).bytes)
        raise RequestError(f"{key}={pitch}: {what} would span 2 GiB; expected at most {most}")
    return problem


OPERATOR = Batchnorm2dSums()
