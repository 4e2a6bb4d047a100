"""Turns of steady loops that no edge cuts in a loop of their own, so that a mask costs them nothing.

A step compares columns with the end of a row, `columns < end - key`, though few steps hold any column behind it: those
at the end of a loop, whose index the end is less of in each. So a loop whose elements are chosen by such comparisons
has its turn twice:

    enter:  whether the first turn has a whole number of columns in front of each end
    whole:  the turn without these comparisons, and with what they would choose; as long as that is so of the next one
    leave:  to the turns that are left, if any
    turns:  the loop as it was, for these

Registers, buffers and the order of the instructions are as they were, and nothing is drained or filled in between: what
runs ahead in one loop is what the other expects. The same holds for elements that waves branch around
(`ck.cut_vector`), whose comparison and branch the first loop does without, as far as fences give its order.

Of rows that are counted, `min(end - key, 64)`, a whole turn has all. A step that runs ahead is bounded by the last
index; one that has whole rows is not beyond it. Nor is one that runs less than a turn further ahead, such as what looks
up where rows are: whole turns end a turn earlier at most.

The pass comes behind those of the schedule, whose proof is about the loop as it was. It leaves ends alone that differ
between rows, such as a causal mask's.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from math import prod
from typing import ClassVar, NamedTuple

from ckmlir.dialect import arith
from ckmlir.dialect.build import attributes_of, integer_of, producer, registers_of, text_of
from ckmlir.dialect.control import end_of
from ckmlir.dialect.cut import FRONT
from ckmlir.dialect.distribution import Distribution
from ckmlir.dialect.divisors import constant_of
from ckmlir.dialect.fragment_compute import first_lane
from ckmlir.dialect.loop import ADVANCES
from ckmlir.mlir import ir
from ckmlir.passes.branch_expansion import branch, cond_branch, mark_advancing
from ckmlir.passes.carries import constant
from ckmlir.passes.framework import Pass
from ckmlir.passes.repeated_blocks import Loop, block_behind, copy, handed_behind, is_outside, left_by, loop_of
from ckmlir.passes.walk import expanded_functions, forget_lists

CUT = "ck.cut_vector"
EDGE = "ck.edge"
"""Attribute of the branch that ends a loop whose whole turns have one of their own."""
ENTERS = "ck.enters"
"""Attribute of the branch to such a loop of whole turns: where it is never taken, the loop behind takes all turns."""
INDEX = -1
"""The column in front of a step's index, which is in front of the last one if the step exists."""
LEAST = 16
"""Elements of a turn that are chosen, from which on a second loop pays: it takes a third to two thirds of a kernel's
time to compile. Of attention with one query, whose turns choose 8, no cycle is spared."""


@dataclass(frozen=True)
class SplitAtEdges(Pass):
    """Give the turns of steady loops of which no end of a row cuts elements off a loop of their own."""

    name: ClassVar[str] = "ck-split-at-edges"
    keeps_lists: ClassVar[bool] = True

    def apply(self, module: ir.Module) -> None:
        for function, blocks in expanded_functions(module, self.name, with_loops=True):
            listed = dict(zip(list(function.regions[0]), blocks, strict=True))
            for block in list(listed):
                held = listed[block] if block in listed else [view.operation for view in block]
                loop = None if EDGE in held[-1].attributes else loop_of(block, held)
                edges = list(_edges(loop)) if loop is not None else []
                if loop is not None and sum(one.elements for one in edges) >= LEAST:
                    _split(loop, [*edges, *_bounds(loop, edges)])
                    listed.clear()  # what other blocks hold may have changed
                    forget_lists()


class Edge(NamedTuple):
    """An operation that changes nothing in front of an end.

    Attributes:
        op: a comparison by which elements are chosen, what cuts them off, or a smaller of two scalars.
        left, right: of the difference that is the end, in columns; no turn changes the first, and the second rises by
            no more than the loop's index.
        last: column that may be in front of it.
        instead: what the operation comes to then; nothing for a comparison, whose choices are known.
    """

    op: ir.Operation
    left: ir.Value
    right: ir.Value
    last: int
    instead: ir.Value | None = None

    @property
    def elements(self) -> int:
        """Those of a vector that it takes."""
        type_ = self.op.results[0].type
        return type_.shape[0] if isinstance(type_, ir.VectorType) else 0


def _edges(loop: Loop) -> Iterator[Edge]:
    """What the turns of a loop compare. Waves' branches stay where no fence gives a turn its order: LLVM mixes what is
    between them, and without them takes 1.08 of the cycles by the model (pages of vectors under `qr` on gfx942)."""
    fenced = any(op.name == "ck.sched_barrier" for op in loop.body)
    for op in loop.body:
        if op.name == CUT and FRONT not in op.attributes and fenced:
            source, limits, lane = op.operands
            found = _edge(op, _splat(limits), _sum(_last(lane), max(registers_of(op, "columns"))), loop, source)
        elif op.name == "arith.cmpi" and integer_of(op, "predicate") == arith.CmpIPredicate.slt and _chooses(op):
            columns, limits = op.operands
            found = _edge(op, _splat(limits), _last(columns), loop)
        elif op.name == "arith.minsi" and (most := constant_of(op.operands[1])) is not None:
            found = _edge(op, op.operands[0], most - 1, loop, op.operands[1])
        else:
            continue
        yield from found


