"""Which attention forward kernels there are: the specification, how it is chosen, and what a chip can run.

A workgroup of four waves takes 128 queries of one head, 32 a wave, and walks over the keys in blocks; one of eight
waves takes 256, where two waves of a SIMD take turns.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated

from ckmlir.dialect.schedule_items import Fence
from ckmlir.ops.attention.orders import ORDERS
from ckmlir.ops.attention.paged_spec import copied_rows
from ckmlir.ops.attention.schedule_choice import (
    DEFAULT,
    RISING,
    TOGETHER,
    leads_too_far,
    order,
    turns,
    woven,
    woven_registers,
)  # fmt: skip
from ckmlir.ops.attention.schedule_choice import edge as choose_edge
from ckmlir.ops.dtypes import find_dtype
from ckmlir.ops.operator import ceil_div
from ckmlir.ops.resources import Resources, excess
from ckmlir.ops.schedules import ATTENTION as SCHEDULES
from ckmlir.ops.schedules import EDGE as EDGES
from ckmlir.ops.schedules import parse as parse_schedule
from ckmlir.ops.spec import Algorithm, Counts, Reason, Spec, by, not_a_choice, not_powers_of_two
from ckmlir.targets import Target, TargetError

DTYPES = ("f16", "bf16", "fp8", "f32")
"""Of Q, K and V."""
OUTPUTS = {"f16": ("f16",), "bf16": ("bf16",), "f32": ("f32",), "fp8": ("bf16", "f16", "f32")}
"""By the dtype of Q, K and V: what O may be, the default first."""
WEIGHT_EXPONENT = {"fnuz": 7, "ocp": 8}
"""By flavour of 8-bit floats: weights up to 1 are multiplied by two to this power before they become fp8, so that they
use its whole range (up to 240 or 448). The row sums have the factor too, so that it cancels (as in CK Tile)."""
MASK_KINDS = ("none", "causal", "window")
FORWARD_MASKS = (*MASK_KINDS, "sinks")
SEQUENCES = ("", "length", "start", "startlength", "pages")
"""What memory holds of the queries', or the keys', places: see `sequences.Rows.word`."""
HEAD_TILES = (32, 64, 96, 128, 256)
"""Channels that a tile may have; a head is padded to the next of them.

Copies to LDS fill tiles of 2^n channels only: 64 lanes side by side make whole rows of them, or parts of one."""
ROW_BYTES = 16
"""Rows of a head are whole vectors of as many bytes, the widest that a lane loads."""
LISTS = (("seqstart_{}", "start"), ("seqlen_{}", "length"), ("kv_indptr", "pages"), ("kv_last_page_lens", "pages"))
"""Names of arrays, and the words that ask for them."""
WAVES = 4
QUERIES_PER_WAVE = (32, 16)
"""Rows of a wave's matrix instruction; the fewer, the larger the heads that fit."""
KEY_BLOCKS = (64, 32)
MOST_BETWEEN_FENCES = 128
"""Channels of heads with which a schedule that fences its phases takes the longest block of keys."""
SMALLEST_COPY = 4
"""Bytes of a lane's copy to LDS (CDNA3 ISA, buffer loads with LDS)."""
DRAWN = 32
"""Queries of a wave that dropout draws for."""
NARROW = ("bias_f16_1", "bias_bf16_1", "bias_f16_2", "bias_bf16_2", "bias_f32_1")
"""Words of parts that load fewer than eight bytes at a time."""


