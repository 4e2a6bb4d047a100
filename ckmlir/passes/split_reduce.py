"""Splitting of reductions: within a thread, across lanes by butterfly exchanges, across waves through LDS."""

from collections.abc import Callable, Sequence
from math import prod

from ckmlir.dialect import fragment_compute, fragment_lds
from ckmlir.dialect.build import integer_of
from ckmlir.dialect.distribution import LANE, Distribution
from ckmlir.dialect.distribution_maps import broadcast_map
from ckmlir.dialect.lds_layout import LdsLayout
from ckmlir.dialect.types import LdsType, tile_of
from ckmlir.mlir import ir
from ckmlir.passes import vectors
from ckmlir.passes.elementwise import ScalarCode
from ckmlir.passes.framework import fail
from ckmlir.passes.registers import Registers
from ckmlir.passes.split_memory import read_lds, write_lds
from ckmlir.passes.split_state import SplitState

PAIR = 2
"""Elements that a chain of maxima takes at once."""
TERNARY = frozenset({"arith.maxnumf", "arith.minnumf", "arith.maxsi", "arith.minsi", "arith.maxui", "arith.minui"})
SWAPPED = 32
"""The bit of a lane's index by which the halves of a wave differ."""

Partial = list[ir.Value]
"""One vector for each tile reduced together; their elements are the result's registers."""


def split_reduce(state: SplitState, op: ir.Operation) -> None:
    """Fold registers, then lanes, then waves."""
    axis = integer_of(op, "axis")
    source = tile_of(op.operands[0]).placed
    result = source.reduce(axis)
    declared = tile_of(op.results[0]).placed
    if declared != result:
        fail(op, f"reducing axis {axis} of '{source}' gives '{result}', not '{declared}'; redistribute the result")
    code = ScalarCode(op.regions[0].blocks[0])
    partial = _within_thread(state, op, code, source, result, axis)
    partial = _across_lanes(state, op, code, partial, source, axis)
    partial = _across_waves(state, op, code, partial, source, result, axis)
    for value, vector in zip(op.results, partial, strict=True):
        element = tile_of(value).element
        state.bind(value, Registers([vector], result.registers, element))


def _combine(code: ScalarCode, left: Partial, right: Partial) -> Partial:
    return code.apply(vectors.length_of(left[0]), [*left, *right])


def _within_thread(
    state: SplitState, op: ir.Operation, code: ScalarCode, source: Distribution, result: Distribution, axis: int
) -> Partial:
    homes = broadcast_map(result, source, axis)
    if homes is None:
        fail(op, f"the registers of '{source}' do not fold into '{result}'")
    inputs = [state.of(operand) for operand in op.operands]
    rows: list[list[ir.Value]] = []
    for register in range(result.registers):
        members = [number for number, home in enumerate(homes) if home == register]
        rows.append(_folded(code, inputs, members, state.piece(op)))
    if len(rows) == 1:
        return rows[0]
    return [vectors.from_elements([vectors.element(row[tile], 0) for row in rows]) for tile in range(len(inputs))]


def _folded(code: ScalarCode, inputs: Sequence[Registers], members: Sequence[int], piece: int) -> Partial:
    """The registers listed as one; they are gathered by halves, which are the chunks where they lie side by side.

    Maxima and minima are a chain of pairs instead: an instruction takes what was found so far and two more, which half
    of a tree's would not. Their result does not depend on the order. Where arithmetic is taken to pieces everything is
    a chain, which takes the elements as they are made.
    """
    size = piece or (PAIR if _has_ternary_form(code) else 0)
    if size and len(members) > 2 * size:
        whole = len(members) // size * size
        found = _gathered(inputs, members[:size])
        for start in range(size, whole, size):
            found = _combine(code, found, _gathered(inputs, members[start : start + size]))
        found = _fold(code, lambda some: [vectors.part(one, some.start, some.stop - some.start) for one in found], size)
        return _combine(code, found, _gathered(inputs, members[whole:])) if whole < len(members) else found
    return _fold(code, lambda some: [registers.gather(members[some]) for registers in inputs], len(members))


