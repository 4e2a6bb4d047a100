"""A kernel whose loops hand LDS tensors round, as one in which every access names its allocation.

A block that takes LDS tensors stands in the copy once for each arrangement of allocations that it is reached with, and
is left for the arrangement that its branch hands on. So the copy runs the same operations on the same bytes, and what
is proved of it holds for the kernel: which slot is meant when is found here, from what branches hand on, and not
believed.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from msgspec import Struct, field
from msgspec.structs import replace

from ckmlir.dialect.build import attributes_of
from ckmlir.dialect.types import is_lds
from ckmlir.mlir import ir
from ckmlir.passes.proof.finding import Finding
from ckmlir.passes.proof.flow import Graph, handed, terminator
from ckmlir.passes.walk import nested


class Unfolded(Struct):
    """A kernel whose blocks take no LDS tensors, and for each of its operations the one that it is a copy of."""

    function: ir.Operation
    origins: dict[ir.Operation, ir.Operation] = field(default_factory=dict)

    def told(self, finding: Finding) -> Finding:
        """A finding about the copy as one about the kernel."""
        notes = tuple((text, self.origins.get(op, op)) for text, op in finding.notes)
        return replace(finding, op=self.origins.get(finding.op, finding.op), notes=notes)


class _Visit(Struct):
    """A block under one arrangement: what LDS tensors are, and the visits of the blocks that every way to it passes."""

    number: int
    block: ir.Block
    tensors: dict[ir.Value, ir.Value]
    passed: dict[ir.Block, "_Visit"]
    following: list["_Visit"] = field(default_factory=list)


@contextmanager
def unfolded(function: ir.Operation) -> Iterator[Unfolded]:
    """The kernel itself if no block of it takes LDS tensors; else a copy beside it, while the context lasts."""
    if not any(_tensors(block) for block in function.regions[0]):
        yield Unfolded(function)
        return
    copy = _Copy(function)
    try:
        yield Unfolded(copy.function, copy.origins)
    finally:
        copy.function.erase()


def _tensors(block: ir.Block) -> list[ir.BlockArgument]:
    return [argument for argument in block.arguments if is_lds(argument.type)]


def _visits(function: ir.Operation) -> list[_Visit]:
    """All visits, none before one that leads to it first."""
    graph = Graph(function)
    visits = [_Visit(0, graph.blocks[0], {}, {})]
    visits[0].passed[visits[0].block] = visits[0]
    known = {(visits[0].block, frozenset[tuple[ir.Value, ir.Value]]()): visits[0]}
    for visit in visits:  # grows while it is gone through
        branch = terminator(visit.block)
        for number, to in enumerate(graph.successors[visit.block]):
            passed = {block: one for block, one in visit.passed.items() if graph.goes_back(to, block) and block != to}
            tensors = {one: slot for one, slot in visit.tensors.items() if one.owner in passed}
            given = handed(branch, number)
            for argument in _tensors(to):
                operand = given[argument.arg_number]
                tensors[argument] = visit.tensors.get(operand, operand)
            key = to, frozenset(tensors.items())
            if key not in known:
                known[key] = _Visit(len(visits), to, tensors, passed)
                known[key].passed[to] = known[key]
                visits.append(known[key])
            visit.following.append(known[key])
    return visits


class _Copy:
    """A function beside another, of its visits."""

    def __init__(self, function: ir.Operation) -> None:
        self.origins: dict[ir.Operation, ir.Operation] = {}
        self.values: dict[tuple[int, ir.Value], ir.Value] = {}
        visits = _visits(function)
        attributes = attributes_of(function)
        with ir.InsertionPoint(function), function.location:
            self.function = ir.Operation.create("func.func", attributes=attributes, regions=1)
        self.origins[self.function] = function
        self.blocks = [self._empty(visit) for visit in visits]
        for visit in visits:
            self._fill(visit)

    def _empty(self, visit: _Visit) -> ir.Block:
        """A block with the arguments of another, without its LDS tensors."""
        arguments = [one for one in visit.block.arguments if not is_lds(one.type)]
        types, places = [one.type for one in arguments], [one.location for one in arguments]
        block = self.function.regions[0].blocks.append(*types, arg_locs=places)
        for old, new in zip(arguments, block.arguments, strict=True):
            self.values[visit.number, old] = new
        return block

    def _fill(self, visit: _Visit) -> None:
        *body, branch = [view.operation for view in visit.block]
        with ir.InsertionPoint(self.blocks[visit.number]):
            for op in body:
                copy = op.clone()
                pairs = list(zip((op, *nested(op)), (copy, *nested(copy)), strict=True))
                for old, new in pairs:
                    for number, operand in enumerate(old.operands):
                        new.operands[number] = self._value(operand, visit, new.operands[number])
                self.origins.update({new: old for old, new in pairs})  # operations are hashed by what they say
                for result, other in zip(op.results, copy.results, strict=True):
                    self.values[visit.number, result] = other
            self.origins[self._branch(branch, visit)] = branch

    def _branch(self, branch: ir.Operation, visit: _Visit) -> ir.Operation:
        """A block's last operation, which hands on no LDS tensors."""
        attributes = attributes_of(branch)
        given = [
            [self._value(one, visit, one) for one in handed(branch, number) if not is_lds(one.type)]
            for number in range(len(visit.following))
        ]
        own = len(branch.operands) - sum(len(handed(branch, number)) for number in range(len(visit.following)))
        first = [self._value(one, visit, one) for one in list(branch.operands)[:own]]
        if "operandSegmentSizes" in attributes:
            attributes["operandSegmentSizes"] = ir.DenseI32ArrayAttr.get([1, *map(len, given)])
        return ir.Operation.create(
            branch.name, operands=[*first, *(one for part in given for one in part)], attributes=attributes,
            successors=[self.blocks[to.number] for to in visit.following], loc=branch.location,
        )  # fmt: skip

    def _value(self, old: ir.Value, visit: _Visit, otherwise: ir.Value) -> ir.Value:
        """A value where a visit uses it; what is computed inside an operation stays."""
        old = visit.tensors.get(old, old)
        home = visit.passed.get(old.owner if isinstance(old, ir.BlockArgument) else old.owner.operation.block)
        return otherwise if home is None else self.values.get((home.number, old), otherwise)
