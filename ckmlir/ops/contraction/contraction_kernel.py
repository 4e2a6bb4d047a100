"""The kernels of the contraction family as tile code: a walk through blocks of C, and what is done for each."""

from collections.abc import Sequence
from types import SimpleNamespace

from msgspec.structs import replace

from ckmlir.dialect.mma import Mma
from ckmlir.dialect.mma_scales import SCALES_OF_A_REGISTER
from ckmlir.dialect.schedule import Schedule
from ckmlir.lang import Kernel, Tile, f32, f64, kernel
from ckmlir.lang.carried import Carried
from ckmlir.lang.kernel import Argument
from ckmlir.lang.values import as_scalar
from ckmlir.ops.contraction import residues_kernel, windows_kernel
from ckmlir.ops.contraction.block_resources import block_lds, workgroups_a_unit
from ckmlir.ops.contraction.chain_kernel import multiplied
from ckmlir.ops.contraction.contraction_spec import ContractionSpec, computing_type
from ckmlir.ops.contraction.depthwise_kernel import windowed_sums
from ckmlir.ops.contraction.epilogue_kernel import Output, write_block
from ckmlir.ops.contraction.loop_kernel import contract, first_loads, is_early
from ckmlir.ops.contraction.operands_kernel import array, operands
from ckmlir.ops.contraction.residues_kernel import CLASSES
from ckmlir.ops.contraction.rows_kernel import Array, Put
from ckmlir.ops.contraction.scaling_kernel import accumulation_of, scaled_totals
from ckmlir.ops.contraction.side import NAMES, SideSpec
from ckmlir.ops.contraction.sinks_kernel import SINKS
from ckmlir.ops.contraction.table_kernel import Table, numbers_of
from ckmlir.ops.contraction.walks_kernel import WALKS
from ckmlir.ops.contraction.work_kernel import Work
from ckmlir.targets import Target
from ckmlir.targets.cdna import SIMDS

ALL_WALKS = {**WALKS, "classes": CLASSES}
"""By the names of `ContractionSpec.walk`."""
SEEN = {
    "": (operands, array),
    "forward": (windows_kernel.forward, array),
    "weight": (windows_kernel.weight, array),
    "places": (windows_kernel.places, array),
    "units": (windows_kernel.places, array),
    "data": (residues_kernel.operands, residues_kernel.array_of_class),
}
"""How A and B, and how other arrays are seen, by the first word of `ContractionSpec.windows`."""

NARROWEST = 4
"""Bytes of a load of A or B below which many are compared with the ends of arrays. With 1, a stream-K kernel of 1001 x
1003 x 999 whose first loads were on their way early spilled 3 scalar registers on gfx90a."""


def build(spec: ContractionSpec, target: Target) -> Kernel:
    """Trace the kernel of a specification."""
    walk = ALL_WALKS[spec.walk]
    number = f64 if computing_type(spec.dtype) == "f64" else f32
    passed = () if isinstance(walk, Table) else numbers_of(spec)
    arguments: dict[str, Argument] = {**walk.arguments(spec), **dict.fromkeys(passed, number)}

    together = workgroups_a_unit(spec, target) if spec.stays else 1

    @kernel(
        spec.name, target=target, waves=spec.wave_count, arguments=arguments, waves_a_simd=_waves_a_simd(spec, target),
        workgroups_a_unit=together,
    )  # fmt: skip
    def contraction(given: SimpleNamespace) -> None:
        walk.walk(spec, given, Block(spec, target))

    return contraction


def _waves_a_simd(spec: ContractionSpec, target: Target) -> int:
    """For how many waves of a SIMD registers leave room: for two where that is wished for, a transposed A takes none of
    them, and LDS has room for the second's workgroup."""
    resident = target.lds_bytes // max(block_lds(spec), 1)
    able = spec.layout[0] == "R" and spec.wave_count == SIMDS and resident > 1
    return 2 if spec.makes_room and able else 1


