"""Kernel arguments that are read again around steady loops.

LLVM reads all arguments where a kernel begins, and computes there what follows from them alone. What a turn needs where
it begins or ends so takes scalar registers through its steady loop too. Of many arguments that is more than there are,
and the rest goes to lanes of vector registers. But memory still has them: so a turn reads what it needs where it
begins, and again behind each of its steady loops, and computes anew what follows. Of few arguments it does so where the
steady loop copies to LDS: each copy has an offset in a scalar register, and where it writes in another. Of several it
costs nothing, since a turn has a steady loop's time.

A steady loop that no other is around is like one in a single turn, which begins behind the last branch before the loop.
Many numbers are needed before that branch only, and others behind it: gradients of three-dimensional images kept 3 to
43 scalar registers in lanes, with an odd number of channels.

What begins such a turn is one block of up to two thousand operations, and what ends it another. Few of many arguments
are needed all the way through, so every `PIECE` operations they are read once more, some operations before the piece
that needs them, so that it does not wait. Gradients of volumes with few channels, or with parts of the sums, kept up to
65 scalar registers in lanes before. By the model on gfx942 the gradient of 4 volumes of 8 x 16 x 16 by 3 x 3 x 3, 64 to
64 channels, takes 37964 cycles so instead of 37616, of 33 to 64 38562 and 40094; 38412 without a distance between
reading and use.

Of few arguments they do so as well where the steady loop reads many arrays. Each has four scalar registers in the loop,
and before it an address, a size and a distance of rows, which the first step needs and the second again.

So does the only turn where the steady loop loads and stores as often as single elements take: what that needs of scalar
registers leaves too few for what comes behind.

Of few arguments turns also do so where they load and store many elements one by one beside the steady loop.

Behind a steady loop they also compute anew what the first lane has of the thread's number, such as the number of the
wave, which a vector register holds anyway, and what follows from the workgroup's number. `gemm_multi_abd` of eight
arrays kept the former in a lane through the loop; stream-K kept four and 65536 times the latter, in two registers each.

So do, of many arguments, operations behind the last turn: attention backward by whole heads clears rows there, and kept
the number of the wave in a lane through all turns. Within its turns nothing is gained so: of ten kernels three kept 1
to 5 scalar registers more in lanes, one kept one fewer.

Where many are read again, a kernel asks for all lines that they lie in where it begins: the first turn of attention
backward by shares waited for two of them, 800 cycles each. Of few arguments the first come in registers, and what is
behind a loop may be the first to need a line of the others: so a kernel asks for these in front of its first loads,
and has them where it first waits before a steady loop, which takes longer. Where its first branch hangs on one of them
it waits there anyway, and has all: causal attention waited for 700 cycles once more, behind that branch. Asked for
behind the loads they would come behind what these bring: a product of 4096 x 4096 x 4096 in fp4 waited for 1700 cycles
by the model.

The arguments' address comes by assembly that does nothing, or LLVM would find that it reads the same each time.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

from ckmlir.dialect.build import intrinsic, producer, value
from ckmlir.dialect.control import end_of
from ckmlir.lowering.accumulator_form import assembly
from ckmlir.lowering.kernel_arguments import SEGMENT, KernelArguments, size_of
from ckmlir.lowering.lowered_loops import (
    ARITHMETIC,
    COPY,
    MATRIX,
    branching_kernels,
    has_any,
    is_constant,
    steady_loops,
)
from ckmlir.mlir import ir
from ckmlir.passes.flow import Flow, Loop
from ckmlir.passes.framework import Pass

SEVERAL = 96
"""Bytes of arguments beyond which turns around a steady loop read them again: stream-K's with D tensors, whose sums by
pairs kept 2 or 3 scalar registers in lanes."""
MOST_ACCESSES = 100
"""Loads and stores of a turn outside of its steady loops beyond which few arguments are read again, too: with GELU,
bias and residual beside single elements of C persistent grouped GEMM of bf16 kept 2 and 5 scalar registers in
lanes. Stream-K of 128 x 128 has 112 where it stores single elements: it kept the addresses of 32 of their rows in
vector registers, 32 to 88 more, and takes .99 to 1.01 of the cycles without. With fewer, wide ones a turn would wait
for memory for nothing: 1.005 of the cycles by the model."""
PIECE, AHEAD = 120, 50
"""Operations for which many arguments are read at a time, and by how many that comes before the first that needs them.
With 400 to a piece one of eleven kernels still kept 18 scalar registers in lanes."""
MOST_ARRAYS = 5
"""Arrays of a steady loop beyond which few arguments are read again, too: with seven and eight, products of what
expressions combine kept up to 71 scalar registers in lanes before and behind it, with six of either order 3. By the
model they take .77 to 1.00 of the cycles so, with six .96 to 1.00, and 1.01 by one of 64 x 64 that kept none."""
LINE = 64
"""Bytes of arguments that memory hands to scalar loads at a time."""
MOST_STEADY, HALF = 50, 160
"""Loads and stores of a steady loop, and bytes of arguments, beyond which they are read again behind it, too: where
accesses differ in offsets and conditions these take scalar registers, and the arguments would take 40. Attention that
stores its random bytes one by one, or gathers rows of f32 for one query, kept up to 7 in lanes. By the model it takes
1.00 to 1.01 of the cycles so (1.015 where none was kept), but one query with fewer loads 1.05, and products of single
elements, which have fewer arguments and registers to spare, 1.02."""
LOAD, ADDRESSING = "rocdl.raw.ptr.buffer.load", ("rocdl.make.buffer.rsrc", "llvm.getelementptr")
"""What loads from a buffer, and what makes its resource."""
WAITS = ("rocdl.wait.asyncmark", "rocdl.s.waitcnt", "rocdl.s.barrier", "llvm.store")
"""Where waves wait for what they have loaded: for copies, for others, and in front of writes to LDS."""
PRELOADED = "llvm.inreg"
ACCESSES = (LOAD, "rocdl.raw.ptr.buffer.store")
FIRST_LANE, THREAD = "rocdl.readfirstlane", "rocdl.workitem.id.x"
WORKGROUP = tuple(f"rocdl.workgroup.id.{axis}" for axis in "xyz")
DIVISIONS = ("llvm.sdiv", "llvm.udiv")


@dataclass(frozen=True)
class ReloadArguments(Pass):
    """Let what is around steady loops read kernel arguments again."""

    name: ClassVar[str] = "ck-reload-arguments"

    def apply(self, module: ir.Module) -> None:
        for function in branching_kernels(module):
            _reload(function)


def _reload(function: ir.Operation) -> None:
    arguments = KernelArguments(function.regions[0].blocks[0])
    flow = Flow(list(function.regions[0]))
    for loop in flow.outermost:
        steady = steady_loops(flow, loop)
        # Its own products may stand between two loops that carry digits: then it is a steady loop as well.
        if loop in steady or (steady and has_any(flow, {loop.begin}, MATRIX)):
            way = flow.way_to(loop)
            turn = flow.around(way)
            # Before a kernel's first branch little is needed of many arguments: attention backward with dropout would
            # take 1.02 of the cycles.
            if (arguments.are_many and turn.begin) or len(_arrays_read(flow, loop.places)) > MOST_ARRAYS:
                _begin_anew(flow, turn, [loop], way, arguments, PIECE)
            elif arguments.bytes > HALF and _accesses(flow, loop.places) > MOST_STEADY:
                _begin_anew(flow, turn, [loop], way, arguments)
        elif steady:
            crowded = _accesses(flow, loop.places.difference(*(one.places for one in steady))) > MOST_ACCESSES
            copies = any(has_any(flow, one.places, COPY) for one in steady)
            if crowded or copies or arguments.bytes > SEVERAL:
                _begin_anew(flow, loop, steady, flow.entry(loop), arguments, numbers=not arguments.are_many)
            if arguments.are_many:
                _end_anew(flow, loop, arguments)
                last = end_of(arguments.entry)
                _ask(arguments, 0, last, last)
    _ask_for_others(function, flow, arguments)


def _accesses(flow: Flow, places: Collection[int]) -> int:
    """How many loads from buffers, and stores to them, blocks have."""
    return sum(op.operation.name in ACCESSES for place in places for op in flow.blocks[place].operations)


def _arrays_read(flow: Flow, places: Collection[int]) -> set[ir.Value]:
    """What the addresses of the buffers begin with that blocks load from."""
    ops = [op.operation for place in places for op in flow.blocks[place].operations]
    return {_beginning(op.operands[0]) for op in ops if op.name == LOAD}


def _beginning(address: ir.Value) -> ir.Value:
    op = producer(address)
    return address if op is None or op.name not in ADDRESSING else _beginning(op.operands[0])


def _begin_anew(
    flow: Flow,
    turns: Loop,
    steady: list[Loop],
    entry: int,
    arguments: KernelArguments,
    piece: int | None = None,
    *,
    numbers: bool = True,
) -> None:
    """Let the operations of a turn, from the block `entry` on, use what was read last on every way to them.

    Args:
        piece: operations after which a block that reads does so once more.
        numbers: whether they also compute anew what follows from the numbers of the workgroup and the thread, behind a
            steady loop.
    """
    behind = [place for one in steady if (place := flow.behind(one, turns)) is not None]
    places = {entry, *behind} - {0}  # where the kernel begins, they are read anyway
    readings = {
        place: _Reading(flow.blocks[place].operations[0].operation, arguments, behind=numbers and place in behind)
        for place in places
    }
    inside = {flow.blocks[place] for place in turns.places - {0}}  # where the kernel begins is before any turn
    for place in sorted(turns.places, key=flow.depth):
        passed = flow.dominators[place] & places
        if not passed:  # it decides whether there is a turn
            continue
        last = max(passed, key=flow.depth)
        for op, reading in _read(flow.blocks[place], readings[last], piece if place in places else None):
            readings[last] = reading
            reading.give(op, inside)


def _end_anew(flow: Flow, turns: Loop, arguments: KernelArguments) -> None:
    """Let the operations behind the last turn use what is read there."""
    for end in sorted({to for place in turns.places for to in flow.following[place]} - turns.places):
        reading = _Reading(flow.blocks[end].operations[0].operation, arguments, behind=True)
        behind = [block for block, passed in zip(flow.blocks, flow.dominators, strict=True) if end in passed]
        for op in [op for block in behind for op in block.operations]:
            reading.give(op.operation, frozenset(behind))


def _ask_for_others(function: ir.Operation, flow: Flow, arguments: KernelArguments) -> None:
    """Let a kernel whose first arguments come in registers ask for the lines of the others: where it begins if its
    first branch hangs on one of them, for which it waits anyway; else in the block in which it first waits before a
    steady loop, and have them there. (LLVM moves what the first branch does not need behind it.)
    """
    known = function.attributes.get("arg_attrs", ())
    preloaded = sum(PRELOADED in ir.DictAttr(one) for one in known)
    if not preloaded or preloaded == len(arguments.offsets):
        return
    begin, others = arguments.offsets[preloaded], set(list(arguments.entry.arguments)[preloaded:])
    first = [one.operation for one in arguments.entry.operations]
    deciding = _makes(first[-1])
    if user := next((op for op in first if op in deciding and others.intersection(op.operands)), None):
        _ask(arguments, begin, first[0], user)
        return
    loop = next((one for one in flow.outermost if steady_loops(flow, one)), None)
    if loop is None:
        return
    way = sorted(flow.dominators[loop.begin] - loop.places, key=flow.depth)
    ops = (op.operation for place in way for op in flow.blocks[place].operations)
    if wait := next((op for op in ops if op.name in WAITS), None):
        _ask(arguments, begin, wait.block.operations[0].operation, wait)


def _makes(branch: ir.Operation) -> set[ir.Operation]:
    """A branch, and the operations of its block that its condition comes from."""
    found, pending = {branch}, list(branch.operands)[:1]
    while pending:
        op = producer(pending.pop())
        if op is not None and op.block == branch.block and op not in found:
            found.add(op)
            pending += op.operands
    return found


def _ask(arguments: KernelArguments, begin: int, early: ir.Operation, late: ir.Operation) -> None:
    """Let a kernel ask in front of an operation for all lines of memory that its arguments lie in from a byte on, and
    have them in front of a later one: else a turn, or what is behind a loop, waits for each that it needs first."""
    i32 = _integer(32)
    with late.location, ir.InsertionPoint(early):
        reading = _Reading(early, arguments)
        lines = [reading.load(i32, line) for line in range(begin // LINE * LINE, arguments.bytes - 3, LINE)]
    with late.location, ir.InsertionPoint(late):
        assembly(i32, lines, "", ",".join(["=s,0", *["s"] * (len(lines) - 1)]), effects=True)


def _read(block: ir.Block, reading: _Reading, piece: int | None) -> Iterator[tuple[ir.Operation, _Reading]]:
    """A block's operations, and what each takes arguments from: `reading`, and where there are pieces the next ones."""
    coming = reading
    for count, op in enumerate(list(block.operations)):
        if piece and count and count % piece == 0:
            coming = reading.anew(op.operation)
        if piece and count % piece == AHEAD:
            reading = coming
        yield op.operation, reading


