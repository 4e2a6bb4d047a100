"""Finding one's way in a module: kernels, their operations, their waves."""

import re
import threading
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from typing import Any

from ckmlir.dialect.build import integer_of
from ckmlir.dialect.control import STRUCTURED
from ckmlir.dialect.loop import LOOP
from ckmlir.dialect.scalars import name_of
from ckmlir.dialect.types import is_ck, is_lds
from ckmlir.mlir import ir
from ckmlir.passes.framework import fail
from ckmlir.targets import Target, UnsupportedTarget, get_target

REGION_VALUES = {"ck.map", "ck.reduce", "ck.scan"}  # their regions are scalar code, not part of the tile program


def functions(module: ir.Module) -> Iterator[ir.Operation]:
    """The kernels of a module: functions with a body inside its gpu.modules and at its top level."""
    for top in module.body.operations:
        inside = top.operation.regions[0].blocks[0].operations if top.operation.name == "gpu.module" else (top,)
        for op in inside:
            if op.operation.name == "func.func" and len(op.operation.regions[0].blocks):
                yield op.operation


def loops_of(module: ir.Module) -> list[ir.Operation]:
    """The loops of stages of a module's kernels, in program order."""
    return [op for function in functions(module) for op in operations(function) if op.name == LOOP]


def kernel_names(module: ir.Module) -> list[str]:
    """The kernels of the one gpu.module of a module at any stage, by name; none where it has another number of them."""
    return [str(op.attributes["sym_name"].value) for op in _kernels(module)]


def argument_names(module: ir.Module) -> dict[str, tuple[str, ...]]:
    """The names of the arguments (`ck.name`) of the kernels of a module's gpu.module, where all have one."""
    found = {}
    for op in _kernels(module):
        given = _arguments(op)
        if all("ck.name" in one for one in given):
            found[str(op.attributes["sym_name"].value)] = tuple(str(one["ck.name"].value) for one in given)
    return found


def _arguments(function: ir.Operation) -> list[Any]:
    """The attributes of each argument of a kernel."""
    return list(function.attributes["arg_attrs"]) if "arg_attrs" in function.attributes else []


def named_chip(module: ir.Module) -> Target | None:
    """The chip that a module's one gpu.module is for; None where it names none, or one that does not exist."""
    tops = _device_modules(module)
    text = str(tops[0].attributes["targets"]) if len(tops) == 1 and "targets" in tops[0].attributes else ""
    match = re.search(r'chip = "(\w+)"', text)
    try:
        return get_target(match[1]) if match else None
    except UnsupportedTarget:
        return None


def _device_modules(module: ir.Module) -> list[ir.Operation]:
    return [op.operation for op in module.body.operations if op.operation.name == "gpu.module"]


def _kernels(module: ir.Module) -> list[ir.Operation]:
    """Functions with a body in the one gpu.module, ours or LLVM's."""
    tops = _device_modules(module)
    inside = [op.operation for op in tops[0].regions[0].blocks[0].operations] if len(tops) == 1 else []
    return [op for op in inside if op.name in ("func.func", "llvm.func") and len(op.regions[0].blocks)]


def check_arguments(module: ir.Module) -> None:
    """PassFailure for a kernel whose blocks take tiles, windows or other values of this dialect: nothing could say
    where they lie. LDS tensors they may take: which slot of several one is, a loop hands on.
    """
    for function in functions(module):
        for type_ in {argument.type for block in function.regions[0] for argument in block.arguments}:
            if is_ck(type_) and not is_lds(type_):
                fail(function, f"its blocks take pointers, scalars and vectors, not {type_}")


def operations(root: ir.Operation, *, without: Collection[str] = ()) -> Iterator[ir.Operation]:
    """All operations inside `root` in program order, without the scalar code of element-wise operations, and without
    what operations of the names given hold.
    """
    for region in root.regions:
        for block in region:
            for op in block:
                operation = op.operation
                yield operation
                if len(operation.regions) and operation.name not in REGION_VALUES and operation.name not in without:
                    yield from operations(operation, without=without)


def nested(root: ir.Operation) -> Iterator[ir.Operation]:
    """All operations inside `root`, scalar code included."""
    for region in root.regions:
        for block in region:
            for op in block:
                yield op.operation
                yield from nested(op.operation)


def target_of(function: ir.Operation) -> Target:
    """The chip a kernel is for: that of its gpu.module's `#rocdl.target`, or the attribute `ck.target` of its parent.

    PassFailure where none is named, or one that does not exist.
    """
    target = named_target(function)
    if target is None:
        fail(
            function,
            'no chip is named: put it in a gpu.module with #rocdl.target<chip = "…">, or set ck.target on its module',
        )
    return target