@dataclass(frozen=True)
class FmhaFwdSpec(Spec):
    """What an attention forward kernel's code depends on.

    Attributes:
        dtype, out: element types of Q, K and V, and of O.
        d, dv: channels of Q and K, and of V and O.
        block: tile (queries, keys) of a workgroup in one step of the loop.
        waves: waves of a workgroup, side by side along the queries.
        mfma: shape (m, n, k) of the matrix instruction of both products.
        mask: none, causal (only the bound x of the mask's coordinate is tested), window (both bounds) or sinks (a
            window and the first keys).
        sequences: what memory holds of the places of queries and of keys, see `SEQUENCES`.
        v_columns: 0 for V in rows; else it is in columns, and this divides the number of keys.
        parts: words of what else is done, see `part.Part.word`.
        lse: the logarithm of the sum of exponentials is an output.
        source: word of where K and V lie, see `part.Part.word`; rows of batches have none.
        split: several workgroups share a block's keys, and O and LSE are those of their parts.
        pad_sq, pad_sk: the number of queries, of keys, need not be a multiple of the block.
        schedule, edge: of the loop over keys, and of another one for the blocks of keys that the mask cuts; `TOGETHER`
            if the loop takes those as well.
        order: in which blocks of queries are dealt out, see `orders.ORDERS`.
    """

    dtype: str
    out: str
    d: int
    dv: int
    block: Algorithm[tuple[int, int]]
    waves: Algorithm[int]
    mfma: Algorithm[tuple[int, int, int]]
    mask: str
    lse: bool
    pad_sq: Algorithm[bool]
    pad_sk: Algorithm[bool]
    schedule: Algorithm[str]
    sequences: tuple[str, str] = ("", "")
    v_columns: Annotated[int, Counts(bool)] = 0
    parts: tuple[str, ...] = ()
    source: str = ""
    split: bool = False
    edge: Algorithm[str] = TOGETHER
    order: Algorithm[str] = RISING

    @property
    def name(self) -> str:
        types = [self.dtype] if self.out == self.dtype else [self.dtype, self.out]
        parts = [
            "fmha_fwd", *types, f"d{self.d}x{self.dv}", by(self.block), f"waves{self.waves}",
            f"mfma{by(self.mfma)}", f"mask_{self.mask}", self.schedule,
        ]  # fmt: skip
        more = [f"{side}_{word}" for side, word in zip("qk", self.sequences, strict=True) if word]
        parts += [f"edge_{self.edge}"] * (self.edge != TOGETHER) + [self.order] * (self.order != RISING)
        parts += [*more, *([f"vcolumns{self.v_columns}"] if self.v_columns else []), *self.parts]
        parts += [self.source] * bool(self.source)
        pad = ["sq"] * self.pad_sq + ["sk"] * self.pad_sk
        return "_".join(parts + ["split"] * self.split + ["lse"] * self.lse + (["pad", *pad] if pad else []))

    @property
    def scaled(self) -> bool:
        """Q, K and V have a scale each: those of Q and K are part of the scores' scale, that of V an argument."""
        return self.dtype == "fp8"

    @property
    def varied(self) -> bool:
        """Whether sequences differ in their numbers of queries or keys."""
        return any(self.sequences)

    @property
    def cuts(self) -> bool:
        """Whether there may be blocks of keys that queries do not attend to as a whole."""
        return self.mask != "none" or self.pad_sk

    @property
    def main_loop(self) -> int:
        """The one in front of that for the edge."""
        return 0

    @property
    def lists(self) -> tuple[str, ...]:
        """The arrays that say where sequences begin and how long they are."""
        words = zip("qk", self.sequences, strict=True)
        return tuple(name.format(side) for side, word in words for name, short in LISTS if short in word)

    @property
    def d_tile(self) -> int:
        """Channels of Q's and K's tiles: d padded to the next of `HEAD_TILES`."""
        return head_tile(self.d, copied=self._copied("k"))

    @property
    def dv_tile(self) -> int:
        """Channels of V's and O's tiles: dv padded to the next of `HEAD_TILES`."""
        return head_tile(self.dv, copied=self._copied("v"))

    def _copied(self, tensor: str) -> bool:
        """Whether a tensor goes from memory to LDS without registers, in one of the loops."""
        return bool(_copying(self, tensor))

    @property
    def loops(self) -> dict[str, str]:
        """By field, the texts of the loops' schedules, as far as these are known."""
        known = {"schedule": SCHEDULES.get(self.schedule), "edge": EDGES.get(self.edge)}
        return {field: text for field, text in known.items() if text is not None}

    @property
    def schedule_text(self) -> str:
        """The schedule of the loop over keys in the language of `ckmlir.dialect.schedule`."""
        return SCHEDULES[self.schedule]


def head_tile(channels: int, *, copied: bool = False) -> int:
    """The channels of the tile that holds a head, `copied` to LDS or loaded.

    Raises:
        ValueError: more than the largest of `HEAD_TILES`.
    """
    return min(tile for tile in HEAD_TILES if tile >= channels and not (copied and tile & (tile - 1)))


