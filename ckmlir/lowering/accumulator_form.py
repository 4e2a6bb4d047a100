"""Matrix instructions whose accumulators LLVM is told to keep in accumulation registers.

A wave of gfx9 has 256 architectural registers and, where it may have 512, 256 accumulation registers. With accumulators
that leave too little of the first kind for operands, LLVM's allocator spreads both over both kinds and fills loops with
moves. Such accumulators are better off as a whole in the second kind: vector arithmetic cannot reach them there, but
only matrix instructions do. LLVM is told by writing the instruction as inline assembly, with an operand of that kind
that is input and output.

Accumulators that begin as zeros are products of zeros, all in one piece of assembly. Of zeros LLVM would write each
register by itself, and take a fifth of its time for that. They stand behind the first loads, where the wave would wait,
and have effects for LLVM, which else puts them in front of the loads' addresses.

LLVM's hazard recognizer does not see into inline assembly. Where accumulators begin and end, a join of all of them
(assembly that only waits, or these products) keeps the distances, by data dependence; `ckmlir.compiler` has the machine
code of such kernels checked as a whole. Where what is multiplied is computed, instructions bring wait states of their
own.

Block scales are two more registers of an instruction, which is waited for where they are computed too.

The rule holds for every kernel without sparse instructions: of at most 4 waves (more have no second kind to spare),
with 129 to 256 accumulators that go round a loop and that only matrix instructions touch there.
"""

from collections.abc import Collection, Iterator
from itertools import permutations

from msgspec import Struct, field

from ckmlir.dialect.build import producer, text_of, value
from ckmlir.dialect.control import end_of
from ckmlir.dialect.scalars import bits, zero_of
from ckmlir.lowering.branches import BRANCHES, received
from ckmlir.mlir import ir
from ckmlir.passes.flow import Flow
from ckmlir.passes.vectors import is_join
from ckmlir.targets import Target
from ckmlir.targets.cdna import REGISTER_BITS, SIMDS
from ckmlir.targets.mfma import MfmaInstruction

MATRIX = "ck.mfma"
ACCUMULATION = "ck.accumulation_registers"
"""Set on matrix instructions that take this form, and on kernels that have some."""
COMPUTED = "ck.computed_operands"
"""Set on those of them that multiply what vector arithmetic has just made, for all that is known."""
MOST_IN_ARCHITECTURAL = 128
"""Accumulators that fit beside operands among 256 architectural registers."""
INDEXED = 4
"""Operands of a sparse matrix instruction, which this form is not written for; block scales make five."""
WAITS = ("ck.wait", "ck.barrier")
"""Where a wave waits for what it has loaded, or for others that do."""
BEGIN = "s_nop 1"
"""2 wait states: vector arithmetic writes a register, a matrix instruction reads it (LLVM GCNHazardRecognizer,
checkMAIHazards90A)."""
END = "s_nop 15\ns_nop 15"
"""32 wait states: a matrix instruction of 16 passes writes a register, vector arithmetic reads it (19 or fewer,
same place)."""


def has_accumulator_form(module: ir.Module) -> bool:
    """Whether a lowered module has kernels in this form."""
    inside = [top for top in module.body.operations if top.operation.name == "gpu.module"]
    return any(
        ACCUMULATION in function.attributes
        for top in inside
        for function in top.operation.regions[0].blocks[0].operations
    )


class _Web(Struct):
    """Accumulators that go from matrix instruction to matrix instruction, over branches."""

    members: set[ir.Value] = field(default_factory=set)
    instructions: list[ir.Operation] = field(default_factory=list)
    entries: dict[ir.Operation, list[int]] = field(default_factory=dict)
    """By branch: the operands that it brings from outside into a block that multiplies."""
    exits: dict[ir.Block, list[ir.Value]] = field(default_factory=dict)
    """By block: its arguments that other operations use."""


