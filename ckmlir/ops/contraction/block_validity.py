"""Whether a block of the contraction family, its matrix instruction, its schedule and the alignment of its arrays fit
each other: checks of a specification, one a function."""

from __future__ import annotations

import math
from collections.abc import Iterator

from ckmlir.dialect.packing import turns_packed
from ckmlir.dialect.schedule import Schedule
from ckmlir.ops.contraction.block_resources import block_lds, block_registers
from ckmlir.ops.contraction.contraction_spec import NARROWEST_COPY, PRESHUFFLE, ContractionSpec
from ckmlir.ops.contraction.shuffle import COLUMNS, VECTOR_BYTES, tile_depth
from ckmlir.ops.dtypes import find_dtype
from ckmlir.ops.resources import excess, excess_lds, registers_per_lane
from ckmlir.ops.schedules import parse as parse_schedule
from ckmlir.ops.spec import Reason, by
from ckmlir.targets import Target, TargetError
from ckmlir.targets.cdna import WAVE_SIZE


def matrix_instruction(spec: ContractionSpec, target: Target) -> Iterator[Reason]:
    """Whether the chip has the matrix instruction, and its tiles fill the block."""
    if spec.is_depthwise:
        from ckmlir.ops.contraction.depthwise_plans import invalid_vectors

        yield from invalid_vectors(spec, target)
        return
    try:
        target.find_mfma(by(spec.mfma), *spec.multiplied, sparse=bool(spec.sparse))
    except TargetError as error:
        no_dtype = not target.mfmas(*spec.multiplied, sparse=bool(spec.sparse))
        field, value = ("dtype", spec.dtype) if no_dtype else ("mfma", spec.mfma)
        message = str(error)
        why, _, right = message.partition("; ")
        yield Reason(field, value, why, right or "expected a dtype that the chip multiplies")
        return
    if spec.wave_count * target.wave_size > target.workgroup_size:
        why = f"a workgroup of {spec.wave_count * target.wave_size} work-items"
        right = f"expected at most {target.workgroup_size // target.wave_size} waves on {target.name}"
        yield Reason("waves", spec.waves, why, right)
        return
    for axis, letter in enumerate("mn"):
        step = spec.waves[axis] * spec.mfma[axis]
        if spec.block[axis] % step:
            why = f"{spec.waves[axis]} waves of {spec.mfma[axis]} along {letter} do not divide {spec.block[axis]}"
            yield Reason("block", spec.block, why, f"expected a multiple of {step} along {letter}")
    deep = spec.mfma[2] * spec.along_k
    if spec.block[2] % deep:
        why = f"the matrix instructions of all waves take {deep} along k at a time"
        yield Reason("block", spec.block, why, f"expected a multiple of {deep} along k")


def slices(spec: ContractionSpec, target: Target) -> Iterator[Reason]:
    """Whether slices of the block are made of whole matrix instructions of all waves."""
    for axis, (letter, parts) in enumerate(zip("mn", spec.slices, strict=True)):
        step = spec.waves[axis] * spec.mfma[axis]
        if spec.block[axis] % (parts * step):
            why = f"{parts} parts of {spec.block[axis]} along {letter} are not made of the {step} of all waves"
            yield Reason("slices", spec.slices, why, f"expected up to {spec.block[axis] // step} there")


