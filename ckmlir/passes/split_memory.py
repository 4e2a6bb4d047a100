"""Splitting of loads, stores and LDS transfers into accesses of one vector a thread."""

from collections.abc import Collection

from ckmlir.dialect import fragment, fragment_lds
from ckmlir.dialect.build import integer_of, producer, string, text_of
from ckmlir.dialect.distribution import Distribution
from ckmlir.dialect.fragment_checks import COPIES
from ckmlir.dialect.lds_layout import LdsLayout
from ckmlir.dialect.memory import INVARIANT
from ckmlir.dialect.packed_checks import dimensions_of, packing_of
from ckmlir.dialect.scalars import bits
from ckmlir.dialect.types import LdsType, TileType, WindowType, describe, tile_of
from ckmlir.mlir import ir
from ckmlir.passes import vectors
from ckmlir.passes.accesses import plan_accesses, run_length
from ckmlir.passes.framework import fail
from ckmlir.passes.registers import Registers
from ckmlir.passes.split_state import SplitState
from ckmlir.passes.transposed_reads import (
    packed_reading,
    transposed_dimension,
    transposed_elements,
    transposed_reading,
)
from ckmlir.targets.features import TRANSPOSED

ACCESS_BITS = 128
"""The widest access of a lane to memory or LDS (dwordx4, b128)."""


def split_load(state: SplitState, op: ir.Operation) -> None:
    """One load_fragment an access."""
    window, tile = op.operands[0], tile_of(op.results[0])
    distribution = tile.placed
    text = string(str(distribution))
    invariant = INVARIANT in op.attributes
    pieces = [
        (registers, fragment.load_fragment(window, text, registers, tile.element, invariant=invariant))
        for registers in window_accesses(state, window, distribution)
    ]
    state.bind(op.results[0], Registers.scatter(pieces, tile.element))


def split_store(state: SplitState, op: ir.Operation) -> None:
    """One store_fragment an access."""
    tile, window = op.operands
    distribution = tile_of(tile).placed
    text = string(str(distribution))
    for registers in window_accesses(state, window, distribution):
        fragment.store_fragment(state.of(tile).gather(registers), window, text, registers)


def split_atomic_update(state: SplitState, op: ir.Operation) -> None:
    """One atomic_fragment an element: hardware atomics are 32 bits wide, or two 16-bit halves."""
    tile, window = op.operands
    described = tile_of(tile)
    where = {"kind": op.attributes["kind"], "distribution": string(str(described.placed))}
    updates, fetch = [], fetches(op)
    for registers in window_accesses(state, window, described.placed, atomic_width(described.element)):
        data = state.of(tile).gather(registers)
        updates.append((registers, fragment.atomic_fragment(data, window, where, registers, fetch=fetch)))
    bind_before(state, op, updates)


def fetches(op: ir.Operation) -> bool:
    """Whether an update gives what was there before; of several threads with one element none but the first could."""
    if len(op.results) and list(tile_of(op.results[0]).placed.replicated_digits()):
        fail(op, COPIES)
    return len(op.results) > 0


def bind_before(state: SplitState, op: ir.Operation, updates: list[tuple[tuple[int, ...], ir.Operation]]) -> None:
    """Put together what the updates of an operation give, each of some registers, if they give anything."""
    if len(op.results):
        pieces = [(registers, update.results[0]) for registers, update in updates]
        state.bind(op.results[0], Registers.scatter(pieces, tile_of(op.results[0]).element))


def split_inside(state: SplitState, op: ir.Operation) -> None:
    """One test for the registers of what would be one access: a vector exists as a whole or not at all."""
    window, tile = op.operands[0], tile_of(op.results[0])
    text = string(str(tile.placed))
    pieces = [
        (registers, vectors.splat(fragment.inside_fragment(window, text, registers[0]), len(registers)))
        for registers in window_accesses(state, window, tile.placed)
    ]
    state.bind(op.results[0], Registers.scatter(pieces, tile.element))


def split_offsets(state: SplitState, op: ir.Operation) -> None:
    """One offset for the registers of what would be one access, whose elements follow each other in memory."""
    window, tile = op.operands[0], tile_of(op.results[0])
    text = string(str(tile.placed))
    pieces = []
    for registers in window_accesses(state, window, tile.placed):
        first = vectors.splat(fragment.offset_fragment(window, text, registers[0]), len(registers))
        pieces.append((registers, vectors.add(first, vectors.dense(range(len(registers)), tile.element))))
    state.bind(op.results[0], Registers.scatter(pieces, tile.element))


