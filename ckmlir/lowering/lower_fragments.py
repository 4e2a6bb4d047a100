"""Lower fragments to the llvm and rocdl dialects: the kernel that is left runs on the chip as it stands.

Ck operations become address arithmetic, buffer and LDS accesses, matrix instructions and exchanges. What remains is
arith, math, vector and cf, for which upstream passes exist; the pipeline runs those next.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from ckmlir.dialect.build import integer, integer_of
from ckmlir.dialect.notes import notes_of
from ckmlir.dialect.scalars import bits
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
from ckmlir.lowering.accumulator_form import ACCUMULATION, MATRIX, use_accumulator_form
from ckmlir.lowering.arrivals import arrive_together
from ckmlir.lowering.bytes_as_dwords import use_dwords
from ckmlir.lowering.codeobject import LEVEL
from ckmlir.lowering.context import WAVE_SIZE, Lowering, lds_symbol
from ckmlir.lowering.handed_on import hand_on
from ckmlir.lowering.keep_apart import keep_apart
from ckmlir.lowering.lds_room import reserved_lds
from ckmlir.lowering.matrix_distances import EXCHANGES, keep_distances, lengthen_distances, wait_before_cuts
from ckmlir.lowering.reachable_occupancy import require_reachable
from ckmlir.lowering.resident_waves import WISH, option_of
from ckmlir.lowering.settled_sums import SUM, settle
from ckmlir.lowering.slots import slots_as_numbers
from ckmlir.mlir import ir
from ckmlir.passes.framework import Pass, fail
from ckmlir.passes.loop_body import READ
from ckmlir.passes.pipeline_loops import IN_PIECES, OCCUPANCY
from ckmlir.passes.vectors import SHUFFLE, SLICE, length_of
from ckmlir.passes.walk import by_name, expanded_functions, target_of, waves_of
from ckmlir.passes.workgroup_waves import over_other_waves
from ckmlir.targets.cdna import SIMDS

Lower = Callable[[Lowering, ir.Operation], list[ir.Value]]

CUT = "ck.cut_vector"
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
    "ck.copy_fragment": lds_access.lower_copy,
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

GLOBAL_ALIGNMENT = 1024

PIECES_LEVEL = 1
"""LLVM's level for kernels whose order is given piece by piece: at level 2 it finds nothing to do there, takes a
quarter more time, and up to 18 more registers (attention under woven schedules)."""


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
    fused = multiply_add.fuse([op for name in multiply_add.SUMS for op in named.get(name, [])])
    matrix = named.get(MATRIX, [])
    settle(function, named.get(SUM, []), matrix)
    accumulation = use_accumulator_form(function, matrix, waves, target)
    exchanges = [op for name in EXCHANGES for op in named.get(name, [])]
    keep_distances(function, [] if accumulation else matrix, exchanges)
    if not accumulation:
        lengthen_distances(matrix, target)
        wait_before_cuts(named.get(CUT, []), target)
    use_dwords(function, [op for name in (SLICE, SHUFFLE) for op in named.get(name, [])])
    lds_bytes = reserved_lds(function, named.get("ck.lds_alloc", []), target)
    require_reachable(function, target, waves * WAVE_SIZE, lds_bytes)
    makes_f16 = any(isinstance(op.results[0].type.element_type, ir.F16Type) for op in named.get("ck.convert", []))
    arrive_together(function.regions[0])
    state = Lowering(function, target, waves, makes_f16, _joins_halves(named), slots=slots)
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
        _declare_lds(function, lds_bytes)
    _finish_function(function, waves, accumulation, apart=fused, branched=CUT in named)


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


def _declare_lds(function: ir.Operation, size: int) -> None:
    """The workgroup's LDS as one array; its size is what the kernel descriptor will ask for."""
    array = ir.Type.parse(f"!llvm.array<{size} x i8>")
    with ir.InsertionPoint(function), function.location:
        attributes = {
            "sym_name": ir.StringAttr.get(lds_symbol(function)),
            "global_type": ir.TypeAttr.get(array),
            "addr_space": integer(3, 32),
            "linkage": ir.Attribute.parse("#llvm.linkage<internal>"),
            "alignment": integer(GLOBAL_ALIGNMENT),
            "dso_local": ir.UnitAttr.get(),
        }
        ir.Operation.create("llvm.mlir.global", regions=1, attributes=attributes)