def use_accumulator_form(function: ir.Operation, matrix: list[ir.Operation], waves: int, target: Target) -> bool:
    """Mark the matrix instructions of a kernel of fragments that take the form, and join accumulators where they begin
    and end. Whether there are any.
    """
    if waves > SIMDS or not matrix or any(len(op.operands) == INDEXED for op in matrix):
        return False
    web = _web(function, matrix)
    # More than there are accumulation registers lie in both kinds, where LLVM is told nothing.
    if web is None or not MOST_IN_ARCHITECTURAL < _carried(web, function) <= target.registers.accumulation_per_wave:
        return False
    for op in web.instructions:
        op.attributes[ACCUMULATION] = ir.UnitAttr.get(function.context)
        left, right, _, *scales = op.operands
        if not all(map(_is_loaded, (left, right, *scales))):
            op.attributes[COMPUTED] = ir.UnitAttr.get(function.context)
    entries = [edge for entry in web.entries.items() for edge in _edges(*entry)]
    with function.location:
        beginnings = list(_beginnings(function, entries, {op.block for op in web.instructions}))
    for place, edges in beginnings:
        with ir.InsertionPoint(place), place.location:
            joined = _begun(_brought(edges[0]), web, target)
        for branch, numbers in edges:
            for number, accumulators in zip(numbers, joined, strict=True):
                branch.operands[number] = accumulators
    for block, values in web.exits.items():
        with ir.InsertionPoint.at_block_begin(block), block.operations[0].location:
            join, joined = _join(END, values)
        for old, new in zip(values, joined, strict=True):
            old.replace_all_uses_except(new, join)
    return True


def _web(function: ir.Operation, matrix: list[ir.Operation]) -> _Web | None:
    """The accumulators of all matrix instructions; None where something else uses them in between."""
    web = _Web(instructions=matrix)
    begins = [producer(op.operands[2]) for op in matrix]
    if any(owner is not None and owner.name != MATRIX for owner in begins):
        return None
    multiplying = {op.block for op in matrix}
    waiting = [value for op in matrix for value in (op.operands[2], op.results[0])]
    while waiting:
        member = waiting.pop()
        if member in web.members:
            continue
        web.members.add(member)
        users = _users(web, member, multiplying)
        if users is None:
            return None
        waiting += users
    _note_entries(web, function)
    return web


def _users(web: _Web, member: ir.Value, multiplying: Collection[ir.Block]) -> list[ir.Value] | None:
    """Where branches hand an accumulator on to; its uses in blocks without matrix instructions are noted as exits.
    None: something uses it among matrix instructions.
    """
    block = None if producer(member) is not None else ir.BlockArgument(member).owner
    handed_on = []
    for use in member.uses:
        user, number = use.owner.operation, use.operand_number
        if user.name in BRANCHES:
            handed_on.append(received(user, number))
        elif user.name == MATRIX and number == 2:
            continue
        elif block is None or block in multiplying:
            return None
        else:
            used = web.exits.setdefault(block, [])
            used += [member] if member not in used else []
    return handed_on


def _note_entries(web: _Web, function: ir.Operation) -> None:
    """The operands of branches by which something becomes an accumulator."""
    for block in function.regions[0]:
        branch = end_of(block)
        if branch.name not in BRANCHES:
            continue
        for number, operand in enumerate(branch.operands):
            if received(branch, number) in web.members and operand not in web.members:
                web.entries.setdefault(branch, []).append(number)


VIEWS_OF_REGISTERS = ("vector.extract_strided_slice", "vector.bitcast", "arith.bitcast")
"""What takes no instruction."""
LOADING = ("ck.lds_read", "ck.load_fragment")


def _is_loaded(operand: ir.Value) -> bool:
    """Whether a matrix operand comes from memory as it is, maybe around a loop; or as several loads of whole registers,
    one behind the other, which LLVM puts into neighbouring ones.
    """
    if _bits(operand.type) % REGISTER_BITS:
        return False
    owner = producer(operand)
    while owner is not None and owner.name in VIEWS_OF_REGISTERS:
        owner = producer(owner.operands[0])
    if owner is not None and is_join(owner):
        return all(_is_loaded(part) for part in owner.operands)
    return owner is None or owner.name in LOADING


_Edge = tuple[ir.Operation, list[int]]
"""A branch, with the numbers of its operands that are accumulators."""


