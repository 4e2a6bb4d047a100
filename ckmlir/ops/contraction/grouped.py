"""Several products in one launch: a problem of problems, their arrays, and the table in which a kernel finds them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from ckmlir.ops.arrays import ArraySpec
from ckmlir.ops.comparison import Array
from ckmlir.ops.contraction.contraction_spec import SCALARS, ContractionSpec
from ckmlir.ops.contraction.operator import real_type
from ckmlir.ops.contraction.parts import part_length, parts_of
from ckmlir.ops.contraction.places import Shared
from ckmlir.ops.contraction.problem import Problem
from ckmlir.ops.dtypes import find_dtype
from ckmlir.ops.list_keys import Reals, Series
from ckmlir.ops.request import MAXIMUM_SIZE, RequestError
from ckmlir.ops.scalars import ceil_div, gcd
from ckmlir.targets import Target

if TYPE_CHECKING:
    from random import Random

PRODUCTS, STEP = 4, 64
"""Of a request that says nothing of m: how many products, and rows that each has more than the one before."""
LONG_TURNS = {"gfx950": (5.3, 1.7)}
"""Steps of a block on average, and blocks of a workgroup that stays, beyond which one for each is faster, by chip.
Who stays gains a block's first loads, and takes what is dealt out before, which ends unevenly. By the model on gfx950,
cycles of those that stay as a share of one for each: f16 of 32 steps in 4.6 turns 1.13, 41 in 2.9 1.14, 44 in 1.8 1.03,
21 in 2.9 1.03, 7.4 in 2.7 1.03, 5.5 in 2.2 1.09; but 29 in 1.5 .97, bf16 of 12 in 1.1 .98, of 5.2 in 3.2 .95, of fewer
.80 to .96 in 1.5 to 3.2 turns."""
SHORT_SUMS = {"gfx942": 1.3}
"""Steps of a block on average up to which one for each is faster too, if A lies along K: there is little to load before
C of another block is stored. By the model on gfx942, the same shares: of one step f16 in 3.2 turns 1.11, bf16 in 1.5
1.10, fp8 in 3.2 and 1.3 1.08 and 1.14, bf16 with both operands across K .89; of 1.25 steps in 2.7 turns 1.05; of 1.3 in
2.7 and 1.3 .99 and 1.01; of 1.5 and more .97 to 1.01."""
TABLE = "table"
"""Kernels' name for the table."""


class ForEach(Series, frozen=True):
    """A number for each product, or one for all."""

    def sample(self, random: Random, request: Mapping[str, object]) -> object:
        drawn = super().sample(random, request)
        sizes = request.get("m")
        if not isinstance(drawn, tuple) or self.name == "m" or not isinstance(sizes, tuple):
            return drawn
        count = random.choice((1, len(sizes), len(sizes)))
        return tuple(random.choice(drawn) for _ in range(count))


class RealForEach(Reals, frozen=True):
    """A number for each product, or one for all, that need not be whole."""

    def sample(self, random: Random, request: Mapping[str, object]) -> object:
        drawn, sizes = super().sample(random, request), request.get("m")
        if not isinstance(drawn, tuple) or not isinstance(sizes, tuple):
            return drawn
        return tuple(random.choice(drawn) for _ in range(random.choice((1, len(sizes)))))


class PitchForEach(ForEach, frozen=True):
    """Elements from one row of a matrix to the next, for each product or one for all; rows are as long as one of the
    keys `of` says.
    """

    of: tuple[str, ...] = ("n",)

    def sample(self, random: Random, request: Mapping[str, object]) -> object:
        lengths = [value for name in self.of if isinstance(value := request.get(name), tuple)]
        least = max((max(numbers) for numbers in lengths if numbers), default=1)
        return (min(max(least, 1) + random.choice((0, 0, 1, 8)), MAXIMUM_SIZE),)