def _block(operand: ir.Value) -> ir.Block:
    op = producer(operand)
    return ir.BlockArgument(operand).owner if op is None else op.block


def _is_thread(operand: ir.Value) -> bool:
    op = producer(operand)
    return op is not None and op.name == THREAD


class _Reading:
    """What is read, and computed anew, in front of an operation."""

    def __init__(self, first: ir.Operation, arguments: KernelArguments, *, behind: bool = False) -> None:
        self._first, self._arguments, self._behind = first, arguments, behind
        self._again: dict[ir.Value, ir.Value | None] = {}

    def anew(self, first: ir.Operation) -> _Reading:
        """The same once more."""
        return _Reading(first, self._arguments)

    def give(self, op: ir.Operation, inside: Collection[ir.Block]) -> None:
        """Let an operation take what it takes from outside of some blocks."""
        for number, operand in enumerate(op.operands):
            if _block(operand) not in inside and (again := self.again(operand)) is not None:
                op.operands[number] = again

    def again(self, operand: ir.Value) -> ir.Value | None:
        """A value from before the loop; None where it is more than arguments and what follows from them."""
        if operand not in self._again:
            with self._first.location, ir.InsertionPoint(self._first):
                self._again[operand] = self._find(operand)
        return self._again[operand]

    def _find(self, operand: ir.Value) -> ir.Value | None:
        op = producer(operand)
        if op is None:
            argument = ir.BlockArgument(operand)
            if argument.owner != self._arguments.entry:
                return None
            return self.load(operand.type, self._arguments.offsets[argument.arg_number])
        if op.name in WORKGROUP and self._behind:
            return assembly(operand.type, [operand], "", "=s,0", effects=True)
        if op.name == FIRST_LANE and self._behind:
            return self._of_thread(op)
        if op.name not in ARITHMETIC or (op.name in DIVISIONS and not is_constant(op.operands[1])):
            return None
        found = [one if is_constant(one) else self.again(one) for one in op.operands]
        operands = [one for one in found if one is not None]
        if len(operands) < len(found):
            return None
        copy = op.clone()
        for number, one in enumerate(operands):
            copy.operands[number] = one
        return copy.results[0]

    def _of_thread(self, op: ir.Operation) -> ir.Value | None:
        """What the first lane has of a number that follows from the thread's alone, computed from that anew."""
        number = producer(op.operands[0])
        if number is None or number.name not in ARITHMETIC:
            return None
        if not all(is_constant(one) or _is_thread(one) for one in number.operands):
            return None
        operands = [
            assembly(one.type, [one], "", "=v,0", effects=True) if _is_thread(one) else one for one in number.operands
        ]
        copy = number.clone()
        for place, one in enumerate(operands):
            copy.operands[place] = one
        return value(FIRST_LANE, op.results[0].type, [copy.results[0]])

    def load(self, type_: ir.Type, offset: int) -> ir.Value:
        """What the arguments have at an offset."""
        place = {"rawConstantIndices": ir.DenseI32ArrayAttr.get([offset]), "elem_type": ir.TypeAttr.get(_integer(8))}
        address = value("llvm.getelementptr", self._segment.type, [self._segment], place)
        alignment = ir.IntegerAttr.get(_integer(64), size_of(type_))
        return value("llvm.load", type_, [address], {"alignment": alignment, "invariant": ir.UnitAttr.get()})

    @cached_property
    def _segment(self) -> ir.Value:
        """Where the arguments lie."""
        constant = ir.Type.parse("!llvm.ptr<4>")
        segment = intrinsic(SEGMENT, constant)
        return assembly(constant, [segment], "", "=s,0", effects=True)


def _integer(width: int) -> ir.Type:
    return ir.IntegerType.get_signless(width)
