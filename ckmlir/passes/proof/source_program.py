"""The unscheduled program, numbered: what every operation is called, and what its loops and branches do.

What an LDS tensor holds is carried round by loops that change it, and given by branches that do, like values that the
program names (`contents`).
"""

from collections.abc import Callable, Iterable, Iterator, Sequence

from ckmlir.dialect.loop import LOOP
from ckmlir.mlir import ir
from ckmlir.passes.proof.carried import WHILE, carried
from ckmlir.passes.proof.contents import Contents
from ckmlir.passes.proof.finding import Finding, words_for
from ckmlir.passes.proof.footprints import changes, elements_of, finds, tensor_of, value_operands
from ckmlir.passes.proof.polynomial import Polynomial, add, constant, multiple, multiply, quotient, symbol, symbols_of
from ckmlir.passes.proof.structure import BRANCH, Branch, Effect, Loop, Region, read_structure
from ckmlir.passes.proof.terms import (
    EFFECTS,
    NO_VALUE,
    READS,
    Name,
    Operands,
    Signature,
    Table,
    memory_root,
    sees_effects,
    signature_of,
)  # fmt: skip
from ckmlir.passes.proof.unknowns import Unknowns


def copied(op: ir.Operation) -> Signature | None:
    """What a copy to LDS writes: the elements of its window, whichever lanes move them. Where lanes have an index each,
    their distribution says which elements belong to it, in the layout that the tensor gets as in a plain one. None for
    other operations.
    """
    if op.name != "ck.copy_fragment":
        return None
    indexed = ("axis", "distribution", "reach") if "axis" in op.attributes else ()
    return Signature("copy", tuple((name, str(op.attributes[name])) for name in indexed if name in op.attributes), ())


class Unprovable(Exception):
    """The program is of a form that the proof does not cover; carries the finding."""

    def __init__(self, op: ir.Operation, message: str) -> None:
        self.finding = Finding("dependence", op, message)
        super().__init__(message)