class PlaceForEach(ForEach, frozen=True):
    """Where each product's matrix begins in an array, or one place for all."""

    def sample(self, random: Random, request: Mapping[str, object]) -> object:
        sizes = request.get("m")
        count = len(sizes) if isinstance(sizes, tuple) else 1
        first, distance = random.choice((0, 0, 1, 8)), random.choice((0, 16, (1 << 10) + 1, 1 << 16))
        return tuple(first + distance * number for number in range(count))


class GroupedProblem(Struct, frozen=True):
    """Products of one launch.

    Attributes:
        products: each a problem of its own; they differ in sizes, pitches and parts.
        persistent: whether workgroups stay and take block after block; None where the operator chooses.
        on_device: whether the table is an input, there already, and not packed on the host.
        shared: the arrays that hold matrices of all products; the others are each product's own.
    """

    products: tuple[Problem, ...]
    persistent: bool | None
    on_device: bool
    shared: tuple[Shared, ...] = ()

    @property
    def live(self) -> tuple[Problem, ...]:
        """The products that have an element."""
        return tuple(one for one in self.products if one.m and one.n)

    @property
    def any(self) -> Problem:
        """A product that stands for all in what they have in common."""
        return (*self.live, *self.products)[0]


def read_products(
    values: Mapping[str, Any], each: Sequence[str], read: Callable[[Mapping[str, Any]], Problem]
) -> tuple[Problem, ...]:
    """The products of keys of which those in `each` have a number for each; `m` has a default. `read` makes a problem
    of the keys of one. Raises RequestError naming the key, or the product, that does not fit.
    """
    given = {name: values[name] for name in each if values[name] is not None}
    count = max(map(len, given.values()))
    if "m" not in given:
        count = count if count > 1 else PRODUCTS
        given["m"] = tuple(STEP * (number + 1) for number in range(count))
    for name, numbers in given.items():
        if len(numbers) not in (1, count):
            raise RequestError(f"{name}: {len(numbers)} numbers for {count} products; expected 1 or {count}")
    products = []
    for number in range(count):
        own = {name: numbers[number % len(numbers)] for name, numbers in given.items()}
        try:
            products.append(read({**values, **own}))
        except RequestError as error:
            raise RequestError(f"product {number}: {error}" if count > 1 else str(error)) from None
    return tuple(products)


def named(name: str, number: int) -> str:
    """What an array of a product is called among those of all."""
    return f"{name}_{number}"


def split_name(name: str) -> tuple[str, int]:
    """The inverse of `named`."""
    own, _, number = name.rpartition("_")
    return own, int(number)


def arrays_of(problem: GroupedProblem, number: int, arrays: Mapping[str, Array]) -> dict[str, Array]:
    """The arrays of one product by its own names; those that are there."""
    product = problem.products[number]
    names = product.names
    found = {name: arrays[named(name, number)] for name in names if named(name, number) in arrays}
    found |= {one.name: one.view(product, number, arrays[one.name]) for one in problem.shared if one.name in arrays}
    return found


def all_arrays(problem: GroupedProblem) -> tuple[ArraySpec, ...]:
    """The arrays of all products."""
    shared = {one.name: one.array(problem.products[0]) for one in problem.shared}
    own = tuple(
        replace(array, name=named(array.name, number))
        for number, one in enumerate(problem.products)
        for array in one.arrays()
        if array.name not in shared
    )
    return (*shared.values(), *own)


def parts_of_product(one: Problem, spec: ContractionSpec, target: Target) -> tuple[int, int]:
    """How much of K a part of a product sums, and how many parts there are."""
    length = part_length(one, spec, target)
    return length, 1 if spec.sink == "store" else parts_of(one, length)


def blocks_of(one: Problem, spec: ContractionSpec, target: Target) -> int:
    """Workgroups' worth of work of a product."""
    tiles = ceil_div(one.m, spec.block[0]) * ceil_div(one.n, spec.block[1])
    return tiles * parts_of_product(one, spec, target)[1]


