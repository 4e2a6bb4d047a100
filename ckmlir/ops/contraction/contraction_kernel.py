"""The kernels of the contraction family as tile code: a walk through blocks of C, and what is done for each."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from types import SimpleNamespace

from ckmlir.dialect.mma import Mma
from ckmlir.dialect.mma_scales import SCALES_OF_A_REGISTER
from ckmlir.dialect.schedule import Schedule
from ckmlir.lang import Kernel, Tile, f32, f64, kernel
from ckmlir.lang.kernel import Argument
from ckmlir.ops.contraction import residues_kernel, windows_kernel
from ckmlir.ops.contraction.chain_kernel import multiplied
from ckmlir.ops.contraction.contraction_spec import SCALARS, ContractionSpec, computing_type
from ckmlir.ops.contraction.depthwise_kernel import windowed_sums
from ckmlir.ops.contraction.epilogue_kernel import Output, write_block
from ckmlir.ops.contraction.loop_kernel import contract
from ckmlir.ops.contraction.operands_kernel import array, operands
from ckmlir.ops.contraction.residues_kernel import CLASSES
from ckmlir.ops.contraction.rows_kernel import Put
from ckmlir.ops.contraction.scaling_kernel import accumulation_of, scaled_totals
from ckmlir.ops.contraction.side import NAMES
from ckmlir.ops.contraction.sinks_kernel import SINKS
from ckmlir.ops.contraction.walks_kernel import WALKS, Table
from ckmlir.ops.contraction.work_kernel import Work
from ckmlir.targets import Target

ALL_WALKS = {**WALKS, "classes": CLASSES}
"""By the names of `ContractionSpec.walk`."""
SEEN = {
    "": (operands, array),
    "forward": (windows_kernel.forward, array),
    "weight": (windows_kernel.weight, array),
    "data": (residues_kernel.operands, residues_kernel.array_of_class),
}
"""How A and B, and how other arrays are seen, by the first word of `ContractionSpec.windows`."""


def build(spec: ContractionSpec, target: Target) -> Kernel:
    """Trace the kernel of a specification."""
    walk, seen = ALL_WALKS[spec.walk], spec.windows.partition(":")[0]
    totals_of = partial(windowed_sums, spec) if spec.is_depthwise else products_of(spec, target)
    array_of = SEEN[seen][1] if seen in SEEN else array
    numbers = SCALARS if spec.op else ()
    number = f64 if computing_type(spec.dtype) == "f64" else f32
    passed = () if isinstance(walk, Table) else numbers
    arguments: dict[str, Argument] = {**walk.arguments(spec), **dict.fromkeys(passed, number)}

    @kernel(spec.name, target=target, waves=spec.wave_count, arguments=arguments)
    def contraction(given: SimpleNamespace) -> None:
        def compute(work: Work) -> None:
            totals = totals_of(work)
            scalars = {name: getattr(work.distances, name) for name in numbers}
            sides = {name: array_of(spec, work, name) for name in NAMES[: len(spec.side)]}
            output = Output([array_of(spec, work, name) for name in spec.outputs], sides, scalars)

            def write(sums: Sequence[Tile], put: Put) -> None:
                last = multiplied(spec, work, target, put) if spec.behind else put
                write_block(spec, output, sums, work.row, work.column, last)

            SINKS[spec.sink].take(work, totals, write)

        walk.walk(spec, given, compute)

    return contraction


def products_of(spec: ContractionSpec, target: Target) -> Callable[[Work], list[Tile]]:
    """What gives a workgroup's sums of a specification with a matrix instruction."""
    # Swapped operands: a lane's consecutive accumulators are then consecutive columns of C.
    # A sparse operand is the instruction's first.
    shape, sparse = "x".join(map(str, spec.mfma)), bool(spec.sparse)
    product = Mma.select(target, shape, *spec.multiplied, block_k=spec.piece, transposed=not sparse, sparse=sparse)
    if spec.shuffled and spec.taken:
        product = product.with_vector(spec.held[1].widest, spec.piece)
    if spec.scaled_by_instruction:
        product = replace(product, spread=min(spec.block[2] // product.k, SCALES_OF_A_REGISTER))
    operands_of, _ = SEEN[spec.windows.partition(":")[0]]

    def totals_of(work: Work) -> list[Tile]:
        a, *matrices = operands_of(spec, work)
        schedule = Schedule.parse(spec.schedule_text)
        accumulation = accumulation_of(spec, product, work)
        sums = contract(accumulation, a, matrices, work.begin, work.end, schedule)
        return scaled_totals(spec, product, work, sums)

    return totals_of