class SourceProgram:
    """A numbered program.

    Attributes:
        table: of all operations.
        body: the kernel's region; `loops` are all loops of all regions in program order.
        effects: in program order; `effect_names` gives those that a name may stand for, `effects_alike` the numbers
            of those that have a signature.
        homes: for the number of what reads or changes memory the regions where the program does so.
        bounds: numbers of the values that loops' bounds are made of.
        returned: the names of what the function returns.

    Raises:
        Unprovable: it reads LDS that has not been written, or holds a region of another kind.
    """

    def __init__(self, function: ir.Operation) -> None:
        self.table = Table()
        self.loops: list[Loop] = []
        self.effect_names: dict[int, list[int]] = {}
        self.homes: dict[int, list[Region]] = {}
        self.returned: list[Name] = []
        self.function = function
        self._names: dict[ir.Value, Name] = {}
        self._scalars: dict[ir.Value, Polynomial] = {}
        self._contents = Contents(self.table)
        self._unknowns = Unknowns()
        self._done: set[int] = set()
        blocks = list(function.regions[0])
        if len(blocks) != 1:
            raise Unprovable(function, "the reference has branches already; it is the module before ck-pipeline-loops")
        self._regions = read_structure(function, self.table)
        self.body = self._home = self._regions[blocks[0]]
        self.deepest = max(region.depth for region in self._regions.values())
        self.effects = [
            self._effect(op, home)
            for block, home in self._regions.items()
            for op in (view.operation for view in block)
            if op.name in EFFECTS
        ]
        self._effect_of = {effect.op: number for number, effect in enumerate(self.effects)}
        self.effects_alike: dict[Signature, list[int]] = {}
        for number, effect in enumerate(self.effects):
            self.effects_alike.setdefault(signature_of(effect.op), []).append(number)
        self.arguments = [Name(self.table.fresh(function), None) for _ in blocks[0].arguments]
        self._names.update(zip(blocks[0].arguments, self.arguments, strict=True))
        last, _ = self._number_all(blocks[0])
        self.returned = self._names_of(last.operands)
        self._unknowns.settle(self.table, self.loops)
        used = (polynomial for loop in self.loops for polynomial in (loop.lower, loop.upper, loop.stride))
        self.bounds = {one.number for polynomial in used for one in symbols_of(polynomial) if isinstance(one, Name)}

    def _effect(self, op: ir.Operation, home: Region) -> Effect:
        before, after = self.table.fresh(op), self.table.fresh(op)
        during = tuple(self.table.fresh(op, depth) for depth in range(1, home.depth + 1))
        return Effect(op, home, memory_root(op, self.function), before, during, after)

    # -- operations

    def _number_all(self, block: ir.Block, tensors: Iterable[ir.Operation] = ()) -> tuple[ir.Operation, list[Name]]:
        """Number the operations of a block but the last, which hands something on; that one, and what LDS tensors hold
        there.
        """
        around, self._home = self._home, self._regions[block]
        *inside, last = _operations(block)
        for op in inside:
            if op.name == BRANCH:
                self._branch(op)
            elif op.name in (LOOP, WHILE):
                self._loop(op)
            elif op.name == "ck.lds_alloc":
                self._contents.begin(op)
            elif len(op.regions):
                raise Unprovable(
                    op, f"{words_for(op)} holds a region; proofs are about straight code, loops and branches"
                )
            elif op.name not in NO_VALUE:
                self._name(op)
        held = self._wholes(tensors, last)
        self._home = around
        return last, held

    def _name(self, op: ir.Operation) -> None:
        polynomial = scalar(op, self.polynomial)
        if polynomial is not None:
            self._scalars[op.results[0]] = polynomial
        signature, operands = copied(op) or signature_of(op), self._operands(op)
        name = self.table.define(op, signature, operands)
        self._unknowns.computed.append((name, signature, operands))
        if polynomial is not None:
            self._unknowns.indices.update((name, index) for index in self._indices(polynomial))
        if op.name in READS or op.name in EFFECTS:
            self.homes.setdefault(name.number, []).append(self._home)
        if op.name in EFFECTS:
            number = self._effect_of[op]
            self.effect_names.setdefault(name.number, []).append(number)
            self._done.add(number)
        if changes(op):
            self._contents.write(tensor_of(op), name, elements_of(op))
        for result in op.results:
            self._names[result] = name
        if len(op.results) > 1:
            raise Unprovable(op, f"{words_for(op)} has several results")

    def _indices(self, polynomial: Polynomial) -> Iterator[Name]:
        """The index of another iteration of a loop around that a sum is."""
        for loop in (region.item for region in self._home.path if isinstance(region.item, Loop)):
            if loop.index is not None:
                shift = multiple(add(polynomial, symbol(Name(loop.index, 0)), -1), loop.stride)
                if shift is not None:
                    yield Name(loop.index, shift)

    def _operands(self, op: ir.Operation) -> Operands:
        values = self._names_of(value_operands(op))
        if finds(op):
            return (*values, *self._found(op))
        if sees_effects(op):
            root = memory_root(op, self.function)
            values += [
                effect.progress(effect.home.shared(self._home), int(number in self._done))
                for number, effect in enumerate(self.effects)
                if meets(root, effect) and effect.op != op
            ]
        return tuple(values)

    def _names_of(self, values: Iterable[ir.Value]) -> list[Name]:
        return [self._names[value] for value in values]

    # -- LDS

    def _found(self, op: ir.Operation) -> list[tuple[Name, int]]:
        parts = self._contents.found(tensor_of(op), elements_of(op))
        if parts is None:
            raise Unprovable(op, f"{words_for(op)} reads elements that have not been written before")
        return parts

    def _changed(self, op: ir.Operation) -> list[ir.Operation]:
        """The LDS tensors from outside of a loop or branch that it changes."""
        found = dict.fromkeys(tensor_of(one) for one in _inside(op) if changes(one))
        return [tensor for tensor in found if tensor in self._contents.parts]

    def _wholes(self, tensors: Iterable[ir.Operation], op: ir.Operation) -> list[Name]:
        """What LDS tensors hold where the program has been read to."""
        return [self._contents.whole(tensor, op, self._home.depth) for tensor in tensors]

    def _become(self, tensors: Iterable[ir.Operation], names: Iterable[Name]) -> None:
        for tensor, name in zip(tensors, names, strict=True):
            self._contents.become(tensor, name)

    # -- loops and branches

    def _loop(self, op: ir.Operation) -> None:
        loop = self._item(op)
        assert isinstance(loop, Loop)
        self.loops.append(loop)
        first, started = op.regions[0].blocks[0], carried(op)
        arguments, results = list(first.arguments)[loop.index is not None :], list(op.results)
        tensors, changing = self._changed(op), list(zip(loop.changing, loop.arguments, strict=True))
        loop.initial = [*self._names_of(started[place] for place in loop.changing), *self._wholes(tensors, op)]
        loop.arguments += [self.table.fresh(op, loop.depth) for _ in tensors]
        if loop.index is not None:
            loop.lower, loop.upper, loop.stride = (self.polynomial(operand) for operand in op.operands[:3])
            self._names[first.arguments[0]] = Name(loop.index, 0)
        self._stay(arguments, started, loop)
        for place, number in changing:
            self._names[arguments[place]] = Name(number, 0)
        self._become(tensors, (Name(number, 0) for number in loop.arguments[len(changing) :]))
        last, held = self._number_all(first, tensors)
        if loop.index is None:
            loop.condition, *forwarded = self._names_of(last.operands)
            loop.forwarded = [*forwarded, *held]
            body = op.regions[1].blocks[0]
            self._names.update(zip(body.arguments, forwarded, strict=True))
            last, held = self._number_all(body, tensors)
        loop.handed_on = [*self._names_of(last.operands[place] for place in loop.changing), *held]
        loop.outside = frozenset(
            name for name in loop.handed_on if name.shift is None or self.table.depths[name.number] < loop.depth
        )
        if loop.index is not None:
            self._stay(results, started, loop)
            results = [results[place] for place in loop.changing]
        self._name_results(loop, results, tensors)

    def _branch(self, op: ir.Operation) -> None:
        branch = self._item(op)
        assert isinstance(branch, Branch)
        branch.condition = self._names[op.operands[0]]
        tensors, before = self._changed(op), dict(self._contents.parts)
        happened: set[int] = set()
        done = set(self._done)
        for region in op.regions:
            self._contents.parts, self._done = dict(before), set(done)
            blocks = list(region.blocks)
            if blocks:
                last, held = self._number_all(blocks[0], tensors)
                branch.handed.append([*self._names_of(last.operands), *held])
            else:
                branch.handed.append(self._wholes(tensors, op))
            happened |= self._done
        self._contents.parts, self._done = before, happened
        self._name_results(branch, op.results, tensors)

    def _item(self, op: ir.Operation) -> Loop | Branch:
        return next(item for item in self._home.items if item.op == op)

    def _name_results(
        self, item: Loop | Branch, results: Iterable[ir.Value], tensors: Sequence[ir.Operation]
    ) -> None:
        """Behind a loop or branch values are its results, and so is what the LDS tensors that it changes hold."""
        self._names.update(zip(results, map(item.result, item.results), strict=True))
        held = [self.table.fresh(item.op, item.home.depth) for _ in tensors]
        item.results += held
        self._become(tensors, map(item.result, held))

    def _stay(self, values: list[ir.Value], started: list[ir.Value], loop: Loop) -> None:
        """Arguments or results that the loop does not change are what it started with."""
        for place in set(range(len(started))) - set(loop.changing):
            self._names[values[place]] = self._names[started[place]]
            if started[place] in self._scalars:
                self._scalars[values[place]] = self._scalars[started[place]]

    def polynomial(self, value: ir.Value) -> Polynomial:
        """What is known of an integer; an unknown of its own if nothing is."""
        found = self._scalars.get(value)
        return symbol(self._names[value]) if found is None else found