def _gathered(inputs: Sequence[Registers], members: Sequence[int]) -> Partial:
    return [registers.gather(members) for registers in inputs]


def _has_ternary_form(code: ScalarCode) -> bool:
    """Whether the region is one operation that has an instruction of three operands (CDNA3 ISA, V_MAX3_F32, …)."""
    names = code.names
    return len(names) == 1 and names[0] in TERNARY


def _fold(code: ScalarCode, taken: Callable[[slice], Partial], length: int) -> Partial:
    """Halve vectors until one element is left; an odd element joins at the end. `taken` gives some of the elements."""
    if length == 1:
        return taken(slice(0, 1))
    half = length // 2
    pairs = _combine(code, taken(slice(0, half)), taken(slice(half, 2 * half)))
    folded = _fold(code, lambda some: [vectors.part(one, some.start, some.stop - some.start) for one in pairs], half)
    if length % 2:
        folded = _combine(code, folded, taken(slice(length - 1, length)))
    return folded


def _across_lanes(
    state: SplitState, op: ir.Operation, code: ScalarCode, partial: Partial, source: Distribution, axis: int
) -> Partial:
    """A step for each bit of the lane's index, from the lowest.

    The halves of a wave change places in registers where the chip can, unless all lanes of each are equal already.
    """
    masks: list[int] = []
    for digit in source.digits(axis):
        if digit.source == LANE:
            if digit.length & (digit.length - 1):
                fail(op, f"cannot reduce over {digit.length} lanes: not a power of two")
            masks.extend(digit.source_weight << bit for bit in range(digit.length.bit_length() - 1))
    folded = 0
    swaps = state.named_target is not None and state.named_target.has("permlane_swap")
    for mask in sorted(masks):
        if mask == SWAPPED and swaps and folded != mask - 1:
            halves = [[fragment_compute.half(vector, upper=upper) for vector in partial] for upper in (False, True)]
            partial = _combine(code, *halves)
            continue
        others = [fragment_compute.exchange(vector, mask, equal_below=folded == mask - 1) for vector in partial]
        partial = _combine(code, partial, others)
        folded |= mask
    return partial


def _across_waves(
    state: SplitState,
    op: ir.Operation,
    code: ScalarCode,
    partial: Partial,
    source: Distribution,
    result: Distribution,
    axis: int,
) -> Partial:
    """Every wave leaves its partial result in LDS and folds those of all waves in order, so that all agree."""
    written = source.wave_partials(axis)
    waves = written.lengths[0]
    if waves == 1:
        return partial
    read = result.expand(0, waves)
    gathered: list[Registers] = []
    for value, vector in zip(op.results, partial, strict=True):
        element = tile_of(value).element
        buffer = _allocate(state, written, element)
        write_lds(Registers([vector], written.registers, element), buffer, written, 0, element)
        gathered.append(read_lds(buffer, read, 0, element))
    rows = [
        [registers.gather(range(row * waves, (row + 1) * waves)) for registers in gathered]
        for row in range(result.registers)
    ]
    folded = [_in_order(code, row, waves) for row in rows]
    if len(folded) == 1:
        return folded[0]
    return [vectors.from_elements([vectors.element(row[tile], 0) for row in folded]) for tile in range(len(partial))]


def _in_order(code: ScalarCode, values: Partial, count: int) -> Partial:
    total = [vectors.part(value, 0, 1) for value in values]
    for position in range(1, count):
        total = _combine(code, total, [vectors.part(value, position, 1) for value in values])
    return total


def _allocate(state: SplitState, written: Distribution, element: ir.Type) -> ir.Value:
    """Room for partial results: the wave dimension is contiguous, so one access fetches all of an element's
    partials.
    """
    lengths = written.lengths
    order = [*range(1, len(lengths)), 0]
    assert prod(lengths) > 0
    name = f"partials{len(state.buffers)}"
    buffer = fragment_lds.lds_alloc(LdsType(lengths, element), LdsLayout.plain(lengths, order), name, written)
    state.buffers[buffer] = buffer
    return buffer
