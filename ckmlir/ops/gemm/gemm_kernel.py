"""The GEMM kernel as tile code: one workgroup computes one block of C."""

from ckmlir.dialect.distribution_builders import coalesced
from ckmlir.dialect.mma import Mma
from ckmlir.dialect.schedule import Schedule
from ckmlir.lang import (
    Kernel,
    Pointer,
    Scalar,
    Tile,
    View,
    cast,
    i32,
    kernel,
    load,
    loop,
    mma,
    ptr,
    stage,
    store,
    to_lds,
    view,
    workgroup_id,
    zeros,
)  # fmt: skip
from ckmlir.ops.dtypes import find_dtype
from ckmlir.ops.gemm.gemm_spec import GemmSpec
from ckmlir.ops.gemm.shuffle import tile_depth, vector_length
from ckmlir.targets import Target

STORE_BYTES = 16


def build(spec: GemmSpec, target: Target) -> Kernel:
    """Trace the kernel of a specification."""
    bm, bn, bk = spec.block
    # Swapped operands: a lane's consecutive accumulators are then consecutive columns of C.
    product = Mma.select(target, "x".join(map(str, spec.mfma)), spec.dtype, block_k=bk, transposed=True)
    pointers = {"a": ptr(spec.dtype), "b": ptr(spec.dtype), "c": ptr(spec.out)}
    scalars = dict.fromkeys(("m", "n", "k", "lda", "ldb", "ldc"), i32)

    @kernel(spec.name, target=target, waves=spec.wave_count, arguments={**pointers, **scalars})
    def gemm(
        a: Pointer, b: Pointer, c: Pointer, m: Scalar, n: Scalar, k: Scalar, lda: Scalar, ldb: Scalar, ldc: Scalar
    ) -> None:
        m, n, k = _divisors(spec, m, n, k)
        align_a, align_b, align_c = spec.align
        A = _operand(a, m, k, lda.multiple_of(align_a), k_contiguous=spec.layout[0] == "R").pad(bm, bk)
        B = _matrix_b(spec, b, n, k, ldb.multiple_of(align_b)).pad(bn, bk)
        C = view(c, (m, n), (ldc.multiple_of(align_c), 1)).pad(bm, bn)
        tiles_n = (n + (bn - 1)) // bn
        tm, tn = workgroup_id(0) // tiles_n * bm, workgroup_id(0) % tiles_n * bn
        total = zeros((bm, bn), product.acc_dtype, product.c_over(spec.waves, bm, bn))

        with loop(0, k, bk, carry=[total], schedule=Schedule.parse(spec.schedule_text)) as step:
            (total,) = step.carried
            with stage("load"):
                ga = load(A.window((bm, bk), (tm, step.index)))
                gb = load(B.window((bn, bk), (tn, step.index)))
            with stage("to_lds"):
                la, lb = to_lds(ga, "a"), to_lds(gb, "b")
            with stage("from_lds"):
                ra = la.read(product.a_over(spec.waves, bm, bk))
                rb = lb.read(product.b_over(spec.waves, bn, bk))
            with stage("math"):
                step.carry(mma(product, ra, rb, total))
        (total,) = step.results

        store(_arranged(cast(total, spec.out), spec), C.window((bm, bn), (tm, tn)))

    return gemm


def _divisors(spec: GemmSpec, m: Scalar, n: Scalar, k: Scalar) -> tuple[Scalar, Scalar, Scalar]:
    """The sizes with what is known to divide them: the block, or the alignment of the rows that they are the
    length of.
    """
    known = dict.fromkeys("mnk", 1)
    rows = {0: "k" if spec.layout[0] == "R" else "m", 1: "n" if spec.layout[1] == "R" else "k", 2: "n"}
    if spec.shuffled:
        del rows[1]  # rows of tiles, filled up
    for operand, letter in rows.items():
        known[letter] = max(known[letter], spec.align[operand])
    for letter, length in zip("mnk", spec.block, strict=True):
        if letter not in spec.pad:
            known[letter] = length
    return m.multiple_of(known["m"]), n.multiple_of(known["n"]), k.multiple_of(known["k"])


def _operand(pointer: Pointer, rows: Scalar, k: Scalar, pitch: Scalar, *, k_contiguous: bool) -> View:
    """A matrix with K as its second dimension, whichever of the two is contiguous."""
    return view(pointer, (rows, k), (pitch, 1) if k_contiguous else (1, pitch))


def _matrix_b(spec: GemmSpec, b: Pointer, n: Scalar, k: Scalar, ldb: Scalar) -> View:
    """B (n, k): a plain matrix, or in tiles (n, k, lane along k, column, element) that are seen as one; with the zeros
    that fill the last tiles up.
    """
    if not spec.shuffled:
        return _operand(b, n, k, ldb, k_contiguous=spec.layout[1] == "C")
    size = find_dtype(spec.dtype).bytes
    columns, vector, depth = spec.shuffled, vector_length(size), tile_depth(spec.shuffled, size)
    tiles_n, tiles_k = _tiles(n, columns), _tiles(k, depth)
    rows = view(b, (tiles_n, tiles_k * (depth * columns)), (ldb, 1))
    tiles = rows.unmerge(1, (tiles_k, depth // vector, columns, vector)).permute(0, 3, 1, 2, 4)
    return tiles.merge(0, 1).merge(1, 2, 3)


def _tiles(length: Scalar, tile: int) -> Scalar:
    """How many tiles hold a length, with what is known to divide their number."""
    tiles: Scalar = (length + (tile - 1)) // tile
    return tiles.multiple_of(length.multiple // tile)


def _arranged(block: Tile, spec: GemmSpec) -> Tile:
    """A block of C for its store: as it lies, or through LDS so that every row is written in full vectors."""
    if spec.epilogue == "direct":
        return block
    vector = min(spec.align[2], STORE_BYTES // find_dtype(spec.out).bytes)
    bm, bn, _ = spec.block
    return to_lds(block).read(coalesced((bm, bn), spec.wave_count, 1, vector))