def _edge(
    op: ir.Operation, end: ir.Value | None, last: int | None, loop: Loop, instead: ir.Value | None = None
) -> Iterator[Edge]:
    """What an operation is where its end is a difference that falls, and what keeps its subtrahend from rising."""
    owner = producer(end) if end is not None else None
    if last is None or owner is None or owner.name != "arith.subi" or str(owner.results[0].type) != "i32":
        return
    left, right = owner.operands
    larger = producer(left)
    if larger is not None and larger.name == "arith.maxsi" and larger.operands[1] == right:
        left = larger.operands[0]  # a difference that is not negative
    if _stays(left, loop) and _rises(right, loop):
        yield Edge(op, left, right, last, instead)
        least = producer(right)
        if least is not None and least.name == "arith.minsi" and _rises(least.operands[0], loop):
            # Where a block's last column lies in front of the end, the block is not behind the last one.
            yield Edge(least, least.operands[1], least.operands[0], INDEX, least.operands[0])


def _bounds(loop: Loop, edges: Sequence[Edge]) -> Iterator[Edge]:
    """Other bounds by the last index, of steps that run ahead of those that an edge is about; none where one of them is
    a turn further ahead or more, since whole turns would end so much earlier."""
    lasts = {edge.left for edge in edges if edge.last == INDEX}
    known = {edge.op for edge in edges}
    furthest = max((_ahead(edge.right, loop) or 0 for edge in edges), default=0)
    bounds = list[Edge]()
    for op in loop.body:
        if op.name == "arith.minsi" and op not in known and op.operands[1] in lasts:
            ahead = _ahead(op.operands[0], loop)
            if ahead is None or ahead - furthest >= loop.turn:
                return
            bounds.append(Edge(op, op.operands[1], op.operands[0], INDEX, op.operands[0]))
    yield from bounds


def _ahead(item: ir.Value, loop: Loop) -> int | None:
    """How much more than the loop's index a scalar is, if that is known, without its bound by what no turn changes."""
    owner = producer(item)
    if owner is None or is_outside(item, loop.block):
        return 0 if item == loop.block.arguments[loop.counter] else None
    if owner.name not in ("arith.addi", "arith.minsi"):
        return None
    left, right = owner.operands
    if owner.name == "arith.minsi":
        return _ahead(left, loop) if _stays(right, loop) else None
    before, more = _ahead(left, loop), _number(right)
    return None if before is None or more is None else before + more


def _number(item: ir.Value) -> int | None:
    """What a product of constants is."""
    owner = producer(item)
    if owner is None or owner.name != "arith.muli":
        return constant_of(item)
    factors = [constant_of(one) for one in owner.operands]
    return None if None in factors else prod(one for one in factors if one is not None)


def _chooses(op: ir.Operation) -> bool:
    """Whether all that a comparison decides is which elements of a vector are kept."""
    users = [use.owner.operation for use in op.results[0].uses]
    return all(user.name == "arith.select" and user.operands[0] == op.results[0] for user in users)


def _splat(vector: ir.Value) -> ir.Value | None:
    """The scalar that all elements of a vector are."""
    owner = producer(vector)
    if owner is not None and owner.name == "vector.shuffle" and owner.operands[0] == owner.operands[1]:
        return _splat(owner.operands[0])
    return owner.operands[0] if owner is not None and owner.name == "vector.broadcast" else None


def _last(columns: ir.Value) -> int | None:
    """The most that any of some columns is in any thread, where constants and the thread's place say so."""
    owner = producer(columns)
    if owner is None:
        return None
    if owner.name == "arith.constant":
        known = owner.attributes["value"]
        one = isinstance(known, ir.IntegerAttr)
        return int(known.value) if one else max(int(each) for each in ir.DenseIntElementsAttr(known))
    if owner.name == "vector.broadcast":
        return _last(owner.operands[0])
    if owner.name == "ck.thread_coordinate":
        placed, axis = Distribution.parse(text_of(owner, "distribution")), integer_of(owner, "axis")
        return int(placed.coordinates()[axis, :, :, 0].max())
    return _sum(*map(_last, owner.operands)) if owner.name == "arith.addi" else None


def _sum(left: int | None, right: int | None) -> int | None:
    return None if left is None or right is None else left + right


def _rises(item: ir.Value, loop: Loop) -> bool:
    """Whether a scalar is the loop's index, and what no turn changes added to it, or not exceeded by it."""
    owner = producer(item)
    if owner is None or is_outside(item, loop.block):
        return bool(item == loop.block.arguments[loop.counter])
    if owner.name not in ("arith.addi", "arith.minsi"):
        return False
    left, right = owner.operands
    return (_rises(left, loop) and _stays(right, loop)) or (_stays(left, loop) and _rises(right, loop))