def named_target(function: ir.Operation) -> Target | None:
    """The chip a kernel is for, None where none is named; PassFailure for one that does not exist."""
    parent = function.parent.operation
    name = ""
    if "targets" in parent.attributes:
        match = re.search(r'chip = "(\w+)"', name_of(parent.attributes["targets"]))
        name = match[1] if match else ""
    elif "ck.target" in parent.attributes:
        name = str(parent.attributes["ck.target"].value)
    if not name:
        return None
    try:
        return get_target(name)
    except ValueError as problem:
        fail(function, str(problem))


def waves_of(function: ir.Operation) -> int:
    """Waves of a kernel's workgroup (attribute `ck.waves`)."""
    try:
        return integer_of(function, "ck.waves")
    except ValueError as problem:
        fail(function, f"the kernel {problem}: its workgroup's waves, `ck.waves = 4 : i32`")


WORKGROUPS_A_UNIT = "ck.workgroups_a_unit"
"""Set on kernels: how many of their workgroups a compute unit is given at a time; 1 where it is not."""


def workgroups_a_unit(function: ir.Operation) -> int:
    """How many workgroups of a kernel LDS and registers of a compute unit are to hold."""
    if WORKGROUPS_A_UNIT not in function.attributes:
        return 1
    try:
        count = integer_of(function, WORKGROUPS_A_UNIT)
    except ValueError as problem:
        fail(function, f"the kernel {problem}: how many workgroups a compute unit is given")
    if count < 1:
        fail(function, f"{WORKGROUPS_A_UNIT} = {count}: a compute unit is given at least one workgroup")
    return count


def has_control(module: ir.Module) -> bool:
    """Whether any kernel has loops or branches that are not blocks yet."""
    return any(op.name in STRUCTURED for function in functions(module) for op in operations(function))


Blocks = list[list[ir.Operation]]
"""The operations of each block of a control-flow graph, listed once: the bindings take longer to list an operation than
most passes to look at one."""


class _Kept(threading.local):
    """The lists that one pass hands to the next, each with its kernel; None outside `lists_kept`. No dictionary: what
    an operation is found by there changes with its attributes.
    """

    lists: list[tuple[ir.Operation, Blocks]] | None = None


_kept = _Kept()


@contextmanager
def lists_kept() -> Iterator[None]:
    """Inside, a kernel's operations are listed once for all passes up to the next `forget_lists`."""
    outer, _kept.lists = _kept.lists, []
    try:
        yield
    finally:
        _kept.lists = outer


def forget_lists() -> None:
    """What was listed need not be so any more."""
    if _kept.lists:
        _kept.lists = []


def blocks_of(function: ir.Operation) -> Blocks:
    """What the blocks of a kernel hold; who changes that where lists are kept changes these lists too
    (`Pass.keeps_lists`).
    """
    lists = _kept.lists
    for kernel, known in lists or ():
        if kernel == function:
            return known
    found = [[view.operation for view in block] for block in function.regions[0]]
    if lists is not None:
        lists.append((function, found))
    return found


def listed(function: ir.Operation) -> Sequence[ir.Operation]:
    """`operations` of a kernel, of its kept lists where it has no loops or branches of which they hold nothing."""
    blocks = blocks_of(function)
    if _structured(blocks) is not None:
        return list(operations(function))
    return blocks[0] if len(blocks) == 1 else list(chain.from_iterable(blocks))


def _structured(blocks: Blocks) -> ir.Operation | None:
    """The first loop or branch that is not blocks yet."""
    return next((op for block in blocks for op in block if op.name in STRUCTURED), None)


def by_name(blocks: Blocks) -> dict[str, list[ir.Operation]]:
    """Operations by name, each in the program's order."""
    found: dict[str, list[ir.Operation]] = {}
    for block in blocks:
        for op in block:
            found.setdefault(op.name, []).append(op)
    return found


def expanded_functions(
    module: ir.Module, name: str, *, with_loops: bool = False
) -> Iterator[tuple[ir.Operation, Blocks]]:
    """`functions` with their blocks, for the pass `name`, which reads a kernel as a control-flow graph; PassFailure
    where a loop or branch is left. `with_loops`: only those that may have loops, which are blocks behind others.
    """
    for function in functions(module):
        if with_loops and len(function.regions[0].blocks) == 1:
            continue
        blocks = blocks_of(function)
        left = _structured(blocks)
        if left is not None:
            what = "loops of stages" if left.name == LOOP else f"'{left.name}'"
            fail(function, f"holds {what}; run ck-pipeline-loops before {name}")
        yield function, blocks


def move_rest(op: ir.Operation, block: ir.Block, *, itself: bool = False) -> None:
    """Move what follows an operation in its block, or it too, into an empty block."""
    following = [one.operation for one in op.block.operations]
    move_all(following[following.index(op) + (not itself) :], block)


def move_all(ops: Iterable[ir.Operation], block: ir.Block) -> None:
    """Move operations into an empty block."""
    with ir.InsertionPoint(block), ir.Location.unknown():
        anchor = ir.Operation.create("ck.barrier")  # something to move operations in front of
    for one in ops:
        one.move_before(anchor)
    anchor.erase()