class Block:
    """What is done for a block: sums, and what becomes of them (`work_kernel.Body`)."""

    def __init__(self, spec: ContractionSpec, target: Target) -> None:
        self.spec, self.target = spec, target
        self.array_of = SEEN.get(spec.windows.partition(":")[0], (operands, array))[1]
        self.products = None if spec.is_depthwise else Products(spec, target)
        able = self.products is not None and is_early(self.products.schedule)
        self.is_early = able and not spec.kept and not _compares(spec)

    def __call__(self, work: Work) -> None:
        """See `Body`."""
        self.finish(work, self.sums(work))

    def begin(self, work: Work) -> list[Carried]:
        """See `Body`."""
        assert self.products is not None
        return self.products.begin(work)

    def sums(self, work: Work, begun: Sequence[Carried] = ()) -> list[Tile]:
        """See `Body`."""
        return windowed_sums(self.spec, work) if self.products is None else self.products.sums(work, begun)

    def finish(self, work: Work, sums: Sequence[Tile]) -> None:
        """See `Body`."""
        spec = self.spec
        scalars = {name: getattr(work.distances, name) for name in numbers_of(spec)}
        rows, columns, _ = spec.block
        lengths = {"full": (rows, columns), "column": (rows,), "row": (columns,), "scalar": (columns,)}
        kinds = [SideSpec.parse(text).kind for text in spec.side]
        sides = {name: self._padded(work, name, lengths[kind]) for name, kind in zip(NAMES, kinds, strict=False)}
        wide = (rows, spec.chain[0] if spec.behind else columns)
        output = Output([self._padded(work, name, wide) for name in spec.outputs], sides, scalars)

        def write(sums: Sequence[Tile], put: Put) -> None:
            last = multiplied(spec, work, self.target, put) if spec.behind else put
            write_block(spec, output, sums, work.row, work.column, last)

        SINKS[spec.sink].take(work, sums, write)

    def _padded(self, work: Work, name: str, block: tuple[int, ...]) -> Array:
        """An array beside the sums, which slices of a block reach."""
        return replace(self.array_of(self.spec, work, name), block=block)


def _compares(spec: ContractionSpec) -> bool:
    """Whether a step's loads are narrow, and as many are compared with the ends of arrays: scalar registers have no
    room for the outcomes of two.
    """
    single = spec.layout[:2] == "CR" and min(spec.align[:2]) == 1
    return single or min(align * one.step for align, one in zip(spec.align, spec.held, strict=False)) < 8 * NARROWEST


class Products:
    """A workgroup's sums of a specification with a matrix instruction."""

    def __init__(self, spec: ContractionSpec, target: Target) -> None:
        # Swapped operands: a lane's consecutive accumulators are then consecutive columns of C.
        # A sparse operand is the instruction's first.
        shape, sparse = "x".join(map(str, spec.mfma)), bool(spec.sparse)
        depth = spec.piece // spec.along_k
        product = Mma.select(target, shape, *spec.multiplied, block_k=depth, transposed=not sparse, sparse=sparse)
        if spec.is_straight and spec.in_memory[1] != spec.in_lds[1]:
            product = product.with_vector(spec.in_memory[1].widest, depth)
        if spec.scaled_by_instruction:
            product = replace(product, spread=min(spec.block[2] // product.k, SCALES_OF_A_REGISTER))
        self.spec, self.product = spec, replace(product, parts=spec.along_k)
        self.operands_of = SEEN[spec.windows.partition(":")[0]][0]
        self.schedule = Schedule.parse(spec.schedule_text)

    def begin(self, work: Work) -> list[Carried]:
        """See `Body`."""
        a, *matrices = self.operands_of(self.spec, work)
        begin = as_scalar(work.begin, work.end.type)
        return first_loads(accumulation_of(self.spec, self.product, work), a, matrices, begin)

    def sums(self, work: Work, begun: Sequence[Carried]) -> list[Tile]:
        """See `Body`."""
        some = work.with_a_step if self.schedule.last and self._finds_zeros(work) else work
        a, *matrices = self.operands_of(self.spec, some)
        accumulation = accumulation_of(self.spec, self.product, some)
        sums = contract(accumulation, a, matrices, some.begin, some.end, self.schedule, begun)
        return scaled_totals(self.spec, self.product, work, accumulation.totals(sums))

    def _finds_zeros(self, work: Work) -> bool:
        """Whether a step along K reads zeros where A and B are said to have no rows: not of windows, nor where a list
        tells the rows.
        """
        return work.has_all_of_k and not work.listed and not self.spec.windows
