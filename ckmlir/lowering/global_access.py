"""Loads and stores of fragments in global memory, through buffers: how many of a tile share what."""

from functools import lru_cache
from itertools import pairwise

from ckmlir.dialect.build import constant_integer, create, integer, registers_of, text_of, value
from ckmlir.dialect.distribution import LANE, Distribution
from ckmlir.dialect.scalars import name_of
from ckmlir.lowering.accumulator_form import assembly
from ckmlir.lowering.buffer_address import BufferAddress, Shared, buffer_address, of_many
from ckmlir.lowering.context import Lowering
from ckmlir.lowering.existence import exist_together, existence
from ckmlir.lowering.instructions import fence
from ckmlir.lowering.place import accesses_of, differing, divides, inside_of, place_of
from ckmlir.lowering.predicate import Predicate
from ckmlir.lowering.storage import from_storage, storage_of, to_storage
from ckmlir.mlir import ir

MOST_DISTANCES = 8
"""Distances between loads of a tile that are kept in scalar registers: of 64 in each of two tiles 55 went to lanes of
vector registers (`gemm` of i8 with odd k on gfx942), and with 16 in each short sums take longer by the model (401408 x
64 x 147 in f16 on gfx950 55 us instead of 45).
"""
MANY_LOADS, IN_COMMON = 16, 4
"""Of more loads, up to so many, so many have their distances in common: with eight, `streamk_gemm` of f16 with odd
pairs of k kept three scalar registers in lanes on gfx90a.
"""
MOST_CONDITIONS = 4
"""Of the accesses to a tile that no loop repeats: where `permute` turns two rows of a volume by 64 single elements,
conditions kept 17 to 44 scalar registers in lanes, and 19 where a gradient of images loads eight of weights for each of
its first two steps.
"""
MOST_STORES, MANY_STORES = 4, 16
"""Of a tile, so many may have a base each, and more than so many as well: LLVM computes those one by one. Eight behind
as many loads of a D tensor of gradients of images, both of single elements, kept 44 to 65 scalar registers in lanes;
32 of a contraction with offsets in vector registers 11 to 16.
"""
MOST_SCALARS = 4
"""Of the loads of a tile of bytes that have one address for all lanes: of these LLVM takes the address, and what is
loaded, for scalars, for each of which bytes have a register of their own. Eight zero points of each of two matrices,
where lanes lie along a row of integers of 4 bits, kept 32, and up to 19 others went to lanes of vector registers. What
fills registers is left: scalars of several moved 31 more to where control flow reads them (`fmha_bwd_turns`).
"""
MOST_KEPT = 96
"""Of more stores than these, in a block with as many loads, offsets are computed anew. Those of loads LLVM keeps, each
beside its element: 320 elements took 640 registers, and its allocator minutes to find places for them.
"""

FEW_MOVED = 2
"""Of so many loads comparisons cost less than a buffer that moves: two instructions each, and three for all, instead of
some six. By the model attention with 64 channels takes 1.03 of the cycles on gfx950 otherwise. Copies to LDS take three
each.
"""
FEWEST_NEAR, MOST_NEAR = 4, 16
"""Of the loads of a tile in a loop, so many have their offsets at hand where all lie within an immediate one. LLVM
would compute them before the loop, and as registers do not suffice for all, again in it: seven additions a step of
attention with a bias.
"""


def lower_load(state: Lowering, op: ir.Operation) -> list[ir.Value]:
    """ck.load_fragment to a buffer load."""
    distribution = Distribution.parse(text_of(op, "distribution"))
    quads = state.quads(distribution)
    neighbours = [dim for dim, apart in quads.items() if apart == 1]
    inside = inside_of(state, op, by_quads=divides(op.operands[0], neighbours))
    shared = _shared_by_loads(distribution, len(registers_of(op)))
    count = accesses_of(distribution, len(registers_of(op)))
    if count > MOST_KEPT:
        state.loading_much.add(op.block)
    outside = op.block not in state.steps
    # Each has a place of its own: LLVM would find all of them, in scalar registers, before the first load.
    in_turn = outside and count > MOST_DISTANCES and divides(op.operands[0], range(distribution.rank))
    address = of_many(state, op.operands[0], inside) if not neighbours and count > MOST_DISTANCES else None
    # Of a kernel without loops neither is asked for: nothing would be computed before a loop.
    near = FEWEST_NEAR <= count <= MOST_NEAR and not state.is_straight and _are_near(state, op)
    if near and outside and state.leads_to_loop(op.block) and not registers_of(op)[0]:
        fence("none")  # so that what waits for loads before it in the loop does not wait for it in its first turn
    if address is None:
        crowded = outside and count > MOST_CONDITIONS
        state.emit.in_turn = in_turn
        address = buffer_address(
            state, op.operands[0], inside, quads=quads, shared=shared, apart=differing(op), crowded=crowded,
            together=not outside and _exist_together(state, op),
            near=near and not outside, several=count > FEW_MOVED,
        )  # fmt: skip
        state.emit.in_turn = False
    if count > MOST_SCALARS and name_of(op.results[0].type.element_type) == "i8" and _is_alike(distribution):
        address = address._replace(vector=_in_vector(state, address.vector))
    found = load_from(op, address)
    if in_turn:
        fence("none")
    return [found]


