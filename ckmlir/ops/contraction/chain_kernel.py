"""A block of C that is multiplied by a second matrix instead of being stored: two products in one kernel.

What is between them never gets to memory. A workgroup has all rows of a block but only some columns of C, and those are
a part of the length of the second sums; so memory adds what workgroups make of a row. With the experts of a routing
(`ckmlir.ops.contraction.experts_kernel`), rows of the result are those of tokens, and weighted. The second matrix is
held as those of the first product are, so that elements of 4 bits become the type of C on their way to LDS.

Semantics: CK Tile, example 15_fused_moe (fused_moegemm).
"""

from __future__ import annotations

from ckmlir.dialect.mma import Mma
from ckmlir.dialect.schedule import Schedule
from ckmlir.lang import Scalar, Tile, cast, coordinates, loop, mma, stage, to_lds, view, where, zeros
from ckmlir.lang.values import as_scalar
from ckmlir.lang.views import Amount
from ckmlir.ops.contraction.contraction_spec import ContractionSpec
from ckmlir.ops.contraction.operands_kernel import array, behind
from ckmlir.ops.contraction.rows_kernel import Array, Put, Rows
from ckmlir.ops.contraction.side import SideSpec
from ckmlir.ops.contraction.work_kernel import Work
from ckmlir.ops.schedules import CHAIN
from ckmlir.targets import Target


def multiplied(spec: ContractionSpec, work: Work, target: Target, put: Put) -> Put:
    """Puts the weighted product of a block of C and `down` to where the block was to be put, some columns at a time."""
    rows, depth, _ = spec.block
    columns = spec.chain[0]
    shape = "x".join(map(str, spec.mfma))
    product = Mma.select(target, shape, *spec.multiplied, block_k=depth, transposed=True)

    def put_product(to: Rows, block: Tile, first: Amount) -> None:
        column = as_scalar(first, work.column.type)
        if "n" in spec.pad:  # of zeros an expression may make anything
            block = where(coordinates(block, 1) < work.sizes["n"] - column, block, 0.0)
        held = to_lds(cast(block, spec.multiplied[0]), "c")
        left = held.read(product.a_over(spec.waves, rows, depth))
        weights = array(spec, work, "weights").rows(work.row, rows).load()
        bias = [_first_bias(spec, work, name, column) for name in spec.bias_behind]
        with loop(0, work.sizes["k"], columns, schedule=Schedule.parse(CHAIN["chain"])) as step:
            with stage("load"):
                down = behind(spec, work, step.index)
                loaded = down.load(column)
                added = [cast(one.rows(step.index, columns).load(), product.acc_dtype) for one in bias]
            with stage("to_lds"):
                right = to_lds(down.prepared(loaded, column), down.name)
            with stage("from_lds"):
                across = right.read(product.b_over(spec.waves, columns, depth))
            with stage("math"):
                lies = product.c_over(spec.waves, rows, columns)
                sums = mma(product, left, across, zeros((rows, columns), product.acc_dtype, lies))
                for one in added:
                    sums = sums + one[None, :]
                weighted = sums * weights[:, None]
            with stage("out"):
                put(to, weighted, step.index)

    return put_product


def _first_bias(spec: ContractionSpec, work: Work, name: str, column: Scalar) -> Array:
    """What is added to the product, in front of the blocks that have the first columns of C alone: memory adds up those
    of all. For others it has no elements."""
    length = column.equals(0).select(work.sizes["k"], 0).multiple_of(SideSpec.parse(*spec.chain_side).align)
    return Array(view(work.arrays[name], (length,), (1,)))
