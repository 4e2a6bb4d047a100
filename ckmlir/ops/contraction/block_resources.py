"""What the block of a contraction takes of a compute unit, as far as is known before the kernel is compiled."""

from __future__ import annotations

import math
from collections.abc import Sequence

from msgspec.structs import replace

from ckmlir.ops.contraction.contraction_spec import ContractionSpec, accumulator_type, computing_type
from ckmlir.ops.contraction.scaling import ScaleSpec
from ckmlir.ops.contraction.shuffle import tile_depth
from ckmlir.ops.contraction.sources import SourceSpec
from ckmlir.ops.contraction.sparsity import index_bytes
from ckmlir.ops.dtypes import HALF_BYTES, find_dtype
from ckmlir.ops.resources import Resources
from ckmlir.ops.schedules import parse as parse_schedule
from ckmlir.targets import Target
from ckmlir.targets.cdna import WAVE_SIZE

REGISTERS_PER_LOAD = 2
"""Beside its data, a global load takes an offset and, if narrow, a register for what is not packed yet."""
REGISTERS_IN_TURNS = 1
"""The same of a load that is not narrow where groups of waves take turns, so that a step's loads come together: their
offsets are one, and what they have in common with those of the step before. Not beside the index of a sparse A, where
256 x 256 x 128 of fp8 by eight waves would spill on gfx950."""
DWORD = 4
"""Bytes of a load that is not narrow."""
SCALE_BYTES = 4
"""Of a scale in LDS, where it is f32."""
TRANSPOSED = 2
"""How often an operand of bytes that are transposed in registers is there beside itself, as it was read and on its way,
where waves take turns and read all of a phase in theirs: with 256 x 256 x 128 by eight waves `ping_pong_async` took 70
more registers with such a B of fp8, two times 32, before reads of gfx950 turned bytes."""
TURNED_ELEMENTS = 16
"""Of packed elements that share bytes across K a lane has at least so many, which are turned together."""

MOST_TEMPORARIES = 128
"""Elements of A or B that a lane has in a step, times its arrays but the first, up to which what `_unpacked` does not
count is of no consequence. Of 45 drawn kernels of bytes that counted more than 430 registers, 7 of the 15 with 192
spilled 6 to 91, none of the others any; one that counted 416 spilled 36. Half a step, or of few products blocks of
64 x 64, are better in any case: by the model, cycles of 128 x 128 x 128 and of these on gfx950, fp8 of eight arrays
2048 x 2036 x 1000 107796, 95366, of seven 4096 x 4084 x 232 204847, 143292, of five 1025 x 512 x 500 47048, 24494, 1024
x 1032 x 1012 185839 (91), 74946."""


def workgroups_a_unit(spec: ContractionSpec, target: Target) -> int:
    """How many workgroups that stay a compute unit is given. Where they add the sums of others to their own, they have
    both at a time: of f64 256 registers in a block of 128 x 128, so that the kernel takes 270."""
    need = replace(block_registers(spec, target), lds=block_lds(spec))
    beside = need.accumulators if spec.gathers else 0
    return replace(need, registers=max(need.registers, need.accumulators + beside)).workgroups_a_unit(target)


def block_lds(spec: ContractionSpec) -> int:
    """Bytes of LDS: what the loop rotates, or C on its way out, whichever is more."""
    m, n, _ = spec.block
    computing = find_dtype(computing_type(spec.dtype)).bytes
    arranged = computing * spec.products if spec.op else find_dtype(spec.out).bytes
    shuffle = m * n * arranged // math.prod(spec.slices) if spec.epilogue == "cshuffle" else 0
    if spec.along_k > 1:  # the sums of all waves
        shuffle += spec.along_k * spec.products * m * n * find_dtype(accumulator_type(spec.dtype)).bytes
    if spec.behind:  # the block, and two buffers of the matrix behind
        shuffle = (m + 2 * spec.chain[0]) * n * spec.in_lds[0].bytes
    return max(_loop_lds(spec), shuffle)