def proposed_specs(
    *, d: int, dv: int, heads: int, sq: int, sk: int, dtype: str, out: str, mask: str, lse: bool,
    schedule: str | None, edge: str | None, reach: int, target: Target, sequences: tuple[str, str] = ("", ""),
    v_columns: int = 0, parts: tuple[str, ...] = (), source: str = "", split: bool = False,
) -> list[FmhaFwdSpec]:  # fmt: skip
    """Kernels for a problem with so many heads in all batches, and queries that attend to at most `reach` keys, the
    best first: of the schedules, if none is named, and then of the blocks of keys, largest first.
    """
    names = [schedule] if schedule else [DEFAULT]
    tile, whole = _common_tile(d, dv), sk % KEY_BLOCKS[0] == 0 and not sequences[1]
    workgroups = heads * ceil_div(sq, WAVES * QUERIES_PER_WAVE[0])
    many = workgroups > target.compute_units
    plain = many and find_dtype(dtype).bytes == 2 and not parts and not v_columns and not source and not split
    able = [one for one in target.mfmas(dtype) if not one.scaled]
    if not schedule and plain:
        after = turns(tile, target.mfma_rate(able[0])) if able and mask == "none" and not any(sequences) else []
        names = [*woven(tile, reach, mask, whole=whole, target=target), *after, *names]
    shapes = [(one.m, one.n, one.k) for rows in QUERIES_PER_WAVE for one in target.mfmas(dtype)
              if one.m == rows and not one.scaled] or [(32, 32, 8)]  # the fastest of its rows comes first
    kept = {rows: next(shape for shape in shapes if shape[0] == rows) for rows, *_ in shapes}
    candidates = []
    for name, mfma in itertools.product(names, kept.values()):
        waves = WAVES * _sharing(name)
        queries = waves * mfma[0]
        own = choose_edge(name, tile, mask) if plain and not (mask == "none" and whole) else TOGETHER
        candidates += [
            FmhaFwdSpec(
                dtype=dtype, out=out, d=d, dv=dv, block=(queries, keys), waves=waves, mfma=mfma, mask=mask, lse=lse,
                pad_sq=sq % queries != 0 or sequences[0] != "", pad_sk=sk % keys != 0 or sequences[1] != "",
                schedule=name, sequences=sequences, v_columns=v_columns, parts=parts, source=source, split=split,
                edge=edge or own, order=RISING if split else order(mask),
            )
            for keys in _key_blocks(name, max(d, dv), parts)
        ]  # fmt: skip
    return candidates


def axes_of(dtype: str, target: Target) -> dict[str, Sequence[object]]:
    """What a kernel may be otherwise (`Operator.axes`); not all combinations make sense."""
    shapes = dict.fromkeys((one.m, one.n, one.k) for one in target.mfmas(dtype) if not one.scaled)
    waves = (WAVES, 2 * WAVES)
    blocks = itertools.product(sorted({count * rows for count in waves for rows in QUERIES_PER_WAVE}), KEY_BLOCKS)
    return {"block": tuple(blocks), "waves": waves, "mfma": tuple(shapes), "schedule": tuple(SCHEDULES)}


def _sharing(schedule: str) -> int:
    """Waves of the workgroup that share a SIMD: groups that take turns, or two where arithmetic is woven between matrix
    instructions, so that one of them fills what waits of the other leave."""
    parsed = parse_schedule(SCHEDULES[schedule])
    return 2 if parsed.order == "weave" else parsed.groups


def _key_blocks(schedule: str, channels: int, parts: tuple[str, ...]) -> tuple[int, ...]:
    """The blocks of keys that leave enough registers, largest first: between fences all fragments that a phase reads
    are alive at once, and single elements of a bias take a register each. A woven loop takes the largest, whose
    products are long enough for what lies under them.
    """
    parsed = parse_schedule(SCHEDULES[schedule])
    if parsed.order == "weave":
        return KEY_BLOCKS[:1]
    fenced = any(isinstance(item, Fence) for item in parsed.step) and channels > MOST_BETWEEN_FENCES
    return KEY_BLOCKS[1:] if fenced or any(word in NARROW for word in parts) else KEY_BLOCKS


def _common_tile(*heads: int) -> int:
    """The channels of the tiles of all heads, 0 where these differ or none has so many."""
    tiles = {head_tile(channels) if 0 < channels <= HEAD_TILES[-1] else 0 for channels in heads}
    return tiles.pop() if len(tiles) == 1 else 0


