"""Lower fragments to the llvm and rocdl dialects: the kernel that is left runs on the chip as it stands.

Ck operations become address arithmetic, buffer and LDS accesses, matrix instructions and exchanges. What remains is
arith, math, vector and cf, for which upstream passes exist; the pipeline runs those next.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from ckmlir.dialect.scalars import bits
from ckmlir.dialect.synchronization import TOGETHER
from ckmlir.lowering import (
    atomics,
    convert,
    cross_lane,
    cut,
    dequantize,
    flags,
    global_access,
    indexed_access,
    instructions,
    lds_access,
    lds_indexed,
    multiply_add,
    packed,
    repack,
    rescale,
    short_vectors,
)
from ckmlir.lowering.accumulator_form import MATRIX, use_accumulator_form
from ckmlir.lowering.arrivals import LOADS, SCALAR, arrive_together
from ckmlir.lowering.bytes_as_dwords import use_dwords
from ckmlir.lowering.context import Lowering
from ckmlir.lowering.exact_conversions import mark_exact
from ckmlir.lowering.handed_on import hand_on
from ckmlir.lowering.held_workgroups import WAITS
from ckmlir.lowering.keep_apart import keep_apart
from ckmlir.lowering.kernel_function import declare_lds, finish_function
from ckmlir.lowering.lds_room import reserved_lds
from ckmlir.lowering.matrix_distances import EXCHANGES, keep_distances, lengthen_distances, wait_before_cuts
from ckmlir.lowering.pack_before_barriers import BARRIER, JOINING, pack_before_barriers
from ckmlir.lowering.reachable_occupancy import require_reachable
from ckmlir.lowering.settled_sums import SUM, settle
from ckmlir.lowering.slots import slots_as_numbers
from ckmlir.mlir import ir
from ckmlir.passes.framework import Pass, fail
from ckmlir.passes.loop_body import READ
from ckmlir.passes.pipeline_loops import IN_PIECES
from ckmlir.passes.vectors import SHUFFLE, SLICE, length_of
from ckmlir.passes.walk import by_name, expanded_functions, target_of, waves_of
from ckmlir.passes.workgroup_waves import over_other_waves
from ckmlir.targets.cdna import WAVE_SIZE

Lower = Callable[[Lowering, ir.Operation], list[ir.Value]]

CUT, COPY = "ck.cut_vector", "ck.copy_fragment"
LOWERINGS: dict[str, Lower] = {
    "ck.load_fragment": global_access.lower_load,
    "ck.store_fragment": global_access.lower_store,
    "ck.gather_fragment": indexed_access.lower_gather,
    "ck.scatter_fragment": indexed_access.lower_scatter,
    "ck.inside_fragment": global_access.lower_inside,
    "ck.offset_fragment": global_access.lower_offset,
    "ck.atomic_fragment": atomics.lower_atomic,
    "ck.atomic_scatter_fragment": atomics.lower_atomic_scatter,
    "ck.lds_gather_fragment": lds_indexed.lower_lds_gather,
    "ck.lds_update_fragment": lds_indexed.lower_lds_update,
    "ck.lds_read": lds_access.lower_read,
    "ck.lds_write": lds_access.lower_write,
    COPY: lds_access.lower_copy,
    "ck.mfma": instructions.lower_mfma,
    "ck.first_lane": cross_lane.lower_first_lane,
    "ck.anew": instructions.lower_anew,
    "ck.exchange": cross_lane.lower_exchange,
    "ck.half": cross_lane.lower_half,
    "ck.row_lane": cross_lane.lower_row_lane,
    "ck.convert": convert.lower_convert,
    CUT: cut.lower_cut,
    "ck.rescale_vector": rescale.lower_rescale,
    "ck.unpack_fragment": packed.lower_unpack,
    "ck.dequantize_fragment": dequantize.lower_dequantize,
    "ck.pack_fragment": packed.lower_pack,
    "ck.repack_fragment": repack.lower_repack,
    "ck.thread_coordinate": instructions.lower_thread_coordinate,
    "ck.workgroup_id": instructions.lower_workgroup_id,
    "ck.barrier": instructions.lower_barrier,
    "ck.group_barrier": instructions.lower_group_barrier,
    "ck.wait": instructions.lower_wait,
    "ck.sched_barrier": instructions.lower_sched_barrier,
    "ck.sched_group_barrier": instructions.lower_sched_group_barrier,
    "ck.priority": instructions.lower_priority,
    "ck.release": flags.lower_release,
    "ck.set_flag": flags.lower_set_flag,
    "ck.await_flag": flags.lower_await_flag,
    **dict.fromkeys(instructions.MATH, instructions.lower_math),
    "arith.divf": instructions.lower_quotient,
    multiply_add.FUSED: multiply_add.lower,
    "arith.select": short_vectors.lower_select,
    **dict.fromkeys(("arith.addf", "arith.subf", "arith.mulf"), short_vectors.lower_arithmetic),
}
DECLARATIONS = ("ck.make_view", "ck.make_window", "ck.move_window", "ck.with_digits", "ck.lds_alloc")
"""Operations that only their users turn into code."""


@dataclass(frozen=True)
class LowerFragments(Pass):
    """Lower fragments to buffer and LDS accesses, matrix instructions and exchanges of the target."""

    name: ClassVar[str] = "ck-lower-fragments"

    def apply(self, module: ir.Module) -> None:
        for function, blocks in list(expanded_functions(module, self.name)):
            slots = slots_as_numbers(function, blocks)
            lower_function(function, by_name(blocks), slots)


def lower_function(
    function: ir.Operation, named: dict[str, list[ir.Operation]], slots: dict[ir.Value, ir.Operation]
) -> None:
    """Lower one kernel, with its operations by name, in place and give it the attributes of one; `slots` as
    `slots_as_numbers` gives them.
    """
    target, waves = target_of(function), waves_of(function)
    if waves < 1:
        fail(function, f"ck.waves = {waves}: a workgroup has at least one wave")
    if waves * WAVE_SIZE > target.workgroup_size:
        fail(
            function,
            f"{waves} waves are {waves * WAVE_SIZE} threads; a workgroup "
            f"of {target.name} has at most {target.workgroup_size}",
        )
    for op, over in over_other_waves((op for name in LOWERINGS for op in named.get(name, [])), waves):
        fail(op, f"has a distribution over {over} waves; the workgroup has {waves} (ck.waves)")
    keep_apart(named.get(READ, []))
    in_turn = any(map(lds_access.copies_in_turn, {op.block for op in named.get(COPY, [])}))
    together = any(TOGETHER in op.attributes for name in (SCALAR, *LOADS) for op in named.get(name, []))
    fused = multiply_add.fuse([op for name in multiply_add.SUMS for op in named.get(name, [])])
    matrix = named.get(MATRIX, [])
    settle(function, named.get(SUM, []), matrix)
    accumulation = use_accumulator_form(function, matrix, waves, target)
    exchanges = [op for name in EXCHANGES for op in named.get(name, [])]
    joining = [op for name in JOINING for op in named.get(name, [])]
    in_pieces = IN_PIECES in function.attributes
    fills = short_vectors.fills_pairs(joining, target, in_pieces=in_pieces)
    if not in_pieces:
        pack_before_barriers(named.get(BARRIER, []), joining, target)
    keep_distances(function, [] if accumulation else matrix, exchanges)
    if not accumulation:
        lengthen_distances(matrix, target)
        wait_before_cuts(named.get(CUT, []), target)
    mark_exact(named.get("ck.convert", []))
    use_dwords(function, [op for name in (SLICE, SHUFFLE) for op in named.get(name, [])])
    lds_bytes = reserved_lds(function, named.get("ck.lds_alloc", []), target)
    require_reachable(function, target, waves * WAVE_SIZE, lds_bytes)
    makes_f16 = any(isinstance(op.results[0].type.element_type, ir.F16Type) for op in named.get("ck.convert", []))
    if together:
        arrive_together(function.regions[0])
    state = Lowering(function, target, waves, makes_f16, _joins_halves(named), slots=slots)
    state.fills_pairs = fills
    state.begin(lds_bytes > 0)
    finished: list[ir.Operation] = []
    for block in list(function.regions[0]):  # lowering may add blocks, for lanes or waves that take no part
        state.begin_block()
        for op_view in list(block.operations):
            _lower(state, op_view.operation, finished)
    for op in reversed(finished):
        op.erase()
    hand_on(function, state.passing)
    if lds_bytes:
        declare_lds(function, lds_bytes)
    if "ck.await_flag" in named:
        function.attributes[WAITS] = ir.UnitAttr.get()
    finish_function(function, waves, accumulation, apart=not matrix or fused or in_turn, branched=CUT in named)


def _joins_halves(named: dict[str, list[ir.Operation]]) -> bool:
    """Whether LLVM is to see no halves of registers: where elements of 16 bits are written to LDS alone it would shift
    them down, and where rows are gathered it would keep up to 55 registers too many until they are put together. Else
    it finds better orders when it sees them: woven attention in bf16 takes 1.03 of the time on gfx942 without."""
    written = [op.operands[0] for op in named.get("ck.lds_write", [])]
    return "ck.gather_fragment" in named or any(
        length_of(one) == 1 and bits(one.type.element_type) == 16 for one in written
    )


def _lower(state: Lowering, op: ir.Operation, finished: list[ir.Operation]) -> None:
    lower = LOWERINGS.get(op.name)
    if lower is None:
        if op.name in DECLARATIONS:
            finished.append(op)
        elif op.name.startswith("ck."):
            fail(
                op,
                f"'{op.name}' is still here: run the passes that split tiles and pipeline loops "
                "before ck-lower-fragments",
            )
        return
    with ir.InsertionPoint(op), op.location:
        try:
            results = lower(state, op)
        except ValueError as problem:
            fail(op, str(problem))
    for old, new in zip(op.results, results, strict=True):
        old.replace_all_uses_with(new)
    finished.append(op)
