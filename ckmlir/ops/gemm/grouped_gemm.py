"""grouped_gemm: C_i = A_i·B_i for several products of different sizes in one launch (CK Tile's example 17).

Each product is one of `gemm`, with arrays a_i, b_i, D tensors d0_i …, c_i; m, n, k, the pitches, `split_k`, alpha and
beta have a number for each, or one for all. With `a_at`, `b_at` or `c_at` the matrices of all products are parts of one
array a, b or c, from those elements on (tiles and packed elements of B from multiples of 16 bytes); outputs may lie
between each other, not on each other. What the products have in common is the kernel's: types, layout, expression,
block. A product without rows or columns is left out; one with k = 0 gets the expression of zeros.

A kernel finds the products in a table in device memory (`ckmlir.ops.contraction.table_kernel.Table`), addresses
included. With `table=host` the table is packed on the host, in the stream's order; with `table=device` it is an input,
there already: it may list the request's products in any order, or smaller ones whose sizes the same numbers divide.

Workgroups stay and take block after block (`persistent=1`), as many as the chip holds at a time; or there is one for
every block. By default they stay where there are more blocks than that, rows allow loads of 4 bytes, C is not stored by
single elements beside a matrix and another D tensor, on gfx950 sums are short or turns few, and on gfx942 sums have
more than a step or A lies across K; and where the table is on the device.

With `split_k` a product has parts as in `gemm`; `reduction` is that of all. With `shuffled` each B has its own tiles.

Kernel arguments: the table; its products (i32); where they stay the number of workgroups (i32). Grid: one dimension,
workgroups.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar

import numpy as np

from ckmlir.ops.arrays import ArraySpec, array_spec, find_array
from ckmlir.ops.choice import chosen_keys, first_valid
from ckmlir.ops.comparison import Array, Tolerance
from ckmlir.ops.contraction.block_resources import workgroups_a_unit
from ckmlir.ops.contraction.block_sizes import MEDIUM
from ckmlir.ops.contraction.contraction_spec import LAYOUTS, SCALARS, ContractionSpec
from ckmlir.ops.contraction.defaults import other_blocks, plans
from ckmlir.ops.contraction.grouped import (
    TABLE,
    ForEach,
    GroupedProblem,
    RealForEach,
    all_arrays,
    arrays_of,
    blocks_of,
    least_aligned,
    named,
    narrowest,
    one_each_is_faster,
    packed_table,
    parts_of_product,
    pointed_at,
    read_products,
    split_name,
    table_shape,
)
from ckmlir.ops.contraction.keys import PAIR_KEYS, PLAN_FIELDS, PLAN_KEYS, RENAMED, SHUFFLED, expression_keys
from ckmlir.ops.contraction.operator import ContractionOperator, require_rows
from ckmlir.ops.contraction.places import Shared
from ckmlir.ops.contraction.problem import REDUCTIONS, Problem
from ckmlir.ops.contraction.product_operator import ProductOperator
from ckmlir.ops.contraction.sum_parts import OF_PRODUCT, cleared, sum_of
from ckmlir.ops.contraction.sum_parts import OPERATOR as SUM_PARTS
from ckmlir.ops.contraction.wishes import NARROWEST_FOR_TWO_STEPS, Wish, wish_of
from ckmlir.ops.dtypes import find_dtype
from ckmlir.ops.gemm.gemm import OPERATOR as GEMM
from ckmlir.ops.gemm.grouped_keys import EACH, LAUNCH_KEYS, NUMBERS, PLACES
from ckmlir.ops.operator import NOTHING, Argument, Launch, Run, Step
from ckmlir.ops.request import MAXIMUM_SIZE, Choice, RequestError
from ckmlir.ops.scalars import ceil_div, i32
from ckmlir.ops.spec import Reason, unlike
from ckmlir.ops.steps import OWN_KERNEL, PackOnHost, Workspace, place_of
from ckmlir.records import replace
from ckmlir.targets import Target
from ckmlir.targets.cdna import WAVE_SIZE

MOST_BESIDE = 1
"""D tensors beside which workgroups stay by default where C is stored by single elements and a matrix is read beside
it: a GELU with bias and residual in bf16 kept 25 to 31 scalar registers in lanes on gfx90a and gfx942, none with a
block for each, which takes .80 of the cycles."""


class GroupedGemm(ProductOperator[GroupedProblem]):
    """The operator `grouped_gemm`, which the module's docstring describes.

    Attributes:
        single: the operator of each product.
        each: the keys that have a number for each product.
    """

    name = "grouped_gemm"
    renamed, plan_fields = RENAMED, PLAN_FIELDS
    spec_type = ContractionSpec
    single: ClassVar[ContractionOperator] = GEMM
    each: ClassVar[tuple[ForEach | RealForEach, ...]] = (*EACH, *NUMBERS)
    keys = (
        *EACH,
        *PLACES,
        *PAIR_KEYS,
        *PLAN_KEYS,
        Choice(
            "reduction",
            None,
            "how parts are combined: by a second kernel through a workspace, in a fixed order (the default); or by "
            "atomics in C",
            tuple(REDUCTIONS),
        ),
        SHUFFLED,
        *LAUNCH_KEYS,
        *(key for key in expression_keys(None) if key.name not in SCALARS),
        *NUMBERS,
    )

    def _problem(self, values: Mapping[str, Any]) -> GroupedProblem:
        products = read_products(values, [key.name for key in self.each], self.single._problem)
        shared = _shared(values, products)
        products = tuple(_begun(one, shared, number) for number, one in enumerate(products))
        problem = GroupedProblem(products, values["persistent"], values["table"] == "device", shared)
        if values["c_at"] and any((one.split_k or 1) > 1 for one in products):
            raise RequestError("c_at: parts of sums are added in arrays of each product; expected split_k=1")
        if problem.on_device and any((one.split_k or 1) > 1 and one.reduction != "atomic" for one in products):
            raise RequestError("table=device: a table that is there cannot know a workspace; expected reduction=atomic")
        return problem

    # -- the kernel --------------------------------------------------------------------------------------------------

    def spec(self, problem: GroupedProblem, target: Target) -> ContractionSpec:
        """The first plan that the chip can run, as for one product as large as the largest lengths."""
        live, own = problem.live or problem.products, problem.any
        wish = wish_of(own, target)._replace(
            m=max(one.m for one in live), n=max(one.n for one in live), k=max(one.k for one in live),
            load_bytes=min(one.load_bytes for one in live), products=tuple((one.m, one.n) for one in live),
        )  # fmt: skip
        # Large blocks leave few registers, and not all sizes are multiples of them.
        found = [plan for plan in plans(wish, target) if own.block or max(plan.block[:2]) <= MEDIUM]
        candidates, others = (
            (self._common([self.single.planned(one, plan, _sink(problem), target) for one in live]) for plan in some)
            for some in (found, other_blocks(found[-1], own, target))
        )
        spec = first_valid(candidates, lambda one: self.validate(one, target), others)
        return replace(spec, walk="persistent" if self._stays(problem, wish, spec, target) else "table")

    def lengths(self, problem: GroupedProblem) -> Sequence[tuple[int, int, int]]:
        return [one.lengths for one in problem.live or problem.products]

    def _common(self, specs: list[ContractionSpec]) -> ContractionSpec:
        """The kernel for all products whose own kernels differ only in what divides sizes."""
        pad = "".join(letter for letter in "mnk" if any(letter in one.pad for one in specs))
        align = narrowest([one.align for one in specs])
        side, scaling = (
            least_aligned(texts) for texts in ([one.side for one in specs], [one.scaling for one in specs])
        )
        return replace(
            specs[0], operator=self.name, walk="table", pad=pad, align=(align[0], align[1], align[2]), side=side,
            scaling=scaling,
        )  # fmt: skip

    def _stays(self, problem: GroupedProblem, wish: Wish, spec: ContractionSpec, target: Target) -> bool:
        if problem.persistent is not None or problem.on_device:
            return problem.persistent is not False
        # Narrow loads of a next block are not on their way while C is stored (`contraction_kernel.Block.is_early`):
        # three products with 2737 columns and K of 95 to 464 take 1.35 of the cycles so on gfx942, K of 501 to 2001
        # 1.13; four with K of 95 to 463 1.29 on gfx950, 1.33 on gfx90a, i8 in CRR 1.13 and 1.07.
        narrow = wish.load_bytes < NARROWEST_FOR_TWO_STEPS
        crowded = spec.align[2] == 1 and wish.matrices and len(spec.side) > MOST_BESIDE
        fitting = held(spec, target)
        if narrow or crowded or self._blocks(problem, spec, target) <= fitting:
            return False
        return not one_each_is_faster(problem.products, spec, target, fitting)

    def _blocks(self, problem: GroupedProblem, spec: ContractionSpec, target: Target) -> int:
        return sum(blocks_of(one, spec, target) for one in problem.products)

    def chosen(self, problem: GroupedProblem, spec: ContractionSpec) -> dict[str, object]:
        found = chosen_keys(problem.any, spec, PLAN_FIELDS)
        return found if problem.persistent is not None else {**found, "persistent": spec.walk == "persistent"}

    def mismatches(self, problem: GroupedProblem, spec: ContractionSpec, target: Target) -> list[Reason]:
        stays = {None: None, True: "persistent", False: "table"}[problem.persistent]
        reasons = list(unlike(spec, operator=self.name, walk=stays))
        if problem.live:
            reasons += unlike(spec, sink=_sink(problem))
        if spec.walk == "grid":
            reasons.append(Reason("walk", spec.walk, "the kernel is another one", "expected table or persistent"))
        single = replace(spec, operator=self.single.name, walk="grid")
        for one in problem.live:
            reasons += self.single.mismatches(replace(one, split_k=None, reduction=None), single, target)
        return list(dict.fromkeys(reasons))

    def kernels(self, target: Target) -> list[ContractionSpec]:
        requests: list[dict[str, Any]] = [
            {"m": (size,), "dtype": dtype, "layout": layout, "persistent": stays}
            for dtype in ("f16", "bf16", "fp8", "i8")
            for layout in (LAYOUTS if dtype == "f16" else LAYOUTS[:1])
            for size in (64, 512)
            for stays in (0, 1)
        ]
        requests += [{"op": "gelu(acc + d0)", "d_kind": "row", "persistent": stays} for stays in (0, 1)]
        requests += [{"split_k": 2, "reduction": reduction, "out": "f32"} for reduction in REDUCTIONS]
        specs = dict.fromkeys(self.spec(self.problem(**one), target) for one in requests)
        return [spec for spec in specs if not self.validate(spec, target)]

    def build(self, spec: ContractionSpec, target: Target) -> Any:
        return self.single.build(spec, target)

    # -- what is queued ----------------------------------------------------------------------------------------------

    def arrays(self, problem: GroupedProblem) -> tuple[ArraySpec, ...]:
        found = all_arrays(problem)
        if not problem.on_device:
            return found
        return (array_spec(TABLE, table_shape(problem, _sink(problem)), "i64", "in"), *found)

    def launch(self, problem: GroupedProblem, spec: ContractionSpec, target: Target) -> Launch:
        blocks = self._blocks(problem, spec, target)
        if not blocks:
            return NOTHING
        if blocks > MAXIMUM_SIZE:
            raise RequestError(f"{self.name}: {blocks} blocks of C; kernels count to {MAXIMUM_SIZE}")
        for product in problem.products:
            require_rows(product, spec)
        stays = spec.walk == "persistent"
        workgroups = min(blocks, held(spec, target)) if stays else blocks
        integers = (len(problem.products), *[workgroups] * stays)
        arguments: tuple[Argument, ...] = (TABLE, *map(i32, integers))
        # Blocks are numbered row by row.
        across, *others = [ceil_div(one.n, spec.block[1]) for one in problem.products]
        alike = across > 0 and all(one == across for one in others)
        shape = (across, ceil_div(workgroups, across)) if alike else None
        return Launch((workgroups, 1, 1), (spec.wave_count * WAVE_SIZE, 1, 1), arguments, shape)

    def steps(self, problem: GroupedProblem, spec: ContractionSpec, target: Target) -> tuple[Step, ...]:
        """The table, unless it is there; what atomics add to is zeros before; behind parts, what adds them."""
        if self.writes_nothing(problem):
            return (OWN_KERNEL,)
        before: list[Step] = []
        if not problem.on_device:
            places = pointed_at(problem, spec)
            before.append(PackOnHost(TABLE, (), partial(_pack, problem, spec, target), places))
        if spec.sink == "atomic":
            before += [cleared(array) for array in self.arrays(problem) if array.role == "out"]
        return (*before, OWN_KERNEL, *(self._sums(problem, spec, target) if spec.sink == "partial" else ()))

    def _sums(self, problem: GroupedProblem, spec: ContractionSpec, target: Target) -> Iterator[Step]:
        for number, one in enumerate(problem.products):
            if one.m and one.n:
                names = {array.name: named(array.name, number) for array in one.arrays()}
                names |= {name: named(name, number) for name in spec.outputs}
                yield Run(SUM_PARTS, sum_of(one, parts_of_product(one, spec, target)[1]), names, OF_PRODUCT)

    def workspaces(self, problem: GroupedProblem, spec: ContractionSpec, target: Target) -> tuple[Workspace, ...]:
        if self.writes_nothing(problem):
            return ()
        rows, columns = table_shape(problem, spec.sink)
        table = [] if problem.on_device else [Workspace(TABLE, rows * columns * 8)]
        if spec.sink != "partial":
            return tuple(table)
        parts = []
        for number, one in enumerate(problem.products):
            parted = one.parted()
            size = parts_of_product(one, spec, target)[1] * parted.part_outputs * find_dtype(parted.out).bytes
            parts += [Workspace(named(name, number), size) for name in parted.outputs]
        return (*table, *parts)

    # -- values ------------------------------------------------------------------------------------------------------

    def _values(self, problem: GroupedProblem, array: ArraySpec, generator: np.random.Generator) -> Array:
        if array.name == TABLE:
            return np.zeros(array.shape, np.int64)
        shared = {one.name: one for one in problem.shared}
        if array.name in shared.keys() & set(problem.any.operands[1:]) and problem.any.shuffled:
            return self._tiles(problem, shared[array.name], generator)
        if array.name in shared:
            return self.single._values(problem.products[0], array, generator)
        name, number = split_name(array.name)
        return self.single._values(problem.products[number], replace(array, name=name), generator)

    def _tiles(self, problem: GroupedProblem, shared: Shared, generator: np.random.Generator) -> Array:
        """Matrices B in fragment order in one array: each is filled up by itself."""
        found = np.zeros(shared.size, np.float32 if problem.any.held[1].packing is None else np.uint8)
        for number, one in enumerate(problem.products):
            own = find_array(one.arrays(), shared.name)
            shared.view(one, number, found)[...] = self.single._values(one, own, generator)
        return found

    def placed(self, problem: GroupedProblem, target: Target, addresses: Mapping[str, int]) -> Mapping[str, Array]:
        """The table, where it is an input."""
        if not problem.on_device:
            return {}
        return {TABLE: packed_table(problem, self.spec(problem, target), target, addresses)}

    def reference(self, problem: GroupedProblem, arrays: Mapping[str, Array]) -> dict[str, Array]:
        """That of `gemm`, product by product."""
        return _gathered(
            problem,
            [
                self.single.reference(one, arrays_of(problem, number, arrays))["c"]
                for number, one in enumerate(problem.products)
            ],
        )

    def expected(self, problem: GroupedProblem, arrays: Mapping[str, Array], target: Target) -> dict[str, Array]:
        return _gathered(
            problem,
            [
                self.single.expected(one, arrays_of(problem, number, arrays), target)["c"]
                for number, one in enumerate(problem.products)
            ],
        )

    def tolerances(
        self,
        problem: GroupedProblem,
        arrays: Mapping[str, Array],
        reference: Mapping[str, Array],
        target: Target,
    ) -> dict[str, Tolerance]:
        """Those of `gemm`, product by product, with as many parts as the kernel of all has."""
        found, spec = [], self.spec(problem, target)
        for number, one in enumerate(problem.products):
            given = arrays_of(problem, number, {**arrays, **reference})
            added = parts_of_product(one, spec, target)[1] if one.reduction == "atomic" else 1
            found.append(self.single._tolerance(one, given, given["c"], target, added=added))
        if not any(one.name == "c" for one in problem.shared):
            return {named("c", number): one for number, one in enumerate(found)}
        shapes = [(one.m, one.n) for one in problem.products]
        atol, free = (
            _gathered(
                problem, [np.broadcast_to(value, shape) for value, shape in zip(values, shapes, strict=True)], rest
            )
            for values, rest in (([one.atol for one in found], 0.0), ([one.unspecified for one in found], True))
        )
        return {"c": Tolerance(max(one.rtol for one in found), atol["c"], found[0].reason, free["c"].astype(bool))}

    def flops(self, problem: GroupedProblem) -> int:
        """A multiplication and an addition for each product."""
        return sum(self.single.flops(one) for one in problem.products)


def _shared(values: Mapping[str, Any], products: Sequence[Problem]) -> tuple[Shared, ...]:
    """The arrays that hold matrices of all products. Raises RequestError for places that do not fit."""
    found = []
    for name in (*products[0].operands, *products[0].outputs):
        starts, size = values[f"{name}_at"], values[f"{name}_size"]
        if starts is None and size is not None:
            raise RequestError(
                f"{name}_size={size}: each product has an array of its own; expected {name}_at, or nothing"
            )
        if starts is not None and len(starts) not in (1, len(products)):
            wanted = f"expected 1 or {len(products)}"
            raise RequestError(f"{name}_at: {len(starts)} numbers for {len(products)} products; {wanted}")
        if starts is not None:
            found.append(Shared.of(name, starts, size, products))
    return tuple(found)


def _begun(product: Problem, shared: Sequence[Shared], number: int) -> Problem:
    """A product that knows where its matrices begin in arrays of all products."""
    return replace(product, starts=tuple((one.name, one.starts[number]) for one in shared)) if shared else product


def _gathered(problem: GroupedProblem, results: Sequence[Array], gaps: float = 0.0) -> dict[str, Array]:
    """Results of all products as outputs; in an array that holds all of them something else between them."""
    shared = next((one for one in problem.shared if one.name == "c"), None)
    if shared is None:
        return {named("c", number): one for number, one in enumerate(results)}
    whole = np.full(shared.size, gaps, np.result_type(*results))
    for number, (one, result) in enumerate(zip(problem.products, results, strict=True)):
        shared.view(one, number, whole)[...] = result
    return {"c": whole}


def held(spec: ContractionSpec, target: Target) -> int:
    """Workgroups of a persistent grid."""
    return target.compute_units * workgroups_a_unit(spec, target)


def _sink(problem: GroupedProblem) -> str:
    """Where sums go: parts of one product decide for all."""
    if all((one.split_k or 1) == 1 for one in problem.live):
        return "store"
    return REDUCTIONS[problem.any.reduction or "workspace"]


def _pack(
    problem: GroupedProblem,
    spec: ContractionSpec,
    target: Target,
    arrays: Mapping[str, Array],
    packed: Array,
) -> None:
    """Fill the table's workspace."""
    addresses = {name: int(arrays[place_of(name)]) for name in pointed_at(problem, spec)}
    packed.view(np.int64)[:] = packed_table(problem, spec, target, addresses).reshape(-1)


OPERATOR = GroupedGemm()
"""Several matrix multiplications."""
