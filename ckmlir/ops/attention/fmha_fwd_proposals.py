"""Which kernels of attention forward a problem may take, the best first."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence

from ckmlir.dialect.schedule_items import Fence
from ckmlir.ops.attention.fmha_fwd_spec import (
    BY_INSTRUCTION_TILE,
    HEAD_TILES,
    KEY_BLOCKS,
    QUERIES_PER_WAVE,
    WAVES,
    FmhaFwdSpec,
    draws,
    head_tile,
    keys_of_scale,
    scaled_by_instruction,
)
from ckmlir.ops.attention.row_choice import FEW_ROWS, LONG_BLOCK, few_rows, long_blocks, packs, woven_waves
from ckmlir.ops.attention.schedule_choice import (
    DEFAULT,
    LATE,
    TOGETHER,
    WOVEN_COPIES,
    WOVEN_COPIES_DEEP,
    ahead,
    edge_of_bytes,
    turns,
    weaves_beside,
    woven,
    woven_bytes,
)
from ckmlir.ops.attention.schedule_choice import edge as choose_edge
from ckmlir.ops.dtypes import find_dtype
from ckmlir.ops.scalars import ceil_div
from ckmlir.ops.schedules import ATTENTION as SCHEDULES
from ckmlir.ops.schedules import parse as parse_schedule
from ckmlir.targets import Target

MOST_BETWEEN_FENCES = 128
"""Channels of heads with which a schedule that fences its phases takes the longest block of keys."""
LEAST_SHARED = 16
"""Keys that share a scale, from which on a block has few enough scales for scalar registers."""
MOST_TWICE = 128
"""Channels up to which there is room for the scales of two steps."""
BUFFERS = 4
"""Blocks of K and of V that a woven loop has in LDS at least, together."""
NARROW = ("bias_f16_1", "bias_bf16_1", "bias_f16_2", "bias_bf16_2", "bias_f32_1")
"""Words of parts that load fewer than eight bytes at a time."""


def proposed_specs(
    *, d: int, dv: int, heads: int, sq: int, sk: int, dtype: str, out: str, mask: str, lse: bool,
    schedule: str | None, edge: str | None, reach: int, target: Target, sequences: tuple[str, str] = ("", ""),
    v_columns: int = 0, parts: tuple[str, ...] = (), source: str = "", split: bool = False, sharing: int = 1,
    v_dtype: str = "", stored: str = "",
) -> list[FmhaFwdSpec]:  # fmt: skip
    """Kernels for a problem with so many heads in all batches, of which `sharing` at a time may be packed in rows, and
    queries that attend to at most `reach` keys, the best first: of the schedules, if none is named, and then of the
    blocks of keys, largest first.
    """
    deep, size = scaled_by_instruction(parts), find_dtype(dtype).bytes
    tile, tiles = _common_tile(d, dv), (_common_tile(d), _common_tile(dv))
    whole = sk % LONG_BLOCK == 0 and not sequences[1]
    packed = packs(sq, sharing)
    together = sharing if packed else 1
    workgroups = heads // together * ceil_div(sq * together, WAVES * QUERIES_PER_WAVE[0])
    whole_rows = not v_columns and not split
    many = workgroups > target.compute_units and whole_rows
    plain = whole_rows and size == 2 and weaves_beside(parts, max(tiles), mask)
    able = target.mfmas(dtype)
    row = max(_row_bytes(d, dtype), _row_bytes(dv, v_dtype or dtype))

    def long(name: str) -> tuple[int, ...]:
        # A second loop that is asked for takes registers of its own.
        one_loop = edge in (None, TOGETHER)
        return long_blocks(name, row, sk, reach, mask, parts, source, whole=whole) if one_loop else ()

    def blocks_of(name: str) -> tuple[int, ...]:
        return _key_blocks(name, max(d, dv), parts, source, fits=BUFFERS * KEY_BLOCKS[0] * row <= target.lds_bytes)

    names = [schedule] if schedule else [LATE if deep and max(d, dv) > MOST_TWICE else DEFAULT]
    if not schedule and size == 2 and not parts and not v_columns:
        names = [*ahead(tile, target), *names]
    alone = many and able and not parts and not source and not any(sequences)
    if not schedule and plain:
        after = turns(tile, target.mfma_rate(able[0])) if alone and mask == "none" else []
        names = [*woven(tiles, reach, mask, long=bool(long(WOVEN_COPIES)), target=target), *after, *names]
    elif not schedule and whole_rows and able and size == 1 and not source:
        steps = bool(long(WOVEN_COPIES_DEEP))
        names = [*woven_bytes(tile, reach, mask, parts, able[0].k, long=steps), *names]
    # The fastest of its rows comes first.
    own_tile = BY_INSTRUCTION_TILE if deep else _common_tile(d)
    heights = QUERIES_PER_WAVE[:1] if deep or draws(parts) else QUERIES_PER_WAVE
    tried = [one for rows in heights for one in able if one.m == rows and one.scaled >= deep]
    shapes = [(one.m, one.n, one.k) for one in tried] or [(32, 32, 8)]
    rows_of = dict.fromkeys(rows for rows, *_ in shapes)

    def kernel(name: str, queries: int, keys: int, waves: int, rows: int, own: str, along: int) -> FmhaFwdSpec:
        fitting = [one for one in shapes if one[0] == rows and own_tile % one[2] == 0 == keys % one[2]]
        return FmhaFwdSpec(
            dtype=dtype, out=out, d=d, dv=dv, block=(queries, keys), waves=waves,
            mfma=(fitting or [one for one in shapes if one[0] == rows])[0], mask=mask, lse=lse,
            pad_sq=packed or sq % queries != 0 or sequences[0] != "", pad_sk=sk % keys != 0 or sequences[1] != "",
            schedule=name, sequences=sequences, v_columns=v_columns, parts=parts, source=source, split=split,
            edge=edge or own, along_keys=along, packed=packed,
            v_dtype=v_dtype, stored=stored,
        )  # fmt: skip

    candidates = [
        kernel(one.schedule, one.rows, one.keys, one.waves, FEW_ROWS[0], TOGETHER, one.waves)
        for one in few_rows(sq * together, max(d, dv), mask, schedule, listed=_listed_scales(parts, source))
        if FEW_ROWS[0] in rows_of and one.keys in blocks_of(one.schedule)
    ]
    for name in names:
        own = choose_edge(name, mask, parts) if plain else TOGETHER
        if whole_rows and able and size == 1 and not parts and not source:
            own = edge_of_bytes(name, tile, reach, mask, able[0].k, long=bool(long(name)))
        shorter = blocks_of(name)
        copied = parse_schedule(SCHEDULES[name]).path_of("v") == "direct"
        lone = draws(parts) or "far" in source.split("_")
        waves = woven_waves(workgroups, max(tiles), size, mask, copied=copied, alone=lone, scaled=deep, target=target)
        sides = _sides(name, rows_of, shorter, long(name), waves, named=bool(schedule) and not deep)
        candidates += [kernel(name, count * rows, keys, count, rows, own, 1) for count, rows, keys in sides]
    return candidates


def axes_of(dtype: str, target: Target) -> dict[str, Sequence[object]]:
    """What a kernel may be otherwise (`Operator.axes`); not all combinations make sense."""
    shapes = dict.fromkeys((one.m, one.n, one.k) for one in target.mfmas(dtype))
    waves = (WAVES, 2 * WAVES)
    heights = sorted({count * rows for count in waves for rows in QUERIES_PER_WAVE})
    blocks = itertools.product(heights, (LONG_BLOCK, *KEY_BLOCKS))
    return {"block": tuple(blocks), "waves": waves, "mfma": tuple(shapes), "schedule": tuple(SCHEDULES)}


def _sides(
    schedule: str, rows: Iterable[int], keys: Sequence[int], long: Sequence[int], waves: Sequence[tuple[int, int]], *,
    named: bool,
) -> Iterator[tuple[int, int, int]]:  # fmt: skip
    """How many waves workgroups may have, queries of each and keys of a step, the best first: the longest steps, if
    any, and a wave for every SIMD, in as many groups as take turns. Woven arithmetic takes `waves`, or where a request
    names the schedule half as many queries, too."""
    parsed = parse_schedule(SCHEDULES[schedule])
    if parsed.order != "weave":
        yield from itertools.product([parsed.groups * WAVES], QUERIES_PER_WAVE[:1], long)
        yield from itertools.product([parsed.groups * WAVES], rows, keys)
        return
    able = [one for one in waves if one[1] in rows]
    few = QUERIES_PER_WAVE[1]
    low = [(2 * WAVES, few), (WAVES, few)] if named and few in rows else []
    for steps, sizes in ((long, able), (keys, [*able, *low])):
        yield from ((*one, step) for step in steps for one in sizes)


def _key_blocks(
    schedule: str, channels: int, parts: tuple[str, ...], source: str, *, fits: bool
) -> tuple[int, ...]:
    """The blocks of keys that leave enough registers, largest first: between fences all fragments that a phase reads
    are alive at once, and single elements of a bias, or scales of few keys, take a register each.
    A woven loop takes the largest that fits into LDS, whose products are long enough for what lies under them.
    """
    parsed = parse_schedule(SCHEDULES[schedule])
    if parsed.order == "weave" or scaled_by_instruction(parts):
        return KEY_BLOCKS[:1] if fits else KEY_BLOCKS[1:]
    fenced = any(isinstance(item, Fence) for item in parsed.step) and channels > MOST_BETWEEN_FENCES
    narrow = any(word in NARROW for word in parts) or _cut_by_scales(keys_of_scale(parts, source), channels)
    return KEY_BLOCKS[1:] if fenced or narrow else KEY_BLOCKS


def _cut_by_scales(keys: float, channels: int) -> bool:
    """Whether scales of so many keys want the shorter blocks: those of single keys for their registers, and those that
    serve a shorter block whole."""
    several = LEAST_SHARED <= keys < KEY_BLOCKS[1] and channels <= MOST_BETWEEN_FENCES
    return keys < KEY_BLOCKS[0] and not several


def _listed_scales(parts: tuple[str, ...], source: str) -> bool:
    """Whether scales lie at places of a list, each for fewer keys than `LEAST_SHARED`."""
    return "pagescales" in parts and keys_of_scale(parts, source) < LEAST_SHARED


def _row_bytes(channels: int, dtype: str) -> int:
    """Bytes of a row of the tile that holds a head; of no tile where none has so many channels."""
    return find_dtype(dtype).bytes * (head_tile(channels) if 0 < channels <= HEAD_TILES[-1] else channels)


def _common_tile(*heads: int) -> int:
    """The channels of the tiles of all heads, 0 where these differ or none has so many."""
    tiles = {head_tile(channels) if 0 < channels <= HEAD_TILES[-1] else 0 for channels in heads}
    return tiles.pop() if len(tiles) == 1 else 0
