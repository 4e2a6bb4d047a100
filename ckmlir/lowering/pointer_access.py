"""Accesses to global memory through pointers of 64 bits a lane: what lies further away than a buffer reaches.

Nothing but comparisons keeps a pointer inside its view, so all dimensions are compared, those without a padding too,
and lanes without an element branch around the access. Arithmetic that all lanes share comes first, in 64 bits as the
rest.
"""

from collections.abc import Sequence

from ckmlir.dialect.build import create, integer, value
from ckmlir.lowering.branches import only_where, where
from ckmlir.lowering.buffer_resource import further
from ckmlir.lowering.context import Lowering
from ckmlir.lowering.existence import existence
from ckmlir.lowering.index import Index
from ckmlir.lowering.parts import Rate
from ckmlir.lowering.place import place_of
from ckmlir.lowering.predicate import Predicate
from ckmlir.lowering.storage import bytes_of, from_storage, storage_of, to_storage
from ckmlir.mlir import ir


def pointer_to(
    state: Lowering,
    window: ir.Value,
    inside: Sequence[Index],
    *,
    condition: Predicate | None = None,
    anywhere: int | None = None,
) -> tuple[ir.Value, Predicate | None]:
    """A pointer to the element `inside` a window, and where it may be used: `condition`, and the element exists.

    The coordinate along the dimension `anywhere` may be any number, also a negative one.
    """
    place = place_of(state, window, inside)
    valid = existence(place, condition, anywhere=anywhere, unpadded=True)
    offset = place.offset
    own = offset.part(Rate.LANE)
    pointer = place.ground.pointer
    for distance in (offset - own, own):
        pointer = further(pointer, distance) if distance.terms else pointer
    return pointer, valid


def load_through(op: ir.Operation, pointer: ir.Value, valid: Predicate | None) -> ir.Value:
    """The fragment that an operation loads; zeros for lanes without an element."""
    fragment = op.results[0].type
    storage = storage_of(fragment)

    def load() -> ir.Value:
        return value("llvm.load", storage, [pointer], _aligned(fragment))

    if valid is None:
        return from_storage(load(), fragment)
    loaded = where(op, valid.value, load, value("llvm.mlir.zero", storage, []))
    with ir.InsertionPoint(op):  # which stands in another block now
        return from_storage(loaded, fragment)


def store_through(op: ir.Operation, pointer: ir.Value, valid: Predicate | None) -> list[ir.Value]:
    """Store an operation's fragment, for the lanes whose element exists."""
    fragment = op.operands[0]
    data = to_storage(fragment)

    def store() -> None:
        create("llvm.store", [], [data, pointer], _aligned(fragment.type))

    if valid is None:
        store()
    else:
        only_where(op, valid.value, store)
    return []


def _aligned(fragment: ir.Type) -> dict[str, ir.Attribute]:
    """Vectors are aligned to their size: the view has said so before they were made so wide."""
    return {"alignment": integer(bytes_of(fragment), 64), "ordering": integer(0, 64)}
