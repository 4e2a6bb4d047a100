"""Depthwise convolutions in tile code: all windows of a block, a place at a time, by vector arithmetic."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from itertools import product
from math import gcd
from operator import mul
from types import SimpleNamespace

from msgspec.structs import replace

from ckmlir.dialect.distribution import Distribution
from ckmlir.dialect.distribution_builders import coalesced, lanes_last
from ckmlir.dialect.scalars import name_of
from ckmlir.dialect.schedule import Schedule
from ckmlir.lang import (
    LdsTensor,
    Scalar,
    Tile,
    View,
    cast,
    full,
    insert_tile,
    join_axes,
    load,
    loop,
    multiply_high,
    permute_axes,
    slice_tile,
    stage,
    stretch,
    to_lds,
    view,
    zeros,
)  # fmt: skip
from ckmlir.ops.contraction.contraction_spec import ContractionSpec, accumulator_type
from ckmlir.ops.contraction.depthwise import DepthwiseSpec, Strip
from ckmlir.ops.contraction.depthwise_plans import converts_weights, groups_of_a_lane, taps_at_once
from ckmlir.ops.contraction.windows_kernel import images_from
from ckmlir.ops.contraction.work_kernel import Work
from ckmlir.targets.cdna import WAVE_SIZE

NARROW_LOADS, NARROWEST = 4, 2
"""Loads of a row that a lane has, where they are of no more elements. By the model on gfx942, in us, 32 images of 56 x
56 by 3 x 3 with 11 channels: 6.5, with one load 8.2; with 127 channels 36.2, with two 41.9; of wider ones with 128
channels: one 15.2, two 15.8.
"""


def windowed_sums(spec: ContractionSpec, work: Work) -> list[Tile]:
    """The block of y at (row, column), summed over all places of the window. A step is a place, or a row of places in
    the last dimension, of which lanes load what all positions of their strips meet.

    Stages: load, to_lds, from_lds, math. Weights go through LDS, from which every lane takes those of its columns.
    """
    known, given = DepthwiseSpec.parse(spec.windows), work.distances
    if known.strip is not None:
        given = _with_constants(given, known.rank - 1, known.strip)
    (rows, columns, _), type_ = spec.block, accumulator_type(spec.dtype)
    strip = known.strip or Strip(1, 1, 1, 1)
    rows //= strip.positions
    groups, first = columns // known.multiplier, work.column // known.multiplier
    lies = _dealt_out(rows, groups, spec)
    becoming, several = lies.expand(2, known.multiplier), [known.channels] * (known.channels > 1)
    of_images = lies.expand(2, known.channels) if several else lies
    of_weights = becoming.expand(3, known.channels).reduce(0).permute((1, 0, 2))
    images, row = _images(spec, known, replace(work, distances=given), strip)
    weights = _weights(known, work, first)
    shape, at_once, places = (rows, groups, *several), taps_at_once(spec), work.end // known.channels
    tiles = [strip.taps[at : at + at_once] for at in range(0, len(strip.taps), at_once)]
    kept = (*[at_once] * (at_once > 1), known.multiplier, groups, known.channels)
    # Weights of a group lie next to each other, those of its neighbour a whole window further.
    dealt_out = coalesced(kept, spec.wave_count, 0 if at_once > 1 else 1, 1)
    origin = (row, first, *[0] * len(several))
    window = [getattr(given, f"window{dim}") for dim in range(known.rank - bool(known.strip))]
    start = [zeros((rows, groups, known.multiplier), type_, becoming) for _ in range(strip.positions)]
    with loop(0, reduce(mul, window, 1), 1, carry=start, schedule=Schedule.parse(spec.schedule_text)) as step:
        with stage("load"):
            seen = {
                place: _at(images.freeze(known.rank, place) if known.strip else images, step.index, window, given)
                for place in strip.places
            }
            x = {place: load(one.pad(*shape).window(shape, origin), of_images) for place, one in seen.items()}
            firsts = [_first(known, step.index * strip.window, taps, places) for taps in tiles]
            w = [_from_tap_on(weights, one, kept, dealt_out) for one in firsts]
        with stage("to_lds"):
            w = [cast(one, type_) for one in w] if converts_weights(spec) else w
            held = [to_lds(one, f"b{number}" if number else "b") for number, one in enumerate(w)]
        with stage("from_lds"):
            taps = [divmod(tap, at_once) for tap in range(len(strip.taps))]
            if known.turned and at_once > 1:
                taps.reverse()
            w = [_of_tap(held[tile], tap if at_once > 1 else None, of_weights) for tile, tap in taps]
        with stage("math"):
            totals = list(step.carried)
            for (place, one), channel in product(zip(strip.taps, w, strict=True), range(known.channels)):
                weight = cast(permute_axes(_channel(one, channel), 1, 0), type_)
                weight = stretch(weight, 0, rows, becoming)
                for position, total in enumerate(totals):
                    met = strip.met(position, place)
                    if met is not None:
                        image = cast(_channel(x[met], channel) if several else x[met], type_)
                        totals[position] = total + stretch(image, 2, known.multiplier, becoming) * weight
            step.carry(*totals)
    return [_beside_each_other([join_axes(one, 1) for one in step.results], becoming.join(1))]


def _first(known: DepthwiseSpec, before: Scalar, taps: range, places: Scalar) -> Scalar:
    """The first weight of a tile of so many taps, behind so many places; of turned ones that of the last tap."""
    found: Scalar = places - 1 - before - taps[-1] if known.turned else before + taps[0]
    return found


def _with_constants(given: SimpleNamespace, dim: int, strip: Strip) -> SimpleNamespace:
    """What a kernel is told of windows of strips, of which it knows those along the last dimension."""
    known = {"window": strip.places[-1] + 1, "stride": strip.stride * strip.positions, "dilation": 1}
    known |= {"image": strip.image, "positions": 1} if strip.image else {}
    return SimpleNamespace(**{**vars(given), **{f"{name}{dim}": number for name, number in known.items()}})


def _beside_each_other(sums: Sequence[Tile], lies: Distribution) -> Tile:
    """The rows of all positions of strips, of tiles that have those of one each and lie so."""
    if len(sums) == 1:
        return sums[0]
    rows, columns = sums[0].lengths
    whole = zeros((rows, len(sums), columns), name_of(sums[0].type.element), lies.expand(1, len(sums)))
    for position, one in enumerate(sums):
        whole = insert_tile(whole, stretch(one, 1, 1, lies.expand(1, 1)), 1, position)
    return join_axes(whole, 0)


def _from_tap_on(weights: View, first: Scalar, lengths: Sequence[int], lies: Distribution) -> Tile:
    """Weights of several taps from one on, or of one, which is there: nothing is compared then."""
    if len(lengths) < weights.descriptor.rank:
        return load(weights.freeze(0, first).pad(*lengths).window(lengths, (0, 0, 0)), lies)
    return load(weights.pad(*lengths).window(lengths, (first, 0, 0, 0)), lies)


def _of_tap(held: LdsTensor, tap: int | None, lies: Distribution) -> Tile:
    """Weights of one of the taps that LDS holds, or of the only one (None). Rows of LDS are along groups, as lanes read
    them, since a tap is asked for by its number.
    """
    if tap is None:
        return held.read(lies)
    of_one = lies.expand(0, 1)
    return join_axes(held.gather(full((1,), tap, "i32", of_one.along(0)), 0, of_one), 0)


def _dealt_out(rows: int, groups: int, spec: ContractionSpec) -> Distribution:
    """Who sums which rows and groups. Lanes fill rows with wide loads. Of narrow ones a lane has several in a row, and
    finds its coordinates once; with all lanes in one row these would be in scalar registers, of which there are too
    few (see `windows_kernel.DealtOut`).
    """
    vector = groups_of_a_lane(spec)
    in_a_row = max(groups // (vector * NARROW_LOADS), 1)
    above = (0, gcd(rows, WAVE_SIZE // in_a_row)) if vector <= NARROWEST else None
    return lanes_last(coalesced((rows, groups), spec.wave_count, 1, vector, lanes_first=above), 0)


def _channel(tile: Tile, channel: int) -> Tile:
    """One of the last dimension of a tile."""
    last = len(tile.lengths) - 1
    return join_axes(slice_tile(tile, last, channel, 1), last - 1)


def _images(spec: ContractionSpec, known: DepthwiseSpec, work: Work, strip: Strip) -> tuple[View, Scalar]:
    """Images as (images and positions, places of the window…, groups, and channels if there are several) from the
    block's first image on, and the block's row there; of strips as positions, which the kernel is told of so.
    """
    given = work.distances
    channels = (given.groups * known.channels).multiple_of(spec.align[0])
    seen, row = images_from(work.arrays["a"], given, known, work.row // strip.positions, channels, spec.align[0])
    seen = seen.merge(*range(known.slides + 1))
    return seen if known.channels == 1 else seen.unmerge(1 + known.rank, (given.groups, known.channels)), row


def _at(images: View, place: Scalar, window: list[Scalar], given: SimpleNamespace) -> View:
    """Images where they meet a place of the window, counted through all of them; themselves where it has no lengths."""
    for dim in reversed(range(1, len(window))):
        above = multiply_high(place * 2, getattr(given, f"share{dim}"))  # place // window[dim]
        images, place = images.freeze(1 + dim, place - above * window[dim]), above
    return images.freeze(1, place) if window else images


def _weights(known: DepthwiseSpec, work: Work, first: Scalar) -> View:
    """Weights from a group on, as (places, channels that a group becomes, groups, channels): groups next to each other,
    so that lanes, which have several each, read LDS without bank conflicts.
    """
    given, places = work.distances, work.end // known.channels
    each = work.end * known.multiplier
    begin = work.arrays["b"].offset(first.to("i64") * each.to("i64"))
    lengths = (given.groups - first, known.multiplier, places, known.channels)
    return view(begin, lengths, (each, work.end, known.channels, 1)).permute(2, 1, 0, 3)