def phases(spec: ContractionSpec, target: Target) -> Iterator[Reason]:
    """Whether there are groups of waves that take turns, and a step is long enough for them: what they write to LDS
    another group may still read, so that a barrier has to lie among a step's matrix instructions.
    """
    schedule = parse_schedule(spec.schedule_text)
    if schedule.groups == 1:
        return
    if spec.wave_count % schedule.groups:
        why = f"a workgroup of {by(spec.waves)} waves makes no {schedule.groups} equal groups"
        yield Reason("schedule", spec.schedule, why, f"expected a multiple of {schedule.groups}, or another schedule")
    waves, sizes = (*spec.waves, 1), zip(spec.block, spec.mfma, strict=True)
    instructions = math.prod(size // (own * count) for (size, own), count in zip(sizes, waves, strict=True))
    through = any(schedule.path_of(tensor) == "through" for tensor in "ab")
    if through and instructions * spec.products < schedule.groups:
        why = f"a step has {instructions} matrix instruction a wave, between which {schedule.groups} groups take turns"
        yield Reason("schedule", spec.schedule, why, "expected a larger block, smaller mfma, or another schedule")


def alignment(spec: ContractionSpec, target: Target) -> Iterator[Reason]:
    """Whether vectors are at most as wide as a lane loads, and rows allow the copies that the schedule asks for."""
    schedule = parse_schedule(spec.schedule_text)
    held = spec.held
    for place, kind in enumerate((*held, find_dtype(spec.out))):
        widest = 16 // kind.bytes
        if spec.align[place] > widest:
            why = f"a vector of {'ABC'[place]} is wider than 16 bytes"
            yield Reason("align", spec.align, why, f"expected at most {widest} elements there")
    for place, tensor in enumerate("ab"):
        if schedule.path_of(tensor) != "direct":
            continue
        size = held[place].bytes
        aligned = spec.align[place] * size
        widths = [width for width in target.direct_to_lds if width & (width - 1) == 0]
        if not any(size <= width <= aligned for width in widths):
            able = " or ".join(map(str, widths))
            why = f"rows of {'AB'[place]} are aligned to {aligned} bytes, copies to LDS take whole elements in {able}"
            least = min((width for width in widths if width >= size), default=None)
            right = f"rows of a multiple of {least} bytes, or another schedule" if least else "another schedule"
            yield Reason("schedule", spec.schedule, why, f"expected {right}")
        along = spec.block[place] if spec.layout[place] == "CR"[place] else spec.block[2]
        row, copied = along * held[place].bits // 8, WAVE_SIZE * NARROWEST_COPY
        if row % copied and row & (row - 1):
            why = f"rows of {'AB'[place]} have {row} bytes in the block, which a wave's copies to LDS do not fill"
            yield Reason("schedule", spec.schedule, why, "expected a schedule that loads, such as compv3")


def fragment_order(spec: ContractionSpec, target: Target) -> Iterator[Reason]:
    """Whether B in memory, the matrix instruction and the schedule agree about the order of fragments."""
    schedule = parse_schedule(spec.schedule_text)
    packed = [one for one in spec.held if one.packing is not None]
    if packed and (spec.sources or spec.merged or spec.windows):
        yield Reason("layout", spec.layout, f"elements of {packed[0].name} share bytes", "expected plain matrices")
        return
    yield from _turned_elements(spec, schedule, target)
    if spec.taken:
        paths = [schedule.path_of(tensor) for tensor in "ab"]
        if paths[0] != "through" or paths[1] == "direct":
            why = f"A and B become {spec.taken} in registers, and this schedule goes past them"
            yield Reason("schedule", spec.schedule, why, "expected another, such as compv3 or compv4")
    elif packed and not spec.scaled_by_instruction:
        why = f"{packed[0].name} is multiplied by instructions that scale blocks, and this one does not"
        yield Reason("mfma", spec.mfma, why, "expected 16x16x128 or 32x32x64")
        return
    if spec.shuffled:
        yield from _shuffled_matrix(spec, schedule)
    elif spec.schedule == PRESHUFFLE:
        right = f"expected straight, or B in that order (shuffled={'|'.join(map(str, COLUMNS))})"
        yield Reason("schedule", PRESHUFFLE, "it takes B in fragment order", right)


def _turned_elements(spec: ContractionSpec, schedule: Schedule, target: Target) -> Iterator[Reason]:
    """Whether elements that share bytes across k pass registers, or are turned on their way out of LDS."""
    for place, letter in enumerate("" if spec.taken else "ab"):
        able = ("through", *["direct"] * turns_packed(target, spec.held[place].packing))
        if spec.packed_across(place) and schedule.path_of(letter) not in able:
            why = f"elements of {letter.upper()} share bytes across k and are turned in registers, which this one skips"
            yield Reason("schedule", spec.schedule, why, "expected another, such as compv3 or compv4")


def _shuffled_matrix(spec: ContractionSpec, schedule: Schedule) -> Iterator[Reason]:
    """Whether a B in fragment order is of tiles that the matrix instruction and the block take."""
    if spec.layout[1] != "C":
        yield Reason("layout", spec.layout, "shuffled B is made of rows along k", "expected RCR or CCR")
    if schedule.path_of("b") != "straight":
        why = "fragments of B go straight to registers, and this schedule takes B through LDS"
        yield Reason("schedule", spec.schedule, why, f"expected {PRESHUFFLE} or straight")
    if spec.shuffled != spec.mfma[1]:
        why = f"tiles of B have {spec.shuffled} columns and the matrix instruction {spec.mfma[1]}"
        yield Reason("shuffled", spec.shuffled, why, f"expected {spec.mfma[1]}")
    kind = spec.in_memory[1]
    if kind.packing is not None and kind.packing.bytes > 1:
        why = f"a lane's {VECTOR_BYTES} bytes hold some elements of {kind.name} in part"
        yield Reason("shuffled", spec.shuffled, why, "expected 0, or elements of 8 or 4 bits")
        return
    depth = tile_depth(spec.shuffled, kind.bytes)
    depth = depth if kind.packing is None else kind.packing.count(depth)
    if spec.block[2] % depth and kind == spec.in_lds[1]:  # vectors of what is converted may be shorter
        why = f"tiles of B are {depth} elements deep along k"
        yield Reason("block", spec.block, why, f"expected a multiple of {depth} along k")


def lds(spec: ContractionSpec, target: Target) -> Iterator[Reason]:
    """Whether LDS holds the block."""
    if not spec.is_depthwise:
        yield from excess_lds("block", spec.block, block_lds(spec), target)


def registers(spec: ContractionSpec, target: Target) -> list[Reason]:
    """Whether registers hold the block; all that it needs, where vector arithmetic multiplies."""
    if not spec.is_depthwise:
        return excess(block_registers(spec, target), target)
    from ckmlir.ops.contraction.depthwise_plans import vector_resources

    return excess(vector_resources(spec), target)


def gathered_sums(spec: ContractionSpec, target: Target) -> Iterator[Reason]:
    """Whether the sums of a block fit beside as many of another workgroup that are added to them.

    Both are in architectural registers where more than half of these would be accumulators, which then lie in registers
    of their own.
    """
    if not spec.gathers:
        return
    need = block_registers(spec, target)
    file = target.registers.arch_per_wave
    room = registers_per_lane(need.threads, target) if need.accumulators <= file // 2 else file
    if 2 * need.accumulators > room * 5 // 6:  # the rest: addresses, temporaries
        why = f"its sums, {need.accumulators} a work-item, have no room beside those of other workgroups"
        yield Reason("block", spec.block, why, "expected a smaller block or more waves, or reduction=atomic")