def _stays(item: ir.Value, loop: Loop) -> bool:
    """Whether no turn changes a value; arithmetic on what is outside of a loop may stand in it."""
    if is_outside(item, loop.block):
        return True
    owner = producer(item)
    scalar = owner is not None and owner.name.startswith("arith.")
    return scalar and owner is not None and all(_stays(one, loop) for one in owner.operands)


def _split(loop: Loop, edges: Sequence[Edge]) -> None:
    """Put a loop of whole turns in front of one, and behind both a block to which they hand what is needed there."""
    turns, end = loop.block, end_of(loop.block)
    coming = [other for other in turns.region if other != turns and turns in list(end_of(other).successors)]
    exit_, given = end.successors[1], list(end.operands)[1 + len(loop.again) :]
    with end.location:
        left = left_by(loop)
        behind = block_behind(turns, left)
        now = handed_behind(loop, behind, left)
        with ir.InsertionPoint(behind):
            branch(exit_, [now.get(one, one) for one in given])
        with ir.InsertionPoint(end):
            cond_branch(end.operands[0], turns, loop.again, behind, left)
        end.erase()
        enter, whole = (_like(turns) for _ in range(2))
        leave = turns.create_before()
        with ir.InsertionPoint(enter):
            first, limit = _reach(loop, edges, enter.arguments[loop.counter])
            cond_branch(first, whole, list(enter.arguments), turns, list(enter.arguments))
        with ir.InsertionPoint(whole):
            now = _uncut(loop, edges, whole)
            again = [now.get(one, one) for one in loop.again]
            stays = arith.cmpi(arith.CmpIPredicate.slt, now[loop.following], limit)
            cond_branch(stays, whole, again, leave, [])
        with ir.InsertionPoint(leave):
            more = arith.cmpi(arith.CmpIPredicate.slt, now[loop.following], loop.bound)
            cond_branch(more, turns, again, behind, [now.get(one, one) for one in left])
    for block in coming:
        _lead(end_of(block), turns, enter)
    mark_advancing([enter, whole, leave, turns], {whole, turns})
    end_of(turns).attributes[EDGE] = end_of(enter).attributes[ENTERS] = ir.UnitAttr.get()


def _like(block: ir.Block) -> ir.Block:
    """An empty block in front of another one, with its arguments."""
    types = [argument.type for argument in block.arguments]
    return block.create_before(*types, arg_locs=[end_of(block).location] * len(types))


def _reach(loop: Loop, edges: Sequence[Edge], start: ir.Value) -> tuple[ir.Value, ir.Value]:
    """Whether the turn at an index is whole, and if so, up to which index others are."""
    lasts: dict[tuple[ir.Value, ir.Value], int] = {}
    for edge in edges:
        end = edge.left, edge.right
        lasts[end] = max(edge.last, lasts.get(end, edge.last))
    now = {loop.block.arguments[loop.counter]: start}
    turns, whole = arith.subi(loop.bound, start), list[ir.Value]()
    for (left, right), last in lasts.items():
        found, known = arith.subi(_evaluated(left, loop, now), _evaluated(right, loop, now)), constant(last)
        whole.append(arith.cmpi(arith.CmpIPredicate.sgt, found, known))
        turns = arith.minsi(turns, arith.subi(found, known))
    # Of three numbers LLVM finds the least in a vector register, and would compare each turn's index there.
    return reduce(arith.andi, whole), first_lane(arith.addi(start, turns))


def _evaluated(item: ir.Value, loop: Loop, now: dict[ir.Value, ir.Value]) -> ir.Value:
    """What scalar arithmetic of a loop comes to where its index is what `now` says."""
    owner = producer(item)
    if item not in now and owner is not None and not is_outside(item, loop.block):
        for operand in owner.operands:
            _evaluated(operand, loop, now)
        copy(owner, now)
    return now.get(item, item)


def _uncut(loop: Loop, edges: Sequence[Edge], whole: ir.Block) -> dict[ir.Value, ir.Value]:
    """Append the turn of a loop in which nothing is cut off; what its values are there."""
    now = dict(zip(loop.block.arguments, whole.arguments, strict=True))
    ends = {edge.op: edge.instead for edge in edges}
    for op in loop.body:
        if op in ends:
            instead = ends[op]
            if instead is not None:
                now[op.results[0]] = now.get(instead, instead)
        elif op.name == "arith.select" and producer(op.operands[0]) in ends:
            now[op.results[0]] = now.get(op.operands[1], op.operands[1])
        else:
            copy(op, now)
    return now


def _lead(end: ir.Operation, old: ir.Block, new: ir.Block) -> None:
    """Have a branch to a step of a loop go to another block, which is not one."""
    attributes = {name: one for name, one in attributes_of(end).items() if name != ADVANCES}
    advancing = list(ir.DenseI32ArrayAttr(end.attributes[ADVANCES])) if ADVANCES in end.attributes else []
    kept = [number for number in advancing if end.successors[number] != old]
    if kept:
        attributes[ADVANCES] = ir.DenseI32ArrayAttr.get(kept)
    successors = [new if one == old else one for one in end.successors]
    with ir.InsertionPoint(end), end.location:
        ir.Operation.create(end.name, operands=list(end.operands), successors=successors, attributes=attributes)
    end.erase()