def invalid_fields(spec: FmhaFwdSpec, target: Target) -> list[Reason]:
    """Why `target` cannot run this kernel; empty when it can."""
    reasons = [
        *not_a_choice(spec, dtype=DTYPES, mask=FORWARD_MASKS, schedule=tuple(SCHEDULES), edge=(TOGETHER, *EDGES),
                      order=tuple(ORDERS)),
        *not_powers_of_two(spec, "block", "waves"),
        *(
            Reason("sequences", spec.sequences, f"'{word}' is no choice", f"expected {'|'.join(SEQUENCES)}")
            for word in spec.sequences
            if word not in SEQUENCES
        ),
        *(not_powers_of_two(spec, "v_columns") if spec.v_columns else ()),
        *_channels(spec),
        *_output(spec),
    ]
    # Each group of checks relies on the ones before it.
    reasons = reasons or [
        *_matrix_instruction(spec, target), *_transposed_copies(spec, target), *_copied_columns(spec), *_drawn(spec),
        *_pieces(spec), *_whole_edge(spec),
        *copied_rows(spec.source, spec.block[1], {one: getattr(spec, one) for one in _copying(spec, "k", "v")}),
    ]  # fmt: skip
    return reasons or [reason for field in spec.loops for reason in excess(_resources(spec, field, target), target)]


def channel_multiple(dtype: str) -> int:
    """Channels of a head come in multiples of this, so that rows are whole vectors."""
    return ROW_BYTES // find_dtype(dtype).bytes


def _output(spec: FmhaFwdSpec) -> Iterator[Reason]:
    able = ("f32",) if spec.split else OUTPUTS.get(spec.dtype, (spec.out,))
    if spec.out not in able:
        what = "parts of O" if spec.split else f"O of {spec.dtype} attention"
        yield Reason("out", spec.out, f"{what} cannot have this type", f"expected {' or '.join(able)}")
    if spec.split and not spec.lse:
        yield Reason("lse", spec.lse, "parts of O are nothing without their LSE", "expected 1")


def _channels(spec: FmhaFwdSpec) -> Iterator[Reason]:
    if spec.dtype not in DTYPES:
        return
    multiple = channel_multiple(spec.dtype)
    for field in ("d", "dv"):
        channels = getattr(spec, field)
        if channels < 1 or channels % multiple or channels > HEAD_TILES[-1]:
            right = f"expected a multiple of {multiple} from {multiple} to {HEAD_TILES[-1]}"
            yield Reason(field, channels, "no tile holds so many channels in whole vectors", right)


def _matrix_instruction(spec: FmhaFwdSpec, target: Target) -> Iterator[Reason]:
    try:
        target.find_mfma(by(spec.mfma), spec.dtype)
    except TargetError as error:
        why, _, right = str(error).partition("; ")
        yield Reason("mfma", spec.mfma, why, right)
        return
    m, n, k = spec.mfma
    if spec.block[0] % (spec.waves * m):
        why = f"{spec.waves} waves of {m} queries do not divide {spec.block[0]}"
        yield Reason("block", spec.block, why, f"expected a multiple of {spec.waves * m} queries")
    if spec.block[1] % n or spec.block[1] % k:
        why = f"the matrix instruction takes {n} keys of K and {k} of V at a time"
        yield Reason("block", spec.block, why, f"expected a multiple of {max(n, k)} keys")
    for field, tile, step in (("d", spec.d_tile, k), ("dv", spec.dv_tile, n)):
        if tile % step:
            why = f"{step} does not divide the {tile} channels of {field}"
            yield Reason("mfma", spec.mfma, why, "expected a smaller shape")


def _transposed_copies(spec: FmhaFwdSpec, target: Target) -> Iterator[Reason]:
    """A copy leaves V in LDS as it lies in memory; keys, along which lanes hold vectors, are neighbours in columns
    only."""
    right = "expected qr_async, which copies K only"
    for field in _copying(spec, "v") if not spec.v_columns else ():
        value = getattr(spec, field)
        if find_dtype(spec.dtype).bytes != 2:
            yield Reason(field, value, f"V of {spec.dtype} is not transposed when it is read from LDS", right)
        elif not target.has("lds_transpose_read"):
            why = f"V goes to LDS as it lies in memory, and {target.name} has no reads of LDS that transpose"
            yield Reason(field, value, why, right)


