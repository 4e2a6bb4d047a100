"""Which kernels of depthwise convolutions there are: what is chosen where a request leaves it open, and what a chip can
run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from math import prod

from ckmlir.ops.contraction.contraction_spec import ContractionSpec, accumulator_type
from ckmlir.ops.contraction.depthwise import NO_INSTRUCTION, Depthwise, DepthwiseSpec, Strip
from ckmlir.ops.dtypes import find_dtype
from ckmlir.ops.resources import Resources
from ckmlir.ops.scalars import ceil_div
from ckmlir.ops.spec import Reason, no_such_float
from ckmlir.targets import Target
from ckmlir.targets.cdna import WAVE_SIZE

SCHEDULES = ("v1", "v2", "unpipelined")
"""Of a loop without matrix instructions; the first is the default."""
MOST_COLUMNS = 64
"""Of a block: rows of it are whole cache lines of 16-bit elements then."""
WIDE_COLUMNS, NARROW_BYTES, FEW_PLACES = 128, 8, 9
"""Of a block whose rows begin anywhere in cache lines: where lanes load two bytes to so many, of one element or two, or
of four in windows of so few places, and as few blocks do (single bytes by 7 x 7 would keep 4 to 8 scalar registers in
lanes). By the model on gfx942 and gfx950, in us, 32 images of 56 x 56 by 3 x 3 with 127 channels: 30.1 and 26.9, with
64 columns 33.7 and 32.8; before lanes shared positions with 126 26.4 and 21.7, 28.8 and 26.9; with 124 24.1 and 22.4,
28.5 and 23.1, but by 5 x 5 64 and 65, 54 and 46.
"""
MOST_WEIGHTS = 64
"""Of a lane, in a place of the window."""
MOST_LOADED = 64
"""Elements of images that a lane loads in a step, half as many where they take two registers: 64 of f64 kept 12 to 37
vector registers in scratch memory."""
SUMS = 64
"""Of a lane where groups are single channels, and half as many where they are not. By the model on gfx942, in us, 32
images of 56 x 56 by 3 x 3 with 128 channels: 15.2, with 32 sums 18.6; with 32 groups of 4 channels 28.8 and 26.6.
"""
SUMS_PER_ELEMENT, LEAST_LOADED = 8, 2
"""Sums of a lane at most, for each element that it loads at once, of which two count at least: each load has an offset
of its own. By the model on gfx942, in us, the same images of 127 and 124 channels, which lanes load by 1 and 4: with 8
sums 37.0 (and eight images by 7 x 7 58.1, with 16 45.0), 16 36.2 and 25.9, 32 40.5 and 26.1, 64 46.2 and 29.8. With 64
of 11 channels by 7 x 7 kernels took scratch.
"""
SUMS_OF_PAIRS = 32
"""Of a lane that loads pairs in a block of `WIDE_COLUMNS`, in windows of `FEW_PLACES` or more, or single elements and
has strips (127 channels take 39938 cycles on gfx942 instead of 51127). By the model on gfx942 and gfx950, in shares of
the time with 16, 32 images of 56 x 56 with 126 channels: .95 and .96, in i8 1.03 and .96, in f32 .85 and .93, by 5 x 5
.87 and .82; eight by 7 x 7 .83 and .85; of 28 x 28 with 254 1.01 and 1.05; of 4096 by 3 1.18 and 1.09. With 64 columns,
32 of 28 x 28 with 62 channels by 5 x 5 1.20 and .99.
"""
LONGEST_FIRST = (7, 8, 6, 5, 4, 3, 2)
"""Positions of strips; images of networks have a multiple of 7, mostly. By the model on gfx942, in us, 32 images of f16
with what was chosen before (strips of 4 or 2, and none with strides or dilations) and with these: 7 x 7 with 768
channels by 7 x 7 17.6, 7.5, with 1152 by 5 x 5 13.0, 5.5; 14 x 14 with 384 by 7 x 7 18.9, 10.7, with 672 by 5 x 5 with
strides of 2 12.8, 7.6; 56 x 56 with 144 by 5 x 5 with strides of 2 20.8, 11.3; 28 x 28 with 256 and dilations of 2 9.1,
6.7; 15 x 15 with 96 (strips of 5) 5.8, 3.2; 56 x 56 with 128 11.0, 11.3.
"""
MOST_OF_ROW, SUMS_OF_ROWS = 16, 32
"""Places of a row of an image that are one strip, and sums of a lane then at most. By the model on gfx942, in us, 32
images of f16 with strips of 7 and with rows of 64 and of 32 sums: 14 x 14 with 384 channels by 7 x 7 10.7, 9.3, 8.5,
with 480 by 5 x 5 7.9, 7.4, 7.0, with 512 by 3 x 3 5.1, 4.6, 3.9; 128 of 7 x 7 with 768 by 7 x 7 13.7 and 10.8 (rows);
28 x 28 with 240 by 3 x 3 with strides of 2 6.6 and 7.2.
"""
SUMS_OF_LARGE, WAVES_OF_LARGE, HALVED = 32, 2, 160
"""Sums of a lane at most and waves of strips of large windows (`_is_large`), and columns up to which a half block of
`MOST_COLUMNS` that would be left over makes blocks of half as many. By the model on gfx942, gfx950 and gfx90a, in
cycles, with 64 sums and one wave, with these, and with 32 columns: 32 images of 28 x 28 with 240 channels by 5 x 5
31024, 25204 (31861, 30659; 70765, 59780), with 192 by 7 x 7 36461, 29686 (40979, 29526; 89625, 73210); 56 x 56 with 96
by 7 x 7 84720, 63311, 57565 (97457, 74520, 59119; 230325, 174096, 148798); with 160, 16 images, 53216 and 49722 (59333,
52236); 28 x 28 with 224 32309 and 34402. One wave 30252 and 92000 for the second and the third, four 31983 and 68576;
where the half block is all there is (112 x 112 with 32 by 5 x 5) 39145, 42535; strides of 2 by two waves (56 x 56 with
144 by 5 x 5) 23741, 30241, i8 49621, 55246; 3 x 3 (56 x 56 with 128) 23776, 26892.
"""
LONGEST_OF_FEW, LEAST_OF_LONG = 8, 1 << 11
"""Positions of a row that is a strip however few images and groups there are, and how many of both, multiplied, longer
rows take. By the model on gfx942, in us, of 14 x 14 with strips of 7 and with rows: 8 images with 384 channels by 7 x 7
7.0 and 6.0, 4 with 480 by 5 x 5 4.1 and 4.3, one with 384 by 7 x 7 5.1 and 5.9.
"""
LEAST_WAVES, LEAST_SUMS = 2, 2
"""For a compute unit, below which lanes have fewer sums, but so many of a position. By the model on gfx942, in us, of
strips of 7 with 8 sums of a position, 4 and 2: 32 images of 7 x 7 with 1152 channels by 5 x 5 (1.6 waves with 8) 6.6,
5.5; 14 x 14 with 384 by 7 x 7 (2.2 waves) 10.7, 11.9; 8 images of 7 x 7 with 768 by 7 x 7 9.1, 6.5, 5.4.
"""
MOST_OF_STRIPS = 256
"""Bytes of images that a lane loads of a strip's row. 17 places of 8 elements of f16, which strips of 7 meet by 5 x 5
with strides of 2, keep two scalar registers in lanes, and take 13.4 us for 11.3 of 4 elements.
"""
WIDE_LOADS, MOST_ALONG, MOST_ALONG_NARROW = 8, 22, 18
"""Elements that lanes load at once; and places along the last dimension that a strip meets, and those of its window,
together, whose distances and conditions scalar registers keep: with such loads, and with fewer elements. Of drawn
kernels 24 to 26 of 8 elements (9 places in strips of 7 and 8, 7 with strides of 2 in strips of 7) keep 1 to 4 of them
in lanes, 32 172; of fewer elements 20 to 22 1 to 11, 28 130.
"""
MOST_WAVES = 2
"""Along rows: one, unless its lanes have fewer sums, and in blocks of `WIDE_COLUMNS` of strips twice as many, which so
have as many rows as others. By the model with 128 channels: two 16.6, four 16.8; in strips of 7 with 127, 126 and 124
channels two 24.1, 22.9, 21.5, four 16.2, 11.4, 12.2 (the model takes lines for shared by more workgroups where a block
has whole rows of images).
"""
EPILOGUE = "direct"
"""Rows are stored as lanes have them: in full vectors."""
MOST_BESIDE_TAPS = 112
"""Bytes of images that a lane loads in a step, beside which it loads weights of all taps of the step as one tile.
That takes up to 68 registers more. By the model on gfx942, in us, with a tile for each tap and so: 32 images of 7 x 7
with 768 channels by 7 x 7 (56 bytes) 6.9, 5.5; 56 x 56 with 127 by 3 x 3 (72) 16.2, 15.4; with 128 (144) 11.3, 12.7; 28
x 28 with 240 by 5 x 5 (176) 14.9, 12.9; with 192 by 7 x 7 (208) 17.4, 20.4.
"""
LONG_WINDOW = 7
"""Places along the last dimension from which on weights go to LDS as they are multiplied. Every lane converts all that
it reads otherwise, and packed arithmetic pays for f16 only without that (`lowering.multiply_add`). By the model on
gfx942, gfx950 and gfx90a, in shares of the cycles, 32 images of 28 x 28 with 192 channels by 7 x 7: .91, .90 and .91
(in bf16 .77, .77 and .89), with 256 .92, .92 and .89, eight of 56 x 56 with 128 .95, .93 and .93; but with 32 columns,
56 x 56 with 96, 1.01, 1.08 and .98, by 5 x 5, 28 x 28 with dilations of 2, 1.06, .98 and 1.11.
"""
REGISTERS_PER_LOAD = 3
"""Beside its data a load takes coordinates and an offset."""


def depthwise_block(
    windows: Depthwise, align: int, dtype: str, target: Target
) -> tuple[tuple[int, int, int], tuple[int, int]]:
    """The block for images of which lanes load `align` elements at once, of whole groups and as many rows as fill the
    lanes, and its waves. Sums of two registers are half as many.
    """
    known, columns, places = windows.described, windows.groups * windows.multiplier, prod(windows.sliding.window)
    found, is_wide = known.multiplier, _is_wide(columns, known, align, dtype, places)
    most = WIDE_COLUMNS if is_wide else MOST_COLUMNS
    is_large = _is_large(windows, align, dtype, columns)
    if is_large and columns % MOST_COLUMNS == MOST_COLUMNS // 2 and columns <= HALVED:
        most //= 2
    while found < min(columns, most):
        found *= 2
    registers = find_dtype(accumulator_type(dtype)).bytes // 4
    most = SUMS if known.channels == known.multiplier == 1 else SUMS // 2
    loads_few = align <= LEAST_LOADED and places >= FEW_PLACES and (align == LEAST_LOADED or known.strip is not None)
    each = SUMS_OF_PAIRS if is_wide and loads_few else SUMS_PER_ELEMENT * max(align, LEAST_LOADED)
    sums = min(most // registers, each)
    while sums * registers * known.channels > MOST_LOADED * known.multiplier:
        sums //= 2
    waves = min(SUMS // registers // sums, MOST_WAVES) * (2 if is_wide and windows.strip else 1)
    if known.strip is not None and known.strip.image:
        sums = min(sums, SUMS_OF_ROWS // registers)
    elif is_large:
        sums, waves = min(sums, SUMS_OF_LARGE), WAVES_OF_LARGE
    return _with_work_for_all(windows, sums, found, waves, dtype, target), (waves, 1)


def _with_work_for_all(
    windows: Depthwise, sums: int, columns: int, waves: int, dtype: str, target: Target
) -> tuple[int, int, int]:
    """The block of so many columns whose lanes have `sums` at most, and fewer where compute units would have few waves,
    or lanes would load too much.
    """
    strip = windows.strip
    positions, met = (strip.positions, len(strip.places)) if strip else (1, 0)
    all_rows, all_columns = windows.images * prod(windows.sliding.positions), windows.groups * windows.multiplier

    def rows(each: int) -> int:
        return positions * each * waves * WAVE_SIZE // columns

    def too_many(each: int) -> bool:
        blocks = ceil_div(all_rows, rows(each)) * ceil_div(all_columns, columns)
        few = blocks * waves < LEAST_WAVES * target.compute_units
        return few or met * each * find_dtype(dtype).bytes > MOST_OF_STRIPS

    each = 1 << (sums // positions).bit_length() - 1  # sums of a position
    while each > max(LEAST_SUMS, windows.multiplier, columns // WAVE_SIZE) and too_many(each):
        each //= 2
    return rows(each), columns, 1


def strips_that_pay(windows: Depthwise, align: int) -> Depthwise | None:
    """Windows seen in the longest strips that pay, of images of which lanes load `align` elements at once; None where
    none do."""
    if windows.channels * windows.multiplier > 1:
        return None
    rows = windows.in_rows() if _has_rows(windows) else None
    some = (windows.in_strips(positions) for positions in LONGEST_FIRST)
    return next((one for one in (rows, *some) if one is not None and _pays(one, align)), None)


def _has_rows(windows: Depthwise) -> bool:
    """Whether rows of the images are short enough for strips, and long ones many enough."""
    is_short = windows.sliding.positions[-1] <= LONGEST_OF_FEW
    return windows.sliding.image[-1] <= MOST_OF_ROW and (is_short or windows.images * windows.groups >= LEAST_OF_LONG)


def _pays(windows: Depthwise, align: int) -> bool:
    """Whether several windows of a strip meet a place, and places are few."""
    strip, seen = windows.strip, windows.seen
    if strip is None or len(strip.places) == strip.positions * strip.window:
        return False
    most = MOST_ALONG if align >= WIDE_LOADS else MOST_ALONG_NARROW
    return len(strip.places) + strip.window <= most and (not seen.padded or bool(windows.slid.few_places))


def _is_large(windows: Depthwise, align: int, dtype: str, columns: int) -> bool:
    """Whether images of two bytes an element are loaded in full vectors, in strips, and many windows meet each place:
    they have more places than `FEW_PLACES`, and no strides along the strip.
    """
    strip, is_full = windows.strip, align >= WIDE_LOADS and find_dtype(dtype).bytes == 2
    has_many = prod(windows.sliding.window) > FEW_PLACES and columns > MOST_COLUMNS // 2
    return strip is not None and not strip.image and strip.stride == 1 and is_full and has_many


def _is_wide(columns: int, known: DepthwiseSpec, align: int, dtype: str, places: int) -> bool:
    """See `WIDE_COLUMNS`."""
    size = find_dtype(dtype).bytes
    if known.channels * known.multiplier > 1 or not 1 < align * size <= NARROW_BYTES:
        return False
    as_few = 2 * ceil_div(columns, WIDE_COLUMNS) == ceil_div(columns, MOST_COLUMNS)
    return as_few and (align <= LEAST_LOADED or (align == 4 and places <= FEW_PLACES))


def groups_of_a_lane(spec: ContractionSpec) -> int:
    """Groups that a lane has next to each other: as many as a load holds, if registers hold their weights."""
    known = DepthwiseSpec.parse(spec.windows)
    found = 1
    while 2 * found * known.channels <= spec.align[0] and 2 * found * known.channels * known.multiplier <= MOST_WEIGHTS:
        found *= 2
    return found


def taps_at_once(spec: ContractionSpec) -> int:
    """Taps of a step of which lanes load weights as one tile, a power of two.

    Weights of a group follow each other, and those of its neighbour are a whole window further. So a tile of one tap
    takes a cache line for each lane, and one of all taps a line for each group.
    """
    strip = DepthwiseSpec.parse(spec.windows).strip
    if strip is None:
        return 1
    sums = spec.block[0] * spec.block[1] // (spec.wave_count * WAVE_SIZE)
    loaded = sums // strip.positions * len(strip.places) * spec.held[0].bytes
    return 1 << (len(strip.taps) - 1).bit_length() if loaded <= MOST_BESIDE_TAPS else 1


def converts_weights(spec: ContractionSpec) -> bool:
    """Whether weights go to LDS as they are multiplied: see `LONG_WINDOW`."""
    strip = DepthwiseSpec.parse(spec.windows).strip
    if strip is None or strip.image or strip.window < LONG_WINDOW:
        return False
    return spec.dtype in ("f16", "bf16") and not spec.b_dtype and spec.block[1] == MOST_COLUMNS


def depthwise_axes() -> Mapping[str, Sequence[object]]:
    """What is worth trying: `Operator.axes`."""
    blocks = product((14, 28, 32, 56, 64, 112, 128, 256), (8, 16, 32, 64, 128), (1,))
    return {"block": tuple(blocks), "waves": ((1, 1), (2, 1), (4, 1), (8, 1)), "schedule": SCHEDULES}


def invalid_vectors(spec: ContractionSpec, target: Target) -> Iterator[Reason]:
    """Why a chip cannot run a kernel of vector arithmetic."""
    known = DepthwiseSpec.parse(spec.windows)
    if spec.mfma != NO_INSTRUCTION:
        yield Reason("mfma", spec.mfma, "groups of few channels take vector arithmetic", "expected 1x1x1")
    if spec.block[1] % known.multiplier:
        why = f"a group becomes {known.multiplier} channels"
        yield Reason("block", spec.block, why, f"expected a multiple of {known.multiplier} along n")
    if spec.block[2] != 1:
        yield Reason("block", spec.block, "a step is one place of the window", "expected 1 along k")
    strip = known.strip.positions if known.strip else 1
    if spec.block[0] % strip:
        yield Reason("block", spec.block, f"strips have {strip} positions", f"expected a multiple of {strip} along m")
    if spec.waves[1] != 1 or spec.block[0] // strip * spec.block[1] % (
        spec.wave_count * WAVE_SIZE * known.multiplier
    ):
        why = f"{spec.wave_count} waves do not divide the block"
        yield Reason("waves", spec.waves, why, "expected fewer, all of them along m")
    for field, able in (("schedule", SCHEDULES), ("epilogue", (EPILOGUE,)), ("sink", ("store",)), ("layout", ("RCR",))):
        if getattr(spec, field) not in able:
            right = f"expected {'|'.join(able)}"
            yield Reason(field, getattr(spec, field), "groups of few channels have no matrix instruction", right)
    if spec.slices != (1, 1):
        yield Reason("slices", spec.slices, "a lane's few sums leave at once", "expected 1x1")
    if spec.dtype == "xf32" or spec.batch or spec.taken:
        yield Reason("dtype", spec.dtype, "vector arithmetic multiplies what images hold", "expected another, no batch")
    yield from no_such_float("dtype", spec.dtype, target)
    if spec.b_dtype and {spec.dtype, spec.b_dtype} != {"fp8", "bf8"}:
        why = f"images of {spec.dtype} have weights of the same type"
        yield Reason("b_dtype", spec.b_dtype, why, "expected dtype and b_dtype of fp8 and bf8, or no b_dtype")


def vector_resources(spec: ContractionSpec) -> Resources:
    """What a block needs: sums, two steps of loads, and what they are multiplied by."""
    known, (rows, columns, _) = DepthwiseSpec.parse(spec.windows), spec.block
    threads, size = spec.wave_count * WAVE_SIZE, find_dtype(accumulator_type(spec.dtype)).bytes // 4
    sums = rows * columns // threads * size
    strip = known.strip or Strip(1, 1, 1, 1)
    of_place = rows * columns // known.multiplier * known.channels // threads // strip.positions
    images, along = of_place * len(strip.places), len(strip.taps)
    loads = images // max(spec.align[0], 1) + along
    weights = groups_of_a_lane(spec) * known.multiplier * known.channels * size
    held = images * spec.held[0].bytes // 4 + of_place * size
    if known.strip is not None:
        held += images * spec.held[0].bytes // 4  # of the next step too
    weight = find_dtype(accumulator_type(spec.dtype)) if converts_weights(spec) else spec.held[1]
    lds = 2 * columns * known.channels * weight.bytes * along
    return Resources("block", spec.block, threads, lds, sums, sums + held + weights + REGISTERS_PER_LOAD * loads, False)
