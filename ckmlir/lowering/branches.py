"""Branches: what they hand on, and code that only some lanes or waves come by."""

from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate

from ckmlir.dialect import arith
from ckmlir.dialect.build import constant_integer, producer, value
from ckmlir.mlir import ir
from ckmlir.passes import vectors
from ckmlir.passes.walk import move_rest
from ckmlir.targets.cdna import WAVE_SIZE

BRANCHES = ("cf.br", "cf.cond_br")


def received(branch: ir.Operation, number: int) -> ir.Value | None:
    """The block argument that a branch's operand becomes; None for a condition."""
    if len(branch.successors) == 1:
        return branch.successors[0].arguments[number]
    _, first, _ = ir.DenseI32ArrayAttr(branch.attributes["operandSegmentSizes"])
    if number == 0:
        return None
    to, place = (0, number - 1) if number <= first else (1, number - 1 - first)
    return branch.successors[to].arguments[place]


def only_where(op: ir.Operation, condition: ir.Value, build: Callable[[], object]) -> None:
    """What `build` appends, for the lanes or waves that fulfil a condition; `op` and what follows it moves behind."""

    def nothing_left() -> list[ir.Value]:
        build()
        return []

    where_all(op, condition, nothing_left, [])


def where(op: ir.Operation, condition: ir.Value, build: Callable[[], ir.Value], otherwise: ir.Value) -> ir.Value:
    """What `build` makes, for the lanes or waves that fulfil a condition, and `otherwise` for the others.

    `op` and what follows it moves behind.
    """
    (joined,) = where_all(op, condition, lambda: [build()], [otherwise])
    return joined


def where_all(
    op: ir.Operation, condition: ir.Value, build: Callable[[], list[ir.Value]], otherwise: list[ir.Value]
) -> list[ir.Value]:
    """As `where`, of several values."""
    block = op.block
    rest = block.create_after(*(one.type for one in otherwise))
    inner = rest.create_before()
    move_rest(op, rest, itself=True)
    with ir.InsertionPoint(block):
        sizes = ir.DenseI32ArrayAttr.get([1, 0, len(otherwise)])
        operands, attributes = [condition, *otherwise], {"operandSegmentSizes": sizes}
        ir.Operation.create("cf.cond_br", operands=operands, successors=[inner, rest], attributes=attributes)
    with ir.InsertionPoint(inner):
        ir.Operation.create("cf.br", operands=build(), successors=[rest])
    return list(rest.arguments)


def changed_where_any(
    op: ir.Operation, conditions: Sequence[ir.Value], vector: ir.Value, build: Callable[[ir.Value, int], ir.Value]
) -> ir.Value:
    """A vector for `op`, as `build` changes its pieces in waves of which a lane fulfils one of the conditions, and as
    it is in others. `build` is given each piece that was joined to the vector, and its first element: LLVM hands on by
    itself each element of a vector that is longer than any register.
    """
    here, *others = conditions
    for other in others:
        here = arith.ori(here, other)
    wave = ir.IntegerType.get_signless(WAVE_SIZE)
    lanes = value("rocdl.ballot", wave, [here])
    none = constant_integer(0, wave)
    some = arith.cmpi(arith.CmpIPredicate.ne, lanes, none)
    pieces = list(_joined(vector))
    starts = [*accumulate(map(vectors.length_of, pieces), initial=0)]

    def changed() -> list[ir.Value]:
        return [build(piece, start) for piece, start in zip(pieces, starts, strict=False)]

    found = where_all(op, some, changed, pieces)
    with ir.InsertionPoint(op):  # which stands in another block now
        for use in list(op.results[0].uses):
            _cut(use.owner, dict(zip(starts, found, strict=False)))
        return _rejoined(vector, iter(found))


def _joined(vector: ir.Value) -> Iterator[ir.Value]:
    """The vectors that joins have put one behind the other; itself where none has."""
    owner = producer(vector)
    if owner is None or not vectors.is_join(owner):
        yield vector
    else:
        for half in owner.operands:
            yield from _joined(half)


def _rejoined(vector: ir.Value, pieces: Iterator[ir.Value]) -> ir.Value:
    """Pieces put together as those of a vector were."""
    owner = producer(vector)
    if owner is None or not vectors.is_join(owner):
        return next(pieces)
    left, right = (_rejoined(half, pieces) for half in owner.operands)
    return vectors.shuffle(left, right, range(vectors.length_of(left) + vectors.length_of(right)))


def _cut(user: ir.Operation, pieces: dict[int, ir.Value]) -> None:
    """Let what takes the elements of one piece take that piece; `pieces` are by their first element."""
    if user.name == vectors.SLICE:
        (start,), (length,) = (ir.ArrayAttr(user.attributes[name]) for name in ("offsets", "sizes"))
        home = max(first for first in pieces if first <= start.value)
        if start.value + length.value <= home + vectors.length_of(pieces[home]):
            user.results[0].replace_all_uses_with(vectors.part(pieces[home], start.value - home, length.value))