def atomic_width(element: ir.Type) -> int:
    """Elements that one atomic update of memory takes: hardware atomics are 32 bits wide or more."""
    return max(1, 32 // bits(element))


def window_accesses(
    state: SplitState,
    window: ir.Value,
    distribution: Distribution,
    maximum: int | None = None,
    across: int | None = None,
) -> tuple[tuple[int, ...], ...]:
    """Accesses along the dimension where the descriptor and the distribution together allow the longest vectors; not
    along `across`.
    """
    described = describe(window.type)
    assert isinstance(described, WindowType)
    widest = maximum or ACCESS_BITS // bits(described.element)

    def length(dimension: int) -> int:
        return run_length(distribution, dimension, state.vector_length(window, dimension, widest))

    dimensions = [dimension for dimension in range(len(described.lengths)) if dimension != across]
    if not dimensions:
        return plan_accesses(distribution, 0, 1)
    best = max(dimensions, key=lambda dimension: (length(dimension), dimension))
    return plan_accesses(distribution, best, state.vector_length(window, best, widest))


def split_to_lds(state: SplitState, op: ir.Operation) -> None:
    """An allocation whose contiguous dimension suits the readers, and one lds_write an access."""
    tile = tile_of(op.operands[0])
    users = [use.owner.operation for use in op.results[0].uses]
    readers = [tile_of(user.results[0]).placed for user in users if user.name in ("ck.from_lds", "ck.lds_gather")]
    by_index = {integer_of(user, "axis") for user in users if user.name in ("ck.lds_gather", "ck.lds_update")}
    lds = describe(op.results[0].type)
    assert isinstance(lds, LdsType)
    turned = {dimensions_of(user)[0] for user in users if "format" in user.attributes}
    transposing = transposed_elements(state.named_target, bits(tile.element))
    contiguous = (
        turned.pop() if turned
        else _contiguous_dimension(readers, by_index, tile.placed, bits(tile.element), transposing)
    )  # fmt: skip
    rank = len(tile.lengths)
    order = [dimension for dimension in range(rank) if dimension != contiguous] + [contiguous]
    buffer = fragment_lds.lds_alloc(lds, LdsLayout.plain(tile.lengths, order), name_of(state, op), tile.placed)
    state.buffers[op.results[0]] = buffer
    write_lds(state.of(op.operands[0]), buffer, tile.placed, contiguous, tile.element)


def name_of(state: SplitState, op: ir.Operation) -> str:
    """What reports and schedules call the tensor that an operation makes."""
    return text_of(op, "name") if "name" in op.attributes else f"lds{len(state.buffers)}"


def split_from_lds(state: SplitState, op: ir.Operation) -> None:
    """One lds_read an access."""
    tile = tile_of(op.results[0])
    buffer = state.buffer_of(op.operands[0])
    if "format" in op.attributes:
        state.bind(op.results[0], _read_turned(op, buffer, tile))
        return
    contiguous = LdsLayout.parse(text_of(producer(buffer), "layout")).contiguous
    transposing = transposed_elements(state.named_target, bits(tile.element))
    state.bind(op.results[0], read_lds(buffer, tile.placed, contiguous, tile.element, transposing=transposing))


def _read_turned(op: ir.Operation, buffer: ir.Value, tile: TileType) -> Registers:
    """Packed elements that share bytes along another dimension in LDS, by reads that transpose."""
    packing, (before, after) = packing_of(op), dimensions_of(op)
    reading = packed_reading(tile.placed, packing, before, after)
    if reading is None:
        fail(op, f"no transposing read gives elements of {packing.bits} bits that lie as '{tile.placed}'")
    text, format_ = string(str(reading)), text_of(op, "format")
    pieces = [
        (numbers, fragment_lds.lds_read(buffer, text, numbers, tile.element, transposed=True, format_=format_))
        for numbers in plan_accesses(reading, before, packing.size(TRANSPOSED[packing.bits]))
    ]
    return Registers.scatter(pieces, tile.element)


def write_lds(
    registers: Registers, buffer: ir.Value, distribution: Distribution, contiguous: int, element: ir.Type
) -> None:
    """Write registers to an LDS tensor, a new value of it, as wide as the distribution allows along the contiguous
    dimension.
    """
    text = string(str(distribution))
    for number, numbers in enumerate(plan_accesses(distribution, contiguous, ACCESS_BITS // bits(element))):
        fragment_lds.lds_write(registers.gather(numbers), buffer, text, numbers, begins=number == 0)


def read_lds(
    buffer: ir.Value, distribution: Distribution, contiguous: int, element: ir.Type, *, transposing: int = 0
) -> Registers:
    """Read an LDS tensor into registers, as wide as the distribution allows along the contiguous dimension.

    `transposing`: with reads that transpose, where these give longer vectors.
    """
    accesses = plan_accesses(distribution, contiguous, ACCESS_BITS // bits(element))
    better = len(accesses[0]) < transposing
    reading = transposed_reading(distribution, contiguous, transposing) if better else None
    if reading is not None:
        distribution, accesses = reading, plan_accesses(reading, contiguous, transposing)
    text = string(str(distribution))
    pieces = [
        (numbers, fragment_lds.lds_read(buffer, text, numbers, element, transposed=reading is not None))
        for numbers in accesses
    ]
    return Registers.scatter(pieces, element)


def _contiguous_dimension(
    readers: list[Distribution], by_index: Collection[int], writer: Distribution, element_bits: int, transposing: int
) -> int:
    """The dimension along which readers, and after them the writer, move the longest vectors; not one whose coordinate
    comes from indices, since accesses along it are of single elements.

    A reader that can transpose is served as well by rows along the other dimension as by those along its own vectors.
    """
    widest = ACCESS_BITS // element_bits

    def reach(reader: Distribution, dimension: int) -> int:
        other = transposed_dimension(reader, dimension, transposing) if transposing else None
        return max(run_length(reader, one, widest) for one in (dimension, other) if one is not None)

    def score(dimension: int) -> tuple[bool, int, int, int]:
        read = min((reach(reader, dimension) for reader in readers), default=1)
        return dimension not in by_index, read, run_length(writer, dimension, widest), dimension

    return max(range(writer.rank), key=score)
