"""The kernel as an llvm.func: its memory in LDS, and what the backend is told of it."""

from ckmlir.dialect.build import integer, integer_of
from ckmlir.dialect.control import end_of
from ckmlir.dialect.notes import notes_of
from ckmlir.dialect.scalars import name_of
from ckmlir.lowering.accumulator_form import ACCUMULATION
from ckmlir.lowering.codeobject import LEVEL
from ckmlir.lowering.context import lds_symbol
from ckmlir.lowering.held_workgroups import WAITS
from ckmlir.lowering.kernel_arguments import KernelArguments
from ckmlir.lowering.resident_waves import WISH, option_of
from ckmlir.mlir import ir
from ckmlir.passes.pipeline_loops import IN_PIECES, OCCUPANCY
from ckmlir.passes.walk import WORKGROUPS_A_UNIT, named_target
from ckmlir.targets.cdna import SIMDS, WAVE_SIZE

GLOBAL_ALIGNMENT = 1024
NEVER_READ = ("dispatch-ptr", "queue-ptr", "dispatch-id")
"""Numbers of a launch that no kernel of ours reads. LLVM finds that out by itself unless it meets an intrinsic that
might call something (copies to LDS and their marks), and then has them take the scalar registers of six dwords of
arguments."""
PIECES_LEVEL = 1
"""LLVM's level for kernels whose order is given piece by piece: at level 2 it finds nothing to do there, takes a
quarter more time, and up to 18 more registers (attention under woven schedules)."""


def declare_lds(function: ir.Operation, size: int) -> None:
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


def finish_function(function: ir.Operation, waves: int, accumulation: bool, *, apart: bool, branched: bool) -> None:
    """The kernel as an llvm.func with the attributes of one; `apart`: without matrix instructions, or with elements, or
    numbers of a wave, that are to stay single; `branched`: with selections that waves branch around."""
    attributes = _attributes(function, waves)
    options = _options(function, waves, accumulation, apart=apart, branched=branched)
    if options:
        attributes["passthrough"] = ir.ArrayAttr.get(options)
    if accumulation:
        attributes[ACCUMULATION] = ir.UnitAttr.get()
    with ir.InsertionPoint(function), function.location:
        kernel = ir.Operation.create("llvm.func", attributes=attributes, regions=1)
    for block in list(function.regions[0]):
        block.append_to(kernel.regions[0])
    for block in kernel.regions[0]:
        last = end_of(block)
        if last.name == "func.return":
            with ir.InsertionPoint(last), last.location:
                ir.Operation.create("llvm.return")
            last.erase()
    function.erase()


def _attributes(function: ir.Operation, waves: int) -> dict[str, ir.Attribute]:
    """What the kernel is: name, arguments, size of its workgroups, level of optimization."""
    threads = waves * WAVE_SIZE
    types = ", ".join(
        name_of(type_).removeprefix("!llvm.")
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
    if IN_PIECES in function.attributes:
        attributes[LEVEL] = integer(PIECES_LEVEL, 32)
    for name in (WISH, WORKGROUPS_A_UNIT, WAITS):
        if name in function.attributes:
            attributes[name] = function.attributes[name]
    attributes["arg_attrs"] = ir.ArrayAttr.get(_of_arguments(function))
    return attributes


def _of_arguments(function: ir.Operation) -> list[ir.Attribute]:
    """What is known of each argument; the first are in scalar registers where the kernel begins, as far as the chip
    brings them there: it need not wait for memory before it computes the first address. Many arguments are left in
    memory, from where they are read again (`ck-reload-arguments`): LLVM cannot fetch the others anew, and attention
    backward by workgroups that stay, with dropout, kept one in a lane.

    Source: LLVM's AMDGPU user guide, "Preloaded Kernel Arguments"; firmware that does not know of it runs the
    instructions in front of the kernel, which load them.
    """
    entry, target = function.regions[0].blocks[0], named_target(function)
    known = function.attributes["arg_attrs"] if "arg_attrs" in function.attributes else [{}] * len(entry.arguments)
    found = [{item.name: item.attr for item in one if not item.name.startswith("ck.")} for one in known]
    arguments = KernelArguments(entry)
    for one in found[: arguments.within(target.kernarg_preload if target and not arguments.are_many else 0)]:
        one["llvm.inreg"] = ir.UnitAttr.get()
    return [ir.DictAttr.get(one) for one in found]


def _options(
    function: ir.Operation, waves: int, accumulation: bool, *, apart: bool, branched: bool
) -> list[ir.Attribute]:
    """What LLVM's backend is told of the kernel, in the form in which MLIR hands it on."""
    options: list[ir.Attribute] = [ir.StringAttr.get(f"amdgpu-no-{name}") for name in NEVER_READ]
    in_pieces = IN_PIECES in function.attributes
    if waves > SIMDS:
        # At most 256 registers a wave: all of them serve as the one kind. LLVM finds that out by itself unless it meets
        # an intrinsic that might call something (copies to LDS and their marks); then it would keep half for the other.
        options.append(_option("amdgpu-agpr-alloc", "0"))
    if accumulation:
        # Loops have their order from fences. Around them LLVM would read all accumulators before it stores the first.
        options.append(_option("amdgpu-sched-strategy", "iterative-minreg"))
    if apart or len(function.regions[0].blocks) == 1 or in_pieces:
        # LLVM's vectorizers leave such kernels alone. They find nothing in vectors; a transpose takes them 2 ms,
        # topk_softmax 6 of 53. What was taken to pieces they would join again, and move out of its place.
        options.append(ir.StringAttr.get("noimplicitfloat"))
    if OCCUPANCY in function.attributes:
        options.append(_option("amdgpu-waves-per-eu", str(integer_of(function, OCCUPANCY))))
    if branched or in_pieces:
        # LLVM knows that matrix instructions quiet NaN, but not of what comes by a branch or from another turn of a
        # loop, and would have each element quieted before a maximum of two, by one more instruction. Without IEEE mode
        # maxima need not find quiet NaN.
        options.append(_option("amdgpu-ieee", "false"))
    return [*options, *option_of(function)]


def _option(name: str, text: str) -> ir.ArrayAttr:
    return ir.ArrayAttr.get([ir.StringAttr.get(name), ir.StringAttr.get(text)])