def _finish_function(function: ir.Operation, waves: int, accumulation: bool, *, apart: bool, branched: bool) -> None:
    """The kernel as an llvm.func with the attributes of one; `apart`: with elements that are to stay single;
    `branched`: with selections that waves branch around."""
    threads = waves * WAVE_SIZE
    types = ", ".join(
        str(type_).removeprefix("!llvm.")
        for type_ in ir.FunctionType(function.attributes["function_type"].value).inputs
    )
    attributes = {
        "sym_name": function.attributes["sym_name"],
        "function_type": ir.TypeAttr.get(ir.Type.parse(f"!llvm.func<void ({types})>")),
        "linkage": ir.Attribute.parse("#llvm.linkage<external>"),
        "CConv": ir.Attribute.parse("#llvm.cconv<ccc>"),
        "rocdl.kernel": ir.UnitAttr.get(),
        "gpu.kernel": ir.UnitAttr.get(),
        "rocdl.flat_work_group_size": ir.StringAttr.get(f"{threads},{threads}"),
        **notes_of(function),
        # Lanes are counted along x only, so a launch of any other shape would compute something else.
        "rocdl.reqd_work_group_size": ir.DenseI32ArrayAttr.get([threads, 1, 1]),
    }
    if waves > SIMDS:
        # At most 256 registers a wave: all of them serve as the one kind. LLVM finds that out by itself unless it meets
        # an intrinsic that might call something (copies to LDS and their marks); then it would keep half for the other.
        attributes["passthrough"] = _option("amdgpu-agpr-alloc", "0")
    if accumulation:
        attributes[ACCUMULATION] = ir.UnitAttr.get()
        # Loops have their order from fences. Around them LLVM would read all accumulators before it stores the first.
        attributes["passthrough"] = _option("amdgpu-sched-strategy", "iterative-minreg")
    if IN_PIECES in function.attributes:
        attributes[LEVEL] = integer(PIECES_LEVEL, 32)
    if apart or len(function.regions[0].blocks) == 1 or IN_PIECES in function.attributes:
        # LLVM's vectorizers leave such kernels alone. They find nothing in vectors; a transpose takes them 2 ms. What
        # was taken to pieces they would join again, and move out of its place.
        attributes["passthrough"] = ir.ArrayAttr.get(
            [*attributes.get("passthrough", ()), ir.StringAttr.get("noimplicitfloat")]
        )
    if OCCUPANCY in function.attributes:
        attributes["passthrough"] = ir.ArrayAttr.get([
            *attributes.get("passthrough", ()),
            *_option("amdgpu-waves-per-eu", str(integer_of(function, OCCUPANCY))),
        ])
    if branched or IN_PIECES in function.attributes:
        # LLVM knows that matrix instructions quiet NaN, but not of what comes by a branch or from another turn of a
        # loop, and would have each element quieted before a maximum of two, by one more instruction. Without IEEE mode
        # maxima need not find quiet NaN.
        attributes["passthrough"] = ir.ArrayAttr.get(
            [*attributes.get("passthrough", ()), *_option("amdgpu-ieee", "false")]
        )
    if WISH in function.attributes:
        attributes[WISH] = function.attributes[WISH]
        attributes["passthrough"] = ir.ArrayAttr.get([*attributes.get("passthrough", ()), *option_of(function)])
    if "arg_attrs" in function.attributes:
        attributes["arg_attrs"] = ir.ArrayAttr.get(
            [_without_ck(argument) for argument in function.attributes["arg_attrs"]]
        )
    with ir.InsertionPoint(function), function.location:
        kernel = ir.Operation.create("llvm.func", attributes=attributes, regions=1)
    for block in list(function.regions[0]):
        block.append_to(kernel.regions[0])
    for block in kernel.regions[0]:
        last = block.operations[-1].operation
        if last.name == "func.return":
            with ir.InsertionPoint(last), last.location:
                ir.Operation.create("llvm.return")
            last.erase()
    function.erase()


def _option(name: str, text: str) -> ir.ArrayAttr:
    """An attribute that LLVM's backend knows, in the form in which MLIR hands it on."""
    return ir.ArrayAttr.get([ir.ArrayAttr.get([ir.StringAttr.get(name), ir.StringAttr.get(text)])])


def _without_ck(attributes: ir.Attribute) -> ir.Attribute:
    return ir.DictAttr.get({item.name: item.attr for item in attributes if not item.name.startswith("ck.")})