def one_each_is_faster(products: Sequence[Problem], spec: ContractionSpec, target: Target, workgroups: int) -> bool:
    """Whether so many workgroups that stay would have several blocks each, of long sums or of very short ones: see
    `LONG_TURNS` and `SHORT_SUMS`.
    """
    blocks = sum(blocks_of(one, spec, target) for one in products)
    tiles = (ceil_div(one.m, spec.block[0]) * ceil_div(one.n, spec.block[1]) for one in products)
    work = sum(count * ceil_div(one.k, spec.block[2]) for count, one in zip(tiles, products, strict=True))
    if spec.layout[0] == "R" and work <= SHORT_SUMS.get(target.name, 0) * blocks:
        return True
    steps, turns = LONG_TURNS.get(target.name, (0, math.inf))
    return blocks > turns * workgroups and work > steps * blocks


def pointed_at(problem: GroupedProblem, spec: ContractionSpec) -> tuple[str, ...]:
    """The arrays and workspaces that the table points to, product after product, each in the kernel's order."""
    shared = [one.name for one in problem.shared]
    numbers = range(len(problem.products))
    return (*shared, *(named(name, number) for number in numbers for name in spec.arrays if name not in shared))


def table_shape(problem: GroupedProblem, sink: str) -> tuple[int, int]:
    """Of the table: a row for each product and one behind them (`table_kernel.Table`)."""
    own = problem.any.parted() if sink == "partial" else problem.any
    lies = {"store": 0, "atomic": 1, "partial": 2}[sink]
    numbers = len(SCALARS) if own.op else 0
    return len(problem.products) + 1, 4 + len(own.distances()) + lies + numbers + len(own.names)


def packed_table(problem: GroupedProblem, spec: ContractionSpec, target: Target, addresses: Mapping[str, int]) -> Array:
    """The table: the products with the longest sums first, so that what is taken last is short."""
    shared = {one.name: one for one in problem.shared}

    def address(name: str, number: int) -> int:
        if name not in shared:
            return addresses[named(name, number)]
        size = find_dtype(shared[name].array(problem.products[0]).dtype).bytes
        return addresses[name] + shared[name].starts[number] * size

    def steps(number: int) -> int:
        one = problem.products[number]
        length, parts = parts_of_product(one, spec, target)
        return -ceil_div(length if parts > 1 else one.k, spec.block[2])

    rows, first = [], 0
    for number in sorted(range(len(problem.products)), key=steps):
        one = problem.products[number]
        length, _ = parts_of_product(one, spec, target)
        own = one.parted() if spec.sink == "partial" else one
        lies = {"store": (), "atomic": (length,), "partial": (length, own.part_outputs)}[spec.sink]
        pointers = [address(name, number) for name in spec.arrays]
        numbers = _bits(one) if spec.op else ()
        rows.append((first, one.m, one.n, one.k, *own.distances(), *lies, *numbers, *pointers))
        first += blocks_of(one, spec, target)
    table = np.zeros((len(rows) + 1, len(rows[0])), np.int64)
    table[:-1], table[-1, 0] = rows, first
    return table


def _bits(one: Problem) -> tuple[int, ...]:
    """The numbers of an expression as a table has them: f64, or f32 and nothing behind it."""
    unsigned: type[np.unsignedinteger[Any]] = np.uint64 if one.computing == "f64" else np.uint32
    numbers = np.array([*map(real_type(one), (one.alpha, one.beta))]).view(unsigned)
    return tuple(int(number) for number in numbers.astype(np.uint64).view(np.int64))


def narrowest(alignments: Sequence[Sequence[int]]) -> tuple[int, ...]:
    """Of several alignments, array by array, what all have."""
    return tuple(gcd(*column) for column in zip(*alignments, strict=True))


def least_aligned(described: Sequence[tuple[str, ...]]) -> tuple[str, ...]:
    """The same of arrays that are described alike, each by a text that ends with what it is aligned to."""
    widths = narrowest([[int(text.rpartition(":")[2]) for text in one] for one in described])
    return tuple(f"{text.rpartition(':')[0]}:{width}" for text, width in zip(described[0], widths, strict=True))
