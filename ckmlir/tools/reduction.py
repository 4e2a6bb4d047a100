"""Shrinking a module step by step while it keeps a property: pieces are left out, values replaced, attributes dropped.

Every candidate is valid IR. Pieces are tried in halves, quarters and so on (Zeller and Hildebrandt, "Simplifying and
isolating failure-inducing input", 2002), until no single one can be left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ckmlir.diagnostics import collect
from ckmlir.lowering.child_process import ChildEnded, in_child_process
from ckmlir.mlir import arith, ir
from ckmlir.passes.walk import nested

Fails = Callable[[str], bool]
Change = Callable[[ir.Module, range], None]
MODULES = ("builtin.module", "gpu.module")
NEEDED = frozenset({"sym_name", "function_type", "value", "operandSegmentSizes", "resultSegmentSizes"})
"""Attributes without which operations are not valid, which need not be tried."""


def reduce_module(text: str, fails: Fails, context: ir.Context, tell: Callable[[str], None] = lambda line: None) -> str:
    """The smallest module found that still fails, as text.

    Args:
        text: a module for which `fails` is true.
        tell: called with a line whenever the module has become smaller.
    """
    while True:
        before = text
        for change, count in ((_erase, _operations), (_drop_attributes, _attributes)):
            text = _without(text, fails, context, change, count, tell)
        if text == before:
            return text


def _without(
    text: str, fails: Fails, context: ir.Context, change: Change, count: Callable[[ir.Module], int],
    tell: Callable[[str], None],
) -> str:  # fmt: skip
    """The text without as many pieces as can be left out, the last ones first."""
    size = max(1, _counted(text, context, count) // 2)
    while True:
        end = _counted(text, context, count)
        while end > 0:
            part = range(max(0, end - size), end)
            smaller = _changed(text, context, change, part)
            if smaller is not None and len(smaller) < len(text) and fails(smaller):
                text = smaller
                tell(f"{len(text.splitlines())} lines, {len(text)} bytes")
                end = min(part.start, _counted(text, context, count))
            else:
                end = part.start
        if size == 1:
            return text
        size //= 2


def _counted(text: str, context: ir.Context, count: Callable[[ir.Module], int]) -> int:
    with context, collect(context):
        return count(ir.Module.parse(text, context))


def _changed(text: str, context: ir.Context, change: Change, part: range) -> str | None:
    """The module after a change; None where it is not valid then.

    Made in a copy of the process: MLIR may end it over IR that is halfway between two valid states.
    """

    def change_and_print() -> bytes:
        with context, ir.Location.unknown(context), collect(context):
            module = ir.Module.parse(text, context)
            try:
                change(module, part)
                module.operation.verify()
            except (ir.MLIRError, ValueError):
                return b""
            return f"{module}\n".encode()

    try:
        return in_child_process(change_and_print).content.decode() or None
    except ChildEnded:
        return None


def _candidates(module: ir.Module) -> list[ir.Operation]:
    """Operations that may be left out: all but those that end a block."""
    return [op for op in nested(module.operation) if not _ends(op)]


def _ends(op: ir.Operation) -> bool:
    parent = op.parent
    if parent is None or parent.operation.name in MODULES:
        return False
    return bool(op.block.operations[-1].operation == op)


def _operations(module: ir.Module) -> int:
    return len(_candidates(module))


def _erase(module: ir.Module, part: range) -> None:
    """Erase operations by number; what others still use of them is replaced by a value of the same type, if there is
    one: an operand, or a constant. The others stay."""
    found = _candidates(module)
    for number in reversed(part):  # users, and what is inside, before the operation itself
        op = found[number]
        if all(_replace(op, result) for result in op.results if _is_used(result)):
            op.erase()


def _is_used(value: ir.Value) -> bool:
    return next(iter(value.uses), None) is not None


def _replace(op: ir.Operation, result: ir.Value) -> bool:
    """Have all users of a result take something else; whether there is something."""
    same = next((operand for operand in op.operands if operand.type == result.type), None)
    if same is None:
        same = _zero(op, result.type)
    if same is not None:
        result.replace_all_uses_with(same)
    return same is not None


def _zero(op: ir.Operation, kind: ir.Type) -> ir.Value | None:
    """A constant in front of an operation; None where it is one itself, or the type has none."""
    if op.name == "arith.constant":
        return None
    try:
        attribute = ir.Attribute.parse(_zero_text(kind), op.context)
        with ir.InsertionPoint(op):
            value: ir.Value = arith.ConstantOp(kind, attribute).result
    except (ir.MLIRError, ValueError):
        return None
    return value


def _zero_text(kind: ir.Type) -> str:
    text = str(kind)
    element = text.removesuffix(">").rpartition("x")[2] if text.startswith("vector<") else text
    number = "0" if element.startswith(("i", "index")) else "0.0"
    return f"dense<{number}> : {text}" if text.startswith("vector<") else f"{number} : {text}"


def _places(module: ir.Module) -> Iterator[tuple[ir.Operation, str]]:
    for op in nested(module.operation):
        for named in op.attributes:
            name = named if isinstance(named, str) else named.name
            # What an operation of MLIR's defines itself is not an attribute that could be missing.
            if name not in NEEDED and (op.name.startswith("ck.") or not hasattr(type(op.opview), name)):
                yield op, name


def _attributes(module: ir.Module) -> int:
    return sum(1 for _ in _places(module))


def _drop_attributes(module: ir.Module, part: range) -> None:
    found = list(_places(module))
    for number in part:
        op, name = found[number]
        del op.attributes[name]