def lower_store(state: Lowering, op: ir.Operation) -> list[ir.Value]:
    """ck.store_fragment to a buffer store."""
    inside, condition = inside_of(state, op), first_copy(state, op)
    distribution = Distribution.parse(text_of(op, "distribution"))
    count = accesses_of(distribution, len(registers_of(op)))
    many = condition is None and MOST_STORES < count <= MANY_STORES
    address = of_many(state, op.operands[1], inside) if many else None
    if address is None:
        crowded = count > MOST_CONDITIONS and op.block not in state.steps
        address = buffer_address(
            state, op.operands[1], inside, condition=condition, writes=True, apart=differing(op), crowded=crowded,
            anew=count > MOST_KEPT and op.block in state.loading_much,
        )  # fmt: skip
    return store_to(op, address)


def lower_inside(state: Lowering, op: ir.Operation) -> list[ir.Value]:
    """ck.inside_fragment to the comparisons of its view's paddings."""
    place = place_of(state, op.operands[0], inside_of(state, op))
    found = existence(place)
    if found is not None:
        return [found.value]
    i1 = op.results[0].type
    return [constant_integer(1, i1)]


def lower_offset(state: Lowering, op: ir.Operation) -> list[ir.Value]:
    """ck.offset_fragment to address arithmetic in elements."""
    return [place_of(state, op.operands[0], inside_of(state, op)).value(0).emit()]


def load_from(op: ir.Operation, address: BufferAddress) -> ir.Value:
    """The fragment that an operation loads, from a buffer."""
    fragment = op.results[0].type
    raw = value("rocdl.raw.ptr.buffer.load", storage_of(fragment), address.operands, {"aux": integer(0, 32)})
    return from_storage(raw, fragment)


def store_to(op: ir.Operation, address: BufferAddress) -> list[ir.Value]:
    """Store an operation's fragment into a buffer."""
    create("rocdl.raw.ptr.buffer.store", [], [to_storage(op.operands[0]), *address.operands], {"aux": integer(0, 32)})
    return []


def first_copy(state: Lowering, op: ir.Operation) -> Predicate | None:
    """Where several threads hold an element, only the first of them writes it; None: each is held once."""
    condition: Predicate | None = None
    for digit in Distribution.parse(text_of(op, "distribution")).replicated_digits():
        test = state.digit(digit) < 1
        condition = test if condition is None else condition & test
    return condition


def _is_alike(distribution: Distribution) -> bool:
    """Whether all lanes of a wave have the same elements."""
    return not any(digit.source == LANE for dim in range(distribution.rank) for digit in distribution.digits(dim))


def _in_vector(state: Lowering, offset: ir.Value) -> ir.Value:
    """An offset in a vector register: what passes through assembly, which is empty, may differ between lanes."""
    return state.emit.once(("vector", offset), lambda: assembly(offset.type, [offset], "", "=v,0"))


def _exist_together(state: Lowering, op: ir.Operation) -> bool:
    """Whether a wave loads a whole tile or nothing of it."""
    distribution, window = Distribution.parse(text_of(op, "distribution")), op.operands[0]
    last = int(distribution.coordinates().shape[-1]) - len(registers_of(op))

    def found() -> bool:
        first, other = (place_of(state, window, state.coordinates(distribution, one)) for one in (0, last))
        return exist_together(first, other)

    return state.known_in_block(("together", window, distribution), found)


def _are_near(state: Lowering, op: ir.Operation) -> bool:
    """Whether all loads of a tile lie within an immediate offset of the first."""
    distribution, window = Distribution.parse(text_of(op, "distribution")), op.operands[0]
    last = int(distribution.coordinates().shape[-1]) - len(registers_of(op))

    def found() -> bool:
        first, other = (place_of(state, window, state.coordinates(distribution, one)) for one in (0, last))
        distance = other.offset - first.offset
        reached = distance.is_constant and 0 < distance.constant <= state.target.buffer_immediate
        return reached and first.offset.constant == 0

    return state.known_in_block(("near", window, distribution), found)


@lru_cache(maxsize=4096)
def _shared_by_loads(distribution: Distribution, count: int) -> Shared | None:
    """What all loads of so many registers have in common. None where there are too many, or many that differ along
    several dimensions, or not in equal steps.
    """
    begins = distribution.coordinates()[:, 0, 0, ::count]
    axes = tuple(axis for axis, along in enumerate(begins) if (along == along[0]).all())
    if accesses_of(distribution, count) <= MOST_DISTANCES:
        return Shared(axes, None)
    others = [sorted(along.tolist()) for axis, along in enumerate(begins) if axis not in axes]
    if len(others) != 1 or len(others[0]) > MANY_LOADS:
        return None
    steps = {high - low for low, high in pairwise(others[0])}
    return Shared(axes, IN_COMMON * steps.pop()) if len(steps) == 1 else None