def _beginnings(
    function: ir.Operation, edges: list[_Edge], multiplying: Collection[ir.Block]
) -> Iterator[tuple[ir.Operation, list[_Edge]]]:
    """In front of which operation accumulators are joined, and the branches that bring them from there.

    Of branches that bring the same numbers only one may be taken, into a loop or past it where it runs no iteration:
    then accumulators begin once, in the last block that all of them pass. Zeros begin in the last one that those pass
    that lead to products, beside its first wait; others, of a kernel that asks before its first loads whether there is
    anything to add, have zeros of their own.
    """
    flow = Flow(list(function.regions[0]))
    places = {block: place for place, block in enumerate(flow.blocks)}
    groups: list[list[_Edge]] = []
    for edge in edges:
        like = (one for one in groups if _brought(one[0]) == _brought(edge))
        group = next((one for one in like if _only_one(flow, [places[to.block] for to, _ in (*one, edge)])), [])
        if not group:
            groups.append(group)
        group.append(edge)
    leading = flow.reaching([places[block] for block in multiplying], 0)
    turns = frozenset[int]().union(*(loop.places for loop in flow.loops))
    for group in groups:
        if not all(map(_is_zero, _brought(group[0]))):
            yield _place(flow.blocks[flow.last_before([places[branch.block] for branch, _ in group])], ()), group
            continue
        own = [places[branch.block] for branch, _ in group]
        decided = [_decided(flow, place) for place in own] if len(own) > 1 else own
        added = [places[branch.successors[0]] in leading for branch, _ in group]
        later = flow.last_before([place for place, one in zip(decided, added, strict=True) if one] or decided)
        behind = [edge for edge, place in zip(group, decided, strict=True) if later in flow.dominators[place]]
        yield _place(flow.blocks[later], () if later in turns else WAITS), behind
        for edge in group:
            if edge not in behind:
                yield edge[0], [edge]


def _decided(flow: Flow, place: int) -> int:
    """The block that decides to take a branch: its own, or the one before where that has nothing else (`_edges`)."""
    alone = len(flow.blocks[place].operations) == 1
    return max(flow.dominators[place] - {place}, key=flow.depth, default=place) if alone else place


def _place(block: ir.Block, waits: Collection[str]) -> ir.Operation:
    """The first of some waits of a block, where products of zeros take no time of their own; without one, or with no
    `waits` given, its last operation. None are given in a loop, where accumulators of the turn before may still be in
    use, and for accumulators that do not begin as zeros, which may be computed later in the block.
    """
    operations = [one.operation for one in block.operations]
    return next((op for op in operations if op.name in waits), operations[-1])


def _brought(edge: _Edge) -> list[ir.Value]:
    branch, numbers = edge
    return [branch.operands[number] for number in numbers]


def _begun(values: list[ir.Value], web: _Web, target: Target) -> list[ir.Value]:
    """What matrix instructions find in their accumulators at first, in accumulation registers."""
    if not all(map(_is_zero, values)):
        return _join(BEGIN, values)[1]
    kinds = {op.results[0].type: target.mfma(text_of(op, "instruction")) for op in web.instructions}
    wanted = dict.fromkeys(side for item in values for side in _factors(kinds[item.type]))
    place = {side: len(values) + number for number, side in enumerate(wanted)}
    lines = [BEGIN]
    for number, item in enumerate(values):
        kind = kinds[item.type]
        left, right = (place[side] for side in _factors(kind))
        lines.append(f"{kind.mnemonic} ${number}, ${left}, ${right}, 0{kind.modifiers}")
    # Results are written before the last factors are read, but these are in registers of the other kind.
    constraints = ",".join(["=a"] * len(values) + ["v"] * len(wanted))
    zeros = [value("llvm.mlir.zero", ir.Type.parse(side), []) for side in wanted]
    return assembled("\n".join(lines), [item.type for item in values], zeros, constraints, effects=True)[1]


def _factors(kind: MfmaInstruction) -> tuple[str, str]:
    """The types of what an instruction multiplies."""
    return kind.a_type, kind.b_type