def _copying(spec: FmhaFwdSpec, *tensors: str) -> list[str]:
    """The fields whose schedules copy one of these to LDS without registers."""
    paths = {field: [parse_schedule(text).path_of(one) for one in tensors] for field, text in spec.loops.items()}
    return [field for field in paths if "direct" in paths[field]]


def _copied_columns(spec: FmhaFwdSpec) -> Iterator[Reason]:
    """Copies of a lane are of 4 bytes at least."""
    if spec.v_columns and spec.v_columns * find_dtype(spec.dtype).bytes < SMALLEST_COPY:
        for field in _copying(spec, "v"):
            why = "V goes to LDS without registers, and its columns are no vectors of 4 bytes"
            right = "expected qr_async, which copies K only, or even lengths"
            yield Reason(field, getattr(spec, field), why, right)


def _drawn(spec: FmhaFwdSpec) -> Iterator[Reason]:
    """Dropout draws for blocks of 32 x 32, of which a wave has one row."""
    if not any(word.startswith("dropout") for word in spec.parts):
        return
    if spec.mfma[0] != DRAWN:
        yield Reason("mfma", spec.mfma, "dropout draws for the elements of 32 queries and 32 keys", "expected 32x32")
    elif spec.block[0] != DRAWN * spec.waves:
        right = f"expected {DRAWN * spec.waves} queries"
        yield Reason("block", spec.block, "dropout draws for a block of 32 queries a wave", right)


def _pieces(spec: FmhaFwdSpec) -> Iterator[Reason]:
    """Pieces of arithmetic become whole registers, so that what is woven stays in its place."""
    size = find_dtype(spec.dtype).bytes
    for field, text in spec.loops.items():
        schedule = parse_schedule(text)
        elements = schedule.elements
        if why := leads_too_far(schedule, (spec.d_tile, spec.dv_tile), spec.mfma[2]):
            yield Reason(field, getattr(spec, field), why, f"expected {DEFAULT}")
        if elements * size % 4:
            why = f"it makes weights {elements} at a time, which fill no register in {spec.dtype}"
            yield Reason(field, getattr(spec, field), why, f"expected {DEFAULT}")


def _whole_edge(spec: FmhaFwdSpec) -> Iterator[Reason]:
    if spec.split and spec.order != RISING:
        yield Reason("order", spec.order, "parts of a block's keys follow each other in the grid", f"expected {RISING}")
    if spec.edge != TOGETHER and not spec.cuts:
        yield Reason("edge", spec.edge, "without a mask no block of keys is cut where all are whole", "expected none")


def _resources(spec: FmhaFwdSpec, field: str, target: Target) -> Resources:
    """What the loop with the schedule of a field takes: rotating buffers of K and V in LDS; accumulators of S and O, P,
    Q, loads of K and V in flight, and an operand."""
    queries, keys = spec.block
    size = find_dtype(spec.dtype).bytes
    threads = spec.waves * target.wave_size
    schedule = parse_schedule(spec.loops[field])
    name, value = ("block", spec.block) if field == "schedule" else (field, spec.edge)
    shared = {"k": keys * spec.d_tile * size, "v": keys * spec.dv_tile * size}
    moving = sum(held for tensor, held in shared.items() if schedule.path_of(tensor) == "through")
    output, scores = (queries * columns // threads for columns in (spec.dv_tile, keys))
    tiles = (queries * (keys + spec.d_tile) * size + moving) // threads // 4
    lds = sum(schedule.buffers_of(tensor) * held for tensor, held in shared.items())
    if schedule.order == "weave":
        # Of K and V as far as reads lead, scores of two blocks of keys, what is loaded beside what is written to LDS.
        operand = 2 * schedule.lead * spec.mfma[1] * spec.mfma[2] * size // target.wave_size // 4
        need = output + 2 * scores + tiles + moving // threads // 4 + operand + woven_registers(spec.parts)
        return Resources(name, value, threads, lds, output, need, pinned=True)
    operand = keys * max(spec.d_tile, spec.dv_tile) * size // target.wave_size // 4  # every wave reads all of K, then V
    need = output + scores + tiles + operand
    return Resources(name, value, threads, lds, output, need, pinned=schedule.elements > 0)