def _loop_lds(spec: ContractionSpec) -> int:
    m, n, k = spec.block
    schedule = parse_schedule(spec.schedule_text)
    loop = 0
    for tensor, place in _operands(spec):
        if schedule.path_of(tensor) != "straight":
            elements = (m, n)[place] * k
            copies = _copies(spec, place, elements) if spec.layout[place] == "CR"[place] else 1
            loop += int(schedule.buffers_of(tensor) * elements * _bytes(spec, tensor)) * copies
    kept = spec.keepable if spec.kept else ()
    return loop + sum((n, m)[one.operand == "a"] * SCALE_BYTES * (spec.kept // one.group) for one in kept)


def block_registers(spec: ContractionSpec, target: Target) -> Resources:
    """What the block needs beside LDS: accumulators, operands, loads. It does not depend on how C gets to memory."""
    m, n, k = spec.block
    in_lds, in_memory = spec.in_lds, spec.in_memory
    threads = spec.wave_count * WAVE_SIZE
    schedule = parse_schedule(spec.schedule_text)
    # Two steps of operands when a schedule spreads the reads of LDS over the step, else those of the whole block.
    reads = [tile_depth(spec.mfma[1], one.bytes) for one in in_lds if one.packing is None]
    vector = max(spec.mfma[2], *reads, 0)  # a lane reads 16 bytes
    part = k // spec.along_k
    depth = min(part, 2 * vector) if schedule.order != "source" else part
    loads = 0
    moving = operands = 0.0
    for tensor, place in _operands(spec):
        rows, path, size = (m, n)[place], schedule.path_of(tensor), _bytes(spec, tensor)
        own = rows // spec.waves[place] * size / WAVE_SIZE / 4  # registers of a wave's part, one deep along k
        share = int(rows * k * size) // threads  # bytes of a work-item on the way to LDS
        if path != "straight":
            turned = TRANSPOSED * (schedule.groups > 1 and _is_transposed(spec, place, target))
            operands += own * depth * (1 + schedule.ahead_of("from_lds") + turned)
        sets = max(1, schedule.ahead_of("load") - schedule.ahead_of("to_lds"))
        if path == "through":
            elements = share // in_lds[place].bytes
            combined = _loaded(spec, tensor)
            moving += elements * _unpacked(spec, place, combined) + _numbers_of_rows(spec, place, elements, sets)
            for width, align in combined:
                packed, few = elements * width // 4, elements * width // min(16, align * width)
                moving += packed + (sets - 1) * max(packed, few)  # what waits is as it was loaded, in its own registers
                in_turns = schedule.groups > 1 and align * width >= DWORD and not spec.sparse
                loads += few * (REGISTERS_IN_TURNS if in_turns else REGISTERS_PER_LOAD)
        elif path == "straight":
            fragment = own * part * in_memory[place].bits / in_lds[place].bits
            singly = spec.layout[place] == "CR"[place]  # what does not lie along K
            moving += schedule.ahead_of("load") * fragment * (4 / min(size, 4) if singly else 1)
            loads += REGISTERS_PER_LOAD * int(fragment * 4 / size) if singly else 0
            operands += own * depth * (in_memory[place] != in_lds[place])  # what they are converted to
    if spec.sparse:  # a lane's bits of the index of A, those of this step and of those to come
        rows = m // spec.waves[0]
        moving += (1 + schedule.ahead_of("load")) * rows * index_bytes(k) / WAVE_SIZE / 4
    scales = _scales(spec)
    partial = len(scales) > 0  # sums of a group beside those of all
    if any(one.operand == "a" for one in scales):  # a number for each row of a lane: of every piece, and one at hand
        rows = m * n // threads // max(n // (spec.waves[1] * spec.mfma[1]), 1)
        sets = max(1, schedule.ahead_of("load") - schedule.ahead_of("to_lds"))
        moving += rows * (1 + sets * (k // spec.piece))
    # What an instruction gives of a group, and the same scaled, on its way to the sums of each matrix.
    moving += 2 * partial * spec.products * spec.mfma[0] * spec.mfma[1] // WAVE_SIZE
    sums = (1 + partial) * spec.products * m * n * spec.along_k
    accumulators = sums // threads * find_dtype(accumulator_type(spec.dtype)).bytes // 4
    if spec.behind:  # the block as an operand, the matrix behind on its way, sums of a step
        across, width = spec.chain[0], in_lds[0].bytes
        held = (m // spec.waves[0] + across // spec.waves[1]) * n * width / WAVE_SIZE / 4
        operands, moving = max(operands, held), max(moving, 2 * across * n * width / threads / 4)
        accumulators = max(accumulators, m * across // threads)
    temporaries = _temporaries(spec)
    taken = accumulators + int(moving + operands) + loads + temporaries
    pinned = schedule.fences == "memory" and not (temporaries or _has_temporaries(spec))
    return Resources("block", spec.block, threads, 0, accumulators, taken, pinned=pinned)


def _operands(spec: ContractionSpec) -> tuple[tuple[str, int], ...]:
    """A and the matrices B: what a schedule calls each, and its place."""
    return ("a", 0), *[("b", 1)] * spec.products


def _bytes(spec: ContractionSpec, tensor: str) -> float:
    """Of an element in LDS, exactly; of a sparse A every how many elements along k there is one."""
    size = spec.in_lds[tensor != "a"].bits / 8
    return size / 2 if tensor == "a" and spec.sparse else size


def _scales(spec: ContractionSpec) -> list[ScaleSpec]:
    """Those of groups along K that the loop multiplies by."""
    return [one for one in spec.scaled_sums if one.group and not spec.scaled_by_instruction]


def _copies(spec: ContractionSpec, place: int, elements: int) -> int:
    """How many times waves hold and write each element of an operand that is transposed. It is dealt out in 16 bytes a
    lane, of elements that share bytes across K so many bytes as that has elements, or in packed elements that are
    turned; a factor of 3, 5 or 7 in its number of elements goes to registers, so that lanes are left over for copies.
    """
    shared = 2 if spec.in_memory[place].name in HALF_BYTES else 1
    own = TURNED_ELEMENTS if spec.packed_across(place) else max(128 // spec.in_lds[place].bits, 1) * shared
    return max(spec.wave_count * WAVE_SIZE * own // (elements & -elements), 1)


def _unpacked(spec: ContractionSpec, place: int, loaded: Sequence[tuple[int, int]]) -> int:
    """Registers of an element that an expression combines from several arrays with bytes among them, beside what is
    loaded: it is f32 of each but the first, where bytes are integers or come in narrow loads, and once more where they
    are transposed. `loaded` as by `_loaded`.

    Without them i8 of 512 x 512 x 513 in CCR spilled 40 at 128 x 128 by eight waves on gfx942, fp8 8; of three arrays
    each for A and B, 4096 x 4096 x 333 in CRR, i8 196 by four waves, fp8 1; i8 along K 3.
    """
    if all(width > 1 for width, _ in loaded):
        return 0
    narrow = any(width == 1 and align < DWORD for width, align in loaded)
    transposed = spec.layout[place] == "CR"[place]
    return (len(loaded) - 1) * ((narrow or spec.in_lds[place].is_integer) + transposed)


def _temporaries(spec: ContractionSpec) -> int:
    """Registers of what an expression of many arrays comes to on its way, where `_unpacked` does not count it: f32 of
    each element of A or B that a lane has in a step, of whichever has more. 0 up to `MOST_TEMPORARIES`.
    """
    found = [0]
    for place, operand in enumerate("ab"):
        loaded, elements = _loaded(spec, operand), spec.block[place] * spec.block[2] // (spec.wave_count * WAVE_SIZE)
        if elements * (len(loaded) - 1) > MOST_TEMPORARIES and not _unpacked(spec, place, loaded):
            found.append(elements)
    return max(found)


def _has_temporaries(spec: ContractionSpec) -> bool:
    """Whether expressions combine arrays without bytes, whose temporaries are not counted, in an order that is LLVM's:
    with eight arrays of f32 for f16 in 128 x 128 x 64, which count 470 registers, 16 to 24 lay in accumulation
    registers.
    """
    return len(spec.sources) > 2 and all(width > 1 for one in "ab" for width, _ in _loaded(spec, one))


def _numbers_of_rows(spec: ContractionSpec, place: int, elements: int, sets: int) -> int:
    """Registers of numbers for each row that an expression of A (0) or B (1) has, of as many steps as are on their way,
    and once more where they become f32. Of elements that a lane loads along K one by one each has a row of its own.

    Without them i8 of 4096 x 512 x 333 in CCR, with such a number beside B, spilled 37 at 128 x 128 by eight waves.
    """
    sources = [SourceSpec.parse(text) for text in spec.sources if text[0] == "ab"[place]]
    along, align = spec.layout[place] == "RC"[place], spec.align[place]
    rows = elements // align if along else min(align, elements)
    return sum(rows * (sets + (one.dtype != "f32")) for one in sources if one.form == "each_row")


def _is_transposed(spec: ContractionSpec, place: int, target: Target) -> bool:
    """Whether A (0) or B (1) is of bytes that do not follow each other along K in LDS, and reads of it do not turn."""
    one = spec.in_lds[place]
    across = one.bytes == 1 and one.packing is None and spec.layout[place] == "CR"[place]
    return across and not target.transposed_elements(one.bits)


def _loaded(spec: ContractionSpec, operand: str) -> list[tuple[int, int]]:
    """Bytes of an element of each array that a loop loads for A or a matrix B, and elements of a load: of an array that
    lies otherwise than the operand one, since lanes hold neighbours along the operand's rows.

    With their own alignment instead, 488 x 1000 x 488 of fp8 from f32, fp8 and bf16 of either order spilled 286 on
    gfx950, 1024 x 4072 x 512 of bf8 in one of four arrays of B across K 284 on gfx942.
    """
    place = "ab".index(operand)
    along = spec.layout[place] == "RC"[place]
    sources = [SourceSpec.parse(text) for text in spec.sources if text[0] == operand]
    found = [
        (find_dtype(one.dtype).bytes, one.align if along != (one.form == "across_k") else 1)
        for one in sources
        if one.is_matrix
    ]
    return found or [(spec.held[place].bytes, spec.align[place])]