def _is_zero(item: ir.Value) -> bool:
    """Whether a value, or all elements of a vector, are the constant 0."""
    owner = producer(item)
    if owner is not None and owner.name == "vector.broadcast":
        return _is_zero(owner.operands[0])
    return owner is not None and owner.name == "arith.constant" and owner.attributes["value"] == zero_of(item.type)


def _only_one(flow: Flow, places: list[int]) -> bool:
    """Whether no way from the last block before all of these leads to two of them."""
    common = flow.last_before(places)
    return all(one not in flow.reaching([other], common) for one, other in permutations(places, 2))


def _edges(branch: ir.Operation, numbers: list[int]) -> list[_Edge]:
    """Branches that are taken only where these operands of a branch are wanted, with the operands' numbers there:
    itself, or those of new blocks on its ways.
    """
    if branch.name == "cf.br":
        return [(branch, numbers)]
    _, first, _ = ir.DenseI32ArrayAttr(branch.attributes["operandSegmentSizes"])
    condition, *operands = branch.operands
    successors = list(branch.successors)
    found = []
    parts = []
    for side, (start, part) in enumerate(((1, operands[:first]), (1 + first, operands[first:]))):
        own = [number - start for number in numbers if 0 <= number - start < len(part)]
        if own:
            between = successors[side].create_before()
            with ir.InsertionPoint(between), branch.location:
                found.append((ir.Operation.create("cf.br", operands=part, successors=[successors[side]]), own))
            successors[side], part = between, []
        parts.append(part)
    sizes = ir.DenseI32ArrayAttr.get([1, *map(len, parts)])
    with ir.InsertionPoint(branch), branch.location:
        ir.Operation.create(
            "cf.cond_br", operands=[condition, *parts[0], *parts[1]], successors=successors,
            attributes={"operandSegmentSizes": sizes},
        )  # fmt: skip
    branch.erase()
    return found


def _carried(web: _Web, function: ir.Operation) -> int:
    """The most accumulators, in registers of a lane, that the matrix instructions of a block find at its beginning."""
    used = {op.operands[2] for op in web.instructions}
    found = [[argument for argument in block.arguments if argument in used] for block in function.regions[0]]
    return max(sum(_registers(argument.type) for argument in arguments) for arguments in found)


def _registers(vector: ir.Type) -> int:
    """Registers of a lane that a vector takes."""
    return _bits(vector) // REGISTER_BITS


def _bits(vector: ir.Type) -> int:
    return int(vector.shape[0]) * bits(vector.element_type)


def _join(text: str, values: list[ir.Value]) -> tuple[ir.Operation, list[ir.Value]]:
    """An instruction that all values pass through, in accumulation registers, and the values behind it."""
    constraints = ",".join(["=a"] * len(values) + [str(number) for number in range(len(values))])
    return assembled(text, [item.type for item in values], values, constraints)


def assembled(
    text: str, results: list[ir.Type], operands: list[ir.Value], constraints: str, *, effects: bool = False
) -> tuple[ir.Operation, list[ir.Value]]:
    """Assembly of any number of results, and these."""
    types = ", ".join(map(str, results))
    struct = ir.Type.parse(f"!llvm.struct<({types})>") if len(results) > 1 else results[0]
    result = assembly(struct, operands, text, constraints, effects=effects)
    if len(results) == 1:
        return result.owner.operation, [result]
    places = [{"position": ir.DenseI64ArrayAttr.get([number])} for number in range(len(results))]
    return result.owner.operation, [
        value("llvm.extractvalue", type_, [result], place) for type_, place in zip(results, places, strict=True)
    ]


def assembly(
    result: ir.Type, operands: list[ir.Value], text: str, constraints: str, *, effects: bool = False
) -> ir.Value:
    """Inline assembly, without effects besides its result unless told otherwise."""
    attributes: dict[str, ir.Attribute] = {
        "asm_string": ir.StringAttr.get(text), "constraints": ir.StringAttr.get(constraints),
    }  # fmt: skip
    if effects:
        attributes["has_side_effects"] = ir.UnitAttr.get()
    return value("llvm.inline_asm", result, operands, attributes)
