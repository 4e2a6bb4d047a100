"""Splitting of tile arithmetic: the same registers of all operands meet in vectors."""

from math import gcd

from ckmlir.dialect import fragment_compute, fragment_lds
from ckmlir.dialect.build import integer_of, producer, registers_of, string, text_of
from ckmlir.dialect.distribution_maps import broadcast_map, register_map
from ckmlir.dialect.lane_rows import row_map
from ckmlir.dialect.lds_layout import LdsLayout
from ckmlir.dialect.mma import INDEX_BYTES, Mma
from ckmlir.dialect.mma_index import index_registers
from ckmlir.dialect.mma_scales import SCALES_OF_A_REGISTER, scale_registers
from ckmlir.dialect.types import LdsType, TileType, tile_of
from ckmlir.mlir import ir
from ckmlir.passes import vectors
from ckmlir.passes.elementwise import ScalarCode
from ckmlir.passes.framework import fail
from ckmlir.passes.registers import Registers
from ckmlir.passes.split_memory import read_lds, write_lds
from ckmlir.passes.split_state import CARRIED_CHUNK, SplitState


def split_map(state: SplitState, op: ir.Operation) -> None:
    """The scalar code once for every vector of registers."""
    code, result = ScalarCode(op.regions[0].blocks[0]), tile_of(op.results[0])
    count = result.placed.registers
    sources = code.tiles
    chunk = gcd(*(state.of(source).chunk for source in sources)) if sources else gcd(count, CARRIED_CHUNK)
    chunk = gcd(chunk, state.piece(op))  # of 0: the chunk
    tiles = {source: state.of(source).rechunked(chunk).chunks for source in sources}
    chunks = [
        code.apply(chunk, (), {source: parts[number] for source, parts in tiles.items()})[0]
        for number in range(count // chunk)
    ]
    state.bind(op.results[0], Registers(chunks, chunk, result.element))


def split_uniform(state: SplitState, op: ir.Operation) -> None:
    """The only register, of which all lanes of all waves hold copies, as a scalar."""
    only = vectors.element(state.of(op.operands[0]).gather([0]), 0)
    scalar = fragment_compute.first_lane(only, copies=True)
    op.results[0].replace_all_uses_with(scalar)


def split_cast(state: SplitState, op: ir.Operation) -> None:
    """One conversion a vector."""
    source, element = state.of(op.operands[0]), tile_of(op.results[0]).element
    source = source.rechunked(gcd(source.chunk, state.piece(op)))
    bounded = "bounded" in op.attributes
    chunks = [fragment_compute.convert(chunk, element, bounded=bounded) for chunk in source.chunks]
    state.bind(op.results[0], Registers(chunks, source.chunk, element))


def split_splat(state: SplitState, op: ir.Operation) -> None:
    """Vectors of the scalar, all the same value."""
    tile = tile_of(op.results[0])
    count = tile.placed.registers
    chunk = gcd(count, CARRIED_CHUNK)
    vector = vectors.splat(op.operands[0], chunk)
    state.bind(op.results[0], Registers([vector] * (count // chunk), chunk, tile.element))


def split_coordinates(state: SplitState, op: ir.Operation) -> None:
    """The thread's own coordinate plus constants: registers lie at fixed distances from register 0."""
    tile, axis = tile_of(op.results[0]), integer_of(op, "axis")
    distribution = tile.placed
    chunk = gcd(distribution.registers, state.piece(op) or CARRIED_CHUNK)
    base = vectors.splat(fragment_compute.thread_coordinate(distribution, axis), chunk)
    steps = [int(step) for step in distribution.coordinates()[axis, 0, 0]]
    chunks = [
        vectors.add(base, vectors.dense(steps[start : start + chunk], tile.element), exact=True)
        for start in range(0, len(steps), chunk)
    ]
    state.bind(op.results[0], Registers(chunks, chunk, tile.element))


def split_broadcast(state: SplitState, op: ir.Operation) -> None:
    """Registers repeated along the new axis; no data leaves its thread."""
    source, result, axis = tile_of(op.operands[0]), tile_of(op.results[0]), integer_of(op, "axis")
    homes = broadcast_map(source.placed, result.placed, axis)
    if homes is None:
        fail(
            op,
            f"'{source.placed}' cannot be repeated along axis {axis} to '{result.placed}' within each thread; "
            "redistribute it first",
        )
    registers = state.of(op.operands[0])
    chunk = gcd(len(homes), CARRIED_CHUNK)
    whole = range(0, len(homes), registers.chunk)
    stays = registers.chunk > 1 and _is_loaded(op.operands[0])
    if stays and all(registers.is_chunk(homes[start : start + registers.chunk]) for start in whole):
        chunk = registers.chunk  # together what was loaded would mostly be taken apart again
    made: dict[tuple[int, ...], ir.Value] = {}
    chunks: list[ir.Value] = []
    for start in range(0, len(homes), chunk):
        numbers = homes[start : start + chunk]
        if numbers not in made:
            made[numbers] = registers.gather(numbers)
        chunks.append(made[numbers])
    state.bind(op.results[0], Registers(chunks, chunk, result.element))


def _is_loaded(tile: ir.Value) -> bool:
    """Whether a tile comes from memory, as it is or as another type."""
    owner = producer(tile)
    while owner is not None and owner.name == "ck.cast":
        owner = producer(owner.operands[0])
    return owner is not None and owner.name == "ck.load"


def split_slice(state: SplitState, op: ir.Operation) -> None:
    """A selection of registers."""
    result = tile_of(op.results[0])
    numbers = _registers_of_part(op, tile_of(op.operands[0]), result)
    registers = state.of(op.operands[0])
    chunk = gcd(registers.chunk, len(numbers))
    chunks = [registers.gather(numbers[i : i + chunk]) for i in range(0, len(numbers), chunk)]
    state.bind(op.results[0], Registers(chunks, chunk, result.element))


def split_join_axes(state: SplitState, op: ir.Operation) -> None:
    """The same registers: their numbers stay, whatever the dimensions that they belong to are called."""
    source, result = (tile_of(value).placed for value in (op.operands[0], op.results[0]))
    if (joined := source.join(integer_of(op, "axis"))) != result:
        fail(op, f"joined, '{source}' lies as '{joined}', not as '{result}'; redistribute the result")
    state.bind(op.results[0], state.of(op.operands[0]))


def split_permute_axes(state: SplitState, op: ir.Operation) -> None:
    """The same registers: a thread's elements are numbered by its registers, not by the dimensions."""
    source, result = (tile_of(value).placed for value in (op.operands[0], op.results[0]))
    if (moved := source.permute(registers_of(op, "order"))) != result:
        fail(op, f"in another order '{source}' lies as '{moved}', not as '{result}'; redistribute the result")
    state.bind(op.results[0], state.of(op.operands[0]))


def split_insert(state: SplitState, op: ir.Operation) -> None:
    """Every vector from the part or from the whole; vectors short enough that none needs both."""
    part, whole = (state.of(operand) for operand in op.operands)
    numbers = _registers_of_part(op, tile_of(op.results[0]), tile_of(op.operands[0]))
    place = {number: position for position, number in enumerate(numbers)}
    chunk = gcd(whole.chunk, part.chunk)
    while any(_mixed(place, start, chunk) for start in range(0, whole.count, chunk)):
        chunk = next(length for length in range(chunk - 1, 0, -1) if chunk % length == 0)
    chunks = []
    for start in range(0, whole.count, chunk):
        wanted = range(start, start + chunk)
        chunks.append(part.gather([place[n] for n in wanted]) if start in place else whole.gather(wanted))
    state.bind(op.results[0], Registers(chunks, chunk, whole.element))


def _mixed(place: dict[int, int], start: int, length: int) -> bool:
    """Whether some of the registers from `start` on are in `place`, and others not."""
    return len({number in place for number in range(start, start + length)}) == 2


def _registers_of_part(op: ir.Operation, whole: TileType, part: TileType) -> tuple[int, ...]:
    """The registers of a whole tile that its part along the op's axis has, in the part's order."""
    axis, start = integer_of(op, "axis"), integer_of(op, "start")
    try:
        distribution, numbers = whole.placed.slice(axis, start, part.lengths[axis])
    except ValueError as problem:
        fail(op, str(problem))
    if distribution != part.placed:
        fail(op, f"this part lies as '{distribution}', it is declared as '{part.placed}'")
    return numbers


def split_redistribute(state: SplitState, op: ir.Operation) -> None:
    """A permutation of each thread's registers where that suffices, or what a lane of each row hands on to the others,
    else a trip through LDS.
    """
    source, result = tile_of(op.operands[0]), tile_of(op.results[0])
    registers = state.of(op.operands[0])
    homes = register_map(source.placed, result.placed)
    if homes is not None:
        chunk = gcd(len(homes), registers.chunk)
        chunks = [registers.gather(homes[i : i + chunk]) for i in range(0, len(homes), chunk)]
        state.bind(op.results[0], Registers(chunks, chunk, result.element))
        return
    handed_on = row_map(source.placed, result.placed)
    if handed_on is not None:
        singles = [fragment_compute.row_lane(registers.gather([register]), lane) for lane, register in handed_on]
        state.bind(op.results[0], Registers(singles, 1, result.element))
        return
    contiguous = len(result.lengths) - 1
    layout = LdsLayout.plain(result.lengths, range(len(result.lengths)))
    buffer = fragment_lds.lds_alloc(
        LdsType(result.lengths, result.element), layout, f"redistribute{len(state.buffers)}", source.placed
    )
    state.buffers[buffer] = buffer
    write_lds(registers, buffer, source.placed, contiguous, source.element)
    state.bind(op.results[0], read_lds(buffer, result.placed, contiguous, result.element))


def split_mma(state: SplitState, op: ir.Operation) -> None:
    """One matrix instruction for every block of accumulators and step along K; K is the outer order."""
    a, b, c, *beside = op.operands
    mma = Mma.parse(text_of(op, "instruction"))
    index, scales = (beside, []) if mma.instruction.sparse else ([], beside)
    instruction = string(mma.instruction.name)
    sources = [state.of(value) for value in (a, b)]
    factors = [
        _vector_scales(state, mma, operand, own, of_b=of_b)
        for operand, own, of_b in zip((a, b), scales, (False, True), strict=False)
    ]
    places = [_vector_index(state, mma, a, own) for own in index]
    size = accumulator_registers(op)
    accumulators = state.of(c).rechunked(size)
    chunks = list(accumulators.chunks)
    steps = mma.fragments(tile_of(a).placed, tile_of(b).placed, tile_of(c).placed)
    for step in sorted(steps, key=lambda fragment_: (fragment_.k, fragment_.m, fragment_.n)):
        home = step.c[0] // size
        left, right = sources[0].gather(step.a), sources[1].gather(step.b)
        own = [found[vector[0] // len(vector)] for found, vector in zip(factors, (step.a, step.b), strict=False)]
        if mma.transposed:
            left, right, own = right, left, own[::-1]
        named = [found[step.a[0] // len(step.a)] for found in places]
        chunks[home] = fragment_compute.mfma(instruction, left, right, chunks[home], own, named)
    state.bind(op.results[0], Registers(chunks, size, accumulators.element))


def _vector_scales(
    state: SplitState, mma: Mma, operand: ir.Value, scales: ir.Value, *, of_b: bool
) -> list[fragment_compute.Scale]:
    """For each operand vector a register's worth of scales, and which of them is its own."""
    source = state.of(scales)
    found = scale_registers(mma, tile_of(operand).placed, tile_of(scales).placed, of_b=of_b)
    assert not isinstance(found, str)  # the verifier has asked
    loaded = source.chunk if source.chunk > 1 else source.count  # what memory brought together stays together
    together = next(size for size in (SCALES_OF_A_REGISTER, 2, 1) if loaded % size == 0)
    parts = [source.gather(range(start, start + together)) for start in range(0, source.count, together)]
    return [(parts[register // together], register % together) for register in found]


def _vector_index(state: SplitState, mma: Mma, a: ir.Value, index: ir.Value) -> list[fragment_compute.Scale]:
    """For each operand vector of a sparse A a register's worth of its index, and the byte at which its own begins."""
    source = state.of(index)
    found = index_registers(mma, tile_of(a).placed, tile_of(index).placed)
    assert not isinstance(found, str)  # the verifier has asked
    together = next(size for size in (INDEX_BYTES, 2, 1) if source.count % size == 0)
    parts: dict[tuple[int, ...], ir.Value] = {}
    places = []
    for own in found:
        first = own[0] // together * together
        near, place = tuple(range(first, first + together)), own[0] - first
        registers = near if near[place : place + len(own)] == own and place % len(own) == 0 else own
        if registers not in parts:
            parts[registers] = source.gather(registers)
        places.append((parts[registers], registers.index(own[0])))
    return places


def accumulator_registers(op: ir.Operation) -> int:
    """Accumulator registers a lane of one matrix instruction of a ck.mma."""
    a, b, c = (tile_of(value).placed for value in list(op.operands)[:3])
    return len(Mma.parse(text_of(op, "instruction")).fragments(a, b, c)[0].c)