def scalar(op: ir.Operation, of: Callable[[ir.Value], Polynomial | None]) -> Polynomial | None:
    """The result of integer arithmetic on scalars as a polynomial; None for other operations, and unknown operands.
    A quotient is an unknown that says what it is of.
    """
    if len(op.results) != 1 or not isinstance(op.results[0].type, (ir.IntegerType, ir.IndexType)):
        return None
    if op.name == "arith.constant":
        attribute = op.attributes["value"]
        return constant(int(attribute.value)) if isinstance(attribute, ir.IntegerAttr) else None
    if op.name not in ("arith.addi", "arith.subi", "arith.muli", "arith.divui"):
        return None
    left, right = (of(operand) for operand in op.operands)
    if left is None or right is None:
        return None
    if op.name == "arith.divui":
        return quotient(left, right)
    return multiply(left, right) if op.name == "arith.muli" else add(left, right, -1 if op.name == "arith.subi" else 1)


def meets(root: int | None, effect: Effect) -> bool:
    """Whether an access to memory with this root may touch what an effect changes."""
    return root is None or effect.root is None or root == effect.root


def _operations(block: ir.Block) -> list[ir.Operation]:
    return [view.operation for view in block]


def _inside(op: ir.Operation) -> Iterator[ir.Operation]:
    for block in (block for region in op.regions for block in region.blocks):
        for one in _operations(block):
            yield one
            yield from _inside(one)
