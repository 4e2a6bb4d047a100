"""Multiplications that a wave leaves out where they change nothing."""

from collections.abc import Iterator
from itertools import accumulate

from ckmlir.dialect import arith
from ckmlir.dialect.build import producer, value
from ckmlir.lowering.branches import where_all
from ckmlir.lowering.context import WAVE_SIZE, Lowering
from ckmlir.mlir import ir
from ckmlir.passes import vectors


def lower_rescale(state: Lowering, op: ir.Operation) -> list[ir.Value]:
    """ck.rescale_vector to packed multiplications behind a scalar branch, which the wave takes around them where no
    lane has another factor than 1; NaN is another.

    Vectors that were joined for it, such as accumulators of matrix instructions, come by the branch one by one: of
    one that is longer than any register, LLVM would hand on every element by itself.
    """
    source, factors = op.operands
    each = [vectors.element(factors, place) for place in range(vectors.length_of(factors))]
    one = _constant(ir.FloatAttr.get(each[0].type, 1.0))
    needed, *others = [arith.cmpf(arith.CmpFPredicate.UNE, factor, one) for factor in each]
    for other in others:
        needed = arith.ori(needed, other)
    wave = ir.IntegerType.get_signless(WAVE_SIZE)
    lanes = value("rocdl.ballot", wave, [needed])
    some = arith.cmpi(arith.CmpIPredicate.ne, lanes, _constant(ir.IntegerAttr.get(wave, 0)))
    pieces = list(_joined(source))
    starts = [*accumulate(map(vectors.length_of, pieces), initial=0)]

    def multiplied() -> list[ir.Value]:
        made = []
        for piece, start in zip(pieces, starts, strict=False):
            length = vectors.length_of(piece)
            own = vectors.part(factors, start, length) if others else vectors.splat(each[0], length)
            made.append(value("arith.mulf", piece.type, [piece, own]))
        return made

    rescaled = where_all(op, some, multiplied, pieces)
    with ir.InsertionPoint(op):  # which stands in another block now
        for use in list(op.results[0].uses):
            _cut(use.owner, dict(zip(starts, rescaled, strict=False)))
        return [_rejoined(source, iter(rescaled))]


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


def _constant(attribute: ir.FloatAttr | ir.IntegerAttr) -> ir.Value:
    return value("arith.constant", attribute.type, [], {"value": attribute})
